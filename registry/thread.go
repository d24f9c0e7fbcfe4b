package registry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/schemas"
)

const (
	mailbox      = 64
	pokeDelay    = 5 * time.Millisecond // pokes within it are one reload
	diskPatience = 10 * time.Second     // for one reading or writing of the thread's files
	breaker      = 5                    // fast failures in a row until a server is left alone
	fastFailure  = time.Minute          // a server that ran longer begins to count anew
	maxBackoff   = time.Minute
	saveDelay    = 250 * time.Millisecond // servers that become ready together are published first, then saved
	threadIdle   = 10 * time.Minute       // without a server or a question until a thread is forgotten
)

// event is something that the owner of a thread has to deal with.
type event interface{ handle(*thread) }

type reloaded struct {
	started []*instance
	err     error
}

type (
	reloadEvent  struct{ reply chan<- reloaded }
	restartEvent struct {
		server string
		reply  chan<- reloaded
	}
	needEvent  struct{ server string } // "": all servers whose tools are unknown
	readyEvent struct {
		inst  *instance
		tools *toolset
	}
	listEvent struct {
		inst  *instance
		tools *toolset
	}
	endEvent struct {
		inst   *instance
		why    string // "" when it was asked to end
		fix    string // the next step, where somebody named one
		stderr string
		state  schemas.State // Failed, NeedsConnect or Idle
		lived  time.Duration // since it was ready; 0 when it never was
	}
)

// thread is one live thread. Its owner goroutine alone touches what has no atomic or channel type.
type thread struct {
	r    *Registry
	id   schemas.ThreadID
	mail chan event
	poke chan struct{}

	loaded  chan struct{} // closed after the first reading, or its failure
	loadErr error         // of the first reading; set before loaded is closed
	over    chan struct{} // closed when the owner reads no more mail
	done    chan struct{} // closed when everything of the thread has ended

	snap    atomic.Pointer[snapshot]
	used    atomic.Int64 // when something was asked last, unix ns
	members sync.Map     // MemberID → chan struct{}, the calls at once of one member

	life     context.Context // of the owner
	wg       sync.WaitGroup
	cfg      schemas.Config
	slots    map[string]*slot
	pokeAt   time.Time
	poked    []*instance     // starting because of a poke; the next Apply waits for them, too
	changed  bool            // the snapshot is stale
	fresh    bool            // it changed since announce looked
	unsaved  map[string]bool // servers whose pins or cache are not on disk yet
	saveAt   time.Time
	finished bool // nobody needs the thread any more
}

func newThread(r *Registry, id schemas.ThreadID) *thread {
	t := &thread{
		r: r, id: id, mail: make(chan event, mailbox), poke: make(chan struct{}, 1),
		loaded: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
		slots: map[string]*slot{}, unsaved: map[string]bool{},
	}
	t.used.Store(time.Now().UnixNano())
	return t
}

