package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"bobbin/internal/jsonscan"
)

// sse is the event stream of HTTP+SSE (2024-11-05): its first event names where to post, and all answers come on it.
func (g *Gateway) sse(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		refuse(w, http.StatusMethodNotAllowed, nil, codeInvalid, "only GET")
		return
	}
	who, ok := g.enter(w, r)
	if !ok {
		return
	}
	id, err := g.mint(r.Context(), who, oldest, 0)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, nil, codeServer, "a session cannot be opened just now")
		return
	}
	n := g.session(r.Context(), id, who)
	s, ctx, leave, ok := g.open(r.Context(), &who, w)
	if n == nil || !ok {
		refuse(w, http.StatusServiceUnavailable, nil, codeServer, "too many streams are open")
		return
	}
	defer leave()
	defer g.forget(n)
	defer n.attach(s, s.send, nil)()
	first := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.write([]byte("event: endpoint\ndata: " + strings.TrimSuffix(r.URL.EscapedPath(), "sse") + "message?sessionId=" + id + "\n\n"))
	}
	g.follow(ctx, &s.identity, s, nil, first, func(method string) { s.send(notification(method, nil)) })
}

// message takes what a client of sse posts.
func (g *Gateway) message(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, codeInvalid, "only POST")
		return
	}
	who, ok := g.enter(w, r)
	if !ok {
		return
	}
	g.mu.Lock()
	n := g.sessions[r.URL.Query().Get("sessionId")]
	g.mu.Unlock()
	if n == nil || n.version != oldest || n.token != who.token || n.server != who.server || n.caller.Thread != who.caller.Thread {
		refuse(w, http.StatusNotFound, nil, codeInvalid, "no such session; open the stream again")
		return
	}
	body, ok := receive(w, r)
	if !ok {
		return
	}
	m, err := read(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, nil, codeInvalid, "this is not one JSON-RPC message")
		return
	}
	n.mu.Lock()
	s := n.own
	n.mu.Unlock()
	if s == nil {
		refuse(w, http.StatusNotFound, m.ID, codeInvalid, "the stream is closed; open it again")
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush() // the answer goes to the stream
	g.converse(context.WithoutCancel(r.Context()), n, m, s.send)
}

// converse answers a message of a client that has one stream for everything.
func (g *Gateway) converse(ctx context.Context, n *session, m *message, send func([]byte)) {
	if !m.request() {
		n.aside(m)
		return
	}
	answer := func(o outcome) {
		if !o.none() {
			b := o.frame(nil, m.ID)
			jsonscan.OneLine(b)
			send(b)
		}
	}
	if m.Method == "initialize" {
		said, version, able, f := g.welcome(n.identity, m)
		if f == nil {
			n.mu.Lock()
			n.spoken, n.able = version, able
			n.mu.Unlock()
		}
		answer(outcome{result: said, fault: f})
		return
	}
	n.mu.Lock()
	version, able := n.spoken, n.able
	n.mu.Unlock()
	x := &exchange{identity: n.identity, g: g, m: m, n: n, version: version, able: able, level: &n.level, note: send, hears: true}
	x.ask = func(ctx context.Context, _, method string, params []byte) (json.RawMessage, error) {
		return n.ask(ctx, method, params, send)
	}
	under, end, ok := g.begin(x)
	if !ok {
		answer(wrong(codeServer, "too many requests are under way; it did not run"))
		return
	}
	defer end()
	defer context.AfterFunc(ctx, x.cancel)()
	if !n.enlist(m.ID, x.cancel) {
		answer(wrong(codeInvalid, "a request with this id is under way already"))
		return
	}
	o := x.answer(under)
	n.delist(m.ID)
	answer(o)
}
