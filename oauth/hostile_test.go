package oauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/oauth"
	"bobbin/schemas"
)

// TestLink_Forwarded is the attack that matters most in a chat: a link, or the address behind its button, is passed on to somebody
// who signs in with their own account.
func TestLink_Forwarded(t *testing.T) {
	w := newWorld(t, nil)
	alice, bob := discord("alice"), discord("bob")

	t.Run("whoever signs in gets the code, and only the asker's chat takes it", func(t *testing.T) {
		l := w.link(alice)
		end := w.browser().walk(l.URL) // bob's browser, bob's account
		if m := pageCode.FindStringSubmatch(end.body); m == nil {
			t.Fatalf("no code on the page: %s", end.body)
		}
		for name, c := range map[string]schemas.Caller{"alice without the code": alice, "bob with it": bob} {
			given := ""
			if c.Member == bob.Member {
				given = pageCode.FindStringSubmatch(end.body)[1]
			}
			if err := w.s.Finish(t.Context(), c, l.ID, given); err == nil {
				t.Errorf("%s: connected", name)
			}
		}
		for _, c := range []schemas.Caller{alice, bob} {
			if w.s.Signed(t.Context(), c.Thread, c.Member, w.server()) {
				t.Errorf("%s is signed in", c.Name)
			}
		}
	})
	t.Run("the address behind the button, in another browser", func(t *testing.T) {
		l := w.link(alice)
		mine := w.browser()
		there := mine.press(l.URL, mine.get(l.URL))
		theirs := w.browser()
		back := theirs.get(there.to)
		n := w.a.count("/token")
		end := theirs.get(back.to)
		if w.a.count("/token") != n {
			t.Error("the code of another browser was exchanged")
		}
		if end.status != http.StatusNotFound || strings.Contains(end.body, "alice") {
			t.Errorf("the page says %d %s", end.status, end.body)
		}
	})
	t.Run("a second browser at a link that one has begun", func(t *testing.T) {
		l := w.link(alice)
		mine := w.browser()
		page := mine.get(l.URL)
		mine.press(l.URL, page)
		if got := w.browser().press(l.URL, page); got.status != http.StatusNotFound {
			t.Errorf("status %d", got.status)
		}
	})
}

func TestLink_CodeHasThreeTries(t *testing.T) {
	w := newWorld(t, nil)
	alice := discord("alice")
	l := w.link(alice)
	end := w.browser().walk(l.URL)
	right := pageCode.FindStringSubmatch(end.body)[1]
	for i, want := range []schemas.Code{schemas.CodeInvalid, schemas.CodeInvalid, schemas.CodeExpired, schemas.CodeExpired} {
		given := "AAAA-AAAA"
		if i == 3 {
			given = right
		}
		if err := w.s.Finish(t.Context(), alice, l.ID, given); code(err) != want {
			t.Errorf("try %d: %v", i, err)
		}
	}
	if strings.Contains(w.diary.text(), right) {
		t.Error("the code is in the audit log")
	}
	l = w.link(alice)
	right = pageCode.FindStringSubmatch(w.browser().walk(l.URL).body)[1]
	if err := w.s.Finish(t.Context(), alice, l.ID, " "+strings.ToLower(strings.ReplaceAll(right, "-", " "))+" "); err != nil {
		t.Errorf("as a person types it: %v", err)
	}
	l = w.link(alice)
	right = pageCode.FindStringSubmatch(w.browser().walk(l.URL).body)[1]
	w.pass(6 * time.Minute)
	if err := w.s.Finish(t.Context(), alice, l.ID, right); code(err) != schemas.CodeExpired {
		t.Errorf("after five minutes: %v", err)
	}
}

