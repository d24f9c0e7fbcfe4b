package draw_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"

	"bobbin/bot"
	"bobbin/bot/discord/discordtest"
	"bobbin/bot/discord/internal/draw"
	"bobbin/schemas"
)

func TestMarkdown(t *testing.T) {
	for in, want := range map[string]string{
		"**bold** and *soft* `code` ~~gone~~": "**bold** and *soft* `code` ~~gone~~",
		"# Big **one** #":                     "**Big one**",
		"> quoted":                            `\> quoted`,
		"-# receipt 7f3a":                     `\-# receipt 7f3a`,
		"- a\n  - b\n1. c":                    "- a\n  - b\n1. c",
		"see [the *site*](https://x.example/a_(b) \"t\")!": "see the *site* `https://x.example/a_(b)`!",
		"![x](https://evil.example/?q=secret)":             "image x `https://evil.example/?q=secret`",
		"at https://x.example/y. And <https://z.example>":  "at `https://x.example/y`. And \\<`https://z.example`>",
		"@everyone <@123> <#4> <:a:5> :smile: ||s||":       `\@everyone \<@123> \<#4> \<\:a:5> \:smile: \|\|s\|\|`,
		`\<@123> \\<@1> \[x](y)`:                           `\<@123> \\\<@1> \\x ` + "`y`",
		"```go title\nx := `a` ```b\n```\nafter":           "```go\nx := `a` ``ˋb\n```\nafter",
		"```\nopen https://x":                              "```\nopen https://x\n```",
		"| a | b |\n|---|---|\n| 1 | 2 |\nend":             "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```\nend",
		"a `b":                                             "a ˋb",
		"``a `b` ``":                                       "`a ˋbˋ `",
		"---":                                              "———",
		"/mcp undo and `/mcp undo`":                        "/mcp undo and `/mcp undo`",
		"a\u202eb\u200b":                                   "ab",
	} {
		got := draw.Markdown(in)
		if got != want {
			t.Errorf("%q:\n%s\nwant\n%s", in, got, want)
		}
		if wrong := discordtest.Lively(got); len(wrong) > 0 {
			t.Errorf("%q: %s", in, wrong)
		}
	}
}

func fragments() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"word ", "words and more words ", "\n", "\n\n", "**", "*", "_", "`", "``", "```", "\n```\n", "\n```go\n", "~~~\n", "[", "](", ")", "![x](https://e.example/a) ",
		"https://e.example/long/path?and=query ", "<@123>", "<#1>", "</mcp:1>", "<:x:1>", ":smile: ", "@everyone ", "@here", "\\", "||", "# ", "\n# ", "\n> ", "\n-# ", "- ", "|", "\n|--|\n", "\u202e", "discord.gg/abc ", "[a](<b>)", strings.Repeat("x", 70)})
}

// Whatever a model writes, and wherever it is cut: every message keeps to Discord's limits and nothing in it comes alive.
func TestAnswer_IsInert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(fragments(), 0, 200).Draw(t, "text"), "")
		a := schemas.Answering{Text: text, Done: true, Why: text[:min(len(text), 300)]}
		for _, m := range draw.Reply(bot.Reply{Blocks: []bot.Block{{Answer: &a}}}, draw.Pen{}) {
			if n := len(utf16.Encode([]rune(m.Content))); n > 2000 || n == 0 {
				t.Fatalf("%d characters", n)
			}
			if wrong := discordtest.Lively(m.Content); len(wrong) > 0 {
				t.Fatalf("%q\nof %q\nbecame %q", wrong, text, m.Content)
			}
		}
	})
}

// What was posted stays as the answer grows.
func TestSplit_PartsStay(t *testing.T) {
	para := strings.Repeat("one two three four five six seven. ", 12)
	code := "```go\n" + strings.Repeat("fmt.Println(\"hello, world\") // again\n", 60) + "```"
	text := para + "\n\n" + para + "\n\n" + code + "\n\n" + para + "\n- " + para + "\n- " + para + strings.Repeat("x", 3000)
	whole := draw.Split(draw.Markdown(text), 1400)
	if len(whole) < 5 {
		t.Fatalf("%d parts", len(whole))
	}
	for _, p := range whole {
		if n := len(utf16.Encode([]rune(p))); n > 1400 || strings.Count(p, "```")%2 != 0 {
			t.Errorf("%d characters, %d borders of code", n, strings.Count(p, "```"))
		}
	}
	if !strings.HasSuffix(whole[0], "seven.") && !strings.HasSuffix(whole[0], "seven. ") {
		t.Errorf("the first part ends with %q", whole[0][len(whole[0])-40:])
	}
	if !strings.HasPrefix(whole[2], "```go\n") || !strings.HasPrefix(whole[1], "```go\n") {
		t.Errorf("the code is not opened again: %.60q", whole[2])
	}
	for end := 0; end < len(text); end += 37 {
		some := draw.Split(draw.Markdown(text[:end]), 1400)
		for i := 0; i+1 < len(some); i++ {
			if some[i] != whole[i] {
				t.Fatalf("at %d part %d changed:\n%s\nlater\n%s", end, i, some[i], whole[i])
			}
		}
	}
}

func TestAnswer_Foot(t *testing.T) {
	step := schemas.Step{Tool: "github.create_issue", State: schemas.StepDone, RunsAs: "1", Took: 310 * time.Millisecond, Receipt: "7f3a", Args: []byte(`{"secret":"args"}`), Result: "secret result"}
	other := step
	other.RunsAs, other.State, other.Why, other.Receipt = "2", schemas.StepDenied, "by @ann", ""
	third := step
	third.RunsAs, third.Receipt = "2", "7f3b"
	a := schemas.Answering{Text: "so far", Steps: []schemas.Step{step, other, third}, Status: "waits for @ann"}
	pen := draw.Pen{Asker: "1", AskerName: "ann", Mint: func(draw.Kind, bot.Choice) string { return "mcp:x" }}
	r := bot.Reply{ID: "stop", Choices: []bot.Choice{{Key: "stop", Label: "Stop"}}, Blocks: []bot.Block{{Answer: &a}}}
	got := draw.Reply(r, pen)
	const want = "so far\n-# ✓ github.create\\_issue · 310 ms · as @ann · receipt 7f3a\n-# ✕ github.create\\_issue · denied: by @ann\n-# ✓ github.create\\_issue · 310 ms · as another member · receipt 7f3b\n-# waits for @ann"
	if text := strings.ReplaceAll(got[0].Content, "create_issue", `create\_issue`); len(got) != 1 || text != want || len(got[0].Components) != 1 {
		t.Errorf("%d\n%s\nwant\n%s", len(got), text, want)
	}
	for range 30 {
		a.Steps = append(a.Steps, step)
	}
	a.Done, a.Status, a.Text = true, "", strings.Repeat("word ", 4000)
	r.ID, r.Choices = "", nil
	got = draw.Reply(r, pen)
	last := got[len(got)-1]
	if len(got) != 6 || len(last.Files) != 1 || len(last.Components) != 0 || !strings.Contains(last.Content, "steps before these") || !strings.Contains(last.Content, "the whole answer, 20,000 characters, is in the file `answer.md`") {
		t.Errorf("%d messages, the last: %s", len(got), last.Content)
	}
	if strings.Contains(got[0].Content+last.Content, "secret") {
		t.Error("arguments or results are shown")
	}
}
