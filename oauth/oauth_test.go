package oauth_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/oauth"
	"bobbin/schemas"
)

func TestSignIn_FirstCallToLast(t *testing.T) {
	for name, c := range map[string]schemas.Caller{"local": local(), "discord": discord("alice")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			if _, err := w.call(c); code(err) != schemas.CodeNeeds {
				t.Fatalf("before the sign-in: %v", err)
			}
			if w.s.Signed(t.Context(), c.Thread, c.Member, w.server()) {
				t.Error("signed in before")
			}
			w.signIn(c)
			got, err := w.call(c)
			if err != nil || got != "200 hello body" {
				t.Fatalf("after the sign-in: %q, %v", got, err)
			}
			if !w.s.Signed(t.Context(), c.Thread, c.Member, w.server()) {
				t.Error("not signed in after")
			}
			if err := w.s.SignOut(t.Context(), c.Thread, c.Member, w.server()); err != nil {
				t.Fatal(err)
			}
			if n := w.a.count("/revoke"); n != 2 {
				t.Errorf("%d tokens revoked, want refresh and access", n)
			}
			if _, err := w.call(c); code(err) != schemas.CodeNeeds {
				t.Errorf("after the sign-out: %v", err)
			}
			before := w.r.sent()
			if _, err := w.call(c); code(err) != schemas.CodeNeeds || w.r.sent() != before {
				t.Error("a token was sent after the sign-out")
			}
		})
	}
}

// TestSignIn_NothingInLogs goes the whole way at debug level; the audit log and the log hold nothing that opens anything.
func TestSignIn_NothingInLogs(t *testing.T) {
	w := newWorld(t, nil)
	w.a.methods = []string{"client_secret_basic"}
	w.signIn(discord("alice"))
	if _, err := w.call(discord("alice")); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{w.diary.text(), w.log.String()} {
		for _, secret := range []string{"at-", "rt-", "code-", "client-secret-", "verifier", "state="} {
			if strings.Contains(where, secret) {
				t.Errorf("%q stands in %s", secret, where)
			}
		}
	}
	if !strings.Contains(w.diary.text(), "done at") {
		t.Errorf("the audit log says %s", w.diary.text())
	}
}

func TestSignIn_UnauditableDoesNotHappen(t *testing.T) {
	w := newWorld(t, nil)
	w.diary.fail = context.DeadlineExceeded
	if _, err := w.s.Link(t.Context(), schemas.SignIn{Caller: local(), Server: w.server()}); code(err) != schemas.CodeInternal {
		t.Errorf("a link without an audit record: %v", err)
	}
}

