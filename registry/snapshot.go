package registry

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/schemas"
)

// snapshot is everything that readers and calls need to know of a thread at one moment. It never changes; next is closed
// when a newer one took its place.
type snapshot struct {
	policy  schemas.Policy
	servers []*view          // load order, shadowed ones included
	byName  map[string]*view // without the shadowed ones
	byTool  map[string]*tool // by full name and by name for models; held tools, too
	tools   []schemas.Tool   // usable ones, load order
	unknown bool             // the tools of some server are not known yet
	next    chan struct{}
}

// view is one server at one moment.
type view struct {
	entry    schemas.Entry
	status   schemas.Status
	inst     *instance // serves; nil: none
	starting *instance
	guests   map[schemas.MemberID]guest
	parked   bool      // has no process for a reason that the configuration gave
	since    time.Time // when starting began
	unknown  bool      // has no tools yet and may start
	unsigned bool      // has no tools yet, and its owner no sign-in; a member who has one may start it
	meter    *meter
	tools    []*tool
	refused  string
}

// tool is one tool of a thread at one moment.
type tool struct {
	schemas.Tool
	def     *definition
	server  *view
	timeout time.Duration // of the entry; 0: none
}

// publish makes the present state visible, if it changed.
func (t *thread) publish() {
	if !t.changed && t.snap.Load() != nil {
		return
	}
	t.changed, t.fresh = false, true
	s := &snapshot{
		policy: t.cfg.Policy, next: make(chan struct{}),
		byName: map[string]*view{}, byTool: map[string]*tool{},
	}
	var all []*schemas.Tool
	for _, e := range t.cfg.Entries {
		v := t.look(e)
		s.servers = append(s.servers, v)
		if e.Shadowed {
			continue
		}
		s.byName[e.Name] = v
		s.unknown = s.unknown || v.unknown
		room := maxThreadTools - len(all)
		if len(v.tools) > room {
			v.refuse(fmt.Sprintf("%d tools left out: a thread has at most %d", len(v.tools)-room, maxThreadTools))
			v.tools = v.tools[:room]
		}
		for _, tl := range v.tools {
			all = append(all, &tl.Tool)
		}
	}
	modelNames(all)
	for _, v := range s.servers {
		v.count(s.policy)
		for _, tl := range v.tools {
			s.byTool[tl.Model] = tl
			if full := tl.Full(); serverOf(full, s.byName) == v {
				s.byTool[full] = tl
			}
			if tl.Held == "" {
				s.tools = append(s.tools, tl.Tool)
			}
		}
	}
	old := t.snap.Swap(s)
	if old != nil {
		close(old.next)
	}
	t.r.tick(t.id)
}

// look describes one entry.
func (t *thread) look(e schemas.Entry) *view {
	v := &view{entry: e, status: schemas.Status{
		Name: e.Name, Title: e.Title, Kind: e.Kind, Transport: cmp.Or(e.Type, schemas.Stdio), Owner: e.Owner, OwnerName: e.OwnerName,
		Pending: e.Approval != nil && e.Pending(),
	}}
	s := t.slots[e.Name]
	if e.Shadowed || s == nil {
		v.status.State = schemas.ShadowedState
		v.status.Why = "an entry earlier in the load order has this name"
		return v
	}
	v.meter, v.inst, v.starting, v.guests, v.parked = s.meter, s.inst, s.next, s.guests, s.state != ""
	v.status.Needs = s.needs
	st := &v.status
	st.State, st.Why = s.state, s.why
	switch {
	case s.state != "":
		return v
	case s.inst != nil:
		st.State = schemas.Ready
		if s.fault != "" {
			st.Why = "the new definition failed: " + s.fault + "; the one before runs on"
		}
	case s.next != nil:
		st.State = schemas.Starting
		if s.fault != "" {
			st.Why = "the last start failed: " + s.fault
		}
	case s.fault != "":
		st.State, st.Why, st.Fix = cmp.Or(s.down, schemas.Failed), s.fault, s.fix
		if st.State == schemas.Failed && !s.retry.IsZero() {
			st.Why += "; tries again"
		}
	default:
		st.State = schemas.Idle
	}
	if s.next != nil {
		v.since = s.next.began
	}
	st.Stderr = s.stderr
	v.unknown = s.tools == nil && s.inst == nil && (s.fault == "" || s.next != nil)
	theirs := ownSignIn(e) && s.down == schemas.NeedsConnect // the owner's sign-in is missing, others have their own
	v.unsigned = s.tools == nil && theirs
	if s.tools != nil && (s.fault == "" || s.inst != nil || s.next != nil || theirs) {
		v.offer(e, s)
	}
	return v
}

