package terminal

import (
	"io"
	"regexp"
	"strings"

	"bobbin/bot"
	"bobbin/schemas"
)

// live is an answer that is drawn while it comes. What stands on the screen stays; only what is new is written.
type live struct {
	d *Door

	// Guarded by the door's mu.
	asking bool         // a question is on the screen: nothing is written below it
	line   int          // of the text: those before it stand there whole
	drawn  string       // what stands there of it
	fenced bool         // it is inside of a code block
	open   bool         // the cursor stands behind something
	known  int          // steps seen
	begun  int          // 1 + the step whose line is open; 0 = none
	over   map[int]bool // steps whose lines are whole
	status string       // the last one, without its numbers
}

// stream takes a state in.
func (l *live) stream(r bot.Reply) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	for _, b := range r.Blocks {
		if b.Answer != nil {
			l.draw(*b.Answer)
		}
	}
}

// hold keeps the screen still while a question is on it. The next state brings what came meanwhile.
func (l *live) hold(is bool) {
	if l == nil {
		return
	}
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.end()
	l.asking = is
}

// finish draws the rest of the answer, and gives what of the reply is still to be shown.
func (l *live) finish(r bot.Reply) bot.Reply {
	if l == nil {
		return r
	}
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.asking = false
	if len(r.Blocks) != 1 || r.Blocks[0].Answer == nil {
		l.end()
		return r
	}
	a := *r.Blocks[0].Answer
	a.Done = true
	l.draw(a)
	l.end()
	if a.Why != "" {
		l.write(l.d.draw.ended(a, r.Bad))
	}
	r.Blocks = nil
	return r
}

// draw writes what a state has more than the one before. It and those below: the caller holds the door's mu.
func (l *live) draw(a schemas.Answering) {
	if l.asking {
		return
	}
	if text := strings.TrimRight(clean(a.Text), "\n"); text != "" {
		l.text(strings.Split(text, "\n"), a.Done, a.Status != "" || len(a.Steps) > l.known) // before a step, all was said
	}
	l.known = len(a.Steps)
	l.steps(a)
	if now := strings.Map(noDigits, a.Status); now != "" && now != l.status && !a.Done {
		l.end()
		l.write(l.d.draw.dim("  "+clean(a.Status)) + "\n")
		l.status = now
	}
}

func noDigits(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}

// steps writes a line for each that is over. One that runs alone has its line begun, so that somebody sees what is waited for.
func (l *live) steps(a schemas.Answering) {
	if l.over == nil {
		l.over = map[int]bool{}
	}
	var running []int
	for i, s := range a.Steps {
		switch {
		case !bot.Over(s) && !a.Done:
			running = append(running, i)
		case !l.over[i]:
			l.over[i] = true
			name, rest := l.d.draw.step(s)
			if l.begun != i+1 {
				l.end()
				l.write(name)
			}
			l.write(rest + "\n")
			l.begun, l.open = 0, false
		}
	}
	if len(running) == 1 && l.begun != running[0]+1 {
		l.end()
		name, _ := l.d.draw.step(a.Steps[running[0]])
		l.write(name)
		l.begun, l.open = running[0]+1, true
	}
}

// text writes what is new of the text. Its last line is written as far as its words and marks are whole, unless all of it is wanted.
func (l *live) text(lines []string, done, all bool) {
	for ; l.line < len(lines); l.line++ {
		line, whole := lines[l.line], l.line < len(lines)-1 || done
		if !whole && !all {
			line = line[:safe(line, l.fenced)]
		}
		if line == "" && !whole {
			return
		}
		out, fenced := l.d.draw.markdown(line, l.fenced)
		if !whole && strings.HasPrefix(l.drawn, out) {
			return // more of it stands there already
		}
		rest, goesOn := strings.CutPrefix(out, l.drawn)
		if !goesOn {
			rest = out
		}
		if rest != "" || whole && l.drawn == "" {
			if l.begun != 0 || !goesOn {
				l.end()
			}
			if !l.open && l.drawn != "" {
				rest = strings.TrimPrefix(rest, " ")
			}
			l.write(rest)
			l.open = true
		}
		if l.drawn = out; !whole {
			return
		}
		if l.open && l.begun == 0 {
			l.write("\n")
			l.open = false
		}
		l.drawn, l.fenced = "", fenced
	}
}

// end ends a line that is open. What comes of its text later goes on in the next one.
func (l *live) end() {
	if l.open {
		l.write("\n")
	}
	l.open, l.begun = false, 0
}

func (l *live) write(s string) { _, _ = io.WriteString(l.d.opt.Out, s) }

// safe is how much of an unfinished line can be drawn: up to a space with no mark open before it.
func safe(line string, fenced bool) int {
	if fenced || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "|") {
		return 0
	}
	trimmed := strings.TrimLeft(line, " ")
	sign := len(line) - len(trimmed) + max(len(bullet.FindString(trimmed)), len(">"))
	for end := strings.LastIndexByte(line, ' '); end > sign; end = strings.LastIndexByte(line[:end], ' ') {
		s := line[:end]
		if strings.Count(s, "`")%2 == 0 && strings.Count(s, "*")%2 == 0 &&
			strings.Count(s, "[") == strings.Count(s, "]") && strings.Count(s, "](") <= strings.Count(s, ")") {
			return end
		}
	}
	return 0
}

