package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"bobbin/bot"
	"bobbin/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hear(t *testing.T, ch <-chan bot.Notice) bot.Notice {
	t.Helper()
	select {
	case n := <-ch:
		return n
	default:
		t.Fatal("no notice")
		return bot.Notice{}
	}
}

func TestEdited_Card(t *testing.T) {
	w := newWorld(t)
	w.have("alice", schemas.Server{Name: "github", Command: "old"})
	e := &w.cfg.Entries[0]
	before := e.Server
	e.Server.Command, e.Server.Args = "new", []string{"--flag"}
	w.bump()
	after := e.Server
	ch, stop := w.bot.Subscribe(thread, "mallory")
	defer stop()
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Removed: []string{"old-server"},
		Waiting: []schemas.Change{{Server: "github", Kind: schemas.Changed, Fields: []string{"args"}, Before: &before, After: &after, Owner: "alice"}}})
	n := hear(t, ch)
	want(t, n.Reply, "mcp.json was edited outside of chat", "removed: old-server (stopped)", "changed: github (args; waits for approval, the running one goes on)",
		"runs: new --flag", "1) Show the change\n2) Approve\n3) Put back")
	want(t, w.press(mallory(), n.Reply, "Approve"), "only the owner of a server or a manager of the thread can approve it")
	want(t, w.press(alice(), n.Reply, "Show"), "-  \"command\": \"old\"", "+  \"command\": \"new\"")
	want(t, w.press(alice(), n.Reply, "Approve"), "github is ready")
	if w.cfg.Entries[0].Pending() {
		t.Error("still pending")
	}
	if w.records[0].Event != schemas.EventOutside {
		t.Errorf("audit %v", w.events())
	}
}

// What is approved is what was shown: an edit after the card shows a new card instead.
func TestEdited_ChangedAgain(t *testing.T) {
	w := newWorld(t)
	w.have("alice", schemas.Server{Name: "github", Command: "old"})
	ch, stop := w.bot.Subscribe(thread, "")
	defer stop()
	shown := w.cfg.Entries[0].Server
	shown.Command = "new"
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Waiting: []schemas.Change{{Server: "github", Kind: schemas.Changed, After: &shown, Owner: "alice"}}})
	n := hear(t, ch)
	w.cfg.Entries[0].Server.Command = "evil"
	w.bump()
	r := w.press(alice(), n.Reply, "Approve")
	wantCode(t, r, schemas.CodeConflict)
	want(t, r, "runs: evil", "1) Confirm")
	if w.touched != 0 {
		t.Error("something was started")
	}
}

func TestEdited_ProblemsAndOwn(t *testing.T) {
	w := newWorld(t)
	ch, stop := w.bot.Subscribe(thread, "alice")
	defer stop()
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Problems: schemas.Problems{{File: "mcp.json", Line: 3, Col: 7, Text: "a comma is missing"}}})
	want(t, hear(t, ch).Reply, "mcp.json cannot be read; the last good state runs on", "mcp.json:3:7: a comma is missing")
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread})
	if n := hear(t, ch); !n.Changed || len(n.Reply.Blocks) != 0 {
		t.Errorf("own commit: %+v", n)
	}
	w.bot.Edited(t.Context(), schemas.Edited{Thread: "T2"})
	if len(ch) != 0 {
		t.Error("a notice of another thread")
	}
}

func TestSubscribe_NewestKept(t *testing.T) {
	w := newWorld(t)
	ch, stop := w.bot.Subscribe(thread, "alice")
	for i := range 100 {
		w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Problems: schemas.Problems{{Text: fmt.Sprint("n", i, ".")}}})
	}
	stop()
	stop()
	var last bot.Notice
	n := 0
	for last = range ch {
		n++
	}
	if n != 64 || !strings.Contains(flat(last.Reply), "n99.") {
		t.Errorf("%d notices, last:\n%s", n, flat(last.Reply))
	}
}

