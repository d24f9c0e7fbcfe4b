package discord_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"bobbin/bot/discord"
	"bobbin/bot/discord/discordtest"
	"bobbin/schemas"
)

// TestOutlive: an answer that comes when its interaction has run out is posted, or, if it is private, waits behind a button.
func TestOutlive(t *testing.T) {
	f := discordtest.New(t, discordtest.Options{AllowContent: true, TokenLife: 2500 * time.Millisecond})
	g := f.Guild("Test")
	ann, bob, ch := f.User("ann"), f.User("bob"), g.Channel("general")
	free := make(chan struct{}, 8)
	live(t, f, &mind{load: func(ctx context.Context, _ schemas.ThreadID) {
		select {
		case <-free:
		case <-ctx.Done():
		}
	}}, func(o *discord.Options) { o.Shorten(2 * time.Second) })
	s, other := f.As(ann, ch), f.As(bob, ch)

	s.Slash("mcp show", map[string]any{"name": "notes"})
	s.Wait("is thinking", 3*time.Second)
	s.Wait("still working; the answer comes as a message of its own", 5*time.Second)
	time.Sleep(time.Second) // nothing can be said through the interaction any more
	for range 4 {
		free <- struct{}{}
	}
	if m := other.Wait("notes", 5*time.Second); m.Ephemeral {
		t.Errorf("%+v", m)
	}
	for len(free) > 0 {
		<-free
	}

	s.Slash("mcp secrets set", map[string]any{"name": "NOTES_KEY"})
	m := s.Wait("still working.*\\[Refresh\\]", 6*time.Second)
	if !m.Ephemeral {
		t.Errorf("all see it: %s", m.Text)
	}
	time.Sleep(time.Second)
	if text := s.PressID(m, m.Buttons[0].CustomID).Done(); !strings.Contains(text, "still working") {
		t.Errorf("while it works: %s", text)
	}
	for range 8 {
		select {
		case free <- struct{}{}:
		default:
		}
	}
	until(t, "the private answer", func() bool {
		text := s.PressID(m, s.Messages()[len(s.Messages())-1].Buttons[0].CustomID).Done()
		return !strings.Contains(text, "still working")
	})
	if text := other.Transcript(); strings.Contains(text, "NOTES_KEY") {
		t.Errorf("bob sees a private answer:\n%s", text)
	}
}
