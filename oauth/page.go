package oauth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bobbin/schemas"
)

const (
	linkPath     = "/connect/"
	callbackPath = "/oauth/callback"
	loginPath    = "/oauth/login"
	cookieName   = "bobbin-connect"
)

//go:embed page.html
var pageText string

// Handler serves the pages of sign-ins: /connect/…, /oauth/callback, /oauth/login and the client metadata document. They hold no
// script, tell nothing to whoever does not know a link's id, and may be public; everything else answers 404.
func (s *SignIns) Handler() http.Handler {
	h := &pages{s: s, html: template.Must(template.New("page").Parse(pageText))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+linkPath+"{id}", h.show)
	mux.HandleFunc("POST "+linkPath+"{id}", h.goOn)
	mux.HandleFunc("POST "+linkPath+"{id}/login", h.logIn)
	mux.HandleFunc("GET "+callbackPath, h.callback)
	mux.HandleFunc("GET "+loginPath, h.loggedIn)
	mux.HandleFunc("GET "+documentPath, h.document)
	cross := http.NewCrossOriginProtection()
	if s.opt.Public != "" { // a proxy may not pass the host on
		if err := cross.AddTrustedOrigin(s.opt.Public); err != nil {
			s.opt.Log.Error("the public address is no origin", "err", err)
		}
	}
	guarded := cross.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
		guarded.ServeHTTP(w, r)
	})
}

// Paths are what Handler serves, for a mux that has other pages, too.
func Paths() []string { return []string{linkPath, "/oauth/"} }

type pages struct {
	s    *SignIns
	html *template.Template
}

// page is what page.html draws.
type page struct {
	Title  string
	Text   []string
	Facts  [][2]string
	Action string // where the form goes
	CSRF   string
	Button string
	Code   string
	Bad    bool
}

func (h *pages) draw(w http.ResponseWriter, status int, p page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := h.html.Execute(w, p); err != nil {
		h.s.opt.Log.Warn("a page was not written whole", "err", err)
	}
}

// no is the one answer to everything that does not fit: it never says what exists, and repeats nothing that came in.
func (h *pages) no(w http.ResponseWriter) {
	h.draw(w, http.StatusNotFound, page{Title: "This link does not work", Bad: true, Text: []string{
		"It was used already, it is too old, or it belongs to another browser. Nothing was connected.",
		"In the chat, ask for a new one with /mcp connect."}})
}

// show says what would be connected. It changes nothing: chat programs fetch links by themselves.
func (h *pages) show(w http.ResponseWriter, r *http.Request) {
	if p, ok := h.s.first(r); ok {
		h.draw(w, http.StatusOK, p)
		return
	}
	h.no(w)
}

// first is the page of a link. Nothing is written to a browser while the lock is held: it may read slowly.
func (s *SignIns) first(r *http.Request) (page, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.still(r.PathValue("id"))
	switch {
	case f == nil:
		return page{}, false
	case f.proof == schemas.ProofLogin && !f.sentBy(r, f.known):
		return page{Title: "Who are you?", Button: "Log in with Discord", Action: linkPath + f.id + "/login", CSRF: f.csrf, Text: []string{
			"This link is for " + whom(f) + " alone. Log in with Discord, so that it connects nobody else's account."}}, true
	}
	return f.consent(), true
}

// still gives a flow that a browser may still begin. The caller holds the lock.
func (s *SignIns) still(id string) *flow {
	f := s.flows[id]
	if f == nil || f.device != nil || f.stage > sent || s.opt.Now().After(f.expires) {
		return nil
	}
	return f
}

func whom(f *flow) string {
	name := f.Caller.Name
	if name == "" {
		name = string(f.Caller.Member)
	}
	return "@" + short(schemas.Clean(strings.TrimPrefix(name, "@"), true), 80)
}

