package audit

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"bobbin/schemas"
)

// maxGroup is how many bytes one write(2) takes, up to the end of the record that passes it.
const maxGroup = 64 << 10

// entry is a record that waits in its thread's queue. Whoever has the thread's turn writes all that wait there.
type entry struct {
	rec   schemas.Record
	err   error         // why it was not recorded
	end   int           // where it ends in the bytes of its group
	done  chan struct{} // gets a value when rec and err are the caller's again; has room for it
	timer *time.Timer
}

func newEntry() any {
	e := &entry{done: make(chan struct{}, 1), timer: time.NewTimer(maxWait)}
	e.timer.Stop()
	return e
}

func (t *thread) join(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, e)
}

// leave takes e out of the queue. It reports false when e is settled, or about to be.
func (t *thread) leave(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.queue, e)
	if at >= 0 {
		t.queue = slices.Delete(t.queue, at, at+1)
	}
	return at >= 0
}

// arrive reports whether nobody else is likely to append just now: nobody else does, and no other call is under way.
func (t *thread) arrive(e schemas.Event) (alone bool) {
	if e == schemas.EventCallEnd && t.calls.Add(-1) < 0 { // its begin is another process's
		t.calls.Store(0)
	}
	others := t.inside.Add(1) - 1 + t.calls.Load()
	if e == schemas.EventCallBegin {
		t.calls.Add(1)
	}
	return others <= 0
}

func (t *thread) depart(e schemas.Event, err error) {
	t.inside.Add(-1)
	if e == schemas.EventCallBegin && err != nil {
		t.calls.Add(-1) // it has no end
	}
}

// settle returns when e, which is in the queue, is recorded or e.err says why it is not and will not be.
func (l *Log) settle(ctx context.Context, t *thread, e *entry, alone bool) {
	now := time.Now()
	until := now.Add(maxWait)
	select {
	case t.turn <- struct{}{}:
	default:
		if !t.wait(ctx, e) {
			return
		}
		now = time.Now()
	}
	defer t.give()
	if len(e.done) == 0 { // nobody took it from the queue meanwhile
		if t.streak >= busy && !alone {
			runtime.Gosched() // to let others who are about to append join this group
		}
		if err := l.enter(ctx, t, now, until); err != nil {
			t.leave(e) // the others try for themselves: it may be the end of our context
			e.err = unwritable(err)
			return
		}
		l.writeQueue(t, now)
	}
	<-e.done
}

// wait reports whether it is e's turn to write; if not, e is settled.
func (t *thread) wait(ctx context.Context, e *entry) bool {
	e.timer.Reset(maxWait)
	defer e.timer.Stop()
	var err error
	select {
	case t.turn <- struct{}{}:
		return true
	case <-e.done:
		return false
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.timer.C:
		err = context.DeadlineExceeded
	}
	if t.leave(e) {
		e.err = unwritable(err)
	} else {
		<-e.done // it is being written: its caller is told how that ends
	}
	return false
}

// writeQueue settles all entries that wait now. The caller has the turn and the lock; the lock is no more its concern.
func (l *Log) writeQueue(t *thread, now time.Time) {
	defer l.keepLock(t, now)
	t.mu.Lock()
	rest := t.queue
	t.queue, t.spare = t.spare[:0], rest
	t.mu.Unlock()
	defer func() {
		for _, e := range rest { // none, unless we panic: then those who wait would wait forever
			e.err = unwritable(errors.New("a record before it broke the writer"))
			e.done <- struct{}{}
		}
	}()
	buf := l.lines.Get().(*[]byte)
	defer l.lines.Put(buf)
	for len(rest) > 0 {
		rest = rest[l.writeGroup(t, rest, buf):]
	}
}

// writeGroup settles the first entries of queue, as many as one write(2) takes, and says how many these are.
func (l *Log) writeGroup(t *thread, queue []*entry, buf *[]byte) (n int) {
	lines, tip := (*buf)[:0], t.tip
	for ; n < len(queue) && len(lines) < maxGroup; n++ {
		e := queue[n]
		lines, e.err = l.encode(lines, &tip, &e.rec)
		e.end = len(lines)
	}
	*buf = lines
	stays, err := t.write(lines)
	for _, e := range queue[:n] {
		switch {
		case e.err != nil:
		case e.end <= stays:
			t.tip = after(&e.rec)
		default:
			e.err = unwritable(err)
		}
		e.done <- struct{}{}
	}
	return n
}
