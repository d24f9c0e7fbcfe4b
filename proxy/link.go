package proxy

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/internal/jsonscan"
)

const (
	maxLine    = 4 << 20
	maxFlight  = 256 // calls of one server
	maxAsked   = 64  // requests of one server that wait for a client
	maxUnsent  = 2 * maxLine
	maxGarbage = 100 // lines on stdout that are not MCP before the server is given up
	stall      = 30 * time.Second
	maxNote    = 64 << 10
	noteQueue  = 64 // notifications that wait for a slow reader; more are dropped
)

var (
	errGone      = errors.New("the server ended before it answered; whether the call ran is not known")
	errDown      = errors.New("the server does not run; the call did not run")
	errUnborn    = errors.New("the server cannot be started; the call did not run")
	errTaken     = errors.New("the server's stdio is in use")
	errBusy      = errors.New("too many calls of this server are under way; the call did not run")
	errLong      = errors.New("the message is above 4 MiB; the call did not run")
	errSilent    = errors.New("no answer in time; whether the call ran is not known")
	errCancelled = errors.New("the call was cancelled; whether it ran is not known")
	errLeft      = errors.New("the session ended before the answer; whether the call ran is not known")
)

// link shares the stdio of one run of a program among many clients. Each call gets an id of the link's own at the server,
// and its own one back in the answer.
type link struct {
	s       *server
	p       *process
	done    chan struct{} // closed when the reader is over
	greeted atomic.Bool   // this run knows the handshake that all sessions share
	inited  atomic.Bool   // and that it is over

	mu      sync.Mutex
	calls   map[int64]*call
	asked   map[string]question // requests of the server that wait, by their id
	last    int64
	over    error
	out     []byte // waits to be written
	spare   []byte
	writing bool

	garbage int // the reader's
}

// question is a request of the server.
type question struct {
	to     *session // who is to answer it
	inCall bool     // it came up while calls of theirs were under way
}

func newLink(s *server, p *process) *link {
	l := &link{s: s, p: p, done: make(chan struct{}), calls: map[int64]*call{}, asked: map[string]question{}}
	p.goroutines.Go(l.read)
	return l
}

// send gives c its id and writes the request under that.
func (l *link) send(m *message, c *call) error {
	l.mu.Lock()
	switch {
	case l.over != nil:
		l.mu.Unlock()
		return errDown
	case len(l.calls) >= maxFlight:
		l.mu.Unlock()
		return errBusy
	}
	if err := l.room(len(m.raw) + 64); err != nil {
		l.mu.Unlock()
		return err
	}
	l.last++
	c.id = l.last
	l.calls[c.id] = c
	var digits [20]byte
	id := strconv.AppendInt(digits[:0], c.id, 10)
	l.out = append(jsonscan.Splice(l.out, m.raw, m.ID.As(id), m.token.As(id)), '\n')
	l.flush()
	return nil
}

// post writes one message that waits for no answer.
func (l *link) post(line []byte, edits ...jsonscan.Edit) error {
	l.mu.Lock()
	err := l.over
	if err == nil {
		err = l.room(len(line) + 64)
	}
	if err != nil {
		l.mu.Unlock()
		return err
	}
	l.out = append(jsonscan.Splice(l.out, line, edits...), '\n')
	l.flush()
	return nil
}

