package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"bobbin/internal/jsonscan"
)

const (
	maxBody   = 4 << 20
	bodyWait  = 30 * time.Second
	writeWait = 30 * time.Second // for one write to a client
)

// Serves reports whether a path is one of Handler's, for a server that has other pages, too.
func (g *Gateway) Serves(path string) bool {
	return strings.HasPrefix(path, "/gateway/") || strings.HasPrefix(path, "/api/mcp/")
}

// Handler serves the endpoints of all threads: /gateway/THREAD/mcp (streamable HTTP), /gateway/THREAD/sse and /message (HTTP+SSE), each also
// of one server under /gateway/THREAD/servers/NAME/, and what clients need to find them under /api/mcp/.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, at := range []string{"/gateway/{thread}/", "/gateway/{thread}/servers/{server}/"} {
		mux.HandleFunc(at+"mcp", g.mcp)
		mux.HandleFunc(at+"sse", g.sse)
		mux.HandleFunc(at+"message", g.message)
	}
	mux.HandleFunc("GET /api/mcp/config.json", g.config)
	mux.HandleFunc("GET /api/mcp/install.sh", g.install)
	mux.HandleFunc("GET /api/mcp/proof", g.prove)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is nothing here", http.StatusNotFound)
	})
	return g.guard(mux)
}

// guard refuses names that are not ours (DNS rebinding) and pages of other sites.
func (g *Gateway) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		switch {
		case !g.ours(r.Host, r):
			http.Error(w, "this address is not served here", http.StatusForbidden)
		case len(origins) > 1 || len(origins) == 1 && !g.trusts(origins[0], r):
			http.Error(w, "requests from other pages are refused", http.StatusForbidden)
		case ambiguous(r.Header):
			http.Error(w, "a header that must come once comes twice", http.StatusBadRequest)
		default:
			h, v := w.Header(), [2]string{"nosniff", "no-store"}
			h["X-Content-Type-Options"], h["Cache-Control"] = v[:1:1], v[1:]
			next.ServeHTTP(w, r)
		}
	})
}

// ambiguous reports whether what stands before us may have read another value than we do.
func ambiguous(h http.Header) bool {
	for _, name := range []string{"Authorization", "Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-Id"} {
		if len(h[name]) > 1 {
			return true
		}
	}
	return false
}

// ours reports whether a host:port is one that we answer to.
func (g *Gateway) ours(host string, r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && loopback(host) {
		_, port, err := net.SplitHostPort(host)
		if err != nil {
			port = "80"
		}
		if n, err := strconv.Atoi(port); err == nil && n == local.Port {
			return true
		}
	}
	if slices.Contains(g.opt.Hosts, host) {
		return true
	}
	if g.opt.Origin == nil {
		return false
	}
	u, err := url.Parse(g.opt.Origin())
	return err == nil && u.Host != "" && u.Host == host
}

// loopback reports whether a host, with or without a port, is this machine by name.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// trusts reports whether a page's origin is ours, or of a program on this machine where we are on it, too.
func (g *Gateway) trusts(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return g.ours(u.Host, r) || loopback(u.Host) && loopback(r.Host)
}

// mcp is the streamable HTTP endpoint, of both eras.
func (g *Gateway) mcp(w http.ResponseWriter, r *http.Request) {
	who, ok := g.enter(w, r)
	if !ok {
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	switch {
	case r.Method == http.MethodPost:
		g.post(w, r, who, version)
	case r.Method != http.MethodGet && r.Method != http.MethodDelete || version == modern:
		allow := "GET, POST, DELETE"
		if version == modern {
			allow = "POST"
		}
		w.Header().Set("Allow", allow)
		refuse(w, http.StatusMethodNotAllowed, nil, codeInvalid, "only "+allow)
	case r.Header.Get("Mcp-Session-Id") == "":
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, codeInvalid, "only a session has a stream here; initialize first")
	default:
		n := g.session(r.Context(), r.Header.Get("Mcp-Session-Id"), who)
		switch {
		case n == nil:
			refuse(w, http.StatusNotFound, nil, codeInvalid, "no such session; initialize again")
		case r.Method == http.MethodDelete:
			g.forget(n)
			w.WriteHeader(http.StatusNoContent)
		case !accepts(r):
			refuse(w, http.StatusNotAcceptable, nil, codeInvalid, "the stream is text/event-stream")
		default:
			g.listenSession(w, r, n)
		}
	}
}

