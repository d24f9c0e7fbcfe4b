package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/registry/internal/session"
)

func TestStdio_BothEras(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, era := range []string{"", legacyEra, modernEra} {
			t.Run(fmt.Sprintf("modern=%v era=%s", modern, era), func(t *testing.T) {
				f := &fake{t: t, modern: modern}
				rw, _ := f.stdio()
				s := open(t, session.Options{Stdio: rw, Era: era})
				want := map[bool]string{false: legacyEra, true: modernEra}[modern]
				if i := s.Info(); i.Protocol != want || i.Transport != "stdio" || i.Name != "fake" || i.Instructions != "be kind" || !i.Tools || !i.ToolsChange {
					t.Errorf("info %+v", i)
				}
				tools, err := s.ListTools(t.Context())
				if err != nil || len(tools.Items) != 1 || string(tools.Items[0]) != `{"name":"echo","inputSchema":{"type":"object","if":{"minProperties":1},"$anchor":"x"}}` {
					t.Fatalf("tools %s, %v", tools.Items, err)
				}
				got, err := s.Call(t.Context(), "echo", json.RawMessage("{\n\"a\":1}"), nil)
				if err != nil || string(got) != `{"content":[{"type":"text","text":"hi"}],"structuredContent":{"a":1}}` {
					t.Fatalf("call %s, %v", got, err)
				}
				if _, err := s.Call(t.Context(), "echo", json.RawMessage(`[1]`), nil); session.OutcomeOf(err) != session.NotRun {
					t.Errorf("array as arguments: %v", err)
				}
				_, err = s.ReadResource(t.Context(), "x:y")
				if rpc, ok := errors.AsType[*session.RPCError](err); !ok || rpc.Code != -32601 {
					t.Errorf("read: %v", err)
				}
				outcome(t, err, session.Failed)
				if err := s.Ping(t.Context()); err != nil {
					t.Errorf("ping: %v", err)
				}
			})
		}
	}
}

// A server that ignores unknown methods must not cost the discover time-out (5 s).
func TestStdio_LegacyThatIgnoresUnknownMethods(t *testing.T) {
	f := &fake{t: t, on: map[string]func(message, func(string)) string{"server/discover": func(message, func(string)) string { return "" }}}
	rw, _ := f.stdio()
	begin := time.Now()
	s := open(t, session.Options{Stdio: rw})
	if _, err := s.ListTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("first listing after %v", took)
	if took > 50*time.Millisecond {
		t.Errorf("first listing took %v, want at most 50 ms", took)
	}
}

func TestStdio_EmptyDiscoverIsLegacy(t *testing.T) {
	f := &fake{t: t, on: map[string]func(message, func(string)) string{"server/discover": func(message, func(string)) string { return "{}" }}}
	rw, _ := f.stdio()
	if s := open(t, session.Options{Stdio: rw, Era: modernEra}); s.Info().Protocol != legacyEra {
		t.Errorf("took %q for the era", s.Info().Protocol)
	}
}

func TestStdio_VersionRefusedThenOffered(t *testing.T) {
	var asked atomic.Int32
	f := &fake{t: t, modern: true}
	f.on = map[string]func(message, func(string)) string{"server/discover": func(m message, _ func(string)) string {
		if asked.Add(1) == 1 {
			return `!{"code":-32022,"message":"unsupported","data":{"supported":["` + modernEra + `"]}}`
		}
		return f.preset(m)
	}}
	rw, _ := f.stdio()
	if s := open(t, session.Options{Stdio: rw, Era: modernEra}); s.Info().Protocol != modernEra {
		t.Errorf("agreed on %q", s.Info().Protocol)
	}
}

