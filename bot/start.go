package bot

import (
	"context"
	"slices"
	"sync"
	"time"

	"bobbin/schemas"
)

// patience is how long a reply waits for servers where a notice can follow it.
const patience = 5 * time.Second

// maxLate bounds the starts that go on beside their replies; each has one who tells of it.
const maxLate = 64

// late is what goes on after its reply was given.
type late struct {
	mu  sync.Mutex
	ctx context.Context // of Run; nil before and after it
	n   int
	wg  sync.WaitGroup
}

// Run ends sign-ins whose cards nobody confirmed, lets what waited for a sign-in go on when a browser finished it, and lets a reply about slow servers come after 5 s, with a notice when they are ready or failed. It returns when ctx has ended
// and nothing goes on any more; it is called once. Without it, at a terminal, and where nobody is subscribed, replies wait for
// up to Options.StartWait.
func (b *Bot) Run(ctx context.Context) error {
	b.serve(ctx, b.tidy)
	return nil
}

// serve lets work go on beside replies for as long as until does, and waits for what goes on then.
func (b *Bot) serve(ctx context.Context, until func(context.Context)) {
	b.late.mu.Lock()
	b.late.ctx = ctx
	b.late.mu.Unlock()
	until(ctx)
	b.late.mu.Lock()
	b.late.ctx = nil
	b.late.mu.Unlock()
	b.late.wg.Wait()
}

// beside runs work inside Run; false: it does not, since bobbin ends or as much as limit goes on already.
func (b *Bot) beside(limit int, work func(context.Context)) bool {
	b.late.mu.Lock()
	defer b.late.mu.Unlock()
	ctx := b.late.ctx
	if ctx == nil || b.late.n >= limit {
		return false
	}
	b.late.n++
	b.late.wg.Go(func() {
		defer func() { b.late.mu.Lock(); b.late.n--; b.late.mu.Unlock() }()
		work(ctx)
	})
	return true
}

// heard reports whether a notice to that member would reach a door.
func (b *Bot) heard(c schemas.Caller) bool {
	b.ears.mu.Lock()
	defer b.ears.mu.Unlock()
	for e := range b.ears.subs {
		if e.match(c.Thread) && (e.member == "" || e.member == c.Member) {
			return true
		}
	}
	return false
}

// bring does work that starts servers. The channel that it gives is closed when what was not done in time is done; it is nil when
// nothing more is to be told. An end of the waiting is no error.
func (b *Bot) bring(ctx context.Context, t turn, work func(context.Context) error) (<-chan struct{}, error) {
	var err error
	bounded := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, b.opt.StartWait)
		defer cancel()
		if err = work(ctx); ctx.Err() != nil {
			err = nil
		}
	}
	done := make(chan struct{})
	if t.caller.Door == schemas.DoorTerminal || !b.heard(t.caller) || !b.beside(maxLate, func(ctx context.Context) { defer close(done); bounded(ctx) }) {
		bounded(ctx)
		return nil, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return nil, err
	case <-timer.C:
	case <-ctx.Done():
	}
	return done, nil
}

// told says how the named servers are, and, of those that are still starting, once more when done is closed.
func (b *Bot) told(ctx context.Context, t turn, names []string, blocks []Block, done <-chan struct{}) (Reply, error) {
	if done == nil {
		r, _ := b.report(ctx, t, names, blocks, false)
		return r, nil
	}
	r, slow := b.report(ctx, t, names, blocks, true)
	if len(slow) == 0 {
		return r, nil
	}
	b.beside(2*maxLate, func(ctx context.Context) {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
		if ctx.Err() == nil {
			r, _ := b.report(ctx, t, slow, nil, false)
			b.publish(Notice{Thread: t.caller.Thread, Reply: r, Changed: true}, "")
		}
	})
	return r, nil
}

// restart starts servers anew, all at once; only what is about more than the state of a server is an error.
func (b *Bot) restart(ctx context.Context, thread schemas.ThreadID, names []string) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = b.opt.Live.Restart(ctx, thread, name) })
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil && startless(err) }); i >= 0 {
		return errs[i]
	}
	return nil
}