// own is the thread's owner goroutine.
func (t *thread) own(ctx context.Context) {
	t.life = ctx
	defer close(t.done)
	defer t.finish()
	if _, err := t.reload(false); err != nil {
		t.fail(err)
		return
	}
	t.publish()
	close(t.loaded)
	for !t.finished && ctx.Err() == nil {
		t.announce()
		timer := time.NewTimer(t.patience())
		select {
		case e := <-t.mail:
			e.handle(t)
		case <-t.poke:
			if t.pokeAt.IsZero() {
				t.pokeAt = time.Now().Add(pokeDelay)
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		t.drainMail()
		t.due()
		t.publish()
		if len(t.unsaved) > 0 && !time.Now().Before(t.saveAt) {
			t.saveOne()
		}
	}
}

// fail tells those who wait that the thread could not be read even once; the next question tries again.
func (t *thread) fail(err error) {
	t.loadErr = err
	close(t.loaded)
}

// drainMail handles what waits already, so that many servers that become ready at once are one new snapshot.
func (t *thread) drainMail() {
	for range mailbox {
		select {
		case e := <-t.mail:
			e.handle(t)
		default:
			return
		}
	}
}

// patience is how long the owner may sleep.
func (t *thread) patience() time.Duration {
	now := time.Now()
	wait := threadIdle
	if len(t.unsaved) > 0 {
		wait = min(wait, t.saveAt.Sub(now))
	}
	if !t.pokeAt.IsZero() {
		wait = min(wait, t.pokeAt.Sub(now))
	}
	for _, s := range t.slots {
		if !s.retry.IsZero() {
			wait = min(wait, s.retry.Sub(now))
		}
		if !s.tellAt.IsZero() {
			wait = min(wait, s.tellAt.Sub(now))
		}
	}
	return max(wait, 0)
}

// due does what its time has come for.
func (t *thread) due() {
	now := time.Now()
	if !t.pokeAt.IsZero() && !now.Before(t.pokeAt) {
		t.pokeAt = time.Time{}
		started, err := t.reload(true)
		t.poked = append(slices.DeleteFunc(t.poked, t.settledOne), started...)
		if err != nil {
			t.r.opt.Log.Warn("cannot read a thread's configuration; the last good one runs on", "thread", t.id, "err", err)
		}
	}
	busy := false
	for _, s := range t.slots {
		if !s.retry.IsZero() && !now.Before(s.retry) {
			s.retry = time.Time{}
			t.launch(s, nil)
		}
		busy = busy || s.hasGuests() || s.inst != nil || s.next != nil || s.fault != "" // a breaker must not be forgotten
	}
	idle := time.Since(time.Unix(0, t.used.Load()))
	if !busy && idle >= threadIdle && len(t.mail) == 0 && len(t.unsaved) == 0 {
		t.finished = true
	}
}

// finish lets calls in flight end, waits for every server and forgets the thread.
func (t *thread) finish() {
	t.r.drop(t)
	close(t.over)
	for _, s := range t.slots {
		if s.next != nil {
			s.next.stop()
		}
		if s.inst != nil {
			s.inst.drain()
		}
		s.dismiss(false)
	}
	t.wg.Wait()
	for len(t.unsaved) > 0 {
		t.saveOne()
	}
}

// disk bounds one access to the thread's files, also while the owner ends.
func (t *thread) disk() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.life), diskPatience)
}

// reload reads the configuration and acts on the plan.
func (t *thread) reload(eager bool) ([]*instance, error) {
	ctx, cancel := t.disk()
	defer cancel()
	cfg, err := t.r.opt.Wishes.Load(ctx, t.id)
	if err != nil {
		return nil, err
	}
	wanted := make([]want, len(cfg.Entries))
	values := map[string]map[string]schemas.Secret{}
	has := map[string]have{}
	for i, e := range cfg.Entries {
		w, v := t.r.wanted(ctx, t.id, e, cfg.Inputs)
		wanted[i] = w
		if e.Shadowed {
			continue
		}
		values[e.Name] = v
		s, ok := t.slots[e.Name]
		if !ok {
			s = &slot{state: schemas.Off, meter: newMeter(t.r.opt.PerServer)}
			t.slots[e.Name] = s
		}
		s.adopt(w, t.r.opt.Settle)
		t.recall(s, w)
		if ok {
			has[e.Name] = s.have()
		} else {
			has[e.Name] = have{parked: true, known: s.tools != nil}
		}
	}
	for name, s := range t.slots {
		if _, listed := values[name]; !listed {
			has[name] = s.have()
		}
	}
	t.cfg, t.changed = cfg, true
	var started []*instance
	for i, a := range plan(wanted, has, eager) {
		if a.state == schemas.ShadowedState {
			continue
		}
		var w want
		if i < len(wanted) {
			w = wanted[i]
		}
		if inst := t.act(a, w, values[a.server]); inst != nil {
			started = append(started, inst)
		}
	}
	return started, nil
}

// act does one action of the plan and gives the instance that it started, if any.
func (t *thread) act(a action, w want, values map[string]schemas.Secret) *instance {
	s := t.slots[a.server]
	switch a.verb {
	case start, replace:
		s.target(w, values)
		s.heal()
		return t.launch(s, nil)
	case keep:
		s.why, s.needs = a.why, a.needs
		if s.inst != nil && len(a.needs) == 0 && s.inst.id == w.id {
			if s.next != nil && s.next.id != w.id {
				s.next.stop()
				s.next = nil
			}
			if s.id != w.id {
				s.target(w, values)
				s.heal()
			}
		}
	case park:
		if a.state != schemas.Idle {
			s.end()
			s.heal()
		}
		s.target(w, values)
		if a.state != schemas.Idle {
			s.state, s.why, s.needs = a.state, a.why, a.needs
		}
	case stop:
		s.end()
		delete(t.slots, a.server)
		delete(t.unsaved, a.server)
		t.forget(a.server)
	}
	return nil
}

