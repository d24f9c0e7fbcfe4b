package draw_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
)

// linksOf gives the link buttons of messages.
func linksOf(all []wire.Outgoing) (out []wire.Component) {
	var walk func(c wire.Component)
	walk = func(c wire.Component) {
		if c.Style == wire.Link && c.Type == wire.Button || c.URL != "" {
			out = append(out, c)
		}
		for _, x := range c.Components {
			walk(x)
		}
	}
	for _, m := range all {
		for _, c := range m.Components {
			walk(c)
		}
	}
	return out
}

func open(url string) bot.Block {
	return bot.Block{Open: &bot.Open{Label: "Open auth.example.com", URL: url}}
}

// An address is pressed only as it is read, and only where Discord and a reader's browser can follow it.
func TestReply_Open(t *testing.T) {
	long := "https://example.com/" + strings.Repeat("x", 512-len("https://example.com/"))
	for url, pressed := range map[string]bool{
		"https://auth.example.com/sign-in?state=a%20b&x=__1__": true, long: true, long + "x": false, "https://example.com/" + strings.Repeat("x", 2000): false,
		"http://127.0.0.1:8080/x": false, "http://example.com/": false, "javascript:alert(1)": false, "discord://invite": false, "https://": false, "https://a@example.com/": false,
		"https://example.com/`@everyone": true,
	} {
		for _, with := range []bot.Reply{{ID: "a", Choices: []bot.Choice{{Key: "accept", Label: "Continue"}, {Key: "decline", Label: "Decline"}}}, {}} {
			with.Private, with.Blocks = true, []bot.Block{{Text: "demo wants you to open a page"}, open(url)}
			all := draw.Reply(with, pen())
			check(t, all)
			shownAs := strings.ReplaceAll(url, "`", "%60")
			if !strings.Contains(strings.ReplaceAll(shown(all), `\u0026`, "&"), "`"+shownAs+"`") {
				t.Errorf("%q is not shown whole", url)
			}
			got := linksOf(all)
			if !pressed && len(got) > 0 || pressed && (len(got) != 1 || got[0].URL != shownAs || got[0].Label != "Open auth.example.com" || got[0].CustomID != "") {
				t.Errorf("%q: %+v", url, got)
			}
			if all[0].Flags&(wire.ComponentsV2|wire.SuppressEmbeds) == 0 {
				t.Errorf("%q may be embedded", url)
			}
			if got := linksOf(draw.Settled(with, "you chose Continue", bot.Reply{Blocks: []bot.Block{{Text: "answered"}}}, pen())); len(got) > 0 {
				t.Errorf("a settled card leads to %+v", got)
			}
		}
	}
	var many []bot.Block
	for i := range 9 {
		many = append(many, open(fmt.Sprintf("https://example.com/%d", i)))
	}
	all := draw.Reply(bot.Reply{Blocks: many}, pen())
	check(t, all)
	if len(linksOf(all)) != 5 || !strings.Contains(shown(all), "https://example.com/8") {
		t.Errorf("%d links", len(linksOf(all)))
	}
}

// Nothing but a page to open becomes something that leads away, whatever it says.
func TestReply_OnlyOpenLeadsAway(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 0, 12).Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		r := bot.Reply{ID: "a", Blocks: []bot.Block{{Text: text.Draw(t, "text")}, {Warning: text.Draw(t, "warning")}, {Code: text.Draw(t, "code")}},
			Choices: []bot.Choice{{Key: "k", Label: "x" + text.Draw(t, "choice")}}}
		if got := linksOf(draw.Reply(r, pen())); len(got) > 0 {
			t.Errorf("%+v", got)
		}
		url := "https://example.com/" + text.Draw(t, "url")
		r.Blocks = append(r.Blocks, bot.Block{Open: &bot.Open{Label: text.Draw(t, "label"), URL: url}})
		all := draw.Reply(r, pen())
		check(t, all)
		for _, l := range linksOf(all) {
			if !strings.HasPrefix(l.URL, "https://example.com/") || strings.Contains(l.URL, "`") {
				t.Errorf("%+v", l)
			}
		}
	})
}
