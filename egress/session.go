package egress

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// session is one sandbox while it is served.
type session struct {
	p       *Proxy
	who     Who
	life    context.Context // of Serve
	forward *httputil.ReverseProxy
	work    sync.WaitGroup // requests and questions; requests are added under mu

	noting sync.Mutex // one record at a time, so that nobody overtakes the one that allows

	mu        sync.Mutex
	stopped   bool
	questions map[question]*pending
	waiting   int // requests, over all questions
	answers   map[question]answered
	known     map[string]bool // verdicts that were written down
	minute    time.Time       // when fresh began to count
	fresh     int
}

func newSession(life context.Context, p *Proxy, who Who) *session {
	s := &session{life: life, p: p, who: who, questions: map[question]*pending{}, answers: map[question]answered{}, known: map[string]bool{}}
	s.forward = s.forwarder()
	return s
}

// stop lets no further request begin.
func (s *session) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
}

func (s *session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.work.Add(1)
	}
	return !s.stopped
}

// ServeHTTP is a proxy's: CONNECT, and absolute-form requests for http (RFC 9110, section 9.3.6; RFC 9112, section 3.2.2).
// Nothing but the request's target says where it goes; its Host field counts for nothing.
func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		panic(http.ErrAbortHandler)
	}
	defer s.work.Done()
	host, port, err := target(r)
	if err != nil {
		s.refuse(w, &refusal{http.StatusBadRequest, words(err)})
		return
	}
	c := s.who(label(r))
	c.Host, c.Port = host, port
	switch no := s.decide(r.Context(), c); {
	case no != nil:
		s.refuse(w, no)
	case r.Method == http.MethodConnect:
		s.tunnel(w, r, c)
	default:
		s.forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contactKey{}, c)))
	}
}

// contactKey carries what was decided to where the connection is made, which happens inside net/http.
type contactKey struct{}

func target(r *http.Request) (host string, port int, err error) {
	if r.Method == http.MethodConnect {
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			return "", 0, &safehttp.URLError{Problem: "CONNECT has no body", Hint: "send what follows once the tunnel stands"}
		}
		return safehttp.Target(r.RequestURI)
	}
	u := r.URL
	if u.Scheme != "http" || u.Host == "" || u.Opaque != "" || u.User != nil {
		return "", 0, &safehttp.URLError{Problem: "this is a proxy", Hint: "send CONNECT host:port, or GET http://host/path"}
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	return safehttp.Target(address)
}

func words(err error) string {
	if e, ok := errors.AsType[*safehttp.URLError](err); ok {
		return e.Problem + "; " + e.Hint
	}
	return "that target cannot be read"
}

// label is the user name that a program was given with the proxy's address.
func label(r *http.Request) string {
	enc, ok := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), "Basic ")
	if !ok || len(enc) > 512 {
		return ""
	}
	raw, err := base64.StdEncoding.DecodeString(enc)
	name, _, _ := strings.Cut(string(raw), ":")
	if err != nil || !schemas.MemberID(name).Valid() { // the same plain form as an id's
		return ""
	}
	return name
}

// refusal is an answer that programs print.
type refusal struct {
	status int
	text   string
}

func (s *session) refuse(w http.ResponseWriter, no *refusal) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(no.status)
	_, _ = fmt.Fprintf(w, "egress: %s\n", no.text)
}

