package terminal

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"bobbin/bot"
	"bobbin/schemas"
)

// drawing turns replies into lines. Meaning never lies in colour alone.
type drawing struct {
	color bool
	width int // columns to keep within; 0 = no limit, as on a pipe
	me    schemas.MemberID
}

const (
	bold, faint, red, green, yellow, cyan = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"
	reset                                 = "\x1b[0m"
)

func (d *drawing) paint(code, s string) string {
	if !d.color || s == "" {
		return s
	}
	return code + s + reset
}

func (d *drawing) dim(s string) string { return d.paint(faint, s) }

// clean keeps what may be shown: no control, bidi or other invisible characters reach the terminal.
func clean(s string) string { return schemas.Clean(s, false) }

// reply draws the whole reply, ending with its choices.
func (d *drawing) reply(r bot.Reply) string {
	var b strings.Builder
	for i, block := range r.Blocks {
		if i > 0 && spaced(r.Blocks[i-1], block) {
			b.WriteByte('\n')
		}
		d.block(&b, block, r, i == 0)
	}
	if r.Form != nil && r.Form.Title != "" {
		b.WriteString(d.paint(bold, clean(r.Form.Title)) + d.dim("   (/cancel leaves it)") + "\n")
	}
	if len(r.Choices) > 0 {
		b.WriteByte(' ')
		for i, c := range r.Choices {
			fmt.Fprintf(&b, " %s %s  ", d.paint(cyan, fmt.Sprintf("%d)", i+1)), clean(c.Label))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// spaced reports whether an empty line stands between two blocks.
func spaced(a, b bot.Block) bool {
	return b.Diff != "" || a.Diff != "" || len(b.Facts) > 0 || len(a.Facts) > 0 || b.Warning != "" || b.Open != nil
}

func (d *drawing) block(b *strings.Builder, block bot.Block, r bot.Reply, first bool) {
	switch {
	case block.Text != "":
		plain := d.wrap(clean(block.Text), "")
		text := d.code(plain)
		if first && r.Bad {
			text = d.paint(red, text)
		} else if first && (len(r.Choices) > 0 || len(r.Blocks) > 1) {
			text = d.head(text)
		}
		note := ""
		if first && r.Private {
			note = "   (seen by you alone)"
		}
		if first && !r.Expires.IsZero() {
			note += "   expires in " + minutes(time.Until(r.Expires))
		}
		b.WriteString(text + d.aside(plain, note, "") + "\n")
	case len(block.Facts) > 0:
		d.facts(b, block.Facts)
	case block.Diff != "":
		d.diff(b, block.Diff)
	case block.Code != "":
		b.WriteString(clean(strings.TrimRight(block.Code, "\n")) + "\n")
	case len(block.Problems) > 0:
		d.problems(b, block.Problems)
	case block.Table != nil:
		d.table(b, *block.Table)
	case block.File != nil:
		d.file(b, *block.File)
	case block.Open != nil: // whole and on a line of its own, so that it can be copied
		b.WriteString("  " + clean(block.Open.Label) + ":\n  " + d.paint(cyan, schemas.Clean(block.Open.URL, true)) + "\n")
	case block.Answer != nil:
		d.answer(b, *block.Answer, r.Bad)
	case block.Warning != "":
		b.WriteString("  " + d.paint(yellow, d.code(d.wrap(clean(block.Warning), "  "))) + "\n")
	}
}

// wrap breaks long lines between words; the lines it adds begin with indent.
func (d *drawing) wrap(s, indent string) string {
	if d.width == 0 {
		return s
	}
	var b strings.Builder
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		col := width(indent)
		for j, word := range strings.Split(line, " ") {
			switch w := width(word); {
			case j == 0:
				col += w
			case col+1+w > d.width && col > width(indent):
				b.WriteString("\n" + indent)
				col = width(indent) + w
			default:
				b.WriteByte(' ')
				col += 1 + w
			}
			b.WriteString(word)
		}
	}
	return b.String()
}

// aside is a note behind a text, or below it where the line has no room for it; it begins with the space between them.
func (d *drawing) aside(text, note, indent string) string {
	if note == "" {
		return ""
	}
	if last := text[strings.LastIndexByte(text, '\n')+1:]; d.width > 0 && width(last)+width(note) > d.width {
		return "\n" + indent + d.dim(d.wrap(strings.TrimLeft(note, " "), indent))
	}
	return d.dim(note)
}

// head makes the first line of a longer reply stand out.
func (d *drawing) head(text string) string {
	line, rest, found := strings.Cut(text, "\n")
	if !found {
		return d.paint(bold, line)
	}
	return d.paint(bold, line) + "\n" + rest
}

// code colours `spans`; without colour the backticks stay.
func (d *drawing) code(s string) string {
	if !d.color {
		return s
	}
	parts := strings.Split(s, "`")
	if len(parts)%2 == 0 {
		return s
	}
	for i := 1; i < len(parts); i += 2 {
		parts[i] = cyan + parts[i] + reset
	}
	return strings.Join(parts, "")
}

func (d *drawing) facts(b *strings.Builder, facts []bot.Fact) {
	w := 0
	for _, f := range facts {
		w = max(w, width(f.Label))
	}
	for _, f := range facts {
		indent := strings.Repeat(" ", w+4)
		value, note := d.wrap(strings.ReplaceAll(clean(f.Value), "\n", "\n"+indent), indent), ""
		if f.Note != "" {
			note = "   " + strings.ReplaceAll(clean(f.Note), "`", "")
		}
		fmt.Fprintf(b, "  %s%s  %s%s\n", d.dim(clean(f.Label)), strings.Repeat(" ", w-width(f.Label)), d.code(value), d.aside(indent+value, note, indent))
	}
}

func (d *drawing) diff(b *strings.Builder, diff string) {
	for line := range strings.Lines(strings.TrimRight(clean(diff), "\n") + "\n") {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "+"):
			line = d.paint(green, line)
		case strings.HasPrefix(line, "-"):
			line = d.paint(red, line)
		case strings.HasPrefix(line, "@@"):
			line = d.dim(line)
		}
		b.WriteString("  " + line + "\n")
	}
}