// offer fills in the tools that the entry's filter lets through.
func (v *view) offer(e schemas.Entry, s *slot) {
	timeout := time.Duration(e.Timeout) * time.Millisecond
	for _, d := range s.tools.list {
		if !passes(e.Tools, d.Name) {
			continue
		}
		tl := &tool{Tool: d.Tool, def: d, server: v, timeout: timeout}
		tl.Kind = e.Kind
		tl.Held = s.held(d)
		v.tools = append(v.tools, tl)
	}
	v.status.Resources, v.status.Prompts, v.status.Protocol = s.tools.resources, s.tools.prompts, s.tools.era
	if n := len(s.tools.refused); n > 0 {
		first := s.tools.refused[0]
		text := strings.TrimSpace(first.Name + " " + first.Reason)
		if n > 1 {
			text += fmt.Sprintf(", and %d more", n-1)
		}
		v.refuse("left out: " + text)
	}
}

func (v *view) refuse(why string) { v.refused = joinWhy(v.refused, why) }

func joinWhy(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// count fills in the numbers of a status.
func (v *view) count(p schemas.Policy) {
	st := &v.status
	for _, tl := range v.tools {
		st.Tools++
		st.Tokens += tl.Tokens
		if tl.Writes {
			st.Writing++
		}
		if tl.Held != "" {
			st.HeldTools = append(st.HeldTools, tl.Name)
			continue
		}
		switch p.Decide(tl.Tool, "", time.Time{}).Verb {
		case schemas.Deny:
			st.Blocked++
		case schemas.AskVerb:
			st.Asking++
		}
	}
	if n := len(st.HeldTools); n > 0 {
		if n == st.Tools && st.State == schemas.Ready {
			st.State = schemas.Held
		}
		st.Why = joinWhy(st.Why, "held until somebody approves: "+strings.Join(st.HeldTools, ", "))
	}
	st.Why = joinWhy(st.Why, v.refused)
	st.Why = short(st.Why, 2*whyLimit)
}

// present gives the status with what holds at this moment.
func (v *view) present(now time.Time) schemas.Status {
	st := v.status
	st.RunsAs = shownAs(v.entry, now)
	if v.meter != nil {
		st.Calls = int(v.meter.calls.Load())
		st.ResourceChanges, st.PromptChanges = int(v.meter.resources.Load()), int(v.meter.prompts.Load())
	}
	if i := v.inst; i != nil {
		st.PID, st.Since, st.Took = i.pid(), i.readyAt, i.readyAt.Sub(i.began)
		st.Stderr = i.stderr()
		st.Software = strings.TrimSpace(short(schemas.Clean(i.info.Name, true), 128) + " " + short(schemas.Clean(i.info.Version, true), 64))
		st.Instructions = cut(schemas.Clean(i.info.Instructions, false), maxDescription)
	}
	if i := v.starting; i != nil && st.State == schemas.Starting {
		why, stderr := i.soFar()
		if _, line, _ := strings.Cut(why, ": "); why != "" && !strings.HasSuffix(st.Why, line) { // it says the same each time
			st.Why = joinWhy(st.Why, why)
		}
		st.Stderr = cmp.Or(stderr, st.Stderr)
	}
	return st
}

// shownAs says whose credentials a server uses.
func shownAs(e schemas.Entry, now time.Time) string {
	switch {
	case e.Kind == schemas.Admin:
		return "the operator"
	case ownSignIn(e) && e.Loan.Holds(now):
		return "@" + cmp.Or(e.Loan.Name, string(e.Loan.Member)) + until(e.Loan.Until, now)
	case ownSignIn(e):
		return "the one who asks"
	}
	return "@" + cmp.Or(e.OwnerName, string(e.Owner))
}

// until words the end of a loan, "" for one without.
func until(end, now time.Time) string {
	switch end, now = end.UTC(), now.UTC(); {
	case end.IsZero():
		return ""
	case end.Format(time.DateOnly) == now.Format(time.DateOnly):
		return end.Format(" until 15:04 UTC")
	}
	return end.Format(" until 2006-01-02 15:04 UTC")
}

// held says why a tool waits for approval, "" if it does not.
func (s *slot) held(d *definition) string {
	pin, ok := s.pins[d.Name]
	switch {
	case s.pins == nil || ok && pin == d.Pin:
		return ""
	case ok:
		return "changed"
	}
	return "new"
}

// passes applies an entry's filter; exclude wins.
func passes(f *schemas.ToolFilter, name string) bool {
	if f == nil {
		return true
	}
	match := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			ok, _ := path.Match(p, name)
			return ok || p == name
		})
	}
	return !match(f.Exclude) && (len(f.Include) == 0 || match(f.Include))
}

