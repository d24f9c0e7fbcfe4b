package registry

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

const maxArguments = 1 << 20 // bytes

// call is one tool call on its way. Each step either lets it go on or refuses it.
type call struct {
	schemas.Call
	r       *Registry
	t       *thread
	tool    *tool
	snap    *snapshot // in which tool was looked up
	verdict schemas.Decision
	inst    *instance
	as      schemas.MemberID // whose credentials it uses
	receipt string
	clock   *patience // while it is on its way
}

// Call runs one tool on behalf of the caller: lookup, policy, argument schema, a person's yes where the policy asks, audit "begin",
// the call itself with a deadline, size limit, audit "end". Errors are schemas.Problems for wrong arguments, else
// *schemas.Error: CodeFailed says that it ran and failed, CodeUnknown that nobody knows, everything else that it did not
// run. A tool that itself reports an error is a Result with IsError. Nothing is ever tried twice after it was sent, but what the
// server said it did not run, until a page was open.
func (r *Registry) Call(ctx context.Context, in schemas.Call) (schemas.Result, error) {
	c := &call{Call: in, r: r, receipt: newReceipt()}
	for _, step := range []func(context.Context) error{c.find, c.admit, c.decide, c.arguments, c.permit} {
		if err := step(ctx); err != nil {
			return schemas.Result{}, c.refused(ctx, err)
		}
	}
	return c.send(ctx, c.timeout(), func(ctx context.Context, s *session.Session) (json.RawMessage, error) {
		tell := c.Progress
		if tell != nil && len(c.inst.hide) > 0 {
			tell = func(params json.RawMessage) { c.Progress(c.inst.conceal(params)) }
		}
		return c.paged(ctx, func() (json.RawMessage, error) {
			if c.Log == nil && !c.asksClient() {
				return s.Call(ctx, c.tool.Name, c.Args, tell)
			}
			return s.CallWith(ctx, c.tool.Name, c.Args, c.hooks(tell))
		})
	})
}

// newReceipt joins what a person sees with the two records of a call; it is no secret.
func newReceipt() string {
	return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, rand.Uint32()))
}

func (c *call) timeout() time.Duration { return cmp.Or(c.Timeout, c.tool.timeout, c.r.opt.CallTimeout) }

// find looks the tool up; a server whose tools are unknown is started first.
func (c *call) find(ctx context.Context) error {
	t, s, err := c.r.view(ctx, c.Caller.Thread)
	if err != nil {
		return err
	}
	c.t = t
	if c.Caller.Role < schemas.Member || !c.Caller.Member.Valid() {
		return &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look, not use tools"}
	}
	if c.look(ctx, s) {
		return nil
	}
	if v := s.unknownServer(c.Tool); v != nil {
		if err := t.awaken(ctx, v.entry.Name, c.r.actsAs(ctx, v.entry, c.Caller)); err != nil {
			return err
		}
		s = t.snap.Load()
		if c.look(ctx, s) {
			return nil
		}
	}
	return s.noTool(c.Tool, c.Caller.Member, c.r.opt.Now())
}

func (c *call) look(ctx context.Context, s *snapshot) bool {
	c.tool, c.snap = s.byTool[c.Tool], s
	if c.tool != nil {
		c.as = c.r.actsAs(ctx, c.tool.server.entry, c.Caller)
	}
	return c.tool != nil
}

// unknownServer gives the server that a name means, if it has no tools yet.
func (s *snapshot) unknownServer(name string) *view {
	return s.meant(name, func(v *view) bool { return v.unknown || v.unsigned })
}

// meant gives the server of a tool's name, in either way to write it, if it is one of those; of several that the name may mean the one
// whose own name is longest.
func (s *snapshot) meant(name string, those func(*view) bool) (found *view) {
	if v := serverOf(name, s.byName); v != nil {
		if those(v) {
			return v
		}
		return nil
	}
	for _, v := range s.servers {
		if those(v) && strings.HasPrefix(name, "ext_"+letters(schemas.Slug(v.entry.Name))+"_") && (found == nil || len(v.entry.Name) > len(found.entry.Name)) {
			found = v
		}
	}
	return found
}

// noTool says why there is no such tool: the state of the server that has none now, or the name.
func (s *snapshot) noTool(name string, m schemas.MemberID, now time.Time) error {
	down := func(v *view) bool {
		return len(v.tools) == 0 && !slices.Contains([]schemas.State{schemas.Ready, schemas.Idle, schemas.Held}, v.status.State)
	}
	if v := s.meant(name, down); v != nil {
		st := v.status
		return refusedState(st.Name, st.State, st.Why, st.Needs)
	}
	model := strings.HasPrefix(name, "ext_")
	var names []string
	hint := ""
	for _, t := range s.visible(m, now) {
		full := t.Full()
		if model {
			full = t.Model
		}
		if names = append(names, full); t.Name == name {
			hint = fmt.Sprintf("did you mean %q?", full)
		}
	}
	return &schemas.Error{
		Code: schemas.CodeNotFound, Text: fmt.Sprintf("no tool is called %q here", short(schemas.Clean(name, true), 128)),
		Hint: cmp.Or(hint, didYouMean(name, names), "/mcp tools lists them"),
	}
}

