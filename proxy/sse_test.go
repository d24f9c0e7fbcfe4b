package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// old is a client of 2024-11-05: it posts to the place that its stream names, and hears everything there.
type old struct {
	w     *world
	place string
	heard <-chan string
}

func (w *world) old(ctx context.Context, name string) *old {
	w.t.Helper()
	resp := w.begin(ctx, "GET", "/servers/"+name+"/sse", "", "Accept", "text/event-stream")
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	c := &old{w: w, heard: listen(w.t, resp.Body)}
	if c.place = hear(w.t, c.heard); !strings.HasPrefix(c.place, "/servers/"+name+"/message?sessionId=") {
		w.t.Fatalf("the place is %s", c.place)
	}
	return c
}

func (c *old) post(body string) {
	c.w.t.Helper()
	if a := c.w.do("POST", c.place, body); a.status != 202 {
		c.w.t.Errorf("%d %s", a.status, a.body)
	}
}

func TestSSE_ManyClients(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	var all sync.WaitGroup
	for i := range 8 {
		c := w.old(t.Context(), "a")
		all.Go(func() {
			c.post(hello)
			if got := hear(t, c.heard); !strings.Contains(got, `"id":"h"`) || !strings.Contains(got, "serverInfo") {
				t.Errorf("%s", got)
			}
			c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			for n := range 10 {
				id := fmt.Sprint(n)
				c.post(request(id, "echo", map[string]any{"text": fmt.Sprintf("%d for %d", n, i)}))
				if got := text(t, hear(t, c.heard), id); got != fmt.Sprintf("%d for %d", n, i) {
					t.Errorf("%q", got)
				}
			}
			c.post(`{"jsonrpc":"2.0","id":"p","method":"tools/call","params":{"name":"progress","arguments":{"n":2},"_meta":{"progressToken":7}}}`)
			for n := range 2 {
				if got := hear(t, c.heard); !strings.Contains(got, fmt.Sprintf(`"progressToken":7,"progress":%d`, n+1)) {
					t.Errorf("%s", got)
				}
			}
			if got := text(t, hear(t, c.heard), `"p"`); got != "done" {
				t.Errorf("%q", got)
			}
		})
	}
	all.Wait()
}

func TestSSE_Questions(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	c := w.old(t.Context(), "a")
	c.post(hello)
	hear(t, c.heard)
	c.post(request("1", "ask", map[string]any{"text": "who?"}))
	question := hear(t, c.heard)
	id, _, _ := strings.Cut(strings.TrimPrefix(question, `{"jsonrpc":"2.0","id":`), ",")
	c.post(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"decline"}}`)
	if got := text(t, hear(t, c.heard), "1"); !strings.Contains(got, "decline") {
		t.Errorf("%q", got)
	}
}

func TestSSE_Ends(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	ctx, cancel := context.WithCancel(t.Context())
	c := w.old(ctx, "a")
	c.post(hello)
	hear(t, c.heard)
	c.post(request("1", "wait", map[string]any{"text": "here"}))
	until(t, "the call is under way", func() bool { return strings.Contains(w.status("a").Stderr, "waits here") })
	cancel()
	until(t, "the server heard that the client left", func() bool { return strings.Contains(w.status("a").Stderr, "cancelled here") })
	until(t, "the session is over", func() bool { return w.do("POST", c.place, hello).status == 404 })
	// A session of one kind is none of the other.
	modern := w.connect("a")
	if a := w.do("POST", "/servers/a/message?sessionId="+modern.session, hello); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	c = w.old(t.Context(), "a")
	_, id, _ := strings.Cut(c.place, "=")
	if a := w.do("POST", "/servers/a/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("POST", "/servers/a/sse", hello); a.status != 405 {
		t.Errorf("POST: %d %s", a.status, a.body)
	}
	// A crash is told on the stream.
	c.post(hello)
	hear(t, c.heard)
	c.post(request("9", "exit", map[string]any{"n": 1}))
	if got := text(t, hear(t, c.heard), "9"); got != "error: the server ended before it answered; whether the call ran is not known" {
		t.Errorf("%q", got)
	}
	w.do("DELETE", "/servers/a", "")
	for range c.heard { // the stream ends with the server
	}
}
