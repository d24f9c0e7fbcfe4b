// Package modeltest plays providers of models: strict servers on loopback that answer from a script. They refuse what the
// provider refuses, in its own form, so that a test of bobbin is one of what bobbin sends, too.
package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Key is what the servers ask for.
const Key = "test-key-0123456789abcdef"

// Fail is a mistake that a provider answers with, in its own form.
type Fail string

// The mistakes.
const (
	Overloaded  Fail = "overloaded"
	RateLimited Fail = "rate limited"
	BadKey      Fail = "bad key"
	NoCredit    Fail = "no credit"
	NoModel     Fail = "no model"
	TooLong     Fail = "too long"
	Internal    Fail = "internal"
	Filtered    Fail = "filtered"
	Page        Fail = "page" // an HTML page of some proxy, with status 502
)

// Answer is one answer of the script: a stream, or a Fail, or Raw.
type Answer struct {
	Thinking string
	Text     string
	Calls    []Call
	Stop     string // the provider's own word; "" = what fits

	In, Cached, Out int // tokens; In holds Cached; In 0 = 100 and Out 0 = 10

	Piece  int           // bytes of text and arguments in a chunk; 0 = 7
	Slow   time.Duration // between chunks
	Cut    int           // the connection breaks after so many chunks; 0 = it does not
	Broken Fail          // with Cut: instead of breaking, the stream ends with this mistake in it

	Fail   Fail
	Header map[string]string // of a Fail or of Raw

	Raw    string // the whole body
	Status int    // of Raw; 0 = 200
}

// Call is a use of a tool that the model wishes. ID "" = the server makes one up.
type Call struct{ ID, Name, Args string }

// Asked is a request, as far as scripts need it.
type Asked struct {
	N       int // from 0
	Model   string
	System  string
	Text    string   // the last text of the user
	Results []string // texts of results at the end of the conversation
	Tools   []string // names, in order
	Images  int
	Body    []byte
}

// Server plays one provider. Answers are given in order; a request after the last is answered with status 500, and reported.
type Server struct {
	URL string // with which a provider's BaseURL is set

	api  api
	mu   sync.Mutex
	list []Answer
	by   func(Asked) Answer
	got  []Asked
	bad  []string
	seen bool // somebody looked at bad
	memo memo
}

// api is what differs between the providers.
type api interface {
	// check reads a request; a mistake is a *wrong, or the text of an invalid request.
	check(r *http.Request, body []byte, m *memo) (Asked, error)
	stream(w *wire, a Answer, asked Asked, m *memo)
	fail(w http.ResponseWriter, f Fail, text string)
	broken(f Fail) string
	kind() string // Content-Type of a stream
}

// memo is what a server remembers of its own answers, to see whether it gets them back unchanged.
type memo struct {
	mu         sync.Mutex
	n          int
	signatures map[string]string // what was signed, by signature
	calls      map[string]string // signature, by a call's id or whatever else tells it apart
}

// sign remembers what was signed, and which calls came with it.
func (m *memo) sign(signature, what string, calls ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.signatures[signature] = what
	for _, c := range calls {
		m.calls[c] = signature
	}
}

func (m *memo) signed(signature string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.signatures[signature]
}

func (m *memo) ofCall(call string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[call]
}

type wrong struct {
	fail Fail
	text string
}

func (w *wrong) Error() string { return w.text }

// Anthropic plays the Messages API.
func Anthropic(t testing.TB, script ...Answer) *Server { return start(t, anthropic{}, "", script) }

func start(t testing.TB, a api, path string, script []Answer) *Server {
	t.Helper()
	s := &Server{api: a, list: script, memo: memo{signatures: map[string]string{}, calls: map[string]string{}}}
	h := httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = h.URL + path
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.bad) > 0 && !s.seen {
			t.Errorf("the provider refused: %s", strings.Join(s.bad, "; "))
		}
	})
	return s
}

// Add puts answers at the end of the script.
func (s *Server) Add(script ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, script...)
}

// By answers by a function when the script is over.
func (s *Server) By(f func(Asked) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = f
}

