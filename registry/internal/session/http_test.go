package session_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bobbin/registry/internal/session"
)

// site serves a fake over streamable HTTP and checks every header.
type site struct {
	*fake
	sse     bool // answers as an event stream
	mu      sync.Mutex
	session string
	n       int
	deleted []string
	get     func(w http.ResponseWriter, r *http.Request)
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m message
	_ = json.Unmarshal(body, &m)
	s.mu.Lock()
	current := s.session
	s.mu.Unlock()
	version := map[bool]string{false: legacyEra, true: modernEra}[s.modern]
	first := m.Method == "initialize" || m.Method == "server/discover"
	if !first && r.Header.Get("Mcp-Protocol-Version") != version {
		s.t.Errorf("%s %s: protocol version %q", r.Method, m.Method, r.Header.Get("Mcp-Protocol-Version"))
	}
	if r.Header.Get("X-Api-Key") != "k" {
		s.t.Errorf("%s %s without its header", r.Method, m.Method)
	}
	if !s.modern && !first && r.Header.Get("Mcp-Session-Id") != current {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodGet:
		if s.get == nil || s.modern {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		s.get(w, r)
		return
	case http.MethodDelete:
		s.mu.Lock()
		s.deleted = append(s.deleted, r.Header.Get("Mcp-Session-Id"))
		s.mu.Unlock()
		return
	}
	if r.Header.Get("Accept") != "application/json, text/event-stream" || r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("%s: headers %v", m.Method, r.Header)
	}
	if s.modern {
		if m.Method == "initialize" {
			http.Error(w, "{}", http.StatusBadRequest)
			return
		}
		if r.Header.Get("Mcp-Method") != m.Method || m.Method == "tools/call" && r.Header.Get("Mcp-Name") != "echo" || r.Header.Get("Mcp-Session-Id") != "" {
			s.t.Errorf("%s: headers %v", m.Method, r.Header)
		}
	} else if m.Method == "initialize" {
		s.mu.Lock()
		s.n++
		s.session = fmt.Sprintf("s%d", s.n)
		w.Header().Set("Mcp-Session-Id", s.session)
		s.mu.Unlock()
	}
	flush := http.NewResponseController(w).Flush
	stream := s.sse || m.Method == "subscriptions/listen"
	if stream && m.ID != nil && m.Method != "" {
		w.Header().Set("Content-Type", "text/event-stream")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	answered := false
	s.handle(body, func(line string) {
		answered = true
		if stream {
			fmt.Fprintf(w, "event: message\nid: 1\ndata: %s\n\n", line)
			_ = flush()
			return
		}
		_, _ = io.WriteString(w, line)
	})
	switch {
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case !answered:
		_ = flush()
		<-r.Context().Done()
	}
}

func serve(t testing.TB, h http.Handler) session.Options {
	t.Helper()
	server := httptest.NewServer(h)
	tr := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); tr.CloseIdleConnections() })
	return session.Options{URL: server.URL + "/mcp", Client: &http.Client{Transport: tr}, Headers: map[string]string{"X-Api-Key": "k"}}
}

func TestHTTP_BothErasBothAnswers(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, sse := range []bool{false, true} {
			for _, era := range []string{"", legacyEra, modernEra} {
				t.Run(fmt.Sprintf("modern=%v sse=%v era=%s", modern, sse, era), func(t *testing.T) {
					st := &site{fake: &fake{t: t, modern: modern}, sse: sse}
					o := serve(t, st)
					o.Era = era
					s := open(t, o)
					if i := s.Info(); i.Transport != "http" || i.Protocol != map[bool]string{false: legacyEra, true: modernEra}[modern] {
						t.Errorf("info %+v", i)
					}
					if l, err := s.ListTools(t.Context()); err != nil || len(l.Items) != 1 {
						t.Fatalf("tools %s, %v", l.Items, err)
					}
					got, err := s.Call(t.Context(), "echo", json.RawMessage(`{"a":1}`), nil)
					if err != nil || string(got) != `{"content":[{"type":"text","text":"hi"}],"structuredContent":{"a":1}}` {
						t.Fatalf("call %s, %v", got, err)
					}
					_, err = s.ReadResource(t.Context(), "x:y")
					outcome(t, err, session.Failed)
					if err := s.Ping(t.Context()); err != nil {
						t.Errorf("ping: %v", err)
					}
					shut(t, s)
					if st.mu.Lock(); !modern && fmt.Sprint(st.deleted) != "[s1]" || modern && st.deleted != nil {
						t.Errorf("deleted %v", st.deleted)
					}
					st.mu.Unlock()
				})
			}
		}
	}
}

