package draw

import (
	"fmt"
	"slices"
	"strings"

	"bobbin/bot"
	"bobbin/bot/discord/internal/wire"
	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// Bounds of an answer. Its text is split to leave room for the small lines under it.
const (
	answerRoom  = 1400 // of the text in one message
	footRoom    = 500  // of the small lines
	maxAnswer   = 6    // messages; the whole of a longer answer is a file
	maxFootLine = 180
)

// Answer draws a reply with an answer of the assistant, as far as it has come or whole, as plain messages: its text, and small lines
// about its steps under the last of them, where the button is that stops it. As the answer grows, the messages before the last stay
// as they are. What tools were given and gave is shown to nobody.
func Answer(r bot.Reply, a schemas.Answering, p Pen) []wire.Outgoing {
	head := ""
	if len(r.Blocks) > 1 {
		head = Escape(r.Blocks[0].Text) + "\n"
	}
	texts := Split(head+Markdown(a.Text), answerRoom)
	long := len(texts) > maxAnswer
	if long {
		texts = texts[:maxAnswer]
	}
	if len(texts) == 0 {
		texts = []string{""}
	}
	all := make([]wire.Outgoing, len(texts))
	for i, t := range texts {
		all[i] = wire.Outgoing{Content: t, Flags: wire.SuppressEmbeds | p.private()}
	}
	last := &all[len(all)-1]
	foot := p.foot(a)
	if long {
		foot = append(foot, "-# the whole answer, "+thousands(len([]rune(a.Text)))+" characters, "+map[bool]string{true: "is in the file `answer.md`", false: "comes as a file"}[a.Done])
	}
	if long && a.Done {
		m := sheet{}
		m.attach(schemas.File{Name: "answer.md", MIME: "text/markdown; charset=utf-8", Data: []byte(visible(a.Text, false))}, p)
		last.Files, last.Attachments = m.files, m.alts
	}
	last.Content = strings.TrimLeft(strings.Join(append([]string{last.Content}, foot...), "\n"), "\n")
	last.Components = p.rows(r)
	if last.Content == "" {
		last.Content = "-# the answer is empty"
	}
	return all
}

// foot is the small lines: the newest steps, what goes on, why it ended.
func (p Pen) foot(a schemas.Answering) []string {
	small := func(s string) string {
		return "-# " + strings.ReplaceAll(Escape(short(visible(s, true), maxFootLine)), "\n", " ")
	}
	var lines []string
	used := 0
	for i := len(a.Steps) - 1; i >= 0; i-- {
		l := small(p.step(a.Steps[i]))
		if used += units(l) + 1; used > footRoom {
			lines = append(lines, fmt.Sprintf("-# %d steps before these", i+1))
			break
		}
		lines = append(lines, l)
	}
	slices.Reverse(lines)
	switch {
	case a.Why != "":
		lines = append(lines, small(a.Why))
	case a.Done:
	case a.Status != "":
		lines = append(lines, small(a.Status))
	case len(lines) == 0 && a.Text == "":
		lines = append(lines, "-# thinks …")
	}
	return lines
}

// step words a step for all who see it: "you" is the one who asked.
func (p Pen) step(s schemas.Step) string {
	sign := map[schemas.StepState]string{schemas.StepDone: "✓ ", schemas.StepFailed: "✕ ", schemas.StepDenied: "✕ ", schemas.StepStopped: "■ "}[s.State]
	name := "another member"
	if s.RunsAs == p.Asker {
		name = "@" + p.AskerName
	}
	const you = " · as you"
	line := bot.StepLine(s, s.RunsAs)
	s.RunsAs = ""
	if at := strings.LastIndex(line, you); line != bot.StepLine(s, "") && at >= 0 {
		line = line[:at] + " · as " + name + line[at+len(you):]
	}
	return sign + line
}

// answerOf is the answer in a reply, nil if there is none.
func answerOf(r bot.Reply) *schemas.Answering {
	for _, b := range r.Blocks {
		if b.Answer != nil {
			return b.Answer
		}
	}
	return nil
}

var (
	masked    = lazy.Regexp(`(!?)\[([^\]\n]*)\]\( *(<[^>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)[^()\n]*\)`)
	delimiter = lazy.Regexp(`^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$`)
	header    = lazy.Regexp(`^#{1,6} +`)
	ruling    = lazy.Regexp(`^(?:-{3,}|\*{3,}|_{3,}) *$`)
	notLang   = lazy.Regexp(`[^A-Za-z0-9+#-].*`)
)

// Markdown writes a model's Markdown for Discord: bold, lists and code stay; headings become bold, tables preformatted; links are
// their texts and addresses, as code; nothing of it mentions, embeds or hides anything, or passes for a small line of ours.
func Markdown(text string) string {
	lines := strings.Split(strings.Trim(visible(text, false), "\n"), "\n")
	var out []string
	fence := ""
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		trimmed := strings.TrimLeft(line, " \t")
		switch marker := fenceOf(trimmed); {
		case fence != "" && marker != "" && marker[0] == fence[0] && len(marker) >= len(fence) && strings.TrimRight(trimmed, " ") == marker:
			out, fence = append(out, "```"), ""
		case fence != "":
			out = append(out, strings.ReplaceAll(line, "```", "``ˋ"))
		case marker != "":
			fence = marker
			out = append(out, "```"+short(notLang().ReplaceAllString(strings.TrimSpace(trimmed[len(marker):]), ""), 20))
		case strings.Contains(line, "|") && i+1 < len(lines) && strings.Contains(lines[i+1], "|") && delimiter().MatchString(lines[i+1]):
			out = append(out, "```")
			for ; i < len(lines) && strings.Contains(lines[i], "|"); i++ {
				out = append(out, strings.ReplaceAll(lines[i], "```", "``ˋ"))
			}
			i--
			out = append(out, "```")
		default:
			out = append(out, line[:len(line)-len(trimmed)]+markdownLine(trimmed))
		}
	}
	if fence != "" {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}

// fenceOf is the marks that a line of a code block's border begins with.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 && !strings.Contains(line[n:], c) {
			return line[:n]
		}
	}
	return ""
}

