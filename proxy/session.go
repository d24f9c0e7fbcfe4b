package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"bobbin/internal/jsonscan"
)

const (
	maxSessions  = 256
	sessionIdle  = time.Hour
	sessionQueue = 256 // messages that wait for its stream
	helloWait    = time.Minute
)

var errFull = errors.New("too many sessions of this server are open")

// session is one client of the eras that had them: by Mcp-Session-Id, or by its event stream (2024-11-05).
type session struct {
	id    string
	s     *server
	queue chan []byte   // for its stream
	gone  chan struct{} // closed by hangUp
	hang  sync.Once
	once  sync.Once
	old   bool // of 2024-11-05: answers go to the stream, too

	mu     sync.Mutex
	stream bool // somebody reads the queue
	posts  int  // that wait for an answer
	used   time.Time
}

// open makes a session. The longest unused one goes when there are too many.
func (s *server) open(old bool) (*session, error) {
	n := &session{id: rand.Text(), s: s, queue: make(chan []byte, sessionQueue), gone: make(chan struct{}), old: old, used: time.Now()}
	var idle *session
	var since time.Time
	s.mu.Lock()
	for _, o := range s.sessions {
		if used, unused := o.idle(); unused && (idle == nil || used.Before(since)) {
			idle, since = o, used
		}
	}
	full := len(s.sessions) >= maxSessions
	if idle != nil && (full || time.Since(since) > sessionIdle) {
		delete(s.sessions, idle.id)
		full = false
	} else {
		idle = nil
	}
	if !full && s.over.Err() == nil {
		s.sessions[n.id] = n
	}
	s.mu.Unlock()
	if idle != nil {
		idle.close()
	}
	if full || s.over.Err() != nil {
		return nil, errFull
	}
	return n, nil
}

func (n *session) idle() (since time.Time, unused bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.used, !n.stream && n.posts == 0
}

// busy counts a post that waits for its answer; the returned function ends it.
func (n *session) busy() (done func()) {
	n.mu.Lock()
	n.posts++
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		n.posts--
		n.used = time.Now()
		n.mu.Unlock()
	}
}

// session finds one, and marks it as used; nil when there is none.
func (s *server) session(id string) *session {
	s.mu.Lock()
	n := s.sessions[id]
	s.mu.Unlock()
	if n != nil {
		n.mu.Lock()
		n.used = time.Now()
		n.mu.Unlock()
	}
	return n
}

func (s *server) everySession() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

func (s *server) closeSessions() {
	for _, n := range s.everySession() {
		n.close()
	}
}

// close ends the session and takes its calls back.
func (n *session) close() {
	n.once.Do(func() {
		n.hangUp()
		n.s.mu.Lock()
		delete(n.s.sessions, n.id)
		l := n.s.link
		n.s.mu.Unlock()
		if l != nil {
			l.drop(n)
		}
	})
}

func (n *session) hangUp() { n.hang.Do(func() { close(n.gone) }) }

// attach takes the stream for one reader.
func (n *session) attach() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stream {
		return false
	}
	n.stream = true
	return true
}

func (n *session) detach() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stream, n.used = false, time.Now()
}

// answer gives the stream an answer. A client that does not read loses its session rather than an answer.
func (n *session) answer(b []byte) {
	select {
	case n.queue <- b:
	case <-n.gone:
	default:
		n.hangUp() // the reader of the stream closes the session
	}
}

// note gives the stream what may be lost.
func (n *session) note(b []byte) bool {
	if len(n.queue) >= noteQueue || !small(b, len(n.queue)) {
		return false
	}
	select {
	case n.queue <- b:
		return true
	default:
		return false
	}
}

// ask brings a request of the server to the client: on the stream of the call that it came up in, else on its own.
func (n *session) ask(c *call, b []byte) bool {
	if c != nil && c.notes != nil {
		select {
		case c.notes <- b:
			return true
		default:
			return false
		}
	}
	n.mu.Lock()
	heard := n.stream
	n.mu.Unlock()
	return heard && n.note(b)
}

// hello is the handshake that the first session made. A program knows one client; the others get the same answer, and a
// new run of the program gets the same handshake again, so that sessions outlive it.
type hello struct {
	request message
	result  []byte
}

func (s *server) lockHand(ctx context.Context) error {
	select {
	case s.hand <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errDown
	}
}

// initialize answers a client's initialize, under its own id.
func (s *server) initialize(ctx context.Context, m *message) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	if err := s.lockHand(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.hand }()
	l, err := s.shared(ctx)
	if err != nil {
		return nil, err
	}
	if h := s.hello.Load(); h != nil {
		if err := s.greet(ctx, l, h); err != nil {
			return nil, err
		}
		return rpcResult(m.ID.Of(m.raw), h.result), nil
	}
	c := &call{orig: m.ID.Of(m.raw), answer: make(chan []byte, 1)}
	if err := l.send(m, c); err != nil {
		return nil, err
	}
	answer, err := l.wait(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	if e, err := jsonscan.Message(answer); err == nil && !e.Result.Absent() && e.Error.Absent() {
		l.greeted.Store(true)
		s.hello.Store(&hello{request: *m, result: e.Result.Of(answer)})
	}
	return answer, nil
}

// greet repeats the handshake to a new run of the program. The caller holds the hand.
func (s *server) greet(ctx context.Context, l *link, h *hello) error {
	if l.greeted.Load() {
		return nil
	}
	c := &call{orig: []byte("0"), answer: make(chan []byte, 1)}
	if err := l.send(&h.request, c); err != nil {
		return err
	}
	answer, err := l.wait(ctx, c, nil)
	if err != nil {
		return err
	}
	if e, err := jsonscan.Message(answer); err != nil || e.Result.Absent() {
		return errDown
	}
	l.greeted.Store(true)
	return l.initialized([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
}

// initialized passes the first of these notifications on, for a run of the program.
func (l *link) initialized(line []byte) error {
	if l.inited.Swap(true) {
		return nil
	}
	return l.post(line)
}

// ready gives the link for anything but a handshake.
func (s *server) ready(ctx context.Context) (*link, error) {
	l, err := s.shared(ctx)
	h := s.hello.Load()
	if err != nil || h == nil || l.greeted.Load() {
		return l, err
	}
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	if err := s.lockHand(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.hand }()
	return l, s.greet(ctx, l, h)
}

const listenMethod = "subscriptions/listen" // holds its answer back until the client leaves (2026-07-28)

// event is one message as a server-sent event.
func event(b []byte) []byte {
	out := make([]byte, 0, len(b)+40)
	return append(append(append(out, "event: message\ndata: "...), b...), "\n\n"...)
}
