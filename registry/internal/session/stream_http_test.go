package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/registry/internal/session"
)

// The GET stream brings list changes and questions; an answer may take longer
// than any request, and the stream comes back after it breaks.
func TestHTTP_ListenStream(t *testing.T) {
	answers := make(chan message, 1)
	var opened atomic.Int32
	st := &site{fake: &fake{t: t, on: map[string]func(message, func(string)) string{"": func(m message, _ func(string)) string { answers <- m; return "" }}}}
	st.get = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if opened.Add(1) == 1 {
			_, _ = io.WriteString(w, "id: 41\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"e1\",\"method\":\"elicitation/create\",\"params\":{}}\n\n")
			return
		}
		if r.Header.Get("Last-Event-ID") != "41" {
			t.Errorf("resumed behind %q", r.Header.Get("Last-Event-ID"))
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	o := serve(t, st)
	changed := make(chan string, 8)
	o.OnNotify = func(method string, _ json.RawMessage) { changed <- method }
	o.OnElicit = func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		for opened.Load() < 2 { // the stream that asked is over by then
			time.Sleep(time.Millisecond)
		}
		return json.RawMessage(`{"action":"decline"}`), nil
	}
	open(t, o)
	if got := <-changed; got != "notifications/tools/list_changed" {
		t.Errorf("told %s", got)
	}
	if m := <-answers; string(m.ID) != `"e1"` || string(m.Result) != `{"action":"decline"}` {
		t.Errorf("answered %s %s", m.ID, m.Result)
	}
}

// A server may end an answer's stream and have us fetch the rest (SEP-1699).
func TestHTTP_ResumedAnswer(t *testing.T) {
	st := &site{fake: &fake{t: t}}
	st.get = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") != "7" {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"late\":true}}\n\n", r.Header.Get("X-Id"))
	}
	var id atomic.Value
	o := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("tools/call")) {
			var m message
			_ = json.Unmarshal(body, &m)
			id.Store(string(m.ID))
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 7\nretry: 10\ndata: \n\n")
			return
		}
		if v, ok := id.Load().(string); ok {
			r.Header.Set("X-Id", v)
		}
		st.ServeHTTP(w, r)
	}))
	s := open(t, o)
	if got, err := s.Call(t.Context(), "echo", nil, nil); err != nil || string(got) != `{"late":true}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestHTTP_ModernListensAgain(t *testing.T) {
	var n atomic.Int32
	st := &site{fake: &fake{t: t, modern: true}}
	o := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("subscriptions/listen")) && n.Add(1) == 1 {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"}\n\n")
			return // breaks off
		}
		st.ServeHTTP(w, r)
	}))
	changed := make(chan string, 8)
	o.OnNotify = func(method string, _ json.RawMessage) { changed <- method }
	open(t, o)
	for got := range changed {
		if got == "notifications/tools/list_changed" {
			break // what was missed in between
		}
	}
}

func TestHTTP_ParamHeaders(t *testing.T) {
	st := &site{fake: &fake{t: t, modern: true, on: map[string]func(message, func(string)) string{"tools/list": func(message, func(string)) string {
		return `{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}},
			{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"no good:"}}}}]}`
	}}}}
	var region atomic.Value
	s := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Name") == "echo" {
			region.Store(r.Header.Get("Mcp-Param-Region"))
		}
		st.ServeHTTP(w, r)
	})))
	l, err := s.ListTools(t.Context())
	if err != nil || len(l.Items) != 1 || len(l.Refused) != 1 || l.Refused[0].Name != "bad" {
		t.Fatalf("tools %s, %v, %v", l.Items, l.Refused, err)
	}
	if _, err := s.Call(t.Context(), "echo", json.RawMessage(`{"region":"eu"}`), nil); err != nil || region.Load() != "eu" {
		t.Errorf("sent %v, %v", region.Load(), err)
	}
}

// oldSite serves a fake over the legacy HTTP+SSE transport.
type oldSite struct {
	*fake
	endpoint string
	stream   chan string
	hangUp   chan struct{}
}

func (o *oldSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: "+o.endpoint+"\n\n")
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case line := <-o.stream:
				_, _ = io.WriteString(w, "event: message\r\ndata: "+line+"\r\n\r\n")
			case <-o.hangUp:
				return
			case <-r.Context().Done():
				return
			}
		}
	case r.URL.Path == "/messages":
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		o.handle(body, func(line string) { o.stream <- line })
	default:
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
	}
}

func TestLegacySSE(t *testing.T) {
	for _, asked := range []bool{false, true} {
		site := &oldSite{fake: &fake{t: t}, endpoint: "/messages?id=1", stream: make(chan string, 64), hangUp: make(chan struct{})}
		o := serve(t, site)
		o.SSE = asked
		s := open(t, o)
		if i := s.Info(); i.Transport != "sse" || i.Protocol != legacyEra {
			t.Errorf("info %+v", i)
		}
		if l, err := s.ListTools(t.Context()); err != nil || len(l.Items) != 1 {
			t.Fatalf("tools %s, %v", l.Items, err)
		}
		site.mu.Lock()
		site.on = map[string]func(message, func(string)) string{"tools/call": func(message, func(string)) string { close(site.hangUp); return "" }}
		site.mu.Unlock()
		_, err := s.Call(t.Context(), "echo", nil, nil)
		outcome(t, err, session.Unknown)
		<-s.Done()
	}
}

func TestLegacySSE_ForeignEndpoint(t *testing.T) {
	site := &oldSite{fake: &fake{t: t}, endpoint: "http://127.0.0.1:9/steal", stream: make(chan string), hangUp: make(chan struct{})}
	o := serve(t, site)
	o.SSE = true
	if _, err := tryOpen(t, o); !errors.Is(err, session.ErrRedirect) {
		t.Errorf("open: %v", err)
	}
}

// Answers as event streams must not cost a connection each.
func TestHTTP_StreamsKeepTheConnection(t *testing.T) {
	var conns sync.Map
	st := &site{fake: &fake{t: t}, sse: true}
	s := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns.Store(r.RemoteAddr, true)
		st.ServeHTTP(w, r)
		time.Sleep(2 * time.Millisecond) // the end of the stream comes after the answer
	})))
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.Call(ctx, "echo", nil, nil)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n > 10 {
		t.Errorf("%d connections for 20 calls", n)
	}
}

// The GET stream follows to a renewed session, even if the old one never ends.
func TestHTTP_ListenStreamMoves(t *testing.T) {
	sessions := make(chan string, 8)
	st := &site{fake: &fake{t: t}}
	st.get = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		sessions <- r.Header.Get("Mcp-Session-Id")
		<-r.Context().Done()
	}
	s := open(t, serve(t, st))
	if got := <-sessions; got != "s1" {
		t.Errorf("listens on %q", got)
	}
	st.mu.Lock()
	st.session = "forgotten"
	st.mu.Unlock()
	if _, err := s.Call(t.Context(), "echo", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := <-sessions; got != "s2" {
		t.Errorf("listens on %q", got)
	}
}
