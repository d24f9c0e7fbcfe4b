package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"bobbin/agent"
	"bobbin/schemas"
)

// summary answers a request to shorten, which has no tools and one message.
func summary(t *testing.T, text string) reply {
	return func(ctx context.Context, r agent.Request, yield func(agent.Event, error) bool) {
		if len(r.Tools) > 0 || len(r.Messages) != 1 || !strings.Contains(r.System, "## Facts to keep") {
			t.Errorf("not a request to shorten: %s", dump(r.Messages))
		}
		says(text)(ctx, r, yield)
	}
}

// measured answers with what a provider would have counted.
func measured(text string, in int) reply {
	return func(_ context.Context, _ agent.Request, yield func(agent.Event, error) bool) {
		_ = yield(agent.Event{Kind: agent.EventPart, Part: &agent.Part{Text: text}}, nil) && yield(agent.Event{Kind: agent.EventEnd, Stop: agent.StopDone, Tokens: schemas.Tokens{In: in, Out: 10}}, nil)
	}
}

// uncounted answers as a provider that counts nothing.
func uncounted(r reply) reply {
	return func(ctx context.Context, q agent.Request, yield func(agent.Event, error) bool) {
		r(ctx, q, func(e agent.Event, err error) bool {
			e.Tokens = schemas.Tokens{}
			return yield(e, err)
		})
	}
}

func window(tokens int) func(*agent.Options) {
	return func(o *agent.Options) { o.Models[0].Window = tokens }
}

// When the provider counts a nearly full window, what is answered becomes a summary, and the new message stays whole.
func TestCompact_FullWindow(t *testing.T) {
	w := newWorld(t, []reply{measured("one", 1000), measured("two", 8500), summary(t, "## Goal\nalice likes blue"), measured("three", 500), measured("four", 600)}, window(10_000))
	w.say("I like blue")
	w.say("and red")
	w.say("what do I like?")
	r := w.model.last()
	said := wrote(r, 0)
	if len(r.Messages) != 1 || !strings.HasPrefix(said, "[alice] what do I like?") || !strings.Contains(said, "alice likes blue") {
		t.Error(dump(r.Messages))
	}
	w.open()
	w.say("sure?")
	if r := w.model.last(); len(r.Messages) != 3 || !strings.Contains(wrote(r, 0), "alice likes blue") {
		t.Error(dump(r.Messages))
	}
}

// Old results go first, without asking the model.
func TestCompact_PrunesResults(t *testing.T) {
	var script []reply
	for i := range 5 {
		script = append(script, uncounted(uses(call("1", "ext_a_big", fmt.Sprintf(`{"n":%d}`, i)))), measured("ok", 0))
	}
	w := newWorld(t, append(script, says("fine")), window(30_000))
	w.servers.add("a.big", true, strings.Repeat("x y ", 5000))
	for range 5 {
		w.say("go")
	}
	w.say("and?")
	all := dump(w.model.last().Messages)
	if n := strings.Count(all, "bytes of an earlier result, left out to save room"); n < 2 || n > 4 || !strings.Contains(all, "x y x y") {
		t.Errorf("%d pruned\n%s", n, all)
	}
}

// A conversation that is refused as too long is shortened once, and asked again.
func TestCompact_TooLong(t *testing.T) {
	long := &agent.Failure{Text: "the conversation is too long for fake", TooLong: true}
	w := newWorld(t, []reply{says("one"), fails(long), summary(t, "short"), says("two"), fails(long), summary(t, "shorter"), fails(long), says("after")})
	w.say("hello")
	if got := w.say("and?"); got.Text != "two" || got.Why != "" {
		t.Errorf("%+v", got)
	}
	if _, err := w.Say(t.Context(), schemas.Said{Caller: alice(), Text: "more"}, nil); err == nil || !strings.Contains(err.Error(), "too long for fake") {
		t.Error(err)
	}
	w.say("still there?")
}

// An answer that itself fills the window keeps its request and its last calls, however often it is shortened.
func TestCompact_InTheMiddleOfAnAnswer(t *testing.T) {
	w := newWorld(t, nil, window(8000))
	w.servers.add("a.big", true, strings.Repeat("z ", 10_000))
	steps, summaries := 0, 0
	var next reply // a summary may be asked for before any step
	next = func(ctx context.Context, r agent.Request, yield func(agent.Event, error) bool) {
		w.model.mu.Lock()
		w.model.script = []reply{next}
		w.model.mu.Unlock()
		switch {
		case strings.Contains(r.System, "## Facts to keep"):
			summaries++
			says("## Done so far\nread some")(ctx, r, yield)
			return
		case !strings.HasPrefix(wrote(r, 0), "[alice] read all of it"):
			t.Error(dump(r.Messages))
		case steps == 6:
			says("done")(ctx, r, yield)
			return
		}
		steps++
		n := fmt.Sprint(steps)
		uncounted(uses(call("a"+n, "ext_a_big", `{"n":`+n+`}`), call("b"+n, "ext_a_big", `{"m":"`+n+strings.Repeat("y", 3000)+`"}`)))(ctx, r, yield)
	}
	w.model.script = []reply{next}
	got := w.say("read all of it")
	if got.Text != "done" || got.Why != "" || len(got.Steps) != 12 || summaries == 0 {
		t.Errorf("%d summaries, %d steps, %q", summaries, len(got.Steps), got.Why)
	}
	size := 0
	for n := range w.model.last().Messages {
		size += len(wrote(w.model.last(), n))
	}
	if size/4 > 8000 {
		t.Errorf("%d tokens at the end", size/4)
	}
	t.Logf("%d summaries, %d tokens at the end", summaries, size/4)
}

func TestCompact_SummaryFails(t *testing.T) {
	w := newWorld(t, []reply{measured("one", 9900), fails(&agent.Failure{Text: "fake is gone"}), measured("again", 10)}, window(10_000))
	w.say("hello")
	if _, err := w.Say(t.Context(), schemas.Said{Caller: alice(), Text: "more"}, nil); err == nil || !strings.Contains(err.Error(), "fake is gone") {
		t.Error(err)
	}
	w.say("and now?")
}

// What is too long even to be shortened is given to the model with less of its beginning each time.
func TestCompact_SummaryTooLong(t *testing.T) {
	long := &agent.Failure{Text: "too long", TooLong: true}
	var sizes []int
	seen := func(then reply) reply {
		return func(ctx context.Context, r agent.Request, yield func(agent.Event, error) bool) {
			sizes = append(sizes, len(wrote(r, 0)))
			then(ctx, r, yield)
		}
	}
	w := newWorld(t, []reply{says(strings.Repeat("long ago ", 2000)), fails(long), seen(fails(long)), seen(fails(long)), seen(summary(t, "short")), says("fine")})
	w.say("hello")
	if got := w.say("and?"); got.Text != "fine" || len(sizes) != 3 || sizes[1] > sizes[0]*6/10 || sizes[2] > sizes[1]*6/10 {
		t.Errorf("%v %+v", sizes, got)
	}
}

// Where the window is unknown, a conversation is shortened at an estimate.
func TestCompact_UnknownWindow(t *testing.T) {
	w := newWorld(t, []reply{uncounted(says(strings.Repeat("word ", 40_000))), uncounted(says(strings.Repeat("word ", 45_000))), summary(t, "words"), says("fine")})
	w.say("one")
	w.say("two")
	w.say("three")
	if r := w.model.last(); len(r.Messages) != 1 || !strings.Contains(wrote(r, 0), "words") {
		t.Errorf("%d messages", len(r.Messages))
	}
}
