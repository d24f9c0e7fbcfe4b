package discord_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/discordtest"
	"bobbin/schemas"
)

// talker is an assistant that is told what to show, turn by turn.
type talker struct {
	mode   schemas.ChatMode
	states chan schemas.Answering // the one with Done is the answer

	mu     sync.Mutex
	said   []schemas.Said
	cancel context.CancelCauseFunc
}

func (a *talker) Say(ctx context.Context, s schemas.Said, show func(schemas.Answering)) (schemas.Answering, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.mu.Lock()
	a.said, a.cancel = append(a.said, s), cancel
	a.mu.Unlock()
	if a.states == nil {
		return schemas.Answering{Text: "heard: " + s.Text, Done: true}, nil
	}
	var last schemas.Answering
	for {
		select {
		case last = <-a.states:
			if last.Done {
				return last, nil
			}
			show(last)
		case <-ctx.Done():
			last.Why = context.Cause(ctx).Error()
			return last, nil
		}
	}
}

func (a *talker) Stop(_ context.Context, c schemas.Caller) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel(errors.New("stopped by @" + c.Name))
	return true, nil
}

func (a *talker) heard() (texts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.said {
		texts = append(texts, s.Text)
	}
	return texts
}

func (a *talker) Reset(context.Context, schemas.Caller) error { return nil }
func (a *talker) Models(context.Context, schemas.ThreadID) ([]schemas.Model, error) {
	return []schemas.Model{{Name: "ollama/qwen3", Chosen: true}, {Name: "ollama/other"}}, nil
}
func (a *talker) Choose(context.Context, schemas.Caller, string) error { return nil }
func (a *talker) Mode(context.Context, schemas.ThreadID) (schemas.ChatMode, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mode, nil
}

func (a *talker) SetMode(_ context.Context, _ schemas.Caller, m schemas.ChatMode) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode = m
	return nil
}

func (a *talker) Usage(context.Context, schemas.Caller) (own, all schemas.Usage, err error) {
	return schemas.Usage{Turns: 1}, schemas.Usage{Turns: 2}, nil
}

// chatting is a guild with a door to an assistant.
func chatting(t *testing.T, a *talker, opt discordtest.Options) (f *discordtest.Fake, g *discordtest.Guild, b *bot.Bot) {
	t.Helper()
	opt.AllowContent = true
	f = discordtest.New(t, opt)
	g = f.Guild("Test")
	b, _ = live(t, f, &mind{chat: a})
	return f, g, b
}

// edits are the requests that changed or posted a message of ours in a channel.
func edits(f *discordtest.Fake, ch *discordtest.Channel) (all []discordtest.Request) {
	for _, r := range f.Requests() {
		if strings.Contains(r.Path, "/channels/"+ch.ID+"/messages") && (r.Method == "POST" || r.Method == "PATCH") {
			all = append(all, r)
		}
	}
	return all
}

func TestAnswer_OneMessageAtItsPace(t *testing.T) {
	a := &talker{states: make(chan schemas.Answering)}
	f, g, _ := chatting(t, a, discordtest.Options{})
	ann, ch := f.User("ann"), g.Channel("general")
	s := f.As(ann, ch)
	id := s.Say("@bot fix the link")
	first := s.Wait(`thinks …`, 5*time.Second)
	if !strings.Contains(first.Raw, `"message_id":"`+id+`"`) || !strings.Contains(first.Raw, "Stop") {
		t.Errorf("no reply with a button: %s", first.Raw)
	}
	began := time.Now()
	for i := range 200 {
		a.states <- schemas.Answering{Text: fmt.Sprintf("so far %d", i), Steps: []schemas.Step{{Tool: "github.close", State: schemas.StepWaiting, RunsAs: schemas.MemberID(ann.ID), Args: []byte(`{"hush":1}`)}}, Status: "waits for @ann to allow github.close"}
		time.Sleep(10 * time.Millisecond)
	}
	s.Wait(`waits for @ann`, 5*time.Second)
	n, took := len(edits(f, ch)), time.Since(began)
	if most := 2 + int(took/(1200*time.Millisecond)); n > most {
		t.Errorf("%d requests in %s", n, took)
	}
	a.states <- schemas.Answering{Text: "It is **done**. See [it](https://x.example/?a=b), @everyone.", Done: true, Steps: []schemas.Step{
		{Tool: "github.close", State: schemas.StepDone, RunsAs: schemas.MemberID(ann.ID), Took: 310 * time.Millisecond, Receipt: "7f3a", Args: []byte(`{"hush":1}`), Result: "hush"}}}
	last := s.Wait(`It is \*\*done\*\*\.`, 5*time.Second)
	if last.ID != first.ID || len(answers(s, f)) != 1 {
		t.Errorf("more than one message:\n%s", s.Transcript())
	}
	if !strings.Contains(last.Text, "-# ✓ github.close · 310 ms · as @ann · receipt 7f3a") || strings.Contains(last.Raw, "Stop") || strings.Contains(last.Raw, "hush") {
		t.Errorf("%s", last.Raw)
	}
	if wrong := f.Inert(); len(wrong) > 0 {
		t.Error(wrong)
	}
	if got := a.said[0]; got.Text != "fix the link" || got.Caller.Name != "ann" || got.Caller.Member != schemas.MemberID(ann.ID) {
		t.Errorf("said %+v", got)
	}
}

