package registry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

// TestLoan_EndsWhileACallWaits lets bob's call wait for its turn with the lender's session in hand. Nothing of it may go out there.
func TestLoan_EndsWhileACallWaits(t *testing.T) {
	for name, end := range map[string]func(*accounts, *house){
		"withdrawn": func(a *accounts, h *house) { h.set(one, stuck(), a.entry(nil)); h.apply(one) },
		"by time alone": func(a *accounts, _ *house) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.now = a.now.Add(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, h := newAccounts(t, "ann")
			h.set(one, stuck(), a.entry(&schemas.Loan{Member: "ann", Until: a.now.Add(time.Hour)}))
			h.apply(one)
			if _, err := h.call(as("bob")); err != nil {
				t.Fatal(err)
			}
			free := a.occupy(h, "bob")
			done := make(chan error, 1)
			go func() { _, err := h.call(as("bob")); done <- err }()
			time.Sleep(50 * time.Millisecond) // until it waits; what is asserted holds wherever it is
			end(a, h)
			free()
			wantCode(t, <-done, schemas.CodeNeeds, "/mcp connect web")
			if n := a.count("ann"); n != 1 {
				t.Errorf("%d calls as ann, want the one from before", n)
			}
			if rec := h.journal.last(); rec.Event != schemas.EventRefused || rec.RunsAs != "bob" {
				t.Errorf("%+v", rec)
			}
			h.stop()
		})
	}
}

// TestLoan_EndsForEverything counts on the lender's side: a tool, a list and a resource.
func TestLoan_EndsForEverything(t *testing.T) {
	for name, end := range map[string]func(*accounts, *house){
		"withdrawn": func(a *accounts, h *house) { h.set(one, a.entry(nil)); h.apply(one) },
		"in time":   func(a *accounts, _ *house) { a.mu.Lock(); defer a.mu.Unlock(); a.now = a.now.Add(time.Hour) },
		"left":      func(a *accounts, _ *house) { a.mu.Lock(); defer a.mu.Unlock(); a.left = "carl" },
	} {
		t.Run(name, func(t *testing.T) {
			a, h := newAccounts(t, "carl")
			h.set(one, a.entry(&schemas.Loan{Member: "carl", Until: a.now.Add(time.Hour)}))
			h.apply(one)
			bob := as("bob").Caller
			use := func() (errs []error, found int) {
				_, err := h.call(as("bob"))
				list, listErr := h.Resources(t.Context(), bob)
				_, readErr := h.ReadResource(t.Context(), bob, "web", "file:///a")
				return []error{err, listErr, readErr}, len(list)
			}
			if errs, n := use(); errors.Join(errs...) != nil || n == 0 || a.count("carl") == 0 {
				t.Fatalf("lent: %v, %d resources", errs, n)
			}
			before := a.count("carl")
			end(a, h)
			errs, n := use()
			wantCode(t, errs[0], schemas.CodeNeeds, "/mcp connect web")
			wantCode(t, errs[2], schemas.CodeNeeds, "/mcp connect web")
			if n != 0 || a.count("carl") != before || a.count("bob") != 0 || a.count("ann") != 0 {
				t.Errorf("%d resources, %d requests of carl's more: %v", n, a.count("carl")-before, a.calls)
			}
			h.stop()
		})
	}
}

// TestPoke_StartsWhatWaitedForASignIn and nothing tries again before that.
func TestPoke_StartsWhatWaitedForASignIn(t *testing.T) {
	a, h := newAccounts(t)
	h.set(one, a.entry(nil))
	h.apply(one)
	before := a.tries.Load()
	time.Sleep(1500 * time.Millisecond) // a failed server is tried again after a second
	if st := h.status(one, "web"); st.State != schemas.NeedsConnect || a.tries.Load() != before {
		t.Errorf("%+v, %d requests that nobody asked for", st, a.tries.Load()-before)
	}
	a.sign("ann", true)
	h.Poke(one)
	eventually(t, "it runs", func() bool { return h.status(one, "web").State == schemas.Ready })
	h.stop()
}

