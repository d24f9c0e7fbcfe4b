package registry_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

// accounts is a connector whose requests carry the name of the member they act as, and who is signed in.
type accounts struct {
	mu     sync.Mutex
	signed map[schemas.MemberID]bool
	calls  map[string]int // tools/call and requests for resources by whose credentials
	begun  map[string]int // the same of initialize
	tries  atomic.Int64   // requests, also those that its sign-in refuses
	now    time.Time
	left   schemas.MemberID // who is not in the thread any more
	srv    *httptest.Server
}

func newAccounts(t *testing.T, signed ...schemas.MemberID) (*accounts, *house) {
	a := &accounts{signed: map[schemas.MemberID]bool{}, calls: map[string]int{}, begun: map[string]int{}, now: time.Now()}
	for _, m := range signed {
		a.signed[m] = true
	}
	mcp := webServer(script{Tools: tools(echoTool()), Abilities: `,"resources":{},"prompts":{}`})
	a.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		a.mu.Lock()
		if strings.Contains(string(body), `"tools/call"`) || strings.Contains(string(body), `"resources/`) {
			a.calls[r.Header.Get("Authorization")]++
		}
		if strings.Contains(string(body), `"initialize"`) {
			a.begun[r.Header.Get("Authorization")]++
		}
		a.mu.Unlock()
		mcp.ServeHTTP(w, r)
	}))
	t.Cleanup(a.srv.Close)
	h := newHouse(t, map[string]script{"stuck": {Tools: tools(toolJSON("hang", readOnly))}}, func(o *registry.Options) {
		o.PerMember = 1
		o.Now = func() time.Time { a.mu.Lock(); defer a.mu.Unlock(); return a.now }
		o.Signed = func(_ context.Context, _ schemas.ThreadID, m schemas.MemberID, _ schemas.Server) bool { return a.is(m) }
		o.Here = func(_ context.Context, _ schemas.ThreadID, m schemas.MemberID) bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return m != a.left
		}
		o.Credentials = func(_ schemas.ThreadID, m schemas.MemberID, _ schemas.Server) *http.Client {
			return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				a.tries.Add(1)
				if !a.is(m) {
					return nil, &schemas.Error{Code: schemas.CodeNeeds, Text: "web needs you to sign in"}
				}
				r.Header.Set("Authorization", string(m))
				return a.srv.Client().Transport.RoundTrip(r)
			})}
		}
	})
	return a, h
}

func (a *accounts) is(m schemas.MemberID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.signed[m]
}

func (a *accounts) sign(m schemas.MemberID, in bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signed[m] = in
}

func (a *accounts) count(m string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[m]
}

func (a *accounts) starts(m string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun[m]
}

func (a *accounts) entry(l *schemas.Loan) schemas.Entry {
	return connector("web", a.srv.URL, func(e *schemas.Entry) { e.Auth, e.Loan = &schemas.Auth{Type: "oauth"}, l })
}

func as(m schemas.MemberID) schemas.Call {
	c := by(one, "web.echo", `{}`)
	c.Caller.Member = m
	return c
}

func TestLoan_ServesThoseWhoHaveNone(t *testing.T) {
	a, h := newAccounts(t, "ann", "carl")
	until := a.now.Add(time.Hour)
	h.set(one, a.entry(&schemas.Loan{Member: "ann", Name: "Ann", Until: until}))
	h.apply(one)
	if st := h.status(one, "web"); !strings.HasPrefix(st.RunsAs, "@Ann until ") {
		t.Errorf("runs as %q", st.RunsAs)
	}
	for m, want := range map[schemas.MemberID]schemas.MemberID{"bob": "ann", "carl": "carl", "ann": "ann"} {
		if res, err := h.call(as(m)); err != nil || res.RunsAs != want {
			t.Errorf("%s: as %s, %v", m, res.RunsAs, err)
		}
	}
	if rec := h.journal.last(); rec.RunsAs == "" {
		t.Errorf("the record does not say as whom: %+v", rec)
	}
	// By time alone, without any event.
	a.mu.Lock()
	a.now = until
	before := a.calls["ann"]
	a.mu.Unlock()
	_, err := h.call(as("bob"))
	wantCode(t, err, schemas.CodeNeeds, "/mcp connect web")
	if a.count("ann") != before {
		t.Error("a call went out with a loan that had ended")
	}
	h.stop()
}