func (d *drawing) problems(b *strings.Builder, ps []schemas.Problem) {
	places, texts, wp, wt := make([]string, len(ps)), make([]string, len(ps)), 0, 0
	for i, p := range ps {
		if p.Line > 0 {
			places[i] = fmt.Sprintf("%d:%d", p.Line, p.Col)
		}
		texts[i] = clean(p.Text)
		if p.Server != "" {
			texts[i] = clean(p.Server) + ": " + texts[i]
		}
		if p.Hint != "" {
			texts[i] += " (" + clean(p.Hint) + ")"
		}
		wp = max(wp, width(places[i]))
		if p.Excerpt != "" {
			wt = max(wt, min(width(texts[i]), 60))
		}
	}
	for i, p := range ps {
		indent, excerpt := strings.Repeat(" ", wp+4), ""
		text := d.wrap(texts[i], indent)
		if e := strings.TrimSpace(clean(p.Excerpt)); e != "" {
			excerpt = strings.Repeat(" ", max(wt-width(texts[i]), 0)) + "   " + e
		}
		fmt.Fprintf(b, "  %s%s  %s%s\n", d.paint(yellow, places[i]), strings.Repeat(" ", wp-width(places[i])), text, d.aside(indent+text, excerpt, indent))
	}
}

func (d *drawing) table(b *strings.Builder, t bot.Table) {
	var widths []int
	plain := func(s string) string { return strings.ReplaceAll(clean(s), "`", "") }
	measure := func(cells []string) {
		for i, c := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(plain(c)))
		}
	}
	measure(t.Columns)
	for _, r := range t.Rows {
		measure(r.Cells)
	}
	row := func(cells []string, paint func(string) string) {
		var line strings.Builder
		for i, c := range cells {
			c = plain(c)
			if room := d.width - width(line.String()) - 2; i == len(cells)-1 && d.width > 0 && width(c) > room {
				c = string([]rune(c)[:max(room-1, 8)]) + "…"
			}
			line.WriteString("  " + c)
			if i < len(cells)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-width(c)))
			}
		}
		b.WriteString(paint(strings.TrimRight(line.String(), " ")) + "\n")
	}
	if len(t.Columns) > 0 {
		row(t.Columns, d.dim)
	}
	for _, r := range t.Rows {
		if len(r.Cells) == 0 {
			b.WriteString(d.paint(bold, clean(r.Head)) + "\n")
			continue
		}
		row(r.Cells, func(s string) string { return d.state(r.State, s) })
	}
}

// state colours a row by how its server is; the word itself stands in the row.
func (d *drawing) state(s schemas.State, line string) string {
	switch s {
	case schemas.Failed:
		return d.paint(red, line)
	case schemas.Needs, schemas.PendingState, schemas.Held, schemas.NeedsConnect, schemas.Starting:
		return d.paint(yellow, line)
	case schemas.Off, schemas.ShadowedState:
		return d.dim(line)
	}
	return line
}

// maxShown is how much of a text file is shown at the terminal, in bytes.
const maxShown = 64 << 10

// file shows a text, the middle of a long one left out; other files are named with their size.
func (d *drawing) file(b *strings.Builder, f schemas.File) {
	switch text := strings.TrimRight(string(f.Data), "\n"); {
	case !utf8.ValidString(text):
		b.WriteString(d.code(fmt.Sprintf("  %s · %s · `/save PATH` keeps it\n", clean(f.Name), size(len(f.Data)))))
	case len(text) <= maxShown:
		b.WriteString(clean(text) + "\n")
	default:
		head, tail := text[:maxShown/2], text[len(text)-maxShown/2:]
		if at := strings.LastIndexByte(head, '\n'); at >= 0 {
			head = head[:at]
		}
		tail = tail[strings.IndexByte(tail, '\n')+1:]
		b.WriteString(clean(strings.ToValidUTF8(head, "")) + "\n" + d.dim("… "+size(len(text)-len(head)-len(tail))+" left out; /save PATH keeps the whole …") + "\n" + clean(strings.ToValidUTF8(tail, "")) + "\n")
	}
}

// size writes a number of bytes with a unit.
func size(n int) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// prompt words the question for one field: `repo (owner/name) > `.
func (d *drawing) prompt(f bot.Field) string {
	label := clean(f.Label)
	if label == "" {
		label = clean(f.Name)
	}
	var notes []string
	if f.Hint != "" {
		notes = append(notes, clean(f.Hint))
	}
	if !f.Required {
		notes = append(notes, "optional")
	}
	if f.Default != "" && f.Kind != "secret" {
		now := "now " + strings.ReplaceAll(clean(f.Default), "\n", `\n`)
		if !f.Required {
			now += ", - empties it"
		}
		notes = append(notes, now)
	}
	if len(notes) > 0 {
		label += " (" + strings.Join(notes, ", ") + ")"
	}
	return label + " > "
}

func minutes(left time.Duration) string {
	if left < time.Minute {
		return "less than a minute"
	}
	if left >= 2*time.Hour {
		return fmt.Sprintf("%d h", int(left.Round(time.Hour)/time.Hour))
	}
	return fmt.Sprintf("%d min", int(left.Round(time.Minute)/time.Minute))
}

func width(s string) int { return utf8.RuneCountInString(s) }