func TestRefresh_OnceForManyCallersAndProcesses(t *testing.T) {
	w := newWorld(t, nil)
	w.a.set(func() { w.a.life = 60 })
	c := local()
	w.signIn(c)
	other := w.open("http://127.0.0.1:1")
	w.pass(2 * time.Minute)
	before := w.a.count("/token")
	var wg sync.WaitGroup
	for i := range 40 {
		s := w.s
		if i%2 == 1 {
			s = other
		}
		wg.Go(func() {
			if got, err := call(t, s, c, w.server()); err != nil || got != "200 hello body" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := w.a.count("/token") - before; n != 1 {
		t.Errorf("refreshed %d times", n)
	}
	last := w.a.forms["/token"][len(w.a.forms["/token"])-1]
	if last.Get("grant_type") != "refresh_token" || last.Get("resource") != w.a.resource || last.Has("code") {
		t.Errorf("the refresh said %v", last)
	}
}

func TestRefresh_NetworkIsNotInvalidGrant(t *testing.T) {
	w := newWorld(t, nil)
	w.a.set(func() { w.a.life = 60 })
	c := local()
	w.signIn(c)
	w.pass(2 * time.Minute)
	w.a.set(func() {
		w.a.token = func(rw http.ResponseWriter, _ *http.Request) bool { rw.WriteHeader(http.StatusBadGateway); return true }
	})
	if _, err := w.call(c); code(err) != schemas.CodeNotReady {
		t.Fatalf("while the authorization server is out of order: %v", err)
	}
	if !w.s.Signed(t.Context(), c.Thread, c.Member, w.server()) {
		t.Fatal("the sign-in was lost")
	}
	w.a.set(func() { w.a.token = nil })
	if got, err := w.call(c); err != nil || got != "200 hello body" {
		t.Fatalf("%q, %v", got, err)
	}
	w.pass(2 * time.Minute)
	w.a.set(func() { clear(w.a.refresh) })
	if _, err := w.call(c); code(err) != schemas.CodeNeeds {
		t.Fatalf("after invalid_grant: %v", err)
	}
	n := w.a.count("/token")
	if _, err := w.call(c); code(err) != schemas.CodeNeeds || w.a.count("/token") != n {
		t.Errorf("tried again although the grant has ended")
	}
}

func TestCall_RefusedTokenIsRenewedOnceOnly(t *testing.T) {
	w := newWorld(t, nil)
	c := local()
	w.signIn(c)
	w.a.set(func() { clear(w.a.access) }) // revoked at the server; the refresh token lives
	if got, err := w.call(c); err != nil || got != "200 hello body" {
		t.Fatalf("%q, %v", got, err)
	}
	w.r.set(func() {
		w.r.seen = nil
		w.r.handle = func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return true
		}
	})
	if _, err := w.call(c); code(err) != schemas.CodeNeeds {
		t.Fatalf("a server that refuses every token: %v", err)
	}
	if n := w.r.sent(); n > 2 {
		t.Errorf("%d requests with a token, want 2 at most", n)
	}
}

func TestStepUp_AsksForTheUnion(t *testing.T) {
	w := newWorld(t, nil)
	c := local()
	w.signIn(c)
	w.r.set(func() { w.r.needScope = "write" })
	_, err := w.call(c)
	if code(err) != schemas.CodeNeeds || !strings.Contains(err.Error(), "more rights") {
		t.Fatalf("%v", err)
	}
	l := w.link(c)
	if got := strings.Join(l.Offer.Scopes, " "); got != "read offline_access write" {
		t.Errorf("asks for %q", got)
	}
	w.signIn(c)
	if got, err := w.call(c); err != nil || got != "200 hello body" {
		t.Fatalf("after the step-up: %q, %v", got, err)
	}
	// A server that wants what was granted already is not asked again and again.
	w.r.set(func() {
		w.r.handle = func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
			rw.WriteHeader(http.StatusForbidden)
			return true
		}
	})
	if _, err := w.call(c); code(err) != schemas.CodeDenied {
		t.Errorf("%v", err)
	}
	w.a.set(func() { w.a.scopes = "read" })
	w.r.set(func() { w.r.handle = nil })
	for i := range 4 {
		w.signIn(c)
		for range 5 { // who does not sign in may call as often as they like
			_, err = w.call(c)
		}
		if want := map[bool]schemas.Code{true: schemas.CodeNeeds, false: schemas.CodeDenied}[i < 3]; code(err) != want {
			t.Errorf("refusal %d: %v", i, err)
		}
	}
	w.r.set(func() { w.r.needScope = "admin" })
	if _, err := w.call(c); code(err) != schemas.CodeNeeds {
		t.Errorf("another right, which was never asked for: %v", err)
	}
}

func TestToken_IsOneMembersInOneThreadForOneDefinition(t *testing.T) {
	w := newWorld(t, nil)
	w.signIn(discord("alice"))
	n := w.r.sent()
	elsewhere := discord("alice")
	elsewhere.Thread = "9999999999999999999"
	for name, c := range map[string]schemas.Caller{"another member": discord("bob"), "another thread": elsewhere} {
		if _, err := w.call(c); code(err) != schemas.CodeNeeds {
			t.Errorf("%s: %v", name, err)
		}
	}
	edited := w.server()
	edited.Headers = map[string]string{"X-New": "1"}
	if _, err := call(t, w.s, discord("alice"), edited); code(err) != schemas.CodeNeeds {
		t.Errorf("an edited definition: %v", err)
	}
	other := newResource(t, newAuthority(t))
	moved := w.server()
	moved.URL = other.srv.URL + "/mcp"
	if _, err := call(t, w.s, discord("alice"), moved); code(err) != schemas.CodeNeeds || other.sent() != 0 {
		t.Errorf("a moved definition: %v, %d requests with a token", err, other.sent())
	}
	if w.r.sent() != n {
		t.Error("somebody else's request carried the token")
	}
}

func TestToken_StaysAtItsOrigin(t *testing.T) {
	w := newWorld(t, nil)
	c := local()
	w.signIn(c)
	other := newResource(t, newAuthority(t))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, other.srv.URL+"/mcp", nil)
	resp, err := w.s.Client(c.Thread, c.Member, w.server()).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	w.r.set(func() {
		w.r.handle = func(rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, other.srv.URL+"/mcp", http.StatusTemporaryRedirect)
			return true
		}
	})
	_, _ = w.call(c)
	if other.sent() != 0 {
		t.Error("the token went to another origin")
	}
}