func question() schemas.Ask {
	return schemas.Ask{Caller: alice(), Why: "it writes", Args: json.RawMessage(`{"repo":"acme/site","number":42}`),
		Tool: schemas.Tool{Server: "github", Name: "update_issue", Pin: "p1", Writes: true}}
}

func TestAsk(t *testing.T) {
	for label, c := range map[string]struct {
		answer schemas.Answer
		until  time.Duration // -1: for ever, 0: none
	}{"Once": {schemas.AnswerOnce, 0}, "1 hour": {schemas.AnswerHour, time.Hour}, "Always here": {schemas.AnswerAlways, -1}, "Deny": {schemas.AnswerDeny, 0}} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				mine, stop := w.bot.Subscribe(thread, "alice")
				defer stop()
				theirs, stop2 := w.bot.Subscribe(thread, "mallory")
				defer stop2()
				var got schemas.Answer
				var err error
				var wg sync.WaitGroup
				wg.Go(func() { got, err = w.bot.Ask(t.Context(), question()) })
				synctest.Wait()
				card := hear(t, mine)
				want(t, card.Reply, "asks to use github.update_issue · it writes", "repo: acme/site", "number: 42", "1) Once\n2) 1 hour\n3) Always here\n4) Deny")
				if card.To != "alice" || !card.Reply.Private {
					t.Error("the arguments are for the requester alone")
				}
				other := hear(t, theirs)
				want(t, other.Reply, "waiting for @alice to allow github.update_issue")
				wantNot(t, other.Reply, "acme")
				want(t, w.press(boss(), card.Reply, label), "only @alice can answer this")
				w.press(alice(), card.Reply, label)
				wg.Wait()
				if err != nil || got != c.answer {
					t.Fatalf("%v %v", got, err)
				}
				gs := w.cfg.Policy.Grants
				switch {
				case c.until == 0 && len(gs) != 0, c.until != 0 && len(gs) != 1:
					t.Fatalf("grants %+v", gs)
				case c.until == 0:
				case gs[0].Tool != "github.update_issue" || gs[0].Pin != "p1" || gs[0].Member != "alice", (c.until < 0) != (gs[0].Until == nil),
					c.until > 0 && !gs[0].Until.Equal(w.now.Add(time.Hour)):
					t.Errorf("grant %+v", gs[0])
				}
			})
		})
	}
}

// A question that every call asks anew offers no longer yes, and takes none.
func TestAsk_Each(t *testing.T) {
	for choice, want := range map[string]schemas.Answer{"once": schemas.AnswerOnce, "deny": schemas.AnswerDeny, "hour": schemas.AnswerDeny, "always": schemas.AnswerDeny} {
		t.Run(choice, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ch, stop := w.bot.Subscribe(thread, "alice")
				defer stop()
				q := question()
				q.Each = true
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var got schemas.Answer
				var wg sync.WaitGroup
				wg.Go(func() { got, _ = w.bot.Ask(ctx, q) })
				synctest.Wait()
				r := hear(t, ch).Reply
				if len(r.Choices) != 2 || r.Choices[0].Key != "once" || r.Choices[1].Key != "deny" {
					t.Errorf("%+v", r.Choices)
				}
				w.bot.Handle(t.Context(), bot.Request{Caller: alice(), Action: &bot.Action{ID: r.ID, Choice: choice}})
				wg.Wait()
				if got != want || len(w.cfg.Policy.Grants) > 0 {
					t.Errorf("%v, grants %+v", got, w.cfg.Policy.Grants)
				}
			})
		})
	}
}

func TestAsk_Unanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if a, err := w.bot.Ask(t.Context(), question()); a != schemas.AnswerDeny || schemas.CodeOf(err) != schemas.CodeAsk {
			t.Errorf("with nobody there: %v %v", a, err)
		}
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, err := w.bot.Ask(ctx, question())
		if a != schemas.AnswerDeny || schemas.CodeOf(err) != schemas.CodeExpired {
			t.Errorf("%v %v", a, err)
		}
		card := hear(t, ch)
		wantCode(t, w.press(alice(), card.Reply, "Once"), schemas.CodeExpired)
		if end := hear(t, ch); end.Reply.Replace != card.Reply.ID {
			t.Error("the card is not settled")
		}
	})
}

