package oauth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bobbin/oauth"
	"bobbin/schemas"
)

// TestDocument_IsForThePublicAddress signs in at the local page of a bobbin that has a public address, too: the metadata document names
// the public redirect address alone.
func TestDocument_IsForThePublicAddress(t *testing.T) {
	w := newWorld(t, nil)
	w.a.meta = func(m map[string]any) { m["client_id_metadata_document_supported"] = true }
	w.signIn(local())
	if n := w.a.count("/register"); n != 1 {
		t.Errorf("registered %d times", n)
	}
	w.link(discord("alice"))
	if n := w.a.count("/register"); n != 1 {
		t.Errorf("registered %d times although the document says it", n)
	}
}

// TestRegistration_Forgotten is a server that loses its registrations, as many do when they start again: it says so to the browser, or
// when a token is renewed.
func TestRegistration_Forgotten(t *testing.T) {
	t.Run("the browser does not come back", func(t *testing.T) {
		w := newWorld(t, nil)
		w.signIn(local())
		w.a.set(func() { clear(w.a.clients) })
		l := w.link(local())
		b := w.browser()
		if got := b.get(b.press(l.URL, b.get(l.URL)).to); got.status != http.StatusBadRequest {
			t.Fatalf("status %d", got.status)
		}
		w.signIn(local())
		if n := w.a.count("/register"); n != 2 {
			t.Errorf("registered %d times", n)
		}
	})
	t.Run("a token is not renewed", func(t *testing.T) {
		w := newWorld(t, nil)
		w.a.set(func() { w.a.life = 60 })
		w.signIn(local())
		w.pass(2 * time.Minute)
		w.a.set(func() { clear(w.a.clients) })
		if _, err := w.call(local()); code(err) != schemas.CodeNeeds {
			t.Fatalf("%v", err)
		}
		w.signIn(local())
		if n := w.a.count("/register"); n != 2 {
			t.Errorf("registered %d times", n)
		}
	})
	t.Run("a link that nobody opened keeps it", func(t *testing.T) {
		w := newWorld(t, nil)
		w.link(local())
		w.signIn(local())
		if n := w.a.count("/register"); n != 1 {
			t.Errorf("registered %d times", n)
		}
	})
}

func TestRegistration_NoKnownMethod(t *testing.T) {
	w := newWorld(t, nil)
	w.a.methods = []string{"private_key_jwt", "tls_client_auth"}
	_, err := w.s.Link(t.Context(), schemas.SignIn{Caller: local(), Server: w.server()})
	if code(err) != schemas.CodeMissing || w.a.count("/register") != 0 {
		t.Errorf("%v", err)
	}
}

func TestRegistration_BeforehandWithASlash(t *testing.T) {
	var w *world
	clients := map[string]oauth.Client{}
	w = newWorld(t, func(o *oauth.Options) { o.Clients = clients })
	clients[w.a.srv.URL+"/"] = oauth.Client{ID: "app-1"}
	l := w.link(local())
	b := w.browser()
	if to := b.press(l.URL, b.get(l.URL)).to; !strings.Contains(to, "client_id=app-1") {
		t.Errorf("sent to %s", to)
	}
}

// TestRefresh_CallerGoesAway breaks off the call that renews: what the server gave must not be lost with it, since the old refresh
// token is spent.
func TestRefresh_CallerGoesAway(t *testing.T) {
	w := newWorld(t, nil)
	w.a.set(func() { w.a.life = 60 })
	c := local()
	w.signIn(c)
	w.pass(2 * time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	w.a.set(func() {
		w.a.token = func(http.ResponseWriter, *http.Request) bool { cancel(); return false }
	})
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.server().URL, strings.NewReader("body"))
	if resp, err := w.s.Client(c.Thread, c.Member, w.server()).Do(req); err == nil {
		_ = resp.Body.Close()
	}
	w.a.set(func() { w.a.token = nil })
	if got, err := w.call(c); err != nil || got != "200 hello body" {
		t.Errorf("the next call: %q, %v", got, err)
	}
}

// TestDiscover_Moved follows a server whose description has another place than when it was first heard of.
func TestDiscover_Moved(t *testing.T) {
	w := newWorld(t, nil)
	w.r.set(func() { w.r.challenge = `Bearer resource_metadata="` + w.r.srv.URL + `/old"` })
	if _, err := w.call(local()); code(err) != schemas.CodeNeeds {
		t.Fatal(err)
	}
	w.r.set(func() { w.r.challenge = "" })
	if _, err := w.s.Link(t.Context(), schemas.SignIn{Caller: local(), Server: w.server()}); code(err) != schemas.CodeMissing {
		t.Errorf("%v", err)
	}
	w.signIn(local())
}

// TestDiscover_Words says what is wrong in words that lead somewhere.
func TestDiscover_Words(t *testing.T) {
	far := httptest.NewServer(http.NotFoundHandler())
	defer far.Close()
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		code   schemas.Code
		text   string
	}{
		"too many requests": {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTooManyRequests) }, schemas.CodeNotReady, "could not be reached"},
		"another host":      {func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, far.URL+"/x", http.StatusFound) }, schemas.CodeFailed, "sends me on to another address"},
		"the same host":     {func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/real", http.StatusFound) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/real" {
					writeJSON(rw, w.r.prm)
					return
				}
				c.answer(rw, r)
			}))
			defer front.Close()
			w.r.challenge = `Bearer resource_metadata="` + front.URL + `/there"`
			_, err := w.s.Offer(t.Context(), local(), w.server())
			if code(err) != c.code || c.text != "" && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestDiscover_ChallengeAtPostOnly is a server that has nothing to get, and whose description is where only its challenge says.
func TestDiscover_ChallengeAtPostOnly(t *testing.T) {
	w := newWorld(t, nil)
	w.r.challenge = `Basic realm="x", Bearer error="invalid_token", scope="write", resource_metadata="` + w.r.srv.URL + `/.well-known/oauth-protected-resource/mcp"`
	w.r.handle = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			rw.WriteHeader(http.StatusMethodNotAllowed)
		}
		return r.Method == http.MethodGet
	}
	o, err := w.s.Offer(t.Context(), local(), w.server())
	if err != nil || strings.Join(o.Scopes, " ") != "write offline_access" {
		t.Errorf("%v, %v", o, err)
	}
}
