package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

func TestConnect_NoSignIn(t *testing.T) {
	w, d := connectors(t)
	d.wants, d.speaks = "", map[bool]schemas.Transport{false: schemas.SSE}
	yes := w.say(alice(), "/mcp connect "+linear)
	if d.probed+d.offered != 0 {
		t.Fatal("contacted before a yes")
	}
	wantDenied(t, w.press(mallory(), yes, "Connect"), "only @alice can answer this")
	var told []string
	card := w.do(bot.Request{Caller: alice(), Action: &bot.Action{ID: yes.ID, Choice: "connect"}, Progress: func(s string) { told = append(told, s) }})
	want(t, card, "1 added: linear", "calls itself: Linear\\u{202e} (linear) 1.2 (MCP 2025-11-25, sse)", "tools: adds 31 tools, about 6,400 tokens; 12 of them write (tool_00, ", "tool_07, and 23 more)",
		"and: prompts", "sign-in: none", "(sse)", "Confirm only if you trust who runs it", "1) Confirm\n2) Cancel\n3) Show everything")
	want(t, w.press(alice(), card, "Show"), "tool_30 | Does it", "be nice")
	if d.probed != 1 || d.offered != 0 || len(told) == 0 || told[0] != "contacting https://mcp.linear.example …" {
		t.Errorf("probed %d, offered %d, told %q", d.probed, d.offered, told)
	}
	w.press(alice(), card, "Confirm")
	if e, _ := w.cfg.Find("linear"); e.Type != schemas.SSE || e.Auth.Type != "none" {
		t.Errorf("%+v", e)
	}
}

func TestConnect_Key(t *testing.T) {
	w, d := connectors(t)
	d.wants = "key"
	key := w.press(alice(), w.say(alice(), "/mcp connect "+linear), "With an API key")
	again := w.fill(alice(), key, map[string]string{"header": "X-Key", "key": "wrong"})
	want(t, again, "https://mcp.linear.example does not take that key; nothing was added", "key [secret]")
	card := w.fill(alice(), again, map[string]string{"key": canary})
	want(t, card, "sign-in: an API key, in Authorization", "runs as: you, whoever asks", "adds 31 tools")
	if d.offered != 0 {
		t.Error("asked how to sign in although a key was given")
	}
	// A server that names no way to sign in gets to the same form.
	d.wants, d.noOAuth = "oauth", true
	form := w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect")
	want(t, form, "wants a sign-in and names no way to do it by OAuth; an API key works", "key [secret]")
	want(t, w.press(alice(), form, "Leave"), "nothing was added")
}

// signedUp goes to the card of a new connector by way of a sign-in.
func signedUp(t *testing.T, w *world, d *desk) (card bot.Reply) {
	t.Helper()
	offer := w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect")
	link := w.press(alice(), offer, "Sign in")
	d.browser()
	return w.fill(alice(), link, map[string]string{"code": proofCode})
}

func TestConnect_OAuth(t *testing.T) {
	w, d := connectors(t)
	offer := w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect")
	want(t, offer, "linear wants a sign-in", "server: mcp.linear.example", "sign in at: auth.linear.example", `asks for: read, write\u{202e}`, "used by: only you, unless you lend it",
		"You would sign in at auth.linear.example, which is not mcp.linear.example", "1) Sign in\n2) Leave it")
	wantDenied(t, w.press(mallory(), offer, "Sign in"), "only @alice can answer this")
	wantDenied(t, w.press(boss(), offer, "Sign in"), "only @alice can answer this")
	link := w.press(alice(), offer, "Sign in")
	if o := open(link); !link.Private || o.URL != "https://bot.example/connect/link1" || o.Label != "Sign in at auth.linear.example" || link.Form.Fields[0].Kind != "secret" {
		t.Fatalf("link %+v", link)
	}
	if in := d.links["link1"].in; in.Caller.Member != "alice" || in.Server.Auth.Identity != "requester" || len(in.Server.Auth.Scopes) != 0 || in.Shared != "only you, unless you lend it" || in.Device {
		t.Errorf("%+v", in)
	}
	wantDenied(t, w.fill(mallory(), link, map[string]string{"code": proofCode}), "only @alice can answer this")
	early := w.fill(alice(), link, map[string]string{"code": proofCode})
	want(t, early, "not done in the browser yet", "code [secret]")
	wantCode(t, early, schemas.CodeNeeds)
	if open(early).URL != open(link).URL {
		t.Error("the link is gone from the card that asks again")
	}
	d.browser()
	card := w.fill(alice(), early, map[string]string{"code": " " + proofCode + " "})
	want(t, card, "1 added: linear", "sign-in: each member with their own account at auth.linear.example", "asks for: read", "runs as: the one who asks", "adds 31 tools", "each call runs as the one who asks")
	want(t, w.press(alice(), card, "Confirm"), "linear is ready")
	e, _ := w.cfg.Find("linear")
	if !d.Signed(t.Context(), thread, "alice", e.Server) || e.Auth.Type != "oauth" || len(d.out) > 0 {
		t.Errorf("%+v, signed out %v", e, d.out)
	}
	noCode(t, w)
}

