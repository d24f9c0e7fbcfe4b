package session_test

import (
	"bufio"
	"bytes"
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
	"testing/synctest"
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
			send(`{"jsonrpc":"2.0","id":"two","result":{"spoof":2}}`)
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
	synctest.Test(t, neverReads)
}

func neverReads(t *testing.T) {
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

// A server that stops reading in the middle of a message and goes on later gets it whole, and what was sent meanwhile behind it; who
// only sends does not wait for it.
func TestStdio_ReadsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t}
		near, far := net.Pipe()
		defer far.Close()
		go func() {
			buf := make([]byte, 4096)
			n, _ := far.Read(buf) // initialize
			f.handle(buf[:n-1], func(s string) { _, _ = io.WriteString(far, s+"\n") })
			n, _ = far.Read(buf) // initialized
			f.handle(buf[:n-1], nil)
			n, _ = far.Read(buf[:20])
			time.Sleep(5 * time.Second)
			r := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(buf[:n])), far))
			for {
				line, err := r.ReadBytes('\n')
				if err != nil {
					return
				}
				f.handle(line, func(s string) { _, _ = io.WriteString(far, s+"\n") })
			}
		}()
		s := open(t, session.Options{Stdio: &child{Conn: near}})
		synctest.Wait()
		var wg sync.WaitGroup
		for _, size := range []int{10, 3000, 100} {
			wg.Go(func() {
				args := `{"a":"` + strings.Repeat("z", size) + `"}`
				if got, err := s.Call(t.Context(), "echo", json.RawMessage(args), nil); err != nil || !strings.Contains(string(got), strings.Repeat("z", size)) {
					t.Errorf("%d: %s, %v", size, got, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
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
