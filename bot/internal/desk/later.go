package desk

import (
	"context"
	"sync"

	"bobbin/schemas"
)

// MaxLate bounds the starts that go on beside their replies; each has one who tells of it.
const MaxLate = 64

// late is what goes on after its reply was given.
type late struct {
	mu  sync.Mutex
	ctx context.Context // of Run; nil before and after it
	n   int
	wg  sync.WaitGroup
}

// Run lets work go on beside replies for as long as until does, and waits for what goes on then.
func (d *Desk) Run(ctx context.Context, until func(context.Context)) {
	d.late.mu.Lock()
	d.late.ctx = ctx
	d.late.mu.Unlock()
	until(ctx)
	d.late.mu.Lock()
	d.late.ctx = nil
	d.late.mu.Unlock()
	d.late.wg.Wait()
}

// Beside runs work inside Run; false: it does not, since bobbin ends or as much as limit goes on already.
func (d *Desk) Beside(limit int, work func(context.Context)) bool {
	d.late.mu.Lock()
	defer d.late.mu.Unlock()
	ctx := d.late.ctx
	if ctx == nil || d.late.n >= limit {
		return false
	}
	d.late.n++
	d.late.wg.Go(func() {
		defer func() { d.late.mu.Lock(); d.late.n--; d.late.mu.Unlock() }()
		work(ctx)
	})
	return true
}

// Heard reports whether a notice to that member would reach a door.
func (d *Desk) Heard(c schemas.Caller) bool {
	d.ears.mu.Lock()
	defer d.ears.mu.Unlock()
	for e := range d.ears.subs {
		if e.match(c.Thread) && (e.member == "" || e.member == c.Member) {
			return true
		}
	}
	return false
}
