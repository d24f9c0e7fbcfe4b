package draw_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"bobbin/bot"
	"bobbin/bot/discord/discordtest"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

func units(s string) int { return len(utf16.Encode([]rune(s))) }

func pen() draw.Pen {
	n := 0
	return draw.Pen{Mint: func(draw.Kind, bot.Choice) string { n++; return fmt.Sprintf("mcp:%d", n) }}
}

// check holds every message against Discord's limits and our own.
func check(t interface {
	Helper()
	Errorf(string, ...any)
}, all []wire.Outgoing) {
	t.Helper()
	if len(all) < 1 || len(all) > 3 {
		t.Errorf("%d messages", len(all))
	}
	for n, m := range all {
		count, text, bytes, press := 0, 0, 0, 0
		refs := map[string]bool{}
		var walk func(c wire.Component)
		walk = func(c wire.Component) {
			count++
			switch c.Type {
			case wire.TextDisplay:
				text, bytes = text+units(c.Content), bytes+len(c.Content)
				for _, bad := range discordtest.Lively(c.Content) {
					t.Errorf("%s", bad)
				}
				if strings.TrimSpace(c.Content) == "" {
					t.Errorf("an empty text")
				}
			case wire.Button, wire.StringSelect:
				press++
				if units(c.Label) > 80 || len(c.CustomID) > 100 || len(c.Options) > 25 {
					t.Errorf("button %q, %d options", c.Label, len(c.Options))
				}
			case wire.ActionRow:
				if len(c.Components) < 1 || len(c.Components) > 5 {
					t.Errorf("a row of %d", len(c.Components))
				}
			case wire.FileDisplay:
				refs[c.File.URL] = true
			}
			for _, x := range c.Components {
				walk(x)
			}
		}
		for _, c := range m.Components {
			walk(c)
		}
		for _, bad := range discordtest.Lively(m.Content) {
			t.Errorf("%s", bad)
		}
		if count > 40 || text > 4000 || bytes > 10<<10 || units(m.Content) > 2000 || m.Content == "" && count == 0 || len(m.Files) > 10 || len(refs) != len(m.Files) || len(m.Attachments) != len(m.Files) {
			t.Errorf("message %d: %d components, %d units, %d bytes, content %d, %d files shown as %d", n, count, text, bytes, units(m.Content), len(m.Files), len(refs))
		}
		if press > 0 && n < len(all)-1 {
			t.Errorf("something to press on message %d of %d", n+1, len(all))
		}
		if _, err := json.Marshal(m); err != nil {
			t.Errorf("%v", err)
		}
	}
}

func shown(all []wire.Outgoing) string {
	js, _ := json.Marshal(all)
	text := string(js)
	for _, m := range all {
		for _, f := range m.Files {
			text += string(f.Data)
		}
	}
	return text
}

