package bot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// unsigned is what the registry says to a caller without a sign-in.
func unsigned() error {
	return &schemas.Error{Code: schemas.CodeNeeds, Text: "linear needs you to sign in", Hint: "`/mcp connect linear`"}
}

// mallory, a member like any other, calls a connector that alice brought and signed in to.
func calling(t *testing.T) (*world, *desk, bot.Reply) {
	t.Helper()
	w, d := connectors(t)
	s := d.listed(schemas.Tool{Name: "list", ReadOnly: true}, schemas.Tool{Name: "make", Writes: true})
	d.enter("alice", s)
	w.result = issues(t).result
	w.result.RunsAs = "mallory"
	w.failWith["Call"] = unsigned()
	r := w.say(mallory(), `/mcp call linear.make {"title":"x"}`)
	return w, d, r
}

func TestCall_WaitsForSignIn(t *testing.T) {
	w, d, r := calling(t)
	want(t, r, "linear needs you to sign in", "its calls run as the one who asks", "1) Connect yours\n2) Not now")
	wantNot(t, r, "alice")
	wantCode(t, r, schemas.CodeNeeds)
	if !r.Private {
		t.Error("others see it")
	}
	wantDenied(t, w.press(alice(), r, "Connect yours"), "only @mallory can answer this")
	link := w.press(mallory(), r, "Connect yours")
	want(t, link, "sign in to linear at auth.linear.example", "used by: only you, unless you lend it")
	wantDenied(t, w.fill(alice(), link, map[string]string{"code": proofCode}), "only @mallory can answer this")
	delete(w.failWith, "Call")
	d.browser()
	n := len(w.calls)
	done := w.fill(mallory(), link, map[string]string{"code": proofCode})
	want(t, done, "you are signed in to linear; what waited for it went on", "created issue 42", "as you")
	if len(w.calls) != n+1 || string(w.calls[n].Args) != `{"title":"x"}` || w.calls[n].Caller.Member != "mallory" || w.calls[n].Tool != "linear.make" {
		t.Errorf("%+v", w.calls)
	}
	// It went on once: another sign-in finds nothing that waits.
	link = w.press(mallory(), w.say(mallory(), "/mcp connect linear"), "Sign in again")
	d.browser()
	want(t, w.fill(mallory(), link, map[string]string{"code": proofCode}), "you are signed in to linear; calls run as you")
	if len(w.calls) != n+1 {
		t.Error("called twice")
	}
	noCode(t, w)
}

func TestCall_SignInOfAnotherRunsNothing(t *testing.T) {
	w, d, _ := calling(t)
	delete(w.failWith, "Call")
	n := len(w.calls)
	link := w.press(alice(), w.say(alice(), "/mcp connect linear"), "Sign in again")
	d.browser()
	wantNot(t, w.fill(alice(), link, map[string]string{"code": proofCode}), "went on")
	if len(w.calls) != n {
		t.Error("alice's sign-in ran mallory's call")
	}
}

// A connector that is edited or removed while its member signs in: the next sign-in is to what it is by then, or to nothing.
func TestCall_SignInWhileEdited(t *testing.T) {
	w, d, r := calling(t)
	link := w.press(mallory(), r, "Connect yours")
	now := w.cfg.Entries[0].Server
	now.URL += "/v2"
	w.cfg.Entries[0].Server, w.cfg.Entries[0].Approval.Definition, w.cfg.Entries[0].Approval.Fingerprint = now, now, now.Fingerprint()
	clear(d.links) // as the edit ends them
	over := w.fill(mallory(), link, map[string]string{"code": proofCode})
	want(t, over, "this sign-in is over", "Sign in again")
	again := w.press(mallory(), over, "Sign in again")
	if got := d.links["link2"]; got == nil || got.in.Server.URL != now.URL {
		t.Errorf("the next link is for %+v", got)
	}
	clear(d.links)
	w.cfg.Entries = nil
	over = w.fill(mallory(), again, map[string]string{"code": proofCode})
	gone := w.press(mallory(), over, "Sign in again")
	wantCode(t, gone, schemas.CodeNotFound)
	if len(d.links) != 0 {
		t.Error("a link to a connector that is removed")
	}
}