// visible gives the tools that the member's own allow list does not leave out.
func (s *snapshot) visible(m schemas.MemberID, now time.Time) []schemas.Tool {
	if len(s.policy.Members[m].Allow) == 0 {
		return s.tools
	}
	var list []schemas.Tool
	for _, t := range s.tools {
		if !s.policy.Decide(t, m, now).Hidden {
			list = append(list, t)
		}
	}
	return list
}

// settled waits until none of the instances is starting any more.
func (t *thread) settled(ctx context.Context, started []*instance) error {
	return t.until(ctx, nil, func(s *snapshot) bool {
		return !slices.ContainsFunc(s.servers, func(v *view) bool { return v.starting != nil && slices.Contains(started, v.starting) })
	})
}

// discover starts the servers whose tools are unknown and waits for those that have not been starting for long.
func (t *thread) discover(ctx context.Context, s *snapshot) {
	select {
	case t.mail <- needEvent{}:
	case <-t.done:
		return
	case <-ctx.Done():
		return
	}
	asked, patience := time.Now(), t.r.opt.Patience
	limit := time.NewTimer(patience)
	defer limit.Stop()
	_ = t.until(ctx, limit.C, func(s *snapshot) bool {
		return !slices.ContainsFunc(s.servers, func(v *view) bool {
			return v.unknown && (v.starting == nil || v.since.After(asked.Add(-patience)))
		})
	})
}

// discoverAs starts servers whose tools are unknown since their owner is not signed in, where the caller, or who lent to them, is.
func (t *thread) discoverAs(ctx context.Context, s *snapshot, c schemas.Caller) {
	ctx, cancel := context.WithTimeout(ctx, t.r.opt.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, v := range s.servers {
		as := t.r.actsAs(ctx, v.entry, c)
		if !v.unsigned || as == v.entry.Owner || !t.r.signed(ctx, c.Thread, as, v.entry) {
			continue
		}
		wg.Go(func() { _ = t.awaken(ctx, v.entry.Name, as) }) // how it is stands in its status
	}
	wg.Wait()
}

// until waits for a snapshot that satisfies enough, at most until ctx ends or limit ticks.
func (t *thread) until(ctx context.Context, limit <-chan time.Time, enough func(*snapshot) bool) error {
	for {
		s := t.snap.Load()
		if enough(s) {
			return nil
		}
		select {
		case <-s.next:
		case <-limit:
			return nil
		case <-t.done:
			return &schemas.Error{Code: schemas.CodeNotReady, Text: "the thread's servers are shutting down"}
		case <-ctx.Done():
			return gaveUp(ctx.Err())
		}
	}
}

// noServer is the refusal of an unknown name.
func (t *thread) noServer(name string) *schemas.Error {
	var names []string
	for n := range t.slots {
		names = append(names, n)
	}
	return noServer(name, names)
}

func noServer(name string, names []string) *schemas.Error {
	return &schemas.Error{Code: schemas.CodeNotFound, Text: fmt.Sprintf("no server is called %q here", short(schemas.Clean(name, true), 64)), Hint: didYouMean(name, names)}
}
