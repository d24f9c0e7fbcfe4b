package web

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"bobbin/schemas"
)

// Bounds of what is read of a model's Markdown; what lies beyond is plain text.
const (
	maxMarkdown = 256 << 10 // bytes of an answer
	maxInline   = 32 << 10  // bytes of one paragraph
	maxNesting  = 8         // of lists and quotes, and of marks in each other
)

// node is one block of a model's text, for the page to make elements of: p, h, pre, ul, ol, quote, hr or table. There is no kind that
// loads or leads anywhere.
type node struct {
	Kind  string     `json:"k"`
	Level int        `json:"level,omitempty"` // of h: 1 to 6; of ol: its first number
	Text  string     `json:"text,omitempty"`  // of pre
	Lang  string     `json:"lang,omitempty"`
	Spans []span     `json:"spans,omitempty"`
	Items [][]node   `json:"items,omitempty"` // of lists; of quote one
	Rows  [][][]span `json:"rows,omitempty"`  // of table; the first is its head
}

// span is a piece of a paragraph: plain text, b, i, s, c (code) or a (a text and the address that it names, which is shown and not
// followed).
type span struct {
	Kind  string `json:"k,omitempty"`
	Text  string `json:"t,omitempty"`
	Spans []span `json:"s,omitempty"`
	URL   string `json:"u,omitempty"`
}

// markdown reads the part of CommonMark and of GitHub's tables that models write. HTML is text.
func markdown(text string) []node {
	text = schemas.Clean(text, false)
	if len(text) > maxMarkdown {
		text = strings.ToValidUTF8(text[:maxMarkdown], "") + "\n\n…"
	}
	return blocks(strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n"), 0)
}

var (
	headingForm = regexp.MustCompile(`^ {0,3}(#{1,6})(?: +(.*?))?(?: +#+)? *$`)
	ruleForm    = regexp.MustCompile(`^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$`)
	itemForm    = regexp.MustCompile(`^( {0,8})([-*+]|[0-9]{1,9}[.)])( +|$)`)
	fenceForm   = regexp.MustCompile("^ {0,3}(`{3,}|~{3,}) *([^`]*)$")
	tableForm   = regexp.MustCompile(`^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$`)
)

// match is a line's match, if it begins with one of these characters: most lines are words.
func match(re *regexp.Regexp, begins, line string) []string {
	if t := strings.TrimLeft(line, " "); t == "" || strings.IndexByte(begins, t[0]) < 0 {
		return nil
	}
	return re.FindStringSubmatch(line)
}

func fenced(l string) []string  { return match(fenceForm, "`~", l) }
func heading(l string) []string { return match(headingForm, "#", l) }
func ruled(l string) []string   { return match(ruleForm, "-*_", l) }
func item(l string) []string    { return match(itemForm, "-*+0123456789", l) }

func blocks(lines []string, depth int) (all []node) {
	for i := 0; i < len(lines); {
		line := lines[i]
		switch {
		case strings.TrimSpace(line) == "":
			i++
		case fenced(line) != nil:
			var n node
			n, i = fence(lines, i)
			all = append(all, n)
		case heading(line) != nil:
			m := heading(line)
			all = append(all, node{Kind: "h", Level: len(m[1]), Spans: inline(m[2], 0)})
			i++
		case ruled(line) != nil:
			all = append(all, node{Kind: "hr"})
			i++
		case quoted(line) && depth < maxNesting:
			var inner []string
			for ; i < len(lines) && quoted(lines[i]); i++ {
				inner = append(inner, strings.TrimPrefix(strings.TrimLeft(lines[i], " ")[1:], " "))
			}
			all = append(all, node{Kind: "quote", Items: [][]node{blocks(inner, depth+1)}})
		case item(line) != nil && depth < maxNesting:
			var n node
			n, i = list(lines, i, depth)
			all = append(all, n)
		case isTable(lines, i):
			var n node
			n, i = tabular(lines, i)
			all = append(all, n)
		default:
			from := i
			for i++; i < len(lines) && !interrupts(lines, i); i++ {
			}
			all = append(all, node{Kind: "p", Spans: inline(strings.TrimSpace(strings.Join(lines[from:i], "\n")), 0)})
		}
	}
	return all
}

func quoted(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), ">") }

// interrupts reports whether a paragraph ends before this line.
func interrupts(lines []string, i int) bool {
	l := lines[i]
	m := item(l)
	return strings.TrimSpace(l) == "" || fenced(l) != nil || heading(l) != nil || ruled(l) != nil || quoted(l) || m != nil && m[3] != "" || isTable(lines, i)
}

