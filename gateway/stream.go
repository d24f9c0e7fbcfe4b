package gateway

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"bobbin/internal/jsonscan"
)

// keptFrame bounds the buffers that are used again, in bytes.
const keptFrame = 256 << 10

// stream writes to one HTTP response: server-sent events once there is something to say before the answer, else JSON.
type stream struct {
	identity
	g     *Gateway
	w     http.ResponseWriter
	close context.CancelFunc
	of    *session // whose client can come back for what it missed; nil: it cannot

	mu    sync.Mutex
	trail *trail // once the stream of such a session has begun
	begun bool
	over  bool
	beat  *time.Timer
	err   error
}

func (s *stream) fine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil
}

// send writes a message as an event.
func (s *stream) send(b []byte) {
	if t := s.lasting(); t != nil {
		t.say(b)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(slices.Concat([]byte("event: message\ndata: "), b, []byte("\n\n")))
}

// lasting gives the trail of a stream that has one from its first event on.
func (s *stream) lasting() *trail {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of != nil && s.trail == nil && !s.begun && !s.over {
		s.trail = s.of.trail(s)
	}
	return s.trail
}

// pass writes what is an event, or several, already.
func (s *stream) pass(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(b)
}

func (s *stream) comment(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write([]byte(": " + text + "\n\n"))
}

// write begins the stream if need be; the lock is held.
func (s *stream) write(b []byte) {
	if s.err != nil || s.over {
		return
	}
	control := http.NewResponseController(s.w)
	_ = control.SetWriteDeadline(time.Now().Add(writeWait))
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
	}
	if _, s.err = s.w.Write(b); s.err == nil {
		s.err = control.Flush()
	}
}

// finish writes the answer, after which nothing is written any more. A request that was taken back has none.
func (s *stream) finish(o outcome, id []byte, status int) {
	s.mu.Lock()
	if t := s.trail; t != nil {
		s.mu.Unlock()
		t.finish(o, id)
		return
	}
	defer s.mu.Unlock()
	switch {
	case s.over:
	case o.none() && s.begun:
	case o.none():
		s.w.WriteHeader(http.StatusNoContent)
	case s.begun:
		const before = "event: message\ndata: "
		b := o.frame(append(make([]byte, 0, len(o.result)+128), before...), id)
		jsonscan.OneLine(b[len(before):])
		s.write(append(b, "\n\n"...))
	default:
		b := s.g.frames.Get().(*[]byte)
		*b = o.frame((*b)[:0], id)
		writeJSON(s.w, status, *b)
		if cap(*b) <= keptFrame {
			s.g.frames.Put(b)
		}
	}
	s.over = true
}

// breathe gives signs of life on a response that takes long, so that nothing in between closes it, until rest. The first one lets a
// client that understands it come back when something does.
func (s *stream) breathe(every time.Duration) {
	first, primes := every, s.of != nil && s.of.version == latest
	if primes {
		first = min(every, prime)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = time.AfterFunc(first, func() {
		if t := s.lasting(); t != nil && primes {
			primes = false
			t.prime()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.over {
			s.write([]byte(": wait\n\n"))
			s.beat.Reset(every)
		}
	})
}

// rest is for when nothing may be written any more.
func (s *stream) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.beat != nil {
		s.beat.Stop()
	}
}