func TestStdio_Noise(t *testing.T) {
	noise := func(n int) func(message, func(string)) string {
		return func(_ message, send func(string)) string {
			for range n {
				send("npm WARN \x1b[31mdeprecated")
				send("")
			}
			send(`{"jsonrpc":"2.0","id":99999,"result":{"spoof":1}}`)
			send(`{"jsonrpc":"2.0","id":"2","result":{"spoof":2}}`)
			send(`{"jsonrpc":"2.0","id":null,"result":{"spoof":3}}`)
			return `{"ok":true}`
		}
	}
	f := &fake{t: t, on: map[string]func(message, func(string)) string{"tools/call": noise(100)}}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw})
	if got, err := s.Call(t.Context(), "x", nil, nil); err != nil || string(got) != `{"ok":true}` {
		t.Fatalf("100 lines of noise: %s, %v", got, err)
	}
	f.mu.Lock()
	f.on["tools/call"] = noise(1)
	f.mu.Unlock()
	_, err := s.Call(t.Context(), "x", nil, nil)
	if !errors.Is(err, session.ErrGarbage) || !strings.Contains(err.Error(), "npm WARN  [31mdeprecated") {
		t.Fatalf("101 lines of noise: %v", err)
	}
	outcome(t, err, session.Unknown)
	<-s.Done()
	_, err = s.Call(t.Context(), "x", nil, nil)
	outcome(t, err, session.NotRun)
}

