package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"bobbin/agent"
	"bobbin/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// began runs a Say beside the test.
func (w *world) began(c schemas.Caller, text string) <-chan schemas.Answering {
	done := make(chan schemas.Answering, 1)
	go func() {
		got, err := w.Say(w.t.Context(), schemas.Said{Caller: c, Text: text}, nil)
		if err != nil {
			w.t.Errorf("%q: %v", text, err)
		}
		done <- got
	}()
	synctest.Wait()
	return done
}

// gated waits until it is let go.
func gated(let <-chan struct{}, then reply) reply {
	return func(ctx context.Context, r agent.Request, yield func(agent.Event, error) bool) {
		<-let
		then(ctx, r, yield)
	}
}

// What the same member says meanwhile goes into the answer; another member's waits for its own, with its own rights.
func TestSay_Meanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		w := newWorld(t, []reply{gated(let, uses(call("1", "ext_a_b", `{}`))), says("done, in blue"), uses(call("1", "ext_a_b", `{}`)), says("hello bob")})
		w.servers.add("a.b", true, "fine")
		first := w.began(alice(), "paint it")
		more := w.began(alice(), "in blue")
		bob := w.began(by("bob", schemas.Member), "and me?")
		if n := len(w.model.seen()); n != 1 {
			t.Fatalf("%d requests", n)
		}
		close(let)
		if got := <-first; got.Text != "done, in blue" || got.Joined {
			t.Errorf("%+v", got)
		}
		if got := <-more; !got.Joined || !got.Done || got.Why != "" {
			t.Errorf("%+v", got)
		}
		if got := <-bob; got.Text != "hello bob" {
			t.Errorf("%+v", got)
		}
		r := w.model.seen()[1]
		if len(r.Messages) != 4 || wrote(r, 3) != "[alice] in blue" {
			t.Error(dump(r.Messages))
		}
		if c := w.servers.called(); c[0].Caller.Name != "alice" || c[1].Caller.Name != "bob" {
			t.Errorf("%+v", c)
		}
		if r := w.model.last(); wrote(r, 5) != "[bob] and me?" {
			t.Error(dump(r.Messages))
		}
	})
}

// A message that comes while the last words are said still gets its answer.
func TestSay_LateMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		w := newWorld(t, []reply{gated(let, says("that is all")), says("and this")})
		first := w.began(alice(), "one")
		more := w.began(alice(), "two")
		close(let)
		if got := <-first; got.Text != "that is all\n\nand this" {
			t.Errorf("%+v", got)
		}
		<-more
	})
}

func TestStop_Queued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []reply{hangs("working"), says("for carol")})
		first := w.began(alice(), "one")
		joined := w.began(alice(), "one more")
		bob := w.began(by("bob", schemas.Member), "two")
		carol := w.began(by("carol", schemas.Member), "three")
		if ok, err := w.Stop(t.Context(), by("bob", schemas.Member)); !ok || err != nil {
			t.Error(ok, err)
		}
		if got := <-bob; got.Why != "stopped by @bob" {
			t.Errorf("%+v", got)
		}
		if ok, err := w.Stop(t.Context(), alice()); !ok || err != nil {
			t.Error(ok, err)
		}
		if got := <-first; got.Why != "stopped by @alice" || got.Text != "working" {
			t.Errorf("%+v", got)
		}
		if got := <-joined; !got.Joined || got.Why != "the answer ended before it was read" {
			t.Errorf("%+v", got)
		}
		if got := <-carol; got.Text != "for carol" {
			t.Errorf("%+v", got)
		}
		if ok, err := w.Stop(t.Context(), boss()); ok || err != nil {
			t.Error(ok, err)
		}
	})
}

// The door's own context ends an answer, too, and what was said is kept.
func TestSay_ContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []reply{hangs("half"), says("again")})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		got, err := w.Say(ctx, schemas.Said{Caller: alice(), Text: "go"}, nil)
		if err != nil || got.Text != "half" || got.Why != "broken off" {
			t.Errorf("%+v %v", got, err)
		}
		w.say("again")
		if !strings.Contains(dump(w.model.last().Messages), `half\n\n[broken off]`) {
			t.Error(dump(w.model.last().Messages))
		}
	})
}

