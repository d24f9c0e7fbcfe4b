package gateway_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"bobbin/gateway"
)

// heard is an event with its id.
type heard struct{ id, data string }

// stream opens one of a session's; drop breaks its connection.
func (s *handmade) stream(method, body string, head ...string) (got <-chan heard, status int, drop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	resp := open(s.t, ctx, method, s.at, s.token, body, append([]string{"Mcp-Session-Id", s.id}, head...)...)
	ch := make(chan heard, 64)
	go func() {
		defer close(ch)
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 8<<20)
		id := ""
		for in.Scan() {
			if v, ok := strings.CutPrefix(in.Text(), "id: "); ok {
				id = v
			}
			if v, ok := strings.CutPrefix(in.Text(), "data:"); ok {
				ch <- heard{id, strings.TrimSpace(v)}
			}
		}
	}()
	drop = func() {
		cancel()
		_ = resp.Body.Close()
		for range ch { // until its end
		}
	}
	s.t.Cleanup(drop)
	return ch, resp.StatusCode, drop
}

func nextHeard(t *testing.T, ch <-chan heard) heard {
	t.Helper()
	select {
	case e, ok := <-ch:
		if !ok {
			t.Fatal("the stream ended")
		}
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
	}
	return heard{}
}

func ended(t *testing.T, ch <-chan heard) {
	t.Helper()
	select {
	case e, ok := <-ch:
		if ok {
			t.Errorf("more came: %+v", e)
		}
	case <-time.After(10 * time.Second):
		t.Error("the stream does not end")
	}
}

const slow = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ext_s_slow","_meta":{"progressToken":"p"}}}`

// A client whose connection breaks in the middle of a call hears the rest on another one, as often as it likes.
func TestTrail_Call(t *testing.T) {
	h := start(t, nil)
	s := h.session(ann, "{}")
	got, _, drop := s.stream("POST", slow)
	first := nextHeard(t, got)
	if first.id == "" || !strings.Contains(first.data, `"progress":1`) {
		t.Fatalf("%+v", first)
	}
	drop()
	early, _, _ := s.stream("GET", "", "Last-Event-ID", first.id) // the call goes on
	close(h.thread.hold)
	<-h.thread.ended
	for n, from := range []string{"", first.id} {
		if n == 1 {
			early, _, _ = s.stream("GET", "", "Last-Event-ID", from)
		}
		second, answer := nextHeard(t, early), nextHeard(t, early)
		if !strings.Contains(second.data, `"progress":2`) || !strings.HasPrefix(answer.data, `{"jsonrpc":"2.0","id":5,"result":`) || second.id == answer.id {
			t.Errorf("%+v %+v", second, answer)
		}
		ended(t, early)
		last, status, _ := s.stream("GET", "", "Last-Event-ID", answer.id)
		if status != 200 {
			t.Errorf("after the answer: %d", status)
		}
		ended(t, last)
	}
	other := h.session(ann, "{}")
	for name, c := range map[string]struct {
		*handmade
		id   string
		want int
	}{
		"another session": {other, first.id, 400}, "a number that was not": {s, first.id + "9", 400}, "nonsense": {s, "x", 400}, "a stream that was not": {s, "x" + first.id, 400},
		"another token": {&handmade{h, s.at, other.token, s.id}, first.id, 404},
	} {
		if _, status, _ := c.stream("GET", "", "Last-Event-ID", c.id); status != c.want {
			t.Errorf("%s: %d", name, status)
		}
	}
	s.t = t
	if code, _, _ := send(t, "DELETE", s.at, s.token, "", "Mcp-Session-Id", s.id); code != 204 {
		t.Fatal(code)
	}
	if _, status, _ := s.stream("GET", "", "Last-Event-ID", first.id); status != 404 {
		t.Errorf("after the session's end: %d", status)
	}
}

// A client of 2025-11-25 can come back for a call that says nothing for long; older ones would trip over the event that lets them.
func TestTrail_Primed(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Quiet = 50 * time.Millisecond })
	s := h.session(ann, "{}")
	got, _, drop := s.stream("POST", strings.Replace(slow, "slow", "wait", 1))
	<-h.thread.began
	first := nextHeard(t, got)
	if first.id == "" || first.data != "" {
		t.Fatalf("%+v", first)
	}
	drop()
	close(h.thread.hold)
	<-h.thread.ended
	rest, _, _ := s.stream("GET", "", "Last-Event-ID", first.id)
	if e := nextHeard(t, rest); !strings.Contains(e.data, "waited") {
		t.Errorf("%+v", e)
	}
	ended(t, rest)
}

// What is too much to keep is refused, and so is what 2026-07-28 does not know.
func TestTrail_Refused(t *testing.T) {
	h := start(t, nil)
	close(h.thread.hold)
	s := h.session(ann, "{}")
	h.thread.raw(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 3<<20) + `"}]}`)
	got, _, _ := s.stream("POST", slow)
	first := nextHeard(t, got)
	for range got { // until its end
	}
	if _, status, _ := s.stream("GET", "", "Last-Event-ID", first.id); status != 400 {
		t.Errorf("too much: %d", status)
	}
	resp := open(t, t.Context(), "POST", s.at, s.token, since(1, "tools/call", `"name":"ext_s_echo"`, "{}"), "Mcp-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "ext_s_echo", "Last-Event-ID", first.id)
	defer func() { _ = resp.Body.Close() }()
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if strings.HasPrefix(in.Text(), "id:") {
			t.Errorf("since 2026: %s", in.Text())
		}
	}
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%d", resp.StatusCode)
	}
}

// A session's own stream that comes back says what it would have said meanwhile; where that is not known, everything may have changed.
func TestTrail_Own(t *testing.T) {
	h := start(t, nil)
	s := h.session(ann, "{}")
	if _, body := s.say(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`); !strings.Contains(body, `"result":{}`) {
		t.Fatal(body)
	}
	got, _, drop := s.stream("GET", "")
	until(t, func() bool { return h.thread.watched() == 1 })
	h.thread.change(tool("s", "one"))
	first := nextHeard(t, got)
	if first.id == "" || !strings.Contains(first.data, "tools/list_changed") {
		t.Fatalf("%+v", first)
	}
	drop()
	until(t, func() bool { return h.thread.watched() == 0 })
	h.thread.change(tool("s", "two"))
	h.thread.follows[0] <- struct{}{}
	time.Sleep(20 * time.Millisecond) // it arrives while nobody listens
	for name, head := range map[string][]string{"by the last id": {"Last-Event-ID", first.id}, "by that again": {"Last-Event-ID", first.id}} {
		again, _, drop := s.stream("GET", "", head...)
		seen := nextHeard(t, again).data + nextHeard(t, again).data
		if !strings.Contains(seen, "resources/updated") || !strings.Contains(seen, "tools/list_changed") {
			t.Errorf("%s: %s", name, seen)
		}
		drop()
		until(t, func() bool { return h.thread.watched() == 0 })
	}
	quiet, _, drop := s.stream("GET", "")
	until(t, func() bool { return h.thread.watched() == 1 })
	select {
	case e := <-quiet:
		t.Errorf("said again: %+v", e)
	case <-time.After(50 * time.Millisecond):
	}
	drop()
	lost, _, _ := s.stream("GET", "", "Last-Event-ID", "ownELSEWHERE-7") // of the session before a restart
	seen := ""
	for range 4 {
		seen += nextHeard(t, lost).data
	}
	for _, want := range []string{"tools/list_changed", "resources/list_changed", "prompts/list_changed", "resources/updated"} {
		if !strings.Contains(seen, want) {
			t.Errorf("no %s in %s", want, seen)
		}
	}
}