func TestCall_NotNowAndTooLate(t *testing.T) {
	for name, meanwhile := range map[string]func(*world, bot.Reply){
		"not now":  func(w *world, r bot.Reply) { want(w.t, w.press(mallory(), r, "Not now"), "nothing was called") },
		"too late": func(w *world, _ bot.Reply) { w.now = w.now.Add(11 * time.Minute) },
		"left it":  func(w *world, r bot.Reply) { w.press(mallory(), w.press(mallory(), r, "Connect yours"), "Leave") },
	} {
		t.Run(name, func(t *testing.T) {
			w, d, r := calling(t)
			meanwhile(w, r)
			delete(w.failWith, "Call")
			n := len(w.calls)
			link := w.press(mallory(), w.say(mallory(), "/mcp connect linear"), "Connect yours")
			d.browser()
			w.fill(mallory(), link, map[string]string{"code": proofCode})
			if len(w.calls) != n {
				t.Error("a call that was given up ran")
			}
		})
	}
}

// What a connector offers is known to nobody before the first sign-in; resources and prompts wait like tools.
func TestCall_UnlistedResourcePrompt(t *testing.T) {
	w, d := connectors(t)
	d.listed()
	w.state["linear"] = schemas.Status{State: schemas.NeedsConnect}
	w.prompts = []schemas.Prompt{{Server: "linear", Name: "triage"}}
	w.failWith["ReadResource"], w.failWith["Prompt"] = unsigned(), unsigned()
	for line, words := range map[string]string{"call linear.make {}": "created issue 42", "call @linear:x://1": "read x://1 of linear", "prompt linear.triage": "map[]"} {
		r := w.say(mallory(), "/mcp "+line)
		want(t, r, "linear needs you to sign in", "Connect yours")
		link := w.press(mallory(), r, "Connect yours")
		d.browser()
		fails := w.failWith
		w.failWith, w.toolsOf["linear"] = map[string]error{}, []schemas.Tool{{Server: "linear", Name: "make", Kind: schemas.Connector}}
		w.result = issues(t).result
		want(t, w.fill(mallory(), link, map[string]string{"code": proofCode}), "what waited for it went on", words)
		w.failWith, w.toolsOf["linear"] = fails, nil
		d.signed = map[string]schemas.Server{}
	}
	// A value that is missing is another matter.
	w.failWith["ReadResource"] = &schemas.Error{Code: schemas.CodeNeeds, Text: "linear needs KEY"}
	wantNot(t, w.say(mallory(), "/mcp call @linear:x://1"), "Connect yours")
}

// A browser that proves whose it is ends the sign-in by itself: the call goes on once, whoever is first.
func TestSignedIn(t *testing.T) {
	for name, pressed := range map[string]bool{"by itself": false, "I am done, too": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, d, r := calling(t)
				d.proof = schemas.ProofLogin
				ctx, end := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { _ = w.bot.Run(ctx) })
				synctest.Wait()
				hers, stop := w.bot.Subscribe(thread, "mallory")
				defer stop()
				others, stopOthers := w.bot.Subscribe(thread, "alice")
				defer stopOthers()
				link := w.press(mallory(), r, "Connect yours")
				want(t, link, "1) I am done\n2) Leave it")
				early := w.press(mallory(), link, "I am done")
				want(t, early, "not done in the browser yet")
				delete(w.failWith, "Call")
				n := len(w.calls)
				w.bot.SignedIn(t.Context(), thread, "alice", "link1") // not hers
				w.bot.SignedIn(t.Context(), "T2", "mallory", "link1")
				w.bot.SignedIn(t.Context(), thread, "mallory", "link9")
				synctest.Wait()
				if len(w.calls) != n {
					t.Fatal("a foreign end ran the call")
				}
				if pressed {
					wg.Go(func() { w.press(mallory(), early, "I am done") })
				}
				d.browser()
				synctest.Wait()
				if len(w.calls) != n+1 {
					t.Errorf("%d calls", len(w.calls)-n)
				}
				said := 0
				for len(hers) > 0 {
					if got := <-hers; strings.Contains(flat(got.Reply), "what waited for it went on") {
						said++
						if got.To != "mallory" || !got.Reply.Private || got.Reply.Replace != early.ID {
							t.Errorf("%+v", got)
						}
					}
				}
				if !pressed && said != 1 {
					t.Errorf("told %d times", said)
				}
				for len(others) > 0 {
					if got := <-others; len(got.Reply.Blocks) > 0 {
						t.Errorf("others hear %s", flat(got.Reply))
					}
				}
				end()
				wg.Wait()
			})
		})
	}
}