// address is how a host and port are written for people: the web's own port is left out.
func address(c schemas.Contact) string {
	if c.Port == 443 || c.Port == 80 {
		return c.Host
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
}

func hostPort(c schemas.Contact) string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// decide gives nil when the host may be reached and that is written down.
func (s *session) decide(ctx context.Context, c schemas.Contact) *refusal {
	v, err := s.p.verdict(ctx, c)
	if err != nil {
		s.p.opt.Log.Error("egress rules cannot be read", "thread", c.Thread, "err", err)
		return &refusal{http.StatusServiceUnavailable, "the rules of the thread cannot be read, so nothing is reached"}
	}
	if v.verb == schemas.AskVerb {
		v = s.asked(ctx, c)
	}
	return s.note(ctx, c, v)
}

// verdict is what rules say, and why, in words for people.
type verdict struct {
	verb schemas.Verb
	why  string
	hint string
}

// verdict looks at the lists: a denial of the operator or the thread, then what either allows, then what is being installed,
// then what the thread asks about, then the default.
func (p *Proxy) verdict(ctx context.Context, c schemas.Contact) (verdict, error) {
	var rules *schemas.EgressRules
	if c.Thread != "" {
		var err error
		if rules, err = p.opt.Rules(ctx, c.Thread); err != nil {
			return verdict{}, err
		}
	}
	operator, _ := p.operator.Decide(c.Host, c.Port)
	thread, _ := rules.Decide(c.Host, c.Port)
	switch {
	case operator == schemas.Deny:
		return verdict{schemas.Deny, "the operator denies it", ""}, nil
	case thread == schemas.Deny:
		return verdict{schemas.Deny, "a rule of this thread denies it", "/mcp policy show lists the rules"}, nil
	case operator == schemas.Allow:
		return verdict{schemas.Allow, "the operator allows it", ""}, nil
	case thread == schemas.Allow:
		return verdict{schemas.Allow, "a rule of this thread allows it", ""}, nil
	case c.Install && p.registry(c):
		return verdict{schemas.Allow, "something is being installed", ""}, nil
	case thread == schemas.AskVerb:
		return verdict{schemas.AskVerb, "a rule of this thread says ask", allow(c)}, nil
	}
	return verdict{p.opt.Default, "by default", allow(c)}, nil
}

func (p *Proxy) registry(c schemas.Contact) bool {
	if p.opt.Registries == nil {
		return p.opt.Default != schemas.Deny
	}
	for _, r := range p.opt.Registries {
		if schemas.MatchHost(r, c.Host, c.Port) {
			return true
		}
	}
	return false
}

func allow(c schemas.Contact) string {
	return "a manager of the thread can run /mcp policy allow host:" + address(c)
}

// note writes the first verdict of its kind about a host down, and lets nothing pass that cannot be.
func (s *session) note(ctx context.Context, c schemas.Contact, v verdict) *refusal {
	key := fmt.Sprint(v.verb, " ", hostPort(c), " ", c.Server, " ", c.Thread)
	if !s.isKnown(key) {
		s.noting.Lock()
		no := s.write(ctx, c, v, key)
		s.noting.Unlock()
		if no != nil {
			return no
		}
	}
	if v.verb == schemas.Allow {
		return nil
	}
	text := address(c) + " is not reached: " + v.why
	if v.hint != "" {
		text += "; " + v.hint
	}
	return &refusal{http.StatusForbidden, text}
}

func (s *session) isKnown(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key]
}

func (s *session) write(ctx context.Context, c schemas.Contact, v verdict, key string) *refusal {
	s.mu.Lock()
	now := s.p.opt.Now()
	if now.Sub(s.minute) >= time.Minute {
		s.minute, s.fresh = now, 0
	}
	known, flood := s.known[key], s.fresh >= maxPerMin
	if !known && !flood {
		s.fresh++
	}
	s.mu.Unlock()
	switch {
	case known:
		return nil
	case flood:
		return &refusal{http.StatusTooManyRequests, fmt.Sprintf("this sandbox tried more than %d new hosts within a minute; try again in a minute", maxPerMin)}
	}
	outcome := schemas.OutcomeRefused
	if v.verb == schemas.Allow {
		outcome = schemas.OutcomeOK
	}
	err := s.p.opt.Record(ctx, schemas.Record{At: now, Thread: c.Thread, Member: c.Member, Server: c.Server, Event: schemas.EventEgress,
		Outcome: outcome, Detail: hostPort(c) + " · " + v.why})
	if err != nil {
		s.p.opt.Log.Error("audit record of egress lost", "thread", c.Thread, "err", err)
		return &refusal{http.StatusServiceUnavailable, "the audit log cannot be written, so nothing is reached"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[key] = true
	return nil
}
