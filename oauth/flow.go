package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"bobbin/schemas"
)

const (
	maxFlows  = 10_000
	maxTries  = 3               // of a code
	codeLife  = 5 * time.Minute // in which the code must be typed
	startTime = 40 * time.Second
)

// stage of a flow.
type stage int

const (
	begun    stage = iota // the link was given
	sent                  // the browser went to the authorization server
	back                  // it came back, and the code is exchanged
	granted               // a token waits for the member's code
	storing               // the code was right
	finished              // the token is in the vault
	failed                // it will not come
)

// flow is one sign-in on its way. It lives in memory only: after a restart the member begins anew. All fields below mu are the
// SignIns' own lock's.
type flow struct {
	schemas.SignIn
	id       string
	place    place
	client   Client
	redirect string
	scopes   []string
	proof    schemas.Proof
	verifier string // PKCE, never regenerated (RFC 7636)
	state    string
	csrf     string
	device   *oauth2.DeviceAuthResponse

	stage   stage
	browser string // the cookie of the browser that went on
	login   string // state of the login to the platform
	proving string // its own PKCE verifier: the other one is for the authorization server alone
	known   string // the cookie of a browser that logged in as the member
	grant   *grant
	code    string
	tries   int
	why     error // of failed, for the member
	over    bool  // dropped: what still comes of it is given back
	expires time.Time
	polled  time.Time
}

// Offer says how a server wants the caller to sign in; CodeMissing when it names no way. It contacts the server, its
// authorization server and nobody else, and sends no credential.
func (s *SignIns) Offer(ctx context.Context, by schemas.Caller, server schemas.Server) (schemas.Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	p, scope, err := s.place(ctx, by, server)
	if err != nil {
		return schemas.Offer{}, err
	}
	return schemas.Offer{Issuer: p.meta.Issuer, Scopes: scope, Device: p.meta.offersDevice}, nil
}

// place discovers where the caller signs in, and the scopes to ask for: those of the server's challenge, else those that the
// definition names, else those that the resource names; and offline_access where it is known, for a sign-in that lasts.
func (s *SignIns) place(ctx context.Context, by schemas.Caller, server schemas.Server) (place, []string, error) {
	s.mu.Lock()
	ch, known := s.challenges[who{by.Thread, by.Member, server.URL}]
	s.mu.Unlock()
	if !known {
		var err error
		if ch, err = s.ask(ctx, by.Thread, server); err != nil {
			return place{}, nil, err
		}
	}
	p, err := s.discover(ctx, by.Thread, server.URL, ch)
	if err != nil && known { // it may have moved since; the next try asks anew
		s.mu.Lock()
		delete(s.challenges, who{by.Thread, by.Member, server.URL})
		s.mu.Unlock()
	}
	if errors.Is(err, errAbsent) {
		return place{}, nil, &schemas.Error{Code: schemas.CodeMissing, Text: hostOf(server.URL) + " does not say how to sign in by OAuth", Hint: "an API key may work: `/mcp connect` with a key"}
	}
	if err != nil {
		return place{}, nil, err
	}
	scope := ch.scopes
	if len(scope) == 0 {
		scope = p.scopes
		if server.Auth != nil && len(server.Auth.Scopes) > 0 {
			scope = scopes(server.Auth.Scopes)
		}
	}
	if slices.Contains(p.meta.Scopes, "offline_access") {
		scope = scopes(scope, []string{"offline_access"})
	}
	return p, scope, nil
}

