package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/schemas"
)

// TestLoad_GatewayClients has a hundred clients call two servers while the thread is edited every second: a third one comes and goes, and one
// of those that are called is replaced. No call fails, and every client hears of each change.
func TestLoad_GatewayClients(t *testing.T) {
	long(t)
	const clients, edits = 100, 5
	h, origin, token := lender(t, "fakemcp")
	srv := httptest.NewServer(h.Gateway.Handler())
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	origin.Store(srv.URL)
	who := schemas.Caller{Thread: "t1", Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	give(t, h, who, "replaced", "fakemcp")
	if err := h.Registry.Apply(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &crowd{t: t, at: srv.URL + "/gateway/t1/mcp", token: token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}}}
	t.Cleanup(c.http.CloseIdleConnections)
	var wg sync.WaitGroup
	for n := range clients {
		session := c.open(n)
		wg.Go(func() { c.listen(ctx, session) })
		wg.Go(func() { c.call(ctx, n, session) })
	}
	for n := range edits {
		time.Sleep(time.Second)
		edit := schemas.Edit{Remove: []string{"guest"}, Source: "test"}
		if n%2 == 0 {
			give(t, h, who, "guest", "fakemcp")
		} else if p, err := h.Store.Propose(ctx, who, edit); err != nil {
			t.Error(err)
		} else if _, err := h.Store.Commit(ctx, who, p); err != nil {
			t.Error(err)
		}
		give(t, h, who, "replaced", "fakemcp", "slow", fmt.Sprint(n)) // slow to start, by so many ms
		if err := h.Registry.Apply(ctx, "t1"); err != nil {
			t.Error(err)
		}
	}
	heard := eventually(10*time.Second, func() bool { return c.heard.Load() >= clients*edits })
	cancel()
	wg.Wait()
	t.Logf("%d clients, %d edits: %d calls, %d failed, %d notifications of %d", clients, edits, c.calls.Load(), c.failed.Load(), c.heard.Load(), clients*edits)
	if c.failed.Load() > 0 || c.calls.Load() < 10*clients || !heard {
		t.Error("calls failed, or clients did not hear of changes")
	}
}

// crowd is many clients of one gateway.
type crowd struct {
	t                    *testing.T
	at, token            string
	http                 *http.Client
	calls, failed, heard atomic.Int64
}

func (c *crowd) send(ctx context.Context, method, session, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.at, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	return c.http.Do(req)
}

func (c *crowd) open(n int) string {
	c.t.Helper()
	resp, err := c.send(c.t.Context(), "POST", "", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c%d","version":"1"}}}`, n))
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.Header.Get("Mcp-Session-Id")
}

func (c *crowd) listen(ctx context.Context, session string) {
	resp, err := c.send(ctx, "GET", session, "")
	if err != nil {
		if ctx.Err() == nil {
			c.t.Error(err)
		}
		return
	}
	defer func() { _ = resp.Body.Close() }()
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if strings.Contains(in.Text(), "tools/list_changed") {
			c.heard.Add(1)
		}
	}
}

func (c *crowd) call(ctx context.Context, n int, session string) {
	for i := 0; ctx.Err() == nil; i++ {
		server, words := []string{"suite", "replaced"}[i%2], fmt.Sprintf("client %d call %d", n, i)
		resp, err := c.send(ctx, "POST", session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ext_%s_echo","arguments":{"message":%q}}}`, i+10, server, words))
		if err != nil {
			if ctx.Err() == nil {
				c.t.Error(err)
			}
			return
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if ctx.Err() != nil {
			return
		}
		c.calls.Add(1)
		if err != nil || !bytes.Contains(body, []byte("Echo: "+words)) {
			if c.failed.Add(1) < 5 {
				c.t.Errorf("%v %s", err, body)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