func TestAnswer_StopAndCommandsMeanwhile(t *testing.T) {
	a := &talker{states: make(chan schemas.Answering)}
	f, g, _ := chatting(t, a, discordtest.Options{})
	ann, bob, ch := f.User("ann"), f.User("bob"), g.Channel("general")
	s, b := f.As(ann, ch), f.As(bob, ch)
	s.Say("@bot go on")
	a.states <- schemas.Answering{Text: "half of it"}
	s.Wait(`half of it`, 5*time.Second)
	s.Say("@bot /mcp list") // is not held up
	s.Wait(`notes`, 5*time.Second)
	if text := b.Press("Stop").Done(); !strings.Contains(text, "only @ann can stop this answer") {
		t.Errorf("a stranger saw %q", text)
	}
	if text := s.Press("Stop").Done(); strings.Contains(text, "done") {
		t.Errorf("the button answered %q", text)
	}
	until(t, "the first ends", func() bool { got := answers(s, f); return strings.Contains(got[0], "half of it\n-# stopped by @ann") })
	if m := s.Messages()[1]; strings.Contains(m.Raw, `"Stop"`) {
		t.Errorf("%s", m.Raw)
	}
	s.Say("@bot again")
	a.states <- schemas.Answering{Text: "another"}
	s.Wait(`another`, 5*time.Second)
	if text := s.Slash("chat stop", nil).Done(); !strings.Contains(text, "stopped") {
		t.Errorf("/chat stop: %q", text)
	}
	until(t, "the second ends", func() bool { got := answers(s, f); return strings.Contains(got[2], "stopped by @ann") })
}

func TestAnswer_WhenItAnswers(t *testing.T) {
	a := &talker{}
	f, g, _ := chatting(t, a, discordtest.Options{})
	ann, gus, ch := f.User("ann"), f.User("gus"), g.Channel("general")
	th := ch.Thread(ann, "a thread")
	dm := f.DM(ann)
	g.Allow(gus, 1<<10|1<<16)
	s, d := f.As(ann, th), f.As(ann, dm)
	s.Say("hello all")
	s.Say("@bot one")
	first := s.Wait(`heard: one`, 5*time.Second)
	s.Reply(first.ID, "two")
	s.Wait(`heard: two`, 5*time.Second)
	d.Say("three")
	d.Wait(`heard: three`, 5*time.Second)
	if text := s.Slash("chat mode", map[string]any{"mode": "always"}).Done(); !strings.Contains(text, "always: ") {
		t.Fatalf("/chat mode: %q", text)
	}
	s.Say("four")
	s.Wait(`heard: four`, 5*time.Second)
	f.As(gus, th).Say("what about me?")
	s.Slash("chat mode", map[string]any{"mode": "off"}).Done()
	s.Say("five")
	s.Say("@bot six")
	s.Wait(`assistant is off here`, 5*time.Second)
	time.Sleep(quiet)
	if got := strings.Join(a.heard(), ","); got != "one,two,three,four" {
		t.Errorf("heard %s\n%s", got, s.Transcript())
	}
	if text := s.Slash("chat usage", nil).Done(); !strings.Contains(text, "2 turns") {
		t.Errorf("/chat usage: %q", text)
	}
	if got := s.Complete("chat model", "name", "ollama/o"); len(got) != 1 || got[0] != "ollama/other" {
		t.Errorf("suggested %q", got)
	}
}

// A second message of the same member goes into the answer that is on its way: there is one message for both.
func TestAnswer_JoinedIsSilent(t *testing.T) {
	a := &talker{states: make(chan schemas.Answering)}
	f, g, _ := chatting(t, a, discordtest.Options{})
	ann, ch := f.User("ann"), g.Channel("general")
	s := f.As(ann, ch)
	s.Say("@bot and this")
	a.states <- schemas.Answering{Joined: true, Status: "goes into the answer that is on its way"}
	time.Sleep(quiet)
	a.states <- schemas.Answering{Joined: true, Done: true}
	s.Say("@bot and that")
	a.states <- schemas.Answering{Joined: true, Status: "goes into the answer that is on its way"}
	a.states <- schemas.Answering{Joined: true, Done: true, Why: "the answer ended before it was read"}
	s.Wait(`ended before it was read`, 5*time.Second)
	if got := answers(s, f); len(got) != 1 {
		t.Errorf("%d messages:\n%s", len(got), s.Transcript())
	}
}

