package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/schemas"
)

const (
	maxCut  = 2           // answers cut off in the middle that are asked for again, in one step
	cutWait = time.Second // before that
)

// live is what a turn needs while it runs; it belongs to the goroutine of its Say, but for board, clock and room.
type live struct {
	board    *board
	clock    *clock
	talk     *transcript
	choice   Choice
	found    []string // names for models of tools that searches found, the oldest first
	newFound bool
	statuses []schemas.Status // of the thread's servers, as of the step
	answered []string         // servers whose words the model reads in this answer
	room     atomic.Int32
	steps    [][][sha256.Size]byte // calls of the last steps with their results
	spent    int                   // tokens
	floor    int                   // tokens of the conversation when it was shortened last
	began    int                   // where the messages of this answer begin
}

// run answers. It returns when the answer is done, kept and shown.
func (t *turn) run(ctx context.Context, show func(schemas.Answering)) (schemas.Answering, error) {
	var err error
	if t.talk, err = t.a.open(ctx, t.caller.Thread); err != nil && ctx.Err() != nil {
		return schemas.Answering{Done: true, Why: whyEnded(ctx)}, nil
	} else if err != nil {
		return schemas.Answering{}, err
	}
	defer t.talk.close()
	s := readSettings(t.talk.dir)
	t.choice, t.found = t.a.chosen(s), s.Found
	if why := t.a.overBudget(t.talk.dir, t.caller); why != "" {
		return schemas.Answering{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: why, Hint: "`/chat usage` shows it"}
	}
	if err := t.record(ctx, "begins", 0); err != nil {
		return schemas.Answering{}, &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written, so nothing was answered", Err: err}
	}
	t.board = newBoard(t.choice.Name)
	t.room.Store(maxImages)
	t.clock = newClock(t.a.opt.Time, func() { t.cancel(&stopped{"after " + span(t.a.opt.Time)}) })
	defer t.clock.stop()
	t.a.spend(ctx, t.talk.dir, t.caller, schemas.Usage{Turns: 1})

	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer unwatch()
	wg.Go(func() { t.board.watch(watching, show) })

	why, err := t.loop(ctx)
	if err != nil && len(t.board.look().Steps) == 0 && t.board.look().Text == "" {
		t.finish(ctx, problemOf(err))
		return schemas.Answering{}, known(err)
	} else if err != nil {
		why = problemOf(err)
	}
	t.finish(ctx, why)
	return t.board.look(), nil
}

