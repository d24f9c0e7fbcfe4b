package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/schemas"
)

const (
	showPause = 50 * time.Millisecond
	maxAnswer = 256 << 10 // bytes of text in one answer
)

// board is how far an answer is, for those who watch. It is safe for concurrent use.
type board struct {
	mu      sync.Mutex
	state   schemas.Answering // without Text
	earlier string            // text of the steps before, cleaned
	now     strings.Builder   // text of this step, as it came
	waits   []string          // what people are waited for
	changed chan struct{}     // has room for one
}

func newBoard(model string) *board {
	return &board{state: schemas.Answering{Model: model}, changed: make(chan struct{}, 1)}
}

func (b *board) change(fn func(*schemas.Answering)) {
	b.mu.Lock()
	fn(&b.state)
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// say adds to the text of this step; false: the answer is too long.
func (b *board) say(text string) (ok bool) {
	b.change(func(s *schemas.Answering) {
		s.Status = ""
		b.now.WriteString(text)
		ok = len(b.earlier)+b.now.Len() <= maxAnswer
	})
	return ok
}

// settle ends a step's text. What the model had said before it was cut off is replaced by text.
func (b *board) settle(text string) {
	b.change(func(*schemas.Answering) {
		b.now.Reset()
		text = strings.TrimSpace(schemas.Clean(text, false))
		if b.earlier != "" && text != "" {
			b.earlier += "\n\n"
		}
		b.earlier += text
	})
}

func (b *board) status(text string) { b.change(func(s *schemas.Answering) { s.Status = text }) }

// begin adds a step and gives its place.
func (b *board) begin(s schemas.Step) (n int) {
	b.change(func(a *schemas.Answering) {
		a.Status = ""
		a.Steps = append(a.Steps, s)
		n = len(a.Steps) - 1
	})
	return n
}

func (b *board) step(n int, fn func(*schemas.Step)) {
	b.change(func(a *schemas.Answering) { fn(&a.Steps[n]) })
}

// waits notes what a step waits for, "" when it goes on.
func (b *board) wait(n int, before, why string) {
	b.change(func(a *schemas.Answering) {
		if i := slices.Index(b.waits, before); i >= 0 && before != "" {
			b.waits = slices.Delete(b.waits, i, i+1)
		}
		a.Steps[n].State, a.Status = schemas.StepRunning, ""
		if why != "" {
			b.waits = append(b.waits, why)
			a.Steps[n].State = schemas.StepWaiting
		}
		if len(b.waits) > 0 {
			a.Status = b.waits[0]
		}
	})
}

// look gives the whole state as it is now.
func (b *board) look() schemas.Answering {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state
	s.Steps = slices.Clone(s.Steps)
	s.Text = b.earlier
	if now := strings.TrimSpace(schemas.Clean(b.now.String(), false)); now != "" {
		if s.Text != "" {
			s.Text += "\n\n"
		}
		s.Text += now
	}
	return s
}

// watch shows every change until ctx ends, then the last state.
func (b *board) watch(ctx context.Context, show func(schemas.Answering)) {
	for {
		if ctx.Err() != nil {
			show(b.look())
			return
		}
		select {
		case <-b.changed:
		case <-ctx.Done():
			continue
		}
		show(b.look())
		pause := time.NewTimer(showPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// clock is the time that an answer has left. It stands still while people are waited for.
type clock struct {
	mu    sync.Mutex
	left  time.Duration
	since time.Time
	waits int

	timer *time.Timer
}

func newClock(left time.Duration, over func()) *clock {
	return &clock{left: left, since: time.Now(), timer: time.AfterFunc(left, over)}
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits++; c.waits == 1 {
		if c.timer.Stop() {
			c.left -= time.Since(c.since)
		}
	}
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits--; c.waits == 0 {
		c.since = time.Now()
		c.timer.Reset(max(c.left, time.Second))
	}
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.waits++ // nothing starts it again
}