func (f *flow) consent() page {
	scope := "whatever it gives by itself"
	if len(f.scopes) > 0 {
		scope = short(schemas.Clean(strings.Join(f.scopes, " "), true), 1000)
	}
	p := page{
		Title: "Connect " + f.Server.Name, Action: linkPath + f.id, CSRF: f.csrf, Button: "Go on to " + hostOf(f.place.meta.Authorize),
		Facts: [][2]string{
			{"asked by", whom(f)}, {"thread", string(f.Caller.Thread)}, {"connector", f.Server.Name + " · " + shown(f.Server.URL)},
			{"signs in at", f.where()}, {"asks for", scope}, {"used by", short(schemas.Clean(f.Shared, true), 300)},
		},
		Text: []string{"Go on only if you are " + whom(f) + " and asked for this in the chat yourself. If somebody sent you this link, close the page: it would connect your account to their chat."},
	}
	if f.Shared == "" {
		p.Facts = p.Facts[:len(p.Facts)-1]
	}
	if f.proof == schemas.ProofCode {
		p.Text = append(p.Text, "At the end you get a code. Type it only where bobbin asks you for it, and tell it to nobody.")
	}
	return p
}

// where names the authorization server by what the browser will show, and its issuer where that is another.
func (f *flow) where() string {
	host := hostOf(f.place.meta.Authorize)
	if hostOf(f.place.meta.Issuer) != host {
		return host + ", for " + shown(f.place.meta.Issuer)
	}
	return host
}