// fence reads a block of code; one that is not closed goes on to the end, as it does while it comes.
func fence(lines []string, i int) (node, int) {
	m := fenced(lines[i])
	indent := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
	lang, _, _ := strings.Cut(strings.TrimSpace(m[2]), " ")
	n := node{Kind: "pre", Lang: cut(lang, 30)}
	var code []string
	for i++; i < len(lines); i++ {
		if end := strings.TrimSpace(lines[i]); len(end) >= len(m[1]) && strings.Trim(end, m[1][:1]) == "" {
			i++
			break
		}
		line := lines[i]
		for range indent {
			line = strings.TrimPrefix(line, " ")
		}
		code = append(code, line)
	}
	n.Text = strings.Join(code, "\n")
	return n, i
}

// list reads the items of one list; what is indented below an item belongs to it.
func list(lines []string, i, depth int) (node, int) {
	first := item(lines[i])
	n := node{Kind: "ul"}
	if d := first[2]; d[0] >= '0' && d[0] <= '9' {
		n.Kind = "ol"
		for _, c := range d[:len(d)-1] {
			n.Level = n.Level*10 + int(c-'0')
		}
	}
	sign := first[2][len(first[2])-1]
	for i < len(lines) {
		m := item(lines[i])
		if m == nil || m[2][len(m[2])-1] != sign || len(m[1]) > len(first[1])+1 || ruled(lines[i]) != nil {
			break
		}
		inner := []string{lines[i][len(m[0]):]}
		indent := len(m[1]) + 2
		for i++; i < len(lines); i++ {
			if own := len(lines[i]) - len(strings.TrimLeft(lines[i], " ")); strings.TrimSpace(lines[i]) == "" {
				if i+1 >= len(lines) || !strings.HasPrefix(lines[i+1], strings.Repeat(" ", indent)) {
					break
				}
				inner = append(inner, "")
			} else if own >= indent {
				inner = append(inner, lines[i][min(own, max(len(m[0]), indent)):])
			} else if interrupts(lines, i) {
				break
			} else { // goes on without its indentation
				inner = append(inner, strings.TrimSpace(lines[i]))
			}
		}
		n.Items = append(n.Items, blocks(inner, depth+1))
		for i < len(lines) && strings.TrimSpace(lines[i]) == "" && i+1 < len(lines) && item(lines[i+1]) != nil {
			i++ // a loose list is one list
		}
	}
	return n, i
}

func isTable(lines []string, i int) bool {
	return strings.Contains(lines[i], "|") && i+1 < len(lines) && strings.Contains(lines[i+1], "-") && strings.Contains(lines[i+1], "|") && tableForm.MatchString(lines[i+1])
}

func tabular(lines []string, i int) (node, int) {
	n := node{Kind: "table", Rows: [][][]span{cells(lines[i])}}
	wide := len(n.Rows[0])
	for i += 2; i < len(lines) && strings.Contains(lines[i], "|"); i++ {
		row := cells(lines[i])
		n.Rows = append(n.Rows, row[:min(len(row), wide)])
	}
	return n, i
}

func cells(line string) (all [][]span) {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	line = strings.ReplaceAll(line, `\|`, "\x00")
	for c := range strings.SplitSeq(line, "|") {
		all = append(all, inline(strings.TrimSpace(strings.ReplaceAll(c, "\x00", "|")), 0))
	}
	return all
}

// marks are what may stand around words, the longer ones first.
func marks() []struct{ sign, kind string } {
	return []struct{ sign, kind string }{{"**", "b"}, {"__", "b"}, {"~~", "s"}, {"*", "i"}, {"_", "i"}}
}

// inline reads the marks in a paragraph.
func inline(s string, depth int) (all []span) {
	plain := func(t string) {
		if t == "" {
			return
		}
		if n := len(all); n > 0 && all[n-1].Kind == "" {
			all[n-1].Text += t
			return
		}
		all = append(all, span{Text: t})
	}
	if depth > maxNesting || len(s) > maxInline {
		plain(s)
		return all
	}
	never := map[string]bool{} // signs that end nowhere in what follows
	for from, i := 0, 0; ; {
		at := strings.IndexAny(s[i:], "\\`*_~[!<")
		if at < 0 {
			plain(s[from:])
			return all
		}
		i += at
		found, size := mark(s, i, depth, never)
		if size == 0 {
			i++
			continue
		}
		plain(s[from:i])
		if found.Kind == "" {
			plain(found.Text)
		} else {
			all = append(all, found)
		}
		i += size
		from = i
	}
}

