package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

const (
	maxGarbage  = 100      // lines on stdout that are not MCP before the server is given up
	writeBatch  = 64 << 10 // queued messages go out together up to this size
	maxUnsent   = 1024     // messages
	sampleBytes = 200

	direct  = 100 * time.Millisecond // that a caller spends at most writing
	batches = 4                      // the most of them
)

// pipe speaks newline-delimited JSON-RPC with a child process. One goroutine
// reads. A caller writes its request itself, and what others queued meanwhile;
// what the child does not take at once goes on on a goroutine of its own, as
// does everything where a write cannot be given up.
type pipe struct {
	mux
	s       *Session
	rw      io.ReadWriteCloser
	limited limited   // rw, if its writes can be bounded
	until   time.Time // what they are bounded by; of who writes
	max     int
	stall   time.Duration
	writing bool        // somebody does; under mux.mu, as is unsent
	unsent  []*outgoing // oldest first
	size    int         // bytes in unsent

	garbage int    // the read loop's
	sample  string // under mux.mu
}

// limited is a pipe whose writes can be given up in the middle.
type limited interface{ SetWriteDeadline(time.Time) error }

type outgoing struct {
	data    []byte
	started bool // under mux.mu
}

func newPipe(s *Session, rw io.ReadWriteCloser, limit int, stall time.Duration) *pipe {
	p := &pipe{mux: mux{waiting: map[int64]*waiter{}}, s: s, rw: rw, max: limit, stall: stall}
	if l, ok := rw.(limited); ok && l.SetWriteDeadline(time.Time{}) == nil { // on Windows pipes have none
		p.limited = l
	}
	s.run(p.read)
	return p
}

func (p *pipe) roundTrip(ctx context.Context, r *request) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent(err)
	}
	id := p.s.ids.Add(1)
	w, err := p.add(id, r)
	if err != nil {
		return nil, err
	}
	out, mine, err := p.queue(r.encode(id, p.s.meta))
	if err != nil {
		p.drop(id)
		return nil, err
	}
	if mine {
		if p.crowd() {
			runtime.Gosched() // to let others who are about to ask go with it
		}
		p.writeSome()
	}
	a, answered := p.wait(ctx, w, r)
	if answered {
		if errors.Is(a.err, ErrLost) && p.revoke(out) {
			return nil, notSent(p.err())
		}
		return a.result, a.err
	}
	waiting := p.drop(id)
	if p.revoke(out) {
		return nil, notSent(ctx.Err())
	}
	if waiting && r.hand == nil { // initialize must not be cancelled (2025-11-25, basic/utilities/cancellation)
		_ = p.send(cancelMessage(id))
	}
	return nil, lost(ctx.Err())
}

// crowd reports whether several wait for answers.
func (p *pipe) crowd() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) > 1
}

func (p *pipe) notify(_ context.Context, message []byte, _ *handshake) error {
	return p.send(message)
}

// send sees to it that one line is written, and never blocks.
func (p *pipe) send(line []byte) error {
	_, mine, err := p.queue(line)
	if mine {
		p.writeOn(nil)
	}
	return err
}

// queue adds one line to what is to be written. mine says that nobody writes
// now, and the caller has to.
func (p *pipe) queue(line []byte) (out *outgoing, mine bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over != nil:
		return nil, false, notSent(p.over)
	case len(line) > p.max:
		return nil, false, notSent(fmt.Errorf("request above %d bytes", p.max))
	case len(p.unsent) >= maxUnsent || p.size+len(line) > 2*p.max:
		return nil, false, notSent(ErrStuck)
	}
	p.s.see(true, line)
	out = &outgoing{data: line}
	p.unsent = append(p.unsent, out)
	p.size += len(line)
	mine, p.writing = !p.writing, true
	return out, mine, nil
}

// revoke takes back a message that no byte was written of.
func (p *pipe) revoke(out *outgoing) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out.started {
		return false
	}
	for i, o := range p.unsent {
		if o == out {
			p.unsent = append(p.unsent[:i], p.unsent[i+1:]...)
			p.size -= len(out.data)
			break
		}
	}
	return true
}

