package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// tools is the thread's: what is listed, and the one path of a call. Both are used concurrently.
type tools interface {
	Tools(context.Context, schemas.Caller) ([]schemas.Tool, error)
	Call(context.Context, schemas.Call) (schemas.Result, error)
}

// resources reads what the thread's servers offer besides tools.
type resources interface {
	Resources(context.Context, schemas.Caller) ([]schemas.Resource, error)
	ReadResource(ctx context.Context, caller schemas.Caller, server, uri string) (schemas.Result, error)
	// Follow ticks when a resource was updated, until stop. CodeMissing: its server never says so.
	Follow(ctx context.Context, caller schemas.Caller, server, uri string) (updates <-chan struct{}, stop func(), err error)
}

// prompts lists and fills the servers' prompts, and completes arguments.
type prompts interface {
	Prompts(context.Context, schemas.Caller) ([]schemas.Prompt, error)
	Fill(ctx context.Context, in schemas.Call, server, name string, args map[string]string) (schemas.Result, error)
	Complete(context.Context, schemas.Caller, schemas.Completion) (schemas.Result, error)
}

// states says which servers a thread has; it starts none.
type states interface {
	Status(context.Context, schemas.ThreadID) ([]schemas.Status, error)
}

// Options of New. The first five fields are required.
type Options struct {
	Tools     tools
	Resources resources
	Prompts   prompts
	States    states
	Tokens    *durable.Dir // data/gateway
	// Watch ticks, never more than one waiting, when a thread's servers or tools changed; stop ends it. nil: clients hear of no change.
	Watch func(schemas.ThreadID) (changes <-chan struct{}, stop func())
	// Standing says what a member may do in a thread now, false for who is not in it; it is asked for each request, and must be quick
	// nearly always. nil: nobody leaves, and all are members.
	Standing func(context.Context, schemas.ThreadID, schemas.MemberID) (schemas.Role, bool)

	// Origin is where clients reach Handler, such as https://bot.example.com; "" or nil: nowhere, and only stdio is served. It is a
	// function because a listener may be made after the Gateway.
	Origin func() string
	// Hosts are further host:port values to answer to. Loopback names are always allowed, and what Origin names.
	Hosts []string
	// Program is how a client on this machine starts bobbin, with the flags that find this data folder: {"/usr/bin/bobbin", "--data", "/srv/data"}.
	Program []string

	Page     int           // entries of one page of a list; 250
	Sessions int           // of clients before 2026-07-28, at once; the longest unused one goes first, of a token that has a quarter of them its own; 2,048
	Streams  int           // that stand open at once, and resources that are followed; 1,024 each; a quarter of them with one token
	Calls    int           // requests at once; 1,024; a quarter of them with one token
	Quiet    time.Duration // between signs of life on a silent stream; 25 s
	Patience time.Duration // for a client to answer a server's question; 10 min

	Version string
	Now     func() time.Time
	Log     *slog.Logger
}

// Gateway serves MCP clients. All methods may be called concurrently; requests are answered while Run runs.
type Gateway struct {
	opt    Options
	tokens *tokens

	mu       sync.Mutex
	life     context.Context // nil while Run does not run
	ready    chan struct{}   // closed when it does
	sessions map[string]*session
	dead     map[string]time.Time // ids of sessions that were ended, until they would have been forgotten anyway
	under    map[*exchange]struct{}
	streams  map[*stream]struct{}
	shares   map[share]int
	parked   map[string]*parked
	follows  int          // of resources
	kept     atomic.Int64 // bytes of trails
	wg       sync.WaitGroup

	frames        sync.Pool // *[]byte
	seenResources recent[located]
	seenPrompts   recent[prompted]
}

// New checks the options. It panics when a dependency is missing, since that is a mistake in the wiring.
func New(opt Options) *Gateway {
	if opt.Tools == nil || opt.Resources == nil || opt.Prompts == nil || opt.States == nil || opt.Tokens == nil {
		panic("gateway: Tools, Resources, Prompts, States and Tokens are required")
	}
	preset(&opt.Page, 250)
	preset(&opt.Sessions, 2048)
	preset(&opt.Streams, 1024)
	preset(&opt.Calls, 1024)
	preset(&opt.Quiet, 25*time.Second)
	preset(&opt.Patience, 10*time.Minute)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Gateway{
		frames: sync.Pool{New: func() any { return new([]byte) }},
		opt:    opt, tokens: &tokens{dir: opt.Tokens, now: opt.Now, used: map[string]time.Time{}},
		ready: make(chan struct{}), sessions: map[string]*session{}, dead: map[string]time.Time{}, under: map[*exchange]struct{}{}, streams: map[*stream]struct{}{}, shares: map[share]int{}, parked: map[string]*parked{},
	}
}

func preset[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Run lets the gateway answer until ctx ends; when it returns nothing of it is under way. It is called once.
func (g *Gateway) Run(ctx context.Context) error {
	g.mu.Lock()
	if g.life != nil {
		g.mu.Unlock()
		return errors.New("gateway: Run was called twice")
	}
	g.life = ctx
	close(g.ready)
	g.mu.Unlock()
	tick := time.NewTicker(usedEvery / 2)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			g.forgetTrails()
			if err := g.tokens.note(ctx); err != nil && ctx.Err() == nil {
				g.opt.Log.Warn("when tokens were used last cannot be written", "err", err)
			}
		}
	}
	g.end(func(*identity) bool { return true })
	g.wg.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
	defer cancel()
	return errors.Join(ctx.Err(), g.tokens.note(last))
}

