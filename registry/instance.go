package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

const (
	relistDelay = 50 * time.Millisecond // list_changed notes within it are one listing
	relistPause = time.Second           // between listings of a server that announces changes all the time
	relistFree  = 10                    // listings before that pause holds
	closeTime   = 15 * time.Second      // for a server to end
	whyLimit    = 300                   // characters
	maxStderr   = 8 << 10               // bytes of it in a status
	silentFor   = 3 * time.Second       // until a status says what a server that does not answer has printed
)

// Abilities that a launched program may have beside reading and writing; each is looked for once.
type (
	identified interface{ PID() int }
	diagnosed  interface{ Diagnose() string }
	talkative  interface{ Stderr() string }
)

// instance is one running program or connection. Its goroutine, supervise, starts it, watches it and ends it; calls use
// the session from their own goroutines between acquire and release.
type instance struct {
	t      *thread
	name   string
	owner  schemas.MemberID
	member schemas.MemberID // as whom it signs in
	begun  bool             // the audit log knows of it
	sample bool             // it is told that it may ask for words of the model
	def    schemas.Server
	id     identity
	values map[string]schemas.Secret
	hide   []string // those of the values that are secrets, longest first
	forms  [][]byte // of hide, as JSON writes them
	prev   *toolset // of the run before, to parse only what changed
	era    string
	after  *instance // must be gone before this one starts; nil: none
	meter  *meter
	began  time.Time

	life     context.Context
	cancel   context.CancelFunc
	draining chan struct{} // closed by the owner
	asking   asking
	drained  atomic.Bool // draining is closed
	relist   chan struct{}
	gone     chan struct{}

	inflight atomic.Int64
	closing  atomic.Bool
	quiet    chan struct{} // ticks when the last call ended while closing
	lastUse  atomic.Int64
	noise    atomic.Pointer[string]    // its first line that is not MCP
	talk     atomic.Pointer[talkative] // of the program, once it runs

	// Set before the owner hears of readiness, never changed afterwards.
	sess    *session.Session
	child   io.ReadWriteCloser
	info    session.Info
	readyAt time.Time
}

func newInstance(t *thread, s *slot, after *instance) *instance {
	i := &instance{
		t: t, name: s.entry.Name, owner: s.entry.Owner, member: s.entry.Owner, def: s.def, id: s.id, values: s.values, prev: s.tools, after: after,
		meter: s.meter, began: time.Now(), draining: make(chan struct{}), relist: make(chan struct{}, 1),
		gone: make(chan struct{}), quiet: make(chan struct{}, 1),
	}
	if s.tools != nil && s.toolsFor == s.id.fingerprint {
		i.era = s.tools.era
	}
	i.sample = t.r.opt.Gate != nil && t.cfg.Policy.Samples(i.name)
	i.hide = hidden(s.values, t.cfg.Inputs)
	i.forms = written(i.hide)
	i.life, i.cancel = context.WithCancel(context.WithoutCancel(t.life))
	return i
}

// stop ends the instance at once; calls in flight lose their answer.
func (i *instance) stop() { i.cancel() }

// drain ends the instance when its calls in flight have ended, or the drain time has. Only the owner calls it.
func (i *instance) drain() {
	if i.drained.CompareAndSwap(false, true) {
		close(i.draining)
	}
}

// acquire keeps the session alive for one call; false: it is ending, look at the snapshot again.
func (i *instance) acquire() bool {
	i.inflight.Add(1)
	if i.ending() {
		i.release(time.Time{})
		return false
	}
	return true
}

// ending reports whether no call may take the instance any more.
func (i *instance) ending() bool { return i.closing.Load() || i.life.Err() != nil }

func (i *instance) release(now time.Time) {
	if !now.IsZero() {
		i.lastUse.Store(now.UnixNano())
	}
	if i.inflight.Add(-1) == 0 && i.closing.Load() {
		select {
		case i.quiet <- struct{}{}:
		default:
		}
	}
}

// supervise is the instance's goroutine.
func (i *instance) supervise() {
	defer close(i.gone)
	defer i.cancel()
	late := time.AfterFunc(silentFor, i.heard)
	tools, err := i.open()
	late.Stop()
	if err != nil {
		i.close()
		i.report(err, 0)
		return
	}
	i.readyAt = time.Now()
	i.lastUse.Store(i.readyAt.UnixNano())
	i.tell(readyEvent{i, tools})
	err = i.serve(tools)
	i.closing.Store(true)
	if err == nil {
		i.tell(endEvent{inst: i, stderr: i.stderr()})
		i.close()
		i.ended("stopped")
		return
	}
	i.close()
	i.report(err, time.Since(i.readyAt))
}

// report tells the owner of a failure, or of an end that was asked for.
func (i *instance) report(err error, lived time.Duration) {
	if i.life.Err() != nil || errors.Is(err, errAsked) {
		i.ended("stopped")
		i.tell(endEvent{inst: i})
		return
	}
	i.ended("failed")
	e := endEvent{inst: i, why: i.diagnose(err), fix: fix(err), stderr: i.stderr(), state: schemas.Failed, lived: lived}
	if i.def.Remote() && schemas.CodeOf(err) == schemas.CodeNeeds {
		e.state = schemas.NeedsConnect
	}
	i.tell(e)
}

