package bot_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

func elicitPage(t *testing.T, w *world, ctx context.Context, url string, done <-chan struct{}) *elicitation {
	t.Helper()
	e := &elicitation{}
	q := schemas.Elicit{Caller: alice(), Server: "demo", Message: "Sign in first\u202e", URL: url, Done: done}
	e.wg.Go(func() { e.answer, e.err = w.bot.Elicit(ctx, q) })
	synctest.Wait()
	return e
}

// opens gives the pages that a reply offers to open.
func opens(r bot.Reply) (all []bot.Open) {
	for _, b := range r.Blocks {
		if b.Open != nil {
			all = append(all, *b.Open)
		}
	}
	return all
}

func TestElicit_Page(t *testing.T) {
	const url = "https://auth.example.com:8443/sign-in?state=" + canary
	for label, want1 := range map[string]string{"Continue": "accept", "Decline": "decline"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			mine, stop := w.bot.Subscribe(thread, "alice")
			defer stop()
			theirs, stop2 := w.bot.Subscribe(thread, "mallory")
			defer stop2()
			e := elicitPage(t, w, t.Context(), url, make(chan struct{}))
			n := hear(t, mine)
			if n.To != "alice" || !n.Reply.Private {
				t.Error("a page is for the one who called alone")
			}
			want(t, n.Reply, "demo wants you to open a page, in the middle of your call", "Sign in first", "host: auth.example.com:8443", "press Continue when you are done there",
				"The page is not bobbin's: demo chose it", "never give it a secret", "1) Continue", "2) Decline")
			if got := opens(n.Reply); len(got) != 1 || got[0] != (bot.Open{Label: "Open auth.example.com:8443", URL: url}) || n.Reply.Form != nil {
				t.Errorf("%+v", got)
			}
			if text, _ := json.Marshal(n.Reply); strings.Contains(string(text), "letters that can look like") {
				t.Error("a plain host is warned about")
			}
			other := hear(t, theirs)
			want(t, other.Reply, "waiting for @alice to answer demo")
			if js, _ := json.Marshal(other); len(theirs) > 0 || strings.Contains(string(js), "example.com") {
				t.Error("others see the page")
			}
			want(t, w.press(boss(), n.Reply, label), "only @alice can answer this")
			w.press(alice(), n.Reply, label)
			e.wg.Wait()
			if e.err != nil || e.answer.Action != want1 || e.answer.Content != nil {
				t.Errorf("%s: %+v %v", label, e.answer, e.err)
			}
			wantCode(t, w.press(alice(), n.Reply, label), schemas.CodeExpired)
			if len(w.records) != 2 || w.records[0].Detail != "asks to open a page at auth.example.com:8443" {
				t.Errorf("audit %+v", w.records)
			}
			if records, _ := json.Marshal(w.records); strings.Contains(string(records)+w.log.String(), canary) {
				t.Error("the address is written down")
			}
		})
	}
}

// The server's word ends the card with an accept; the end of the call and the card's time cancel it.
func TestElicit_PageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if e := elicitPage(t, w, t.Context(), "https://example.com/", nil); schemas.CodeOf(e.err) != schemas.CodeAsk {
			t.Errorf("with nobody there: %+v %v", e.answer, e.err)
		}
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		call, over := context.WithCancel(t.Context())
		done := make(chan struct{})
		for _, c := range []struct {
			end                  func()
			action, detail, said string
		}{
			{func() { close(done) }, "accept", "done, says the server", "done · the call goes on"},
			{over, "cancel", "not answered", "waits for its answer no longer"},
			{func() { time.Sleep(11 * time.Minute) }, "cancel", "not answered", "waits for its answer no longer"},
		} {
			e := elicitPage(t, w, call, "https://example.com/", done)
			n := hear(t, ch)
			c.end()
			e.wg.Wait()
			if e.err != nil || e.answer.Action != c.action || e.answer.Content != nil {
				t.Errorf("%+v %v", e.answer, e.err)
			}
			told := hear(t, ch)
			want(t, told.Reply, c.said)
			if told.Reply.Replace != n.Reply.ID || !told.Reply.Private || len(opens(told.Reply)) > 0 {
				t.Errorf("the card is not settled: %+v", told.Reply)
			}
			wantCode(t, w.press(alice(), n.Reply, "Continue"), schemas.CodeExpired)
			if r := w.records[len(w.records)-1]; r.Detail != c.detail {
				t.Errorf("audit %+v", r)
			}
			if c.action == "cancel" {
				call = t.Context()
			}
			done = nil
		}
	})
}

func TestElicit_PageWithALookalikeHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		e := elicitPage(t, w, ctx, "https://login.xn--80ak6aa92e.com/", nil)
		want(t, hear(t, ch).Reply, "login.xn--80ak6aa92e.com is written with letters that can look like those of another name")
		cancel()
		e.wg.Wait()
	})
}
