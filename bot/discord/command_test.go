package discord_test

import (
	"strings"
	"testing"

	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
)

// TestCommand_FitsDiscord sums what Discord counts: 25 options on a level, 8,000 characters in all, with room for a language.
func TestCommand_FitsDiscord(t *testing.T) {
	verbs := (&mind{}).bot().Verbs()
	local := draw.Locale{Names: map[string]string{}, Descriptions: map[string]string{}}
	for _, v := range verbs {
		local.Descriptions[v.Name] = strings.Repeat("ü", len([]rune(v.Summary))*13/10%100+1)
	}
	for name, locales := range map[string]map[string]draw.Locale{"English": nil, "with a language a third longer": {"de": local}} {
		c, err := draw.Command(verbs, locales)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(c.Options) > wire.MaxOptions {
			t.Errorf("%s: %d subcommands and groups", name, len(c.Options))
		}
		if n := draw.Size(c); n > wire.MaxCommandText {
			t.Errorf("%s: %d characters", name, n)
		} else {
			t.Logf("%s: %d subcommands and groups, %d characters", name, len(c.Options), n)
		}
		chat, err := draw.Chat((&mind{}).bot().ChatVerbs(), locales)
		if n := draw.Size(chat); err != nil || n > wire.MaxCommandText || len(chat.Options) == 0 || len(chat.Options) > wire.MaxOptions {
			t.Errorf("%s: /chat has %d subcommands and %d characters: %v", name, len(chat.Options), n, err)
		}
	}
}
