package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// gather is how long after a question others are waited for, so that they go to the client together.
const gather = 10 * time.Millisecond

// postModern takes a message of 2026-07-28, where every request stands for itself.
func (g *Gateway) postModern(w http.ResponseWriter, r *http.Request, who identity, m *message, version string) {
	f := misfit(r, m, version)
	if f == nil {
		f = g.unlike(r, who, m)
	}
	if f != nil {
		writeJSON(w, http.StatusBadRequest, outcome{fault: f}.frame(nil, m.ID))
		return
	}
	switch {
	case !m.request(): // notifications/cancelled has no meaning here: the stream's end is that
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "subscriptions/listen":
		g.subscribe(w, r, who, m)
		return
	}
	x := &exchange{identity: who, g: g, m: m, version: modern, able: declared(m.params.Meta.Capabilities)}
	if n := slices.Index(levels(), m.params.Meta.Level); n >= 0 {
		x.level = &atomic.Int32{}
		x.level.Store(int32(n))
	}
	s := &stream{identity: who, g: g, w: w}
	var note func([]byte)
	if accepts(r) {
		note = s.send
	}
	if m.params.State != nil || x.able != 0 && (m.Method == "tools/call" || m.Method == "prompts/get" || m.Method == "resources/read") {
		if note != nil {
			s.breathe(g.opt.Quiet)
			defer s.rest()
		}
		o, status := g.round(r.Context(), x, note)
		s.finish(o, m.ID, status)
		return
	}
	x.note, x.hears = note, note != nil
	ctx, end, ok := g.begin(x)
	if !ok {
		refuse(w, http.StatusTooManyRequests, m.ID, codeServer, "too many requests are under way; it did not run")
		return
	}
	defer end()
	defer context.AfterFunc(r.Context(), x.cancel)()
	if x.hears {
		s.breathe(g.opt.Quiet)
		defer s.rest()
	}
	o := x.answer(ctx)
	s.finish(o, m.ID, status(o))
}

