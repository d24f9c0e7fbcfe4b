package oauth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"bobbin/oauth"
	"bobbin/schemas"
)

// TestLogin_AnotherBrowserMeanwhile passes a link on and logs in to Discord with it at the same moment as its victim: the login of one
// browser must not open the link in the other.
func TestLogin_AnotherBrowserMeanwhile(t *testing.T) {
	alice := discord("alice")
	asked, goOn := make(chan struct{}), make(chan struct{})
	var verifiers []string
	platform := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/oauth2/token" {
			verifiers = append(verifiers, r.FormValue("code_verifier"))
			close(asked)
			<-goOn
			writeJSON(rw, map[string]any{"access_token": "platform-token", "token_type": "Bearer"})
			return
		}
		writeJSON(rw, map[string]any{"id": alice.Member})
	}))
	defer platform.Close()
	w := newWorld(t, func(o *oauth.Options) {
		o.Login = &oauth.Login{ID: "app", Secret: "hush", Site: platform.URL, API: platform.URL + "/api", HTTP: platform.Client()}
	})
	l := w.link(alice)
	hers, his := w.browser(), w.browser()
	to, _ := url.Parse(hers.press(l.URL, hers.get(l.URL)).to)
	first := his.get(l.URL)
	end := make(chan answer, 1)
	go func() { end <- hers.get(to.Query().Get("redirect_uri") + "?code=c&state=" + to.Query().Get("state")) }()
	<-asked
	his.press(l.URL, first)
	close(goOn)
	if got := <-end; got.to != "/connect/"+l.ID {
		t.Fatalf("alice sees %d %s", got.status, got.body)
	}
	if got := his.get(l.URL); !strings.Contains(got.body, "Log in with Discord") {
		t.Errorf("the other browser is taken for alice's: %s", got.body)
	}
	// What Discord was told must be worth nothing at the authorization server.
	back := hers.walk(l.URL)
	if !strings.Contains(back.body, "is connected") {
		t.Errorf("alice sees %s", back.body)
	}
	if form := w.a.forms["/token"][0]; form.Get("code_verifier") == verifiers[0] {
		t.Error("one PKCE verifier for two servers")
	}
}

// TestCallback_TwoTabs signs in at two connectors with one browser, one inside the other.
func TestCallback_TwoTabs(t *testing.T) {
	w := newWorld(t, nil)
	c := local()
	b := w.browser()
	one := w.link(c)
	other := w.server()
	other.Name = "other"
	two, err := w.s.Link(t.Context(), schemas.SignIn{Caller: c, Server: other})
	if err != nil {
		t.Fatal(err)
	}
	back := b.get(b.press(one.URL, b.get(one.URL)).to)
	for _, got := range []answer{b.walk(two.URL), b.get(back.to)} {
		if !strings.Contains(got.body, "is connected") {
			t.Errorf("the page says %s", got.body)
		}
	}
}

// TestSignOut_OnTheWay ends sign-ins at every step of their way, for members who had none before.
func TestSignOut_OnTheWay(t *testing.T) {
	edited := func(s schemas.Server) schemas.Server { s.URL += "2"; return s }
	ends := map[string]func(*world, context.Context, schemas.Caller) error{
		"removed": func(w *world, ctx context.Context, c schemas.Caller) error {
			return w.s.SignOutAll(ctx, c.Thread, "notes")
		},
		"deleted": func(w *world, ctx context.Context, c schemas.Caller) error { return w.s.SignOutAll(ctx, c.Thread, "") },
		"edited": func(w *world, ctx context.Context, c schemas.Caller) error {
			return w.s.SignOutOld(ctx, c.Thread, edited(w.server()))
		},
		"left": func(w *world, ctx context.Context, c schemas.Caller) error { return w.s.Leave(ctx, c.Thread, c.Member) },
		"sign out": func(w *world, ctx context.Context, c schemas.Caller) error {
			return w.s.SignOut(ctx, c.Thread, c.Member, w.server())
		},
	}
	for name, end := range ends {
		for who, c := range map[string]schemas.Caller{"here": local(), "far": discord("alice")} {
			t.Run(name+", before the browser "+who, func(t *testing.T) {
				w := newWorld(t, nil)
				l := w.link(c)
				if err := end(w, t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if got := w.browser().get(l.URL); got.status != http.StatusNotFound {
					t.Errorf("the link still opens: %s", got.body)
				}
				w.nothingLeft(c, l)
			})
			t.Run(name+", while the code is exchanged "+who, func(t *testing.T) {
				w := newWorld(t, nil)
				l := w.link(c)
				w.a.token = func(http.ResponseWriter, *http.Request) bool { return end(w, t.Context(), c) != nil }
				if got := w.browser().walk(l.URL); !strings.Contains(got.body, "Not connected") {
					t.Errorf("the page says %s", got.body)
				}
				w.nothingLeft(c, l)
				w.givenBack()
			})
			t.Run(name+", while it goes into the vault "+who, func(t *testing.T) {
				w := newWorld(t, nil)
				l := w.link(c)
				w.safe.before = func(k schemas.SecretKey) {
					if k.Name != "oauth_token" {
						return
					}
					if err := end(w, t.Context(), c); err != nil {
						t.Error(err)
					}
				}
				got := w.browser().walk(l.URL)
				if m := pageCode.FindStringSubmatch(got.body); m != nil {
					if err := w.s.Finish(t.Context(), c, l.ID, m[1]); code(err) != schemas.CodeExpired {
						t.Errorf("%v", err)
					}
				} else if !strings.Contains(got.body, "Not connected") {
					t.Errorf("the page says %s", got.body)
				}
				w.nothingLeft(c, l)
				w.givenBack()
			})
		}
	}
}

func (w *world) nothingLeft(c schemas.Caller, l schemas.Link) {
	w.t.Helper()
	if keys := w.safe.list(func(k schemas.SecretKey) bool { return k.Name == "oauth_token" }); len(keys) > 0 {
		w.t.Errorf("left in the vault: %v", keys)
	}
	if err := w.s.Finish(w.t.Context(), c, l.ID, ""); err == nil {
		w.t.Error("finished")
	}
	select {
	case <-w.done:
		w.t.Error("told as done")
	default:
	}
}

// givenBack lets the sweep run.
func (w *world) givenBack() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cancel()
	_ = w.s.Run(ctx)
	if n := w.a.count("/revoke"); n != 2 {
		w.t.Errorf("%d tokens given back, want refresh and access", n)
	}
}

// TestStore_VaultIsFull loses nothing that stays good elsewhere.
func TestStore_VaultIsFull(t *testing.T) {
	full := &schemas.Error{Code: schemas.CodeInternal, Text: "no room left"}
	w := newWorld(t, nil)
	l := w.link(local())
	w.safe.fail = full
	if got := w.browser().walk(l.URL); !strings.Contains(got.body, "Not connected") || strings.Contains(got.body, "room") {
		t.Errorf("the page says %s", got.body)
	}
	w.nothingLeft(local(), l)
	w.givenBack()

	w = newWorld(t, nil)
	alice := discord("alice")
	l = w.link(alice)
	given := pageCode.FindStringSubmatch(w.browser().walk(l.URL).body)[1]
	w.safe.fail = full
	if err := w.s.Finish(t.Context(), alice, l.ID, given); code(err) != schemas.CodeInternal {
		t.Errorf("%v", err)
	}
	w.safe.fail = nil
	if err := w.s.Finish(t.Context(), alice, l.ID, given); err != nil {
		t.Errorf("the same code, when there is space again: %v", err)
	}
}
