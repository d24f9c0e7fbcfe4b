package proxy

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"bobbin/internal/jsonscan"
)

const (
	maxBody   = 8 << 20
	bodyWait  = 30 * time.Second
	writeWait = 30 * time.Second // for one write to a client
	beat      = 25 * time.Second // of a comment on a silent stream, so that a dead client is noticed
	modern    = "2026-07-28"
)

// mcp is the streamable HTTP endpoint of one server.
func (s *server) mcp(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet, http.MethodDelete:
		id := r.Header.Get("Mcp-Session-Id")
		n := s.session(id)
		switch {
		case id == "":
			refuse(w, http.StatusMethodNotAllowed, nil, codeInvalid, "only a session has a stream here")
		case n == nil || n.old:
			refuse(w, http.StatusNotFound, nil, codeInvalid, "no such session; initialize again")
		case r.Method == http.MethodDelete:
			n.close()
			w.WriteHeader(http.StatusNoContent)
		case !strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
			refuse(w, http.StatusNotAcceptable, nil, codeInvalid, "the stream is text/event-stream")
		case !n.attach():
			refuse(w, http.StatusConflict, nil, codeInvalid, "the session has its stream already")
		default:
			defer n.detach()
			n.serve(w, r, "")
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, nil, codeInvalid, "only GET, POST and DELETE")
	}
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	m, ok := s.receive(w, r)
	if !ok {
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	if version == modern || !m.era.Absent() {
		s.postModern(w, r, &m, version)
		return
	}
	if version != "" && !slices.Contains([]string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}, version) {
		refuse(w, http.StatusBadRequest, m.ID.Of(m.raw), codeInvalid, "this protocol version is not spoken here")
		return
	}
	if m.verb == "initialize" && !m.ID.Absent() {
		s.postInitialize(w, r, &m)
		return
	}
	id := r.Header.Get("Mcp-Session-Id")
	n := s.session(id)
	switch {
	case id == "":
		refuse(w, http.StatusBadRequest, m.ID.Of(m.raw), codeInvalid, "Mcp-Session-Id is missing; initialize first")
	case n == nil || n.old:
		refuse(w, http.StatusNotFound, m.ID.Of(m.raw), codeInvalid, "no such session; initialize again")
	default:
		defer n.busy()()
		s.forward(w, r, &m, n)
	}
}

// postModern checks what 2026-07-28 asks of the headers (SEP-2243) as far as it can be seen without decoding.
func (s *server) postModern(w http.ResponseWriter, r *http.Request, m *message, version string) {
	wrong := ""
	switch {
	case m.verb == "":
		wrong = "a client posts no answers in this protocol version"
	case version != "" && !m.era.Absent() && string(m.era.Of(m.raw)) != `"`+version+`"`:
		wrong = "MCP-Protocol-Version is not the one in _meta"
	case m.era.Absent() || version == "":
		wrong = "MCP-Protocol-Version is missing in the headers or in _meta"
		if m.ID.Absent() {
			wrong = ""
		}
	}
	if method := r.Header.Get("Mcp-Method"); wrong == "" && method != m.verb {
		wrong = "Mcp-Method is not the method"
	}
	// Names in other than ASCII come Base64-coded; these are left to the server.
	if name := r.Header.Get("Mcp-Name"); wrong == "" && name != "" && !strings.HasPrefix(name, "=?base64?") && plainName(m) && string(m.name.Of(m.raw)) != `"`+name+`"` {
		wrong = "Mcp-Name is not the name"
	}
	if wrong != "" {
		refuse(w, http.StatusBadRequest, m.ID.Of(m.raw), codeHeader, wrong)
		return
	}
	s.forward(w, r, m, nil)
}

func plainName(m *message) bool {
	return !m.name.Absent() && !strings.ContainsRune(string(m.name.Of(m.raw)), '\\')
}

func (s *server) postInitialize(w http.ResponseWriter, r *http.Request, m *message) {
	answer, err := s.initialize(r.Context(), m)
	if err != nil {
		s.fail(w, m, err)
		return
	}
	if e, err := jsonscan.Message(answer); err == nil && !e.Result.Absent() {
		n, err := s.open(false)
		if err != nil {
			s.fail(w, m, err)
			return
		}
		w.Header().Set("Mcp-Session-Id", n.id)
	}
	writeJSON(w, answer)
}