// goOn marks the browser and sends it to the authorization server.
func (h *pages) goOn(w http.ResponseWriter, r *http.Request) {
	csrf := r.PostFormValue("csrf")
	to, cookie, ok := h.s.send(r, csrf)
	if !ok {
		h.no(w)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// send marks a flow as sent by one browser, which alone may go on and come back.
func (s *SignIns) send(r *http.Request, csrf string) (to string, cookie *http.Cookie, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.still(r.PathValue("id"))
	if f == nil || !same(csrf, f.csrf) || f.proof == schemas.ProofLogin && !f.sentBy(r, f.known) || f.stage == sent && !f.sentBy(r, f.browser) {
		return "", nil, false
	}
	f.stage, f.browser = sent, rand.Text()
	if f.proof == schemas.ProofLogin {
		f.known = f.browser
	}
	return f.authorize(), f.cookie(), true
}

// cookie marks the browser that goes on with this flow. Its name is the flow's own, so that a browser may sign in at several places
// at the same time.
func (f *flow) cookie() *http.Cookie {
	return &http.Cookie{Name: f.cookieName(), Value: f.browser, Path: "/", Secure: f.overTLS(), HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(time.Hour / time.Second)}
}

func (f *flow) cookieName() string {
	name := cookieName + "-" + f.id[:8]
	if f.overTLS() {
		return "__Host-" + name
	}
	return name
}

func (f *flow) overTLS() bool { return strings.HasPrefix(f.redirect, "https://") }

// sentBy reports whether the browser is the one that was given value.
func (f *flow) sentBy(r *http.Request, value string) bool {
	c, err := r.Cookie(f.cookieName())
	return err == nil && same(c.Value, value)
}

// same compares secrets in constant time; an empty one is never the same.
func same(given, want string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// callback is where the authorization server sends the browser (RFC 6749, section 4.1.2; RFC 9207). The flow is taken before
// anything is sent, so that no code is used twice.
func (h *pages) callback(w http.ResponseWriter, r *http.Request) {
	s, q := h.s, r.URL.Query()
	f := s.take(r, q.Get("state"))
	if f == nil {
		h.no(w)
		return
	}
	iss := q["iss"]
	if len(iss) > 1 || len(iss) == 1 && iss[0] != f.place.meta.Issuer || len(iss) == 0 && f.place.meta.Iss {
		s.fail(r.Context(), f, "answered by another server than asked", &schemas.Error{Code: schemas.CodeDenied,
			Text: "the answer did not come from " + hostOf(f.place.meta.Issuer) + ", so it was not used", Hint: "somebody may stand between; `/mcp connect` begins a new one"})
		h.no(w)
		return
	}
	code := q["code"]
	if q.Has("error") || len(code) != 1 || code[0] == "" || len(code[0]) > maxToken {
		why := &schemas.Error{Code: schemas.CodeDenied, Text: "the sign-in was refused at " + hostOf(f.place.meta.Issuer) + because(q.Get("error")), Hint: "`/mcp connect` begins a new one"}
		s.fail(r.Context(), f, "refused at "+hostOf(f.place.meta.Issuer)+because(q.Get("error")), why)
		h.draw(w, http.StatusOK, page{Title: "Not connected", Bad: true, Text: []string{
			hostOf(f.place.meta.Issuer) + " says that this sign-in was refused. Nothing was connected; you can close this page."}})
		return
	}
	// The code is worth something for a minute only: it is used even if the browser goes away meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), startTime)
	defer cancel()
	g, err := s.exchange(ctx, f, code[0])
	if err == nil {
		err = s.settle(ctx, f, g)
	}
	if err != nil {
		s.fail(ctx, f, "failed at "+hostOf(f.place.meta.Issuer), err)
		said, _ := errors.AsType[*schemas.Error](err)
		text := "Something went wrong on my side."
		if said != nil && said.Code != schemas.CodeInternal {
			text = "It did not work: " + said.Text + "."
		}
		h.draw(w, http.StatusOK, page{Title: "Not connected", Bad: true, Text: []string{text, "In the chat, ask for a new link with /mcp connect."}})
		return
	}
	h.draw(w, http.StatusOK, f.done())
}

// take gives the flow that a browser comes back to, once, and only to the browser that went.
func (s *SignIns) take(r *http.Request, state string) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows {
		if !same(state, f.state) {
			continue
		}
		if f.stage != sent || !f.sentBy(r, f.browser) || s.opt.Now().After(f.expires) {
			return nil
		}
		f.stage = back
		return f
	}
	return nil
}

func (s *SignIns) fail(ctx context.Context, f *flow, detail string, why error) {
	rec := s.record(f, detail)
	rec.Outcome = schemas.OutcomeRefused
	s.noted(ctx, rec)
	if cause := errors.Unwrap(why); cause != nil {
		s.opt.Log.Warn("a sign-in failed", "thread", f.Caller.Thread, "server", f.Server.Name, "err", cause)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.stage, f.why = failed, why
	s.giveUp(f)
}

// settle keeps what the browser brought: at once where the browser is known to be the member's, else until its code is typed.
func (s *SignIns) settle(ctx context.Context, f *flow, g *grant) error {
	s.mu.Lock()
	f.grant = g
	switch {
	case f.over:
		s.mu.Unlock()
		return endedMeanwhile(f)
	case f.proof == schemas.ProofCode:
		f.code, f.stage, f.expires = newCode(), granted, s.opt.Now().Add(codeLife)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if err := s.store(ctx, f); err != nil {
		return err
	}
	s.opt.Done(ctx, f.Caller.Thread, f.Caller.Member, f.id)
	return nil
}

func (f *flow) done() page {
	if f.proof == schemas.ProofCode {
		return page{Title: "One step is left", Code: f.code, Text: []string{
			"Type this code in the chat, where bobbin asks you for it. It is good for five minutes.",
			"Tell it to nobody: with it, somebody else could use your account at " + hostOf(f.place.meta.Issuer) + "."}}
	}
	return page{Title: f.Server.Name + " is connected", Text: []string{"You can close this page and go back to the chat."}}
}

// document is what authorization servers read about us (OAuth Client ID Metadata Document).
func (h *pages) document(w http.ResponseWriter, r *http.Request) {
	s := h.s
	u, err := url.Parse(s.opt.Document)
	if s.opt.Public == "" || err != nil || u.Path != documentPath {
		http.NotFound(w, r)
		return
	}
	about := describe([]string{s.opt.Public + callbackPath}, "none")
	about["client_id"], about["client_uri"] = s.opt.Document, s.opt.Public
	b, err := json.Marshal(about)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(b)
}