// status is what 2026-07-28 wants of HTTP for a fault.
func status(o outcome) int {
	switch {
	case o.fault == nil:
	case o.fault.code == codeNoMethod:
		return http.StatusNotFound
	case o.fault.code == codeAbility, o.fault.code == codeParams, o.fault.code == codeHeader, o.fault.code == codeVersion, o.fault.code == codeInvalid:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// misfit checks a message against its headers (SEP-2243) and what each must carry (SEP-2575).
func misfit(r *http.Request, m *message, version string) *fault {
	meta := m.params.Meta
	wrong := func(code int, text string) *fault { return &fault{code: code, text: text} }
	switch {
	case m.answer():
		return wrong(codeInvalid, "a client posts no answers in this protocol version")
	case !m.request() && version == modern && meta.Version == nil:
		return nil
	case version == "":
		return wrong(codeHeader, "the header MCP-Protocol-Version is missing")
	case meta.Version == nil:
		return wrong(codeParams, "io.modelcontextprotocol/protocolVersion is missing in _meta")
	case *meta.Version != version:
		return wrong(codeHeader, "MCP-Protocol-Version is not the one in _meta")
	case version != modern:
		f := wrong(codeVersion, "this protocol version is not spoken here")
		f.data = encode(map[string]any{"supported": append([]string{modern}, handshaken()[:3]...), "requested": version})
		return f
	case m.request() && (len(meta.Capabilities) == 0 || meta.Capabilities[0] != '{'):
		return wrong(codeParams, "io.modelcontextprotocol/clientCapabilities is missing in _meta")
	}
	if method, given := r.Header["Mcp-Method"]; !given || method[0] != m.Method {
		return wrong(codeHeader, "the header Mcp-Method is not the method")
	}
	want := ""
	switch m.Method {
	case "tools/call", "prompts/get":
		want = m.params.Name
	case "resources/read":
		want = m.params.URI
	default:
		return nil
	}
	if name, ok := plain(r.Header.Get("Mcp-Name")); !ok || name != want {
		return wrong(codeHeader, "the header Mcp-Name is not the name")
	}
	return nil
}

// job is a request that may ask its client in between (SEP-2322): it goes on while the client is away to ask its user.
type job struct {
	x         *exchange
	digest    [sha256.Size]byte // of what was asked for; a retry repeats it
	questions chan *question
	mu        sync.Mutex
	given     map[string]json.RawMessage // answers that the client sent before it was asked, by the server's keys
	done      chan outcome               // holds one
}

type question struct {
	key    string // the server's; "" if it gave none
	method string
	params []byte
	answer chan json.RawMessage // holds one
	ctx    context.Context
}

// parked is a job that waits for its client to come back.
type parked struct {
	identity
	*job
	open   map[string]*question
	cancel context.CancelFunc
}

// round runs a request, or lets a parked one go on, until it is done or has questions.
func (g *Gateway) round(ctx context.Context, x *exchange, note func([]byte)) (outcome, int) {
	var j *job
	if x.m.params.State == nil {
		x.listen(note) // before it begins, since it may have something to tell at once
		if j = g.startJob(x); j == nil {
			return wrong(codeServer, "too many requests are under way; it did not run"), http.StatusTooManyRequests
		}
	} else {
		p := g.unpark(*x.m.params.State, x)
		if p == nil {
			return wrong(codeParams, "requestState is not one that waits here; call again without it"), http.StatusBadRequest
		}
		j = p.job
		j.x.listen(note)
		if left := p.take(x.m.params.Responses); len(left) > 0 {
			j.x.listen(nil)
			return g.park(j, left), http.StatusOK // some were left out: they are asked again
		}
	}
	defer j.x.listen(nil)
	for {
		select {
		case o := <-j.done:
			return o, status(o)
		case q := <-j.questions:
			open := []*question{q}
			for more := time.After(gather); more != nil; {
				select {
				case q := <-j.questions:
					open = append(open, q)
				case <-more:
					more = nil
				}
			}
			return g.park(j, open), http.StatusOK
		case <-ctx.Done(): // the client's way to take it back
			j.x.cancel()
			return outcome{}, http.StatusOK
		}
	}
}

// listen sets where the exchange's notifications go.
func (x *exchange) listen(note func([]byte)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.note = note
}

// startJob begins a request on a goroutine of its own; nil when there are too many.
func (g *Gateway) startJob(x *exchange) *job {
	j := &job{x: x, digest: digest(x.m), questions: make(chan *question), done: make(chan outcome, 1)}
	x.hears = true // listen says where
	_ = json.Unmarshal(x.m.params.Responses, &j.given)
	x.ask = func(ctx context.Context, key, method string, params []byte) (json.RawMessage, error) {
		if raw := j.early(key); raw != nil {
			return raw, nil
		}
		q := &question{key: key, method: method, params: params, answer: make(chan json.RawMessage, 1), ctx: ctx}
		select {
		case j.questions <- q:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		select {
		case raw := <-q.answer:
			return raw, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ctx, end, ok := g.begin(x)
	if !ok {
		return nil
	}
	started := g.spawn(func() {
		defer end()
		j.done <- x.answer(ctx)
		g.leave(j)
	})
	if !started {
		end()
		return nil
	}
	return j
}

// early gives an answer that came before its question, once.
func (j *job) early(key string) json.RawMessage {
	j.mu.Lock()
	defer j.mu.Unlock()
	raw := j.given[key]
	delete(j.given, key)
	if key == "" || len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return raw
}

// digest tells one request from another, whatever its id.
func digest(m *message) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(m.Method), []byte(m.params.Name), []byte(m.params.URI), m.params.Arguments} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// park hands the client the questions of a job, under a state that nobody can guess and that works once.
func (g *Gateway) park(j *job, open []*question) outcome {
	p := &parked{identity: j.x.identity, job: j, open: map[string]*question{}, cancel: j.x.cancel}
	requests := map[string]json.RawMessage{}
	for i, q := range open {
		key := q.key
		if key == "" || p.open[key] != nil {
			key = fmt.Sprintf("question-%d", i+1)
		}
		p.open[key] = q
		requests[key] = encode(map[string]json.RawMessage{"method": quote(q.method), "params": q.params})
	}
	state := rand.Text()
	g.mu.Lock()
	if len(g.parked) < g.opt.Calls {
		g.parked[state] = p
	}
	g.mu.Unlock()
	return outcome{result: encode(map[string]any{"resultType": "input_required", "inputRequests": requests, "requestState": state})}
}

// unpark takes a job out that this client may go on with by that request; nil if there is none.
func (g *Gateway) unpark(state string, x *exchange) *parked {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.parked[state]
	if p == nil || p.token != x.token || p.server != x.server || p.caller.Thread != x.caller.Thread || p.digest != digest(x.m) {
		return nil
	}
	delete(g.parked, state)
	return p
}

// leave forgets a job's states: it is over.
func (g *Gateway) leave(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for state, p := range g.parked {
		if p.job == j {
			delete(g.parked, state)
		}
	}
}

// take gives the questions their answers, and returns those that have none yet.
func (p *parked) take(responses json.RawMessage) (left []*question) {
	var in map[string]json.RawMessage
	_ = json.Unmarshal(responses, &in)
	for _, key := range slices.Sorted(maps.Keys(p.open)) {
		q := p.open[key]
		if raw := in[key]; len(raw) > 0 && raw[0] == '{' {
			q.answer <- raw
		} else if q.ctx.Err() == nil {
			left = append(left, q)
		}
	}
	return left
}

// subscribe is a stream of the changes that a client wants to hear of.
func (g *Gateway) subscribe(w http.ResponseWriter, r *http.Request, who identity, m *message) {
	want, ack, ok := subscription(m)
	if !ok {
		refuse(w, http.StatusBadRequest, m.ID, codeParams, "notifications says which ones are wanted")
		return
	}
	if !accepts(r) {
		refuse(w, http.StatusNotAcceptable, m.ID, codeInvalid, "the stream is text/event-stream")
		return
	}
	s, ctx, leave, ok := g.open(r.Context(), &who, w)
	if !ok {
		refuse(w, http.StatusServiceUnavailable, m.ID, codeServer, "too many streams are open")
		return
	}
	defer leave()
	first := func() { s.send(notification("notifications/subscriptions/acknowledged", ack)) }
	if len(want) == 0 {
		first()
	} else {
		g.follow(ctx, &s.identity, s, nil, first, func(method string) {
			if want[method] {
				s.send(notification(method, about(m)))
			}
		})
	}
	if r.Context().Err() == nil {
		s.finish(closed(m), m.ID, http.StatusOK)
	}
}

// subscription reads which notifications a client wants, by method, and makes the words that acknowledge it.
func subscription(m *message) (want map[string]bool, ack []byte, ok bool) {
	var in struct {
		Notifications *struct {
			Tools     bool `json:"toolsListChanged,omitempty"`
			Resources bool `json:"resourcesListChanged,omitempty"`
			Prompts   bool `json:"promptsListChanged,omitempty"`
		} `json:"notifications"`
	}
	if json.Unmarshal(m.Params, &in) != nil || in.Notifications == nil {
		return nil, nil, false
	}
	n := in.Notifications
	want = map[string]bool{"notifications/tools/list_changed": n.Tools, "notifications/resources/list_changed": n.Resources, "notifications/prompts/list_changed": n.Prompts}
	maps.DeleteFunc(want, func(_ string, on bool) bool { return !on })
	return want, encode(map[string]any{"_meta": meta(m), "notifications": n}), true
}

// meta names the subscription that a notification belongs to.
func meta(m *message) map[string]json.RawMessage {
	return map[string]json.RawMessage{"io.modelcontextprotocol/subscriptionId": m.ID}
}

func about(m *message) []byte { return encode(map[string]any{"_meta": meta(m)}) }

// closed is the result that ends a subscription.
func closed(m *message) outcome {
	return outcome{result: encode(map[string]any{"resultType": "complete", "_meta": meta(m)})}
}