// forward passes a message on; n is nil since 2026-07-28.
func (s *server) forward(w http.ResponseWriter, r *http.Request, m *message, n *session) {
	l, err := s.ready(r.Context())
	if err != nil {
		s.fail(w, m, err)
		return
	}
	if m.ID.Absent() || m.verb == "" {
		if err := l.aside(m, n); err != nil {
			s.fail(w, m, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	ctx := r.Context()
	if m.verb != listenMethod {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.CallTimeout)
		defer cancel()
	}
	c := newCall(m, n, strings.Contains(r.Header.Get("Accept"), "text/event-stream"))
	if err := l.send(m, c); err != nil {
		s.fail(w, m, err)
		return
	}
	stream := &events{w: w}
	answer, err := l.wait(ctx, c, stream.send)
	switch {
	case err != nil && r.Context().Err() != nil:
	case err != nil && stream.begun:
		stream.send(rpcError(c.orig, codeServer, err.Error()))
	case err != nil:
		s.fail(w, m, err)
	case stream.begun:
		stream.send(answer)
	default:
		writeJSON(w, answer)
	}
}

// aside passes on what no answer is waited for.
func (l *link) aside(m *message, from *session) error {
	switch {
	case m.verb == "":
		l.reply(m, from)
	case m.verb == "notifications/cancelled":
		l.cancel(m, from)
	case m.verb == "notifications/initialized":
		return l.initialized(m.raw)
	case m.verb == "notifications/progress":
		// About a request of the server, whose tokens are its own.
		return l.post(m.raw)
	default:
		return l.post(m.raw)
	}
	return nil
}

// receive reads one message; what is wrong is answered.
func (s *server) receive(w http.ResponseWriter, r *http.Request) (message, bool) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, nil, codeInvalid, "Content-Type must be application/json")
		return message{}, false
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		status := http.StatusBadRequest
		if _, big := errors.AsType[*http.MaxBytesError](err); big {
			status = http.StatusRequestEntityTooLarge
		}
		refuse(w, status, nil, codeInvalid, "the message cannot be read, or is above 8 MiB")
		return message{}, false
	}
	m, err := readMessage(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, nil, codeParse, "this is not one JSON-RPC message")
		return message{}, false
	}
	return m, true
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyWait))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	if r.ContentLength >= 0 {
		body := make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, body)
		return body, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
}

// fail answers a call that did not go through.
func (s *server) fail(w http.ResponseWriter, m *message, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, errTaken):
		status = http.StatusConflict
	case errors.Is(err, errLong):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, errBusy), errors.Is(err, errFull):
		status = http.StatusTooManyRequests
	case errors.Is(err, errSilent), errors.Is(err, errGone):
		status = http.StatusOK // an outcome of the call, not of the request
	}
	refuse(w, status, m.ID.Of(m.raw), codeServer, err.Error())
}

func refuse(w http.ResponseWriter, status int, id []byte, code int, text string) {
	if len(id) == 0 {
		id = nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeJSON(w, rpcError(id, code, text))
}

// writeJSON does not wait for a client that does not read.
func writeJSON(w http.ResponseWriter, b []byte) {
	w.Header()["Content-Type"] = []string{"application/json"}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWait))
	_, _ = w.Write(b)
}

// events writes server-sent events; the first write begins the stream.
type events struct {
	w     http.ResponseWriter
	begun bool
	err   error
}

func (e *events) send(b []byte) { e.write(event(b)) }

func (e *events) write(b []byte) {
	if e.err != nil {
		return
	}
	control := http.NewResponseController(e.w)
	_ = control.SetWriteDeadline(time.Now().Add(writeWait))
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
	}
	if _, e.err = e.w.Write(b); e.err == nil {
		e.err = control.Flush()
	}
}

// serve writes the session's queue as events until either side leaves.
func (n *session) serve(w http.ResponseWriter, r *http.Request, first string) {
	stream := events{w: w}
	stream.write([]byte(first + ": open\n\n"))
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for stream.err == nil {
		select {
		case b := <-n.queue:
			stream.send(b)
		case <-tick.C:
			stream.write([]byte(": beat\n\n"))
		case <-n.gone:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// sse is the event stream of HTTP+SSE (2024-11-05): its first event names where to post.
func (s *server) sse(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		refuse(w, http.StatusMethodNotAllowed, nil, codeInvalid, "only GET")
		return
	}
	n, err := s.open(true)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, nil, codeServer, err.Error())
		return
	}
	defer n.close()
	n.attach()
	n.serve(w, r, "event: endpoint\ndata: "+strings.TrimSuffix(r.URL.EscapedPath(), "sse")+"message?sessionId="+n.id+"\n\n")
}

// message takes what a client of sse posts; its answers go to the stream.
func (s *server) message(w http.ResponseWriter, r *http.Request) {
	n := s.session(r.URL.Query().Get("sessionId"))
	if n == nil || !n.old {
		refuse(w, http.StatusNotFound, nil, codeInvalid, "no such session; open the stream again")
		return
	}
	m, ok := s.receive(w, r)
	if !ok {
		return
	}
	if err := n.pass(r.Context(), &m); err != nil {
		if m.ID.Absent() || m.verb == "" {
			s.fail(w, &m, err)
			return
		}
		n.answer(rpcError(m.ID.Of(m.raw), codeServer, err.Error()))
	}
	w.WriteHeader(http.StatusAccepted)
}

func (n *session) pass(ctx context.Context, m *message) error {
	if m.verb == "initialize" && !m.ID.Absent() {
		answer, err := n.s.initialize(ctx, m)
		if err == nil {
			n.answer(answer)
		}
		return err
	}
	l, err := n.s.ready(ctx)
	if err != nil {
		return err
	}
	if m.ID.Absent() || m.verb == "" {
		return l.aside(m, n)
	}
	c := newCall(m, n, false)
	c.answer = nil
	c.timer = time.AfterFunc(n.s.opts.CallTimeout, func() {
		if l.forget(c) {
			n.answer(rpcError(c.orig, codeServer, errSilent.Error()))
		}
	})
	if err = l.send(m, c); err != nil {
		c.timer.Stop()
	}
	return err
}