// refusedState says why a server in this state cannot be used.
func refusedState(name string, state schemas.State, why string, needs []string) *schemas.Error {
	e := &schemas.Error{Code: schemas.CodeNotReady, Text: name + " is " + string(state)}
	switch state {
	case schemas.Needs:
		e.Code, e.Text = schemas.CodeNeeds, name+" needs "+strings.Join(needs, ", ")
	case schemas.NeedsConnect:
		e.Code, e.Text, e.Hint = schemas.CodeNeeds, name+" needs you to sign in", "`/mcp connect "+name+"`"
	case schemas.PendingState:
		e.Code, e.Text = schemas.CodePending, name+" waits for approval"
	case schemas.Failed:
		e.Text, e.Hint = name+" failed: "+why, "`/mcp doctor "+name+"`"
	case schemas.Off:
		e.Hint = "/mcp enable " + name
	}
	return e
}

// admit refuses a tool that waits for approval, and a connector that would run with somebody else's sign-in.
func (c *call) admit(context.Context) error {
	if e := c.tool.server.entry; c.runsAs() != e.Owner && c.r.opt.Credentials == nil {
		return &schemas.Error{Code: schemas.CodeMissing, Text: e.Name + " runs as the one who asks, and only @" + cmp.Or(e.OwnerName, string(e.Owner)) + " is signed in here"}
	}
	switch c.tool.Held {
	case "":
		return nil
	case "new":
		return &schemas.Error{Code: schemas.CodeHeld, Text: c.tool.Full() + " is new since the approval and waits for one", Hint: "`/mcp enable " + c.tool.Server + "` shows the change"}
	}
	return &schemas.Error{Code: schemas.CodeHeld, Text: c.tool.Full() + " changed after it was approved and waits for a new approval", Hint: "`/mcp enable " + c.tool.Server + "` shows the change"}
}

// arguments checks them against the tool's schema, all mistakes at once.
func (c *call) arguments(context.Context) error {
	if len(c.Args) == 0 {
		c.Args = json.RawMessage("{}")
	}
	if len(c.Args) > maxArguments {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("the arguments are larger than %d KiB", maxArguments>>10)}
	}
	if c.tool.def.plain.fits(c.Args) {
		return nil
	}
	args, err := decode(c.Args)
	if err != nil {
		return schemas.Problems{{Text: "the arguments are not valid JSON", Hint: "give one object, such as {}"}}
	}
	given, ok := args.(map[string]any)
	if !ok {
		return schemas.Problems{{Text: "the arguments must be one object", Hint: `such as {"name": "value"}`}}
	}
	if key := repeated(c.Args); key != "" {
		return schemas.Problems{{Pointer: "/" + escapePointer(key), Text: fmt.Sprintf("%q is given twice", key)}}
	}
	ps := c.tool.def.check(args)
	if len(ps) == 0 {
		return nil
	}
	return c.omitNull(given, ps)
}

// omitNull takes null for "not given" where the schema has no place for it, as models write it. ps is what is wrong otherwise.
func (c *call) omitNull(given map[string]any, ps schemas.Problems) error {
	n := len(given)
	maps.DeleteFunc(given, func(_ string, v any) bool { return v == nil })
	if len(given) == n || len(c.tool.def.check(given)) > 0 {
		return ps
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return ps
	}
	c.Args = raw
	return nil
}

// decide asks the policy. It comes before the arguments: who may not call a tool learns nothing from it.
func (c *call) decide(context.Context) error {
	c.verdict = c.snap.policy.Decide(c.tool.Tool, c.Caller.Member, c.r.opt.Now())
	if c.verdict.Verb == schemas.Deny {
		return denied(c.tool.Tool, c.verdict)
	}
	if why := c.wary(); why != "" {
		if c.verdict.Verb == schemas.AskVerb {
			why = c.verdict.Why + ", and " + why
		}
		c.verdict = schemas.Decision{Verb: schemas.AskVerb, Rule: c.verdict.Rule, Why: why}
	}
	return nil
}

func denied(t schemas.Tool, d schemas.Decision) *schemas.Error {
	hint := "a manager can `/mcp policy allow " + t.Full() + "`"
	switch {
	case d.Hidden:
		hint = "`/mcp policy allow " + t.Full() + " me`"
	case d.Mine:
		hint = "`/mcp policy forget " + d.Rule + " me`"
	case d.Rule != "": // deny wins over allow
		hint = "a manager can `/mcp policy forget " + d.Rule + "`"
	}
	return &schemas.Error{Code: schemas.CodeDenied, Text: d.Why + ": " + t.Full(), Hint: hint}
}

