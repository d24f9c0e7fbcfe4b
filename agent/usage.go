package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	fileUsage = "usage.json"
	maxUsage  = 8 << 20
	maxRates  = 4096 // kept in memory before old ones are looked for
)

// usage is what a thread spent in a day (UTC).
type usage struct {
	Day     string                     `json:"day"` // 2026-11-21
	Thread  spent                      `json:"thread"`
	Members map[schemas.MemberID]spent `json:"members"`
}

type spent struct {
	Turns  int            `json:"turns"`
	Calls  int            `json:"calls"`
	Tokens schemas.Tokens `json:"tokens"`
}

func (s spent) plus(u schemas.Usage) spent {
	s.Turns += u.Turns
	s.Calls += u.Calls
	s.Tokens.In += u.Tokens.In
	s.Tokens.Cached += u.Tokens.Cached
	s.Tokens.Out += u.Tokens.Out
	return s
}

func (s spent) all() int { return s.Tokens.In + s.Tokens.Out }

func (a *Agent) day() string { return a.opt.Now().UTC().Format(time.DateOnly) }

// readUsage gives today's; ok is false when the file is there and cannot be read.
func (a *Agent) readUsage(dir *durable.Dir) (u usage, ok bool) {
	raw, err := dir.Read(fileUsage, maxUsage)
	ok = errors.Is(err, fs.ErrNotExist) || err == nil && json.Unmarshal(raw, &u) == nil
	if u.Day != a.day() || !ok {
		u = usage{Day: a.day()}
	}
	if u.Members == nil {
		u.Members = map[schemas.MemberID]spent{}
	}
	return u, ok
}

// spend adds to what a thread and a member spent today, on disk, whatever became of their request.
func (a *Agent) spend(dir *durable.Dir, c schemas.Caller, more schemas.Usage) {
	if more == (schemas.Usage{}) {
		return
	}
	a.spending.Lock() // another bobbin does not answer in this thread meanwhile
	defer a.spending.Unlock()
	u, _ := a.readUsage(dir)
	u.Thread = u.Thread.plus(more)
	u.Members[c.Member] = u.Members[c.Member].plus(more)
	raw, err := json.Marshal(u)
	if err == nil {
		err = dir.Write(fileUsage, raw)
	}
	if err != nil && !errors.Is(err, durable.ErrUnsynced) {
		a.opt.Log.Error("cannot keep what an answer cost", "thread", c.Thread, "err", err)
	}
}

// overBudget says which budget of tokens is used up. One that cannot be read is.
func (a *Agent) overBudget(dir *durable.Dir, c schemas.Caller) string {
	if a.opt.MemberTokens <= 0 && a.opt.ThreadTokens <= 0 {
		return ""
	}
	u, ok := a.readUsage(dir)
	switch {
	case !ok:
		return "what was spent today cannot be read"
	case a.opt.ThreadTokens > 0 && u.Thread.all() >= a.opt.ThreadTokens:
		return "the tokens of this thread for today are used up"
	case a.opt.MemberTokens > 0 && u.Members[c.Member].all() >= a.opt.MemberTokens:
		return "your tokens for today are used up"
	}
	return ""
}

// Usage gives what the caller and the thread spent since the day began (UTC).
func (a *Agent) Usage(_ context.Context, c schemas.Caller) (own, thread schemas.Usage, err error) {
	day, err := time.Parse(time.DateOnly, a.day())
	if err != nil {
		return own, thread, &schemas.Error{Code: schemas.CodeInternal, Text: "the date cannot be told", Err: err}
	}
	own = schemas.Usage{Since: day, Limit: max(a.opt.MemberTokens, 0)}
	thread = schemas.Usage{Since: day, Limit: max(a.opt.ThreadTokens, 0)}
	if !a.opt.Chats.Has(string(c.Thread)) {
		return own, thread, nil
	}
	dir, err := a.folder(c.Thread)
	if err != nil {
		return own, thread, err
	}
	defer dir.Close()
	u, ok := a.readUsage(dir)
	if !ok {
		return own, thread, &schemas.Error{Code: schemas.CodeUnreadable, Text: "what was spent today cannot be read"}
	}
	for to, from := range map[*schemas.Usage]spent{&own: u.Members[c.Member], &thread: u.Thread} {
		to.Turns, to.Calls, to.Tokens = from.Turns, from.Calls, from.Tokens
	}
	return own, thread, nil
}

// rateKey is whose answers are counted: a member's in a thread, or all of it.
type rateKey struct {
	thread schemas.ThreadID
	member schemas.MemberID
}

// rate counts an answer, or refuses it. Agent.mu is held.
func (a *Agent) rate(c schemas.Caller) error {
	now := a.opt.Now()
	if len(a.begun) > maxRates {
		for k, times := range a.begun {
			if !slices.ContainsFunc(times, func(t time.Time) bool { return now.Sub(t) < time.Minute }) {
				delete(a.begun, k)
			}
		}
	}
	keys := []struct {
		rateKey
		limit int
		whose string
	}{
		{rateKey{c.Thread, c.Member}, a.opt.MemberTurns, "your"},
		{rateKey{c.Thread, ""}, a.opt.ThreadTurns, "this thread's"},
	}
	for _, k := range keys {
		times := slices.DeleteFunc(a.begun[k.rateKey], func(t time.Time) bool { return now.Sub(t) >= time.Minute })
		if k.limit > 0 && len(times) >= k.limit {
			rest := time.Minute - now.Sub(times[0])
			return &schemas.Error{Code: schemas.CodeTooLarge, Text: k.whose + " messages come faster than they may be answered", Hint: "again in " + span(rest.Round(time.Second))}
		}
		if a.begun[k.rateKey] = times; len(times) == 0 {
			delete(a.begun, k.rateKey)
		}
	}
	for _, k := range keys {
		a.begun[k.rateKey] = append(a.begun[k.rateKey], now)
	}
	return nil
}