func accepts(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool { return strings.Contains(v, "text/event-stream") })
}

func (g *Gateway) post(w http.ResponseWriter, r *http.Request, who identity, version string) {
	body, ok := receive(w, r)
	if !ok {
		return
	}
	m, err := read(body)
	switch {
	case err != nil && len(body) > 0 && body[0] == '[':
		g.postBatch(w, r, who, body)
		return
	case err != nil:
		code := codeInvalid
		if !jsonscan.Valid(body) {
			code = codeParse
		}
		refuse(w, http.StatusBadRequest, nil, code, "this is not one JSON-RPC message")
		return
	}
	switch {
	case version == modern || m.params.Meta.Version != nil || m.Method == "server/discover":
		g.postModern(w, r, who, m, version)
	case version != "" && !slices.Contains(handshaken(), version):
		refuse(w, http.StatusBadRequest, m.ID, codeInvalid, "this protocol version is not spoken here")
	case m.Method == "initialize" && m.request():
		g.initialize(w, r, who, m)
	default:
		g.postSession(w, r, who, m)
	}
}

// initialize opens a session.
func (g *Gateway) initialize(w http.ResponseWriter, r *http.Request, who identity, m *message) {
	said, version, able, f := g.welcome(who, m)
	if f != nil {
		writeJSON(w, http.StatusOK, outcome{fault: f}.frame(nil, m.ID))
		return
	}
	id, err := g.mint(r.Context(), who, version, able)
	if errors.Is(err, errFull) {
		refuse(w, http.StatusTooManyRequests, m.ID, codeServer, "too many sessions are in use; end some with DELETE")
		return
	}
	if err != nil {
		g.opt.Log.Error("a session cannot be opened", "err", err)
		refuse(w, http.StatusServiceUnavailable, m.ID, codeServer, "a session cannot be opened just now")
		return
	}
	w.Header().Set("Mcp-Session-Id", id)
	writeJSON(w, http.StatusOK, outcome{result: said}.frame(nil, m.ID))
}