func TestConnect_SameHostNeedsNoWarning(t *testing.T) {
	w, d := connectors(t)
	d.issuer = "https://mcp.linear.example"
	wantNot(t, w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect"), "which is not")
}

func TestConnect_Cancelled(t *testing.T) {
	w, d := connectors(t)
	want(t, w.press(alice(), signedUp(t, w, d), "Cancel"), "cancelled; nothing was changed", "@alice is signed out again")
	if len(d.signed) != 0 || len(d.out) != 1 || len(w.cfg.Entries) != 0 {
		t.Errorf("signed %v, out %v", d.signed, d.out)
	}
	card := signedUp(t, w, d)
	w.press(boss(), card, "Cancel") // a manager ends the change; the sign-in was the asker's
	if d.out[1] != "alice linear" || len(d.signed) != 0 {
		t.Errorf("out %v", d.out)
	}
	d.fail["SignOut"] = errors.New("no route")
	want(t, w.press(alice(), signedUp(t, w, d), "Cancel"), "could not be ended; end it in your account at auth.linear.example")
}

// A card that nobody answers leaves no sign-in behind.
func TestConnect_Forgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := connectors(t, func(o *bot.Options) { o.Now = time.Now })
		w.now = time.Now()
		ctx, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.bot.Run(ctx) })
		signedUp(t, w, d)
		is := func(when string, signed, out int) {
			t.Helper()
			synctest.Wait()
			if s, o := d.counts(); s != signed || o != out {
				t.Errorf("%s: %d sign-ins, %d ended", when, s, o)
			}
		}
		time.Sleep(9 * time.Minute)
		is("the card is open", 1, 0)
		time.Sleep(5 * time.Minute)
		is("the card is over", 0, 1)
		w.press(alice(), signedUp(t, w, d), "Confirm")
		time.Sleep(time.Hour)
		is("the card was confirmed", 1, 1)
		end()
		wg.Wait()
	})
}

func TestConnect_StaleCard(t *testing.T) {
	w, d := connectors(t)
	card := signedUp(t, w, d)
	w.bump()
	again := w.press(alice(), card, "Confirm")
	want(t, again, "the config changed meanwhile", "adds 31 tools", "sign-in: each member")
	wantCode(t, again, schemas.CodeConflict)
	want(t, w.press(alice(), card, "Confirm"), "no longer open")
	w.press(alice(), again, "Confirm")
	if len(w.cfg.Entries) != 1 || len(d.signed) != 1 {
		t.Errorf("entries %v, signed %v", w.cfg.Entries, d.signed)
	}
}