func TestLeave_EndsAllOfAMember(t *testing.T) {
	w := newWorld(t, nil)
	w.signIn(discord("alice"))
	w.signIn(discord("bob"))
	if err := w.s.Leave(t.Context(), discordThread, discord("alice").Member); err != nil {
		t.Fatal(err)
	}
	if _, err := w.call(discord("alice")); code(err) != schemas.CodeNeeds {
		t.Errorf("alice: %v", err)
	}
	if _, err := w.call(discord("bob")); err != nil {
		t.Errorf("bob: %v", err)
	}
	if err := w.s.SignOutAll(t.Context(), discordThread, "notes"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.call(discord("bob")); code(err) != schemas.CodeNeeds {
		t.Errorf("bob after the removal: %v", err)
	}
}

func TestRegistration_OncePerIssuer(t *testing.T) {
	w := newWorld(t, nil)
	var wg sync.WaitGroup
	for _, c := range []schemas.Caller{discord("alice"), discord("bob"), discord("alice"), discord("bob")} {
		wg.Go(func() { _, _ = w.s.Link(t.Context(), schemas.SignIn{Caller: c, Server: w.server()}) })
	}
	wg.Wait()
	if n := w.a.count("/register"); n != 1 {
		t.Errorf("registered %d times", n)
	}
	w.link(local())
	if n := w.a.count("/register"); n != 2 {
		t.Errorf("another redirect address needs a registration of its own: %d", n)
	}
}

func TestRegistration_BeforehandAndByDocument(t *testing.T) {
	w := newWorld(t, nil)
	clients := map[string]oauth.Client{w.a.srv.URL: {ID: "known", Secret: "s3"}}
	w.a.clients["known"] = map[string]any{"client_secret": "s3", "redirect_uris": []any{w.pages.URL + "/oauth/callback"}}
	w.a.methods = []string{"client_secret_post"}
	w.options = func(o *oauth.Options) { o.Clients = clients }
	w.s = w.open("http://127.0.0.1:1")
	w.link(discord("alice"))
	if n := w.a.count("/register"); n != 0 {
		t.Errorf("registered %d times although known", n)
	}
	w.a.set(func() { w.a.meta = func(m map[string]any) { m["client_id_metadata_document_supported"] = true } })
	w.options = nil
	w.s = w.open("http://127.0.0.1:1")
	l := w.link(discord("alice"))
	if n := w.a.count("/register"); n != 0 {
		t.Errorf("registered %d times although it reads documents", n)
	}
	b := w.browser()
	h := w.s.Handler()
	w.pages.Config.Handler = h
	there := b.press(l.URL, b.get(l.URL))
	u, _ := url.Parse(there.to)
	if id := u.Query().Get("client_id"); id != w.pages.URL+"/oauth/client.json" {
		t.Fatalf("client_id %q", id)
	}
	doc := b.get(w.pages.URL + "/oauth/client.json")
	if !strings.Contains(doc.body, `"client_id":"`+w.pages.URL+`/oauth/client.json"`) || !strings.Contains(doc.body, `"application_type":"web"`) {
		t.Errorf("the document says %s", doc.body)
	}
}

func TestDevice(t *testing.T) {
	w := newWorld(t, nil)
	c := local()
	if _, err := w.s.Link(t.Context(), schemas.SignIn{Caller: discord("alice"), Server: w.server(), Device: true}); code(err) != schemas.CodeDenied {
		t.Errorf("a member on Discord: %v", err)
	}
	l, err := w.s.Link(t.Context(), schemas.SignIn{Caller: c, Server: w.server(), Device: true})
	if err != nil {
		t.Fatal(err)
	}
	if l.Code != "WDJB-MJHT" || l.URL != w.a.srv.URL+"/activate" {
		t.Errorf("%+v", l)
	}
	w.a.set(func() {
		w.a.token = func(rw http.ResponseWriter, _ *http.Request) bool {
			w.a.no(rw, "authorization_pending", "")
			return true
		}
	})
	n := w.a.count("/token")
	for range 3 {
		if err := w.s.Finish(t.Context(), c, l.ID, ""); code(err) != schemas.CodeNeeds {
			t.Fatalf("%v", err)
		}
	}
	if got := w.a.count("/token") - n; got != 1 {
		t.Errorf("asked %d times within the interval", got)
	}
	w.a.set(func() { w.a.token = nil })
	w.pass(6 * time.Second)
	if err := w.s.Finish(t.Context(), c, l.ID, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := w.call(c); err != nil || got != "200 hello body" {
		t.Errorf("%q, %v", got, err)
	}
}

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func TestSignOutOld_LeavesTheNewDefinition(t *testing.T) {
	w := newWorld(t, nil)
	alice, bob := discord("alice"), discord("bob")
	w.signIn(alice)
	w.signIn(bob)
	edited := w.server()
	edited.Timeout, edited.Headers = 5000, map[string]string{"X-New": "1"}
	l, err := w.s.Link(t.Context(), schemas.SignIn{Caller: alice, Server: edited})
	if err != nil {
		t.Fatal(err)
	}
	m := pageCode.FindStringSubmatch(w.browser().walk(l.URL).body)
	if err := w.s.Finish(t.Context(), alice, l.ID, m[1]); err != nil {
		t.Fatal(err)
	}
	if err := w.s.SignOutOld(t.Context(), discordThread, edited); err != nil {
		t.Fatal(err)
	}
	if w.s.Signed(t.Context(), discordThread, bob.Member, w.server()) || !w.s.Signed(t.Context(), discordThread, alice.Member, edited) {
		t.Error("the old one is left, or the new one gone")
	}
	if ms, err := w.s.Members(t.Context(), discordThread); err != nil || len(ms) != 1 || ms[0] != alice.Member {
		t.Errorf("%v %v", ms, err)
	}
}
