package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// parrot is an assistant that says what it was told to say. It is strict: one turn of a thread at a time, nothing without a model.
type parrot struct {
	t      *testing.T
	models []schemas.Model
	steps  []schemas.Answering // shown in this order; the last is the answer
	err    error               // of Say, after the steps
	hold   chan struct{}       // Say waits for it before the answer; nil: it does not wait

	mu     sync.Mutex
	said   []schemas.Said
	now    int // turns that go on
	stop   context.CancelCauseFunc
	mode   schemas.ChatMode
	resets int
	show   func(schemas.Answering) // of the last turn
	chosen []string
}

func (p *parrot) Say(ctx context.Context, s schemas.Said, show func(schemas.Answering)) (schemas.Answering, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	p.said, p.stop, p.show = append(p.said, s), cancel, show
	if p.now++; p.now > 1 || len(p.models) == 0 {
		p.t.Errorf("%d turns at a time, %d models", p.now, len(p.models))
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now--
	}()
	var a schemas.Answering
	for _, a = range p.steps {
		show(a)
	}
	if p.hold != nil {
		select {
		case <-p.hold:
		case <-ctx.Done():
			if why := context.Cause(ctx); why != ctx.Err() {
				a.Why = why.Error()
				return a, nil
			}
			return a, ctx.Err()
		}
	}
	return a, p.err
}

func (p *parrot) Stop(_ context.Context, c schemas.Caller) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == 0 {
		return false, nil
	}
	if by := p.said[len(p.said)-1].Caller; by.Member != c.Member && !c.Manages() {
		return false, &schemas.Error{Code: schemas.CodeDenied, Text: "only @" + by.Name + " can stop this answer, or a manager"}
	}
	p.stop(fmt.Errorf("stopped by @%s", c.Name))
	return true, nil
}

func (p *parrot) Reset(context.Context, schemas.Caller) error { p.resets++; return nil }
func (p *parrot) Models(context.Context, schemas.ThreadID) ([]schemas.Model, error) {
	return p.models, nil
}
func (p *parrot) Choose(_ context.Context, _ schemas.Caller, n string) error {
	p.chosen = append(p.chosen, n)
	return nil
}
func (p *parrot) Mode(context.Context, schemas.ThreadID) (schemas.ChatMode, error) {
	return p.mode, nil
}
func (p *parrot) SetMode(_ context.Context, _ schemas.Caller, m schemas.ChatMode) error {
	p.mode = m
	return nil
}

func (p *parrot) Usage(context.Context, schemas.Caller) (own, all schemas.Usage, err error) {
	own = schemas.Usage{Since: time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC), Turns: 1, Calls: 3, Tokens: schemas.Tokens{In: 1200, Cached: 1000, Out: 34}, Limit: 50000}
	return own, schemas.Usage{Turns: 12, Calls: 30, Tokens: schemas.Tokens{In: 45000, Out: 3300}}, nil
}

func talking(t *testing.T) (*world, *parrot) {
	t.Helper()
	p := &parrot{t: t, models: []schemas.Model{{Name: "ollama/qwen3"}, {Name: "anthropic/claude-sonnet-5", Window: 200000, Chosen: true}},
		steps: []schemas.Answering{
			{Status: "the model is busy, again in 5 s"},
			{Text: "I look.", Steps: []schemas.Step{{Tool: "github.list_issues", State: schemas.StepRunning, RunsAs: "alice", Args: json.RawMessage(`{"repo":"acme/secret"}`)}}},
			{Text: "I look. It is **done**.", Steps: []schemas.Step{{Tool: "github.list_issues", State: schemas.StepDone, RunsAs: "alice", Took: 310 * time.Millisecond,
				Receipt: "7f3a", Args: json.RawMessage(`{"repo":"acme/secret"}`), Result: "the private result"}}, Model: "anthropic/claude-sonnet-5"},
		}}
	return newWorld(t, func(o *bot.Options) { o.Assistant = p }), p
}

