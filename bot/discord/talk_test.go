package discord_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/bot/discord"
	"bobbin/bot/discord/discordtest"
	"bobbin/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet makes sure that nothing more comes: everything that is answered at all is answered well within it.
const quiet = 400 * time.Millisecond

func answers(s *discordtest.Seat, f *discordtest.Fake) (texts []string) {
	for _, m := range s.Messages() {
		if m.Author == f.BotID {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

func TestTalk_WhatIsAnswered(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	dm := f.DM(ann)
	live(t, f, &mind{})

	s := f.As(ann, ch)
	s.Say("hello everybody")
	s.Say("what is /mcp list?")
	id := s.Say("@bot /mcp list")
	first := s.Wait(`notes`, 5*time.Second)
	if first.Author != f.BotID || !strings.Contains(first.Raw, `"message_id":"`+id+`"`) {
		t.Errorf("not a reply to what was said: %s", first.Raw)
	}
	s.Reply(first.ID, "and what can be done?")
	s.Wait(`(?i)model|chat`, 5*time.Second)
	s.Say("/mcp show notes")
	s.Wait(`notes`, 5*time.Second)
	d := f.As(ann, dm)
	d.Say("/mcp list")
	d.Wait(`notes`, 5*time.Second)
	time.Sleep(quiet)
	if got := answers(s, f); len(got) != 3 {
		t.Errorf("%d answers:\n%s", len(got), s.Transcript())
	}
}

func TestTalk_WithoutContentTheMentionIsEnough(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	live(t, f, &mind{}, func(o *discord.Options) { o.Content = false })
	s := f.As(ann, ch)
	s.Say("/mcp show notes") // nobody can see that
	s.Say("@bot /mcp list")
	first := s.Wait(`notes`, 5*time.Second)
	s.Reply(first.ID, "thanks")
	s.Wait(`cannot read messages here that do not mention me`, 5*time.Second)
	if got := answers(s, f); len(got) != 2 {
		t.Errorf("%d answers: %q", len(got), got)
	}
}

func TestTalk_RoleComesFromDiscord(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ch := g.Channel("general")
	ann, bob := f.User("ann"), f.User("bob")
	th := ch.Thread(ann, "a thread")
	live(t, f, &mind{})
	g.Allow(bob, 1<<10|1<<16)
	g.Allow(ann, discordtest.Default)
	b := f.As(bob, th)
	b.Say("@bot /mcp reload notes")
	b.Wait(`guests may look here`, 5*time.Second)
	a := f.As(ann, th)
	a.Say("@bot /mcp reload notes")
	a.Wait(`notes`, 5*time.Second)
}

func TestTalk_OrderWithinAChannelOnly(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, one, two := f.User("ann"), g.Channel("one"), g.Channel("two")
	free := make(chan struct{})
	m := &mind{}
	var once sync.Once
	m.load = func(ctx context.Context, id schemas.ThreadID) {
		if string(id) == one.ID {
			once.Do(func() {
				select {
				case <-free:
				case <-ctx.Done():
				}
			})
		}
	}
	live(t, f, m)
	s := f.As(ann, one)
	s.Say("/mcp list")
	s.Say("/mcp nonsense")
	s.Say("/mcp show notes")
	other := f.As(ann, two)
	other.Say("/mcp list")
	other.Wait(`notes`, 5*time.Second)
	if got := answers(s, f); len(got) != 0 {
		t.Fatalf("answered before its turn: %q", got)
	}
	close(free)
	s.Wait(`(?s)notes`, 5*time.Second)
	until(t, "three answers", func() bool { return len(answers(s, f)) == 3 })
	if got := answers(s, f); !strings.Contains(got[1], "no such verb") {
		t.Errorf("out of order: %q", got)
	}
}

func TestTalk_TypingEndsWithTheAnswer(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true, Latency: 50 * time.Millisecond})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	live(t, f, &mind{load: func(context.Context, schemas.ThreadID) { time.Sleep(20 * time.Millisecond) }})
	s := f.As(ann, ch)
	f.Limit("/channels/"+ch.ID+"/typing", 1, 600*time.Millisecond) // asked for again while the answer is ready
	for n := range 4 {
		s.Say(fmt.Sprintf("/mcp show notes%d", n))
	}
	until(t, "four answers", func() bool { return len(answers(s, f)) == 4 })
	time.Sleep(quiet)
	last := ""
	typed := 0
	for _, r := range f.Requests() {
		switch {
		case r.Status >= 300:
		case strings.HasSuffix(r.Path, "/typing"):
			last = "typing"
			typed++
		case strings.HasSuffix(r.Path, "/messages") && r.Method == "POST":
			if last != "typing" {
				t.Error("an answer without typing before it")
			}
			last = "answer"
		}
	}
	if last != "answer" || typed != 4 {
		t.Errorf("last was %q, typing was shown %d times", last, typed)
	}
}

func TestTalk_ProgressIsOneMessageThatBecomesTheAnswer(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	free := make(chan struct{})
	live(t, f, &mind{restart: func(ctx context.Context) {
		select {
		case <-free:
		case <-ctx.Done():
		}
	}})
	g.Allow(ann, 1<<3)
	s := f.As(ann, ch)
	s.Say("/mcp reload notes")
	before := s.Wait(`notes is starting`, 5*time.Second)
	close(free)
	until(t, "the answer", func() bool {
		got := answers(s, f)
		return len(got) == 1 && !strings.Contains(got[0], "is starting …")
	})
	time.Sleep(quiet)
	if got := s.Messages(); got[len(got)-1].ID != before.ID {
		t.Errorf("a second message: %s", s.Transcript())
	}
}

func TestTalk_ConfigFiles(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	m := &mind{}
	live(t, f, m)
	s := f.As(ann, ch)
	s.Say("@bot", discordtest.File{Name: "My.JSON", Data: []byte(`{"a":1}`)})
	s.Wait(`nothing is ever right`, 5*time.Second)
	s.Say("@bot add this", discordtest.File{Name: "cat.png", Data: []byte("png")}, discordtest.File{Name: "mcp.toml", Data: []byte("a=1")})
	s.Wait(`nothing is ever right`, 5*time.Second)
	s.Say("@bot", discordtest.File{Name: "cat.png", Data: []byte("png")})
	s.Wait(`No model is set`, 5*time.Second)
	s.Say("@bot", discordtest.File{Name: "a.json", Data: []byte("{}")}, discordtest.File{Name: "b.json", Data: []byte("{}")})
	s.Wait(`one at a time`, 5*time.Second)
	s.Say("@bot", discordtest.File{Name: "big.json", Data: make([]byte, 256<<10+1)})
	s.Wait(`larger than 256 KiB`, 5*time.Second)
	s.Say("@bot", discordtest.File{Name: "tool.dxt", Data: append([]byte("PK\x03\x04"), make([]byte, 2<<20)...)})
	s.Wait(`container|sandbox|installed here`, 5*time.Second) // a bundle may be larger; it went on to the bot
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := []string{`My.JSON: {"a":1}`, "mcp.toml: a=1"}; fmt.Sprint(m.imported) != fmt.Sprint(want) {
		t.Errorf("imported %q", m.imported)
	}
}

// TestTalk_GapsHideNothing says something while the connection is away, in every way that it can be.
func TestTalk_GapsHideNothing(t *testing.T) {
	for name, cut := range map[string]func(*discordtest.Fake){
		"resume refused":  func(f *discordtest.Fake) { f.Drop(4009) },
		"dropped":         func(f *discordtest.Fake) { f.Drop(1006) },
		"reconnect":       func(f *discordtest.Fake) { f.Reconnect() },
		"invalid session": func(f *discordtest.Fake) { f.InvalidSession(false) },
		"outage":          func(f *discordtest.Fake) { f.Outage(2 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			f := discordtest.New(t, discordtest.Options{AllowContent: true})
			g := f.Guild("Test")
			ann, ch, never := f.User("ann"), g.Channel("general"), g.Channel("never used")
			dm := f.DM(ann)
			live(t, f, &mind{})
			s, n, d := f.As(ann, ch), f.As(ann, never), f.As(ann, dm)
			s.Say("/mcp show before")
			d.Say("/mcp show before")
			s.Wait(`before`, 5*time.Second)
			d.Wait(`before`, 5*time.Second)
			cut(f)
			for _, seat := range []*discordtest.Seat{s, d, n} {
				for k := range 3 {
					seat.Say(fmt.Sprintf("/mcp show gap%d", k))
				}
				seat.Say("and this is for nobody")
			}
			for _, seat := range []*discordtest.Seat{s, d, n} {
				seat.Wait(`gap2`, 20*time.Second)
			}
			s.Say("/mcp show after")
			s.Wait(`after`, 5*time.Second)
			time.Sleep(quiet)
			want := []string{"before", "gap0", "gap1", "gap2", "after"}
			check(t, answers(s, f), want)
			check(t, answers(n, f), want[1:4])
		})
	}
}

func check(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d answers in place of %d: %q", len(got), len(want), got)
	}
	for n, w := range want {
		if !strings.Contains(got[n], w) {
			t.Errorf("answer %d is %q, not about %s", n, got[n], w)
		}
	}
}