// TestLink_LoginProvesWhose lets browsers log in to the platform first.
func TestLink_LoginProvesWhose(t *testing.T) {
	var user atomic.Value
	user.Store(string(discord("bob").Member))
	platform := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/oauth2/authorize":
			q := r.URL.Query()
			http.Redirect(rw, r, q.Get("redirect_uri")+"?code=c&state="+q.Get("state"), http.StatusFound)
		case "/api/oauth2/token":
			if id, secret, _ := r.BasicAuth(); id != "app" || secret != "hush" || r.FormValue("code_verifier") == "" {
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			writeJSON(rw, map[string]any{"access_token": "platform-token", "token_type": "Bearer"})
		case "/api/users/@me":
			if r.Header.Get("Authorization") != "Bearer platform-token" {
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			writeJSON(rw, map[string]any{"id": user.Load()})
		}
	}))
	defer platform.Close()
	w := newWorld(t, func(o *oauth.Options) {
		o.Login = &oauth.Login{ID: "app", Secret: "hush", Site: platform.URL, API: platform.URL + "/api", HTTP: platform.Client()}
	})
	alice := discord("alice")
	l := w.link(alice)
	if l.Proof != schemas.ProofLogin {
		t.Fatalf("proof %q", l.Proof)
	}
	login := func(b *browser) answer {
		first := b.get(l.URL)
		if strings.Contains(first.body, w.r.srv.URL) || !strings.Contains(first.body, "Log in with Discord") {
			t.Errorf("before the login the page says %s", first.body)
		}
		there := b.press(l.URL, first)
		return b.get(b.get(there.to).to)
	}
	bob := w.browser()
	if got := login(bob); got.status != http.StatusForbidden || !strings.Contains(got.body, "not yours") {
		t.Fatalf("bob sees %d %s", got.status, got.body)
	}
	if got := bob.get(l.URL); !strings.Contains(got.body, "Log in with Discord") {
		t.Errorf("bob then sees %s", got.body)
	}
	user.Store(string(alice.Member))
	mine := w.browser()
	if got := login(mine); got.to != "/connect/"+l.ID {
		t.Fatalf("alice sees %d %s", got.status, got.body)
	}
	end := mine.walk(l.URL)
	if !strings.Contains(end.body, "is connected") || pageCode.MatchString(end.body) {
		t.Fatalf("at the end alice sees %s", end.body)
	}
	if id := <-w.done; id != l.ID {
		t.Errorf("done %q", id)
	}
	if err := w.s.Finish(t.Context(), alice, l.ID, ""); err != nil {
		t.Error(err)
	}
	if got, err := w.call(alice); err != nil || got != "200 hello body" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCallback_State(t *testing.T) {
	w := newWorld(t, nil)
	c := local()
	l := w.link(c)
	b := w.browser()
	there := b.press(l.URL, b.get(l.URL))
	back := b.get(there.to).to
	u, _ := url.Parse(back)
	n := w.a.count("/token")
	for name, state := range map[string]string{"unknown": "nobody", "missing": "", "forged": string(c.Thread) + ":" + string(c.Member) + ":1", "huge": strings.Repeat("x", 1<<14)} {
		q := u.Query()
		q.Set("state", state)
		v := *u
		v.RawQuery = q.Encode()
		if got := b.get(v.String()); got.status != http.StatusNotFound {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	if w.a.count("/token") != n {
		t.Error("a code with a wrong state was sent")
	}
	var good atomic.Int32
	var wg sync.WaitGroup
	for range 8 { // replay, all at once
		wg.Go(func() {
			if got := b.get(back); strings.Contains(got.body, "is connected") {
				good.Add(1)
			}
		})
	}
	wg.Wait()
	if good.Load() != 1 || w.a.count("/token") != n+1 {
		t.Errorf("%d successes, %d exchanges", good.Load(), w.a.count("/token")-n)
	}
	l = w.link(c)
	there = b.press(l.URL, b.get(l.URL))
	back = b.get(there.to).to
	w.pass(11 * time.Minute)
	if got := b.get(back); got.status != http.StatusNotFound || w.a.count("/token") != n+1 {
		t.Errorf("after ten minutes: %d", got.status)
	}
	if got := b.get(l.URL); got.status != http.StatusNotFound {
		t.Errorf("the link after ten minutes: %d", got.status)
	}
}

func TestCallback_CrossSiteAndFrames(t *testing.T) {
	w := newWorld(t, nil)
	l := w.link(discord("alice"))
	b := w.browser()
	page := b.get(l.URL)
	if csp := page.head.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("policy %q", csp)
	}
	csrf := formCSRF.FindStringSubmatch(page.body)[1]
	for name, change := range map[string]func(*http.Request, url.Values){
		"another site":  func(r *http.Request, _ url.Values) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another page":  func(r *http.Request, _ url.Values) { r.Header.Set("Origin", "https://evil.example") },
		"without csrf":  func(_ *http.Request, v url.Values) { v.Del("csrf") },
		"a forged csrf": func(_ *http.Request, v url.Values) { v.Set("csrf", "AAAA") },
	} {
		v := url.Values{"csrf": {csrf}}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, l.URL, nil)
		change(req, v)
		req.Body = http.NoBody
		req2, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, l.URL, strings.NewReader(v.Encode()))
		req2.Header = req.Header
		req2.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if got := b.do(req2); got.status < 400 || got.to != "" {
			t.Errorf("%s: %d to %q", name, got.status, got.to)
		}
	}
}

