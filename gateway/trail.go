package gateway

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bobbin/internal/jsonscan"
)

const (
	maxTrail  = 2 << 20         // bytes of one stream that are kept
	maxTrails = 32              // streams of one session
	maxKept   = 64 << 20        // bytes of all sessions
	keptFor   = 2 * time.Minute // after a stream's answer
	prime     = 2 * time.Second // after which a call that says nothing can be resumed
	ownHead   = "own"           // begins the key of a session's own stream
)

// trail is what was said on a stream of a session, kept so that a client whose connection broke hears the rest of it on another one (MCP
// 2025-11-25, Transports, Resumability; 2026-07-28 has no such thing). It ends with its session. What is too much to keep makes the
// trail useless, and nothing else.
type trail struct {
	g   *Gateway
	key string
	own bool // of the session's own stream, where the oldest may go

	saying sync.Mutex // held while something is written; taken before mu

	mu     sync.Mutex
	out    *stream  // where it is said now; nil: nowhere
	events [][]byte // the last ones
	next   int      // the number of the next one; the first is 1
	unsaid int      // the first one that went nowhere
	size   int
	lost   bool // not all of it is kept
	ended  time.Time
	end    chan struct{}
}

// trail begins one of a session for s; nil when it has too many, or speaks a version without.
func (n *session) trail(s *stream) *trail {
	if n.version == oldest {
		return nil
	}
	t := &trail{g: n.g, key: rand.Text()[:10], out: s, next: 1, unsaid: 1, end: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.trails) >= maxTrails {
		i := slices.IndexFunc(n.trails, func(o *trail) bool { return o.over(0) })
		if i < 0 {
			return nil
		}
		n.trails[i].drop()
		n.trails = slices.Delete(n.trails, i, i+1)
	}
	n.trails = append(n.trails, t)
	return t
}

// ownTrail is that of the session's own stream, over all the connections that it has one after the other.
func (n *session) ownTrail() *trail {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.self == nil {
		n.self = &trail{g: n.g, own: true, key: ownHead + rand.Text()[:10], next: 1, unsaid: 1}
	}
	return n.self
}

// over reports whether nothing was said on a trail for longer than this after its end.
func (t *trail) over(since time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.ended.IsZero() && time.Since(t.ended) >= since
}

// drop gives back what a trail takes.
func (t *trail) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.g.kept.Add(-int64(t.size))
	t.events, t.size, t.lost = nil, 0, true
}

// say sends a message to whoever listens, and keeps it.
func (t *trail) say(b []byte) {
	t.event(func(dst []byte) []byte { return append(dst, b...) })
}

// prime gives the client a number from which it can resume, before there is anything to say.
func (t *trail) prime() {
	t.saying.Lock()
	defer t.saying.Unlock()
	t.put([]byte("id: " + t.key + "-" + strconv.Itoa(t.number()) + "\ndata:\n\n"))
}

func (t *trail) event(message func(dst []byte) []byte) {
	t.saying.Lock()
	defer t.saying.Unlock()
	b := append(append(make([]byte, 0, 256), "id: "+t.key+"-"...), strconv.Itoa(t.number())...)
	b = append(b, "\nevent: message\ndata: "...)
	head := len(b)
	b = message(b)
	jsonscan.OneLine(b[head:])
	t.put(append(b, "\n\n"...))
}

// put keeps what bears the next number, and says it; t.saying is held.
func (t *trail) put(b []byte) {
	if out := t.keep(b); out != nil {
		out.pass(b)
	}
}

func (t *trail) keep(b []byte) (out *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	for t.own && len(t.events) > 0 && (len(t.events) >= maxUnder || t.size+len(b) > maxTrail) {
		t.size -= len(t.events[0])
		t.g.kept.Add(-int64(len(t.events[0])))
		t.events = t.events[1:]
	}
	switch {
	case t.lost:
	case len(t.events) >= 4*maxUnder, t.size+len(b) > maxTrail, t.g.kept.Load()+int64(len(b)) > maxKept:
		t.g.kept.Add(-int64(t.size))
		t.events, t.size, t.lost = nil, 0, !t.own
	default:
		t.events = append(t.events, b)
		t.size += len(b)
		t.g.kept.Add(int64(len(b)))
	}
	if t.out != nil {
		t.unsaid = t.next
	}
	return t.out
}

func (t *trail) number() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}

// finish says the answer, if there is one, after which nothing follows.
func (t *trail) finish(o outcome, id []byte) {
	if !o.none() {
		t.event(func(dst []byte) []byte { return o.frame(dst, id) })
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.out = time.Now(), nil
	close(t.end)
}

// take has what follows go to s, beginning with what was said after the event of that number, or what went nowhere with a negative one;
// false: that is not kept any more.
func (t *trail) take(s *stream, after int) bool {
	t.saying.Lock()
	defer t.saying.Unlock()
	t.mu.Lock()
	first := t.next - len(t.events)
	if after < 0 {
		after = max(t.unsaid, first) - 1
	}
	if t.lost || after+1 < first || after >= t.next {
		t.mu.Unlock()
		return false
	}
	missed := t.events[after+1-first:]
	t.out, t.unsaid = s, t.next
	t.mu.Unlock()
	s.pass([]byte(": open\n\n"))
	for _, b := range missed {
		s.pass(b)
	}
	return true
}

// leave ends what take began: s is written to no more.
func (t *trail) leave(s *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out == s {
		t.out = nil
	}
}

// resume lets a client hear the rest of a stream whose connection broke.
func (g *Gateway) resume(w http.ResponseWriter, r *http.Request, n *session, key string, after int) {
	n.mu.Lock()
	i := slices.IndexFunc(n.trails, func(t *trail) bool { return t.key == key })
	var t *trail
	if i >= 0 {
		t = n.trails[i]
	}
	n.mu.Unlock()
	s, ctx, leave, ok := g.open(r.Context(), &n.identity, w)
	if !ok {
		refuse(w, http.StatusServiceUnavailable, nil, codeServer, "too many streams are open")
		return
	}
	defer leave()
	if t == nil || !t.take(s, after) {
		refuse(w, http.StatusBadRequest, nil, codeInvalid, "what was said on that stream is no longer kept; call again")
		return
	}
	s.breathe(g.opt.Quiet)
	defer s.rest()
	defer t.leave(s)
	select {
	case <-t.end:
	case <-ctx.Done():
	}
}

// lastEvent reads the id of an event that a client heard last.
func lastEvent(r *http.Request) (key string, number int, given bool) {
	id := r.Header.Get("Last-Event-Id")
	key, tail, _ := strings.Cut(id, "-")
	number, err := strconv.Atoi(tail)
	if err != nil || number < 0 {
		number = 0
	}
	return key, number, id != ""
}

// forgetTrails drops what nobody came back for.
func (g *Gateway) forgetTrails() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.sessions {
		n.mu.Lock()
		n.trails = slices.DeleteFunc(n.trails, func(t *trail) bool {
			old := t.over(keptFor)
			if old {
				t.drop()
			}
			return old
		})
		n.mu.Unlock()
	}
}