// ask sends a request without any credential, to hear the server's challenge; a second one where the server takes none of the first
// kind. Neither begins a session.
func (s *SignIns) ask(ctx context.Context, thread schemas.ThreadID, server schemas.Server) (challenge, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	status, ch, err := s.knock(ctx, thread, server.URL, http.MethodGet, "")
	if err == nil && server.Type != schemas.SSE && status >= 400 && status < 500 && status != http.StatusUnauthorized {
		_, ch, err = s.knock(ctx, thread, server.URL, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	}
	return ch, err
}

func (s *SignIns) knock(ctx context.Context, thread schemas.ThreadID, address, method, body string) (int, challenge, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return 0, challenge{}, wrongMetadata("the server's address cannot be read", err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if body != "" {
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.opt.HTTP(thread).Do(req)
	if err != nil {
		return 0, challenge{}, unreachable(hostOf(address), plain(err))
	}
	_ = resp.Body.Close() // it may be a stream without an end
	if resp.StatusCode != http.StatusUnauthorized {
		return resp.StatusCode, challenge{}, nil
	}
	ch, _ := readChallenge(resp.Header)
	return resp.StatusCode, ch, nil
}

// Link begins a sign-in for the caller, in place of one they began before for the same server. It contacts the server and its
// authorization server and sends no credential of the member's.
func (s *SignIns) Link(ctx context.Context, in schemas.SignIn) (schemas.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	by := in.Caller
	if by.Role < schemas.Member || !by.Member.Valid() || !by.Thread.Valid() {
		return schemas.Link{}, &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look, not sign in"}
	}
	if in.Device && !by.Operator {
		// Whoever is told the code could be made to sign in for somebody else (RFC 8628, section 5.4).
		return schemas.Link{}, &schemas.Error{Code: schemas.CodeDenied, Text: "signing in on another device is for the one who sits at this machine"}
	}
	p, scope, err := s.place(ctx, by, in.Server)
	if err != nil {
		return schemas.Link{}, err
	}
	f := &flow{SignIn: in, id: rand.Text(), place: p, scopes: scope, verifier: oauth2.GenerateVerifier(), state: rand.Text(), csrf: rand.Text(), expires: s.opt.Now().Add(s.opt.Life)}
	base := ""
	if !in.Device {
		if base, err = s.base(by.Thread); err != nil {
			return schemas.Link{}, err
		}
		f.redirect = base + callbackPath
		f.proof = s.proof(by, base)
	}
	if id := s.unanswered(f); id != "" {
		s.forgetClient(ctx, p.meta.Issuer, orLoopback(f.redirect), id)
	}
	if f.client, err = s.client(ctx, by.Thread, p.meta, in.Server, orLoopback(f.redirect)); err != nil {
		return schemas.Link{}, err
	}
	if err := s.note(ctx, s.record(f, "asked for at "+hostOf(p.meta.Issuer))); err != nil {
		return schemas.Link{}, err
	}
	l := schemas.Link{ID: f.id, URL: base + linkPath + f.id, Proof: f.proof, Offer: schemas.Offer{Issuer: p.meta.Issuer, Scopes: scope, Device: p.meta.offersDevice}, Expires: f.expires}
	if in.Device {
		if err := s.beginDevice(ctx, f, &l); err != nil {
			return schemas.Link{}, err
		}
	}
	s.add(f)
	return l, nil
}

// unanswered gives the client id with which the member's browser went to the same place before and did not come back. Servers that
// forgot a registration tell the browser and not us.
func (s *SignIns) unanswered(f *flow) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.flows {
		if old.stage == sent && old.Caller.Thread == f.Caller.Thread && old.Caller.Member == f.Caller.Member && old.Server.Name == f.Server.Name &&
			old.place.meta.Issuer == f.place.meta.Issuer && old.redirect == f.redirect {
			return old.client.ID
		}
	}
	return ""
}

// orLoopback is the redirect address to register with where none will be used.
func orLoopback(redirect string) string {
	if redirect == "" {
		return "http://127.0.0.1" + callbackPath
	}
	return redirect
}

func (s *SignIns) proof(by schemas.Caller, base string) schemas.Proof {
	switch {
	case strings.HasPrefix(base, "http://"):
		return schemas.ProofHere // only loopback is served so
	case s.opt.Login != nil && by.Door == schemas.DoorDiscord:
		return schemas.ProofLogin
	}
	return schemas.ProofCode
}

func (s *SignIns) record(f *flow, detail string) schemas.Record {
	c := f.Caller
	return schemas.Record{Thread: c.Thread, Member: c.Member, Name: c.Name, Door: c.Door, Server: f.Server.Name, Detail: detail}
}

// add keeps a flow in place of the member's earlier one for the same server, and forgets those that are over.
func (s *SignIns) add(f *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opt.Now()
	for id, old := range s.flows {
		same := old.Caller.Thread == f.Caller.Thread && old.Caller.Member == f.Caller.Member && old.Server.Name == f.Server.Name
		if same && old.stage != back || now.After(old.expires) || len(s.flows) >= maxFlows {
			s.drop(id, old)
		}
	}
	s.flows[f.id] = f
}

// drop forgets a flow. A token that nobody took is given back to its server by the next sweep of Run.
func (s *SignIns) drop(id string, f *flow) {
	if f.stage == storing { // the member's word came in time
		return
	}
	delete(s.flows, id)
	f.over = true
	if f.stage == granted {
		s.giveUp(f)
	}
}

// giveUp leaves a flow's token to the next sweep of Run. The caller holds the lock.
func (s *SignIns) giveUp(f *flow) {
	if f.grant != nil {
		s.orphans = append(s.orphans, orphan{f.Caller.Thread, f.grant})
		f.grant = nil
	}
}

// cancel ends the sign-ins on their way that which names, also those whose token is on its way into the vault.
func (s *SignIns) cancel(which func(*flow) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.flows {
		if !which(f) {
			continue
		}
		s.drop(id, f)
		f.over = true
	}
}

// Finish ends a sign-in for the caller who asked for it: CodeNeeds while the browser is not done, CodeInvalid for a wrong code,
// CodeExpired when it is over. code is heeded only where the link's proof is ProofCode.
func (s *SignIns) Finish(ctx context.Context, by schemas.Caller, id, code string) error {
	s.mu.Lock()
	f := s.flows[id]
	if f == nil || f.Caller.Thread != by.Thread || f.Caller.Member != by.Member || s.opt.Now().After(f.expires) {
		if f != nil && s.opt.Now().After(f.expires) {
			s.drop(id, f)
		}
		s.mu.Unlock()
		return expired("this sign-in is over")
	}
	if f.device != nil && f.stage == begun {
		s.mu.Unlock()
		return s.pollDevice(ctx, f)
	}
	err := s.claim(f, code)
	over, dropped := f.stage == finished, f.tries >= maxTries
	s.mu.Unlock()
	if dropped {
		s.noted(ctx, s.record(f, "ended after wrong codes"))
	}
	if err != nil || over {
		return err
	}
	err = s.store(ctx, f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		f.stage = granted
		if f.over {
			s.drop(id, f)
		}
		return err
	}
	delete(s.flows, id)
	return nil
}

// claim takes a flow to be stored by the one who knows its code. The caller holds the lock.
func (s *SignIns) claim(f *flow, code string) error {
	switch f.stage {
	case begun, sent, back, storing:
		return &schemas.Error{Code: schemas.CodeNeeds, Text: "the sign-in is not done in the browser yet", Hint: "open the link, agree at " + hostOf(f.place.meta.Issuer) + ", then come back"}
	case failed:
		delete(s.flows, f.id)
		return f.why
	case finished:
		delete(s.flows, f.id)
		return nil
	}
	given := sha256.Sum256([]byte(plainCode(code)))
	want := sha256.Sum256([]byte(plainCode(f.code)))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		if f.tries++; f.tries >= maxTries {
			s.drop(f.id, f)
			return expired("that was the wrong code for the third time, so the sign-in was dropped")
		}
		left := "two tries are left"
		if f.tries == maxTries-1 {
			left = "one try is left"
		}
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "that is not the code that the page shows; " + left, Hint: "it stands at the end of the page, like K7PQ-2XMR"}
	}
	f.stage = storing
	return nil
}