func TestAsk_ParallelAndLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ch, stop := w.bot.Subscribe(thread, "alice")
		answers := make([]schemas.Answer, 20)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				q := question()
				q.Args = json.RawMessage(fmt.Sprintf(`{"i":"n%d."}`, i))
				answers[i], _ = w.bot.Ask(t.Context(), q)
			})
		}
		synctest.Wait()
		stop()
		late, stopLate := w.bot.Subscribe(thread, "alice") // a page that was loaded again
		defer stopLate()
		for range answers {
			n := hear(t, late)
			label := "Deny"
			if strings.Contains(flat(n.Reply), "n7.") {
				label = "Once"
			}
			w.press(alice(), n.Reply, label)
		}
		wg.Wait()
		for i, a := range answers {
			if (a == schemas.AnswerOnce) != (i == 7) {
				t.Errorf("answer %d is %s", i, a)
			}
		}
		for range ch { // closed by stop
		}
	})
}

func TestAsk_GrantUnwritable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.failWith["Rule"] = errors.New("disk full")
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		var got schemas.Answer
		var wg sync.WaitGroup
		wg.Go(func() { got, _ = w.bot.Ask(t.Context(), question()) })
		synctest.Wait()
		wantCode(t, w.press(alice(), hear(t, ch).Reply, "Always"), schemas.CodeInternal)
		wg.Wait()
		if got != schemas.AnswerDeny {
			t.Error("a yes that could not be stored went through")
		}
	})
}

func TestPolicy(t *testing.T) {
	w := issues(t)
	want(t, w.say(alice(), "/mcp policy"), "no other rules")
	want(t, w.say(alice(), "/mcp policy deny github.*"), "only a manager of the thread can change its rules", "/mcp policy deny github.* me")
	want(t, w.say(alice(), "/mcp policy deny github.run* me"), "github.run* is on the deny list for you alone")
	want(t, w.say(alice(), "/mcp policy show"), "for you", "deny | github.run*")
	card := w.say(alice(), "/mcp policy allow github.run_command")
	want(t, card, "allow github.run_command for everyone in this thread? It covers 1 tool now", "It is denied by default", "A manager of the thread has to confirm", "github.run_command | shell")
	want(t, w.press(alice(), card, "Confirm"), "only a manager of the thread can confirm this")
	if len(w.cfg.Policy.Thread.Allow) != 0 {
		t.Fatal("allowed without a manager")
	}
	want(t, w.press(boss(), card, "Confirm"), "github.run_command is on the allow list for the thread")
	want(t, w.say(boss(), "/mcp policy ask github.run_command"), "is on the ask list")
	if p := w.cfg.Policy.Thread; len(p.Allow) != 0 || len(p.Ask) != 1 {
		t.Errorf("a pattern stands in one list: %+v", p)
	}
	want(t, w.say(boss(), "/mcp policy forget github.run_command"), "is taken back")
	want(t, w.say(boss(), "/mcp policy forget github.run_command"), "there is no such rule")
	want(t, w.say(boss(), "/mcp policy deny x @mallory"), "a rule is for the thread, or with me for you alone")
	want(t, w.say(boss(), "/mcp policy deny [a"), "that is no pattern")
	want(t, w.say(alice(), "/mcp policy allow github.whoami me"), "what is not on it is hidden from you now")
}

// A rule holds when its reply is there: what calls go by was brought in line first.
func TestPolicy_HoldsAtOnce(t *testing.T) {
	w := issues(t)
	before := w.touched
	w.say(boss(), "/mcp policy deny github.*")
	if w.touched == before {
		t.Error("the rule was stored only")
	}
	w.failWith["Apply"] = errors.New("no disk")
	want(t, w.say(boss(), "/mcp policy forget github.*"), "the change is saved")
}