func TestAnswer_LongOnesAreSplit(t *testing.T) {
	a := &talker{states: make(chan schemas.Answering)}
	f, g, _ := chatting(t, a, discordtest.Options{})
	ann, ch := f.User("ann"), g.Channel("general")
	s := f.As(ann, ch)
	s.Say("@bot tell me all")
	text := strings.Repeat("A sentence that says something. ", 30) + "\n\n```go\n" + strings.Repeat("fmt.Println(1)\n", 150) + "```\n\n" + strings.Repeat("More of it. ", 60) + "THE END"
	a.states <- schemas.Answering{Text: text[:1200]}
	s.Wait(`A sentence`, 5*time.Second)
	a.states <- schemas.Answering{Text: text, Done: true}
	s.Wait(`THE END`, 10*time.Second)
	got := answers(s, f)
	if len(got) < 3 || !strings.HasPrefix(got[1], "```go\n") || strings.Contains(got[0], "```") {
		t.Errorf("%d messages:\n%s", len(got), s.Transcript())
	}
	if wrong := f.Inert(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// The last state comes through rate limits and faults.
func TestAnswer_EndIsPosted(t *testing.T) {
	a := &talker{states: make(chan schemas.Answering)}
	f, g, _ := chatting(t, a, discordtest.Options{})
	ann, ch := f.User("ann"), g.Channel("general")
	s := f.As(ann, ch)
	s.Say("@bot go")
	a.states <- schemas.Answering{Text: "begun"}
	m := s.Wait(`begun`, 5*time.Second)
	f.Limit("/channels/"+ch.ID+"/messages/"+m.ID, 2, time.Second)
	f.Fail("/channels/"+ch.ID+"/messages/"+m.ID, 2, 502)
	a.states <- schemas.Answering{Text: "ended", Done: true}
	m = s.Wait(`ended`, 20*time.Second)
	if strings.Contains(m.Raw, `"Stop"`) {
		t.Error("the button stayed")
	}
}

func TestAnswer_Files(t *testing.T) {
	a := &talker{}
	f, g, _ := chatting(t, a, discordtest.Options{})
	ann, ch := f.User("ann"), g.Channel("general")
	s := f.As(ann, ch)
	png := []byte("\x89PNG\r\n\x1a\n0000")
	s.Say("@bot what is this?", discordtest.File{Name: "cat.txt", Data: png}, discordtest.File{Name: "n@t`es.md", Data: []byte("hello")})
	s.Wait(`heard: what is this`, 5*time.Second)
	got := a.said[0].Files
	if len(got) != 2 || got[0].MIME != "image/png" || string(got[0].Data) != string(png) || got[1].Name != "n@t'es.md" || !strings.HasPrefix(got[1].MIME, "text/plain") {
		t.Errorf("%+v", got)
	}
	s.Say("@bot big", discordtest.File{Name: "big.bin", Data: make([]byte, 5<<20+1)})
	s.Wait(`big\.bin is too much`, 5*time.Second)
	s.Say("@bot and add it", discordtest.File{Name: "mcp.json", Data: []byte(`{"mcpServers":{}}`)})
	s.Wait(`nothing is ever right`, 5*time.Second)
	s.Say("@bot", discordtest.File{Name: "a.json", Data: []byte(`{}`)})
	s.Wait(`(?s)nothing is ever right.*nothing is ever right|a\.json has a mistake`, 5*time.Second)
	if n := len(a.heard()); n != 1 {
		t.Errorf("heard %d messages", n)
	}
}

// What a gap hid is answered once; of what was not meant for the assistant, the newest alone.
func TestAnswer_AfterAGap(t *testing.T) {
	a := &talker{mode: schemas.ChatAlways}
	f, g, _ := chatting(t, a, discordtest.Options{})
	ann, ch := f.User("ann"), g.Channel("general")
	s := f.As(ann, ch)
	s.Say("before")
	s.Wait(`heard: before`, 5*time.Second)
	f.Drop(4000)
	s.Say("gap one")
	s.Say("@bot gap two")
	s.Say("gap three")
	s.Wait(`heard: gap three`, 20*time.Second)
	s.Say("after")
	s.Wait(`heard: after`, 5*time.Second)
	time.Sleep(quiet)
	if got := strings.Join(a.heard(), ","); got != "before,gap two,gap three,after" {
		t.Errorf("heard %s", got)
	}
}

// Somebody speaks in a thread of Discord's from the page: the thread sees the whole answer once.
func TestAnswer_OfAnotherDoor(t *testing.T) {
	a := &talker{}
	f, g, b := chatting(t, a, discordtest.Options{})
	ann, ch := f.User("ann"), g.Channel("general")
	s := f.As(ann, ch)
	r := b.Handle(t.Context(), bot.Request{Text: "from the page", Mentioned: true, Caller: schemas.Caller{Thread: schemas.ThreadID(ch.ID), Member: "local", Name: "Op", Door: schemas.DoorWeb, Role: schemas.Owner}})
	if r.Bad {
		t.Fatalf("%+v", r)
	}
	m := s.Wait(`heard: from the page`, 5*time.Second)
	if ok, _ := regexp.MatchString(`@Op on the page: from the page`, m.Text); !ok || len(answers(s, f)) != 1 {
		t.Errorf("%s", s.Transcript())
	}
}
