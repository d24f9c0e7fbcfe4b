package desk

import (
	"sync"

	"bobbin/bot/internal/view"
	"bobbin/schemas"
)

// How many notices wait for a slow door; the oldest gives way. A door that listens to all its threads gets more room.
const (
	earSize    = 64
	listenSize = 1024
)

// ear is one subscription. An empty member hears for everybody in the thread.
type ear struct {
	match  func(schemas.ThreadID) bool
	member schemas.MemberID
	ch     chan view.Notice
}

type ears struct {
	mu   sync.Mutex
	subs map[*ear]struct{}
	asks []*Question // questions that wait; told again to who subscribes later
}

// Subscribe gives what happens by itself in a thread, as far as it is for that member; with an empty member, all of it, and
// the door heeds Notice.To. The channel holds 64 notices, the newest are kept; stop closes it and may be called twice.
func (d *Desk) Subscribe(thread schemas.ThreadID, member schemas.MemberID) (<-chan view.Notice, func()) {
	return d.hear(&ear{match: func(t schemas.ThreadID) bool { return t == thread }, member: member, ch: make(chan view.Notice, earSize)})
}

// Listen gives what happens by itself in all threads that match, for everybody; the door heeds Notice.To. match is called
// under a lock and must be quick and pure. The channel holds 1024 notices, the newest are kept; questions that wait are told
// again at once; stop closes it and may be called twice.
func (d *Desk) Listen(match func(schemas.ThreadID) bool) (<-chan view.Notice, func()) {
	return d.hear(&ear{match: match, ch: make(chan view.Notice, listenSize)})
}

func (d *Desk) hear(e *ear) (<-chan view.Notice, func()) {
	d.ears.mu.Lock()
	defer d.ears.mu.Unlock()
	d.ears.subs[e] = struct{}{}
	for _, a := range d.ears.asks {
		if e.hears(a.Notice) {
			e.push(a.Notice)
		}
	}
	return e.ch, func() {
		d.ears.mu.Lock()
		defer d.ears.mu.Unlock()
		if _, ok := d.ears.subs[e]; ok {
			delete(d.ears.subs, e)
			close(e.ch)
		}
	}
}

func (e *ear) hears(n view.Notice) bool {
	return e.match(n.Thread) && (e.member == "" || n.To == "" || n.To == e.member)
}

// push never blocks; it is called under the lock, so there is one sender. How far an answer is gives way to everything else.
func (e *ear) push(n view.Notice) {
	if n.Door != "" && n.Reply.Replace == "" && len(e.ch) > cap(e.ch)/2 {
		return
	}
	for {
		select {
		case e.ch <- n:
			return
		default:
		}
		select {
		case <-e.ch:
		default:
		}
	}
}

// Publish tells a notice to all it is for, except one member, and reports to how many.
func (d *Desk) Publish(n view.Notice, except schemas.MemberID) int {
	d.ears.mu.Lock()
	defer d.ears.mu.Unlock()
	told := 0
	for e := range d.ears.subs {
		if e.hears(n) && (except == "" || e.member != except) {
			e.push(n)
			told++
		}
	}
	return told
}

// Changed tells the doors of a thread that its servers, their states or its rules changed.
func (d *Desk) Changed(thread schemas.ThreadID) {
	d.Publish(view.Notice{Thread: thread, Changed: true}, "")
}