// mark reads what begins at s[i]; size 0: it is plain text.
func mark(s string, i, depth int, never map[string]bool) (found span, size int) {
	rest := s[i:]
	switch rest[0] {
	case '\\':
		if len(rest) > 1 && rest[1] < utf8.RuneSelf && (unicode.IsPunct(rune(rest[1])) || unicode.IsSymbol(rune(rest[1]))) {
			return span{Text: rest[1:2]}, 2
		}
		return span{}, 0
	case '`':
		ticks := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		if never[ticks] {
			return span{Text: ticks}, len(ticks)
		}
		end := strings.Index(rest[len(ticks):], ticks)
		if end < 0 {
			never[ticks] = true
			return span{Text: ticks}, len(ticks)
		}
		code := rest[len(ticks) : len(ticks)+end]
		if t := strings.TrimSpace(code); t != "" && len(ticks) > 1 {
			code = t
		}
		return span{Kind: "c", Text: strings.ReplaceAll(code, "\n", " ")}, end + 2*len(ticks)
	case '<':
		if end := strings.IndexAny(rest, "> \n"); end > 0 && rest[end] == '>' && (strings.HasPrefix(rest, "<http://") || strings.HasPrefix(rest, "<https://")) {
			return span{Kind: "a", URL: rest[1:end]}, end + 1
		}
		return span{}, 0
	case '[', '!':
		return address(rest, depth)
	}
	for _, m := range marks() {
		if !strings.HasPrefix(rest, m.sign) || never[m.sign] {
			continue
		}
		end := closing(s, i, m.sign)
		if end < 0 {
			never[m.sign] = true
			continue
		}
		if end > 0 {
			return span{Kind: m.kind, Spans: inline(s[i+len(m.sign):i+end], depth+1)}, end + len(m.sign)
		}
	}
	return span{}, 0
}

// closing finds where a mark that opens at s[i] ends, from i on; -1: nowhere, 0: it opens nothing.
func closing(s string, i int, sign string) int {
	n := len(sign)
	next, _ := utf8.DecodeRuneInString(s[i+n:])
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	if i+n >= len(s) || unicode.IsSpace(next) || sign[0] == '_' && i > 0 && wordy(before) {
		return 0
	}
	for at := i + n; ; {
		end := strings.Index(s[at:], sign)
		if end < 0 {
			return -1
		}
		for at += end; n == 2 && at+n < len(s) && s[at+n] == sign[0]; at++ { // of *** the last two
		}
		prev, _ := utf8.DecodeLastRuneInString(s[:at])
		after, _ := utf8.DecodeRuneInString(s[at+n:])
		double := n == 1 && (at+1 < len(s) && s[at+1] == sign[0] || s[at-1] == sign[0]) // a half of **
		if at > i+n && !unicode.IsSpace(prev) && !double && !(sign[0] == '_' && at+n < len(s) && wordy(after)) {
			return at - i
		}
		at += n
	}
}

func wordy(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// address reads [text](address "title") and ![text](address).
func address(rest string, depth int) (span, int) {
	image := rest[0] == '!'
	open := 0
	if image {
		open = 1
	}
	if open >= len(rest) || rest[open] != '[' {
		return span{}, 0
	}
	level, close := 0, -1
	for j := open; j < len(rest) && j < open+2000 && close < 0; j++ {
		switch rest[j] {
		case '\\':
			j++
		case '[':
			level++
		case ']':
			if level--; level == 0 {
				close = j
			}
		}
	}
	if close < 0 || close+1 >= len(rest) || rest[close+1] != '(' {
		return span{}, 0
	}
	level = 0
	for j := close + 1; j < len(rest) && j < close+4000 && rest[j] != '\n'; j++ {
		switch rest[j] {
		case '(':
			level++
		case ')':
			if level--; level > 0 {
				continue
			}
			url, _, _ := strings.Cut(strings.TrimSpace(rest[close+2:j]), " ")
			text := inline(rest[open+1:close], depth+1)
			if image {
				text = append([]span{{Text: "image "}}, text...)
			}
			return span{Kind: "a", Spans: text, URL: strings.Trim(url, "<>")}, j + 1
		}
	}
	return span{}, 0
}