func TestRun_FatalHasWords(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{}) // the intent is off in the portal
	d, err := discord.New(discord.Options{Bot: (&mind{}).bot(), Token: f.Token, Base: f.URL, Content: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := d.Run(ctx); err == nil || !strings.Contains(err.Error(), "message-content intent") {
		t.Errorf("%v", err)
	}
	if err := d.Run(ctx); err == nil {
		t.Error("Run was called twice")
	}
}

// TestTalk_CutOffAgainWhileCatchingUp is about what comes in while older messages are looked for, and a second gap meanwhile.
func TestTalk_CutOffAgainWhileCatchingUp(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	live(t, f, &mind{})
	s := f.As(ann, ch)
	s.Say("/mcp show before")
	s.Wait(`before`, 5*time.Second)
	f.Limit("/channels/"+ch.ID+"/messages", 1, 3*time.Second)
	f.Drop(4000)
	s.Say("/mcp show gap0")
	until(t, "older messages are looked for", func() bool {
		for _, r := range f.Requests() {
			if r.Status == 429 {
				return true
			}
		}
		return false
	})
	s.Say("/mcp show held")
	time.Sleep(50 * time.Millisecond)
	f.Drop(4000)
	s.Say("/mcp show gap1")
	s.Wait(`gap1`, 20*time.Second)
	s.Say("/mcp show after")
	s.Wait(`after`, 5*time.Second)
	time.Sleep(quiet)
	check(t, answers(s, f), []string{"before", "gap0", "held", "gap1", "after"})
}

func TestTalk_PrivateAnswers(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, bob, ch := f.User("ann"), f.User("bob"), g.Channel("general")
	dm := f.DM(ann)
	live(t, f, &mind{})
	a, b := f.As(ann, ch), f.As(bob, ch)
	a.Say("@bot /mcp show")
	a.Wait(`this is for you alone`, 5*time.Second)
	if text := b.Press("Show it to me").Done(); !strings.Contains(text, "for ann alone") {
		t.Errorf("a stranger saw %q", text)
	}
	if turn := a.Press("Show it to me").Wait(); turn.Modal == nil {
		t.Errorf("no form: %s", a.Transcript())
	}
	d := f.As(ann, dm)
	d.Say("/mcp show")
	d.Wait(`.`, 5*time.Second)
	if text := d.Transcript(); strings.Contains(text, "for you alone") {
		t.Errorf("there is nobody else here:\n%s", text)
	}
}