func markdownLine(s string) string {
	switch {
	case s == "":
		return ""
	case ruling().MatchString(s):
		return "———"
	case header().MatchString(s):
		s = strings.TrimSpace(header().ReplaceAllString(s, ""))
		return "**" + strings.ReplaceAll(spansOf(strings.TrimRight(s, "# ")), "**", "") + "**"
	}
	s = spansOf(s)
	if begins := strings.TrimLeft(s, " \t"); strings.HasPrefix(begins, "-#") || strings.HasPrefix(begins, "#") || strings.HasPrefix(begins, ">") {
		return `\` + begins
	}
	return s
}

// spansOf keeps `code` and makes the rest of a line inert.
func spansOf(s string) string {
	var b strings.Builder
	for s != "" {
		before, rest, ok := strings.Cut(s, "`")
		b.WriteString(unlinked(before))
		if !ok {
			break
		}
		rest = "`" + rest
		ticks := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		code, after, closed := strings.Cut(rest[len(ticks):], ticks)
		if !closed {
			b.WriteString(strings.Repeat("ˋ", len(ticks)))
			s = rest[len(ticks):]
			continue
		}
		b.WriteString(coded(code))
		s = after
	}
	return b.String()
}

// coded is Span for words of a model: they are no commands of ours.
func coded(s string) string {
	if s = strings.ReplaceAll(visible(s, true), "`", "ˋ"); strings.TrimSpace(s) == "" {
		return s
	}
	return "`" + s + "`"
}

// unlinked writes [text](address) as text and address.
func unlinked(s string) string {
	var b strings.Builder
	from := 0
	for _, m := range masked().FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(inertWords(s[from:m[0]]))
		text, to := strings.TrimSpace(s[m[4]:m[5]]), strings.Trim(s[m[6]:m[7]], "<>")
		if m[2] != m[3] {
			text = strings.TrimSpace("image " + text)
		}
		if text != "" && text != to {
			b.WriteString(inertWords(text) + " ")
		}
		b.WriteString(coded(to))
		from = m[1]
	}
	return b.String() + inertWords(s[from:])
}