// Asked are the requests that were taken.
func (s *Server) Asked() []Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Asked(nil), s.got...)
}

// Refused says what was wrong with requests. A test that does not look at it fails when there was anything.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = true
	return append([]string(nil), s.bad...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	a, asked, ok := s.next(w, r, body)
	if !ok {
		return
	}
	for k, v := range a.Header {
		w.Header().Set(k, v)
	}
	switch {
	case a.Fail == Page:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, "<!doctype html><html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>")
	case a.Fail != "":
		s.api.fail(w, a.Fail, "")
	case a.Raw != "":
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", s.api.kind())
		}
		if a.Status != 0 {
			w.WriteHeader(a.Status)
		}
		io.WriteString(w, a.Raw)
	default:
		w.Header().Set("Content-Type", s.api.kind())
		out := &wire{w: w, gone: r.Context().Done(), answer: a, broken: s.api.broken}
		s.api.stream(out, a, asked, &s.memo)
	}
}

// next checks a request and takes the answer to it.
func (s *Server) next(w http.ResponseWriter, r *http.Request, body []byte) (Answer, Asked, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, err := s.api.check(r, body, &s.memo)
	asked.N, asked.Body = len(s.got), body
	switch w2, isWrong := err.(*wrong); {
	case isWrong:
		s.bad = append(s.bad, w2.text)
		s.api.fail(w, w2.fail, w2.text)
		return Answer{}, asked, false
	case err != nil:
		s.bad = append(s.bad, err.Error())
		s.api.fail(w, "", err.Error())
		return Answer{}, asked, false
	}
	s.got = append(s.got, asked)
	switch {
	case len(s.list) > 0:
		a := s.list[0]
		s.list = s.list[1:]
		return s.fill(a), asked, true
	case s.by != nil:
		return s.fill(s.by(asked)), asked, true
	}
	s.bad = append(s.bad, fmt.Sprintf("the script is over, and request %d came", asked.N))
	s.api.fail(w, Internal, "the script is over")
	return Answer{}, asked, false
}

func (s *Server) fill(a Answer) Answer {
	if a.In == 0 {
		a.In = 100
	}
	if a.Out == 0 {
		a.Out = 10
	}
	if a.Piece == 0 {
		a.Piece = 7
	}
	calls := make([]Call, len(a.Calls))
	for i, c := range a.Calls {
		s.memo.n++
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%04d", s.memo.n)
		}
		if c.Args == "" {
			c.Args = "{}"
		}
		calls[i] = c
	}
	a.Calls = calls
	return a
}

// wire writes chunks.
type wire struct {
	w      http.ResponseWriter
	gone   <-chan struct{}
	answer Answer
	broken func(Fail) string
	n      int
}

// raw writes one chunk, slowly, or breaks off.
func (w *wire) raw(s string) {
	if w.answer.Cut > 0 && w.n == w.answer.Cut {
		if w.answer.Broken != "" {
			io.WriteString(w.w, w.broken(w.answer.Broken))
			w.w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	if w.answer.Slow > 0 && w.n > 0 {
		select {
		case <-time.After(w.answer.Slow):
		case <-w.gone:
			panic(http.ErrAbortHandler)
		}
	}
	w.n++
	io.WriteString(w.w, s)
	w.w.(http.Flusher).Flush()
}

// event writes a named event of a stream; name "" = none.
func (w *wire) event(name string, data any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		panic(err)
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	w.raw(name + "data: " + text.String() + "\n")
}

// pieces cuts a text as a tokenizer would: never inside a character.
func pieces(s string, size int) []string {
	var list []string
	start := 0
	for i := range s {
		if i-start >= size {
			list = append(list, s[start:i])
			start = i
		}
	}
	if start < len(s) {
		list = append(list, s[start:])
	}
	return list
}

// canon is one form of equal JSON.
func canon(data []byte) string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "invalid"
	}
	out, err := json.Marshal(v)
	if err != nil {
		return "invalid"
	}
	return string(out)
}

// strict decodes and allows no key that the type does not have.
func strict(where string, data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}