// answered is the assistant's answer in a reply.
func answered(t *testing.T, r bot.Reply) schemas.Answering {
	t.Helper()
	for _, b := range r.Blocks {
		if b.Answer != nil {
			return *b.Answer
		}
	}
	t.Fatalf("no answer in:\n%s", flat(r))
	return schemas.Answering{}
}

func TestChat_Streams(t *testing.T) {
	w, p := talking(t)
	others, stop := w.bot.Subscribe(thread, "mallory")
	defer stop()
	var shown []bot.Reply
	r := w.do(bot.Request{Caller: alice(), Text: "fix the link", Files: []schemas.File{{Name: "a.png", MIME: "image/png", Data: []byte("\x89PNG")}},
		Stream: func(r bot.Reply) { shown = append(shown, r); w.now = w.now.Add(400 * time.Millisecond) }})
	if len(shown) != 4 {
		t.Fatalf("shown %d times", len(shown))
	}
	for _, s := range shown {
		if s.ID == "" || s.ID != shown[0].ID || len(s.Choices) != 1 || s.Choices[0].Label != "Stop" || answered(t, s).Done {
			t.Errorf("shown: %+v", s)
		}
	}
	if s := answered(t, shown[1]).Status; s != "the model is busy, again in 5 s" {
		t.Errorf("status %q", s)
	}
	a := answered(t, r)
	if r.Replace != shown[0].ID || r.ID != "" || r.Private || !a.Done || a.Text != "I look. It is **done**." || a.Steps[0].Result != "the private result" {
		t.Errorf("%+v", r)
	}
	if got := p.said[0]; got.Text != "fix the link" || got.Caller != alice() || len(got.Files) != 1 {
		t.Errorf("said %+v", got)
	}
	wantCode(t, w.do(bot.Request{Caller: alice(), Action: &bot.Action{ID: shown[0].ID, Choice: "stop"}}), schemas.CodeExpired)

	var last bot.Notice
	for n := 0; len(others) > 0; n++ {
		last = <-others
		if js, _ := json.Marshal(last.Reply); strings.Contains(string(js), "acme/secret") || strings.Contains(string(js), "private result") {
			t.Errorf("others see %s", js)
		}
		if last.Door != schemas.DoorTerminal || n > 3 {
			t.Errorf("notice %d: %+v", n, last)
		}
	}
	want(t, last.Reply, "@alice in the terminal: fix the link · 1 file")
	if b := answered(t, last.Reply); last.Reply.Replace != r.Replace || b.Text != a.Text || b.Steps[0].Receipt != "7f3a" || !b.Done {
		t.Errorf("last notice %+v", last)
	}
}

func TestChat_Stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := talking(t)
		p.hold = make(chan struct{})
		var mu sync.Mutex
		var card bot.Reply
		say := func(ctx context.Context) <-chan bot.Reply {
			reply := make(chan bot.Reply, 1)
			go func() {
				reply <- w.bot.Handle(ctx, bot.Request{Caller: alice(), Text: "go on", Stream: func(r bot.Reply) {
					mu.Lock()
					defer mu.Unlock()
					card = r
				}})
			}()
			synctest.Wait()
			return reply
		}
		press := func(c schemas.Caller) bot.Reply {
			mu.Lock()
			id := card.ID
			mu.Unlock()
			r := w.do(bot.Request{Caller: c, Action: &bot.Action{ID: id, Choice: "stop"}})
			synctest.Wait()
			return r
		}
		reply := say(t.Context())
		want(t, press(mallory()), "only @alice can stop this answer, or a manager of the thread")
		wantCode(t, press(guest()), schemas.CodeDenied)
		if r := press(boss()); len(r.Blocks) != 0 || r.Bad {
			t.Errorf("press: %s", flat(r))
		}
		if r := <-reply; answered(t, r).Why != "stopped by @boss" || answered(t, r).Text == "" || r.Bad {
			t.Errorf("%+v", r)
		}
		wantCode(t, press(boss()), schemas.CodeExpired)
		reply = say(t.Context())
		want(t, w.say(mallory(), "/chat stop"), "only @alice can stop this answer")
		want(t, w.say(alice(), "/chat stop"), "stopped")
		if a := answered(t, <-reply); a.Why != "stopped by @alice" {
			t.Errorf("%+v", a)
		}
		want(t, w.say(alice(), "/chat stop"), "nothing is being answered here")
		ctx, cancel := context.WithCancelCause(t.Context())
		reply = say(ctx)
		cancel(bot.ErrStopped) // as a door does
		if r := <-reply; answered(t, r).Why != "stopped by @alice" || r.Bad {
			t.Errorf("%+v", r)
		}
	})
}

