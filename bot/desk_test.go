package bot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"bobbin/bot"
	"bobbin/schemas"
)

// proofCode is what the fake page ends with; no reply, record or log may hold it.
const proofCode = "K7PQ-2XMR"

// linear is a remote server that wants a sign-in.
const linear = "https://mcp.linear.example/mcp"

// desk is everything about connectors in memory: the remote server, its authorization server, the sign-ins and the loans. It is
// strict about who may end which link.
type desk struct {
	w *world

	mu      sync.Mutex
	wants   string // what the server lets nobody in without: "", "key", "oauth"
	noOAuth bool   // it names no way to sign in
	issuer  string
	device  bool
	proof   schemas.Proof
	speaks  map[bool]schemas.Transport // by whether the caller is signed in; "" = as asked
	probe   schemas.Probe
	fail    map[string]error

	probed, offered int
	links           map[string]*page
	n               int
	signed          map[string]schemas.Server // by member and fingerprint
	out             []string                  // who was signed out of what, in order
	old             []string                  // definitions whose predecessors' sign-ins were ended
	revoked         []string
	lends           []string
}

// page is a link as the browser sees it.
type page struct {
	in    schemas.SignIn
	done  bool
	tries int
}

func connectors(t *testing.T, change ...func(*bot.Options)) (*world, *desk) {
	t.Helper()
	d := &desk{wants: "oauth", issuer: "https://auth.linear.example", proof: schemas.ProofCode, fail: map[string]error{}, links: map[string]*page{}, signed: map[string]schemas.Server{}}
	d.probe = schemas.Probe{Name: "linear", Title: "Linear\u202e", Version: "1.2", Protocol: "2025-11-25", Tokens: 6412, Writing: 12, Prompts: true, Instructions: "be nice"}
	for i := range 31 {
		d.probe.Tools = append(d.probe.Tools, schemas.Tool{Name: fmt.Sprintf("tool_%02d", i), Description: "Does it. And more."})
	}
	w := newWorld(t, append([]func(*bot.Options){func(o *bot.Options) {
		o.Probe, o.SignIns, o.Accounts, o.Revoke, o.Loans = d, d, d, d, d
	}}, change...)...)
	d.w = w
	return w, d
}

// listed adds an approved connector of alice's that everybody signs in to for themselves.
func (d *desk) listed(tools ...schemas.Tool) schemas.Server {
	s := schemas.Server{Name: "linear", Type: schemas.HTTP, URL: linear, Auth: &schemas.Auth{Type: "oauth", Identity: "requester"}}
	d.w.have("alice", s, tools...)
	s.Type = schemas.HTTP
	e := &d.w.cfg.Entries[len(d.w.cfg.Entries)-1]
	e.Server, e.Kind, e.Approval.Definition, e.Approval.Fingerprint = s, schemas.Connector, s, s.Fingerprint()
	return s
}

func key(m schemas.MemberID, s schemas.Server) string { return string(m) + " " + s.Fingerprint() }

func (d *desk) enter(m schemas.MemberID, s schemas.Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.signed[key(m, s)] = s
}

func (d *desk) Probe(_ context.Context, c schemas.Caller, s schemas.Server, values map[string]schemas.Secret) (schemas.Probe, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probed++
	if err := d.fail["Probe"]; err != nil {
		return schemas.Probe{}, err
	}
	_, signed := d.signed[key(c.Member, s)]
	switch {
	case d.wants == "oauth" && !(s.Auth.Type == "oauth" && signed):
		return schemas.Probe{}, &schemas.Error{Code: schemas.CodeNeeds, Text: "linear wants a sign-in"}
	case d.wants == "key" && (s.Auth.Type != "header" || values["LINEAR_KEY"].Reveal() != canary):
		return schemas.Probe{}, &schemas.Error{Code: schemas.CodeNeeds, Text: "linear wants a key"}
	}
	p := d.probe
	if p.Transport = s.Type; d.speaks[signed] != "" {
		p.Transport = d.speaks[signed]
	}
	return p, nil
}

func (d *desk) Offer(_ context.Context, _ schemas.Caller, s schemas.Server) (schemas.Offer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offered++
	if d.probed == 0 || s.Auth.Type != "oauth" || len(s.Headers) > 0 {
		d.w.t.Errorf("an offer was asked for %+v, before the host was", s)
	}
	if d.noOAuth {
		return schemas.Offer{}, &schemas.Error{Code: schemas.CodeMissing, Text: "names no way"}
	}
	return schemas.Offer{Issuer: d.issuer, Scopes: []string{"read", "write\u202e"}, Device: d.device}, d.fail["Offer"]
}

