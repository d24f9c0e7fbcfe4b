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

func contact(server, host string, port int) schemas.Contact {
	return schemas.Contact{Thread: thread, Member: "alice", Server: server, Host: host, Port: port}
}

// tries is one program's wish while it waits.
type tries struct {
	answer schemas.Answer
	err    error
	wg     sync.WaitGroup
}

func (w *world) tries(ctx context.Context, c schemas.Contact) *tries {
	x := &tries{}
	x.wg.Go(func() { x.answer, x.err = w.bot.Contact(ctx, c) })
	synctest.Wait()
	return x
}

func (x *tries) want(t *testing.T, answer schemas.Answer, code schemas.Code) {
	t.Helper()
	x.wg.Wait()
	if x.answer != answer || schemas.CodeOf(x.err) != code {
		t.Errorf("%s %v, want %s %q", x.answer, x.err, answer, code)
	}
}

func (w *world) egress() schemas.EgressRules {
	if e := w.cfg.Policy.Egress; e != nil {
		return *e
	}
	return schemas.EgressRules{}
}

// hosted runs a story with the caller's own ear.
func hosted(t *testing.T, as schemas.MemberID, story func(t *testing.T, w *world, ch <-chan bot.Notice)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ch, stop := w.bot.Subscribe(thread, as)
		defer stop()
		story(t, w, ch)
	})
}

func TestContact_Once(t *testing.T) {
	hosted(t, "alice", func(t *testing.T, w *world, ch <-chan bot.Notice) {
		theirs, stop := w.bot.Subscribe(thread, "mallory")
		defer stop()
		x := w.tries(t.Context(), contact("weather", "api.example.com", 443))
		n := hear(t, ch)
		want(t, n.Reply, "weather tried api.example.com", "port: 443", "1) Once\n2) Always here\n3) Never")
		if n.To != "alice" || !n.Reply.Private || n.Reply.Expires.Sub(w.now) != time.Minute || len(theirs) != 0 {
			t.Errorf("%+v, others heard %d", n, len(theirs))
		}
		want(t, w.press(mallory(), n.Reply, "Once"), "only @alice can answer this")
		want(t, w.press(boss(), n.Reply, "Always"), "only @alice can answer this")
		r := w.press(alice(), n.Reply, "Once")
		want(t, r, "may be reached for a minute")
		if r.Replace != n.Reply.ID {
			t.Error("the card is not settled")
		}
		x.want(t, schemas.AnswerOnce, "")
		wantCode(t, w.press(alice(), n.Reply, "Once"), schemas.CodeExpired)
		if e := w.egress(); !e.Empty() || len(w.records) != 1 || w.records[0].Event != schemas.EventPolicy || w.touched != 0 {
			t.Errorf("%+v %v", e, w.events())
		}
	})
}

func TestContact_AlwaysIsAManagers(t *testing.T) {
	hosted(t, "alice", func(t *testing.T, w *world, ch <-chan bot.Notice) {
		x := w.tries(t.Context(), contact("weather", "api.example.com", 8443))
		card := hear(t, ch).Reply
		want(t, card, "weather tried api.example.com:8443")
		r := w.press(alice(), card, "Always")
		wantCode(t, r, schemas.CodeDenied)
		want(t, r, "only a manager of the thread can open a host for always", "/mcp policy allow host:api.example.com:8443")
		want(t, w.press(alice(), card, "Never"), "stays closed to your sandbox for an hour")
		x.want(t, schemas.AnswerDeny, "")
		if e := w.egress(); !e.Empty() {
			t.Errorf("a member changed the thread's rules: %+v", e)
		}
		manager := alice()
		manager.Role = schemas.Manager
		x = w.tries(t.Context(), contact("weather", "api.example.com", 8443))
		card = hear(t, ch).Reply
		want(t, w.press(manager, card, "Always"), "may be reached from this thread", "/mcp policy forget host:api.example.com:8443")
		x.want(t, schemas.AnswerAlways, "")
		if e := w.egress(); !slices.Equal(e.Allow, []string{"api.example.com:8443"}) || len(e.Deny) != 0 {
			t.Errorf("%+v", e)
		}
	})
}

func TestContact_NeverByAManagerIsARule(t *testing.T) {
	hosted(t, "boss", func(t *testing.T, w *world, ch <-chan bot.Notice) {
		c := contact("", "203.0.113.9", 80)
		c.Member = "boss"
		x := w.tries(t.Context(), c)
		card := hear(t, ch).Reply
		want(t, card, "a program in your sandbox tried 203.0.113.9")
		want(t, w.press(boss(), card, "Never"), "203.0.113.9 is never reached from this thread")
		x.want(t, schemas.AnswerDeny, "")
		if e := w.egress(); !slices.Equal(e.Deny, []string{"203.0.113.9"}) {
			t.Errorf("%+v", e)
		}
	})
}

