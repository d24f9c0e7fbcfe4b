package registry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// wishes is what a thread wants. Load is called by the thread's owner, also while calls run; Pin as well.
type wishes interface {
	Load(context.Context, schemas.ThreadID) (schemas.Config, error)
	Pin(ctx context.Context, thread schemas.ThreadID, server string, pins map[string]string) error
}

// launcher starts programs. ctx bounds the start alone; Close of what it returns is idempotent, unblocks Read and waits
// until the whole process group is gone. It is called by many supervisors at once.
type launcher interface {
	Launch(context.Context, schemas.Launch) (io.ReadWriteCloser, error)
}

// secrets gives sealed values; *schemas.Error with CodeNeeds when there is none.
type secrets interface {
	Reveal(context.Context, schemas.SecretKey) (schemas.Secret, error)
}

// journal keeps the audit record; what Append returned for survives a killed process. It waits a few seconds at most, also without a
// deadline. Called concurrently.
type journal interface {
	Append(context.Context, schemas.Record) (schemas.Record, error)
}

// gate asks a person about one call and blocks until somebody answered or ctx ends.
type gate interface {
	Ask(context.Context, schemas.Ask) (schemas.Answer, error)
}

// asker puts a server's question to the member whose call it is, and blocks until that member answered or ctx ends. An error is no answer.
type asker interface {
	Elicit(context.Context, schemas.Elicit) (schemas.Elicited, error)
}

// teller hears that tools of a server wait for approval: once for each set of definitions, at most once a minute for a server, and
// again after a restart of bobbin. It is called beside the thread's owner; ctx ends after 5 s.
type teller interface {
	Held(ctx context.Context, thread schemas.ThreadID, server string, tools []schemas.HeldTool)
}

// sampler has the thread's model write a text for a server. The member has said yes.
type sampler interface {
	Sample(context.Context, schemas.Sampling) (schemas.Sampled, error)
}

// Options of New. Zero numbers mean the defaults named.
type Options struct {
	Wishes   wishes
	Launcher launcher
	Secrets  secrets
	Journal  journal
	Gate     gate         // nil: a call that asks is refused with CodeAsk
	Ask      asker        // nil: servers are told that nobody can be asked for input
	Sample   sampler      // nil: servers get no words of a model, whatever the policy says; also without Gate
	Tell     teller       // nil: nobody hears of held tools
	Cache    *durable.Dir // data/cache
	// HTTP gives the guarded client for a connector; nil: this build has no connectors.
	HTTP func(schemas.ThreadID, schemas.Server) *http.Client
	// Credentials, if set, is used in place of HTTP, also for connectors without a sign-in, and gives a client that signs in as member; a sign-in that is missing
	// comes back from its transport as *schemas.Error with CodeNeeds and never waits for a person.
	Credentials func(thread schemas.ThreadID, member schemas.MemberID, s schemas.Server) *http.Client
	// Hidden, if set, gives what an entry's server has of secrets beside those of its definition, by a name that is no input's. They are
	// taken out of what it answers like those, and the server's session starts anew when they change. It must be quick.
	Hidden func(context.Context, schemas.ThreadID, schemas.Entry) map[string]schemas.Secret
	// Signed says whether a member has a sign-in of their own for exactly this definition; it is asked for each call while a
	// sign-in is lent, and must be quick. nil: nobody has.
	Signed func(context.Context, schemas.ThreadID, schemas.MemberID, schemas.Server) bool
	// Here says whether a member who lends is still in the thread; it is asked for each call that would use the loan, and must be
	// quick nearly always. nil: nobody leaves.
	Here func(context.Context, schemas.ThreadID, schemas.MemberID) bool

	IdleStop       time.Duration // without a call until a server is stopped; 10 min
	ConnectTimeout time.Duration // from start to the answer of initialize; 30 s
	CallTimeout    time.Duration // of a call that sets none; 60 s
	Drain          time.Duration // for calls in flight when a server is replaced or bobbin ends; 10 s
	Settle         time.Duration // after the first start of an approval in which tools may still appear; 3 s
	Patience       time.Duration // of Tools for servers that are still starting; 5 s
	PerServer      int           // calls at once to one server; 16
	PerMember      int           // calls at once of one member in one thread; 32

	Version string // of bobbin, told to servers
	Now     func() time.Time
	Log     *slog.Logger
}

