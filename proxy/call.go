package proxy

import "time"

// call is a client's request under way.
type call struct {
	id      int64
	orig    []byte      // the client's own id
	token   []byte      // the client's own progress token, or nil
	session *session    // nil since 2026-07-28
	answer  chan []byte // gets one message; nil when the answer goes to the session's stream
	notes   chan []byte // what belongs to the call and comes before; nil when the client takes none
	timer   *time.Timer // of a call without a waiting handler
}

// newCall prepares a request of a client. Notes are kept for the clients that take a stream.
func newCall(m *message, from *session, streams bool) *call {
	c := &call{orig: m.ID.Of(m.raw), session: from, answer: make(chan []byte, 1)}
	if !m.token.Absent() {
		c.token = m.token.Of(m.raw)
	}
	if streams {
		size := 8
		if c.token != nil || m.verb == listenMethod {
			size = noteQueue
		}
		c.notes = make(chan []byte, size)
	}
	return c
}

// deliver never blocks.
func (c *call) deliver(answer []byte) {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.answer != nil {
		c.answer <- answer
		return
	}
	c.session.answer(answer)
}

// note passes on what comes before the answer, unless its reader is too slow.
func (c *call) note(b []byte) {
	switch {
	case c.answer == nil:
		c.session.note(b)
	case c.notes != nil:
		if !small(b, len(c.notes)) {
			return
		}
		select {
		case c.notes <- b:
		default:
		}
	}
}

// small holds for what may wait behind others: of large notifications a slow reader keeps one.
func small(b []byte, waiting int) bool { return waiting == 0 || len(b) <= maxNote }
