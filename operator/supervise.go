package operator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"

	"bobbin/schemas"
)

const (
	maxFails     = 5 // ends in a row until a server is left alone
	stableTime   = time.Minute
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = time.Minute
	maxSilence   = 3               // pings in a row
	engineRetry  = 5 * time.Second // while no engine answers
)

// health of one server, as this bobbin knows it.
type health struct {
	fails  int
	silent int
	next   time.Time // not before
	since  time.Time // it has run since then
	atWork bool
}

// Run looks after the servers until ctx ends: those that ended are started again, after a pause that grows, five times in a row at
// most; mcps.yaml is read again when it changes, its literal secrets are sealed, and changed is told. It waits for what it began.
func (o *Operator) Run(ctx context.Context, changed func()) error {
	var work sync.WaitGroup
	defer work.Wait()
	tick := time.NewTicker(o.opt.health)
	defer tick.Stop()
	last, rest, away := "", time.Time{}, error(nil)
	for first := true; ; first = false {
		f, err := o.Load(ctx)
		o.mu.Lock()
		sum := o.read.sum
		o.mu.Unlock()
		if sum != last {
			last = sum
			if err != nil {
				o.opt.Log.Warn("the operator's servers cannot be read; the last good ones stay", "err", err)
			} else if err := o.Seal(ctx); err != nil {
				o.opt.Log.Warn("secrets in mcps.yaml could not be sealed", "err", err)
			}
			if !first {
				changed()
			}
		}
		if len(f.Servers) > 0 && time.Now().After(rest) {
			err := o.look(ctx, f, &work)
			switch {
			case err != nil && away == nil:
				o.opt.Log.Warn("the operator's servers are not looked after until the container engine answers", "err", err)
			case err == nil && away != nil:
				o.opt.Log.Info("the container engine answers again")
			}
			if away = err; err != nil {
				rest = time.Now().Add(engineRetry)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look begins what each server needs.
func (o *Operator) look(ctx context.Context, f File, work *sync.WaitGroup) error {
	if !slices.ContainsFunc(f.Servers, func(s Server) bool { return s.Type == Proxied }) {
		return nil
	}
	all, err := o.found(ctx, labelRole+"="+roleServer)
	if err != nil {
		return err
	}
	there := map[string]bool{} // and whether it runs, by unit
	for _, c := range all {
		there[unitOf(c)] = c.State == container.StateRunning
	}
	for _, s := range f.Servers {
		for _, r := range s.replicas() {
			running, ok := there[r.unit()]
			if !ok && !o.remembers(r.unit()) || s.Type != Proxied || s.Wrong != "" || !o.take(r.unit()) {
				continue
			}
			work.Go(func() {
				defer o.release(r.unit())
				o.tend(ctx, r, running)
			})
		}
	}
	return nil
}

// remembers reports whether a server was started and neither stopped nor given up: its container, if it is gone, was taken away.
func (o *Operator) remembers(name string) bool {
	m, err := o.recall(name)
	return err == nil && m.State == stateRunning
}

// take claims the care for a server; false while somebody has it, or while it rests.
func (o *Operator) take(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.health[name]
	if h == nil {
		h = &health{}
		o.health[name] = h
	}
	if h.atWork || time.Now().Before(h.next) {
		return false
	}
	h.atWork = true
	return true
}

func (o *Operator) release(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.health[name]; h != nil {
		h.atWork = false
	}
}

// with changes what is known of a server's health.
func (o *Operator) with(name string, fn func(*health)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.health[name]
	if h == nil {
		h = &health{atWork: true}
		o.health[name] = h
	}
	fn(h)
}

// tend looks at one replica, and starts it again if it ended.
func (o *Operator) tend(ctx context.Context, s Server, running bool) {
	m, err := o.recall(s.unit())
	if err == nil && m.State != stateRunning && (m.State != stateStarting || o.busy(ctx, s.Name)) {
		return // it failed for good, or somebody is starting it; one whose start was killed goes on
	}
	why := "its container ended"
	if running {
		if why = o.ail(ctx, s); why == "" {
			return
		}
	}
	fails := 0
	o.with(s.unit(), func(h *health) {
		if !h.since.IsZero() && time.Since(h.since) > stableTime {
			h.fails = 0
		}
		h.fails++
		h.since, fails = time.Time{}, h.fails
		h.next = time.Now().Add(min(o.opt.backoff<<h.fails, maxBackoff))
	})
	if fails > maxFails {
		o.giveUp(ctx, s, why)
		return
	}
	o.opt.Log.Info("an MCP server is started again", "server", s.unit(), "why", why, "try", fails)
	if err := o.revive(ctx, s); err != nil && ctx.Err() == nil {
		o.opt.Log.Warn("an MCP server does not start", "server", s.unit(), "err", err)
		if m, e := o.recall(s.unit()); e == nil && m.State == stateFailed && schemas.CodeOf(err) != schemas.CodeMissing {
			m.State = stateRunning // it is tried again
			_ = o.remember(s.unit(), m)
		}
	}
}

// ail says what is wrong with a server whose container runs, "" when it is well. A single silence is nothing yet.
func (o *Operator) ail(ctx context.Context, s Server) (why string) {
	known, err := true, error(nil)
	if s.ProxyImage == "" {
		var w *way
		if w, err = o.way(s.unit()); err == nil {
			_, known, err = w.look(ctx, lookTime)
		}
	}
	if ctx.Err() != nil {
		return ""
	}
	o.with(s.unit(), func(h *health) {
		switch {
		case err == nil && known:
			h.silent = 0
			if h.since.IsZero() {
				h.since = time.Now()
			}
		case err == nil:
			why = "its proxy does not know what to run"
		default:
			if h.silent++; h.silent >= maxSilence {
				h.silent, why = 0, "its proxy does not answer"
			}
		}
	})
	return why
}

func (o *Operator) giveUp(ctx context.Context, s Server, why string) {
	unlock, err := o.servers.Lock(ctx, s.Name)
	if err != nil {
		return
	}
	defer unlock()
	o.opt.Log.Error("an MCP server ended too often and is left alone", "server", s.unit())
	m := memory{State: stateFailed, Why: fmt.Sprintf("it ended %d times in a row: %s", maxFails+1, why), Hint: "bobbin mcp logs " + s.Name + ", then bobbin mcp start " + s.Name}
	if err := o.remember(s.unit(), m); err != nil {
		o.opt.Log.Warn("that a server failed is not written down", "server", s.unit(), "err", err)
	}
}

// revive starts a replica again; one that was stopped meanwhile stays so.
func (o *Operator) revive(ctx context.Context, was Server) error {
	s, f, err := o.usable(ctx, was.Name)
	if err != nil {
		return err
	}
	if s.nth = was.nth; s.nth >= len(s.replicas()) {
		return nil // it is one too many by now
	}
	name := s.unit()
	unlock, err := o.servers.Lock(ctx, s.Name)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := o.recall(name); err != nil {
		return nil //nolint:nilerr // it was stopped
	}
	r := &run{o: o, server: s, prefix: names(f.Prefix), tell: func(string) {}}
	o.mu.Lock()
	if w := o.ways[name]; w != nil {
		w.http.CloseIdleConnections()
		delete(o.ways, name)
	}
	o.mu.Unlock()
	if err := r.start(ctx, false); err != nil {
		return r.failed(err)
	}
	return nil
}