// send is the part of the way that a tool call, a resource and a prompt share: a running server, a free slot, audit, the
// request with its deadline, the size limit.
func (c *call) send(ctx context.Context, timeout time.Duration, ask func(context.Context, *session.Session) (json.RawMessage, error)) (schemas.Result, error) {
	meter, mine := c.tool.server.meter.slots, c.t.member(c.Caller.Member)
	if err := c.queue(ctx, meter); err != nil {
		return schemas.Result{}, c.refused(ctx, err)
	}
	defer func() { <-meter }()
	if err := c.seated(ctx, mine); err != nil {
		return schemas.Result{}, c.refused(ctx, err)
	}
	defer func() { <-mine }()
	if err := c.begin(ctx); err != nil {
		c.inst.release(time.Time{})
		return schemas.Result{}, err
	}
	c.tool.server.meter.calls.Add(1)
	began := time.Now()
	deadline, clock, cancel := c.inst.asking.call(ctx, c.Call, timeout)
	clock.told(func(waits bool) {
		what := ""
		if waits {
			what = person(c.Caller) + " to answer " + c.tool.Server
		}
		c.waits(what)
	})
	c.clock = clock
	raw, err := ask(deadline, c.inst.sess)
	err = silence(deadline, err)
	cancel()
	now := time.Now()
	c.inst.release(now)
	res := schemas.Result{
		Raw: raw, Server: c.tool.Server, Tool: c.tool.Name, RunsAs: c.runsAs(), Took: now.Sub(began), Receipt: c.receipt, Size: len(raw),
	}
	if err != nil {
		err = c.failed(err, timeout)
	} else {
		res.Raw = c.inst.conceal(raw)
		res.IsError = saysError(res.Raw)
		c.limit(&res)
	}
	c.end(ctx, res, err)
	if err != nil {
		return schemas.Result{}, err
	}
	return res, nil
}

func (c *call) queue(ctx context.Context, slots chan struct{}) error {
	if err := take(ctx, slots); err != nil {
		return &schemas.Error{Code: schemas.CodeNotReady, Text: c.tool.Full() + " waited too long behind other calls; it did not run", Err: err}
	}
	return nil
}

// member gives the slots for the calls at once of one member.
func (t *thread) member(m schemas.MemberID) chan struct{} {
	if slots, ok := t.members.Load(m); ok {
		return slots.(chan struct{})
	}
	slots, _ := t.members.LoadOrStore(m, make(chan struct{}, t.r.opt.PerMember))
	return slots.(chan struct{})
}

// seated takes a session for this call and a slot among the calls of its member. Whose sign-in it uses may change while it waits
// for the slot: a loan ends, a member signs in. Then that session is given back for the right one.
func (c *call) seated(ctx context.Context, mine chan struct{}) (err error) {
	queued := false
	defer func() {
		if err != nil && queued {
			<-mine
		}
	}()
	for range 5 {
		if err := c.reach(ctx); err != nil {
			return err
		}
		as := c.as
		if !queued {
			if err := c.queue(ctx, mine); err != nil {
				c.inst.release(time.Time{})
				return err
			}
			queued = true
		}
		err := c.recheck(ctx)
		if err == nil && c.as == as {
			return nil
		}
		c.inst.release(time.Time{})
		if err != nil {
			return err
		}
	}
	return c.unsteady()
}

func (c *call) unsteady() *schemas.Error {
	return &schemas.Error{Code: schemas.CodeNotReady, Text: c.tool.Server + " keeps stopping; the call did not run", Hint: "`/mcp doctor " + c.tool.Server + "`"}
}

// reach makes sure that the server runs and stays up for this call. Starting it is bounded by the connect time-out and
// is not call time.
func (c *call) reach(ctx context.Context) error {
	for range 5 {
		if err := c.recheck(ctx); err != nil {
			return err
		}
		if i := c.tool.server.seat(c.as).inst; i != nil && i.acquire() {
			c.inst = i
			return nil
		}
		if err := c.t.awaken(ctx, c.tool.Server, c.as); err != nil {
			return err
		}
	}
	return c.unsteady()
}