// tell is post for the reader, which must not wait for the server to read: the server may be waiting for it.
func (l *link) tell(line []byte) {
	l.mu.Lock()
	if l.over != nil || l.room(len(line)+64) != nil {
		l.mu.Unlock()
		return
	}
	l.out = append(append(l.out, line...), '\n')
	if l.writing {
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.p.goroutines.Go(func() {
		l.mu.Lock()
		l.flush()
	})
}

func (l *link) room(n int) error {
	switch {
	case n > maxLine:
		return errLong
	case len(l.out)+n > maxUnsent:
		return errBusy
	}
	return nil
}

// flush writes what waits, and lets the lock go. Who finds somebody writing leaves its message to them, so messages of a
// busy moment go out together.
func (l *link) flush() {
	defer l.mu.Unlock()
	if l.writing {
		return
	}
	l.writing = true
	for len(l.out) > 0 && l.over == nil {
		data := l.out
		l.out = l.spare[:0]
		l.mu.Unlock()
		_ = l.p.stdin.SetWriteDeadline(time.Now().Add(stall))
		_, err := l.p.stdin.Write(data)
		l.mu.Lock()
		l.spare = nil
		if cap(data) <= keepBuffer {
			l.spare = data
		}
		if err != nil {
			l.failLocked(errGone)
			l.p.stop() // half a line cannot be taken back
		}
	}
	l.writing = false
}

// forget takes a call back and tells the server, unless the answer is there already.
func (l *link) forget(c *call) bool {
	l.mu.Lock()
	_, waiting := l.calls[c.id]
	l.removeLocked(c.id)
	l.mu.Unlock()
	if waiting {
		_ = l.post([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + strconv.FormatInt(c.id, 10) + `,"reason":"the client left"}}`))
	}
	return waiting
}

// drop takes back the calls of a session that ended.
func (l *link) drop(from *session) {
	var theirs []*call
	l.mu.Lock()
	for _, c := range l.calls {
		if c.session == from {
			theirs = append(theirs, c)
		}
	}
	for id, q := range l.asked {
		if q.to == from {
			delete(l.asked, id)
			l.out = append(append(l.out, rpcError([]byte(id), codeNoMethod, "the client left")...), '\n')
		}
	}
	l.flush()
	for _, c := range theirs {
		if l.forget(c) {
			c.deliver(rpcError(c.orig, codeServer, errLeft.Error()))
		}
	}
}

func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0
}

func (l *link) broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over != nil
}

func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(err)
}

// failLocked answers all calls once.
func (l *link) failLocked(err error) {
	if l.over != nil {
		return
	}
	l.over, l.out = err, nil
	for id, c := range l.calls {
		delete(l.calls, id)
		c.deliver(rpcError(c.orig, codeServer, err.Error()))
	}
	clear(l.asked)
}

func (l *link) read() {
	defer close(l.done)
	lines := lineReader{r: l.p.stdout, max: maxLine}
	for {
		line, err := lines.next()
		if err == nil {
			err = l.message(line)
		}
		if err != nil {
			if !gone(err) {
				l.s.opts.Log.Warn("a server is ended", "server", l.s.name, "why", err.Error())
			}
			l.fail(errGone)
			l.p.stop()
			return
		}
	}
}

var errGarbage = errors.New("it wrote more than 100 lines to stdout that are not JSON-RPC")

func (l *link) message(line []byte) error {
	e, line, err := jsonscan.Mended(line)
	if err != nil || e.Method.Absent() && e.ID.Absent() || bytes.IndexByte(line, '\r') >= 0 {
		if len(line) > 0 {
			l.garbage++
		}
		if l.garbage > maxGarbage {
			return errGarbage
		}
		return nil
	}
	switch {
	case e.Method.Absent():
		l.answered(line, &e)
	case e.ID.Absent():
		l.notified(line, &e)
	default:
		l.asks(line, &e)
	}
	return nil
}

func (l *link) answered(line []byte, e *jsonscan.Envelope) {
	c := l.take(e.ID.Of(line))
	if c == nil {
		return // cancelled, or never asked
	}
	c.deliver(jsonscan.Splice(make([]byte, 0, len(line)+len(c.orig)), line, e.ID.As(c.orig)))
}

func (l *link) take(raw []byte) *call {
	id, ok := jsonscan.Int(raw)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[id]
	l.removeLocked(id)
	return c
}

// removeLocked ends a call. With the last of a session its questions go that came up meanwhile: nobody waits for their answers
// any more, and unanswered ones would fill the room that there is.
func (l *link) removeLocked(id int64) {
	gone := l.calls[id]
	delete(l.calls, id)
	if gone == nil || len(l.asked) == 0 {
		return
	}
	for _, c := range l.calls {
		if c.session == gone.session {
			return
		}
	}
	maps.DeleteFunc(l.asked, func(_ string, q question) bool { return q.inCall && q.to == gone.session })
}

func (l *link) peek(raw []byte) *call {
	id, ok := jsonscan.Int(raw)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[id]
}

