package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/schemas"
)

const (
	saltBytes  = 12
	macBytes   = 16
	maxAsked   = 16               // questions to one client at once
	maxUnder   = 256              // requests of one session at once
	maxDead    = 4096             // ended sessions that are remembered
	maxApart   = 10 * time.Minute // that a client which follows resources may be away
	firstLevel = 1                // of log messages, until the client sets one: info
)

// session is one client of the versions before 2026-07-28. All that has to last stands in its id, so that it survives a restart and being
// forgotten: version and abilities, signed for the token.
type session struct {
	identity
	id      string
	g       *Gateway
	version string
	able    abilities
	level   atomic.Int32
	spoken  string // over stdio and SSE: what initialize agreed on; under mu, as is able then

	mu     sync.Mutex
	under  map[string]context.CancelFunc // requests of the client by their id
	asked  map[string]chan *message      // ours, by id, until the client answers
	own    *stream                       // of its own; nil: none is open
	send   func([]byte)                  // brings a notification to it; nil: nothing can
	subs   map[string]func()             // resources that it follows, by address; ends that
	self   *trail                        // of its own stream
	trails []*trail                      // of its requests' streams
	seen   *print                        // what its own stream said last
	used   time.Time
	ended  bool
}

// mint gives the id of a new session.
func (g *Gateway) mint(ctx context.Context, who identity, version string, able abilities) (string, error) {
	b := make([]byte, 2+saltBytes, 2+saltBytes+macBytes)
	b[0], b[1] = byte(slices.Index(handshaken(), version)), byte(able)
	_, _ = rand.Read(b[2:]) // never fails
	mac, err := g.sign(ctx, who, b)
	if err != nil {
		return "", err
	}
	id := base64.RawURLEncoding.EncodeToString(append(b, mac...))
	if g.keep(id, who, b) == nil {
		return "", errFull
	}
	return id, nil
}

var errFull = errors.New("too many sessions are in use")

func (g *Gateway) sign(ctx context.Context, who identity, b []byte) ([]byte, error) {
	key, err := g.tokens.signing(ctx)
	if err != nil {
		return nil, err
	}
	return authenticate(key, "session", who.token, string(who.caller.Thread), who.server, string(b))[:macBytes], nil
}

