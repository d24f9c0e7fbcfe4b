package session

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"bobbin/internal/jsonscan"
)

// mux matches answers that arrive on one stream with the calls that wait for
// them. Stdio and legacy HTTP+SSE share it.
type mux struct {
	mu      sync.Mutex
	waiting map[int64]*waiter
	over    error // why the stream ended; nil while it lives
}

type waiter struct {
	answer chan answer
	told   chan struct{} // has a value when there are new notes; nil if nobody listens
	notes  []note        // under mux.mu
	logs   bool
	stream bool
}

// note is a notification about a call.
type note struct {
	params json.RawMessage
	log    bool
}

type answer struct {
	result json.RawMessage
	err    error
}

// maxNotes is how many notes wait for a slow caller; more are dropped.
const maxNotes = 16

// add registers id. It fails once the stream is over.
func (m *mux) add(id int64, r *request) (*waiter, error) {
	w := &waiter{answer: make(chan answer, 1), logs: r.log != nil, stream: r.stream}
	if r.progress != nil || w.logs {
		w.told = make(chan struct{}, 1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over != nil {
		return nil, notSent(m.over)
	}
	m.waiting[id] = w
	return w, nil
}

// drop forgets id and reports whether it was still waiting.
func (m *mux) drop(id int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.waiting[id]
	delete(m.waiting, id)
	return ok
}

// take removes the waiter of an answer; nil for an unknown or repeated id.
func (m *mux) take(raw []byte) *waiter {
	id, ok := jsonscan.Int(raw)
	if !ok {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.waiting[id]
	delete(m.waiting, id)
	return w
}

// deliver hands an answer to its caller. It never blocks.
func (m *mux) deliver(e envelope) {
	if w := m.take(e.id); w != nil {
		result, err := answerOf(e)
		w.answer <- answer{result, err}
	}
}

// progressed routes a progress note to its call and reports whether there is one.
func (m *mux) progressed(params []byte) bool {
	token, err := jsonscan.Find(params, jsonscan.All(params), "progressToken")
	id, ok := jsonscan.Int(token.Of(params))
	if err != nil || !ok {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.waiting[id]
	if w == nil || w.told == nil {
		return false
	}
	w.tell(note{params: bytes.Clone(params)})
	return true
}

// logged gives a log message to the one call that waits, and reports whether it wants it: with several nobody can say whose it is.
func (m *mux) logged(params []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var only *waiter
	for _, w := range m.waiting {
		switch {
		case w.stream:
		case only != nil:
			return false
		default:
			only = w
		}
	}
	if only == nil || !only.logs {
		return false
	}
	only.tell(note{params: bytes.Clone(params), log: true})
	return true
}

// tell is called under mux.mu.
func (w *waiter) tell(n note) {
	if len(w.notes) == maxNotes {
		return
	}
	w.notes = append(w.notes, n)
	select {
	case w.told <- struct{}{}:
	default:
	}
}

// hear gives the caller what it was told so far.
func (m *mux) hear(w *waiter, r *request) {
	m.mu.Lock()
	notes := w.notes
	w.notes = nil
	m.mu.Unlock()
	for _, n := range notes {
		r.hear(n)
	}
}

func (r *request) hear(n note) {
	switch {
	case n.log:
		r.log(n.params)
	case r.progress != nil:
		r.progress(n.params)
	}
}

// fail ends the stream once and gives every waiting call an unknown outcome.
// It reports whether this call was the one that ended it.
func (m *mux) fail(err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over != nil {
		return false
	}
	m.over = err
	for _, w := range m.waiting {
		w.answer <- answer{err: lost(err)}
	}
	clear(m.waiting)
	return true
}

func (m *mux) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over
}

// wait returns the answer, or the end of ctx as (zero, false). Progress runs
// on the caller's goroutine, what came before the answer runs before it.
func (m *mux) wait(ctx context.Context, w *waiter, r *request) (answer, bool) {
	for {
		select {
		case <-w.told:
			m.hear(w, r)
		case a := <-w.answer:
			if w.told != nil {
				m.hear(w, r)
			}
			return a, true
		case <-ctx.Done():
			return answer{}, false
		}
	}
}