// inertWords makes code of addresses, and escapes what Discord would make more of than type.
func inertWords(s string) string {
	var b strings.Builder
	for s != "" {
		at := linkish().FindStringIndex(s)
		if at == nil {
			quieten(&b, s)
			break
		}
		link := strings.TrimRight(s[at[0]:at[1]], ".,;!?'\")]}>*_")
		quieten(&b, s[:at[0]])
		if link == "" { // nothing but marks
			quieten(&b, s[at[0]:at[1]])
			s = s[at[1]:]
			continue
		}
		b.WriteString(coded(link))
		s = s[at[0]+len(link):]
	}
	return b.String()
}

// quieten escapes. A backslash of the model's takes the character behind it along, so that it cannot free one that is escaped here.
func quieten(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && strings.IndexByte("*_~#>-+.!()[]{}<|:@\\", s[i+1]) >= 0:
			b.WriteString(s[i : i+2])
			i++
		case c == '\\', c == '<', c == '[', c == '|' && (i+1 < len(s) && s[i+1] == '|' || i > 0 && s[i-1] == '|'),
			c == '@' && (strings.HasPrefix(s[i:], "@everyone") || strings.HasPrefix(s[i:], "@here")), c == ':' && emoji().MatchString(s[i:]):
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
}

// Split cuts a text that Markdown gave into parts of at most n units: between paragraphs if it can, else between lines, else between
// words. A code block that is cut is closed, and opened again. As a text grows, all parts but the last stay.
func Split(text string, n int) []string {
	var parts []string
	var part []string               // lines
	used, fence, opened := 0, "", 0 // opened: which line of the part begins the code
	flush := func(keep int) {       // the lines from keep on begin the next part
		rest := slices.Clone(part[keep:])
		if whole := strings.Trim(strings.Join(part[:keep], "\n"), "\n"); whole != "" {
			parts = append(parts, whole)
		}
		part, used = rest, 0
		for _, l := range rest {
			used += units(l) + 1
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		border := strings.HasPrefix(line, "```")
		for used+units(line)+1+len("\n```") > n {
			blank := lastBlank(part, n/3)
			if fence != "" && opened > 0 && units(strings.Join(part[:opened], "\n")) >= n/3 {
				blank, opened = opened, 0 // the code begins the next part
			} else if fence != "" {
				blank = -1
			}
			switch {
			case blank > 0:
				flush(blank)
			case used > 0 && (fence == "" || len(part) > 1):
				if fence != "" {
					part = append(part, "```")
				}
				flush(len(part))
				if fence != "" {
					part, used, opened = []string{fence}, units(fence)+1, 0
				}
			default: // one line is longer than a part
				head, tail := broken(line, n-used-len("\n```")-1, fence != "")
				part = append(part, head)
				line, used = tail, used+units(head)+1
			}
		}
		part = append(part, line)
		used += units(line) + 1
		switch {
		case border && fence == "":
			fence, opened = line, len(part)-1
		case border:
			fence = ""
		}
	}
	flush(len(part))
	return parts
}

// lastBlank is the last empty line outside of code blocks, behind the first units of a part; -1 if there is none.
func lastBlank(part []string, behind int) int {
	at, used, code := -1, 0, false
	for i, l := range part {
		if strings.HasPrefix(l, "```") {
			code = !code
		}
		if l == "" && !code && used >= behind {
			at = i
		}
		used += units(l) + 1
	}
	return at
}

// broken cuts a line, between words if it can. A code span that is cut is closed and opened again: nothing in it comes alive.
func broken(line string, n int, code bool) (head, tail string) {
	end := 0
	for i, r := range line {
		if units(line[:i])+2 > n-1 && i > 0 {
			break
		}
		end = i + len(string(r))
	}
	if space := strings.LastIndexByte(line[:end], ' '); space > end/2 {
		end = space
	}
	for end > 1 && line[end-1] == '\\' {
		end--
	}
	head, tail = line[:end], strings.TrimPrefix(line[end:], " ")
	if !code && strings.Count(head, "`")%2 == 1 {
		head, tail = head+"`", "`"+tail
	}
	return head, tail
}