func expired(text string) error {
	return &schemas.Error{Code: schemas.CodeExpired, Text: text, Hint: "`/mcp connect` begins a new one"}
}

// store puts a flow's token into the vault, in place of every other that the member has for the server's name.
func (s *SignIns) store(ctx context.Context, f *flow) error {
	c := f.Caller
	if s.isOver(f) {
		return endedMeanwhile(f)
	}
	k := f.grant.key(c.Thread, c.Member, f.Server)
	if err := s.note(ctx, s.record(f, "done at "+hostOf(f.grant.Issuer)+scopeWords(f.grant.Scopes))); err != nil {
		return err
	}
	if err := s.keep(ctx, k, f.grant); err != nil {
		return err
	}
	if s.isOver(f) { // whoever ended it may have looked before the token was there
		s.reject(ctx, c.Thread, c.Member, f.Server, f.grant, "ended meanwhile")
		return endedMeanwhile(f)
	}
	s.mu.Lock()
	f.stage = finished
	w := who{c.Thread, c.Member, f.Server.URL}
	delete(s.challenges, w)
	if last, ok := s.refused[w]; ok {
		last.signed = true
		s.refused[w] = last
	}
	s.mu.Unlock()
	keys, err := s.opt.Names.Names(ctx, c.Member, c.Thread)
	for _, old := range keys {
		if err == nil && old.Server == f.Server.Name && old.Name == tokenName && old != k {
			err = s.opt.Vault.Delete(ctx, old)
		}
	}
	if err != nil {
		s.opt.Log.Error("an older sign-in stays in the vault", "thread", c.Thread, "server", f.Server.Name, "err", err)
	}
	return nil
}