// notified passes a notification to the client that it belongs to; to every session when it belongs to none.
func (l *link) notified(line []byte, e *jsonscan.Envelope) {
	switch verb, _ := jsonscan.Text(e.Method.Of(line)); verb {
	case "notifications/progress":
		token, err := jsonscan.Find(line, e.Params, "progressToken")
		if err != nil || token.Absent() {
			return
		}
		if c := l.peek(token.Of(line)); c != nil && c.token != nil {
			c.note(jsonscan.Splice(nil, line, token.As(c.token)))
		}
		return
	case "notifications/cancelled":
		id, err := jsonscan.Find(line, e.Params, "requestId")
		if err != nil || id.Absent() {
			return
		}
		l.mu.Lock()
		q := l.asked[string(id.Of(line))]
		delete(l.asked, string(id.Of(line)))
		l.mu.Unlock()
		if q.to != nil {
			q.to.note(bytes.Clone(line))
		}
		return
	}
	// A subscription of 2026-07-28 is named by the id of its request.
	sub, err := jsonscan.Find(line, e.Params, "_meta", "io.modelcontextprotocol/subscriptionId")
	switch {
	case err != nil:
	case !sub.Absent():
		if c := l.peek(sub.Of(line)); c != nil {
			c.note(jsonscan.Splice(nil, line, sub.As(c.orig)))
		}
	default:
		l.spread(bytes.Clone(line))
	}
}

// spread gives a notification to all sessions, and to the one call under way when no session could be meant.
func (l *link) spread(line []byte) {
	for _, to := range l.s.everySession() {
		to.note(line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 1 {
		for _, c := range l.calls {
			if c.session == nil {
				c.note(line)
			}
		}
	}
}

// asks passes a request of the server to the one client that it can be meant for, and refuses it otherwise.
func (l *link) asks(line []byte, e *jsonscan.Envelope) {
	id := bytes.Clone(e.ID.Of(line))
	if verb, _ := jsonscan.Text(e.Method.Of(line)); verb == "ping" {
		l.tell(rpcResult(id, []byte("{}")))
		return
	}
	c, to := l.meant()
	if to != nil {
		l.mu.Lock()
		known := len(l.asked) < maxAsked
		if known {
			l.asked[string(id)] = question{to, c != nil}
		}
		l.mu.Unlock()
		if known && to.ask(c, bytes.Clone(line)) {
			return
		}
		l.mu.Lock()
		delete(l.asked, string(id))
		l.mu.Unlock()
	}
	l.tell(rpcError(id, codeNoMethod, "no client can answer this now"))
}

// meant finds the session that alone has calls under way, with one of them. A server that asks outside of any call means
// its only client, when there is only one.
func (l *link) meant() (*call, *session) {
	l.mu.Lock()
	var one *call
	for _, c := range l.calls {
		if c.session == nil || one != nil && one.session != c.session {
			l.mu.Unlock()
			return nil, nil
		}
		if one == nil || c.id > one.id {
			one = c
		}
	}
	l.mu.Unlock()
	if one != nil {
		return one, one.session
	}
	if all := l.s.everySession(); len(all) == 1 {
		return nil, all[0]
	}
	return nil, nil
}

// reply passes a client's answer to the server, if it is that client's to give.
func (l *link) reply(m *message, from *session) {
	id := string(m.ID.Of(m.raw))
	l.mu.Lock()
	mine := from != nil && l.asked[id].to == from
	if mine {
		delete(l.asked, id)
	}
	l.mu.Unlock()
	if mine {
		_ = l.post(m.raw)
	}
}

// cancel passes a client's cancellation of one of its own calls on, under the id that the server knows.
func (l *link) cancel(m *message, from *session) {
	if m.target.Absent() {
		return
	}
	id := m.target.Of(m.raw)
	var found *call
	l.mu.Lock()
	for _, c := range l.calls {
		if c.session == from && bytes.Equal(c.orig, id) {
			found = c
			l.removeLocked(c.id)
			break
		}
	}
	l.mu.Unlock()
	if found != nil {
		_ = l.post(m.raw, m.target.As(strconv.AppendInt(nil, found.id, 10)))
		// A server does not answer what was cancelled; whoever waits is let go.
		found.deliver(rpcError(found.orig, codeServer, errCancelled.Error()))
	}
}

// wait returns the answer of a call. What comes before it goes to note, if that is not nil.
func (l *link) wait(ctx context.Context, c *call, note func([]byte)) ([]byte, error) {
	for {
		select {
		case b := <-c.notes:
			note(b)
		case b := <-c.answer:
			for len(c.notes) > 0 {
				note(<-c.notes)
			}
			return b, nil
		case <-ctx.Done():
			l.forget(c)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, errSilent
			}
			return nil, os.ErrClosed
		}
	}
}
