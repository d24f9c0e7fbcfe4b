package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/gateway"
	"bobbin/internal/durable"
)

// bridged is a client on a pair of streams, by way of the bobbin that serves the folder.
func bridged(t *testing.T, h *house) (say func(string), heard <-chan string, hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	announced := make(chan error, 1)
	go func() { announced <- h.Announce(ctx, h.url) }()
	until(t, func() bool { _, err := os.Stat(filepath.Join(h.dir, "serving.json")); return err == nil })
	dir, err := durable.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	back, answers := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		served, err := gateway.Bridge(ctx, dir, ann, "", in, answers)
		if !served || err != nil {
			t.Errorf("served %t, %v", served, err)
		}
		_ = answers.Close()
	}()
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(back); s.Scan(); {
			lines <- s.Text()
		}
	}()
	hangUp = func() { _ = out.Close(); <-ended }
	t.Cleanup(func() {
		hangUp()
		cancel()
		if err := <-announced; err != nil {
			t.Error(err)
		}
		_ = back.Close()
	})
	return func(line string) {
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}, lines, hangUp
}

func TestBridge(t *testing.T) {
	h := start(t, nil)
	say, heard, hangUp := bridged(t, h)
	beside := startIn(t, h.dir, newThread(), func(o *gateway.Options) { o.Origin = nil })
	if got := beside.URL("t1"); got != h.url+"/gateway/t1/mcp" {
		t.Errorf("another process gives %q", got)
	}
	say(strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	if s := next(t, heard); !strings.Contains(s, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("%s", s)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_s_ask"}}`)
	q := next(t, heard)
	_, id, _ := strings.Cut(q, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"decline"}}`)
	if s := next(t, heard); !strings.Contains(s, `"id":2,`) || !strings.Contains(s, "decline") {
		t.Errorf("%s", s)
	}
	say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ext_s_wait"}}`)
	<-h.thread.began
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	if err := <-h.thread.ended; err == nil {
		t.Error("it went on")
	}
	until(t, func() bool { return h.thread.watched() == 1 })
	time.Sleep(20 * time.Millisecond)
	h.thread.change(tool("s", "new"))
	if s := next(t, heard); !strings.Contains(s, "tools/list_changed") {
		t.Errorf("%s", s)
	}
	say(since(5, "tools/call", `"name":"ext_s_wait"`, "{}"))
	<-h.thread.began
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	if err := <-h.thread.ended; err == nil {
		t.Error("it went on")
	}
	say(since(6, "server/discover", "", "{}"))
	say(`{"jsonrpc":"2.0","id":7,"method":"no/such"}`)
	hangUp() // what was asked for is answered
	rest := ""
	for s := range heard {
		rest += s + "\n"
	}
	if !strings.Contains(rest, "supportedVersions") || !strings.Contains(rest, "-32601") {
		t.Errorf("%s", rest)
	}
	got := h.thread.calls[0].Caller
	if got.Member != "ann" || got.Thread != "t1" || got.Door != "gateway" || got.Operator {
		t.Errorf("%+v", got)
	}
}

// Nobody but the bobbin of the data folder, at the very address that is written down, is given anything.
func TestBridge_OnlyToOurs(t *testing.T) {
	h := start(t, nil)
	secret := h.token(ann) // makes the key
	_ = secret
	dir, err := durable.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 16)
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization") + r.URL.Path
		resp, err := http.Get(h.url + r.URL.String()) // relays the question to the real one
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(w, resp.Body)
	}))
	defer thief.Close()
	for name, origin := range map[string]string{"a relay": thief.URL, "nobody": "http://127.0.0.1:1", "elsewhere": "https://evil.example.com", "a name": "http://evil.example.com"} {
		if err := dir.Write("serving.json", []byte(`{"origin":"`+origin+`"}`)); err != nil {
			t.Fatal(err)
		}
		served, err := gateway.Bridge(t.Context(), dir, ann, "", strings.NewReader(hello), io.Discard)
		if served || err != nil {
			t.Errorf("%s: served %t, %v", name, served, err)
		}
	}
	close(seen)
	for s := range seen {
		if s != "/api/mcp/proof" {
			t.Errorf("the relay got %s", s)
		}
	}
	for name, ticket := range map[string]string{
		"nonsense": "bobbin-local.x", "no end": "bobbin-local.eyJ9.", "another's": "bobbin-local.eyJ0aHJlYWQiOiJ0MSIsIm1lbWJlciI6ImFubiIsInVudGlsIjo5OTk5OTk5OTk5fQ.AAAA",
	} {
		if code, _, _ := post(t, h.url+"/gateway/t1/mcp", ticket, hello); code != 401 {
			t.Errorf("%s: %d", name, code)
		}
	}
}