func TestStdio_RepeatedAnswerIsIgnored(t *testing.T) {
	f := &fake{t: t, on: map[string]func(message, func(string)) string{"tools/call": func(m message, send func(string)) string {
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"n":1}}`, m.ID))
		return `{"n":2}`
	}}}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw})
	for range 20 {
		if got, err := s.Call(t.Context(), "x", nil, nil); err != nil || string(got) != `{"n":1}` {
			t.Fatalf("got %s, %v", got, err)
		}
	}
}

// A gigabyte without a line end must end the session and not the memory.
func TestStdio_EndlessLine(t *testing.T) {
	f := &fake{t: t}
	rw, far := f.stdio()
	s := open(t, session.Options{Stdio: rw})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	chunk := []byte(strings.Repeat("x", 1<<20))
	sent := 0
	for ; sent < 1<<30; sent += len(chunk) {
		if _, err := far.Write(chunk); err != nil {
			break
		}
	}
	<-s.Done()
	runtime.ReadMemStats(&after)
	if !errors.Is(s.Err(), session.ErrTooLarge) || sent > 6<<20 {
		t.Errorf("ended by %v after %d bytes", s.Err(), sent)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 24<<20 {
		t.Errorf("%d MiB allocated", grown>>20)
	}
}

func TestStdio_LineUpToTheLimit(t *testing.T) {
	big := `{"s":"` + strings.Repeat("y", 3<<20) + `"}`
	f := &fake{t: t, on: map[string]func(message, func(string)) string{"tools/call": func(message, func(string)) string { return big }}}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw})
	for range 3 {
		if got, err := s.Call(t.Context(), "x", nil, nil); err != nil || string(got) != big {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
	}
}

// A server that stops reading must hold no caller beyond its context, and is
// given up after the write limit.
func TestStdio_NeverReads(t *testing.T) {
	f := &fake{t: t}
	near, far := net.Pipe()
	defer far.Close()
	go func() { // answers initialize, then only looks on
		buf := make([]byte, 4096)
		n, _ := far.Read(buf)
		f.handle(buf[:n-1], func(s string) { _, _ = io.WriteString(far, s+"\n") })
		_, _ = far.Read(buf)
	}()
	s := open(t, session.Options{Stdio: &child{Conn: near}, WriteTimeout: 500 * time.Millisecond})
	args := json.RawMessage(`{"a":"` + strings.Repeat("z", 1<<20) + `"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	var notRun, unknown atomic.Int32
	begin := time.Now()
	for range 4 {
		wg.Go(func() {
			_, err := s.Call(ctx, "x", args, nil)
			switch session.OutcomeOf(err) {
			case session.NotRun:
				notRun.Add(1)
			case session.Unknown:
				unknown.Add(1)
			}
		})
	}
	wg.Wait()
	if took := time.Since(begin); took > 400*time.Millisecond {
		t.Errorf("callers were held for %v", took)
	}
	if notRun.Load() != 3 || unknown.Load() != 1 {
		t.Errorf("%d not run, %d unknown, want 3 and 1: only one was being written", notRun.Load(), unknown.Load())
	}
	<-s.Done()
	if !errors.Is(s.Err(), session.ErrStuck) {
		t.Errorf("ended by %v", s.Err())
	}
}

func TestStdio_DiesDuringCall(t *testing.T) {
	f := &fake{t: t}
	rw, far := f.stdio()
	f.on = map[string]func(message, func(string)) string{"tools/call": func(message, func(string)) string { far.Close(); return "" }}
	s := open(t, session.Options{Stdio: rw})
	_, err := s.Call(t.Context(), "x", nil, nil)
	outcome(t, err, session.Unknown)
	<-s.Done()
	if !errors.Is(s.Err(), io.EOF) {
		t.Errorf("ended by %v", s.Err())
	}
}

func TestStdio_NeverAnswers(t *testing.T) {
	f := &fake{t: t, on: map[string]func(message, func(string)) string{"initialize": func(message, func(string)) string { return "" }}}
	rw, _ := f.stdio()
	_, err := tryOpen(t, session.Options{Stdio: rw, ConnectTimeout: 50 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("open: %v", err)
	}
}

func TestStdio_CancelTellsTheServer(t *testing.T) {
	for _, modern := range []bool{false, true} {
		f := &fake{t: t, modern: modern, on: map[string]func(message, func(string)) string{"tools/call": func(message, func(string)) string { return "" }}}
		rw, _ := f.stdio()
		s := open(t, session.Options{Stdio: rw})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for f.count("tools/call") == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		_, err := s.Call(ctx, "x", nil, nil)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call: %v", err)
		}
		outcome(t, err, session.Unknown)
		eventually(t, "notifications/cancelled", func() bool { return f.count("notifications/cancelled") == 1 })
		f.mu.Lock()
		var id string
		for _, m := range f.got {
			if m.Method == "tools/call" {
				id = string(m.ID)
			}
		}
		f.mu.Unlock()
		if p := f.params("notifications/cancelled"); !strings.Contains(string(p), `"requestId":`+id+`,`) {
			t.Errorf("cancelled %s, the call was %s", p, id)
		}
	}
}

func TestStdio_Progress(t *testing.T) {
	f := &fake{t: t, on: map[string]func(message, func(string)) string{"tools/call": func(m message, send func(string)) string {
		var p struct {
			Meta struct {
				ProgressToken json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
		_ = json.Unmarshal(m.Params, &p)
		for i := range 3 {
			send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, p.Meta.ProgressToken, i))
		}
		return `{}`
	}}}
	rw, _ := f.stdio()
	s := open(t, session.Options{Stdio: rw})
	n := 0
	if _, err := s.Call(t.Context(), "x", nil, func(json.RawMessage) { n++ }); err != nil || n != 3 {
		t.Errorf("%d notes, %v", n, err)
	}
}

// A flood must neither stop answers nor lose a list change, and a handler may
// use the session.
func TestStdio_NotificationFlood(t *testing.T) {
	f := &fake{t: t, on: map[string]func(message, func(string)) string{"tools/call": func(_ message, send func(string)) string {
		for range 20000 {
			send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}`)
		}
		send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		return `{}`
	}}}
	rw, _ := f.stdio()
	var s *session.Session
	var changes atomic.Int32
	release := make(chan struct{})
	s = open(t, session.Options{Stdio: rw, OnNotify: func(method string, _ json.RawMessage) {
		<-release
		if method == "notifications/tools/list_changed" {
			if _, err := s.ListTools(t.Context()); err == nil {
				changes.Add(1)
			}
		}
	}})
	if _, err := s.Call(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	close(release)
	eventually(t, "the list change", func() bool { return changes.Load() == 1 })
	if d := s.Dropped(); d < 19000 {
		t.Errorf("dropped %d", d)
	}
}

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
		return `{"tools":[` + tool(1) + `,` + tool(1) + `,{"name":"fat","inputSchema":{"d":"` + strings.Repeat("x", 16<<10) + `"}},7]}`
	})
	if len(l.Items) != 1 || len(l.Refused) != 3 || l.Refused[1].Name != "fat" || !strings.Contains(l.Refused[1].Reason, "16384") {
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