func TestCallback_Iss(t *testing.T) {
	for name, change := range map[string]func(url.Values){
		"another server":   func(v url.Values) { v.Set("iss", "https://evil.example") },
		"a trailing slash": func(v url.Values) { v.Set("iss", v.Get("iss")+"/") },
		"missing":          func(v url.Values) { v.Del("iss") },
		"twice":            func(v url.Values) { v.Add("iss", "https://evil.example") },
		"an error of another server": func(v url.Values) {
			v.Set("iss", "https://evil.example")
			v.Del("code")
			v.Set("error", "access_denied")
			v.Set("error_description", "call 555-1234 now")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.a.answer = change
			l := w.link(local())
			end := w.browser().walk(l.URL)
			if end.status != http.StatusNotFound || strings.Contains(end.body, "555") || strings.Contains(end.body, "access_denied") {
				t.Errorf("%d %s", end.status, end.body)
			}
			if n := w.a.count("/token"); n != 0 {
				t.Errorf("%d exchanges", n)
			}
			if err := w.s.Finish(t.Context(), local(), l.ID, ""); code(err) != schemas.CodeDenied {
				t.Errorf("the member hears %v", err)
			}
		})
	}
	t.Run("sent though not advertised, by another server", func(t *testing.T) {
		w := newWorld(t, nil)
		w.a.meta = func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }
		w.a.answer = func(v url.Values) { v.Set("iss", "https://evil.example") }
		w.browser().walk(w.link(local()).URL)
		if n := w.a.count("/token"); n != 0 {
			t.Errorf("%d exchanges", n)
		}
	})
}

func TestCallback_Refused(t *testing.T) {
	w := newWorld(t, nil)
	w.a.answer = func(v url.Values) {
		v.Del("code")
		v.Set("error", "access_denied")
		v.Set("error_description", "<b>call 555</b>")
	}
	l := w.link(local())
	end := w.browser().walk(l.URL)
	if strings.Contains(end.body, "555") || !strings.Contains(end.body, "refused") {
		t.Errorf("the page says %s", end.body)
	}
	if err := w.s.Finish(t.Context(), local(), l.ID, ""); code(err) != schemas.CodeDenied || !strings.Contains(err.Error(), "refused at 127.0.0.1") {
		t.Errorf("%v", err)
	}
}

// TestDiscover_Hostile serves descriptions that lead astray. Nothing may be sent to where they lead.
func TestDiscover_Hostile(t *testing.T) {
	var canary atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { canary.Add(1) }))
	defer trap.Close()
	bad := []string{"javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "http://evil.example/x", "https://u:p@x.example/", "https://169.254.169.254/latest", "https://[::ffff:169.254.169.254]/",
		"https://10.0.0.5/", "$(calc)", "", "https://x.example/#f", `https://x.example/"><script>`, "https://x.example/" + strings.Repeat("a", 10_000), "https://metadata.google.internal\\@x"}
	meta := func(key string, value any) func(*world) {
		return func(w *world) { w.a.meta = func(m map[string]any) { m[key] = value } }
	}
	cases := map[string]func(*world){
		"issuer of another":      meta("issuer", "https://auth.example.com"),
		"issuer with a slash":    func(w *world) { w.a.meta = func(m map[string]any) { m["issuer"] = w.a.srv.URL + "/" } },
		"no PKCE":                func(w *world) { w.a.meta = func(m map[string]any) { delete(m, "code_challenge_methods_supported") } },
		"plain PKCE only":        meta("code_challenge_methods_supported", []string{"plain"}),
		"resource of another":    func(w *world) { w.r.prm["resource"] = "https://other.example/mcp" },
		"resource of a sibling":  func(w *world) { w.r.prm["resource"] = w.r.srv.URL + "/mc" },
		"no server":              func(w *world) { w.r.prm["authorization_servers"] = []string{} },
		"challenge leads astray": func(w *world) { w.r.challenge = `Bearer resource_metadata="http://169.254.169.254/x"` },
		"description is huge":    meta("padding", strings.Repeat("x", 1<<20)),
		"description is no JSON": func(w *world) { w.r.prm["authorization_servers"] = "x" },
	}
	for i, address := range bad {
		for _, key := range []string{"authorization_endpoint", "token_endpoint"} {
			cases[fmt.Sprintf("%s %d", key, i)] = meta(key, address)
		}
		if address != "" {
			for _, key := range []string{"registration_endpoint", "revocation_endpoint", "device_authorization_endpoint"} {
				cases[fmt.Sprintf("%s %d", key, i)] = meta(key, address)
			}
		}
		cases[fmt.Sprintf("authorization server %d", i)] = func(w *world) { w.r.prm["authorization_servers"] = []string{address} }
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			fault(w)
			_, err := w.s.Link(t.Context(), schemas.SignIn{Caller: local(), Server: w.server()})
			if err == nil || code(err) == schemas.CodeInternal {
				t.Fatalf("%v", err)
			}
			if w.a.count("/register")+w.a.count("/token") != 0 {
				t.Error("something was sent")
			}
		})
	}
	if canary.Load() != 0 {
		t.Error("the trap was reached")
	}
}