// What comes of an assistant too late is not shown, and an answer never pushes anything else out of a slow door's queue.
func TestChat_LateAndMany(t *testing.T) {
	w, p := talking(t)
	slow, stop := w.bot.Subscribe(thread, "mallory")
	defer stop()
	w.bot.Changed(thread)
	p.steps = nil
	for i := range 200 {
		p.steps = append(p.steps, schemas.Answering{Text: fmt.Sprint("so far ", i)})
	}
	over := false
	r := w.do(bot.Request{Caller: alice(), Text: "go", Stream: func(bot.Reply) {
		if w.now = w.now.Add(time.Second); over {
			t.Error("shown after the answer")
		}
	}})
	over = true
	p.show(schemas.Answering{Text: "late"})
	if first := hear(t, slow); !first.Changed || len(slow) < 10 {
		t.Errorf("first %+v, and %d more", first, len(slow))
	}
	var last bot.Notice
	for len(slow) > 0 {
		last = <-slow
	}
	if last.Reply.Replace != r.Replace || answered(t, last.Reply).Text != "so far 199" {
		t.Errorf("the end was not told: %+v", last)
	}
}

// A message that went into an answer on its way has none of its own.
func TestChat_Joined(t *testing.T) {
	w, p := talking(t)
	others, stop := w.bot.Subscribe(thread, "mallory")
	defer stop()
	p.steps = []schemas.Answering{{Joined: true, Status: "goes into the answer that is on its way"}}
	if r := w.say(alice(), "and this"); len(r.Blocks) != 0 || r.Bad || r.Replace == "" || len(others) != 0 {
		t.Errorf("%+v, %d notices", r, len(others))
	}
	p.steps = []schemas.Answering{{Joined: true, Done: true, Why: "the answer ended before it was read"}}
	if a := answered(t, w.say(alice(), "and this")); a.Why != "the answer ended before it was read" {
		t.Errorf("%+v", a)
	}
}

func TestChat_Modes(t *testing.T) {
	w, p := talking(t)
	discord := func(text string, mentioned bool, role schemas.Role) bot.Reply {
		c := schemas.Caller{Thread: "112233445566778899", Member: "1", Name: "ann", Door: schemas.DoorDiscord, Role: role}
		return w.do(bot.Request{Caller: c, Text: text, Mentioned: mentioned})
	}
	quiet := func(r bot.Reply) {
		t.Helper()
		if len(r.Blocks) > 0 || r.Bad {
			t.Errorf("not silent: %s", flat(r))
		}
	}
	quiet(discord("hello all", false, schemas.Member))
	answered(t, discord("hello", true, schemas.Member))
	quiet(discord("hello", false, schemas.Guest))
	want(t, discord("hello", true, schemas.Guest), "guests may look here, not speak with the assistant")
	answered(t, w.say(alice(), "no")) // no card is open
	if w.bot.Overhears(t.Context(), "112233445566778899") || !w.bot.Overhears(t.Context(), thread) {
		t.Error("what is overheard by default")
	}
	p.mode = schemas.ChatMentioned
	want(t, w.say(alice(), "hello"), "not answered: here the assistant answers when it is mentioned")
	want(t, w.say(alice(), "@bobbins do it"), "not answered")
	answered(t, w.say(alice(), "@Bobbin, do it"))
	if got := p.said[len(p.said)-1].Text; got != "do it" {
		t.Errorf("said %q", got)
	}
	p.mode = schemas.ChatOff
	want(t, w.say(alice(), "@bobbin hello"), "the assistant is off here", "/chat mode always")
	quiet(discord("hello", false, schemas.Member))
	want(t, discord("hello", true, schemas.Member), "off here")
	p.mode = schemas.ChatAlways
	answered(t, discord("hello", false, schemas.Member))
	p.models = nil
	quiet(discord("hello", false, schemas.Member))
	want(t, discord("hello", true, schemas.Member), "No model is set")
	if w.bot.Overhears(t.Context(), thread) {
		t.Error("overheard without a model")
	}
}