// TestLoan_OwnSignInWhileACallWaits goes out with what the member has by then.
func TestLoan_OwnSignInWhileACallWaits(t *testing.T) {
	a, h := newAccounts(t, "ann")
	h.set(one, stuck(), a.entry(&schemas.Loan{Member: "ann"}))
	h.apply(one)
	free := a.occupy(h, "bob")
	done := make(chan schemas.Result, 1)
	go func() { res, _ := h.call(as("bob")); done <- res }()
	time.Sleep(50 * time.Millisecond)
	a.sign("bob", true)
	free()
	if res := <-done; res.RunsAs != "bob" || a.count("ann") != 0 || a.count("bob") != 1 {
		t.Errorf("%+v, %v", res, a.calls)
	}
	h.stop()
}

// stuck is a server that never answers a call.
func stuck() schemas.Entry { return entry("stuck", "stuck") }

// occupy takes the only turn of a member, until free is called.
func (a *accounts) occupy(h *house, m schemas.MemberID) (free func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	c := by(one, "stuck.hang", `{}`)
	c.Caller.Member = m
	done := make(chan struct{})
	go func() { defer close(done); _, _ = h.Call(ctx, c) }()
	eventually(h.t, "the turn is taken", func() bool { return h.servers.saw("tools/call") > 0 })
	return func() { cancel(); <-done }
}

func TestStatus_WhoseSignIn(t *testing.T) {
	a, h := newAccounts(t, "ann")
	noon := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	a.now = noon
	for words, until := range map[string]time.Time{
		"@Ann until 18:00 UTC": noon.Add(6 * time.Hour), "@Ann until 2030-05-18 18:00 UTC": noon.Add(30 * time.Hour), "@Ann": {}, "the one who asks": noon,
	} {
		h.set(one, a.entry(&schemas.Loan{Member: "ann", Name: "Ann", Until: until}))
		h.apply(one)
		if st := h.status(one, "web"); st.RunsAs != words {
			t.Errorf("runs as %q, want %q", st.RunsAs, words)
		}
	}
	h.set(one, a.entry(&schemas.Loan{Member: "ann", Until: noon.Add(time.Hour)}))
	h.apply(one)
	a.mu.Lock()
	a.now = noon.Add(time.Hour) // and nothing else happens
	a.mu.Unlock()
	if st := h.status(one, "web"); st.RunsAs != "the one who asks" {
		t.Errorf("runs as %q after the loan ended", st.RunsAs)
	}
	h.stop()
}

// TestSignedOut_HoldsForTheNextCall keeps the sign-in itself good: the session alone must not be used again.
func TestSignedOut_HoldsForTheNextCall(t *testing.T) {
	for identity, who := range map[string][]schemas.MemberID{"requester": {"ann", "bob"}, "thread": {"ann"}} {
		for _, m := range who {
			a, h := newAccounts(t, "ann", "bob")
			e := a.entry(nil)
			e.Auth.Identity = identity
			h.set(one, approved(e))
			h.apply(one)
			if _, err := h.call(as(m)); err != nil {
				t.Fatal(err)
			}
			before := a.starts(string(m))
			if err := h.SignedOut(t.Context(), one, m, "web"); err != nil {
				t.Fatal(err)
			}
			if _, err := h.call(as(m)); err != nil {
				t.Errorf("%s, %s: %v", identity, m, err)
			}
			if a.starts(string(m)) == before {
				t.Errorf("%s: the session of %s went on", identity, m)
			}
			h.stop()
		}
	}
}