var errAsked = errors.New("asked to end")

func (i *instance) tell(e event) {
	select {
	case i.t.mail <- e:
	case <-i.t.over:
	}
}

// open starts the program or connection and reads its tools.
func (i *instance) open() (*toolset, error) {
	if i.after != nil {
		wait := time.NewTimer(closeTime)
		defer wait.Stop()
		select {
		case <-i.after.gone:
		case <-wait.C:
		case <-i.life.Done():
			return nil, errAsked
		}
		i.after = nil
	}
	limit := i.t.r.opt.ConnectTimeout
	opt := session.Options{
		Name: "bobbin", Version: i.t.r.opt.Version, Era: i.era, OnNotify: i.notified,
		OnMessage:      i.seen,
		OnNoise:        func(first string) { i.noise.Store(&first); i.heard() },
		ConnectTimeout: 2 * limit, // the context below ends first and has a cause of its own
	}
	if i.t.r.opt.Ask != nil {
		opt.OnElicit = i.elicit
	}
	if i.sample {
		opt.OnSample = i.words
	}
	starting, started := context.WithTimeout(i.life, limit)
	err := i.begin(starting)
	if err == nil {
		err = i.reach(starting, &opt)
	}
	started()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(i.life, limit, errSilent)
	defer cancel()
	sess, err := session.Open(ctx, opt)
	if err != nil {
		return nil, silence(ctx, err)
	}
	i.sess, i.info = sess, sess.Info()
	tools, err := i.list(ctx, i.prev)
	i.prev = nil
	return tools, silence(ctx, err)
}

var errSilent = errors.New("no answer in time")

// silence makes a deadline recognisable whatever it was wrapped in.
func silence(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// reach starts the program, or fills in where the connector is.
func (i *instance) reach(ctx context.Context, opt *session.Options) error {
	fill := func(text string) string { return substitute(text, i.values) }
	if i.def.Remote() {
		return i.t.r.remote(opt, i.t.id, i.member, i.def, i.values)
	}
	l := schemas.Launch{
		Thread: i.t.id, Owner: i.owner, Server: i.name, Command: i.def.Command, Args: slices.Clone(i.def.Args),
		Env: make(map[string]schemas.Secret, len(i.def.Env)), Cwd: fill(i.def.Cwd),
	}
	for n, a := range l.Args {
		l.Args[n] = fill(a)
	}
	for k, v := range i.def.Env {
		l.Env[k] = schemas.NewSecret(fill(v))
	}
	child, err := i.t.r.opt.Launcher.Launch(ctx, l)
	if err != nil {
		return err
	}
	i.child, opt.Stdio = child, child
	if c, ok := child.(talkative); ok {
		i.talk.Store(&c)
	}
	return nil
}

// heard ticks when a status has something new to say about a server that does not answer.
func (i *instance) heard() {
	if i.noise.Load() != nil && time.Since(i.began) >= silentFor {
		i.t.r.tick(i.t.id)
	}
}

// soFar says what a server that is starting has printed, on its output in words and on its standard error as it is.
func (i *instance) soFar() (why, stderr string) {
	if time.Since(i.began) < silentFor {
		return "", ""
	}
	if first := i.noise.Load(); first != nil {
		why = short(i.mask(schemas.Clean("has printed, but nothing that is MCP: "+*first, true)), whyLimit)
	}
	if c := i.talk.Load(); c != nil {
		stderr = i.tail(*c)
	}
	return why, stderr
}

// notified hears the server's notifications; it only leaves a note.
func (i *instance) notified(method string, params json.RawMessage) {
	switch method {
	case "notifications/tools/list_changed":
		select {
		case i.relist <- struct{}{}:
		default:
		}
	case "notifications/resources/list_changed":
		i.meter.resources.Add(1)
		i.t.r.tick(i.t.id)
	case "notifications/prompts/list_changed":
		i.meter.prompts.Add(1)
		i.t.r.tick(i.t.id)
	case "notifications/resources/updated":
		i.meter.updated(params)
	case "notifications/elicitation/complete":
		i.asking.complete(params)
	}
}

// list reads and parses the tools.
func (i *instance) list(ctx context.Context, prev *toolset) (*toolset, error) {
	if !i.info.Tools {
		return newToolset(i.name, nil, nil, nil).of(i.info), nil
	}
	l, err := i.sess.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	return newToolset(i.name, l.Items, l.Refused, prev).of(i.info), nil
}

// serve watches the session until it ends; nil means that it stops because nobody needs it.
func (i *instance) serve(tools *toolset) error {
	i.followAgain()
	idle := time.NewTimer(i.t.r.opt.IdleStop)
	defer idle.Stop()
	var debounce <-chan time.Time
	for listings := 0; ; {
		select {
		case <-i.life.Done():
			return errAsked
		case <-i.draining:
			return i.awaitQuiet()
		case <-i.sess.Done():
			return i.sess.Err()
		case <-i.relist:
			if debounce == nil {
				debounce = time.After(relistDelay)
				if listings >= relistFree {
					debounce = time.After(relistPause)
				}
			}
		case <-debounce:
			debounce, listings = nil, listings+1
			ctx, cancel := context.WithTimeout(i.life, i.t.r.opt.ConnectTimeout)
			next, err := i.list(ctx, tools)
			cancel()
			if err != nil {
				i.t.r.opt.Log.Info("cannot list tools again", "thread", i.t.id, "server", i.name, "err", i.mask(err.Error()))
				continue
			}
			if !next.same(tools) {
				tools = next
				i.tell(listEvent{i, next})
			}
		case <-idle.C:
			if i.rest(idle) {
				return nil
			}
		}
	}
}

// rest reports whether the instance may stop because nobody used it for a while; else it sets the timer anew.
func (i *instance) rest(idle *time.Timer) bool {
	left := i.t.r.opt.IdleStop - time.Since(time.Unix(0, i.lastUse.Load()))
	if left > 0 {
		idle.Reset(left)
		return false
	}
	i.closing.Store(true)
	if i.inflight.Load() == 0 {
		return true
	}
	i.closing.Store(false)
	idle.Reset(i.t.r.opt.IdleStop)
	return false
}

// awaitQuiet lets calls in flight end.
func (i *instance) awaitQuiet() error {
	i.closing.Store(true)
	limit := time.NewTimer(i.t.r.opt.Drain)
	defer limit.Stop()
	for i.inflight.Load() > 0 {
		select {
		case <-i.quiet:
		case <-limit.C:
			return errAsked
		case <-i.life.Done():
			return errAsked
		case <-i.sess.Done():
			return errAsked
		}
	}
	return errAsked
}

func (i *instance) close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(i.life), closeTime)
	defer cancel()
	if i.sess != nil {
		_ = i.sess.Close(ctx)
	}
	if i.child != nil {
		_ = i.child.Close()
	}
}