func TestChat_Verbs(t *testing.T) {
	w, p := talking(t)
	want(t, w.say(alice(), "/chat"), "the assistant answers every message of members · anthropic/claude-sonnet-5", "/chat mode [mentioned|always|off]", "/chat stop")
	want(t, w.say(alice(), "/chat model"), "2 models to choose from", "anthropic/claude-sonnet-5", "200,000 tokens", "answers here")
	want(t, w.say(alice(), "/chat model ollama/qwen3"), "only a manager of the thread can choose the model")
	want(t, w.say(boss(), "/chat model olama/qwen3"), "there is no model olama/qwen3", "did you mean ollama/qwen3?")
	want(t, w.do(bot.Request{Caller: boss(), Verb: "chat model", Args: map[string]string{"name": "ollama/qwen3"}}), "ollama/qwen3 answers here from the next message on")
	want(t, w.say(alice(), "/chat mode"), "always: the assistant answers every message")
	want(t, w.say(alice(), "/chat mode off"), "only a manager")
	want(t, w.say(boss(), "/chat mode loud"), "there is no such mode")
	want(t, w.say(boss(), "/chat mode mentioned"), "mentioned: the assistant answers messages that mention it")
	want(t, w.say(alice(), "/chat usage"), "you, in all threads: 1 turn, 3 calls of tools · 1,234 tokens of 50,000", "(1,000 of them from the cache)", "since 2 Nov 08:00 UTC", "this thread: 12 turns")
	want(t, w.say(alice(), "/chat reset"), "only a manager")
	card := w.say(boss(), "/chat reset")
	want(t, card, "makes the assistant forget the conversation", "1) Forget it\n2) Cancel")
	wantCode(t, w.press(alice(), card, "Forget"), schemas.CodeDenied)
	if p.resets != 0 {
		t.Fatal("forgotten without a yes")
	}
	want(t, w.press(boss(), card, "Forget"), "the conversation is forgotten")
	want(t, w.say(alice(), "/chat modell"), "/chat has no such verb", "did you mean /chat model?")
	want(t, w.say(alice(), "/chat stop now"), "there is more in that line than /chat stop takes", "/chat stop")
	wantCode(t, w.say(guest(), "/chat usage"), schemas.CodeDenied)
	want(t, w.say(guest(), "/chat"), "/chat model")
	if p.resets != 1 || p.mode != schemas.ChatMentioned || len(p.chosen) != 1 || p.chosen[0] != "ollama/qwen3" {
		t.Errorf("%+v", p)
	}
	var asked []string
	for _, r := range w.records {
		asked = append(asked, r.Detail)
	}
	if got := strings.Join(asked, ","); got != "/chat model ollama/qwen3,/chat mode mentioned,/chat reset,/chat reset" {
		t.Errorf("audit %s", got)
	}
	for line, wants := range map[string]string{"/c": "/chat ", "/chat mo": "/chat model,/chat mode", "/chat mode o": "/chat mode off", "/chat model o": "/chat model ollama/qwen3"} {
		if got := strings.Join(w.bot.Complete(t.Context(), alice(), line), ","); got != wants {
			t.Errorf("%q: %q, want %q", line, got, wants)
		}
	}
	want(t, w.bot.Welcome(t.Context(), alice()), "Mention me and say what you want done: anthropic/claude-sonnet-5 answers")
	want(t, w.say(alice(), "/mcp help model"), "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "--model-url", "ollama/")
}

func TestChat_Files(t *testing.T) {
	w, p := talking(t)
	file := func(name, data string) []schemas.File { return []schemas.File{{Name: name, Data: []byte(data)}} }
	for _, f := range []struct {
		name, data, text string
		config           bool
	}{
		{"mcp.json", github(), "", true}, {"notes.txt", github(), "add this", true}, {"broken.json", `{"a":`, "", true},
		{"data.json", `{"a":1}`, "what is in it?", false}, {"notes.txt", "hello", "", false}, {"a.png", "\x89PNG\xff", "", false}, {"b.md", "x", "read it", false},
	} {
		before := len(p.said)
		w.do(bot.Request{Caller: alice(), Text: f.text, Files: file(f.name, f.data)})
		if config := len(p.said) == before; config != f.config {
			t.Errorf("%s with %q: taken as a config: %v", f.name, f.text, config)
		}
	}
	wantCode(t, w.do(bot.Request{Caller: alice(), Text: "x", Files: make([]schemas.File, 11)}), schemas.CodeTooLarge)
	wantCode(t, w.do(bot.Request{Caller: alice(), Text: "x", Files: file("a.png", strings.Repeat("\xff", 6<<20))}), schemas.CodeTooLarge)
}

func TestChat_Fails(t *testing.T) {
	w, p := talking(t)
	p.err = &schemas.Error{Code: schemas.CodeFailed, Text: "anthropic refuses the key", Hint: "the operator checks ANTHROPIC_API_KEY"}
	r := w.say(alice(), "hello")
	if a := answered(t, r); !r.Bad || a.Why != "anthropic refuses the key · the operator checks ANTHROPIC_API_KEY" || a.Text == "" {
		t.Errorf("%+v %+v", r, a)
	}
	p.steps = nil
	r = w.say(alice(), "hello")
	want(t, r, "anthropic refuses the key")
	wantCode(t, r, schemas.CodeFailed)
	if r.Replace == "" {
		t.Error("the running answer is not settled")
	}
}

func TestChatVerbs_DiscordLimits(t *testing.T) {
	w, _ := talking(t)
	total := 0
	for _, v := range w.bot.ChatVerbs() {
		if len(v.Summary) > 100 || v.Summary == "" || len(v.Args) > 25 || strings.Contains(v.Name, " ") {
			t.Errorf("%s: summary of %d characters", v.Name, len(v.Summary))
		}
		total += len(v.Name) + len(v.Summary)
		for _, a := range v.Args {
			total += len(a.Name) + len(a.Hint)
		}
	}
	if n := len(w.bot.ChatVerbs()); n == 0 || n > 25 || total > 8000 {
		t.Errorf("%d verbs, %d characters", n, total)
	}
}

// TestChat_SearchFromHere: who adds the server that makes the assistant search is told so, and nobody else.
func TestChat_SearchFromHere(t *testing.T) {
	w, p := talking(t)
	for i := range p.models {
		p.models[i].Tools, p.models[i].ToolTokens = 3, 100_000
	}
	add := func(name string, tools int) bot.Reply {
		for i := range tools {
			w.toolsOf[name] = append(w.toolsOf[name], schemas.Tool{Server: name, Name: fmt.Sprint("t", i)})
		}
		return w.press(alice(), w.say(alice(), `/mcp add-json `+name+` {"command":"x"}`), "Confirm")
	}
	const words = "the assistant searches among them from now on"
	for i, n := range []int{3, 2, 1} {
		if got := flat(add(fmt.Sprint("s", i), n)); strings.Contains(got, words) != (i == 1) || i == 1 && !strings.Contains(got, "5 tools here, about 10,000 tokens") {
			t.Errorf("server %d: %s", i, got)
		}
	}
}