func TestShow_Throttled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []reply{func(_ context.Context, _ agent.Request, yield func(agent.Event, error) bool) {
			for range 1000 {
				time.Sleep(time.Millisecond)
				if !yield(agent.Event{Kind: agent.EventText, Text: "word "}, nil) {
					return
				}
			}
			yield(agent.Event{Kind: agent.EventEnd, Stop: agent.StopDone}, nil)
		}})
		var shown []schemas.Answering
		var at []time.Time
		_, err := w.Say(t.Context(), schemas.Said{Caller: alice(), Text: "go"}, func(s schemas.Answering) { shown, at = append(shown, s), append(at, time.Now()) })
		if err != nil || len(shown) > 25 || len(shown) < 15 {
			t.Fatalf("shown %d times, %v", len(shown), err)
		}
		for i := 1; i < len(at)-1; i++ {
			if at[i].Sub(at[i-1]) < 50*time.Millisecond || !strings.HasPrefix(shown[i].Text, shown[i-1].Text) || shown[i].Done {
				t.Errorf("%d: after %s", i, at[i].Sub(at[i-1]))
			}
		}
		if last := shown[len(shown)-1]; !last.Done || len(last.Text) != 4999 {
			t.Errorf("last: %+v", last)
		}
	})
}

func TestSay_CutStreamIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := &agent.Failure{Text: "the connection to fake broke", Cut: true}
		w := newWorld(t, []reply{fails(cut, "half an"), func(_ context.Context, _ agent.Request, yield func(agent.Event, error) bool) {
			yield(agent.Event{Kind: agent.EventText, Text: "no end"}, nil)
		}, says("whole"), fails(cut, "x"), fails(cut, "y"), fails(cut, "z"), says("fine")})
		if got := w.say("go"); got.Text != "whole" || got.Why != "" {
			t.Errorf("%+v", got)
		}
		if got := w.say("go on"); got.Text != "z" || got.Why != cut.Text {
			t.Errorf("%+v", got)
		}
		w.say("and now?")
	})
}

func TestSay_RetryIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []reply{func(ctx context.Context, r agent.Request, yield func(agent.Event, error) bool) {
			yield(agent.Event{Kind: agent.EventRetry, Wait: 5 * time.Second, Text: "fake is busy"}, nil)
			time.Sleep(5 * time.Second)
			yield(agent.Event{Kind: agent.EventReasoning, Text: "hm"}, nil)
			time.Sleep(time.Second)
			says("hello")(ctx, r, yield)
		}})
		var all []string
		_, err := w.Say(t.Context(), schemas.Said{Caller: alice(), Text: "go"}, func(s schemas.Answering) { all = append(all, s.Status) })
		if err != nil || !slices.Contains(all, "fake is busy, again in 5 s") || !slices.Contains(all, "thinks") || all[len(all)-1] != "" {
			t.Errorf("%q %v", all, err)
		}
	})
}

// While a person is waited for, everybody sees it.
func TestSay_WaitingIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []reply{uses(call("1", "ext_a_b", `{}`)), says("done")})
		w.servers.add("a.b", false, func(_ context.Context, c schemas.Call) (schemas.Result, error) {
			c.Waiting("waits for @alice to allow a.b")
			time.Sleep(time.Minute)
			c.Waiting("")
			return text("a", "fine"), nil
		})
		waits := false
		got, err := w.Say(t.Context(), schemas.Said{Caller: alice(), Text: "go"}, func(s schemas.Answering) {
			waits = waits || s.Status == "waits for @alice to allow a.b" && s.Steps[0].State == schemas.StepWaiting
		})
		if err != nil || !waits || got.Steps[0].Took > time.Second {
			t.Errorf("%v %+v", waits, got)
		}
	})
}

func TestSay_Refused(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		said schemas.Said
		code schemas.Code
	}{
		{schemas.Said{Caller: by("eve", schemas.Guest), Text: "hi"}, schemas.CodeDenied},
		{schemas.Said{Caller: schemas.Caller{Thread: "../x", Member: "a", Role: schemas.Owner}, Text: "hi"}, schemas.CodeInvalid},
		{schemas.Said{Caller: alice()}, schemas.CodeInvalid},
	} {
		if _, err := w.Say(t.Context(), c.said, nil); schemas.CodeOf(err) != c.code {
			t.Errorf("%+v: %v", c.said, err)
		}
	}
	w.open(func(o *agent.Options) { o.Models = nil })
	if _, err := w.Say(t.Context(), schemas.Said{Caller: alice(), Text: "hi"}, nil); schemas.CodeOf(err) != schemas.CodeMissing {
		t.Error(err)
	}
	if list, err := w.Models(t.Context(), thread); list != nil || err != nil {
		t.Error(list, err)
	}
}