func TestLoan_WithdrawnHoldsForTheNextCall(t *testing.T) {
	a, h := newAccounts(t, "ann")
	h.set(one, a.entry(&schemas.Loan{Member: "ann"}))
	h.apply(one)
	if _, err := h.call(as("bob")); err != nil {
		t.Fatal(err)
	}
	h.set(one, a.entry(nil))
	h.apply(one)
	_, err := h.call(as("bob"))
	wantCode(t, err, schemas.CodeNeeds, "/mcp connect web")
	if n := a.count("ann"); n != 1 {
		t.Errorf("%d calls as ann, want the one before", n)
	}
	if _, err := h.call(as("ann")); err != nil {
		t.Errorf("the lender's own session ended, too: %v", err)
	}
	h.stop()
}

// TestLoan_OfAMemberWhoIsNotTheOwner is lent by a guest of the connector.
func TestLoan_OfAMemberWhoIsNotTheOwner(t *testing.T) {
	a, h := newAccounts(t, "carl")
	h.set(one, a.entry(&schemas.Loan{Member: "carl"}))
	h.apply(one)
	if res, err := h.call(as("bob")); err != nil || res.RunsAs != "carl" {
		t.Errorf("%+v %v", res, err)
	}
	if a.count("ann") != 0 || a.count("carl") != 1 {
		t.Errorf("%v", a.calls)
	}
	h.stop()
}

func TestConnector_ToolsOfWhoeverIsSignedIn(t *testing.T) {
	a, h := newAccounts(t)
	h.set(one, a.entry(nil))
	h.apply(one) // the owner, ann, has no sign-in
	a.sign("bob", true)
	bob := as("bob").Caller
	list, err := h.Tools(t.Context(), bob)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	if res, err := h.call(as("bob")); err != nil || res.RunsAs != "bob" {
		t.Errorf("%+v %v", res, err)
	}
	_, err = h.call(as("ann"))
	wantCode(t, err, schemas.CodeNeeds)
	h.stop()
}

func TestSignedOut_EndsTheSession(t *testing.T) {
	a, h := newAccounts(t, "ann", "bob")
	h.set(one, a.entry(nil))
	h.apply(one)
	for _, m := range []schemas.MemberID{"ann", "bob"} {
		if _, err := h.call(as(m)); err != nil {
			t.Fatal(err)
		}
		a.sign(m, false)
		if err := h.SignedOut(t.Context(), one, m, "web"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a call without a sign-in is refused", func() bool {
			_, err := h.call(as(m))
			return schemas.CodeOf(err) == schemas.CodeNeeds
		})
	}
	h.stop()
}

// TestCall_SignInLostInTheMiddle refuses one call; the session and other calls go on.
func TestCall_SignInLostInTheMiddle(t *testing.T) {
	a, h := newAccounts(t, "ann")
	h.set(one, a.entry(nil))
	h.apply(one)
	a.sign("ann", false)
	_, err := h.call(as("ann"))
	wantCode(t, err, schemas.CodeNeeds, "needs you to sign in")
	if rec := h.journal.last(); rec.Outcome != schemas.OutcomeNotRun {
		t.Errorf("outcome %q", rec.Outcome)
	}
	a.sign("ann", true)
	if _, err := h.call(as("ann")); err != nil {
		t.Error(err)
	}
	if st := h.status(one, "web"); st.State != schemas.Ready {
		t.Errorf("%+v", st)
	}
	h.stop()
}

func TestCall_NullIsNotGiven(t *testing.T) {
	tool := json.RawMessage(`{"name":"set","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"},"c":{"type":["string","null"]}},"required":["a"]}}`)
	h := newHouse(t, map[string]script{"x": {Tools: tools(tool)}})
	h.set(one, entry("x", "x"))
	h.apply(one)
	for args, want := range map[string]string{
		`{"a":"1","b":null}`:          `{"a":"1"}`,
		`{"a":"1","b":true,"c":null}`: `{"a":"1","b":true,"c":null}`, // the schema has a place for it
	} {
		if res, err := h.call(by(one, "x.set", args)); err != nil || text(t, res) != want {
			t.Errorf("%s: %s %v", args, res.Raw, err)
		}
	}
	if _, err := h.call(by(one, "x.set", `{"a":null}`)); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Errorf("null for a required argument: %v", err)
	}
	h.stop()
}