func TestToken_OddAnswers(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"a page":   func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); fmt.Fprint(w, "<html>") },
		"no token": func(w http.ResponseWriter) { writeJSON(w, map[string]any{"token_type": "bearer"}) },
		"a broken line": func(w http.ResponseWriter) {
			writeJSON(w, map[string]any{"access_token": "a\r\nX-Evil: 1", "token_type": "bearer"})
		},
		"a huge token": func(w http.ResponseWriter) {
			writeJSON(w, map[string]any{"access_token": strings.Repeat("x", 1<<17), "token_type": "bearer"})
		},
		"another kind": func(w http.ResponseWriter) { writeJSON(w, map[string]any{"access_token": "x", "token_type": "mac"}) },
		"too much": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			for range 9000 {
				fmt.Fprint(w, strings.Repeat(" ", 1024))
			}
		},
		"a code that is over": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"<b>call 555</b>"}`)
		},
		"a redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.a.token = func(rw http.ResponseWriter, _ *http.Request) bool { answer(rw); return true }
			l := w.link(local())
			if end := w.browser().walk(l.URL); !strings.Contains(end.body, "Not connected") {
				t.Errorf("the page says %s", end.body)
			}
			if err := w.s.Finish(t.Context(), local(), l.ID, ""); code(err) != schemas.CodeFailed {
				t.Errorf("%v", err)
			}
			if w.s.Signed(t.Context(), localThread, "operator", w.server()) || w.a.count("/elsewhere") != 0 {
				t.Error("signed in, or followed")
			}
		})
	}
	for name, life := range map[string]any{"negative": -1, "huge": int64(1e15), "text": "60"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.a.token = func(rw http.ResponseWriter, r *http.Request) bool {
				w.a.access["at-x"] = "read"
				writeJSON(rw, map[string]any{"access_token": "at-x", "token_type": "Bearer", "expires_in": life})
				return true
			}
			l := w.link(local())
			w.browser().walk(l.URL)
			n := w.a.count("/token")
			if got, err := w.call(local()); err != nil || got != "200 hello body" || w.a.count("/token") != n {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestRegistration_Refused(t *testing.T) {
	w := newWorld(t, nil)
	w.a.meta = func(m map[string]any) { delete(m, "registration_endpoint") }
	if _, err := w.s.Link(t.Context(), schemas.SignIn{Caller: local(), Server: w.server()}); code(err) != schemas.CodeMissing {
		t.Errorf("without a way to register: %v", err)
	}
	w = newWorld(t, nil)
	w.a.meta = func(m map[string]any) { m["registration_endpoint"] = w.a.srv.URL + "/token" } // answers with an error
	_, err := w.s.Link(t.Context(), schemas.SignIn{Caller: local(), Server: w.server()})
	if code(err) != schemas.CodeFailed || strings.Contains(err.Error(), "secret-from-server") {
		t.Errorf("%v", err)
	}
}

func TestPages_NeedPublicAddressForDiscord(t *testing.T) {
	w := newWorld(t, func(o *oauth.Options) { o.Public = "" })
	_, err := w.s.Link(t.Context(), schemas.SignIn{Caller: discord("alice"), Server: w.server()})
	e, ok := err.(*schemas.Error)
	if !ok || e.Code != schemas.CodeMissing || !strings.Contains(e.Hint, "--public-url") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"http://bot.example.com", "https://bot.example.com/path", "https://u@bot.example.com", "bot.example.com", "https://"} {
		if _, err := oauth.New(oauth.Options{Public: bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestGuest_CannotSignIn(t *testing.T) {
	w := newWorld(t, nil)
	c := discord("bob")
	c.Role = schemas.Guest
	if _, err := w.s.Link(t.Context(), schemas.SignIn{Caller: c, Server: w.server()}); code(err) != schemas.CodeDenied {
		t.Errorf("%v", err)
	}
}

// TestOrphan_IsRevoked gives back what nobody took.
func TestOrphan_IsRevoked(t *testing.T) {
	w := newWorld(t, nil)
	alice := discord("alice")
	l := w.link(alice)
	w.browser().walk(l.URL)
	for range 3 {
		_ = w.s.Finish(t.Context(), alice, l.ID, "WRONG")
	}
	ctx, cancel := contextOf(t)
	over := make(chan struct{})
	go func() { defer close(over); _ = w.s.Run(ctx) }()
	cancel()
	<-over
	if n := w.a.count("/revoke"); n != 2 {
		t.Errorf("%d tokens given back", n)
	}
}