func TestReply_Limits(t *testing.T) {
	rows := func(n int) *bot.Table {
		tab := &bot.Table{}
		for i := range n {
			tab.Rows = append(tab.Rows, bot.Row{Cells: []string{fmt.Sprintf("server-%d", i), "ready", "26 tools", "yours", "up 2 h"}})
		}
		return tab
	}
	choices := func(n int) (out []bot.Choice) {
		for i := range n {
			out = append(out, bot.Choice{Key: fmt.Sprint(i), Label: fmt.Sprintf("Connect %d", i)})
		}
		return out
	}
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) + "the end" }
	var many []bot.Block
	for i := range 300 {
		many = append(many, bot.Block{Text: fmt.Sprintf("line %d", i)}, bot.Block{Code: "x"})
	}
	var files []bot.Block
	for i := range 30 {
		files = append(files, bot.Block{File: &schemas.File{Name: "same.txt", Data: fmt.Append(nil, i)}})
	}
	for name, c := range map[string]struct {
		r    bot.Reply
		last string // must not be lost
	}{
		"empty":     {bot.Reply{}, ""},
		"code":      {bot.Reply{Blocks: []bot.Block{{Code: lines(20000, strings.Repeat("x", 50))}}}, "the end"},
		"one line":  {bot.Reply{Blocks: []bot.Block{{Code: strings.Repeat("y", 1<<20) + "the end"}}}, "the end"},
		"cjk":       {bot.Reply{Blocks: []bot.Block{{Text: strings.Repeat("漢字かな", 3000) + "the end"}}}, "the end"},
		"emoji":     {bot.Reply{Blocks: []bot.Block{{Text: strings.Repeat("🧵", 9000) + "the end"}}}, "the end"},
		"text":      {bot.Reply{Blocks: []bot.Block{{Text: lines(150, "some words of an answer that goes on")}}}, "the end"},
		"table":     {bot.Reply{Blocks: []bot.Block{{Table: rows(500)}}}, "server-499"},
		"diff":      {bot.Reply{Blocks: []bot.Block{{Diff: lines(3000, "+ added")}}, ID: "a", Choices: choices(3)}, "the end"},
		"many":      {bot.Reply{Blocks: many}, "line 299"},
		"choices":   {bot.Reply{ID: "a", Blocks: []bot.Block{{Text: "many"}}, Choices: choices(60)}, "Connect 59"},
		"six":       {bot.Reply{ID: "a", Blocks: []bot.Block{{Text: "six"}}, Choices: choices(6)}, "Connect 5"},
		"form":      {bot.Reply{ID: "a", Blocks: []bot.Block{{Text: "asks"}}, Form: &bot.Form{Title: "f", Fields: make([]bot.Field, 50)}, Choices: choices(2)}, "Connect 1"},
		"files":     {bot.Reply{Blocks: files}, "same.txt"},
		"huge file": {bot.Reply{Blocks: []bot.Block{{File: &schemas.File{Name: "big.bin", Data: make([]byte, 20<<20)}}}}, "big.bin"},
		"problems":  {bot.Reply{Blocks: []bot.Block{{Problems: make([]schemas.Problem, 200)}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := draw.Reply(c.r, pen())
			check(t, all)
			if !strings.Contains(shown(all), c.last) {
				t.Errorf("%q is lost", c.last)
			}
			check(t, draw.Settled(c.r, "ann chose Confirm", c.r, pen()))
		})
	}
}

var hostile = []string{"@everyone", "@here", "<@1>", "<@&2>", "<#3>", "<t:1:R>", "</mcp:4>", "[x](https://evil.example)", "![x](https://evil.example/i.png)", "https://evil.example", "HTTP://EVIL.EXAMPLE",
	"discord.gg/abc", "https://discord.com/invite/x", "```", "````", "`", "``", "||spoiler||", "# heading", "-# sub", "> quote", ">>> all", "1. one", "- two", "\u202e", "\u200b", "\U000e0041", ":smile:", "<a:x:5>",
	"\\", "\\\\", "\\`", "*", "**", "__", "_", "~~", "\n", " ", "a", "execute_command", "](", "<", ">", "\x1b[31m"}

func TestReply_IsInert(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 0, 12).Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		one := func() string { return text.Draw(t, "text") }
		r := bot.Reply{ID: "a", Blocks: []bot.Block{
			{Text: one()}, {Code: one()}, {Diff: one()}, {Warning: one()}, {Facts: []bot.Fact{{Label: one(), Value: one(), Note: one()}, {Label: "runs", Value: one()}}},
			{Problems: []schemas.Problem{{Line: 1, Col: 2, Server: one(), Text: one(), Hint: one(), Excerpt: one()}}},
			{Table: &bot.Table{Rows: []bot.Row{{Head: one()}, {Cells: []string{one(), one(), one(), one()}}}}}, {File: &schemas.File{Name: one(), Data: []byte("x")}},
		}, Choices: []bot.Choice{{Key: "k", Label: "x" + one()}}}
		check(t, draw.Reply(r, pen()))
		check(t, draw.Settled(r, one(), bot.Reply{Blocks: []bot.Block{{Text: one()}}}, pen()))
	})
}

func TestEscape_LeavesNamesReadable(t *testing.T) {
	for _, s := range []string{"github.execute_command", "a.b-c_d", "3:41", "github: args", "5 - 3", "up 2 h, 14 calls", "`/mcp list` shows all", "what's new?", "x@example.com", "50%"} {
		if got := draw.Escape(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := draw.Escape("`/mcp undo`"); got != "`/mcp history undo`" {
		t.Errorf("the short form stays: %q", got)
	}
}