func TestConnect_WrongCodeThrice(t *testing.T) {
	w, d := connectors(t)
	r := w.press(alice(), w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect"), "Sign in")
	d.browser()
	for _, words := range []string{"2 tries are left", "1 tries are left"} {
		r = w.fill(alice(), r, map[string]string{"code": "AAAA-AAAA"})
		want(t, r, words, "code [secret]")
		wantNot(t, r, "AAAA")
		wantCode(t, r, schemas.CodeInvalid)
	}
	r = w.fill(alice(), r, map[string]string{"code": "AAAA-AAAA"})
	want(t, r, "for the third time", "1) Sign in again")
	wantCode(t, r, schemas.CodeExpired)
	if r.Form != nil || len(d.signed) != 0 {
		t.Error("it goes on")
	}
	r = w.press(alice(), r, "Sign in again")
	d.browser()
	want(t, w.fill(alice(), r, map[string]string{"code": proofCode}), "1 added: linear")
	noCode(t, w)
}

func TestConnect_Expired(t *testing.T) {
	w, d := connectors(t)
	link := w.press(alice(), w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect"), "Sign in")
	w.now = w.now.Add(16 * time.Minute)
	late := w.fill(alice(), link, map[string]string{"code": proofCode})
	want(t, late, "no longer open")
	wantCode(t, late, schemas.CodeExpired)
	link = w.press(alice(), w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect"), "Sign in")
	delete(d.links, "link2")
	want(t, w.fill(alice(), link, map[string]string{"code": proofCode}), "this sign-in is over", "Sign in again")
	if len(d.signed) != 0 {
		t.Error("signed in")
	}
}

func TestConnect_Device(t *testing.T) {
	w, d := connectors(t)
	d.device = true
	wantNot(t, w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect"), "another device") // she is not the operator
	r := w.press(boss(), w.press(boss(), w.say(boss(), "/mcp connect "+linear), "Connect"), "Sign in on another device")
	want(t, r, "type WDJB-MJHT", "1) I am done\n2) Leave it")
	if !r.Private || open(r).URL != "https://auth.linear.example/device" || !d.links["link1"].in.Device {
		t.Errorf("%+v", r)
	}
	r = w.press(boss(), r, "I am done")
	want(t, r, "not done in the browser yet", "type WDJB-MJHT")
	d.browser()
	want(t, w.press(boss(), r, "I am done"), "1 added: linear")
}

func TestConnect_Stuck(t *testing.T) {
	w, d := connectors(t)
	d.fail["Probe"] = &schemas.Error{Code: schemas.CodeNotReady, Text: "mcp.linear.example could not be reached"}
	r := w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect")
	want(t, r, "could not be reached", "1) Try again\n2) Leave it")
	wantCode(t, r, schemas.CodeNotReady)
	delete(d.fail, "Probe")
	d.fail["Offer"] = errors.New("raw")
	r = w.press(alice(), r, "Try again")
	want(t, r, "reference", "1) Try again\n2) With an API key\n3) Leave it")
	delete(d.fail, "Offer")
	r = w.press(alice(), r, "Try again")
	d.fail["Link"] = &schemas.Error{Code: schemas.CodeMissing, Text: "signing in needs an address of mine", Hint: "an API key works without it"}
	stuck := w.press(alice(), r, "Sign in")
	want(t, stuck, "needs an address of mine · an API key works", "1) With an API key\n2) Leave it")
	want(t, w.press(alice(), stuck, "With an API key"), "API key for", "key [secret]")
	d.fail["Link"] = &schemas.Error{Code: schemas.CodeNotReady, Text: "auth.example could not be reached"}
	r = w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect")
	stuck = w.press(alice(), r, "Sign in")
	want(t, stuck, "could not be reached", "1) Sign in again\n2) Leave it")
	delete(d.fail, "Link")
	link := w.press(alice(), stuck, "Sign in again")
	d.browser()
	d.fail["Probe"] = &schemas.Error{Code: schemas.CodeFailed, Text: "it says nothing"}
	r = w.fill(alice(), link, map[string]string{"code": proofCode})
	want(t, r, "it says nothing", "1) Try again\n2) Sign in again\n3) Leave it")
	want(t, w.press(alice(), r, "Leave"), "nothing was added", "signed out again")
	if len(d.signed) != 0 {
		t.Error("the sign-in stays")
	}
}

// A sign-in is bound to a definition: another transport than the one it was made for wants it anew.
func TestConnect_OtherTransport(t *testing.T) {
	w, d := connectors(t)
	d.speaks = map[bool]schemas.Transport{true: schemas.SSE}
	r := signedUp(t, w, d)
	want(t, r, "speaks another transport", "1) Sign in")
	link := w.press(alice(), r, "Sign in")
	d.browser()
	w.press(alice(), w.fill(alice(), link, map[string]string{"code": proofCode}), "Confirm")
	if e, _ := w.cfg.Find("linear"); e.Type != schemas.SSE || !d.Signed(t.Context(), thread, "alice", e.Server) || len(d.signed) != 1 {
		t.Errorf("%+v", e)
	}
}

func TestConnect_NotPartOfThisSetup(t *testing.T) {
	w, d := connectors(t, func(o *bot.Options) { o.SignIns, o.Accounts, o.Loans, o.Revoke = nil, nil, nil, nil })
	want(t, w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect"), "signing in by OAuth is not part of this setup; an API key works", "key [secret]")
	d.listed()
	want(t, w.say(alice(), "/mcp connect linear"), "signing in by OAuth is not part of this setup")
	want(t, w.say(alice(), "/mcp list"), "linear")
	if err := w.bot.Left(t.Context(), thread, "alice"); err != nil {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("half of the sign-ins is a mistake in the wiring")
		}
	}()
	connectors(t, func(o *bot.Options) { o.Accounts = nil })
}

// Somebody else's server is not signed in to under its name before the change could be made at all.
func TestConnect_NameOfAnother(t *testing.T) {
	w, d := connectors(t)
	d.listed()
	r := w.say(mallory(), "/mcp connect https://evil.example/mcp linear")
	want(t, r, "only @alice can change linear")
	want(t, w.say(alice(), "/mcp connect "+linear+" linear"), "you are not signed in to linear", "1) Connect yours")
	edited := w.fill(alice(), w.say(alice(), "/mcp edit linear"), map[string]string{"url": "https://mcp.linear.example/v2"})
	want(t, edited, "sign-ins: everybody must sign in again")
	if len(d.old) != 0 {
		t.Error("ended before Confirm")
	}
	w.press(alice(), edited, "Confirm")
	if len(d.old) != 1 || d.old[0] != "linear https://mcp.linear.example/v2" {
		t.Errorf("ended: %v", d.old)
	}
}

// wantDenied is the refusal of a foreign press: private, and nothing but it.
func wantDenied(t *testing.T, r bot.Reply, words string) {
	t.Helper()
	wantCode(t, r, schemas.CodeDenied)
	want(t, r, words)
	if !r.Private || len(r.Blocks) != 1 || r.Form != nil || len(r.Choices) > 0 || r.ID != "" {
		t.Errorf("a foreign press shows more than a refusal: %+v", r)
	}
}

// noCode fails when a code of the page is in a reply, record or log.
func noCode(t *testing.T, w *world) {
	t.Helper()
	js, _ := json.Marshal([]any{w.replies, w.records})
	if strings.Contains(string(js)+w.log.String(), proofCode) || strings.Contains(string(js)+w.log.String(), "AAAA-AAAA") {
		t.Errorf("a code in\n%s\n%s", js, w.log.String())
	}
}