// finish keeps how the answer ended, and shows it for the last time.
func (t *turn) finish(ctx context.Context, why string) {
	if n := len(t.talk.messages); n > t.began && t.talk.messages[n-1].Role == User {
		if err := t.talk.append(note(t.talk.messages[n-1], cmp.Or(why, "no answer"))); err != nil {
			t.a.opt.Log.Error("cannot keep the end of an answer", "thread", t.caller.Thread, "err", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	if t.newFound {
		if err := change(ctx, t.talk.dir, func(s *settings) { s.Found = t.found }); err != nil {
			t.a.opt.Log.Warn("cannot keep what a conversation found", "thread", t.caller.Thread, "err", err)
		}
	}
	if err := t.record(ctx, cmp.Or(why, "done"), t.spent); err != nil {
		t.a.opt.Log.Error("cannot write the audit record of an answer", "thread", t.caller.Thread, "err", err)
	}
	t.board.change(func(s *schemas.Answering) { s.Status, s.Done, s.Why = "", true, why })
}

// record writes that an answer began or how it ended, without anything that was said.
func (t *turn) record(ctx context.Context, detail string, tokens int) error {
	if tokens > 0 {
		detail += fmt.Sprintf(" · %s tokens", tally(tokens))
	}
	_, err := t.a.opt.Journal.Append(ctx, schemas.Record{
		At: t.a.opt.Now(), Thread: t.caller.Thread, Member: t.caller.Member, Name: t.caller.Name, Door: t.caller.Door,
		Event: schemas.EventChat, Origin: schemas.ByAssistant, Receipt: t.id, Detail: first(t.choice.Name+": "+detail, 200),
	})
	return err
}

// loop takes steps until the model has nothing more to do. why is set when it ended early.
func (t *turn) loop(ctx context.Context) (why string, err error) {
	t.began = len(t.talk.messages)
	for step := 1; ; step++ {
		if ctx.Err() != nil {
			return whyEnded(ctx), nil
		}
		if why := t.over(step); why != "" {
			return why, nil
		}
		if err := t.takeIn(ctx, t.take(false)); err != nil {
			return "", err
		}
		o, err := t.offered(ctx)
		if err == nil {
			err = t.makeRoom(ctx, o)
		}
		if err != nil {
			if ctx.Err() != nil {
				return whyEnded(ctx), nil
			}
			return "", err
		}
		m, stop, err := t.ask(ctx, o)
		if ctx.Err() != nil {
			return whyEnded(ctx), t.kept(t.partial(m, whyEnded(ctx)))
		}
		if err != nil {
			return "", errors.Join(err, t.kept(t.partial(m, "broken off")))
		}
		calls := callsOf(m)
		if err := t.kept(t.without(m)); err != nil {
			return "", err
		}
		if len(calls) == 0 {
			if more := t.take(true); len(more) > 0 {
				if err := t.takeIn(ctx, more); err != nil {
					return "", err
				}
				continue
			}
			return ending(stop), nil
		}
		if err := t.kept(t.perform(ctx, calls, o)); err != nil {
			return "", err
		}
		t.a.spend(ctx, t.talk.dir, t.caller, schemas.Usage{Calls: len(calls)})
		if t.repeats() {
			return fmt.Sprintf("the same call gave the same result more than %d times", maxRepeats), nil
		}
	}
}

func ending(stop Stop) string {
	switch stop {
	case StopLength:
		return "the answer reached the model's limit of length"
	case StopRefused:
		return "the model's provider refused to go on"
	}
	return ""
}

// over says which limit a turn has reached, before a step.
func (t *turn) over(step int) string {
	switch o := t.a.opt; {
	case step > o.Steps:
		return fmt.Sprintf("after %d steps", o.Steps)
	case o.TurnTokens > 0 && t.spent >= o.TurnTokens:
		return "after " + tally(t.spent) + " tokens"
	case step > 1:
		return t.a.overBudget(t.talk.dir, t.caller)
	}
	return ""
}

// takeIn adds what members said to the conversation.
func (t *turn) takeIn(ctx context.Context, list []*said) error {
	for _, s := range list {
		more := append(attach(s.Files), t.mentioned(ctx, s.Said)...)
		m := t.messageOf(s.Caller, s.Text, more)
		if n := len(t.talk.messages); n > 0 && t.talk.messages[n-1].Role == User && !hasResults(t.talk.messages[n-1]) {
			// two at once: what stands between keeps the roles in turn
			if err := t.kept(note(t.talk.messages[n-1], "goes on below")); err != nil {
				return err
			}
		}
		if err := t.kept(m); err != nil {
			return err
		}
	}
	return nil
}

// kept appends a message to the transcript; one without parts is nothing.
func (t *turn) kept(m Message) error {
	if len(m.Parts) == 0 {
		return nil
	}
	if err := t.talk.append(m); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the conversation could not be kept, so the answer ends here", Err: err}
	}
	return nil
}

// masked is a call as it may be kept and shown.
func (t *turn) masked(c Call) Call {
	if c.Bad != "" {
		c.Bad = "left out" // nothing can be masked in it
	}
	if t.a.opt.Own != nil {
		c.Args = t.a.opt.Own.Masked(c.Name, c.Args)
	}
	return c
}

// without is an answer as it may be kept and sent to a model again: without the values that its calls gave.
func (t *turn) without(m Message) Message {
	m.Parts = slices.Clone(m.Parts)
	for i, p := range m.Parts {
		if p.Call != nil {
			c := t.masked(*p.Call)
			m.Parts[i].Call = &c
		}
	}
	return m
}

// partial is what was said of an answer that ended in the middle: its text alone, marked.
func (t *turn) partial(m Message, why string) Message {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	m.Parts = nil
	if text := strings.TrimSpace(b.String()); text != "" {
		m.Parts = []Part{{Text: text + "\n\n" + bracketed(why)}}
	}
	return m
}

// problemOf words an error for people.
func problemOf(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		if f.Hint != "" {
			return f.Text + "; " + f.Hint
		}
		return f.Text
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		if e.Hint != "" {
			return e.Text + "; " + e.Hint
		}
		return e.Text
	}
	return "something went wrong on my side"
}

// known is a failure as Say gives it.
func known(err error) error {
	if f, ok := errors.AsType[*Failure](err); ok {
		return &schemas.Error{Code: schemas.CodeFailed, Text: f.Text, Hint: f.Hint, Err: err}
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return e
	}
	return &schemas.Error{Code: schemas.CodeInternal, Text: "something went wrong on my side", Err: err}
}

// wait waits, unless ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// names lists the servers that tools are of, in their order.
func names(list []schemas.Tool) (servers []string) {
	for _, tool := range list {
		if !slices.Contains(servers, tool.Server) {
			servers = append(servers, tool.Server)
		}
	}
	return servers
}