// I2: a secret given in any way is in no reply, notice, log or record.
func TestCanary(t *testing.T) {
	w := newWorld(t)
	ch, stop := w.bot.Subscribe(thread, "")
	defer stop()
	w.press(alice(), w.press(alice(), w.say(alice(), "/mcp add-json "+github()), "Show"), "Confirm")
	w.say(alice(), github())
	w.say(alice(), "/mcp "+canary)
	w.say(alice(), "/mcp add-json {"+canary)
	w.say(alice(), "/mcp secrets set "+canary)
	w.say(alice(), "/mcp secrets set GITHUB_TOKEN "+canary)
	w.say(alice(), "/mcp secrets set A="+canary)
	w.fill(alice(), w.say(alice(), "/mcp secrets set GITHUB_TOKEN"), map[string]string{"GITHUB_TOKEN": canary})
	w.fill(alice(), w.say(alice(), "/mcp add"), map[string]string{"name": "x", "command": "x", "env": canary + "\nGITHUB_TOKEN=" + canary + "\n1=" + canary})
	w.press(alice(), w.fill(alice(), w.say(alice(), "/mcp add"), map[string]string{"name": "x", "command": "x", "env": "GITHUB_TOKEN=" + canary}), "Confirm")
	key := w.press(alice(), w.say(alice(), "/mcp connect https://example.com/mcp"), "With an API key")
	w.press(alice(), w.fill(alice(), key, map[string]string{"key": canary}), "Confirm")
	w.failWith["Put"] = errors.New("vault locked")
	w.press(alice(), w.say(alice(), "/mcp add-json "+strings.Replace(github(), "github", "gh2", 1)), "Confirm")
	delete(w.failWith, "Put")
	for _, line := range []string{"list", "show github", "show x", "edit github", "edit x", "download", "history show", "audit 200", "doctor", "secrets list", "undo"} {
		w.say(alice(), "/mcp "+line)
	}
	for len(ch) > 0 {
		w.replies = append(w.replies, (<-ch).Reply)
	}
	for _, r := range w.replies {
		js, err := json.Marshal(r)
		if err != nil || strings.Contains(string(js)+flat(r), canary) {
			t.Errorf("%v in a reply:\n%s", err, flat(r))
		}
	}
	records, _ := json.Marshal(w.records)
	if strings.Contains(w.log.String()+string(records), canary) {
		t.Errorf("in log or audit:\n%s\n%s", w.log.String(), records)
	}
	if len(w.vault) < 3 {
		t.Errorf("the story sealed %d values only", len(w.vault))
	}
}

func TestEdited_PutBack(t *testing.T) {
	w := newWorld(t)
	ch, stop := w.bot.Subscribe(thread, "boss")
	defer stop()
	w.have("", schemas.Server{Name: "byhand", Command: "x"})
	w.cfg.Entries[0].Approval = nil
	added := w.cfg.Entries[0].Server
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Waiting: []schemas.Change{{Server: "byhand", Kind: schemas.Added, After: &added}}})
	n := hear(t, ch)
	want(t, n.Reply, "added: byhand (waits for approval)", "runs: x")
	want(t, w.press(alice(), n.Reply, "Approve"), "only the owner of a server or a manager of the thread can approve it")
	want(t, w.press(boss(), n.Reply, "Put back"), "byhand is removed")
	if len(w.cfg.Entries) != 0 {
		t.Error("a hand-made entry has nothing to go back to but its absence")
	}
}

// A literal secret in an entry made by hand is sealed for who becomes its owner: the one who says yes.
func TestEnable_NobodysEntry(t *testing.T) {
	w := newWorld(t)
	w.have("", schemas.Server{Name: "byhand", Command: "x", Env: map[string]string{"K": "${input:K}"}})
	w.cfg.Entries[0].Approval = nil
	w.handFound = []schemas.Found{{Server: "byhand", Input: "K", Value: schemas.NewSecret(canary)}}
	want(t, w.say(alice(), "/mcp enable byhand"), "only a manager of the thread can change byhand, since nobody owns it yet")
	card := w.say(boss(), "/mcp enable byhand")
	want(t, card, "1 to approve: byhand", "runs: x", "secrets: K")
	w.press(caller("deputy", schemas.Manager), card, "Confirm")
	for k := range w.vault {
		if k.Member != "deputy" {
			t.Errorf("sealed for %q", k.Member)
		}
	}
	if len(w.vault) != 1 {
		t.Errorf("vault %v", w.vault)
	}
}