// session gives the one of this id, if it is this client's; nil if there is none.
func (g *Gateway) session(ctx context.Context, id string, who identity) *session {
	g.mu.Lock()
	n, dead := g.sessions[id], g.dead[id]
	g.mu.Unlock()
	switch {
	case !dead.IsZero():
		return nil
	case n != nil && n.token == who.token && n.server == who.server && n.caller.Thread == who.caller.Thread:
		n.touch()
		return n
	case n != nil:
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(raw) != 2+saltBytes+macBytes || int(raw[0]) >= len(handshaken()) {
		return nil
	}
	b, mac := raw[:2+saltBytes], raw[2+saltBytes:]
	want, err := g.sign(ctx, who, b)
	if err != nil || !hmac.Equal(mac, want) {
		return nil
	}
	return g.keep(id, who, b)
}

// keep holds a session in memory; nil when there is no place for it. When there are too many the longest unused one goes, of this token
// if it has more than its share; its id brings it back.
func (g *Gateway) keep(id string, who identity, b []byte) *session {
	n := &session{
		identity: who, id: id, g: g, version: handshaken()[b[0]], able: abilities(b[1]), used: time.Now(),
		under: map[string]context.CancelFunc{}, asked: map[string]chan *message{},
	}
	n.level.Store(firstLevel)
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.sessions[id]; o != nil {
		return o
	}
	if len(g.sessions) >= g.opt.Sessions {
		old := g.spare(who.token)
		if old == nil {
			return nil
		}
		delete(g.sessions, old.id)
		defer old.close()
	}
	g.sessions[id] = n
	return n
}

// spare gives the session that can best be done without; nil: none. The lock is held.
func (g *Gateway) spare(token string) (old *session) {
	mine := 0
	for _, o := range g.sessions {
		if o.token == token {
			mine++
		}
	}
	var since time.Time
	for _, o := range g.sessions {
		if mine > g.opt.Sessions/4 && o.token != token {
			continue
		}
		if used, idle := o.idle(); idle && (old == nil || used.Before(since)) {
			old, since = o, used
		}
	}
	return old
}

// forget ends a session that its client is done with.
func (g *Gateway) forget(n *session) {
	g.mu.Lock()
	delete(g.sessions, n.id)
	for id := range g.dead {
		if len(g.dead) < maxDead {
			break
		}
		delete(g.dead, id)
	}
	g.dead[n.id] = time.Now()
	g.mu.Unlock()
	n.close()
}

// close takes back what the client asked for, and ends its stream.
func (n *session) close() {
	n.mu.Lock()
	var stop []func()
	for _, cancel := range n.under {
		stop = append(stop, cancel)
	}
	if n.own != nil {
		stop = append(stop, n.own.close)
	}
	for _, end := range n.subs {
		stop = append(stop, end)
	}
	trails := n.trails
	if n.self != nil {
		trails = append(trails, n.self)
	}
	n.ended, n.subs, n.trails = true, nil, nil
	n.mu.Unlock()
	for _, t := range trails {
		t.drop()
	}
	for _, fn := range stop {
		fn()
	}
}

func (n *session) touch() {
	n.mu.Lock()
	n.used = time.Now()
	n.mu.Unlock()
}

// idle reports whether nobody waits for anything of a session. One that follows resources is let alone for a while without a stream.
func (n *session) idle() (since time.Time, yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.used, n.own == nil && len(n.under) == 0 && (len(n.subs) == 0 || time.Since(n.used) > maxApart)
}

// attach makes s the session's stream; the one before ends. What is sent afterwards goes to later.
func (n *session) attach(s *stream, send, later func([]byte)) (detach func()) {
	n.mu.Lock()
	old := n.own
	n.own, n.send = s, send
	n.mu.Unlock()
	if old != nil {
		old.close()
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.own == s {
			n.own, n.send, n.used = nil, later, time.Now()
		}
	}
}

// enlist notes a request that the client can take back.
func (n *session) enlist(id []byte, cancel context.CancelFunc) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, twice := n.under[string(id)]; twice || n.ended || len(n.under) >= maxUnder {
		return false
	}
	n.under[string(id)] = cancel
	return true
}

func (n *session) delist(id []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.under, string(id))
	n.used = time.Now()
}

// aside takes what waits for no answer: the client's own answers, and notifications.
func (n *session) aside(m *message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case m.answer():
		if ch := n.asked[string(m.ID)]; ch != nil {
			delete(n.asked, string(m.ID))
			ch <- m // holds one
		}
	case m.Method == "notifications/cancelled":
		var in struct {
			ID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &in) == nil && n.under[string(in.ID)] != nil {
			n.under[string(in.ID)]()
		}
	}
}

// ask puts a request to the client by send and waits for its result.
func (n *session) ask(ctx context.Context, method string, params []byte, send func([]byte)) (json.RawMessage, error) {
	id := strconv.Quote("bobbin-" + rand.Text()[:12])
	ch := make(chan *message, 1)
	n.mu.Lock()
	full := len(n.asked) >= maxAsked || n.ended
	if !full {
		n.asked[id] = ch
	}
	n.mu.Unlock()
	if full {
		return nil, &schemas.Error{Code: schemas.CodeTooLarge, Text: "the client has too many open questions"}
	}
	defer func() {
		n.mu.Lock()
		delete(n.asked, id)
		n.mu.Unlock()
	}()
	send(slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), []byte(id), []byte(`,"method":"`), []byte(method), []byte(`","params":`), params, []byte("}")))
	select {
	case m := <-ch:
		if m.Result == nil {
			return nil, &schemas.Error{Code: schemas.CodeFailed, Text: "the client refused to ask its user"}
		}
		return m.Result, nil
	case <-ctx.Done():
		send(notification("notifications/cancelled", []byte(`{"requestId":`+id+`,"reason":"it is no longer needed"}`)))
		return nil, ctx.Err()
	}
}
