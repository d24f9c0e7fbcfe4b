package main

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/bot/discord/discordtest"
)

// inside is an address of a private network that exists in the test's own network only.
const inside = "10.99.0.1"

// ownNetwork runs the test once more in a network of its own, where servers may have addresses that are not loopback: members on
// Discord reach no loopback. It reports whether this is that run.
func ownNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv("BOBBIN_NETWORK") != "" {
		return true
	}
	if out, err := exec.Command("unshare", "-rn", "true").CombinedOutput(); err != nil {
		missing(t, "no network of its own for the test: "+string(out))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := "ip link set lo up && ip addr add " + inside + "/24 dev lo && exec '" + self + "' -test.run '^" + t.Name() + "$' -test.v -test.timeout 5m"
	cmd := exec.Command("unshare", "-rn", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "BOBBIN_NETWORK=own")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// TestDiscord_Connect connects a server that wants a sign-in, as members on Discord do: links of their own, a code that comes back,
// and a loan that ends when its member leaves.
func TestDiscord_Connect(t *testing.T) {
	long(t)
	linuxOnly(t)
	if !ownNetwork(t) {
		return
	}
	notes := startResourceServer(t, inside)
	as := &authorizationServer{}
	notes.issuer = func() string { return as.url }
	as = startAuthorizationServer(t, inside, notes.url+"/mcp")

	var behind atomic.Pointer[url.URL] // bobbin, once it listens
	public := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind.Load()) }})
	defer public.Close()
	w := newTown(t, discordtest.Options{})
	p := serveDiscord(t, w.f, t.TempDir(), "--public-url", public.URL, "--allow-internal", notes.url, "--allow-internal", as.url)
	at, err := url.Parse(p.hear(`(http://127\.0\.0\.1:\d+)/`)[1])
	if err != nil {
		t.Fatal(err)
	}
	behind.Store(at)
	code := func(link, account string) string {
		t.Helper()
		page, err := newBrowser(public.Client().Transport).walk(t.Context(), link, map[string]string{"login": account, "password": "any"})
		m := output.FindStringSubmatch(page)
		if err != nil || m == nil {
			t.Fatalf("%v, the page says %s", err, page)
		}
		return m[1]
	}
	link := func(s *seat) string {
		t.Helper()
		for _, m := range slices.Backward(s.Messages()) {
			for _, b := range m.Buttons {
				if strings.HasPrefix(b.URL, public.URL+"/connect/") {
					if !m.Ephemeral {
						t.Errorf("everybody sees the link:\n%s", m.Text)
					}
					return b.URL
				}
			}
		}
		t.Fatalf("no link\n%s", clip(s.Transcript()))
		return ""
	}

	shows(t, "the first yes", w.ann.Slash("mcp connect", map[string]any{"url": notes.url + "/mcp", "name": "notes"}).Done(), "Nothing has been sent to it yet")
	if as.count("/.well-known/oauth-authorization-server") != 0 {
		t.Error("somebody was contacted before a yes")
	}
	shows(t, "who is asked", w.ann.choose("Connect"), "notes wants a sign-in", `sign in at.*`+regexp.QuoteMeta(strings.TrimPrefix(as.url, "http://")))
	w.ann.Press("Sign in").Done()
	mine := link(w.ann)
	right := code(mine, "ann-at-notes")
	wrong := w.ann.Press("Finish").Wait()
	shows(t, "a wrong code", w.ann.Submit(wrong.Modal, "AAAA-AAAA").Done(), "not the code", "two tries are left")
	shows(t, "the card", w.ann.Submit(w.ann.Press("Finish").Wait().Modal, right).Done(), "adds 2 tools", "each member with their own account")
	shows(t, "confirm", w.ann.choose("Confirm"), "notes is ready")
	shows(t, "ann's call", w.ann.run("/mcp call notes.whoami {}").Done(), "whoami as ann-at-notes")

	shows(t, "bob's call", w.bob.run("/mcp call notes.whoami {}").Done(), "notes needs you to sign in")
	if strings.Contains(w.ann.Transcript(), "needs you to sign in") {
		t.Errorf("ann sees what bob lacks:\n%s", w.ann.Transcript())
	}
	w.bob.Press("Connect yours").Done()
	theirs := link(w.bob)
	_ = code(theirs, "a-victim") // bob passes the link on; the one who signs in gets the code, and bob does not
	shows(t, "bob without the code", w.bob.Submit(w.bob.Press("Finish").Wait().Modal, "BBBB-BBBB").Done(), "not the code")
	shows(t, "ann with bob's card", w.ann.run("/mcp call notes.whoami {}").Done(), "whoami as ann-at-notes")
	w.bob.Press("Leave it").Done()
	shows(t, "bob's call again", w.bob.run("/mcp call notes.whoami {}").Done(), "notes needs you to sign in")
	w.bob.Press("Connect yours").Done()
	done := w.bob.Submit(w.bob.Press("Finish").Wait().Modal, code(link(w.bob), "bob-at-notes")).Done()
	shows(t, "what waited", done, "what waited for it went on", "whoami as bob-at-notes")

	// Ann's account is not bob's to lend; he lends his own, and carl uses it until bob leaves.
	carlUser := w.f.User("carl")
	carl := newSeat(t, w.f, carlUser, w.thread)
	shows(t, "bob's connector", w.bob.Slash("mcp connect", map[string]any{"url": "notes"}).Done(), "you are signed in to notes")
	w.bob.Choose("Lend mine: until I withdraw").Done()
	shows(t, "lend", w.bob.choose("Lend it"), "is lent until it is withdrawn")
	shows(t, "carl's call", carl.run("/mcp call notes.whoami {}").Done(), "whoami as bob-at-notes", "as @bob")
	w.guild.Leave(w.bob.user)
	revoked := as.count("/token/revocation")
	if !eventually(60*time.Second, func() bool {
		return strings.Contains(carl.run("/mcp call notes.whoami {}").Done(), "needs you to sign in")
	}) {
		t.Errorf("a loan outlives its member\n%s", clip(carl.Transcript()))
	}
	if !eventually(10*time.Second, func() bool { return as.count("/token/revocation") > revoked }) {
		t.Error("nothing was revoked when bob left")
	}
	shows(t, "remove", w.ann.run("/mcp remove notes").Done(), "everybody's are ended")
	shows(t, "removed", w.ann.choose("Confirm"), "notes is removed")
	if bad := w.f.Inert(); len(bad) > 0 {
		t.Errorf("%q", bad)
	}
	if bad := w.f.Violations(); len(bad) > 0 {
		t.Errorf("%q", bad)
	}
	if all := p.all(); strings.Contains(all, right) {
		t.Error("a code is in the log")
	}
}