// writeSome writes what waits, for a moment, and leaves the rest to a goroutine.
func (p *pipe) writeSome() {
	if p.limited == nil {
		p.writeOn(nil)
		return
	}
	for range batches {
		data := p.batch()
		if data == nil {
			return
		}
		if now := time.Now(); p.until.Sub(now) < direct/2 { // not with each message: it costs as much as a short write
			p.until = now.Add(direct)
			_ = p.limited.SetWriteDeadline(p.until)
		}
		if n, err := p.rw.Write(data); err != nil {
			p.writeOn(data[n:]) // which meets the error again, if the time was not all
			return
		}
	}
	p.writeOn(nil)
}

// writeOn writes the rest of a message and what waits behind it, on a goroutine.
func (p *pipe) writeOn(rest []byte) {
	if !p.s.run(func() { p.write(rest) }) { // the session is closing
		p.mu.Lock()
		p.writing = false
		p.mu.Unlock()
	}
}

// write empties the queue and ends. A write that takes longer than the stall
// limit ends the session: half a line cannot be taken back.
func (p *pipe) write(rest []byte) {
	watch := time.AfterFunc(p.stall, func() { p.end(ErrStuck) })
	defer watch.Stop()
	if p.limited != nil {
		p.until = time.Time{}
		_ = p.limited.SetWriteDeadline(p.until)
	}
	data := rest
	if len(rest) == 0 {
		data = p.batch()
	}
	for ; data != nil; data = p.batch() {
		watch.Reset(p.stall)
		if _, err := p.rw.Write(data); err != nil {
			p.end(fmt.Errorf("writing to the server: %w", err))
			return
		}
	}
}

// batch takes the next bytes to write; nil ends the writer.
func (p *pipe) batch() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.unsent) == 0 || p.over != nil {
		p.writing = false
		return nil
	}
	data, n := p.unsent[0].data, 1
	p.unsent[0].started = true
	for n < len(p.unsent) && len(data)+len(p.unsent[n].data) <= writeBatch {
		data = append(data, p.unsent[n].data...)
		p.unsent[n].started = true
		n++
	}
	p.size -= len(data)
	rest := copy(p.unsent, p.unsent[n:])
	clear(p.unsent[rest:])
	p.unsent = p.unsent[:rest]
	return data
}

func (p *pipe) read() {
	lines := newLineReader(p.rw, p.max)
	for {
		line, err := lines.next()
		if err == nil {
			err = p.message(line)
		}
		if err != nil {
			p.end(err)
			return
		}
	}
}

func (p *pipe) message(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	p.s.see(false, line)
	e, err := scanEnvelope(line)
	switch {
	case err != nil || e.method == nil && e.id == nil:
		return p.noise(line)
	case e.method == nil:
		p.deliver(e)
	case e.id == nil && string(e.method) == `"notifications/progress"` && p.progressed(e.params):
	case e.id == nil && string(e.method) == logMethod && p.logged(e.params):
	default:
		p.s.incoming(e, func(reply []byte) { _ = p.send(reply) })
	}
	return nil
}

// noise counts a line that is not MCP, such as a log line on stdout.
func (p *pipe) noise(line []byte) error {
	if p.garbage++; p.garbage == 1 {
		p.mu.Lock()
		p.sample = excerpt(line)
		p.mu.Unlock()
		if tell := p.s.opts.OnNoise; tell != nil {
			tell(p.sample)
		}
	}
	if p.garbage > maxGarbage {
		return p.noisy(fmt.Errorf("%w: more than %d lines on stdout are not JSON-RPC", ErrGarbage, maxGarbage))
	}
	return nil
}

// noisy adds the first line that was not MCP to an error.
func (p *pipe) noisy(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sample == "" {
		return err
	}
	return fmt.Errorf("%w: %w", err, &Noise{First: p.sample})
}

// end fails the calls, tells the session and only then closes the child,
// whose Close may take its time.
func (p *pipe) end(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		err = p.noisy(fmt.Errorf("server closed its output: %w", err))
	}
	if p.fail(err) {
		p.s.lost(err)
		_ = p.rw.Close()
	}
}

func (p *pipe) close(context.Context) error {
	if p.fail(ErrClosed) {
		return p.rw.Close()
	}
	return nil
}

// excerpt returns the printable start of untrusted bytes.
func excerpt(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(b[:min(len(b), sampleBytes)]), "?"))
}