func (s *SignIns) isOver(f *flow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.over
}

func endedMeanwhile(f *flow) error {
	return expired("the sign-in to " + f.Server.Name + " was ended meanwhile")
}

func scopeWords(scope []string) string {
	if len(scope) == 0 {
		return ""
	}
	return ": " + short(schemas.Clean(strings.Join(scope, " "), true), 200)
}

// letters of a code: none that are mistaken for another.
const letters = "23456789ABCDEFGHJKMNPQRSTVWXYZ"

// newCode makes a code of 8 letters, about 39 bits; three tries in five minutes make a guess hopeless.
func newCode() string {
	b := make([]byte, 9)
	for i := range b {
		if i == 4 {
			b[i] = '-'
			continue
		}
		for {
			var r [1]byte
			_, _ = rand.Read(r[:]) // never fails since Go 1.24
			if int(r[0]) < 256-256%len(letters) {
				b[i] = letters[int(r[0])%len(letters)]
				break
			}
		}
	}
	return string(b)
}

func plainCode(code string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r == '‐' || r == '–' {
			return -1
		}
		return r
	}, strings.ToUpper(strings.TrimSpace(code)))
}

// authorize is where the browser goes to agree (RFC 6749, 4.1.1; RFC 7636, 4.3; RFC 8707, section 2).
func (f *flow) authorize() string {
	conf := oauth2.Config{ClientID: f.client.ID, RedirectURL: f.redirect, Scopes: f.scopes, Endpoint: oauth2.Endpoint{AuthURL: f.place.meta.Authorize}}
	opts := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(f.verifier), oauth2.SetAuthURLParam("resource", f.place.resource)}
	if slices.Contains(f.scopes, "offline_access") {
		opts = append(opts, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect Core, section 11
	}
	return conf.AuthCodeURL(f.state, opts...)
}

// exchange turns the browser's code into a token at the endpoint that was recorded when the flow began.
func (s *SignIns) exchange(ctx context.Context, f *flow, code string) (*grant, error) {
	v := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.redirect}, "code_verifier": {f.verifier}, "resource": {f.place.resource}}
	tok, err := s.token(ctx, f.Caller.Thread, f.client, f.place.meta.Token, v)
	if err == nil && !plainToken(tok) {
		err = errors.New("the answer holds no bearer token")
	}
	if err != nil {
		if said, ok := errors.AsType[*oauth2.RetrieveError](err); ok && said.ErrorCode == "invalid_client" {
			s.forgetClient(ctx, f.place.meta.Issuer, f.redirect, f.client.ID)
		}
		return nil, &schemas.Error{Code: schemas.CodeFailed, Text: hostOf(f.place.meta.Issuer) + " did not complete the sign-in", Hint: "`/mcp connect` begins a new one", Err: plain(err)}
	}
	return f.got(tok, s.opt.Now()), nil
}

// got makes a grant of a token. Without a word of the server the scopes are those asked for (RFC 6749, section 5.1).
func (f *flow) got(tok *oauth2.Token, now time.Time) *grant {
	m := f.place.meta
	g := &grant{Issuer: m.Issuer, Resource: f.place.resource, Client: f.client, TokenURL: m.Token, Revoke: m.Revoke, Redirect: orLoopback(f.redirect), Scopes: f.scopes}
	g.take(tok, now)
	return g
}