func TestHTTP_EmptyDiscoverIsLegacy(t *testing.T) {
	st := &site{fake: &fake{t: t, on: map[string]func(message, func(string)) string{"server/discover": func(message, func(string)) string { return "{}" }}}}
	if s := open(t, serve(t, st)); s.Info().Protocol != legacyEra {
		t.Errorf("took %q for the era", s.Info().Protocol)
	}
}

// A forgotten session is renewed once for all callers, and nobody notices.
func TestHTTP_SessionRenewal(t *testing.T) {
	st := &site{fake: &fake{t: t}}
	o := serve(t, st)
	changed := make(chan string, 8)
	o.OnNotify = func(method string, _ json.RawMessage) { changed <- method }
	s := open(t, o)
	st.mu.Lock()
	st.session = "forgotten"
	st.mu.Unlock()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.Call(t.Context(), "echo", nil, nil); err != nil {
				t.Errorf("call: %v", err)
			}
		})
	}
	wg.Wait()
	if n := st.count("initialize"); n != 2 {
		t.Errorf("%d times initialize, want 2", n)
	}
	if n := st.count("tools/call"); n != 20 {
		t.Errorf("%d calls ran, want 20", n)
	}
	if got := <-changed; got != "notifications/tools/list_changed" {
		t.Errorf("told %s", got)
	}
}

// A server that forgets each session at once must not keep us busy.
func TestHTTP_SessionAlwaysGone(t *testing.T) {
	var posts atomic.Int32
	st := &site{fake: &fake{t: t}}
	o := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("tools/call")) {
			posts.Add(1)
			http.Error(w, "gone", http.StatusNotFound)
			return
		}
		st.ServeHTTP(w, r)
	}))
	s := open(t, o)
	_, err := s.Call(t.Context(), "echo", nil, nil)
	outcome(t, err, session.NotRun)
	if posts.Load() != 2 {
		t.Errorf("%d posts", posts.Load())
	}
}

func TestHTTP_Redirects(t *testing.T) {
	var leaked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Add(1)
	}))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		o := serve(t, http.RedirectHandler(other.URL, code))
		_, err := tryOpen(t, o)
		if !errors.Is(err, session.ErrRedirect) {
			t.Errorf("%d: %v", code, err)
		}
	}
	if leaked.Load() != 0 {
		t.Errorf("%d requests reached the other origin", leaked.Load())
	}
	st := &site{fake: &fake{t: t}}
	o := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
			return
		}
		st.ServeHTTP(w, r)
	}))
	s := open(t, o)
	if _, err := s.Call(t.Context(), "echo", nil, nil); err != nil {
		t.Errorf("redirect on the own origin: %v", err)
	}
}

func TestHTTP_HugeAnswers(t *testing.T) {
	filler := bytes.Repeat([]byte("x"), 1<<20)
	for name, answer := range map[string]func(w http.ResponseWriter){
		"body": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"a":"`)
			for range 1 << 10 {
				if _, err := w.Write(filler); err != nil {
					return
				}
			}
		},
		"gzip": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 1 << 8 {
				if _, err := z.Write(filler); err != nil {
					return
				}
			}
			_ = z.Close()
		},
		"event": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"a":"`)
			for range 1 << 10 {
				if _, err := w.Write(filler); err != nil {
					return
				}
			}
		},
		"data lines": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 1 << 20 {
				if _, err := w.Write([]byte("data: " + string(filler[:1024]) + "\n")); err != nil {
					return
				}
			}
		},
		"stream": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 1 << 20 {
				if _, err := w.Write([]byte(`data: {"jsonrpc":"2.0","method":"x","params":{"a":"` + string(filler[:512<<10]) + "\"}}\n\n")); err != nil {
					return
				}
			}
		},
		"comments": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 1 << 20 {
				if _, err := w.Write([]byte(": " + string(filler[:4096]) + "\n\n")); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := &site{fake: &fake{t: t}}
			s := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte("tools/call")) {
					answer(w)
					return
				}
				st.ServeHTTP(w, r)
			})))
			_, err := s.Call(t.Context(), "echo", nil, nil)
			if !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("call: %v", err)
			}
			outcome(t, err, session.Unknown)
		})
	}
}

