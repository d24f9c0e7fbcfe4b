package discord_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord"
	"bobbin/bot/discord/discordtest"
	"bobbin/schemas"
)

// desk is a mind whose config can be changed: what is added is proposed and, after a yes, there.
type desk struct {
	mind
	commits int
	slow    func(ctx context.Context) // called by every commit; may wait
	call    func(ctx context.Context, c schemas.Call) (schemas.Result, error)
	needs   []string // what the server notes lacks
	owner   schemas.MemberID
	sealed  map[string]string
}

const wide = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"string"},"e":{"type":"string"},"f":{"type":"integer"},"g":{"type":"string"}},"required":["a","f"]}`

func (d *desk) bot() *bot.Bot {
	m := &d.mind
	return bot.New(bot.Options{Config: d, Past: m, Rules: m, Tools: d, Live: m, Held: m, Resources: m, Prompts: m, Secrets: d, Forget: m, Drop: m, Journal: m,
		Import: func(_ string, _ []byte, hint string) schemas.Import {
			return schemas.Import{Servers: []schemas.Draft{{Server: schemas.Server{Name: hint, Type: schemas.Stdio, Command: "run-" + hint}}}}
		},
		Place: func(schemas.ThreadID) schemas.Place { return schemas.Place{Available: true, Where: "nowhere"} },
	})
}

func (d *desk) Load(ctx context.Context, id schemas.ThreadID) (schemas.Config, error) {
	cfg, err := d.mind.Load(ctx, id)
	e := &cfg.Entries[0]
	e.Owner = d.owner
	for _, n := range d.needs {
		if e.Env == nil {
			e.Env = map[string]string{}
		}
		e.Env[n] = "${input:" + n + "}"
	}
	return cfg, err
}

func (d *desk) Propose(_ context.Context, c schemas.Caller, e schemas.Edit) (schemas.Proposal, error) {
	p := schemas.Proposal{Thread: c.Thread, Base: "1"}
	for _, x := range e.Put {
		s := x.Server
		p.Changes = append(p.Changes, schemas.Change{Server: s.Name, Kind: schemas.Added, After: &s})
	}
	return p, nil
}

func (d *desk) Commit(ctx context.Context, _ schemas.Caller, _ schemas.Proposal) (schemas.Revision, error) {
	if d.slow != nil {
		d.slow(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	return schemas.Revision{ID: "r1"}, nil
}

func (d *desk) Tools(context.Context, schemas.Caller) ([]schemas.Tool, error) {
	return []schemas.Tool{{Server: "notes", Name: "write", ReadOnly: true, Input: json.RawMessage(wide)}}, nil
}

func (d *desk) Status(context.Context, schemas.ThreadID) ([]schemas.Status, error) {
	s := schemas.Status{Name: "notes", Kind: schemas.Local, State: schemas.Ready, Tools: 1, Owner: d.owner}
	if len(d.needs) > 0 {
		s.State, s.Needs = schemas.Needs, d.needs
	}
	return []schemas.Status{s}, nil
}

func (d *desk) Call(ctx context.Context, c schemas.Call) (schemas.Result, error) {
	if d.call != nil {
		return d.call(ctx, c)
	}
	raw, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": "called with " + string(c.Args)}}})
	return schemas.Result{Raw: raw}, err
}

func (d *desk) Put(_ context.Context, k schemas.SecretKey, s schemas.Secret) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sealed == nil {
		d.sealed = map[string]string{}
	}
	d.sealed[k.Name] = s.Reveal()
	return nil
}

func (d *desk) committed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.commits
}

// open runs a door over a desk in a channel where ann and bob are members.
func open(t *testing.T, opt discordtest.Options, d *desk, change ...func(*discord.Options)) (f *discordtest.Fake, g *discordtest.Guild, ann, bob *discordtest.Seat, users [2]*discordtest.User) {
	t.Helper()
	t.Parallel()
	opt.NoRateLimits = true
	f = discordtest.New(t, opt)
	g = f.Guild("Test")
	a, b, ch := f.User("ann"), f.User("bob"), g.Channel("general")
	d.owner = schemas.MemberID(a.ID)
	o := discord.Options{Bot: d.bot(), Token: f.Token, Base: f.URL, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&o)
	}
	door, err := discord.New(o)
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, f, door.Run)
	return f, g, f.As(a, ch), f.As(b, ch), [2]*discordtest.User{a, b}
}

// with is the newest message that shows a button.
func with(s *discordtest.Seat, label string) *discordtest.Message {
	var found *discordtest.Message
	for _, m := range s.Messages() {
		for _, b := range m.Buttons {
			if b.Label == label && !b.Disabled {
				found = m
			}
		}
	}
	return found
}

func add(t *testing.T, s *discordtest.Seat, name string) *discordtest.Message {
	t.Helper()
	text := s.Slash("mcp add-json", map[string]any{"name": name, "json": "{}"}).Done()
	m := with(s, "Confirm")
	if m == nil || m.Ephemeral || !strings.Contains(text, "1 added") {
		t.Fatalf("no card for all: %s", text)
	}
	return m
}

// TestPress_RoleIsReadAnew: who may no longer write cannot confirm what was asked before, and the card waits.
func TestPress_RoleIsReadAnew(t *testing.T) {
	d := &desk{}
	_, g, ann, bob, users := open(t, discordtest.Options{}, d)
	card := add(t, ann, "one")
	if text := bob.Press("Confirm").Done(); !strings.Contains(text, "only @ann") {
		t.Errorf("a stranger got %q", text)
	}
	g.Allow(users[0], 1<<10|1<<16)
	if text := ann.Press("Confirm").Done(); !strings.Contains(text, "guests may look") {
		t.Errorf("a guest got %q", text)
	}
	if now := with(ann, "Confirm"); now == nil || now.ID != card.ID || now.Text != card.Text || d.committed() != 0 {
		t.Fatalf("a refusal changed the card, or more:\n%s", ann.Transcript())
	}
	for _, s := range []*discordtest.Seat{ann, bob} {
		for _, m := range s.Messages() {
			if !m.Ephemeral && (strings.Contains(m.Text, "guests may") || strings.Contains(m.Text, "only @ann")) {
				t.Errorf("all see a refusal: %s", m.Text)
			}
		}
	}
	g.Allow(users[0], discordtest.Default)
	if text := ann.Press("Confirm").Done(); !strings.Contains(text, "ann chose Confirm") || d.committed() != 1 {
		t.Errorf("%q, %d commits", text, d.committed())
	}
	if with(ann, "Confirm") != nil {
		t.Errorf("the card can be pressed still:\n%s", ann.Transcript())
	}
}

// TestPress_APrivateCardOutlivesARefusal: the copy that one member alone sees is not overwritten by what is no answer.
func TestPress_APrivateCardOutlivesARefusal(t *testing.T) {
	d := &desk{}
	_, g, ann, _, users := open(t, discordtest.Options{}, d)
	add(t, ann, "one")
	ann.Press("Show everything").Done()
	copied := with(ann, "Confirm")
	if copied == nil || !copied.Ephemeral {
		t.Fatalf("no private copy:\n%s", ann.Transcript())
	}
	g.Allow(users[0], 1<<10|1<<16)
	ann.PressOn(copied.ID, "Confirm").Done()
	if now := with(ann, "Confirm"); now == nil || now.ID != copied.ID || now.Text != copied.Text {
		t.Fatalf("the refusal took the card's place:\n%s", ann.Transcript())
	}
	g.Allow(users[0], discordtest.Default)
	ann.PressOn(copied.ID, "Confirm").Done()
	if d.committed() != 1 || with(ann, "Confirm") != nil {
		t.Errorf("%d commits:\n%s", d.committed(), ann.Transcript())
	}
}

// TestPress_TwiceDoesOneThing: of two presses at once one acts and the other is told.
func TestPress_TwiceDoesOneThing(t *testing.T) {
	d := &desk{slow: func(context.Context) { time.Sleep(100 * time.Millisecond) }}
	_, _, ann, _, _ := open(t, discordtest.Options{}, d)
	m := add(t, ann, "one")
	one, two := ann.PressOn(m.ID, "Confirm"), ann.PressOn(m.ID, "Confirm")
	one.Done()
	two.Done()
	if text := ann.Transcript(); d.committed() != 1 || !strings.Contains(text, "no longer open") || !strings.Contains(text, "ann chose Confirm") {
		t.Errorf("%d commits:\n%s", d.committed(), text)
	}
}

// TestPress_Unknown is a card from before a restart, or a custom id that somebody made up.
func TestPress_Unknown(t *testing.T) {
	d := &desk{}
	_, _, ann, _, _ := open(t, discordtest.Options{}, d)
	m := add(t, ann, "one")
	for _, id := range []string{"mcp:aaaaaaaaaaaaaaaaaaaa", "mcp:", "somebody else's"} {
		if text := ann.PressID(m, id).Done(); !strings.Contains(text, "no longer open") {
			t.Errorf("%s: %q", id, text)
		}
	}
	if now := with(ann, "Confirm"); now == nil || now.Text != m.Text {
		t.Errorf("the card changed:\n%s", ann.Transcript())
	}
}

// TestPress_TheTokenDies: the outcome that came too late for its interaction is posted, and the card says that it is over.
func TestPress_TheTokenDies(t *testing.T) {
	d := &desk{slow: func(context.Context) { time.Sleep(3 * time.Second) }}
	_, _, ann, bob, _ := open(t, discordtest.Options{TokenLife: 2 * time.Second}, d)
	add(t, ann, "one")
	if turn := ann.Press("Confirm").Wait(); !turn.Deferred {
		t.Fatalf("not put off: %+v", turn)
	}
	bob.Wait("one is saved|one is ready", 6*time.Second)
	until(t, "the card is settled", func() bool { return with(ann, "Confirm") == nil })
}

// TestForm_PagesHoldSecretsAndForgetThem: values of all pages come to the vault, and to nowhere else.
func TestForm_PagesHoldSecretsAndForgetThem(t *testing.T) {
	d := &desk{}
	for n := range 7 {
		d.needs = append(d.needs, fmt.Sprintf("KEY_%d", n))
	}
	f, _, ann, bob, _ := open(t, discordtest.Options{}, d)
	ann.Slash("mcp reload", map[string]any{"name": "notes"}).Done()
	if turn := bob.Press("Give").Wait(); turn.Modal != nil {
		t.Error("a stranger sees the form")
	}
	first := ann.Press("Give").Wait()
	if first.Modal == nil || len(first.Modal.Fields) != 5 {
		t.Fatalf("%+v\n%s", first.Modal, ann.Transcript())
	}
	if text := ann.Submit(first.Modal, "v-0", "v-1", "v-2", "v-3", "v-4").Done(); !strings.Contains(text, "page 1 of 2 is kept") {
		t.Errorf("%q", text)
	}
	for _, m := range bob.Messages() {
		if strings.Contains(m.Text, "is kept") {
			t.Errorf("bob sees the page: %s", m.Text)
		}
	}
	second := ann.Press("Go on to page 2").Wait()
	if second.Modal == nil || len(second.Modal.Fields) != 2 {
		t.Fatalf("%+v", second.Modal)
	}
	ann.Submit(second.Modal, "v-5", "v-6").Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, k := range d.needs {
		if want := fmt.Sprintf("v-%d", n); d.sealed[k] != want {
			t.Errorf("%s is %q", k, d.sealed[k])
		}
	}
	for _, r := range f.Requests() {
		for n := range d.needs {
			if strings.Contains(r.Body, fmt.Sprintf("v-%d", n)) {
				t.Errorf("a value went out: %s %s %s", r.Method, r.Path, r.Body)
			}
		}
	}
}

// TestForm_ClosedAndOpenedAgain: Discord does not tell that a modal was closed, so its button opens it once more.
func TestForm_ClosedAndOpenedAgain(t *testing.T) {
	d := &desk{needs: []string{"KEY"}}
	_, _, ann, bob, _ := open(t, discordtest.Options{}, d)
	ann.Slash("mcp reload", map[string]any{"name": "notes"}).Done()
	if m := ann.Press("Give").Wait().Modal; m == nil {
		t.Fatalf("no form:\n%s", ann.Transcript())
	}
	if turn := bob.Press("Give").Wait(); turn.Modal != nil {
		t.Error("a stranger sees the form")
	}
	again := ann.Press("Give").Wait()
	if again.Modal == nil {
		t.Fatalf("it does not open again:\n%s", ann.Transcript())
	}
	ann.Submit(again.Modal, "value").Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sealed["KEY"] != "value" {
		t.Errorf("%q", d.sealed)
	}
}

// TestForm_RefusedValuesStand: what was typed on both pages is there when the form is asked again.
func TestForm_RefusedValuesStand(t *testing.T) {
	d := &desk{}
	_, _, ann, _, _ := open(t, discordtest.Options{}, d)
	page := ann.Slash("mcp call", map[string]any{"tool": "notes.write"}).Wait().Modal
	ann.Submit(page, "first", "no number").Done()
	page = ann.Press("Go on to page 2").Wait().Modal
	text := ann.Submit(page, "", "last").Done()
	if !strings.Contains(text, "must be a whole number") {
		t.Fatalf("%q", text)
	}
	page = ann.Press("Fill in").Wait().Modal
	if page == nil || page.Fields[0].Value != "first" || page.Fields[1].Value != "no number" {
		t.Fatalf("%+v", page)
	}
	ann.Submit(page, "", "42").Done()
	page = ann.Press("Go on to page 2").Wait().Modal
	if page.Fields[1].Value != "last" {
		t.Errorf("%+v", page.Fields)
	}
	if text := ann.Submit(page).Done(); !strings.Contains(text, `"f":42`) || !strings.Contains(text, `"g":"last"`) {
		t.Errorf("%q", text)
	}
}

// TestForm_RefusedByDiscord: a modal that Discord does not take leaves no silence.
func TestForm_RefusedByDiscord(t *testing.T) {
	f, _, ann, _, _ := open(t, discordtest.Options{}, &desk{})
	f.Fail("/callback", 1, 400)
	ann.Slash("mcp call", map[string]any{"tool": "notes.write"})
	ann.Wait("(?i)could not|went wrong", 5*time.Second)
}

// TestPress_UpdateRefusedByDiscord: neither does an outcome.
func TestPress_UpdateRefusedByDiscord(t *testing.T) {
	f, _, ann, bob, _ := open(t, discordtest.Options{}, &desk{})
	add(t, ann, "one")
	f.Fail("/callback", 1, 400)
	ann.Press("Cancel")
	if m := ann.Wait("went wrong on my side, reference", 5*time.Second); !m.Ephemeral || strings.Contains(bob.Transcript(), "went wrong") {
		t.Errorf("all see it:\n%s", bob.Transcript())
	}
}

// TestLate_PrivateAfterAPublicDeferral: slow work is put off in time, its refusal reaches one member alone, and what was public is taken back.
func TestLate_PrivateAfterAPublicDeferral(t *testing.T) {
	d := &desk{}
	d.load = func(context.Context, schemas.ThreadID) { time.Sleep(1300 * time.Millisecond) }
	_, _, ann, bob, _ := open(t, discordtest.Options{}, d)
	turn := ann.Slash("mcp show", map[string]any{"name": "nothing"}).Wait()
	if !turn.Deferred || turn.Ack < 900*time.Millisecond || turn.Ack > 2*time.Second {
		t.Errorf("put off %v after %s", turn.Deferred, turn.Ack)
	}
	if m := ann.Wait("nothing", 5*time.Second); !m.Ephemeral {
		t.Errorf("all see it: %s", m.Text)
	}
	time.Sleep(quiet)
	if text := bob.Transcript(); text != "" {
		t.Errorf("bob sees\n%s", text)
	}
}

// TestLate_PrivateAfterItsEnd: a refusal that comes when a public interaction has run out waits behind a button.
func TestLate_PrivateAfterItsEnd(t *testing.T) {
	free := make(chan struct{})
	d := &desk{}
	d.load = func(ctx context.Context, _ schemas.ThreadID) {
		select {
		case <-free:
		case <-ctx.Done():
		}
	}
	_, _, ann, bob, _ := open(t, discordtest.Options{TokenLife: 2500 * time.Millisecond}, d, func(o *discord.Options) { o.Shorten(2 * time.Second) })
	ann.Slash("mcp show", map[string]any{"name": "nothing"})
	ann.Wait("still working", 5*time.Second)
	time.Sleep(time.Second)
	close(free)
	m := ann.Wait("Show it to me", 5*time.Second)
	if text := ann.PressOn(m.ID, "Show it to me").Done(); !strings.Contains(text, "nothing") {
		t.Errorf("%q", text)
	}
	if text := bob.Transcript(); strings.Contains(text, "`nothing`") || strings.Contains(text, "no server") {
		t.Errorf("bob sees\n%s", text)
	}
}

// TestLate_ProgressNeverHoldsTheAnswerUp: a rate limit on a line of progress costs that line.
func TestLate_ProgressNeverHoldsTheAnswerUp(t *testing.T) {
	d := &desk{}
	d.restart = func(context.Context) { time.Sleep(1500 * time.Millisecond) }
	f, _, ann, _, _ := open(t, discordtest.Options{}, d)
	f.Limit("PATCH /webhooks/", 1, 20*time.Second)
	begin := time.Now()
	text := ann.Slash("mcp reload", map[string]any{"name": "notes"}).Done()
	if took := time.Since(begin); took > 8*time.Second || !strings.Contains(text, "notes is ready") {
		t.Errorf("%q after %s", text, took)
	}
}

// TestPanic_IsAnswered: a mistake of ours is told with a reference, and the next request is answered.
func TestPanic_IsAnswered(t *testing.T) {
	var once sync.Once
	d := &desk{}
	d.load = func(context.Context, schemas.ThreadID) { once.Do(func() { panic("broken") }) }
	_, _, ann, bob, _ := open(t, discordtest.Options{}, d)
	if text := ann.Slash("mcp show", map[string]any{"name": "notes"}).Done(); !strings.Contains(text, "went wrong on my side, reference") {
		t.Errorf("%q", text)
	}
	if bob.Transcript() != "" {
		t.Errorf("bob sees\n%s", bob.Transcript())
	}
	if text := ann.Slash("mcp show", map[string]any{"name": "notes"}).Done(); !strings.Contains(text, "notes") {
		t.Errorf("%q", text)
	}
}

// TestComplete_IsNeverAnError: suggestions come in time, whatever happens.
func TestComplete_IsNeverAnError(t *testing.T) {
	for name, load := range map[string]func(context.Context, schemas.ThreadID){
		"slow":   func(ctx context.Context, _ schemas.ThreadID) { <-ctx.Done() },
		"broken": func(context.Context, schemas.ThreadID) { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{}
			d.load = load
			_, _, ann, _, _ := open(t, discordtest.Options{}, d)
			if got := ann.Complete("mcp show", "name", "no"); len(got) != 0 {
				t.Errorf("%q", got)
			}
		})
	}
	_, _, ann, _, _ := open(t, discordtest.Options{}, &desk{})
	if got := ann.Complete("mcp show", "name", "no"); len(got) != 1 || got[0] != "notes" {
		t.Errorf("%q", got)
	}
}

// TestLate_ARefusalTakesThePlaceOfRefresh: what comes instead of a private answer leaves nothing to wait for.
func TestLate_ARefusalTakesThePlaceOfRefresh(t *testing.T) {
	free := make(chan struct{})
	d := &desk{}
	d.load = func(ctx context.Context, _ schemas.ThreadID) {
		select {
		case <-free:
		case <-ctx.Done():
		}
	}
	_, _, ann, bob, _ := open(t, discordtest.Options{TokenLife: 2500 * time.Millisecond}, d, func(o *discord.Options) { o.Shorten(2 * time.Second) })
	ann.Slash("mcp secrets set", map[string]any{"name": "NOBODY_WANTS_IT"})
	ann.Wait("still working.*\\[Refresh\\]", 5*time.Second)
	close(free)
	until(t, "the refusal", func() bool {
		ann.Press("Refresh").Done()
		return with(ann, "Refresh") == nil
	})
	if text := ann.Transcript(); strings.Contains(text, "still working") || !strings.Contains(text, "no server of yours") {
		t.Errorf("ann sees\n%s", text)
	}
	if bob.Transcript() != "" {
		t.Errorf("bob sees\n%s", bob.Transcript())
	}
}

// TestLost_NothingIsTaken: when no interaction can be answered at all, what is not private is posted.
func TestLost_NothingIsTaken(t *testing.T) {
	f, _, ann, bob, _ := open(t, discordtest.Options{}, &desk{})
	f.Fail("/callback", 100, 500)
	ann.Slash("mcp show", map[string]any{"name": "notes"})
	bob.Wait("notes", 10*time.Second)
	ann.Slash("mcp show", map[string]any{"name": "nothing"})
	bob.Wait("this is for you alone", 10*time.Second)
}
