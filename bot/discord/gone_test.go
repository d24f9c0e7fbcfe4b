package discord_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/bot/discord"
	"bobbin/bot/discord/discordtest"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

// state gives a folder for what a door remembers, and what it holds now.
func state(t *testing.T) (dir *durable.Dir, text func() string) {
	t.Helper()
	path := t.TempDir()
	dir, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir, func() string {
		data, err := os.ReadFile(filepath.Join(path, "discord.json"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(data)
	}
}

func stored(ids ...string) func(context.Context) ([]schemas.ThreadID, error) {
	return func(context.Context) ([]schemas.ThreadID, error) {
		all := []schemas.ThreadID{"web-default"}
		for _, id := range ids {
			all = append(all, schemas.ThreadID(id))
		}
		return all, nil
	}
}

func TestGone_AfterItsGraceAndARestart(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	lost, kept := ch.Thread(ann, "lost"), ch.Thread(ann, "kept")
	dir, text := state(t)
	m := &mind{}
	left := func(ctx context.Context) ([]schemas.ThreadID, error) { // what was dropped is stored no more
		all, err := stored(lost.ID, kept.ID)(ctx)
		return slices.DeleteFunc(all, func(id schemas.ThreadID) bool { return slices.Contains(m.drops(), id) }), err
	}
	keep := func(grace time.Duration) func(*discord.Options) {
		return func(o *discord.Options) { o.State, o.Grace, o.Threads = dir, grace, left }
	}
	_, stop := live(t, f, m, keep(time.Hour))
	f.As(ann, lost).Say("/mcp list")
	f.As(ann, lost).Wait("notes", 5*time.Second)
	lost.Delete()
	until(t, "the deletion is written down", func() bool { return strings.Contains(text(), `"gone"`) })
	stop()
	if got := m.drops(); len(got) != 0 {
		t.Fatalf("dropped before its time: %v", got)
	}
	live(t, f, m, keep(50*time.Millisecond))
	until(t, "it is dropped", func() bool { return len(m.drops()) > 0 })
	time.Sleep(quiet)
	if got := m.drops(); len(got) != 1 || string(got[0]) != lost.ID {
		t.Errorf("dropped %v", got)
	}
}

func TestGone_FoundAtStart(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	lost := ch.Thread(ann, "lost")
	lost.Delete()
	m := &mind{}
	live(t, f, m, func(o *discord.Options) { o.Grace, o.Threads = 50*time.Millisecond, stored(lost.ID) })
	until(t, "it is dropped", func() bool { return len(m.drops()) > 0 })
}

func TestGone_ARemovedBotIsAddedAgain(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	dir, text := state(t)
	m := &mind{}
	live(t, f, m, func(o *discord.Options) { o.State, o.Grace, o.Threads = dir, time.Hour, stored(ch.ID) })
	s := f.As(ann, ch)
	s.Say("/mcp list")
	s.Wait("notes", 5*time.Second)
	g.Delete()
	until(t, "all of it is marked", func() bool { return strings.Contains(text(), `"left":true`) })
	g.Return()
	until(t, "the mark is taken back", func() bool { return text() != "" && !strings.Contains(text(), `"gone"`) })
	if len(m.drops()) != 0 {
		t.Errorf("dropped %v", m.drops())
	}
}

func TestGone_ARemovedBotDropsAll(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	dm := f.DM(ann)
	m := &mind{}
	live(t, f, m, func(o *discord.Options) { o.Grace = 50 * time.Millisecond })
	for _, s := range []*discordtest.Seat{f.As(ann, ch), f.As(ann, dm)} {
		s.Say("/mcp list")
		s.Wait("notes", 5*time.Second)
	}
	g.Delete()
	until(t, "it is dropped", func() bool { return len(m.drops()) > 0 })
	time.Sleep(quiet)
	if got := m.drops(); len(got) != 1 || string(got[0]) != ch.ID {
		t.Errorf("dropped %v", got)
	}
}

func TestNotice_ReachesItsThreadAndNoOther(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true})
	g := f.Guild("Test")
	ann, ch := f.User("ann"), g.Channel("general")
	one, two, shut := ch.Thread(ann, "one"), ch.Thread(ann, "two"), ch.Thread(ann, "shut")
	shut.Archive(true)
	b, _ := live(t, f, &mind{})
	f.Limit("/channels/"+one.ID+"/messages", 1, 2*time.Second) // a slow thread
	for _, id := range []string{one.ID, shut.ID, two.ID, "100000000000000000", "web-default"} {
		b.Changed(schemas.ThreadID(id)) // nothing to see
		b.Edited(t.Context(), schemas.Edited{Thread: schemas.ThreadID(id), Outside: true, Removed: []string{"old-server"}})
	}
	began := time.Now()
	f.As(ann, two).Wait("edited outside of chat", time.Second)
	f.As(ann, one).Wait("edited outside of chat", 10*time.Second)
	if time.Since(began) < time.Second {
		t.Error("the slow thread was not slow")
	}
	time.Sleep(quiet)
	for _, c := range []*discordtest.Channel{one, two} {
		if got := answers(f.As(ann, c), f); len(got) != 1 {
			t.Errorf("%s: %q", c.Name, got)
		}
	}
}
