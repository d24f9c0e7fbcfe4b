package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/internal/durable"
	"bobbin/internal/jsonscan"
	"bobbin/schemas"
)

const (
	maxAnswer  = 16 << 20 // bytes of one message from the gateway
	maxRequest = 256      // at once
	firstTry   = time.Second
	lastTry    = 30 * time.Second
)

// Bridge serves one client on a pair of streams by way of the bobbin that serves the data folder already, whose gateway folder dir is. It
// returns false, and has read nothing, when there is none on this machine.
func Bridge(ctx context.Context, dir *durable.Dir, caller schemas.Caller, server string, in io.Reader, out io.Writer) (bool, error) {
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}}
	defer web.CloseIdleConnections()
	origin, key := nearby(ctx, dir, web)
	if origin == "" {
		return false, nil
	}
	at := origin + "/gateway/" + url.PathEscape(string(caller.Thread))
	if server != "" {
		at += "/servers/" + url.PathEscape(server)
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &bridge{at: at + "/mcp", key: key, caller: caller, web: web, out: out, end: cancel, under: map[string]context.CancelFunc{}, slots: make(chan struct{}, maxRequest)}
	err := b.read(ctx, in)
	b.drain()
	cancel()
	b.wg.Wait()
	return true, err
}

// bridge passes lines to streamable HTTP and what comes back to lines.
type bridge struct {
	at     string
	key    []byte
	caller schemas.Caller
	web    *http.Client
	end    context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{}

	writing sync.Mutex
	out     io.Writer

	mu      sync.Mutex
	session string
	version string
	under   map[string]context.CancelFunc // requests of 2026-07-28, which end with their connection
}

func (b *bridge) send(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	jsonscan.OneLine(line)
	b.writing.Lock()
	defer b.writing.Unlock()
	if _, err := b.out.Write(append(slices.Clip(line), '\n')); err != nil {
		b.end()
	}
}

// drain gives what was asked for before the client closed its end a moment to be answered.
func (b *bridge) drain() {
	over := time.NewTimer(drainWait)
	defer over.Stop()
	for range maxRequest {
		select {
		case b.slots <- struct{}{}:
		case <-over.C:
			return
		}
	}
}

func (b *bridge) read(ctx context.Context, in io.Reader) error {
	lines := lineReader(ctx, in)
	for {
		select {
		case l := <-lines:
			if l.err == io.EOF {
				return nil
			} else if l.err != nil {
				return l.err
			}
			b.take(ctx, l.text)
		case <-ctx.Done():
			return nil
		}
	}
}

// take passes one message on. A handshake is waited for, since what follows needs it; so is what has no answer, to keep its order.
func (b *bridge) take(ctx context.Context, raw []byte) {
	m, err := read(raw)
	if err != nil {
		b.send(wrong(codeInvalid, "this is not one JSON-RPC message").frame(nil, nil))
		return
	}
	switch {
	case m.Method == "notifications/cancelled" && b.cancelled(m):
	case !m.request() || m.Method == "initialize":
		b.pass(ctx, m, raw)
	default:
		select {
		case b.slots <- struct{}{}:
		default:
			b.send(wrong(codeServer, "too many requests are under way; it did not run").frame(nil, m.ID))
			return
		}
		b.wg.Go(func() {
			defer func() { <-b.slots }()
			b.pass(ctx, m, raw)
		})
	}
}

// cancelled ends the connection of a request of 2026-07-28, which is how it is taken back over HTTP.
func (b *bridge) cancelled(m *message) bool {
	var in struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &in) != nil {
		return false
	}
	b.mu.Lock()
	cancel := b.under[string(in.ID)]
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

func (b *bridge) request(ctx context.Context, method string, m *message, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("Authorization", "Bearer "+newTicket(b.key, b.caller, time.Now()))
	h.Set("Accept", "application/json, text/event-stream")
	b.mu.Lock()
	session, version := b.session, b.version
	b.mu.Unlock()
	if m != nil {
		h.Set("Content-Type", "application/json")
	}
	if m != nil && (m.params.Meta.Version != nil || m.Method == "server/discover") {
		if v := m.params.Meta.Version; v != nil {
			h.Set("Mcp-Protocol-Version", *v)
		}
		h.Set("Mcp-Method", m.Method)
		if name := m.params.Name + m.params.URI; name != "" {
			h.Set("Mcp-Name", "=?base64?"+base64.StdEncoding.EncodeToString([]byte(name))+"?=")
		}
		return req, nil
	}
	if session != "" && (m == nil || m.Method != "initialize") {
		h.Set("Mcp-Session-Id", session)
		h.Set("Mcp-Protocol-Version", version)
	}
	return req, nil
}

// pass posts one message and writes what comes back.
func (b *bridge) pass(ctx context.Context, m *message, raw []byte) {
	if m.params.Meta.Version != nil && m.request() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		b.mu.Lock()
		b.under[string(m.ID)] = cancel
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			delete(b.under, string(m.ID))
			b.mu.Unlock()
		}()
	}
	req, err := b.request(ctx, http.MethodPost, m, raw)
	var resp *http.Response
	if err == nil {
		resp, err = b.web.Do(req)
	}
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		if m.Method == "initialize" && resp.Header.Get("Mcp-Session-Id") != "" {
			err = b.greeted(ctx, resp)
		} else {
			err = b.back(resp)
		}
	}
	if err != nil && ctx.Err() == nil && m.request() {
		b.send(wrong(codeServer, "bobbin serve does not answer; whether it ran is unknown").frame(nil, m.ID))
	}
}

// greeted passes on the answer to initialize and listens to the session's own stream.
func (b *bridge) greeted(ctx context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	var in struct {
		Result struct {
			Version string `json:"protocolVersion"`
		}
	}
	_ = json.Unmarshal(body, &in)
	b.mu.Lock()
	first := b.session == ""
	b.session, b.version = resp.Header.Get("Mcp-Session-Id"), in.Result.Version
	b.mu.Unlock()
	b.send(body)
	if first {
		b.wg.Go(func() { b.listen(ctx) })
	}
	return nil
}

// back writes what a response holds: one message, or a stream of them.
func (b *bridge) back(resp *http.Response) error {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch kind {
	case "application/json":
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err == nil {
			b.send(body)
		}
		return err
	case "text/event-stream":
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, maxAnswer)
		for in.Scan() {
			if data, ok := bytes.CutPrefix(in.Bytes(), []byte("data:")); ok { // ours are on one line each
				b.send(data)
			}
		}
		return in.Err()
	}
	if resp.StatusCode >= 300 {
		return errors.New(resp.Status)
	}
	return nil
}

// listen keeps the session's own stream open, also over a restart of the other bobbin.
func (b *bridge) listen(ctx context.Context) {
	for pause := firstTry; ctx.Err() == nil; pause = min(2*pause, lastTry) {
		req, err := b.request(ctx, http.MethodGet, nil, nil)
		if err != nil {
			return
		}
		if resp, err := b.web.Do(req); err == nil {
			if resp.StatusCode == http.StatusOK {
				pause = firstTry
				_ = b.back(resp)
			}
			_ = resp.Body.Close()
		}
		wait(ctx, pause)
	}
}