func (i *instance) stderr() string {
	if c, ok := i.child.(talkative); ok {
		return i.tail(c)
	}
	return ""
}

func (i *instance) tail(c talkative) string {
	text := c.Stderr()
	return i.mask(schemas.Clean(text[max(0, len(text)-maxStderr):], false))
}

func (i *instance) pid() int {
	if c, ok := i.child.(identified); ok {
		return c.PID()
	}
	return 0
}

// fix is the next step that an error names.
func fix(err error) string {
	if known, ok := errors.AsType[*schemas.Error](err); ok {
		return schemas.Clean(known.Hint, true)
	}
	return ""
}

// diagnose says in words for people why the server failed.
func (i *instance) diagnose(err error) string {
	var known *schemas.Error
	var rpc *session.RPCError
	var noise *session.Noise
	silent := errors.Is(err, errSilent)
	why := ""
	switch {
	case errors.As(err, &known):
		why = known.Text
		if known.Hint != "" {
			why += "; " + known.Hint
		}
	case silent:
		why = fmt.Sprintf("did not answer initialize within %s", words(i.t.r.opt.ConnectTimeout))
		if i.sess != nil {
			why = fmt.Sprintf("did not answer tools/list within %s", words(i.t.r.opt.ConnectTimeout))
		}
	case errors.Is(err, session.ErrTooLarge):
		why = "sent a message above 4 MiB and was stopped"
	case errors.Is(err, session.ErrGarbage):
		why = "does not speak MCP on its standard output"
	case errors.Is(err, session.ErrStuck):
		why = "stopped reading its input"
	case errors.Is(err, session.ErrRedirect):
		why = "answered with a redirect to another address"
	case errors.As(err, &rpc):
		why = "answered with an error: " + schemas.Clean(rpc.Message, true)
	case i.def.Remote():
		why = remoteWhy(err)
	}
	c, ok := i.child.(diagnosed)
	if why == "" && ok {
		why = c.Diagnose()
		if why == "stopped by bobbin" || strings.HasPrefix(why, "killed after") { // that came of the failure, it is not the reason
			why = ""
		}
	}
	printed := errors.As(err, &noise)
	switch line := lastLine(i.stderr()); {
	case printed && silent:
		why += "; what it printed is not MCP: " + noise.First
	case printed && (why == "" || errors.Is(err, session.ErrGarbage)):
		why = "answered nothing that is MCP, only: " + noise.First
	case silent && line != "":
		why += ": " + line
	case why == "":
		why = "closed its output"
	}
	return short(i.mask(schemas.Clean(why, true)), whyLimit)
}

// mask hides the values that went into the definition, should the server repeat one.
func (i *instance) mask(text string) string {
	for _, name := range slices.Sorted(maps.Keys(i.values)) {
		if v := i.values[name].Reveal(); len(v) >= 6 {
			text = strings.ReplaceAll(text, v, "***")
		}
	}
	return text
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