// Who turned away from a new connector is signed out when the browser ends it after all; without a door, "I am done" goes on.
func TestSignedIn_LeftAndUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := connectors(t)
		d.proof = schemas.ProofHere
		ctx, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.bot.Run(ctx) })
		synctest.Wait()
		begin := func() bot.Reply {
			return w.press(alice(), w.press(alice(), w.say(alice(), "/mcp connect "+linear), "Connect"), "Sign in")
		}
		w.press(alice(), begin(), "Leave")
		d.browser()
		synctest.Wait()
		if len(d.signed) != 0 || len(d.out) != 1 {
			t.Errorf("signed %v, out %v", d.signed, d.out)
		}
		unheard := begin()
		d.browser()
		synctest.Wait()
		want(t, w.press(alice(), unheard, "I am done"), "1 added: linear")
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		link, probed := begin(), d.probed
		d.browser()
		d.browser() // told twice
		synctest.Wait()
		var card bot.Reply
		for len(ch) > 0 {
			if n := <-ch; n.Reply.ID != "" {
				card = n.Reply
			}
		}
		if wantCode(t, w.press(alice(), link, "I am done"), schemas.CodeExpired); d.probed != probed+1 {
			t.Errorf("looked at it %d times", d.probed-probed)
		}
		want(t, card, "1 added: linear", "adds 31 tools")
		w.press(alice(), card, "Confirm")
		if len(w.cfg.Entries) != 1 || len(d.signed) != 1 {
			t.Errorf("%+v", w.cfg.Entries)
		}
		end()
		wg.Wait()
	})
}

func TestLend(t *testing.T) {
	w, d := connectors(t)
	s := d.listed()
	ch, stop := w.bot.Subscribe(thread, "mallory")
	defer stop()
	want(t, w.say(alice(), "/mcp list"), "linear | needs connect", "runs as the one who asks · /mcp connect linear", "1) Connect yours")
	d.enter("alice", s)
	want(t, w.say(alice(), "/mcp list"), "linear | ready", "runs as the one who asks")
	want(t, w.say(mallory(), "/mcp list"), "linear | needs connect", "1) Connect yours")
	wantNot(t, w.say(guest(), "/mcp list"), "Connect yours")
	wantNot(t, w.say(mallory(), "/mcp show linear"), "Lend")
	show := w.say(alice(), "/mcp show linear")
	want(t, show, "Lend mine to this thread: 1 hour", "Lend mine: 8 hours", "Lend mine: until I withdraw", "Sign out")
	wantDenied(t, w.press(mallory(), show, "Lend mine"), "only @alice can answer this")
	card := w.press(alice(), show, "Lend mine: 8")
	want(t, card, "lend your sign-in to linear to this thread, until 20:00 UTC?", "others can: use all its tools as you", "others cannot: see your password or token", "in your name at mcp.linear.example")
	if len(d.lends) != 0 {
		t.Fatal("lent before a yes")
	}
	wantDenied(t, w.press(mallory(), card, "Lend it"), "only @alice can answer this")
	want(t, w.press(alice(), card, "Lend it"), "linear is lent until 20:00 UTC · /mcp connect linear withdraws it")
	e, _ := w.cfg.Find("linear")
	if e.Loan.Member != "alice" || e.Loan.Name != "alice" || !e.Loan.Until.Equal(w.now.Add(8*time.Hour)) {
		t.Errorf("%+v", e.Loan)
	}
	want(t, hear(t, ch).Reply, "linear is lent until 20:00 UTC by @alice")
	want(t, w.say(mallory(), "/mcp list"), "linear | ready", "runs as @alice, lent until 20:00 UTC")
	want(t, w.say(mallory(), "/mcp doctor linear"), "runs as: @alice, lent until 20:00 UTC")
	mine := w.say(mallory(), "/mcp connect linear")
	want(t, mine, "you are not signed in to linear", "lent: by @alice to everybody in this thread (until 20:00 UTC)", "1) Connect yours\n2) Leave it")
	want(t, w.press(alice(), w.say(alice(), "/mcp connect linear"), "Sign in again"), "used by: everybody in this thread, until 20:00 UTC, since you lend it")
	last := w.records[len(w.records)-2]
	for _, r := range w.records {
		if r.Event == schemas.EventSignIn {
			last = r
		}
	}
	if last.Detail != "lent until 20:00 UTC" || last.Server != "linear" || last.Member != "alice" {
		t.Errorf("%+v", last)
	}
	want(t, w.press(boss(), w.say(boss(), "/mcp show linear"), "Withdraw"), "linear is withdrawn")
	want(t, hear(t, ch).Reply, "linear is withdrawn by @boss")
	if e, _ := w.cfg.Find("linear"); e.Loan != nil {
		t.Error("still lent")
	}
	w.press(alice(), w.press(alice(), w.say(alice(), "/mcp show linear"), "Lend mine to"), "Lend it")
	w.now = w.now.Add(time.Hour)
	want(t, w.say(mallory(), "/mcp list"), "linear | needs connect")
	w.press(alice(), w.press(alice(), w.say(alice(), "/mcp show linear"), "Lend mine: until"), "Lend it")
	want(t, w.say(mallory(), "/mcp list"), "lent until it is withdrawn")
	want(t, w.press(alice(), w.say(alice(), "/mcp connect linear"), "Sign out"), "you are signed out of linear")
	if e, _ := w.cfg.Find("linear"); e.Loan != nil || len(d.signed) != 0 {
		t.Error("a loan outlives its sign-in")
	}
}

