package discord_test

import (
	"context"
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

// mind is everything behind a bot: one server called notes in every thread, and a config that is read as slowly as a test wants.
type mind struct {
	chat     *talker // nil: no model is set
	mu       sync.Mutex
	load     func(ctx context.Context, thread schemas.ThreadID) // called at every look; may wait
	restart  func(ctx context.Context)
	imported []string
	dropped  []schemas.ThreadID
}

func (m *mind) bot() *bot.Bot {
	opt := bot.Options{Config: m, Past: m, Rules: m, Tools: m, Live: m, Held: m, Resources: m, Prompts: m, Secrets: m, Forget: m, Drop: m, Journal: m,
		Import: func(name string, data []byte, _ string) schemas.Import {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.imported = append(m.imported, name+": "+string(data))
			return schemas.Import{Problems: schemas.Problems{{File: name, Text: "nothing is ever right"}}}
		},
		Place: func(schemas.ThreadID) schemas.Place { return schemas.Place{Available: true, Where: "nowhere"} },
	}
	if m.chat != nil {
		opt.Assistant = m.chat
	}
	return bot.New(opt)
}

func notes() schemas.Entry {
	s := schemas.Server{Name: "notes", Type: schemas.Stdio, Command: "notes"}
	return schemas.Entry{Server: s, Kind: schemas.Local, Enabled: true, Approval: &schemas.Approval{Fingerprint: s.Fingerprint(), Definition: s}}
}

func (m *mind) Load(ctx context.Context, id schemas.ThreadID) (schemas.Config, error) {
	m.mu.Lock()
	load := m.load
	m.mu.Unlock()
	if load != nil {
		load(ctx, id)
	}
	return schemas.Config{Thread: id, Base: "1", Entries: []schemas.Entry{notes()}}, ctx.Err()
}

func (m *mind) Propose(_ context.Context, c schemas.Caller, _ schemas.Edit) (schemas.Proposal, error) {
	return schemas.Proposal{Thread: c.Thread, Base: "1"}, nil
}

func (m *mind) Commit(context.Context, schemas.Caller, schemas.Proposal) (schemas.Revision, error) {
	return schemas.Revision{}, nil
}

func (m *mind) History(context.Context, schemas.ThreadID) ([]schemas.Revision, error) {
	return nil, nil
}

func (m *mind) Export(context.Context, schemas.ThreadID, string) (schemas.File, error) {
	return schemas.File{Name: "mcp.json", MIME: "application/json", Data: []byte("{}")}, nil
}
func (m *mind) Rule(context.Context, schemas.ThreadID, func(*schemas.Policy) error) error { return nil }
func (m *mind) Tools(context.Context, schemas.Caller) ([]schemas.Tool, error)             { return nil, nil }
func (m *mind) Call(context.Context, schemas.Call) (schemas.Result, error) {
	return schemas.Result{}, nil
}

func (m *mind) Status(_ context.Context, id schemas.ThreadID) ([]schemas.Status, error) {
	return []schemas.Status{{Name: "notes", Kind: schemas.Local, State: schemas.Ready, Why: string(id)}}, nil
}
func (m *mind) Apply(context.Context, schemas.ThreadID) error { return nil }
func (m *mind) Poke(schemas.ThreadID)                         {}
func (m *mind) Restart(ctx context.Context, _ schemas.ThreadID, _ string) error {
	if m.restart != nil {
		m.restart(ctx)
	}
	return nil
}

func (m *mind) Held(context.Context, schemas.ThreadID, string) ([]schemas.HeldTool, error) {
	return nil, nil
}
func (m *mind) Accept(context.Context, schemas.Caller, string, map[string]string) error { return nil }
func (m *mind) Resources(context.Context, schemas.Caller) ([]schemas.Resource, error) {
	return nil, nil
}

func (m *mind) ReadResource(context.Context, schemas.Caller, string, string) (schemas.Result, error) {
	return schemas.Result{}, nil
}

func (m *mind) Result(context.Context, schemas.ThreadID, string) (schemas.File, error) {
	return schemas.File{}, nil
}
func (m *mind) Prompts(context.Context, schemas.Caller) ([]schemas.Prompt, error) { return nil, nil }
func (m *mind) Prompt(context.Context, schemas.Caller, string, string, map[string]string) (schemas.Result, error) {
	return schemas.Result{}, nil
}
func (m *mind) Put(context.Context, schemas.SecretKey, schemas.Secret) error { return nil }
func (m *mind) Delete(context.Context, schemas.SecretKey) error              { return nil }
func (m *mind) Names(context.Context, schemas.MemberID, schemas.ThreadID) ([]schemas.SecretKey, error) {
	return nil, nil
}
func (m *mind) Forget(context.Context, schemas.ThreadID, string) error { return nil }

func (m *mind) Drop(_ context.Context, id schemas.ThreadID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped = append(m.dropped, id)
	return nil
}

// drops gives the threads whose configuration was dropped.
func (m *mind) drops() []schemas.ThreadID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped
}

func (m *mind) Append(_ context.Context, r schemas.Record) (schemas.Record, error) {
	return r, nil
}

func (m *mind) Tail(context.Context, schemas.ThreadID, int) ([]schemas.Record, error) {
	return nil, nil
}

// live runs a door to f until the test ends, or stop is called.
func live(t *testing.T, f *discordtest.Fake, m *mind, change ...func(*discord.Options)) (b *bot.Bot, stop func()) {
	t.Helper()
	b = m.bot()
	opt := discord.Options{Bot: b, Token: f.Token, Base: f.URL, Content: true, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&opt)
	}
	d, err := discord.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return b, runUntilEnd(t, f, d.Run)
}

// runUntilEnd waits until /mcp is registered.
func runUntilEnd(t *testing.T, f *discordtest.Fake, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	until(t, "/mcp is registered", func() bool {
		for _, r := range f.Requests() {
			if (r.Method == "PUT" || r.Method == "POST") && r.Status < 300 && strings.HasSuffix(r.Path, "/applications/"+f.AppID+"/commands") {
				return true
			}
		}
		return false
	})
	return stop
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

func (m *mind) Has(context.Context, schemas.ThreadID) (bool, error) { return true, nil }