// TestSignedOut_LeavesOthersAlone ends nothing of anybody else, and of no other server.
func TestSignedOut_LeavesOthersAlone(t *testing.T) {
	a, h := newAccounts(t, "ann", "bob")
	h.set(one, a.entry(nil))
	h.apply(one)
	for _, m := range []schemas.MemberID{"ann", "bob"} {
		if _, err := h.call(as(m)); err != nil {
			t.Fatal(err)
		}
	}
	ann, bob := a.starts("ann"), a.starts("bob")
	if err := h.SignedOut(t.Context(), one, "bob", "other"); err != nil {
		t.Fatal(err)
	}
	if err := h.SignedOut(t.Context(), one, "bob", "web"); err != nil {
		t.Fatal(err)
	}
	for _, m := range []schemas.MemberID{"ann", "bob"} {
		if _, err := h.call(as(m)); err != nil {
			t.Fatal(err)
		}
	}
	if a.starts("ann") != ann || a.starts("bob") != bob+1 {
		t.Errorf("started as ann %d times more, as bob %d", a.starts("ann")-ann, a.starts("bob")-bob)
	}
	h.stop()
}

// TestCall_SignInLostAsGuest refuses that member's calls alone, and nobody tries it again by itself.
func TestCall_SignInLostAsGuest(t *testing.T) {
	a, h := newAccounts(t, "ann", "bob")
	h.set(one, a.entry(nil))
	h.apply(one)
	if _, err := h.call(as("bob")); err != nil {
		t.Fatal(err)
	}
	a.sign("bob", false)
	for range 3 {
		_, err := h.call(as("bob"))
		wantCode(t, err, schemas.CodeNeeds)
		if res, err := h.call(as("ann")); err != nil || res.RunsAs != "ann" {
			t.Fatalf("ann's call: %+v %v", res, err)
		}
	}
	if a.count("bob") != 1 || a.count("ann") != 3 {
		t.Errorf("calls %v", a.calls)
	}
	before := a.tries.Load()
	time.Sleep(1500 * time.Millisecond) // a failed server is tried again after a second
	if n := a.tries.Load(); n != before {
		t.Errorf("%d requests that nobody asked for", n-before)
	}
	if st := h.status(one, "web"); st.State != schemas.Ready || st.Why != "" {
		t.Errorf("%+v", st)
	}
	a.sign("bob", true)
	if _, err := h.call(as("bob")); err != nil {
		t.Errorf("after a new sign-in: %v", err)
	}
	h.stop()
}

// TestConnector_ToolsChangeWithoutTheOwner follows the list of the one session that there is.
func TestConnector_ToolsChangeWithoutTheOwner(t *testing.T) {
	var changed atomic.Bool
	before, after := webServer(script{Tools: tools(echoTool())}), webServer(script{Tools: tools(echoTool(), toolJSON("more", readOnly))})
	news := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {
			case <-news:
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
			}
			<-r.Context().Done()
			return
		}
		if changed.Load() {
			after.ServeHTTP(w, r)
			return
		}
		before.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close) // after the house, whose session holds a stream
	h := newHouse(t, nil, func(o *registry.Options) {
		o.Signed = func(_ context.Context, _ schemas.ThreadID, m schemas.MemberID, _ schemas.Server) bool {
			return m == "bob"
		}
		o.Credentials = func(_ schemas.ThreadID, m schemas.MemberID, _ schemas.Server) *http.Client {
			return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if m != "bob" {
					return nil, &schemas.Error{Code: schemas.CodeNeeds, Text: "web needs you to sign in"}
				}
				return srv.Client().Transport.RoundTrip(r)
			})}
		}
	})
	h.set(one, connector("web", srv.URL, func(e *schemas.Entry) { e.Auth = &schemas.Auth{Type: "oauth"} }))
	h.apply(one)
	bob := ann(one)
	bob.Member = "bob"
	if list, err := h.Tools(t.Context(), bob); err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	changed.Store(true)
	close(news)
	eventually(t, "the new tool waits for approval", func() bool {
		return strings.Contains(strings.Join(h.status(one, "web").HeldTools, " "), "more")
	})
	h.stop()
}