// postSession takes a message of a session.
func (g *Gateway) postSession(w http.ResponseWriter, r *http.Request, who identity, m *message) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		refuse(w, http.StatusBadRequest, m.ID, codeInvalid, "Mcp-Session-Id is missing; initialize first")
		return
	}
	n := g.session(r.Context(), id, who)
	if n == nil {
		refuse(w, http.StatusNotFound, m.ID, codeInvalid, "no such session; initialize again")
		return
	}
	if !m.request() {
		n.aside(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	x := &exchange{identity: who, g: g, m: m, n: n, version: n.version, able: n.able, level: &n.level}
	s := &stream{identity: who, g: g, w: w, of: n}
	if accepts(r) {
		x.note, x.hears = s.send, true
		x.ask = func(ctx context.Context, _, method string, params []byte) (json.RawMessage, error) {
			return n.ask(ctx, method, params, x.send)
		}
	}
	// A connection that breaks takes no call back in these versions: only the client's word does, or the end of the session.
	ctx, end, ok := g.begin(x)
	if !ok {
		refuse(w, http.StatusTooManyRequests, m.ID, codeServer, "too many requests are under way; it did not run")
		return
	}
	defer end()
	if !n.enlist(m.ID, x.cancel) {
		refuse(w, http.StatusBadRequest, m.ID, codeInvalid, "a request with this id is under way already")
		return
	}
	if x.hears {
		s.breathe(g.opt.Quiet)
		defer s.rest()
	}
	o := x.answer(ctx)
	n.delist(m.ID) // before the client can know
	s.finish(o, m.ID, http.StatusOK)
}

// send brings a whole message to the client about this request.
func (x *exchange) send(b []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.note != nil {
		x.note(b)
	}
}

// listenSession is a session's own stream, which says when lists change, or the rest of another one that broke. A newer one takes the
// place of its own, since a client whose connection broke opens it anew before we can know.
func (g *Gateway) listenSession(w http.ResponseWriter, r *http.Request, n *session) {
	key, after, again := lastEvent(r)
	if again && !strings.HasPrefix(key, ownHead) {
		g.resume(w, r, n, key, after)
		return
	}
	s, ctx, leave, ok := g.open(r.Context(), &n.identity, w)
	if !ok {
		refuse(w, http.StatusServiceUnavailable, nil, codeServer, "too many streams are open")
		return
	}
	defer leave()
	defer s.rest()
	t := n.ownTrail()
	defer n.attach(s, t.say, t.say)()
	if key != t.key {
		after = -1
	}
	whole := t.take(s, after) && (!again || key == t.key)
	defer t.leave(s)
	if !whole { // what it missed is not known, so it has to look at everything
		t.take(s, -1)
		n.alarm(t)
	}
	tell := func(method string) { t.say(notification(method, nil)) }
	n.see(g.follow(ctx, &n.identity, s, n.sight(), func() {}, tell))
}

// open counts a stream that stays open; its context ends with it, the client or the gateway.
func (g *Gateway) open(ctx context.Context, who *identity, w http.ResponseWriter) (*stream, context.Context, func(), bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.claim("stream", who.token, len(g.streams), g.opt.Streams) {
		return nil, nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(g.life, cancel)
	s := &stream{identity: *who, g: g, w: w, close: cancel}
	g.streams[s] = struct{}{}
	return s, ctx, func() {
		g.mu.Lock()
		g.unclaim("stream", s.token)
		delete(g.streams, s)
		g.mu.Unlock()
		detach()
		cancel()
		g.wg.Done()
	}, true
}

// Changes are gathered for settle before a client hears of them; of a list that changes on and on it hears every storm.
const (
	settle = 20 * time.Millisecond
	storm  = 500 * time.Millisecond
)

// follow tells a client of the lists that change, and gives signs of life in between, until ctx ends or the client does not read. What it
// hears of is what changed since last, or after started was called; the lists that it knows of then are returned.
func (g *Gateway) follow(ctx context.Context, who *identity, s *stream, last *print, started func(), tell func(method string)) *print {
	var ticks <-chan struct{}
	if g.opt.Watch != nil {
		var stop func()
		ticks, stop = g.opt.Watch(who.caller.Thread)
		defer stop()
	}
	look := func() (*print, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return g.look(ctx, who)
	}
	compare := func() {
		now, err := look()
		if err != nil {
			return
		}
		if last == nil || now.tools != last.tools {
			tell("notifications/tools/list_changed")
		}
		if last != nil && now.resources != last.resources {
			tell("notifications/resources/list_changed")
		}
		if last != nil && now.prompts != last.prompts {
			tell("notifications/prompts/list_changed")
		}
		last = now
	}
	if last != nil {
		started()
		compare()
	} else {
		last, _ = look()
		started()
	}
	beat := time.NewTicker(g.opt.Quiet)
	defer beat.Stop()
	pause, told := settle, time.Time{}
	for ctx.Err() == nil && (s == nil || s.fine()) {
		select {
		case <-ctx.Done():
		case <-beat.C:
			if g.may(ctx, who) != nil {
				return last
			}
			if s != nil {
				s.comment("beat")
			}
		case <-ticks:
			if pause = min(2*pause, storm); time.Since(told) > storm {
				pause = settle
			}
			wait(ctx, pause)
			told = time.Now()
			if g.may(ctx, who) != nil {
				return last
			}
			compare()
		}
	}
	return last
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// receive reads a request's body; what is wrong is answered.
func receive(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		if kind, _, _ = mime.ParseMediaType(kind); kind != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, nil, codeInvalid, "Content-Type must be application/json")
			return nil, false
		}
	}
	var body []byte
	var err error
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyWait))
	switch n := r.ContentLength; {
	case n > maxBody:
		err = &http.MaxBytesError{Limit: maxBody}
	case n >= 0:
		body = make([]byte, n)
		_, err = io.ReadFull(r.Body, body)
	default:
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		status := http.StatusBadRequest
		if _, big := errors.AsType[*http.MaxBytesError](err); big {
			status = http.StatusRequestEntityTooLarge
		}
		refuse(w, status, nil, codeInvalid, "the message cannot be read, or is above 4 MiB")
		return nil, false
	}
	return body, true
}

func refuse(w http.ResponseWriter, status int, id []byte, code int, text string) {
	writeJSON(w, status, wrong(code, text).frame(nil, id))
}

func writeJSON(w http.ResponseWriter, status int, b []byte) {
	h, v := w.Header(), [2]string{"application/json", strconv.Itoa(len(b))}
	h["Content-Type"], h["Content-Length"] = v[:1:1], v[1:]
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWait))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
