package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"bobbin/schemas"
)

const (
	maxQueued = 16              // answers that wait in one thread, and messages that wait in one answer
	saveTime  = 5 * time.Second // for what must be kept when an answer is stopped
)

// thread is the answers of one thread: one on its way, and those behind it. Agent.mu guards it.
type thread struct {
	running *turn
	behind  []*turn
}

// turn is one answer: to a member's message, and to those that the same member sends while it is on its way.
type turn struct {
	live
	a      *Agent
	caller schemas.Caller // of the newest message; Agent.mu guards it until the message is taken in
	id     string         // joins its audit records
	ready  chan struct{}  // closed when it is its time
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed after closed is true and the answer is kept

	inbox  []*said // Agent.mu guards these two
	closed bool    // takes nothing more in
}

// said is a message that waits to be taken in.
type said struct {
	schemas.Said
	taken bool
}

// stopped is why a turn's context ended.
type stopped struct{ why string }

func (s *stopped) Error() string { return s.why }

// Say answers a message: one answer at a time in a thread. What its member says meanwhile is taken in before the next step, and
// that Say returns with Joined when the answer is done; another member's message waits for its own answer, since tools are used
// as the one who asked. show is called from one goroutine at a time, with the whole state, at most every 50 ms, and for the last
// time before Say returns. An error is a *schemas.Error, and says that there is no answer at all; one that ended early has Why.
func (a *Agent) Say(ctx context.Context, s schemas.Said, show func(schemas.Answering)) (schemas.Answering, error) {
	if err := a.admits(s); err != nil {
		return schemas.Answering{}, err
	}
	if show == nil {
		show = func(schemas.Answering) {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t, message, err := a.enter(s, cancel)
	if err != nil {
		return schemas.Answering{}, err
	}
	if message != nil {
		return a.joined(ctx, t, message, show)
	}
	defer a.leave(t)
	select {
	case <-t.ready:
	default:
		show(schemas.Answering{Status: "waits until the answer before is done"})
		select {
		case <-t.ready:
		case <-ctx.Done():
			return schemas.Answering{Done: true, Why: whyEnded(ctx)}, nil
		}
	}
	return t.run(ctx, show)
}

func (a *Agent) admits(s schemas.Said) error {
	c := s.Caller
	switch {
	case !c.Thread.Valid() || !c.Member.Valid():
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "this thread or member has no usable id"}
	case c.Role < schemas.Member:
		return &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look, not ask the assistant"}
	case len(a.opt.Models) == 0:
		return &schemas.Error{Code: schemas.CodeMissing, Text: "no model is set, so there is nobody to answer", Hint: "the operator names one; `/mcp help` says how"}
	case s.Text == "" && len(s.Files) == 0:
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "there is nothing to answer"}
	}
	return nil
}

// enter finds a message's place: an answer that is on its way (message is set), or one of its own.
func (a *Agent) enter(s schemas.Said, cancel context.CancelCauseFunc) (t *turn, message *said, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	th := a.threads[s.Caller.Thread]
	if th == nil {
		th = &thread{}
	}
	full := &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("%d messages wait for an answer here already", maxQueued), Hint: "wait for them, or `/chat stop`"}
	message = &said{Said: s}
	for _, t := range append([]*turn{th.running}, th.behind...) {
		if t == nil || t.caller.Member != s.Caller.Member || t.closed {
			continue
		}
		if len(t.inbox) >= maxQueued {
			return nil, nil, full
		}
		t.inbox = append(t.inbox, message)
		return t, message, nil
	}
	if len(th.behind) >= maxQueued {
		return nil, nil, full
	}
	if err := a.rate(s.Caller); err != nil {
		return nil, nil, err
	}
	t = &turn{a: a, caller: s.Caller, id: reference(), ready: make(chan struct{}), ended: make(chan struct{}), cancel: cancel, inbox: []*said{message}}
	a.threads[s.Caller.Thread] = th
	if th.running == nil {
		th.running = t
		close(t.ready)
	} else {
		th.behind = append(th.behind, t)
	}
	return t, nil, nil
}

// leave makes room for the next answer.
func (a *Agent) leave(t *turn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.closed = true
	close(t.ended)
	th := a.threads[t.caller.Thread]
	th.behind = slices.DeleteFunc(th.behind, func(o *turn) bool { return o == t })
	if th.running != t {
		return
	}
	th.running = nil
	if len(th.behind) == 0 {
		delete(a.threads, t.caller.Thread)
		return
	}
	th.running, th.behind = th.behind[0], th.behind[1:]
	close(th.running.ready)
}

// joined waits for an answer that a message was given to.
func (a *Agent) joined(ctx context.Context, t *turn, message *said, show func(schemas.Answering)) (schemas.Answering, error) {
	show(schemas.Answering{Joined: true, Status: "goes into the answer that is on its way"})
	done := schemas.Answering{Joined: true, Done: true}
	select {
	case <-t.ended:
	case <-ctx.Done():
		done.Why = whyEnded(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t.inbox = slices.DeleteFunc(t.inbox, func(m *said) bool { return m == message })
	if !message.taken {
		done.Why = cmp.Or(done.Why, "the answer ended before it was read")
	}
	return done, nil
}

// take gives what was said since the last step. With last, a turn that has nothing more to take in is closed.
func (t *turn) take(last bool) []*said {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	got := t.inbox
	t.inbox = nil
	for _, m := range got {
		m.taken = true
		t.caller = m.Caller
	}
	t.closed = t.closed || last && len(got) == 0
	return got
}

// Stop ends the answer that is on its way, with its tool calls, and what waits behind it: those of the caller, and all for a
// manager. An answer that only others may stop is CodeDenied.
func (a *Agent) Stop(_ context.Context, c schemas.Caller) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	th := a.threads[c.Thread]
	if th == nil {
		return false, nil
	}
	any := false
	for _, t := range append([]*turn{th.running}, th.behind...) {
		if t != nil && (c.Manages() || c.Member == t.caller.Member) {
			t.cancel(&stopped{"stopped by " + at(c)})
			any = true
		}
	}
	if !any {
		return false, &schemas.Error{Code: schemas.CodeDenied, Text: "only " + at(th.running.caller) + " or a manager of the thread can stop this answer"}
	}
	return true, nil
}

// whyEnded words the end of a turn's context.
func whyEnded(ctx context.Context) string {
	if s, ok := context.Cause(ctx).(*stopped); ok {
		return s.why
	}
	return "broken off"
}

// at is how a member is called in words.
func at(c schemas.Caller) string { return "@" + cmp.Or(nameOf(c), string(c.Member)) }