func (o *Options) fill() error {
	if o.Wishes == nil || o.Launcher == nil || o.Secrets == nil || o.Journal == nil || o.Cache == nil {
		return errors.New("registry: Wishes, Launcher, Secrets, Journal and Cache are required")
	}
	preset(&o.IdleStop, 10*time.Minute)
	preset(&o.ConnectTimeout, 30*time.Second)
	preset(&o.CallTimeout, 60*time.Second)
	preset(&o.Drain, 10*time.Second)
	preset(&o.Settle, 3*time.Second)
	preset(&o.Patience, 5*time.Second)
	preset(&o.PerServer, 16)
	preset(&o.PerMember, 32)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func preset[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Registry holds the live threads. All methods may be called concurrently; before Run they wait for it.
type Registry struct {
	opt     Options
	key     []byte // keys the fingerprints of secret values; never stored
	threads sync.Map
	started chan struct{}

	mu       sync.Mutex // of what follows; held for a moment only
	run      context.Context
	stopping bool
	wg       sync.WaitGroup
	watchers map[schemas.ThreadID]map[chan struct{}]struct{}

	taps taps
}

// New checks the options and returns a Registry that works once Run was called.
func New(opt Options) (*Registry, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	return &Registry{
		opt: opt, key: newKey(), started: make(chan struct{}),
		watchers: map[schemas.ThreadID]map[chan struct{}]struct{}{},
	}, nil
}

// Run owns every thread and server until ctx ends; then calls in flight get the drain time, and when it returns no
// process and no goroutine is left. It is called once.
func (r *Registry) Run(ctx context.Context) error {
	r.mu.Lock()
	r.run = ctx
	r.mu.Unlock()
	close(r.started)
	<-ctx.Done()
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// live gives the thread's owner and makes it live on first use.
func (r *Registry) live(ctx context.Context, id schemas.ThreadID) (*thread, error) {
	if t, ok := r.threads.Load(id); ok {
		return t.(*thread), nil
	}
	if !id.Valid() {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "this is not a thread id"}
	}
	select {
	case <-r.started:
	case <-ctx.Done():
		return nil, gaveUp(ctx.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok := r.threads.Load(id); ok {
		return t.(*thread), nil
	}
	if r.stopping || r.run.Err() != nil {
		return nil, &schemas.Error{Code: schemas.CodeNotReady, Text: "bobbin is shutting down; the call did not run"}
	}
	t := newThread(r, id)
	r.threads.Store(id, t)
	r.wg.Go(func() { t.own(r.run) })
	return t, nil
}

// drop forgets a thread whose owner ends.
func (r *Registry) drop(t *thread) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.threads.CompareAndDelete(t.id, t)
}

// view gives the present snapshot of a thread, loaded at least once.
func (r *Registry) view(ctx context.Context, id schemas.ThreadID) (*thread, *snapshot, error) {
	for range 3 {
		t, err := r.live(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		t.used.Store(time.Now().UnixNano())
		if s := t.snap.Load(); s != nil {
			return t, s, nil
		}
		select {
		case <-t.loaded:
			if s := t.snap.Load(); s != nil {
				return t, s, nil
			}
			return nil, nil, t.loadErr
		case <-t.done:
		case <-ctx.Done():
			return nil, nil, gaveUp(ctx.Err())
		}
	}
	return nil, nil, &schemas.Error{Code: schemas.CodeNotReady, Text: "the thread's servers are not ready"}
}

// Apply reconciles the thread with its configuration now. It returns when every server that had to start or be
// replaced is ready or failed, or ctx ended; a server's failure is in Status, not in the error.
func (r *Registry) Apply(ctx context.Context, id schemas.ThreadID) error {
	reply := make(chan reloaded, 1)
	return r.settle(ctx, id, reloadEvent{reply: reply}, reply)
}

// settle posts an event and waits until what it started is ready or failed, or ctx ends.
func (r *Registry) settle(ctx context.Context, id schemas.ThreadID, e event, reply <-chan reloaded) error {
	t, err := r.post(ctx, id, e)
	if err != nil {
		return err
	}
	got, err := receive(ctx, t, reply)
	if err != nil {
		return err
	}
	if got.err != nil {
		return got.err
	}
	return t.settled(ctx, got.started)
}

// Poke is Apply in the background for a live thread; it never blocks, and pokes in a burst are one reload.
func (r *Registry) Poke(id schemas.ThreadID) {
	if t, ok := r.threads.Load(id); ok {
		select {
		case t.(*thread).poke <- struct{}{}:
		default:
		}
	}
}

// Status describes the thread's servers in load order. It makes the thread live and starts nothing.
func (r *Registry) Status(ctx context.Context, id schemas.ThreadID) ([]schemas.Status, error) {
	_, s, err := r.view(ctx, id)
	if err != nil {
		return nil, err
	}
	list, now := make([]schemas.Status, len(s.servers)), r.opt.Now()
	for i, v := range s.servers {
		list[i] = v.present(now)
	}
	return list, nil
}

// Tools lists the usable tools of the thread in load order, from running servers or the cache, and starts servers whose
// tools are unknown. A server that does not become ready in time is left out and announced by Watch later. Tools that
// the member's own allow list leaves out are not in it, nor are held ones. The slice is shared: do not change it.
func (r *Registry) Tools(ctx context.Context, c schemas.Caller) ([]schemas.Tool, error) {
	t, s, err := r.view(ctx, c.Thread)
	if err != nil {
		return nil, err
	}
	if s.unknown {
		t.discover(ctx, s)
		if s = t.snap.Load(); s == nil {
			return nil, t.loadErr
		}
	}
	if slices.ContainsFunc(s.servers, func(v *view) bool { return v.unsigned }) {
		t.discoverAs(ctx, s, c)
		s = t.snap.Load()
	}
	return s.visible(c.Member, r.opt.Now()), nil
}

// Restart stops a server, forgets its failures and starts it anew; it returns when it is ready or failed or ctx ended.
func (r *Registry) Restart(ctx context.Context, id schemas.ThreadID, server string) error {
	reply := make(chan reloaded, 1)
	return r.settle(ctx, id, restartEvent{server: server, reply: reply}, reply)
}

// Watch gives a tick, never more than one waiting, whenever a status or tool list of the thread changed. stop ends it.
func (r *Registry) Watch(id schemas.ThreadID) (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers[id] == nil {
		r.watchers[id] = map[chan struct{}]struct{}{}
	}
	r.watchers[id][c] = struct{}{}
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers[id], c)
		if len(r.watchers[id]) == 0 {
			delete(r.watchers, id)
		}
	}
}

func (r *Registry) tick(id schemas.ThreadID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.watchers[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// post hands an event to the thread's owner, also when the owner just ended.
func (r *Registry) post(ctx context.Context, id schemas.ThreadID, e event) (*thread, error) {
	for {
		t, err := r.live(ctx, id)
		if err != nil {
			return nil, err
		}
		t.used.Store(time.Now().UnixNano())
		select {
		case t.mail <- e:
			return t, nil
		case <-t.done:
		case <-ctx.Done():
			return nil, gaveUp(ctx.Err())
		}
	}
}

// receive waits for the owner's reply to a posted event.
func receive[T any](ctx context.Context, t *thread, reply <-chan T) (T, error) {
	var zero T
	select {
	case v := <-reply:
		return v, nil
	case <-t.done:
		select {
		case v := <-reply:
			return v, nil
		default:
			if t.loadErr != nil {
				return zero, t.loadErr
			}
			return zero, &schemas.Error{Code: schemas.CodeNotReady, Text: "the thread's servers are shutting down"}
		}
	case <-ctx.Done():
		return zero, gaveUp(ctx.Err())
	}
}

func gaveUp(err error) *schemas.Error {
	return &schemas.Error{Code: schemas.CodeNotReady, Text: "waited too long for the thread's servers", Err: err}
}
