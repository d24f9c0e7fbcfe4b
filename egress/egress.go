// Package egress is the bot's end of each sandbox's way out. A sandbox has no network; what runs inside asks an HTTP proxy
// for a host, and that proxy passes the request over a socket to here, where rules, people and the resolved address decide.
package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// Options are the dependencies of a Proxy and the operator's settings.
type Options struct {
	// Rules gives a thread's lists, nil for none. Required; called for every request, concurrently.
	Rules func(context.Context, schemas.ThreadID) (*schemas.EgressRules, error)
	// Ask puts a question to the member; its errors refuse. Called for one host and port of a sandbox at a time, for at most a
	// minute. nil = nobody can be asked, which refuses.
	Ask func(context.Context, schemas.Contact) (schemas.Answer, error)
	// Record writes to the audit log. Required; a host that cannot be written down is not reached.
	Record func(context.Context, schemas.Record) error

	// Default is for hosts that no list covers; "" = schemas.Allow.
	Default schemas.Verb
	// Allow and Deny are the operator's lists, of entries as those of schemas.EgressRules.
	Allow, Deny []string
	// Registries are the hosts that an installation reaches without a further question: its card was the yes.
	// nil = any, unless the default is schemas.Deny.
	Registries []string

	// Guard adjusts which addresses are open, and the resolver.
	Guard safehttp.Options
	// Dial replaces the guarded dialer, in tests. Whoever sets it does the guarding.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Upstream is the operator's proxy, http:// or https://, that everything goes through. It looks names up once more and has
	// to refuse its own network itself: a name that this machine cannot resolve is left to it.
	Upstream *url.URL
	// CA signs the certificate of an https upstream; nil = the system's. Tunnels are never opened.
	CA *x509.CertPool

	Log *slog.Logger     // nil = discard
	Now func() time.Time // nil = time.Now
}

// Limits of one sandbox.
const (
	maxConns    = 256             // connections at once
	maxNew      = 500             // new connections a second
	idleTimeout = 5 * time.Minute // without a byte in either direction
	headTimeout = 10 * time.Second
	maxHead     = 32 << 10
	dialTimeout = 20 * time.Second

	askTimeout = time.Minute
	maxWaiting = 20 // requests that wait for a person

	onceFor   = time.Minute // how long a yes for once lets new connections through
	silentFor = time.Minute // how long a question that nobody answered is not put again

	maxKnown  = 4096 // hosts whose verdict was written down; then it starts anew
	maxPerMin = 120  // new hosts a minute, so that no flood reaches the audit log
)

// Who says for whom a request is: thread, member, server, and whether something is being installed. label is what the request
// claims about its server, by the user name of Proxy-Authorization; it comes from inside the sandbox and must decide about
// nothing but which of the sandbox's own servers is meant. Called for every request, concurrently.
type Who = func(label string) schemas.Contact

// Proxy serves sandboxes. It is safe for concurrent use.
type Proxy struct {
	opt      Options
	operator *schemas.EgressRules
	check    func(ctx context.Context, address string) error
}

// New makes a Proxy. It fails for missing dependencies and for entries that are no hosts.
func New(opt Options) (*Proxy, error) {
	if opt.Rules == nil || opt.Record == nil {
		return nil, errors.New("egress: Rules and Record are required")
	}
	for _, list := range [][]string{opt.Allow, opt.Deny, opt.Registries} {
		for _, p := range list {
			if !schemas.ValidHost(p) {
				return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: fmt.Sprintf("%.100q is no host", p),
					Hint: "write api.example.com, *.example.com or api.example.com:8443"}
			}
		}
	}
	switch opt.Default {
	case "":
		opt.Default = schemas.Allow
	case schemas.Allow, schemas.AskVerb, schemas.Deny:
	default:
		return nil, fmt.Errorf("egress: no default %q", opt.Default)
	}
	if u := opt.Upstream; u != nil && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the upstream proxy is no http:// or https:// address"}
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	guard := safehttp.NewGuard(opt.Guard)
	if opt.Dial == nil {
		opt.Dial = guard.DialContext
	}
	return &Proxy{opt: opt, operator: &schemas.EgressRules{Allow: opt.Allow, Deny: opt.Deny}, check: guard.Check}, nil
}

// Serve answers one sandbox's requests until ctx ends, and then closes the listener and every connection and waits for all
// that it started. It keeps what a member answered for as long. An error means that the listener broke.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, who Who) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newSession(ctx, p, who)
	ln := &listener{Listener: l, open: map[*conn]struct{}{}}
	srv := &http.Server{
		Handler:                      s,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout:            headTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHead,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // it would quote what a sandbox sent
	}
	end := func() {
		s.stop()
		_ = srv.Close()
		ln.end()
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(done); end() })
	err := srv.Serve(ln)
	ended := ctx.Err() != nil
	if cancel(); stop() {
		end()
	} else {
		<-done
	}
	s.work.Wait()
	p.opt.Log.Info("egress of a sandbox ended", "out", ln.out.Load(), "in", ln.in.Load())
	if ended {
		return nil
	}
	return fmt.Errorf("egress: %w", err)
}