// answer draws an answer as a whole.
func (d *drawing) answer(b *strings.Builder, a schemas.Answering, bad bool) {
	for _, s := range a.Steps {
		name, rest := d.step(s)
		b.WriteString(name + rest + "\n")
	}
	fenced := false
	for line := range strings.Lines(strings.Trim(clean(a.Text), "\n")) {
		var out string
		out, fenced = d.markdown(strings.TrimSuffix(line, "\n"), fenced)
		b.WriteString(out + "\n")
	}
	if a.Why != "" {
		b.WriteString(d.ended(a, bad))
	}
}

// step draws a step's line: its name, and the rest.
func (d *drawing) step(s schemas.Step) (name, rest string) {
	line := "  " + clean(bot.StepLine(s, d.me))
	name, _, _ = strings.Cut(strings.TrimPrefix(line, "  "), " · ")
	rest = strings.TrimPrefix(d.wrap(line, "    "), "  "+name)
	if s.State == schemas.StepFailed || s.State == schemas.StepDenied {
		return d.dim("  " + name), d.paint(yellow, rest)
	}
	return d.dim("  " + name), d.dim(rest)
}

// ended says why an answer is not whole.
func (d *drawing) ended(a schemas.Answering, bad bool) string {
	if bad {
		return d.paint(red, d.code(d.wrap(clean(a.Why), ""))) + "\n"
	}
	return d.dim("  "+clean(a.Why)) + "\n"
}

const italic = "\x1b[3m"

var (
	marks  = regexp.MustCompile("`([^`]+)`|\\*\\*([^*]+)\\*\\*|\\*([^*\\s](?:[^*]*[^*\\s])?)\\*")
	bullet = regexp.MustCompile(`^(?:[-*+]|[0-9]{1,9}[.)]) +`)
	rule   = regexp.MustCompile(`^(?:-{3,}|\*{3,}|_{3,}) *$`)
	link   = regexp.MustCompile(`(!?)\[([^\]\n]*)\]\( *(<[^>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)[^()\n]*\)`)
)

// markdown draws one line of a model's Markdown. On a pipe it stays what it is, but for links, whose addresses stand behind their
// texts in both cases.
func (d *drawing) markdown(line string, fenced bool) (out string, stillFenced bool) {
	trimmed := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(trimmed)]
	if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
		if !d.color {
			return line, !fenced
		}
		return strings.TrimRight("  "+d.dim(strings.Trim(trimmed, "`~")), " "), !fenced
	}
	switch {
	case fenced && d.color:
		return "    " + d.paint(cyan, line), true
	case fenced:
		return line, true
	case !d.color:
		return d.wrap(links(line), indent), false
	}
	if level := len(trimmed) - len(strings.TrimLeft(trimmed, "#")); level > 0 && level <= 6 && strings.HasPrefix(trimmed[level:], " ") {
		return d.paint(bold, d.wrap(marks.ReplaceAllString(links(strings.TrimSpace(trimmed[level:])), "$1$2$3"), "")), false
	}
	switch m := bullet.FindString(trimmed); {
	case rule.MatchString(trimmed):
		return d.dim("────────"), false
	case strings.HasPrefix(trimmed, "> ") || trimmed == ">":
		return d.dim("│ ") + d.inline(d.wrap(links(strings.TrimPrefix(trimmed[1:], " ")), "│ ")), false
	case strings.HasPrefix(trimmed, "|"): // a table keeps its columns
		return d.inline(links(line)), false
	case m != "":
		sign := strings.NewReplacer("-", "•", "*", "•", "+", "•").Replace(m)
		hang := indent + strings.Repeat(" ", width(sign))
		return indent + sign + strings.TrimPrefix(d.inline(d.wrap(hang+links(trimmed[len(m):]), hang)), hang), false
	}
	return d.inline(d.wrap(links(line), indent)), false
}

// inline draws `code`, **bold** and *emphasis*.
func (d *drawing) inline(s string) string {
	return marks.ReplaceAllStringFunc(s, func(m string) string {
		switch {
		case m[0] == '`':
			return d.paint(cyan, strings.Trim(m, "`"))
		case strings.HasPrefix(m, "**"):
			return d.paint(bold, m[2:len(m)-2])
		}
		return d.paint(italic, m[1:len(m)-1])
	})
}

// links writes [text](address) as text (address): an address is never hidden behind other words, and a picture never fetched.
func links(s string) string {
	return link.ReplaceAllStringFunc(s, func(m string) string {
		p := link.FindStringSubmatch(m)
		text, address := strings.TrimSpace(p[2]), strings.Trim(p[3], "<>")
		if p[1] != "" {
			text = strings.TrimSpace("image " + text)
		}
		if text == "" || text == address {
			return address
		}
		return text + " (" + address + ")"
	})
}
