package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bobbin/bot"
)

// stream reads the events of a thread.
type stream struct {
	res *http.Response
	in  *bufio.Reader
}

func listen(t *testing.T, s *site, c *http.Client, last string) *stream {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.url("/api/threads/web-default/events"), nil)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != 200 {
		t.Fatalf("events: %d", res.StatusCode)
	}
	return &stream{res, bufio.NewReader(res.Body)}
}

func (s *stream) next(t *testing.T) (id, kind, data string) {
	t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		k, v, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		switch {
		case k == "id":
			id = v
		case k == "event":
			kind = v
		case k == "data":
			data = v
		case line == "\n" && kind != "":
			return id, kind, data
		}
	}
}

func TestEvents_Resume(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	a := listen(t, s, c, "")
	if _, kind, data := a.next(t); kind != "history" || data != `{"entries":[]}` {
		t.Fatalf("first event %s %s", kind, data)
	}
	if code, _, _ := do(t, c, "POST", s.url(requests), `{"text":"one","tag":"t1"}`); code != 200 {
		t.Fatal(code)
	}
	first, kind, data := a.next(t)
	if kind != "entry" || !strings.Contains(data, `"text":"one"`) {
		t.Fatalf("%s %s", kind, data)
	}
	if _, _, data := a.next(t); !strings.Contains(data, `"pending":true`) || !strings.Contains(data, `"tag":"t1"`) {
		t.Fatalf("want the pending reply, got %s", data)
	}
	if _, _, data := a.next(t); !strings.Contains(data, "no model is set") {
		t.Fatalf("want the reply, got %s", data)
	}
	// A stream that ended after the first event gets the two others, and nothing twice.
	b := listen(t, s, c, first)
	if _, _, data := b.next(t); !strings.Contains(data, `"pending":true`) {
		t.Errorf("resumed with %s", data)
	}
	if _, _, data := b.next(t); !strings.Contains(data, "no model is set") {
		t.Errorf("resumed with %s", data)
	}
	// An id of another life gets everything.
	for _, id := range []string{"", "zzz-1", "x", first[:strings.Index(first, "-")] + "-999999"} {
		if _, kind, data := listen(t, s, c, id).next(t); kind != "history" || !strings.Contains(data, `"text":"one"`) {
			t.Errorf("%q: %s %s", id, kind, data)
		}
	}
	if _, kind, _ := b.next(t); kind != "board" {
		t.Errorf("want board after a request, got %s", kind)
	}
	s.tick <- struct{}{}
	if _, kind, _ := b.next(t); kind != "board" {
		t.Errorf("want board after a tick, got %s", kind)
	}
	s.notify(t, bot.Notice{Thread: "web-default", Changed: true, Reply: bot.Reply{Blocks: []bot.Block{{Text: "mcp.json was edited outside of chat"}}}})
	if _, kind, _ := b.next(t); kind != "board" {
		t.Errorf("want board, got %s", kind)
	}
	if _, _, data := b.next(t); !strings.Contains(data, "edited outside") {
		t.Errorf("want the notice, got %s", data)
	}
}

func TestEvents_TooFarBehindGetsHistory(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	a := listen(t, s, c, "")
	id, _, _ := a.next(t)
	for i := range 120 {
		do(t, c, "POST", s.url(requests), fmt.Sprintf(`{"text":"n%d"}`, i))
	}
	_, kind, data := listen(t, s, c, id).next(t)
	var h struct{ Entries []json.RawMessage }
	if err := json.Unmarshal([]byte(data), &h); err != nil || kind != "history" {
		t.Fatalf("%s %v", kind, err)
	}
	if len(h.Entries) != 200 || !strings.Contains(string(h.Entries[199]), "no model") {
		t.Errorf("%d entries kept", len(h.Entries))
	}
}

func TestEvents_BoundedClients(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	for range 16 {
		listen(t, s, c, "").next(t)
	}
	if code, body, _ := do(t, c, "GET", s.url("/api/threads/web-default/events"), ""); code != 503 || !strings.Contains(body, "too many pages") {
		t.Errorf("%d %s", code, body)
	}
}

func TestRequest_SurvivesThePageAndCanBeStopped(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	began, let := make(chan struct{}), make(chan struct{})
	s.reply = func(ctx context.Context, req bot.Request) bot.Reply {
		req.Progress("half way")
		close(began)
		select {
		case <-let:
			return bot.Reply{Blocks: []bot.Block{{Text: "went on"}}}
		case <-ctx.Done():
			return bot.Reply{Blocks: []bot.Block{{Text: "was stopped"}}}
		}
	}
	a := listen(t, s, c, "")
	a.next(t)
	wait := func(text string) {
		t.Helper()
		for range 10 {
			if _, _, data := a.next(t); strings.Contains(data, text) {
				return
			}
		}
		t.Fatalf("%q never came", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", s.url(requests), strings.NewReader(`{"text":"long"}`))
	req.Header.Set("Content-Type", "application/json")
	gone := make(chan error, 1)
	go func() {
		res, err := c.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		gone <- err
	}()
	<-began
	wait("half way")
	cancel()
	if err := <-gone; err == nil {
		t.Fatal("the page did not leave")
	}
	close(let)
	wait("went on")

	began = make(chan struct{})
	let = nil
	go func() { _, _, _ = do(t, c, "POST", s.url(requests), `{"text":"long"}`); gone <- nil }()
	<-began
	if code, _, _ := do(t, c, "DELETE", s.url(requests+"/4"), ""); code != 204 {
		t.Errorf("stop: %d", code)
	}
	wait("was stopped")
	<-gone
}

func TestRequest_OneAtATimeButAnswersGoAhead(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	asks, yes := make(chan struct{}), make(chan struct{})
	s.reply = func(_ context.Context, req bot.Request) bot.Reply {
		if req.Action != nil {
			close(yes)
			return bot.Reply{}
		}
		if req.Text == "first" {
			close(asks)
			<-yes
		}
		return bot.Reply{Blocks: []bot.Block{{Text: "done " + req.Text}}}
	}
	done := make(chan string, 2)
	go func() { _, b, _ := do(t, c, "POST", s.url(requests), `{"text":"first"}`); done <- b }()
	<-asks
	go func() { _, b, _ := do(t, c, "POST", s.url(requests), `{"text":"second"}`); done <- b }()
	if code, _, _ := do(t, c, "POST", s.url(requests), `{"action":{"id":"x","choice":"once"}}`); code != 200 {
		t.Fatal(code)
	}
	if a, b := <-done, <-done; !strings.Contains(a+b, "done first") || !strings.Contains(a+b, "done second") {
		t.Errorf("%s %s", a, b)
	}
}
