package draw

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"bobbin/bot"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// piece is a stretch of a message: markdown, or a code block that may be split, or a file.
type piece struct {
	text  string // markdown of ours
	code  string // the text of a code block, not yet fenced
	lang  string
	what  string // what a code block holds, for the alt text of a file: "the result"
	name  string // of that file
	file  *schemas.File
	quiet bool // no separator before it
}

func (p piece) markdown() string {
	if p.code != "" {
		return Fence(p.code, p.lang)
	}
	return p.text
}

// pieces turns blocks into markdown, in order.
func pieces(blocks []bot.Block) []piece {
	var all []piece
	text := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, piece{text: s})
		}
	}
	for _, b := range blocks {
		switch {
		case b.Text != "":
			text(Escape(b.Text))
		case len(b.Facts) > 0:
			text(facts(b.Facts))
		case b.Diff != "":
			all = append(all, piece{code: b.Diff, lang: "diff", what: "the change", name: "change.diff"})
		case b.Code != "":
			all = append(all, piece{code: b.Code, what: "the result", name: "result.txt"})
		case len(b.Problems) > 0:
			text(problems(b.Problems))
		case b.Table != nil:
			text(table(*b.Table))
		case b.Warning != "":
			text("**Warning:** " + Escape(b.Warning))
		case b.Open != nil: // the button stands below; a press of it is the only thing that follows the address
			text(Escape(b.Open.Label) + "\n" + Span(address(b.Open.URL)))
		case b.File != nil:
			all = append(all, piece{file: b.File})
		}
	}
	return all
}

func facts(fs []bot.Fact) string {
	var lines []string
	for _, f := range fs {
		line := Escape(f.Value)
		if machine(f.Label) {
			line = Span(f.Value)
		}
		if f.Label != "" {
			line = "**" + Escape(f.Label) + "** " + line
		}
		if f.Note != "" {
			line += "\n-# " + strings.ReplaceAll(Escape(f.Note), "\n", " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// machine reports whether a fact's value is a command or an address, which reads best as code.
func machine(label string) bool { return label == "runs" || label == "url" || label == "address" }

func problems(ps []schemas.Problem) string {
	var lines []string
	for _, p := range ps {
		line := "- "
		if p.Line > 0 {
			line += fmt.Sprintf("`%d:%d` ", p.Line, p.Col)
		}
		if p.Server != "" {
			line += "**" + Escape(p.Server) + "** "
		}
		line += strings.ReplaceAll(Escape(p.Text), "\n", " ")
		if p.Hint != "" {
			line += " (" + strings.ReplaceAll(Escape(p.Hint), "\n", " ") + ")"
		}
		if e := strings.TrimSpace(p.Excerpt); e != "" {
			line += "\n  " + Span(short(e, 200))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// table writes rows as lines that read on a phone and aloud: what a row is about first, the rest behind it.
func table(t bot.Table) string {
	var lines []string
	for _, r := range t.Rows {
		if len(r.Cells) == 0 {
			lines = append(lines, "**"+Escape(r.Head)+"**")
			continue
		}
		cells := r.Cells
		note := ""
		if len(cells) > 3 { // the last one is a note on what went before
			note, cells = cells[len(cells)-1], cells[:len(cells)-1]
		}
		var parts []string
		for i, c := range cells {
			switch {
			case strings.TrimSpace(c) == "":
			case i == 0 && !strings.Contains(c, "`"):
				parts = append(parts, "**"+Escape(c)+"**")
			default:
				parts = append(parts, Escape(c))
			}
		}
		line := "- " + strings.ReplaceAll(strings.Join(parts, " · "), "\n", " ")
		if note != "" {
			line += "\n  -# " + strings.ReplaceAll(Escape(note), "\n", " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// split cuts markdown or a code block into parts of at most n units and bytes of UTF-8, on line borders where it can.
func (p piece) split(n int) []piece {
	body := p.text
	if p.code != "" {
		n -= units(Fence("", p.lang)) + 2
		body = inFence(p.code)
	}
	var parts []piece
	var part strings.Builder
	flush := func() {
		if strings.TrimSpace(part.String()) == "" {
			part.Reset()
			return
		}
		one := p
		if p.code != "" {
			one.code = strings.TrimRight(part.String(), "\n")
		} else {
			one.text = strings.Trim(part.String(), "\n")
		}
		one.quiet = len(parts) > 0
		parts = append(parts, one)
		part.Reset()
	}
	for line := range strings.Lines(body) {
		for size(line) > n {
			cut := prefix(line, n-size(part.String()))
			if cut == "" {
				flush()
				continue
			}
			part.WriteString(cut)
			line = line[len(cut):]
			flush()
		}
		if size(part.String())+size(line) > n {
			flush()
		}
		part.WriteString(line)
	}
	flush()
	return parts
}

// size is how much of a message's room a text takes: units, or more for scripts that take three bytes a character.
func size(s string) int { return max(units(s), len(s)*wire.MaxText/wire.MaxBytes) }

// prefix is the longest start of s of that size, cut between characters and not behind a lone backslash.
func prefix(s string, n int) string {
	end := 0
	for i, r := range s {
		if size(s[:i+utf8.RuneLen(max(r, 0))]) > n {
			break
		}
		end = i + utf8.RuneLen(max(r, 0))
	}
	cut := s[:min(end, len(s))]
	if trimmed := strings.TrimRight(cut, `\`); (len(cut)-len(trimmed))%2 == 1 {
		cut = cut[:len(cut)-1]
	}
	return cut
}
