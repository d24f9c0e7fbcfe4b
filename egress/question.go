package egress

import (
	"context"
	"errors"
	"maps"
	"time"

	"bobbin/schemas"
)

// question is what one card asks about. The server is left out: its name is the sandbox's own word.
type question struct {
	thread schemas.ThreadID
	member schemas.MemberID
	host   string
	port   int
}

// pending is a question that requests wait for. Its verdict stands when done is closed.
type pending struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int // under session.mu
	verdict verdict
}

// answered is what a person said, or that nobody did, for a while.
type answered struct {
	verdict verdict
	until   time.Time
}

// asked gives a person's answer: one question for all requests to a host and port, withdrawn when none of them waits any more.
func (s *session) asked(ctx context.Context, c schemas.Contact) verdict {
	k := question{c.Thread, c.Member, c.Host, c.Port}
	s.mu.Lock()
	if a, ok := s.answers[k]; ok && s.p.opt.Now().Before(a.until) {
		s.mu.Unlock()
		return a.verdict
	}
	if s.p.opt.Ask == nil || c.Thread == "" {
		s.mu.Unlock()
		return verdict{schemas.Deny, "it needs a yes first, and nobody can be asked", allow(c)}
	}
	if s.waiting >= maxWaiting {
		s.mu.Unlock()
		return verdict{schemas.Deny, "it needs a yes first, and too many requests wait for one already", "answer those, and try again"}
	}
	q := s.questions[k]
	if q == nil {
		ask, cancel := context.WithTimeout(s.life, askTimeout)
		q = &pending{done: make(chan struct{}), cancel: cancel}
		s.questions[k] = q
		s.work.Go(func() { s.put(ask, k, q, c) })
	}
	s.waiting++
	q.waiting++
	s.mu.Unlock()
	defer s.leave(k, q)
	select {
	case <-q.done:
		return q.verdict
	case <-ctx.Done():
		return verdict{schemas.Deny, "the program did not wait for the answer", ""}
	}
}

func (s *session) leave(k question, q *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	if q.waiting--; q.waiting > 0 {
		return
	}
	q.cancel()
	if s.questions[k] == q {
		delete(s.questions, k)
	}
}

// put asks, keeps the answer and lets all who wait go on.
func (s *session) put(ctx context.Context, k question, q *pending, c schemas.Contact) {
	defer q.cancel()
	answer, err := s.p.opt.Ask(ctx, c)
	v, keep := reading(c, answer, err)
	if errors.Is(ctx.Err(), context.Canceled) { // nobody waits, or the sandbox ends
		keep = 0
	}
	now := s.p.opt.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.answers, func(_ question, a answered) bool { return !now.Before(a.until) })
	if keep > 0 {
		s.answers[k] = answered{v, now.Add(keep)}
	}
	if s.questions[k] == q {
		delete(s.questions, k)
	}
	q.verdict = v
	close(q.done)
}

// reading says what an answer means and for how long it holds without asking again.
func reading(c schemas.Contact, answer schemas.Answer, err error) (verdict, time.Duration) {
	switch {
	case schemas.CodeOf(err) == schemas.CodeExpired, errors.Is(err, context.DeadlineExceeded):
		return verdict{schemas.Deny, "nobody answered whether it may be", "try again later"}, silentFor
	case err != nil:
		return verdict{schemas.Deny, "it needs a yes first, and nobody could be asked", allow(c)}, 0
	}
	switch answer {
	case schemas.AnswerOnce, schemas.AnswerAlways: // always is in the thread's rules by now
		return verdict{schemas.Allow, "a member allowed it", ""}, onceFor
	case schemas.AnswerHour:
		return verdict{schemas.Allow, "a member allowed it", ""}, time.Hour
	}
	return verdict{schemas.Deny, "a member refused it", allow(c)}, time.Hour
}