func TestHTTP_StrangeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		kind, body string
		want       session.Outcome
	}{
		"html":       {200, "text/html", "<html>", session.Unknown},
		"list":       {200, "application/json", "[]", session.Unknown},
		"other id":   {200, "application/json", `{"jsonrpc":"2.0","id":99999,"result":{}}`, session.Unknown},
		"no content": {204, "", "", session.Unknown},
		"empty":      {202, "", "", session.Unknown},
		"half":       {200, "text/event-stream", ": hello\n\n", session.Unknown},
		"busy":       {429, "text/plain", "slow down", session.NotRun},
		"broken":     {500, "text/plain", strings.Repeat("e", 3<<20), session.Unknown},
		"refused":    {400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad"}}`, session.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			st := &site{fake: &fake{t: t}}
			s := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte("tools/call")) {
					w.Header().Set("Content-Type", c.kind)
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
					return
				}
				st.ServeHTTP(w, r)
			})))
			_, err := s.Call(t.Context(), "echo", nil, nil)
			outcome(t, err, c.want)
			if status, ok := errors.AsType[*session.StatusError](err); ok && len(status.Excerpt) > 200 {
				t.Errorf("an excerpt of %d bytes", len(status.Excerpt))
			}
		})
	}
}

func TestHTTP_Unreachable(t *testing.T) {
	st := &site{fake: &fake{t: t}}
	o := serve(t, st)
	inner := o.Client.Transport
	var down atomic.Bool
	errNeedsLogin := errors.New("needs login")
	o.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if down.Load() {
			return nil, errNeedsLogin
		}
		return inner.RoundTrip(r)
	})}
	s := open(t, o)
	down.Store(true)
	_, err := s.Call(t.Context(), "echo", nil, nil)
	if !errors.Is(err, errNeedsLogin) {
		t.Errorf("call: %v", err)
	}
	outcome(t, err, session.NotRun)
	if _, err := tryOpen(t, o); !errors.Is(err, errNeedsLogin) {
		t.Errorf("open: %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHTTP_CancelTellsALegacyServer(t *testing.T) {
	st := &site{fake: &fake{t: t, on: map[string]func(message, func(string)) string{"tools/call": func(message, func(string)) string { return "" }}}}
	s := open(t, serve(t, st))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Call(ctx, "echo", nil, nil)
		ended <- err
	}()
	eventually(t, "the call", func() bool { return st.count("tools/call") == 1 })
	cancel()
	err := <-ended
	if !errors.Is(err, context.Canceled) {
		t.Errorf("call: %v", err)
	}
	outcome(t, err, session.Unknown)
	eventually(t, "notifications/cancelled", func() bool { return st.count("notifications/cancelled") == 1 })
}

func TestHTTP_CloseEndsACall(t *testing.T) {
	st := &site{fake: &fake{t: t, on: map[string]func(message, func(string)) string{"tools/call": func(message, func(string)) string { return "" }}}}
	s := open(t, serve(t, st))
	ended := make(chan error)
	go func() {
		_, err := s.Call(t.Context(), "echo", nil, nil)
		ended <- err
	}()
	eventually(t, "the call", func() bool { return st.count("tools/call") == 1 })
	shut(t, s)
	err := <-ended
	if !errors.Is(err, session.ErrClosed) {
		t.Errorf("call: %v", err)
	}
	outcome(t, err, session.Unknown)
}
