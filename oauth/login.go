package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"golang.org/x/oauth2"

	"bobbin/schemas"
)

// Login is Discord's own sign-in (scope identify), by which a browser proves whose it is. Nothing of it is kept.
type Login struct {
	ID, Secret string // of the operator's application
	// Site and API are Discord's; "" = https://discord.com and https://discord.com/api/v10.
	Site, API string
	HTTP      *http.Client // required; the operator chose where it goes
}

func (l *Login) config(redirect string) oauth2.Config {
	return oauth2.Config{ClientID: l.ID, ClientSecret: l.Secret, RedirectURL: redirect, Scopes: []string{"identify"}, Endpoint: oauth2.Endpoint{
		AuthURL: cmp.Or(l.Site, "https://discord.com") + "/oauth2/authorize", TokenURL: l.api() + "/oauth2/token", AuthStyle: oauth2.AuthStyleInHeader}}
}

func (l *Login) api() string { return cmp.Or(l.API, "https://discord.com/api/v10") }

// logIn sends the browser to Discord.
func (h *pages) logIn(w http.ResponseWriter, r *http.Request) {
	csrf := r.PostFormValue("csrf")
	to, cookie, ok := h.s.sendToLogin(r, csrf)
	if !ok {
		h.no(w)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (s *SignIns) sendToLogin(r *http.Request, csrf string) (to string, cookie *http.Cookie, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.still(r.PathValue("id"))
	if f == nil || f.proof != schemas.ProofLogin || f.stage != begun || !same(csrf, f.csrf) {
		return "", nil, false
	}
	f.login, f.browser, f.proving = rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	conf := s.opt.Login.config(s.opt.Public + loginPath)
	return conf.AuthCodeURL(f.login, oauth2.S256ChallengeOption(f.proving), oauth2.SetAuthURLParam("prompt", "none")), f.cookie(), true
}

// loggedIn takes the browser that comes back from Discord. A browser of somebody else ends nothing: the link stays good for the
// member it was made for.
func (h *pages) loggedIn(w http.ResponseWriter, r *http.Request) {
	s, q := h.s, r.URL.Query()
	s.mu.Lock()
	var f *flow
	var browser, verifier string // while Discord is asked, another browser may take their place in the flow
	for _, one := range s.flows {
		if one.proof == schemas.ProofLogin && same(q.Get("state"), one.login) && one.sentBy(r, one.browser) && s.still(one.id) != nil {
			f, browser, verifier = one, one.browser, one.proving
			f.login = "" // one use
			break
		}
	}
	s.mu.Unlock()
	if f == nil || q.Get("code") == "" {
		h.no(w)
		return
	}
	id, err := s.opt.Login.whose(r.Context(), s.opt.Public+loginPath, q.Get("code"), verifier)
	if err != nil {
		s.opt.Log.Warn("a login to the platform failed", "thread", f.Caller.Thread, "err", plain(err))
		h.draw(w, http.StatusOK, page{Title: "Discord did not say who you are", Bad: true, Text: []string{"Nothing was connected. Open the link from the chat once more."}})
		return
	}
	if id != f.Caller.Member {
		s.noted(r.Context(), s.record(f, "refused: opened by somebody else"))
		h.draw(w, http.StatusForbidden, page{Title: "This link is not yours", Bad: true, Text: []string{
			"It is for " + whom(f) + " alone, and you are logged in to Discord as somebody else. Nothing was connected.",
			"To connect your own account, ask for a link of your own in the chat with /mcp connect."}})
		return
	}
	s.mu.Lock()
	f.known = browser
	s.mu.Unlock()
	http.Redirect(w, r, linkPath+f.id, http.StatusSeeOther)
}

// whose asks Discord whose code it is.
func (l *Login) whose(ctx context.Context, redirect, code, verifier string) (schemas.MemberID, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	ctx = context.WithValue(ctx, oauth2.HTTPClient, l.HTTP)
	conf := l.config(redirect)
	tok, err := conf.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.api()+"/users/@me", nil)
	if err != nil {
		return "", err
	}
	tok.SetAuthHeader(req)
	resp, err := l.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var me struct {
		ID schemas.MemberID `json:"id"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxFetched)).Decode(&me); err != nil || !me.ID.Valid() {
		return "", cmp.Or(err, errors.New("no user in the answer"))
	}
	return me.ID, nil
}