// recheck looks everything up again if something changed while the call waited. Whose sign-in it uses can change with time alone.
func (c *call) recheck(ctx context.Context) error {
	s := c.t.snap.Load()
	if s == c.snap {
		c.as = c.r.actsAs(ctx, c.tool.server.entry, c.Caller)
		return nil
	}
	c.snap = s
	if c.tool.def == nil { // a resource or prompt
		v := s.byName[c.tool.Server]
		if v == nil {
			return noServer(c.tool.Server, names(s))
		}
		c.tool = &tool{Tool: c.tool.Tool, server: v, timeout: c.tool.timeout}
		c.as = c.r.actsAs(ctx, v.entry, c.Caller)
	} else {
		old := c.tool
		if c.tool = s.same(old); c.tool == nil {
			c.tool = old
			return &schemas.Error{Code: schemas.CodeNotFound, Text: old.Full() + " is no longer offered by its server"}
		}
		c.as = c.r.actsAs(ctx, c.tool.server.entry, c.Caller)
		if err := c.admit(ctx); err != nil {
			return err
		}
		if c.tool.Pin != old.Pin {
			return &schemas.Error{Code: schemas.CodeHeld, Text: old.Full() + " changed meanwhile; look at it again"}
		}
	}
	if d := s.policy.Decide(c.tool.Tool, c.Caller.Member, c.r.opt.Now()); d.Verb == schemas.Deny {
		return denied(c.tool.Tool, d)
	}
	return nil
}

// same finds a tool of an older snapshot; its name for models may have changed.
func (s *snapshot) same(old *tool) *tool {
	for _, name := range []string{old.Model, old.Full()} {
		if t := s.byTool[name]; t != nil && t.Server == old.Server && t.Name == old.Name {
			return t
		}
	}
	return nil
}

// awaken starts what serves calls of a server as m, unless it runs, and waits until it is ready.
func (t *thread) awaken(ctx context.Context, name string, m schemas.MemberID) error {
	limit := time.NewTimer(t.r.opt.ConnectTimeout + closeTime)
	defer limit.Stop()
	asked, tries := false, -1
	for {
		s := t.snap.Load()
		v := s.byName[name]
		if v == nil {
			return noServer(name, nil)
		}
		seat := v.seat(m)
		if tries < 0 {
			tries = seat.tries
		}
		mine := m != v.entry.Owner && !v.parked // a member's own session is tried again with each call
		down := seat.inst == nil && seat.starting == nil
		switch {
		case seat.inst != nil && !seat.inst.ending():
			return nil
		case down && seat.state != schemas.Idle && (!mine || seat.tries > tries):
			return refusedState(name, seat.state, seat.why, v.status.Needs)
		}
		var mail chan<- event
		if down && !asked {
			mail = t.mail
		}
		var poll <-chan time.Time
		if seat.inst != nil { // it may think better of resting
			poll = time.After(5 * time.Millisecond)
		}
		select {
		case mail <- v.need(m):
			asked = true
		case <-s.next:
			asked = false
		case <-poll:
		case <-t.done:
			return &schemas.Error{Code: schemas.CodeNotReady, Text: "bobbin is shutting down; the call did not run"}
		case <-limit.C:
			return &schemas.Error{Code: schemas.CodeNotReady, Text: name + " takes too long to start; the call did not run", Hint: "`/mcp doctor " + name + "`"}
		case <-ctx.Done():
			return &schemas.Error{Code: schemas.CodeNotReady, Text: name + " was still starting; the call did not run", Err: ctx.Err()}
		}
	}
}

// failed turns a session's error into the words and the code of its outcome.
func (c *call) failed(err error, timeout time.Duration) error {
	e := &schemas.Error{Code: schemas.CodeUnknown, Hint: "/mcp audit " + c.receipt, Ref: c.receipt, Err: err}
	name := c.tool.Server
	var known *schemas.Error
	var rpc *session.RPCError
	switch {
	case errors.As(err, &known) && session.OutcomeOf(err) != session.Unknown:
		return known
	case errors.As(err, &rpc):
		e.Code, e.Text = schemas.CodeFailed, name+" answered: "+short(schemas.Clean(c.inst.veil(rpc.Message), true), whyLimit)
		e.Err = c.inst.refusal(rpc, err)
	case errors.Is(err, session.ErrInputUnavailable):
		e.Code, e.Text = schemas.CodeFailed, c.tool.Full()+" asks for input that cannot be given here"
	case session.OutcomeOf(err) == session.NotRun:
		e.Code, e.Text = schemas.CodeNotReady, name+" could not be reached; the call did not run"
	case errors.Is(err, errSilent):
		e.Text = fmt.Sprintf("%s did not answer within %s; whether it ran is unknown, so I did not try again", name, words(timeout))
	case errors.Is(err, session.ErrTooLarge):
		e.Text = name + " sent an answer that is too large; whether it ran is unknown, so I did not try again"
	case errors.Is(err, session.ErrGarbage):
		e.Text = name + " sent an answer that is not MCP; whether it ran is unknown, so I did not try again"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Text = "the wait for " + name + " was broken off; whether it ran is unknown, so I did not try again"
	default:
		e.Text = name + " ended during the call; whether it ran is unknown, so I did not try again"
	}
	return e
}
