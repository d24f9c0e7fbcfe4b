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
	maxUsage  = 64 << 10
	maxRates  = 4096 // kept in memory before old ones are looked for
)

// usage is what a thread, or a member in all threads, spent in a day (UTC).
type usage struct {
	Day    string         `json:"day"` // 2026-11-21
	Turns  int            `json:"turns"`
	Calls  int            `json:"calls"`
	Tokens schemas.Tokens `json:"tokens"`
}

func (u usage) plus(more schemas.Usage) usage {
	u.Turns += more.Turns
	u.Calls += more.Calls
	u.Tokens.In += more.Tokens.In
	u.Tokens.Cached += more.Tokens.Cached
	u.Tokens.Out += more.Tokens.Out
	return u
}

func (u usage) all() int { return u.Tokens.In + u.Tokens.Out }

// at puts it in place of what was spent.
func (u usage) at(to *schemas.Usage) { to.Turns, to.Calls, to.Tokens = u.Turns, u.Calls, u.Tokens }

func (a *Agent) day() string { return a.opt.Now().UTC().Format(time.DateOnly) }

// fileOf is a member's own usage, in Options.Spent.
func fileOf(m schemas.MemberID) string { return string(m) + ".json" }

// readUsage gives today's; ok is false when the file is there and cannot be read.
func (a *Agent) readUsage(dir *durable.Dir, file string) (u usage, ok bool) {
	raw, err := dir.Read(file, maxUsage)
	ok = errors.Is(err, fs.ErrNotExist) || err == nil && json.Unmarshal(raw, &u) == nil
	if u.Day != a.day() || !ok {
		u = usage{Day: a.day()}
	}
	return u, ok
}

// spend adds to what a thread and a member spent today, on disk, whatever became of their request.
func (a *Agent) spend(ctx context.Context, dir *durable.Dir, c schemas.Caller, more schemas.Usage) {
	if more == (schemas.Usage{}) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	if err := errors.Join(a.add(ctx, dir, fileUsage, more), a.add(ctx, a.opt.Spent, fileOf(c.Member), more)); err != nil {
		a.opt.Log.Error("cannot keep what an answer cost", "thread", c.Thread, "member", c.Member, "err", err)
	}
}

// add adds to one file, to which other answers, and other bobbins, add as well.
func (a *Agent) add(ctx context.Context, dir *durable.Dir, file string, more schemas.Usage) error {
	unlock, err := dir.Lock(ctx, file)
	if err != nil {
		return err
	}
	defer unlock()
	u, _ := a.readUsage(dir, file)
	raw, err := json.Marshal(u.plus(more))
	if err != nil {
		return err
	}
	if err := dir.Write(file, raw); err != nil && !errors.Is(err, durable.ErrUnsynced) {
		return err
	}
	return nil
}

// overBudget says which budget of tokens is used up. One that cannot be read is.
func (a *Agent) overBudget(dir *durable.Dir, c schemas.Caller) string {
	for _, b := range []struct {
		limit     int
		dir       *durable.Dir
		file, why string
	}{
		{a.opt.ThreadTokens, dir, fileUsage, "the tokens of this thread for today are used up"},
		{a.opt.MemberTokens, a.opt.Spent, fileOf(c.Member), "your tokens for today are used up"},
	} {
		if b.limit <= 0 {
			continue
		}
		switch u, ok := a.readUsage(b.dir, b.file); {
		case !ok:
			return "what was spent today cannot be read"
		case u.all() >= b.limit:
			return b.why
		}
	}
	return ""
}

// Usage gives what the caller, in all threads, and the thread spent since the day began (UTC).
func (a *Agent) Usage(_ context.Context, c schemas.Caller) (own, thread schemas.Usage, err error) {
	day, err := time.Parse(time.DateOnly, a.day())
	if err != nil {
		return own, thread, &schemas.Error{Code: schemas.CodeInternal, Text: "the date cannot be told", Err: err}
	}
	unreadable := &schemas.Error{Code: schemas.CodeUnreadable, Text: "what was spent today cannot be read"}
	own = schemas.Usage{Since: day, Limit: max(a.opt.MemberTokens, 0)}
	thread = schemas.Usage{Since: day, Limit: max(a.opt.ThreadTokens, 0)}
	u, ok := a.readUsage(a.opt.Spent, fileOf(c.Member))
	if !ok {
		return own, thread, unreadable
	}
	u.at(&own)
	if !a.opt.Chats.Has(string(c.Thread)) {
		return own, thread, nil
	}
	dir, err := a.folder(c.Thread)
	if err != nil {
		return own, thread, err
	}
	defer dir.Close()
	if u, ok = a.readUsage(dir, fileUsage); !ok {
		return own, thread, unreadable
	}
	u.at(&thread)
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