// launch starts the slot's target beside what runs. after, if set, must be gone first.
func (t *thread) launch(s *slot, after *instance) *instance {
	if s.next != nil {
		s.next.stop()
	}
	s.retry = time.Time{}
	s.next = newInstance(t, s, after)
	t.changed = true
	t.wg.Go(s.next.supervise)
	return s.next
}

func (e reloadEvent) handle(t *thread) {
	started, err := t.reload(true)
	t.publish()
	e.reply <- reloaded{append(started, t.poked...), err}
	t.poked = nil
}

// settledOne reports whether an instance is not on its way up any more.
func (t *thread) settledOne(i *instance) bool {
	s := t.slots[i.name]
	return s == nil || s.next != i
}

func (e restartEvent) handle(t *thread) {
	s, ok := t.slots[e.server]
	if !ok {
		e.reply <- reloaded{err: t.noServer(e.server)}
		return
	}
	if s.state != "" {
		e.reply <- reloaded{err: refusedState(e.server, s.state, s.why, s.needs)}
		return
	}
	old := s.inst
	if old != nil && old.id != s.id {
		old = nil // the last good one serves while its successor is tried again
	} else {
		s.end()
	}
	s.heal()
	inst := t.launch(s, old)
	t.publish()
	e.reply <- reloaded{started: []*instance{inst}}
}

func (e needEvent) handle(t *thread) {
	for name, s := range t.slots {
		wanted := name == e.server || e.server == "" && s.tools == nil
		if wanted && s.state == "" && s.inst == nil && s.next == nil && s.fault == "" {
			t.launch(s, nil)
		}
	}
}

func (e readyEvent) handle(t *thread) {
	s := t.slots[e.inst.name]
	if s == nil || s.next != e.inst {
		if s == nil || !t.guestReady(s, e) {
			e.inst.stop()
		}
		return
	}
	old := s.inst
	if old != nil && old.id != e.inst.id {
		s.dismiss(false)
	}
	s.inst, s.next = e.inst, nil
	s.fault, s.fix, s.down, s.why = "", "", "", ""
	t.adopt(s, e)
	if old != nil {
		old.drain()
	}
}

// adopt takes over the tools of an instance of the slot.
func (t *thread) adopt(s *slot, e readyEvent) {
	s.tools = e.tools
	if s.toolsFor != e.inst.id.fingerprint {
		s.toolsFor, s.approved = e.inst.id.fingerprint, nil
		s.pins = maps.Clone(s.entry.Pins)
	}
	if s.pins == nil {
		s.firstPins(t.r.opt.Settle)
	}
	t.learn(s)
}

func (e listEvent) handle(t *thread) {
	s := t.slots[e.inst.name]
	if s == nil || s.inst != e.inst && !s.gives(e.inst) {
		return
	}
	s.tools = e.tools
	t.learn(s)
}

// learn pins what may be pinned without asking and notes the rest for the snapshot.
func (t *thread) learn(s *slot) {
	if time.Now().Before(s.settle) {
		s.pin()
	}
	s.remember()
	t.save(s.entry.Name)
	t.changed = true
}

// save has the pins and cache of a server written soon.
func (t *thread) save(server string) {
	if len(t.unsaved) == 0 {
		t.saveAt = time.Now().Add(saveDelay)
	}
	t.unsaved[server] = true
}

func (e endEvent) handle(t *thread) {
	s := t.slots[e.inst.name]
	if s == nil || s.inst != e.inst && s.next != e.inst {
		if s != nil {
			t.guestEnded(s, e)
		}
		return
	}
	t.changed = true
	if s.next == e.inst {
		s.next = nil
	} else {
		s.inst = nil
		s.unlearn()
	}
	if e.why == "" {
		return
	}
	t.r.opt.Log.Info("server failed", "thread", t.id, "server", e.inst.name, "why", e.why)
	s.fault, s.fix, s.stderr, s.down = e.why, e.fix, e.stderr, e.state
	if e.lived >= fastFailure {
		s.fails = 0
	}
	if s.fails++; s.fails >= breaker || e.state == schemas.NeedsConnect {
		s.broken = true
		return
	}
	s.retry = time.Now().Add(min(time.Second<<(s.fails-1), maxBackoff))
}