func (d *desk) Link(_ context.Context, in schemas.SignIn) (schemas.Link, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fail["Link"]; err != nil {
		return schemas.Link{}, err
	}
	d.n++
	id := fmt.Sprintf("link%d", d.n)
	d.links[id] = &page{in: in}
	l := schemas.Link{ID: id, URL: "https://bot.example/connect/" + id, Proof: d.proof, Offer: schemas.Offer{Issuer: d.issuer, Scopes: []string{"read"}, Device: d.device}, Expires: d.w.now.Add(600e9)}
	if in.Device {
		l.URL, l.Code, l.Proof = d.issuer+"/device", "WDJB-MJHT", ""
	}
	return l, nil
}

// browser ends the newest link in a browser, as the authorization server's page does.
func (d *desk) browser() {
	d.mu.Lock()
	id := fmt.Sprintf("link%d", d.n)
	p := d.links[id]
	p.done = true
	told := d.proof != schemas.ProofCode && !p.in.Device
	if told {
		d.signed[key(p.in.Caller.Member, p.in.Server)] = p.in.Server
	}
	d.mu.Unlock()
	if told {
		d.w.bot.SignedIn(d.w.t.Context(), p.in.Caller.Thread, p.in.Caller.Member, id)
	}
}

func (d *desk) Finish(_ context.Context, by schemas.Caller, id, code string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.links[id]
	over := &schemas.Error{Code: schemas.CodeExpired, Text: "this sign-in is over", Hint: "`/mcp connect` begins a new one"}
	switch {
	case p == nil || p.in.Caller.Thread != by.Thread || p.in.Caller.Member != by.Member:
		if p != nil {
			d.w.t.Errorf("%s ends the link of %s", by.Member, p.in.Caller.Member)
		}
		return over
	case !p.done:
		return &schemas.Error{Code: schemas.CodeNeeds, Text: "the sign-in is not done in the browser yet"}
	case d.proof == schemas.ProofCode && !p.in.Device && code != proofCode:
		if p.tries++; p.tries == 3 {
			delete(d.links, id)
			return &schemas.Error{Code: schemas.CodeExpired, Text: "that was the wrong code for the third time, so the sign-in was dropped"}
		}
		return &schemas.Error{Code: schemas.CodeInvalid, Text: fmt.Sprintf("that is not the code; %d tries are left", 3-p.tries)}
	}
	delete(d.links, id)
	d.signed[key(by.Member, p.in.Server)] = p.in.Server
	return d.fail["Finish"]
}

func (d *desk) Signed(_ context.Context, _ schemas.ThreadID, m schemas.MemberID, s schemas.Server) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.signed[key(m, s)]
	return ok
}

func (d *desk) SignOut(_ context.Context, _ schemas.ThreadID, m schemas.MemberID, s schemas.Server) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out = append(d.out, string(m)+" "+s.Name)
	for k, other := range d.signed {
		if strings.HasPrefix(k, string(m)+" ") && other.Name == s.Name {
			delete(d.signed, k)
		}
	}
	return d.fail["SignOut"]
}

func (d *desk) Leave(_ context.Context, _ schemas.ThreadID, m schemas.MemberID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.signed {
		if strings.HasPrefix(k, string(m)+" ") {
			delete(d.signed, k)
		}
	}
	return d.fail["Leave"]
}

func (d *desk) SignOutOld(_ context.Context, _ schemas.ThreadID, now schemas.Server) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.old = append(d.old, now.Name+" "+now.URL)
	return nil
}

func (d *desk) SignOutAll(_ context.Context, _ schemas.ThreadID, server string) error {
	if len(d.w.forgot) > 0 {
		d.w.t.Error("the vault forgot before the sign-ins were revoked")
	}
	d.revoked = append(d.revoked, server)
	return d.fail["SignOutAll"]
}

func (d *desk) Lend(_ context.Context, c schemas.Caller, server string, l *schemas.Loan) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	i := slices.IndexFunc(d.w.cfg.Entries, func(e schemas.Entry) bool { return e.Name == server })
	if l != nil && l.Member != c.Member {
		d.w.t.Errorf("%s lends the sign-in of %s", c.Member, l.Member)
	}
	d.w.cfg.Entries[i].Loan = l
	d.lends = append(d.lends, fmt.Sprint(c.Member, " ", l != nil))
	return d.fail["Lend"]
}

func (d *desk) Detach(_ context.Context, _ schemas.ThreadID, m schemas.MemberID) (names []string, err error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	for i, e := range d.w.cfg.Entries {
		if e.Loan != nil && e.Loan.Member == m {
			d.w.cfg.Entries[i].Loan, names = nil, append(names, e.Name)
		}
	}
	return names, d.fail["Detach"]
}

// open is the page that a reply offers.
func open(r bot.Reply) (o bot.Open) {
	for _, b := range r.Blocks {
		if b.Open != nil {
			o = *b.Open
		}
	}
	return o
}

// counts is how many sign-ins there are, and how many were ended.
func (d *desk) counts() (signed, out int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.signed), len(d.out)
}
