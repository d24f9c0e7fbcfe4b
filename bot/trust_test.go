package bot_test

import (
	"slices"
	"strings"
	"testing"

	"bobbin/schemas"
)

// What lets a server steer the assistant, or spend tokens, is a manager's to give, on a card that says so.
func TestPolicy_Rights(t *testing.T) {
	for _, c := range []struct {
		give, take string
		list       func(schemas.Policy) []string
		words      []string
		head       string
	}{
		{"/mcp policy trust github", "/mcp policy untrust github", func(p schemas.Policy) []string { return p.Trust },
			[]string{"believe what github answers, for everyone in this thread?", "tools of other servers that a rule or an earlier yes allows then run without a new question"}, "servers that are believed"},
		{"/mcp policy sampling github", "/mcp policy sampling github off", func(p schemas.Policy) []string { return p.Sampling },
			[]string{"let github ask this thread's model for words?", "sees the text and is asked each time, and pays its tokens"}, "servers that may ask the model for words"},
	} {
		t.Run(c.give, func(t *testing.T) {
			w := issues(t)
			card := w.say(alice(), c.give)
			want(t, card, append(c.words, "A manager of the thread has to confirm.", "1) Confirm\n2) Cancel")...)
			want(t, w.press(alice(), card, "Confirm"), "only a manager of the thread can confirm this")
			want(t, w.say(alice(), c.take), "only a manager of the thread can change its rules")
			if len(c.list(w.cfg.Policy)) > 0 {
				t.Fatal("given without a manager")
			}
			want(t, w.press(boss(), card, "Confirm"), "github ", c.take+" takes it back")
			if got := c.list(w.cfg.Policy); !slices.Equal(got, []string{"github"}) {
				t.Errorf("%q", got)
			}
			want(t, w.say(alice(), "/mcp policy show"), c.head, "allow | github")
			want(t, w.press(boss(), w.say(boss(), c.give), "Confirm"), "github ")
			if got := c.list(w.cfg.Policy); len(got) != 1 {
				t.Errorf("twice: %q", got)
			}
			want(t, w.say(boss(), c.take), "github ")
			want(t, w.say(boss(), c.take), "there is no such rule")
			wantNot(t, w.say(alice(), "/mcp policy show"), c.head)
			want(t, w.press(boss(), w.say(boss(), c.give), "Cancel"), "cancelled; nothing was changed")
			want(t, w.say(boss(), strings.Replace(c.give, "github", "gone", 1)), "No server of that name is here now")
			wantNot(t, w.say(boss(), strings.Replace(c.give, "github", "git*", 1)), "No server")
			want(t, w.say(boss(), strings.Replace(c.give, "github", "[a", 1)), "that is no server")
			want(t, w.say(boss(), "/mcp policy sampling github on"), "behind the server stands off or nothing")
			if len(c.list(w.cfg.Policy)) > 0 {
				t.Errorf("%+v", w.cfg.Policy)
			}
		})
	}
}
