package bot

import (
	"context"
	"slices"
	"sync"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/schemas"
)

// patience is how long a reply waits for servers where a notice can follow it.
const patience = 5 * time.Second

// Run ends sign-ins whose cards nobody confirmed, lets what waited for a sign-in go on when a browser finished it, and lets a reply about slow servers come after 5 s, with a notice when they are ready or failed. It returns when ctx has ended
// and nothing goes on any more; it is called once. Without it, at a terminal, and where nobody is subscribed, replies wait for
// up to Options.StartWait.
func (b *Bot) Run(ctx context.Context) error {
	b.desk.Run(ctx, b.tidy)
	return nil
}

// bring does work that starts servers. The channel that it gives is closed when what was not done in time is done; it is nil when
// nothing more is to be told. An end of the waiting is no error.
func (b *Bot) bring(ctx context.Context, t desk.Turn, work func(context.Context) error) (<-chan struct{}, error) {
	var err error
	bounded := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, b.opt.StartWait)
		defer cancel()
		if err = work(ctx); ctx.Err() != nil {
			err = nil
		}
	}
	done := make(chan struct{})
	if t.Caller.Door == schemas.DoorTerminal || !b.desk.Heard(t.Caller) || !b.desk.Beside(desk.MaxLate, func(ctx context.Context) { defer close(done); bounded(ctx) }) {
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
func (b *Bot) told(ctx context.Context, t desk.Turn, names []string, blocks []Block, done <-chan struct{}) (Reply, error) {
	if done == nil {
		r, _ := b.report(ctx, t, names, blocks, false)
		return r, nil
	}
	r, slow := b.report(ctx, t, names, blocks, true)
	if len(slow) == 0 {
		return r, nil
	}
	b.desk.Beside(2*desk.MaxLate, func(ctx context.Context) {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
		if ctx.Err() == nil {
			r, _ := b.report(ctx, t, slow, nil, false)
			b.desk.Publish(Notice{Thread: t.Caller.Thread, Reply: r, Changed: true}, "")
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
