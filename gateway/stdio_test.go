package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"bobbin/schemas"
)

// piped is a client on a pair of streams.
func piped(t *testing.T, h *house) (say func(string), heard <-chan string, done <-chan error, hangUp func()) {
	in, out := io.Pipe()
	back, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- h.Stdio(context.WithoutCancel(t.Context()), ann, "", in, answers)
		_ = answers.Close()
	}()
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(back)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = out.Close(); _ = back.Close() })
	return func(line string) {
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}, lines, ended, func() { _ = out.Close() }
}

func TestStdio(t *testing.T) {
	h := start(t, nil)
	say, heard, done, hangUp := piped(t, h)
	say("nonsense")
	if s := next(t, heard); !strings.Contains(s, "-32700") {
		t.Errorf("%s", s)
	}
	say(strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"elicitation":{"form":{}}}`, 1))
	if s := next(t, heard); !strings.Contains(s, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("%s", s)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	until(t, func() bool { return h.thread.watched() == 1 })
	time.Sleep(20 * time.Millisecond)
	h.thread.change(append(h.thread.tools, tool("s", "new"))...)
	if s := next(t, heard); !strings.Contains(s, "tools/list_changed") {
		t.Errorf("%s", s)
	}
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_s_ask"}}`)
	q := next(t, heard)
	_, id, _ := strings.Cut(q, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, id))
	if s := next(t, heard); !strings.Contains(s, "decline") {
		t.Errorf("%s", s)
	}
	say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ext_s_wait"}}`)
	<-h.thread.began
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	if err := <-h.thread.ended; err == nil {
		t.Error("it went on")
	}
	if got := h.thread.calls[0].Caller; got.Door != "gateway" || got.Member != "ann" {
		t.Errorf("%+v", got)
	}
	hangUp()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStdio_Modern(t *testing.T) {
	h := start(t, nil)
	say, heard, done, hangUp := piped(t, h)
	say(since(1, "server/discover", "", "{}"))
	if s := next(t, heard); !strings.Contains(s, `"supportedVersions":["2026-07-28"`) {
		t.Errorf("%s", s)
	}
	say(since(2, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "{}"))
	if s := next(t, heard); !strings.Contains(s, "acknowledged") {
		t.Errorf("%s", s)
	}
	h.thread.change(tool("s", "new"))
	if s := next(t, heard); !strings.Contains(s, "tools/list_changed") || !strings.Contains(s, `"io.modelcontextprotocol/subscriptionId":2`) {
		t.Errorf("%s", s)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if s := next(t, heard); !strings.Contains(s, `"id":2,"result"`) {
		t.Errorf("%s", s)
	}
	say(since(3, "tools/call", `"name":"ext_s_ask"`, `{"elicitation":{}}`))
	s := next(t, heard)
	_, state, _ := strings.Cut(s, `"requestState":"`)
	state, _, _ = strings.Cut(state, `"`)
	say(since(4, "tools/call", `"name":"ext_s_ask","requestState":"`+state+`","inputResponses":{"question-1":{"action":"accept","content":{}}}`, `{"elicitation":{}}`))
	if s := next(t, heard); !strings.Contains(s, "accept") {
		t.Errorf("%s", s)
	}
	say(strings.Replace(since(5, "tools/list", "", "{}"), "2026-07-28", "2030-01-01", 1))
	if s := next(t, heard); !strings.Contains(s, "-32022") {
		t.Errorf("%s", s)
	}
	hangUp()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStdio_Limits(t *testing.T) {
	h := start(t, nil)
	err := h.Stdio(t.Context(), ann, "", strings.NewReader(strings.Repeat("x", 5<<20)+"\n"), io.Discard)
	if schemas.CodeOf(err) != schemas.CodeTooLarge {
		t.Errorf("a line of 5 MiB: %v", err)
	}
}

// A client that a program on this machine started asks its user what the policy asks; only a plain yes is one.
func TestStdio_AsksForPermission(t *testing.T) {
	h := start(t, nil)
	say, heard, _, _ := piped(t, h)
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_s_permit","arguments":{"path":"/x"}}}`
	say(hello)
	next(t, heard)
	say(call)
	if s := next(t, heard); !strings.Contains(s, `"nobody"`) {
		t.Errorf("a client that cannot be asked: %s", s)
	}
	say(strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	next(t, heard)
	for answer, want := range map[string]string{
		`{"action":"accept","content":{"run":true}}`: "once", `{"action":"accept","content":{"run":false}}`: "deny", `{"action":"accept","content":{}}`: "deny", `{"action":"accept"}`: "deny",
		`{"action":"accept","content":{"run":"true"}}`: "deny", `{"action":"decline","content":{"run":true}}`: "deny", `{"action":"cancel"}`: "deny", `{}`: "deny",
	} {
		say(call)
		q := next(t, heard)
		if !strings.Contains(q, `"elicitation/create"`) || !strings.Contains(q, `bobbin asks: may s.permit run this once? it writes\n{\"path\":\"/x\"}`) || !strings.Contains(q, `"default":false`) {
			t.Fatalf("%s", q)
		}
		_, id, _ := strings.Cut(q, `"id":`)
		id, _, _ = strings.Cut(id, ",")
		say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, answer))
		if s := next(t, heard); !strings.Contains(s, want+" ") {
			t.Errorf("%s: %s", answer, s)
		}
	}
	// Who bears a token sits elsewhere: the chat asks them.
	s := h.session(ann, `{"elicitation":{}}`)
	if _, body := s.say(call); !strings.Contains(body, `"nobody"`) {
		t.Errorf("with a token: %s", body)
	}
}
