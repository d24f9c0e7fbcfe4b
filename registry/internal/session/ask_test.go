package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"bobbin/registry/internal/session"
)

func TestStdio_ServerRequests(t *testing.T) {
	answers := make(chan message, 4)
	f := &fake{t: t}
	f.on = map[string]func(message, func(string)) string{
		"tools/call": func(_ message, send func(string)) string {
			send(`{"jsonrpc":"2.0","id":"p\u0031","method":"ping"}`)
			send(`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{}}`)
			send(`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"message":"name?"}}`)
			return `{}`
		},
		"": func(m message, _ func(string)) string { answers <- m; return "" },
	}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw, OnElicit: func(_ context.Context, p json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage("{\"action\":\"accept\",\n\"content\":" + string(p) + "}"), nil
	}})
	if _, err := s.Call(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	if p := f.params("initialize"); !strings.Contains(string(p), `"elicitation":{"form":{},"url":{}}`) || strings.Contains(string(p), "sampling") {
		t.Errorf("declared %s", p)
	}
	for range 3 {
		m := <-answers
		switch string(m.ID) {
		case `"p\u0031"`:
			if string(m.Result) != "{}" {
				t.Errorf("ping: %s", m.Result)
			}
		case "2":
			if !strings.Contains(string(m.Error), "-32601") {
				t.Errorf("sampling: %s", m.Error)
			}
		case "3":
			if string(m.Result) != `{"action":"accept","content":{"message":"name?"}}` {
				t.Errorf("elicitation: %s", m.Result)
			}
		default:
			t.Errorf("answer to %s", m.ID)
		}
	}
}

func TestStdio_WithdrawnQuestion(t *testing.T) {
	f := &fake{t: t}
	asked, ended := make(chan struct{}), make(chan struct{})
	var sender func(string)
	f.on = map[string]func(message, func(string)) string{"tools/call": func(_ message, send func(string)) string {
		sender = send
		send(`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{}}`)
		return `{}`
	}}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw, OnElicit: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}})
	if _, err := s.Call(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	<-asked
	sender(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	<-ended
}

func TestStdio_InputRounds(t *testing.T) {
	const state = `"op\u0061que=="`
	rounds := func(until int) *fake {
		n := 0
		return &fake{t: t, modern: true, on: map[string]func(message, func(string)) string{"tools/call": func(m message, _ func(string)) string {
			if n > 0 && !strings.HasSuffix(string(m.Params), `,"arguments":{"a":1},"inputResponses":{"q\u0031":{"action":"accept"}},"requestState":`+state+`}`) {
				t.Errorf("round %d: %s", n, m.Params)
			}
			if n++; n > until {
				return `{"resultType":"complete","content":[]}`
			}
			return `{"resultType":"input_required","inputRequests":{"q\u0031":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":` + state + `}`
		}}}
	}
	accept := func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"action":"accept"}`), nil
	}
	for _, c := range []struct {
		until int
		on    func(context.Context, json.RawMessage) (json.RawMessage, error)
		ok    bool
	}{{3, accept, true}, {9, accept, true}, {10, accept, false}, {1, nil, false}} {
		f := rounds(c.until)
		rw, _ := f.stdio()
		s := open(t, session.Options{Stdio: rw, OnElicit: c.on})
		got, err := s.Call(t.Context(), "x", json.RawMessage(`{"a":1}`), nil)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, session.ErrInputUnavailable) {
			t.Errorf("%d rounds: %s, %v", c.until, got, err)
		}
		if p := string(f.params("tools/call")); strings.Contains(p, `"elicitation":{"form":{},"url":{}}`) != (c.on != nil) {
			t.Errorf("declared %s", p)
		}
		if !c.ok {
			outcome(t, err, session.Failed)
		}
	}
}

func TestListTools_Limits(t *testing.T) {
	list := func(answer func(n int) string) session.List {
		n := 0
		f := &fake{t: t, on: map[string]func(message, func(string)) string{"tools/list": func(message, func(string)) string { n++; return answer(n) }}}
		rw, _ := f.stdio()
		got, err := open(t, session.Options{Stdio: rw}).ListTools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	tool := func(n int) string { return fmt.Sprintf(`{"name":"t%d","inputSchema":{}}`, n) }
	if l := list(func(n int) string { return `{"tools":[` + tool(n) + `],"nextCursor":"same"}` }); len(l.Items) != 2 || len(l.Refused) != 1 {
		t.Errorf("circle: %d items, %v", len(l.Items), l.Refused)
	}
	if l := list(func(n int) string { return fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, tool(n), n) }); len(l.Items) != 20 || len(l.Refused) != 1 {
		t.Errorf("endless: %d items, %v", len(l.Items), l.Refused)
	}
	if l := list(func(int) string {
		all := make([]string, 600)
		for i := range all {
			all[i] = tool(i)
		}
		return `{"tools":[` + strings.Join(all, ",") + `],"nextCursor":null}`
	}); len(l.Items) != 512 || len(l.Refused) != 1 {
		t.Errorf("many: %d items, %v", len(l.Items), l.Refused)
	}
	l := list(func(int) string {
		return `{"tools":[` + tool(1) + `,` + tool(1) + `,{"name":"fat","inputSchema":{"d":"` + strings.Repeat("x", session.MaxSchema) + `"}},{"name":"full","inputSchema":{"d":"` + strings.Repeat("x", 60<<10) + `"}},7]}`
	})
	if len(l.Items) != 2 || len(l.Refused) != 3 || l.Refused[1].Name != "fat" || !strings.Contains(l.Refused[1].Reason, "65536") {
		t.Errorf("bad tools: %s, %v", l.Items, l.Refused)
	}
}

func TestStdio_ModernListens(t *testing.T) {
	f := &fake{t: t, modern: true, on: map[string]func(message, func(string)) string{"subscriptions/listen": func(m message, send func(string)) string {
		if !strings.Contains(string(m.Params), `"notifications":{"toolsListChanged":true}`) {
			t.Errorf("filter %s", m.Params)
		}
		send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`)
		return ""
	}}}
	rw, _ := f.stdio()
	changed := make(chan string, 8)
	open(t, session.Options{Stdio: rw, OnNotify: func(method string, _ json.RawMessage) { changed <- method }})
	if got := <-changed; got != "notifications/tools/list_changed" {
		t.Errorf("got %s", got)
	}
}

// An idle stdio session is one goroutine and a few kilobytes (the fake has two goroutines).
func TestStdio_IdleCost(t *testing.T) {
	const n = 50
	before := runtime.NumGoroutine()
	var m0, m1 runtime.MemStats
	sessions := make([]*session.Session, n)
	runtime.GC()
	runtime.ReadMemStats(&m0)
	for i := range sessions {
		rw, _ := (&fake{t: t}).stdio()
		sessions[i] = open(t, session.Options{Stdio: rw})
		if _, err := sessions[i].ListTools(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "one goroutine a session", func() bool { return runtime.NumGoroutine() <= before+3*n })
	runtime.GC()
	runtime.ReadMemStats(&m1)
	each := (int64(m1.HeapInuse+m1.StackInuse) - int64(m0.HeapInuse+m0.StackInuse)) / n
	t.Logf("%d bytes a session, the fake's queue of 16 KiB and two goroutines included", each)
	runtime.KeepAlive(sessions)
}