// What held when a card was dealt is looked at again when it is answered.
func TestLend_Stale(t *testing.T) {
	lend := func(w *world) bot.Reply {
		return w.press(alice(), w.say(alice(), "/mcp show linear"), "Lend mine: 8")
	}
	for name, c := range map[string]struct {
		change func(*world, *desk)
		words  string
	}{
		"signed out": {func(_ *world, d *desk) { d.signed = map[string]schemas.Server{} }, "not signed in to linear, so there is nothing to lend"},
		"lent by another": {func(w *world, _ *desk) {
			w.cfg.Entries[0].Loan = &schemas.Loan{Member: "bob", Name: "bob", At: w.now}
		}, "@bob lends theirs already, until it is withdrawn"},
		"another address": {func(w *world, d *desk) {
			s := w.cfg.Entries[0].Server
			s.URL += "/v2"
			w.cfg.Entries[0].Server, w.cfg.Entries[0].Approval.Definition, w.cfg.Entries[0].Approval.Fingerprint = s, s, s.Fingerprint()
			d.enter("alice", s)
		}, "changed meanwhile, so nothing was lent"},
		"no log": {func(w *world, _ *desk) { w.failWith["Append"] = errors.New("full") }, "reference"},
	} {
		t.Run(name, func(t *testing.T) {
			w, d := connectors(t)
			d.enter("alice", d.listed())
			card := lend(w)
			c.change(w, d)
			want(t, w.press(alice(), card, "Lend it"), c.words)
			if len(d.lends) != 0 {
				t.Error("lent")
			}
		})
	}
	w, d := connectors(t)
	d.enter("alice", d.listed())
	w.press(alice(), lend(w), "Lend it")
	show := w.say(alice(), "/mcp show linear")
	w.cfg.Entries[0].Loan = nil
	want(t, w.press(alice(), show, "Withdraw"), "nobody lends linear any more")
	want(t, w.press(alice(), w.press(alice(), w.say(alice(), "/mcp show linear"), "Lend mine: 8"), "Cancel"), "not lent")
}

func TestBoard_Connect(t *testing.T) {
	w, d := connectors(t)
	d.enter("alice", d.listed())
	for c, connect := range map[schemas.Caller]bool{alice(): false, mallory(): true, guest(): false} {
		board, err := w.bot.Board(t.Context(), c)
		if err != nil || board.Servers[0].Connect != connect || board.Servers[0].Status.RunsAs != "the one who asks" {
			t.Errorf("%s: %+v %v", c.Member, board.Servers, err)
		}
	}
	want(t, w.say(mallory(), "/mcp doctor"), "linear | needs connect | sign in with /mcp connect linear", "1) Connect yours")
	want(t, w.say(mallory(), "/mcp doctor linear"), "linear needs you to sign in", "1) Connect yours")
	w.state["linear"] = schemas.Status{State: schemas.NeedsConnect} // the owner's ended
	d.signed = map[string]schemas.Server{}
	d.enter("mallory", w.cfg.Entries[0].Server)
	want(t, w.say(mallory(), "/mcp list"), "linear | idle")
}

