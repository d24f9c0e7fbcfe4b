package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/registry/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	modernEra = "2026-07-28"
	legacyEra = "2025-11-25"
)

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// fake is a strict MCP server: what the specification forbids fails the test.
type fake struct {
	t      *testing.T
	modern bool
	// on replaces the answer to a method; it returns a result object, or an error object after "!", or nothing.
	on map[string]func(m message, send func(string)) string

	mu          sync.Mutex
	initialized bool
	got         []message
}

func (f *fake) count(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.got {
		if m.Method == method {
			n++
		}
	}
	return n
}

func (f *fake) params(method string) json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.got {
		if m.Method == method {
			return m.Params
		}
	}
	return nil
}

// handle answers one message.
func (f *fake) handle(line []byte, send func(string)) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" {
		f.t.Errorf("server got %q: %v", line, err)
		return
	}
	f.mu.Lock()
	f.got = append(f.got, m)
	ready := f.initialized
	if m.Method == "notifications/initialized" {
		f.initialized = true
	}
	on, replaced := f.on[m.Method]
	f.mu.Unlock()
	if f.modern && m.Method != "" && m.ID != nil && m.Method != "initialize" && !strings.Contains(string(m.Params), `"io.modelcontextprotocol/protocolVersion":"`+modernEra+`"`) {
		f.t.Errorf("%s without protocol version: %s", m.Method, m.Params)
	}
	if !f.modern && !ready && m.ID != nil && m.Method != "initialize" && m.Method != "server/discover" && m.Method != "ping" {
		f.t.Errorf("%s before initialized", m.Method)
	}
	answer := ""
	if replaced {
		answer = on(m, send)
	} else if m.ID != nil && m.Method != "" {
		answer = f.preset(m)
	}
	switch {
	case answer == "":
	case answer[0] == '!':
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, answer[1:]))
	default:
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
	}
}

const caps = `"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{}}`

func (f *fake) preset(m message) string {
	switch {
	case m.Method == "initialize" && !f.modern:
		return `{"protocolVersion":"` + legacyEra + `",` + caps + `,"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`
	case m.Method == "server/discover" && f.modern:
		return `{"resultType":"complete","supportedVersions":["` + modernEra + `"],` + caps + `,"instructions":"be kind","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}}}`
	case m.Method == "tools/list":
		return `{"tools":[{"name":"echo","inputSchema":{"type":"object","if":{"minProperties":1},"$anchor":"x"}}]}`
	case m.Method == "tools/call":
		var p struct {
			Arguments json.RawMessage `json:"arguments"`
		}
		_ = json.Unmarshal(m.Params, &p)
		return `{"content":[{"type":"text","text":"hi"}],"structuredContent":` + string(p.Arguments) + `}`
	case m.Method == "ping" && !f.modern:
		return `{}`
	case m.Method == "subscriptions/listen" && f.modern:
		return ""
	}
	return `!{"code":-32601,"message":"method not found"}`
}

// child is a started stdio server: what the session gets, and the server's end.
type child struct {
	net.Conn
	once sync.Once
}

func (c *child) Close() (err error) {
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}

// stdio serves f over a pipe until the client closes.
func (f *fake) stdio() (io.ReadWriteCloser, net.Conn) {
	near, far := net.Pipe()
	var wg sync.WaitGroup
	out := make(chan string, 1<<10)
	wg.Go(func() {
		defer close(out)
		r := bufio.NewReader(far)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			f.handle(line, func(s string) { out <- s + "\n" })
		}
	})
	wg.Go(func() {
		for s := range out {
			_, _ = io.WriteString(far, s)
		}
	})
	f.t.Cleanup(func() { near.Close(); far.Close(); wg.Wait() })
	return &child{Conn: near}, far
}

func open(t *testing.T, o session.Options) *session.Session {
	t.Helper()
	s, err := tryOpen(t, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func tryOpen(t *testing.T, o session.Options) (*session.Session, error) {
	t.Helper()
	o.Name, o.Version = "bobbin", "1"
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	s, err := session.Open(ctx, o)
	cancel() // the session must not depend on it
	if err == nil {
		t.Cleanup(func() { shut(t, s) })
	}
	return s, err
}

func shut(t *testing.T, s *session.Session) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("closed, but Done is open")
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func outcome(t *testing.T, err error, want session.Outcome) {
	t.Helper()
	if got := session.OutcomeOf(err); got != want {
		t.Errorf("outcome of %v is %d, want %d", err, got, want)
	}
}