func TestRates(t *testing.T) {
	w := newWorld(t, []reply{says("1"), says("2"), says("3"), says("4")}, func(o *agent.Options) { o.MemberTurns, o.ThreadTurns = 2, 3 })
	w.say("1")
	w.say("2")
	_, err := w.Say(t.Context(), schemas.Said{Caller: alice(), Text: "3"}, nil)
	if e, ok := errors.AsType[*schemas.Error](err); !ok || e.Code != schemas.CodeTooLarge || !strings.HasPrefix(e.Text, "your messages") {
		t.Error(err)
	}
	w.sayAs(boss(), "3")
	_, err = w.Say(t.Context(), schemas.Said{Caller: by("bob", schemas.Member), Text: "4"}, nil)
	if e, ok := errors.AsType[*schemas.Error](err); !ok || !strings.HasPrefix(e.Text, "this thread's") {
		t.Error(err)
	}
}

func TestModelsAndModes(t *testing.T) {
	other := &model{t: t, script: []reply{says("two here")}}
	w := newWorld(t, []reply{says("one here")}, func(o *agent.Options) {
		o.Models = append(o.Models, agent.Choice{Name: "fake/two", Provider: other, Model: "two", Window: 1000_000})
	})
	ctx := t.Context()
	if got := w.say("who?"); got.Model != "fake/one" {
		t.Errorf("%+v", got)
	}
	if err := w.Choose(ctx, alice(), "fake/two"); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Error(err)
	}
	if err := w.Choose(ctx, boss(), "fake/tow"); schemas.CodeOf(err) != schemas.CodeNotFound || !strings.Contains(err.(*schemas.Error).Hint, "fake/t") {
		t.Error(err)
	}
	if err := w.Choose(ctx, boss(), "two"); err != nil {
		t.Error(err)
	}
	if got := w.say("who now?"); got.Text != "two here" || got.Model != "fake/two" {
		t.Errorf("%+v", got)
	}
	list, err := w.Models(ctx, thread)
	if err != nil || len(list) != 2 || list[0].Chosen || !list[1].Chosen {
		t.Errorf("%+v %v", list, err)
	}
	for id, want := range map[schemas.ThreadID]schemas.ChatMode{thread: schemas.ChatAlways, "123456789012345678": schemas.ChatMentioned} {
		if got, err := w.Mode(ctx, id); got != want || err != nil {
			t.Errorf("%s: %s %v", id, got, err)
		}
	}
	if err := w.SetMode(ctx, boss(), "loud"); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
	if err := w.SetMode(ctx, boss(), schemas.ChatOff); err != nil {
		t.Error(err)
	}
	if got, _ := w.Mode(ctx, thread); got != schemas.ChatOff {
		t.Error(got)
	}
	if list, _ := w.Models(ctx, thread); !list[1].Chosen {
		t.Error("the mode took the model away")
	}
}

// Many members, threads and stops at once: every Say returns, and nothing is left.
func TestSay_ManyAtOnce(t *testing.T) {
	var script []reply
	for range 200 {
		script = append(script, says("fine"))
	}
	w := newWorld(t, script, func(o *agent.Options) { o.MemberTurns, o.ThreadTurns = -1, -1 })
	var wg sync.WaitGroup
	for i := range 60 {
		c := by([]string{"alice", "bob", "carol"}[i%3], schemas.Member)
		c.Thread = []schemas.ThreadID{"web-1", "web-2"}[i%2]
		wg.Go(func() {
			got, err := w.Say(t.Context(), schemas.Said{Caller: c, Text: "hi"}, nil)
			if err != nil && schemas.CodeOf(err) != schemas.CodeTooLarge || err == nil && !got.Done {
				t.Errorf("%+v %v", got, err)
			}
		})
		if i%10 == 9 {
			wg.Go(func() { _, _ = w.Stop(t.Context(), boss()) })
		}
	}
	wg.Wait()
}

// Two processes never answer in one thread at once.
func TestSay_AnotherBobbin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		w := newWorld(t, []reply{gated(let, says("one")), says("two")})
		first := w.began(alice(), "one")
		a := w.Agent
		w.open() // knows nothing of the first
		_, err := w.Say(t.Context(), schemas.Said{Caller: alice(), Text: "two"}, nil)
		if e, ok := errors.AsType[*schemas.Error](err); !ok || e.Code != schemas.CodeNotReady || !strings.Contains(e.Text, "another bobbin answers") {
			t.Error(err)
		}
		w.Agent = a
		close(let)
		<-first
		w.say("two")
	})
}