func TestRemove_Connector(t *testing.T) {
	w, d := connectors(t)
	d.enter("alice", d.listed())
	card := w.say(alice(), "/mcp remove linear")
	want(t, card, "sign-ins: everybody's are ended")
	want(t, w.press(alice(), card, "Confirm"), "linear is removed")
	if !slices.Equal(d.revoked, []string{"linear"}) || !slices.Equal(w.forgot, []string{"linear"}) {
		t.Errorf("revoked %v, forgot %v", d.revoked, w.forgot)
	}
	w, d = connectors(t)
	d.listed()
	d.fail["SignOutAll"] = errors.New("no route")
	r := w.press(alice(), w.say(alice(), "/mcp remove linear"), "Confirm")
	want(t, r, "linear is removed", "not all sign-ins to linear could be revoked")
	if len(w.cfg.Entries) != 0 || len(w.forgot) != 1 {
		t.Error("the removal did not go on")
	}
	w, d = connectors(t)
	if err := w.bot.Drop(t.Context(), thread); err != nil || !slices.Equal(d.revoked, []string{""}) {
		t.Errorf("%v, revoked %q", err, d.revoked)
	}
}

func TestLeft(t *testing.T) {
	w, d := connectors(t)
	s := d.listed(schemas.Tool{Name: "make"})
	d.enter("alice", s)
	d.enter("mallory", s)
	w.press(alice(), w.press(alice(), w.say(alice(), "/mcp show linear"), "Lend mine: 8"), "Lend it")
	w.failWith["Call"] = unsigned()
	link := w.press(alice(), w.say(alice(), "/mcp call linear.make {}"), "Connect yours")
	ch, stop := w.bot.Subscribe(thread, "mallory")
	defer stop()
	if err := w.bot.Left(t.Context(), thread, "alice"); err != nil {
		t.Fatal(err)
	}
	want(t, hear(t, ch).Reply, "@alice's sign-ins were removed since they left: linear")
	if e, _ := w.cfg.Find("linear"); e.Loan != nil || len(d.signed) != 1 || !d.Signed(t.Context(), thread, "mallory", s) {
		t.Errorf("loan %v, signed %v", e.Loan, d.signed)
	}
	if r := w.records[len(w.records)-1]; r.Event != schemas.EventSignIn || r.Member != "alice" || r.Detail != "removed, since the member left" {
		t.Errorf("%+v", r)
	}
	want(t, w.fill(alice(), link, map[string]string{"code": proofCode}), "no longer open")
	n := len(w.records)
	if err := w.bot.Left(t.Context(), thread, "alice"); err != nil || len(w.records) != n || len(ch) != 0 {
		t.Error("a second time tells again")
	}
	d.fail["Detach"] = errors.New("disk")
	if err := w.bot.Left(t.Context(), thread, "mallory"); err == nil || len(d.signed) != 0 {
		t.Errorf("%v; the loans held the sign-ins up", err)
	}
	want(t, hear(t, ch).Reply, "not all of their sign-ins could be removed")
	if err := w.bot.Left(t.Context(), "../x", "alice"); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
}

func TestConnect_ByName(t *testing.T) {
	w, d := connectors(t)
	d.listed()
	w.have("alice", schemas.Server{Name: "github", Command: "npx"})
	want(t, w.say(alice(), "/mcp connect github"), "github is no connector")
	want(t, w.say(alice(), "/mcp connect linea"), "did you mean linear?")
	want(t, w.press(alice(), w.say(alice(), "/mcp connect linear"), "Leave"), "left as it was")
	w.cfg.Entries[0].Enabled = false
	want(t, w.say(alice(), "/mcp connect linear"), "linear is off · /mcp enable linear")
	wantCode(t, w.say(guest(), "/mcp connect linear"), schemas.CodeDenied)
	if d.probed+d.offered+d.n != 0 {
		t.Error("contacted")
	}
}
