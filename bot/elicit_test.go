package bot_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

const form = `{"type":"object","required":["who","size"],"properties":{
	"who":{"type":"string","title":"Your name","minLength":2},
	"size":{"type":"string","title":"Size","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}],"default":"l"},
	"color":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},
	"parts":{"type":"array","items":{"anyOf":[{"const":"a","title":"Part A"},{"const":"b","title":"Part B"}]}},
	"mail":{"type":"string","format":"email"},
	"news":{"type":"boolean","default":true},
	"x":{"type":"string","description":"your account's password"}}}`

// ask puts a server's question to alice; its answer is there when done is closed.
type elicitation struct {
	answer schemas.Elicited
	err    error
	wg     sync.WaitGroup
}

func elicit(t *testing.T, w *world, ctx context.Context, schema string) *elicitation {
	t.Helper()
	e := &elicitation{}
	q := schemas.Elicit{Caller: alice(), Server: "demo", Message: "Who are you?\u202e", Schema: json.RawMessage(schema),
		Check: func(raw json.RawMessage) (ps schemas.Problems) {
			if strings.Contains(string(raw), `"who":"A"`) {
				ps = append(ps, schemas.Problem{Pointer: "/who", Text: "length must be >= 2"})
			}
			if strings.Contains(string(raw), "nowhere") {
				ps = append(ps, schemas.Problem{Pointer: "/mail", Text: "is no e-mail address"})
			}
			return ps
		}}
	e.wg.Go(func() { e.answer, e.err = w.bot.Elicit(ctx, q) })
	synctest.Wait()
	return e
}

func TestElicit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mine, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		theirs, stop2 := w.bot.Subscribe(thread, "mallory")
		defer stop2()
		e := elicit(t, w, t.Context(), form)
		n := hear(t, mine)
		if n.To != "alice" || !n.Reply.Private {
			t.Error("a question is for the one who called alone")
		}
		want(t, n.Reply, "demo asks you, in the middle of your call", "Who are you?", "What you answer goes to demo. Never give it a password",
			"size [choice] () =Large [Small Large]", "color [choice] () = [Red Green]", "parts [multiline] (one a line of Part A, Part B)", "mail [] (an e-mail address)",
			"news [boolean] () =true", "x [] (your account's password · looks like a secret: demo would get it)", "1) Decline")
		if n.Reply.Form.Fields[0].Label != "Your name" {
			t.Errorf("%+v", n.Reply.Form.Fields[0])
		}
		other := hear(t, theirs)
		want(t, other.Reply, "waiting for @alice to answer demo")
		if len(theirs) > 0 || other.Reply.Form != nil {
			t.Error("others see the question")
		}

		want(t, w.fill(boss(), n.Reply, map[string]string{"who": "Boss"}), "only @alice can answer this")
		again := w.fill(alice(), n.Reply, map[string]string{"who": "A", "size": "Small", "mail": "nowhere"})
		want(t, again, "the answer has 2 mistakes; nothing was sent", "Your name: length must be >= 2", "mail: is no e-mail address", "form:", "1) Decline")
		want(t, w.fill(alice(), again, map[string]string{"size": "huge"}), "Your name is needed", "Size must be one of Small, Large")
		late, stopLate := w.bot.Listen(func(schemas.ThreadID) bool { return true })
		defer stopLate()
		now := hear(t, late).Reply // the card that is open now
		want(t, w.fill(alice(), now, map[string]string{"who": canary, "size": "s", "color": "Green", "parts": "Part B\na", "news": "no"}), "answered · the call goes on")
		e.wg.Wait()
		if e.err != nil || e.answer.Action != "accept" || string(e.answer.Content) != `{"color":"g","news":false,"parts":["b","a"],"size":"s","who":"`+canary+`"}` {
			t.Errorf("%s %s, %v", e.answer.Action, e.answer.Content, e.err)
		}
		wantCode(t, w.fill(alice(), now, map[string]string{"who": "again"}), schemas.CodeExpired)
		if len(w.records) != 2 || w.records[0].Detail != "asks for who, size, color, parts, mail, news, x" || w.records[1].Detail != "answered" {
			t.Errorf("audit %+v", w.records)
		}
		if records, _ := json.Marshal(w.records); strings.Contains(string(records)+w.log.String(), canary) {
			t.Error("an answer is written down")
		}
	})
}

func TestElicit_DeclinedOrNot(t *testing.T) {
	for label, c := range map[string]struct {
		schema, action, content string
	}{
		"Decline": {form, "decline", ""}, "Accept": {`{"type":"object"}`, "accept", "{}"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			ch, stop := w.bot.Subscribe(thread, "alice")
			defer stop()
			e := elicit(t, w, t.Context(), c.schema)
			w.press(alice(), hear(t, ch).Reply, label)
			e.wg.Wait()
			if e.err != nil || e.answer.Action != c.action || string(e.answer.Content) != c.content {
				t.Errorf("%s: %+v, %v", label, e.answer, e.err)
			}
		})
	}
}

// A question ends with its call and with its card's time; with nobody there it is not asked at all.
func TestElicit_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if e := elicit(t, w, t.Context(), form); schemas.CodeOf(e.err) != schemas.CodeAsk {
			t.Errorf("with nobody there: %+v %v", e.answer, e.err)
		}
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		call, over := context.WithCancel(t.Context())
		for _, end := range []func(){over, func() { time.Sleep(11 * time.Minute) }} {
			e := elicit(t, w, call, form)
			n := hear(t, ch)
			again := w.fill(alice(), n.Reply, map[string]string{"who": "A", "size": "Small"})
			end()
			e.wg.Wait()
			if e.err != nil || e.answer.Action != "cancel" {
				t.Errorf("%+v %v", e.answer, e.err)
			}
			if told := hear(t, ch); told.Reply.Replace != again.ID {
				t.Error("the card is not settled")
			}
			wantCode(t, w.fill(alice(), again, map[string]string{"who": "Ann", "size": "Small"}), schemas.CodeExpired)
			if r := w.records[len(w.records)-1]; r.Detail != "not answered" {
				t.Errorf("audit %+v", r)
			}
			call = t.Context()
		}
	})
}

// What cannot be written down is not answered.
func TestElicit_AuditUnwritable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		e := elicit(t, w, t.Context(), form)
		w.failWith["Append"] = context.DeadlineExceeded
		var r bot.Reply = w.press(alice(), hear(t, ch).Reply, "Decline")
		e.wg.Wait()
		if !r.Bad || e.answer.Action != "cancel" {
			t.Errorf("%+v %+v", r, e.answer)
		}
	})
}