// A program that asks twice, over two ports or from two sandboxes, has two cards; a rule answers both, and another member's.
func TestContact_TwoAtOnce(t *testing.T) {
	hosted(t, "boss", func(t *testing.T, w *world, ch <-chan bot.Notice) {
		hers, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		mine := contact("weather", "api.example.com", 443)
		mine.Member = "boss"
		one, two := w.tries(t.Context(), mine), &tries{}
		mine.Server, mine.Port = "news", 80
		two = w.tries(t.Context(), mine)
		three, other := w.tries(t.Context(), contact("news", "api.example.com", 443)), w.tries(t.Context(), contact("news", "example.org", 443))
		first, second := hear(t, ch).Reply, hear(t, ch).Reply
		third, fourth := hear(t, hers).Reply, hear(t, hers).Reply
		want(t, first, "weather tried")
		want(t, second, "news tried")
		w.press(boss(), first, "Always")
		for _, x := range []*tries{one, two, three} {
			x.want(t, schemas.AnswerAlways, "")
		}
		for _, c := range []struct {
			ch <-chan bot.Notice
			id string
		}{{ch, second.ID}, {hers, third.ID}} {
			if n := hear(t, c.ch); n.Reply.Replace != c.id {
				t.Errorf("not settled: %+v", n)
			}
		}
		wantCode(t, w.press(boss(), second, "Never"), schemas.CodeExpired)
		w.press(alice(), fourth, "Once")
		other.want(t, schemas.AnswerOnce, "")
		if e := w.egress(); len(e.Deny) != 0 || len(e.Allow) != 1 {
			t.Errorf("%+v", e)
		}
	})
}

// Two members' rules say nothing about each other's Once.
func TestContact_OnceIsForOne(t *testing.T) {
	hosted(t, "alice", func(t *testing.T, w *world, ch <-chan bot.Notice) {
		ctx, cancel := context.WithCancel(t.Context())
		one, two := w.tries(ctx, contact("a", "api.example.com", 443)), w.tries(ctx, contact("b", "api.example.com", 443))
		w.press(alice(), hear(t, ch).Reply, "Once")
		one.want(t, schemas.AnswerOnce, "")
		second := hear(t, ch).Reply
		cancel()
		two.want(t, schemas.AnswerDeny, schemas.CodeExpired)
		if end := hear(t, ch).Reply; end.Replace != second.ID {
			t.Error("the card is not settled")
		}
	})
}

func TestContact_NobodyThereAndExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.tries(t.Context(), contact("weather", "api.example.com", 443))
		x.want(t, schemas.AnswerDeny, schemas.CodeAsk)
		if !strings.Contains(x.err.Error(), "nobody could be asked") {
			t.Error(x.err)
		}
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		began := time.Now()
		x = w.tries(t.Context(), contact("weather", "api.example.com", 443))
		card := hear(t, ch).Reply
		late, stopLate := w.bot.Subscribe(thread, "alice") // a page that was loaded again
		defer stopLate()
		if n := hear(t, late); n.Reply.ID != card.ID {
			t.Error("a late page was not asked")
		}
		x.want(t, schemas.AnswerDeny, schemas.CodeExpired)
		if d := time.Since(began); d != time.Minute {
			t.Errorf("waited %v", d)
		}
		wantCode(t, w.press(alice(), card, "Once"), schemas.CodeExpired)
		end := hear(t, ch)
		want(t, end.Reply, "nobody answered whether api.example.com may be reached")
		if end.Reply.Replace != card.ID {
			t.Error("the card is not settled")
		}
	})
}

func TestContact_Unwritable(t *testing.T) {
	for _, what := range []string{"Append", "Rule"} {
		hosted(t, "boss", func(t *testing.T, w *world, ch <-chan bot.Notice) {
			w.failWith[what] = errors.New("disk full")
			c := contact("weather", "api.example.com", 443)
			c.Member = "boss"
			x := w.tries(t.Context(), c)
			card := hear(t, ch).Reply
			r := w.press(boss(), card, "Always")
			wantCode(t, r, schemas.CodeInternal)
			if r.Replace != card.ID {
				t.Error("the card is not settled")
			}
			x.want(t, schemas.AnswerDeny, "")
		})
	}
}