func TestSettled_Gone(t *testing.T) {
	w := newWorld(t)
	card := w.say(alice(), "/mcp add-json "+github())
	w.failWith["Apply"] = &schemas.Error{Code: schemas.CodeInternal, Err: errors.New("registry stopped")}
	r := w.press(alice(), card, "Confirm")
	want(t, r, "the change is saved", "something went wrong on my side", "The change itself is saved")
	wantNot(t, r, "Your config is unchanged")
}

func TestEdited_NewerCardReplaces(t *testing.T) {
	w := newWorld(t)
	ch, stop := w.bot.Subscribe(thread, "boss")
	defer stop()
	w.have("boss", schemas.Server{Name: "a", Command: "old"})
	shown := w.cfg.Entries[0].Server
	shown.Command = "new"
	edit := schemas.Edited{Thread: thread, Outside: true, Waiting: []schemas.Change{{Server: "a", Kind: schemas.Changed, After: &shown, Owner: "boss"}}}
	w.bot.Edited(t.Context(), edit)
	w.bot.Edited(t.Context(), edit)
	first, second := hear(t, ch), hear(t, ch)
	if second.Reply.Replace != first.Reply.ID || second.Reply.Expires.Sub(w.now) != 24*time.Hour {
		t.Errorf("replaces %q, expires %v", second.Reply.Replace, second.Reply.Expires)
	}
	wantCode(t, w.press(boss(), first.Reply, "Approve"), schemas.CodeExpired)
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread}) // a commit elsewhere leaves the card open
	hear(t, ch)
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Problems: schemas.Problems{{File: "mcp.json", Text: "broken"}}})
	hear(t, ch)
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true})
	want(t, hear(t, ch).Reply, "can be read again")
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true})
	if n := hear(t, ch); len(n.Reply.Blocks) != 0 || !n.Changed {
		t.Errorf("%+v", n)
	}
	w.cfg.Entries[0].Server = shown // as the file has it since the first card
	b := schemas.Server{Name: "b", Command: "b", Type: schemas.Stdio}
	w.cfg.Entries = append(w.cfg.Entries, schemas.Entry{Server: b, Enabled: true, Kind: schemas.Local})
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Waiting: []schemas.Change{{Server: "b", Kind: schemas.Added, After: &b}}})
	third := hear(t, ch).Reply
	want(t, third, "changed: a", "added: b", "runs: new", "runs: b")
	want(t, w.press(boss(), third, "Approve"), "a is ready", "b is ready")
}

// A commit of another bobbin on the same folder is its author's, no edit by an unknown hand.
func TestEdited_AnotherBobbin(t *testing.T) {
	w := newWorld(t)
	w.have("alice", schemas.Server{Name: "demo", Command: "x"})
	ch, stop := w.bot.Subscribe(thread, "boss")
	defer stop()
	rev := &schemas.Revision{ID: "000003", By: "alice", ByName: "alice", Door: schemas.DoorTerminal, Summary: "1 removed: old; 1 added: demo"}
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Removed: []string{"old"}, By: rev})
	n := hear(t, ch)
	if got := flat(n.Reply); got != "@alice changed the config in the terminal: 1 removed: old; 1 added: demo\n" || n.Reply.ID != "" || !n.Changed {
		t.Errorf("%q %+v", got, n)
	}
	if len(w.records) != 0 {
		t.Errorf("audit %v", w.events())
	}
	w.bot.Edited(t.Context(), schemas.Edited{Thread: thread, Outside: true, Policy: true, By: rev})
	want(t, hear(t, ch).Reply, "@alice changed the config", "policy.json was edited outside of chat")
	if len(w.records) != 1 || w.records[0].Event != schemas.EventOutside {
		t.Errorf("audit %v", w.events())
	}
}