// Ready waits until Run runs.
func (g *Gateway) Ready(ctx context.Context) error {
	select {
	case <-g.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// running gives the context that ends with Run, nil outside of it, and counts what runs until done.
func (g *Gateway) running() (life context.Context, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life == nil || g.life.Err() != nil {
		return nil, nil
	}
	g.wg.Add(1)
	return g.life, g.wg.Done
}

// share is what a token has under way: of calls, or of streams.
type share struct{ kind, token string }

// claim counts what Run waits for, a token's up to a quarter of what all have together; the lock is held.
func (g *Gateway) claim(kind, token string, all, most int) bool {
	mine := share{kind, token}
	if g.life == nil || g.life.Err() != nil || all >= most || g.shares[mine] >= max(most/4, 1) {
		return false
	}
	g.shares[mine]++
	g.wg.Add(1)
	return true
}

// unclaim takes that back, but for Run's wait; the lock is held.
func (g *Gateway) unclaim(kind, token string) {
	mine := share{kind, token}
	if g.shares[mine]--; g.shares[mine] <= 0 {
		delete(g.shares, mine)
	}
}

// end breaks off everything of the clients that match.
func (g *Gateway) end(match func(*identity) bool) {
	var stop []func()
	g.mu.Lock()
	for x := range g.under {
		if match(&x.identity) {
			stop = append(stop, x.cancel)
		}
	}
	for s := range g.streams {
		if match(&s.identity) {
			stop = append(stop, s.close)
		}
	}
	for id, n := range g.sessions {
		if match(&n.identity) {
			delete(g.sessions, id)
			stop = append(stop, n.close)
		}
	}
	for state, p := range g.parked {
		if match(&p.identity) {
			delete(g.parked, state)
			stop = append(stop, p.cancel)
		}
	}
	g.mu.Unlock()
	for _, fn := range stop {
		fn()
	}
}

// URL is where a client finds a thread: here, or at another bobbin that serves the same data folder; "" when nothing serves it over HTTP.
func (g *Gateway) URL(thread schemas.ThreadID) string {
	origin := ""
	if g.opt.Origin != nil {
		origin = g.opt.Origin()
	}
	if origin == "" {
		origin = announced(g.opt.Tokens)
	}
	if origin == "" {
		return ""
	}
	return origin + "/gateway/" + url.PathEscape(string(thread)) + "/mcp"
}

// Command is how a client on this machine starts the gateway of a thread over stdio, as that member; nil when it is not known.
func (g *Gateway) Command(thread schemas.ThreadID, member schemas.MemberID) []string {
	if len(g.opt.Program) == 0 {
		return nil
	}
	return append(append([]string(nil), g.opt.Program...), "gateway", "--stdio", "--thread", string(thread), "--user", string(member))
}

// identity is who a client is: of which thread it uses what, as whom.
type identity struct {
	token  string // its id; "" over stdio
	caller schemas.Caller
	server string // the only one that it sees, by its tools' own names; "" = all, by their names for models
}

// local reports whether a client is a program that has the data folder's key: who it comes from has the right to everything anyway.
func (who identity) local() bool { return who.token == "" || strings.HasPrefix(who.token, localID) }

// may is nil while the member is one that may use tools, whatever they were when the token was made.
func (g *Gateway) may(ctx context.Context, who *identity) error {
	if g.opt.Standing == nil || who.local() {
		return nil
	}
	switch role, here := g.opt.Standing(ctx, who.caller.Thread, who.caller.Member); {
	case !here:
		return errToken
	case role < schemas.Member:
		return errGuest
	}
	return nil
}

// enter checks who a request is from; the answer to those who may not is written.
func (g *Gateway) enter(w http.ResponseWriter, r *http.Request) (identity, bool) {
	thread, server := schemas.ThreadID(r.PathValue("thread")), r.PathValue("server")
	secret, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t, err := token{}, errToken
	if bearer && thread.Valid() {
		t, err = g.tokens.opens(r.Context(), thread, strings.TrimSpace(secret))
	}
	who := identity{token: t.ID, server: server, caller: schemas.Caller{Thread: t.Thread, Member: t.Member, Name: t.Person, Door: schemas.DoorGateway, Role: schemas.Member}}
	if err == nil {
		err = g.may(r.Context(), &who)
	}
	switch {
	case err == nil:
		return who, true
	case errors.Is(err, errGuest):
		refuse(w, http.StatusForbidden, nil, codeServer, "the member whose token this is has become a guest of the thread; guests may look there, not use tools")
	case errors.Is(err, errToken):
		challenge := `Bearer realm="bobbin"`
		if r.Header.Get("Authorization") != "" {
			challenge += `, error="invalid_token"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
		refuse(w, http.StatusUnauthorized, nil, codeServer, "a token is needed that opens this thread; a member of it makes one with /mcp gateway token")
	default:
		g.opt.Log.Error("the gateway's tokens cannot be checked", "err", err)
		refuse(w, http.StatusServiceUnavailable, nil, codeServer, "tokens cannot be checked just now")
	}
	return identity{}, false
}