func TestContact_HostileNames(t *testing.T) {
	hosted(t, "alice", func(t *testing.T, w *world, ch <-chan bot.Notice) {
		for _, host := range []string{"", "*", "*.example.com", "api.example.com`", "a b", "evil\u202e.com", "api.example.com\n1) Once", "API.example.com", "a..b", "host:x", strings.Repeat("a.", 200) + "com", "::1%eth0"} {
			x := w.tries(t.Context(), contact("weather", host, 443))
			x.want(t, schemas.AnswerDeny, schemas.CodeInvalid)
		}
		for _, port := range []int{0, -1, 65536} {
			w.tries(t.Context(), contact("weather", "api.example.com", port)).want(t, schemas.AnswerDeny, schemas.CodeInvalid)
		}
		if len(ch) != 0 {
			t.Error("a card was posted")
		}
		x := w.tries(t.Context(), contact("wea`ther\u202e"+strings.Repeat("x", 500), "xn--pple-43d.com", 443))
		card := hear(t, ch).Reply
		want(t, card, `wea\x60ther\u{202e}`, "letters that can look like those of another name")
		if len(flat(card)) > 900 {
			t.Errorf("%d bytes", len(flat(card)))
		}
		w.press(alice(), card, "Never")
		x.want(t, schemas.AnswerDeny, "")
	})
}

func TestContact_Flood(t *testing.T) {
	hosted(t, "alice", func(t *testing.T, w *world, ch <-chan bot.Notice) {
		ctx, cancel := context.WithCancel(t.Context())
		var open []*tries
		for i := range 8 {
			open = append(open, w.tries(ctx, contact("weather", "h"+string(rune('a'+i))+".example.com", 443)))
		}
		w.tries(ctx, contact("weather", "more.example.com", 443)).want(t, schemas.AnswerDeny, schemas.CodeAsk)
		if len(ch) != 8 {
			t.Errorf("%d cards", len(ch))
		}
		cancel()
		for _, x := range open {
			x.want(t, schemas.AnswerDeny, schemas.CodeExpired)
		}
	})
}

func TestPolicy_Hosts(t *testing.T) {
	hosted(t, "alice", func(t *testing.T, w *world, ch <-chan bot.Notice) {
		for _, bad := range []string{"", "*x", "a:0", "a:99999", "http://a.example.com", "a/b", "api.example.com`", "*.*.com"} {
			r := w.say(boss(), "/mcp policy allow host:"+bad)
			wantCode(t, r, schemas.CodeInvalid)
			want(t, r, "that is no host")
		}
		want(t, w.say(boss(), "/mcp policy deny host:a.example.com me"), "rules about hosts are for the whole thread")
		for _, list := range []string{"ask", "deny", "forget"} {
			r := w.say(alice(), "/mcp policy "+list+" host:api.example.com")
			wantCode(t, r, schemas.CodeDenied)
			want(t, r, "only a manager of the thread can change its rules")
		}
		card := w.say(alice(), "/mcp policy allow host:API.Example.com")
		want(t, card, "let the sandboxes of everyone in this thread reach api.example.com?", "A manager of the thread has to confirm", "not public stay closed")
		want(t, w.press(alice(), card, "Confirm"), "only a manager of the thread can confirm this")
		if e := w.egress(); !e.Empty() {
			t.Fatalf("%+v", e)
		}
		x := w.tries(t.Context(), contact("weather", "api.example.com", 443))
		want(t, w.press(boss(), card, "Confirm"), "api.example.com is on the allow list of hosts for the thread")
		x.want(t, schemas.AnswerAlways, "")
		want(t, w.press(boss(), w.say(boss(), "/mcp policy allow host:*"), "Cancel"), "cancelled; nothing was changed")
		want(t, w.say(boss(), "/mcp policy allow host:*"), "reach every public host?")
		y := w.tries(t.Context(), contact("weather", "api.example.com", 443))
		want(t, w.say(boss(), "/mcp policy deny host:*.example.com"), "is on the deny list of hosts")
		y.want(t, schemas.AnswerDeny, "")
		want(t, w.say(boss(), "/mcp policy ask host:api.example.com"), "is on the ask list of hosts")
		if e := w.egress(); len(e.Allow) != 0 || !slices.Equal(e.Ask, []string{"api.example.com"}) || !slices.Equal(e.Deny, []string{"*.example.com"}) {
			t.Errorf("a host stands in one list: %+v", e)
		}
		want(t, w.say(alice(), "/mcp policy show"), "hosts that sandboxes may reach", "deny | host:*.example.com", "ask | host:api.example.com")
		want(t, w.say(boss(), "/mcp policy forget host:api.example.com"), "is taken back")
		want(t, w.say(boss(), "/mcp policy forget host:api.example.com"), "there is no such rule")
		w.say(boss(), "/mcp policy forget host:*.example.com")
		if w.cfg.Policy.Egress != nil {
			t.Error("empty lists are kept")
		}
		wantNot(t, w.say(alice(), "/mcp policy show"), "hosts that")
	})
}
