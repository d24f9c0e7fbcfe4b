package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// flaw is one place where a text is no strict JSON.
type flaw struct {
	at         int
	text, hint string
	said       string // what is told instead, where nothing was wrong
}

// mended is what a scan of JSON text found. It never recurses, so that its depth is known before a parser that does.
type mended struct {
	edits []edit
	done  []flaw // what the edits mend, in order
	loose []flaw // comments and trailing commas: fine in an upload, not in a stored file
	stuck *flaw  // the first thing that cannot be mended without guessing
	end   int    // where the scan ended
}

// mender walks over JSON tokens with the stack of what is open.
type mender struct {
	mended
	src   []byte
	i     int
	open  []opened
	want  want
	comma int  // offset of the comma just passed, -1 otherwise
	keyAt int  // offset of the last key
	bare  bool // the outermost object has no braces of its own
	first bool // stop after the first value; more text may follow
	start int  // offset of the outermost value
	many  bool // several values stand one after the other
}

type opened struct {
	brace byte // '{' or '['
	at    int
}

type want byte

const (
	wantValue want = iota
	wantKey
	wantColon
	wantComma
	wantEnd
)

// mend scans text as JSON and tells how to make it JSON with comments.
func mend(text []byte) mended { return (&mender{src: text, comma: -1}).run() }

// mendFirst is mend for the first value of a text.
func mendFirst(text []byte) mended { return (&mender{src: text, comma: -1, first: true}).run() }

func (m *mender) run() mended {
	m.skip()
	m.start = m.i
	if m.fragment() {
		m.bare, m.want = true, wantKey
		m.open = append(m.open, opened{'{', m.i})
		m.edits = append(m.edits, edit{m.i, 0, "{"})
		m.loose = append(m.loose, flaw{at: m.i, text: `the outer "{" is missing`})
	}
	for m.stuck == nil && !m.ended() {
		m.step()
	}
	if m.stuck == nil {
		m.finish()
	}
	return m.mended
}

// ended passes white space and reports whether there is nothing more to read.
func (m *mender) ended() bool {
	m.end = m.i
	if m.first && m.want == wantEnd {
		return true
	}
	m.skip()
	if m.stuck != nil || m.i >= len(m.src) {
		return true
	}
	if !m.first || !m.bare || len(m.open) > 1 || m.want != wantComma {
		return false
	}
	if m.src[m.i] != ',' {
		return true
	}
	look := &mender{src: m.src, i: m.i + 1}
	look.skip()
	return look.i >= len(look.src) || look.src[look.i] != '"' || !look.keyAhead()
}

// apply gives the mended text.
func apply(text []byte, edits []edit) []byte {
	var out []byte
	last := 0
	for _, e := range edits {
		out = append(append(out, text[last:e.at]...), e.ins...)
		last = e.at + e.del
	}
	return append(out, text[last:]...)
}

func (m *mender) fix(at, del int, ins, text string) {
	m.edits = append(m.edits, edit{at, del, ins})
	m.done = append(m.done, flaw{at: at, text: text})
}

func (m *mender) fail(at int, hint, format string, a ...any) {
	if m.stuck == nil {
		m.stuck = &flaw{at: at, text: fmt.Sprintf(format, a...), hint: hint}
	}
}

// skip passes white space and comments.
func (m *mender) skip() {
	for m.i < len(m.src) && m.stuck == nil {
		rest := m.src[m.i:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			m.i++
		case bytes.HasPrefix(rest, []byte("//")):
			m.lineComment(rest)
		case bytes.HasPrefix(rest, []byte("/*")):
			m.loose = append(m.loose, flaw{at: m.i, text: "comments are not allowed in a stored file"})
			n := bytes.Index(rest[2:], []byte("*/"))
			if n < 0 {
				m.fail(m.i, `close it with "*/"`, "this comment has no end")
				return
			}
			m.i += n + 4
		case c == '#':
			n := lineLen(rest)
			m.fix(m.i, n, "", `a "#" line is no JSON`)
			m.i += n
		case bytes.HasPrefix(rest, []byte("\u00a0")), bytes.HasPrefix(rest, []byte("\u200b")):
			_, n := utf8.DecodeRune(rest)
			m.fix(m.i, n, strings.Repeat(" ", n), "an invisible character stands between two values")
			m.i += n
		default:
			return
		}
	}
}

func (m *mender) lineComment(rest []byte) {
	m.loose = append(m.loose, flaw{at: m.i, text: "comments are not allowed in a stored file"})
	n := lineLen(rest)
	if n == len(rest) { // a line comment at the very end needs its line end
		m.edits = append(m.edits, edit{m.i, n, ""})
	} else if bytes.ContainsAny(rest[:n], "\u2028\u2029") {
		m.edits = append(m.edits, edit{m.i, n, ""})
	}
	m.i += n
}

func lineLen(b []byte) int {
	if n := bytes.IndexByte(b, '\n'); n >= 0 {
		return n
	}
	return len(b)
}

// fragment reports whether the text begins with a name and a colon instead of a brace.
func (m *mender) fragment() bool {
	rest := strings.TrimSpace(string(m.src[m.i:]))
	if !strings.HasPrefix(rest, `"`) {
		return false
	}
	end := strings.IndexByte(rest[1:], '"')
	return end >= 0 && strings.HasPrefix(strings.TrimSpace(rest[end+2:]), ":")
}

// step reads one token.
func (m *mender) step() {
	c := m.src[m.i]
	switch m.want {
	case wantKey:
		m.stepKey(c)
	case wantColon:
		if c == ':' {
			m.i, m.want = m.i+1, wantValue
			return
		}
		m.fail(m.keyAt, "", `a ":" must follow this name`)
	case wantValue:
		m.stepValue(c)
	case wantComma:
		m.stepComma(c)
	case wantEnd:
		if c == '{' && m.src[m.start] == '{' && !m.bare {
			m.another()
			return
		}
		if rest := strings.Trim(string(m.src[m.i:]), " \t\r\n}],;"); rest == "" && len(m.src)-m.i < 64 {
			m.fix(m.i, len(m.src)-m.i, "", fmt.Sprintf("there is a %q too many at the end", c))
			m.i = len(m.src)
			return
		}
		m.fail(m.i, "one file holds one object", "there is more text after the end")
	}
}

// another begins one more object, so that all of them are a list.
func (m *mender) another() {
	if !m.many {
		m.many = true
		m.edits = append([]edit{{m.start, 0, "["}}, m.edits...)
	}
	m.edits = append(m.edits, edit{m.i, 0, ","})
	m.done = append(m.done, flaw{at: m.i, text: "there is more text after the end", hint: "one file holds one object", said: "several objects stand one after the other; all are read"})
	m.want = wantValue
}

func (m *mender) top() byte {
	if len(m.open) == 0 {
		return 0
	}
	return m.open[len(m.open)-1].brace
}

func (m *mender) stepKey(c byte) {
	switch {
	case c == '}':
		m.close(c)
	case c == ']':
		m.mismatch(c)
	case m.elision():
	case c == ',':
		m.fix(m.i, 1, " ", "there is a comma too many")
		m.i++
	case c == '{' || c == '[' || c == ':':
		m.fail(m.i, "", "a name in quotes is missing before this %q", c)
	default:
		at := m.i
		_, ok := m.text()
		if !ok {
			_, ok = m.word()
		}
		if !ok {
			m.fail(m.i, `write it as "name"`, "a name in quotes is expected here")
			return
		}
		m.keyAt, m.want, m.comma = at, wantColon, -1
	}
}

func (m *mender) stepValue(c byte) {
	switch {
	case c == '{' || c == '[':
		if len(m.open) >= MaxDepth {
			m.fail(m.i, "", "this is nested deeper than %d levels", MaxDepth)
			return
		}
		m.open = append(m.open, opened{c, m.i})
		m.i, m.comma, m.want = m.i+1, -1, wantValue
		if c == '{' {
			m.want = wantKey
		}
		return
	case c == ']' && m.top() == '[':
		m.close(c)
		return
	case m.top() == '[' && m.elision():
		return
	case c == ',' && m.top() == '[':
		m.fix(m.i, 1, " ", "there is a comma too many")
		m.i++
		return
	case c == '}' || c == ']' || c == ',':
		m.fail(m.i, "", "a value is missing here")
		return
	}
	if _, ok := m.text(); ok {
		m.value()
		return
	}
	m.literal()
}

func (m *mender) value() {
	m.comma, m.want = -1, wantComma
	if len(m.open) == 0 {
		m.want = wantEnd
	}
}

// elision passes a "..." that stands for something left out.
func (m *mender) elision() bool {
	n := len(elided().Find(m.src[m.i:]))
	if n > 0 {
		m.fix(m.i, n, "", `"..." stands for something that was left out`)
		m.done[len(m.done)-1].said = `"..." stands for something that is missing here`
		m.i += n
	}
	return n > 0
}

func (m *mender) stepComma(c byte) {
	switch {
	case c == ',':
		m.comma, m.want = m.i, wantValue
		if m.top() == '{' {
			m.want = wantKey
		}
		m.i++
	case c == '}' && m.top() == '{', c == ']' && m.top() == '[':
		m.close(c)
	case c == '}' || c == ']':
		m.mismatch(c)
	case m.elision():
	case m.top() == '{' && m.keyAhead(), m.top() == '[' && (c == '"' || c == '{'):
		m.fix(m.i, 0, ",", "a comma is missing")
		m.comma, m.want = -1, wantValue
		if m.top() == '{' {
			m.want = wantKey
		}
	default:
		m.fail(m.i, "", `a "," or %q is expected here`, closer(m.top()))
	}
}

// keyAhead reports whether a quoted or bare name and a colon follow.
func (m *mender) keyAhead() bool {
	look := &mender{src: m.src, i: m.i}
	if _, ok := look.text(); !ok {
		if _, ok = look.word(); !ok {
			return false
		}
	}
	look.skip()
	return look.stuck == nil && look.i < len(look.src) && look.src[look.i] == ':'
}

func closer(open byte) string {
	if open == '[' {
		return "]"
	}
	return "}"
}

func (m *mender) mismatch(c byte) {
	o := m.open[len(m.open)-1]
	line := 1 + strings.Count(string(m.src[:o.at]), "\n")
	m.fail(m.i, "", "this %q does not close the %q of line %d", c, o.brace, line)
}

// close ends the innermost object or list.
func (m *mender) close(c byte) {
	if m.bare && len(m.open) == 1 {
		m.want, m.open = wantEnd, nil
		m.edits = append(m.edits, edit{m.i, 0, "}"})
		return
	}
	if m.comma >= 0 {
		m.loose = append(m.loose, flaw{at: m.comma, text: fmt.Sprintf("this comma stands before a %q; remove it", c)})
	}
	m.open = m.open[:len(m.open)-1]
	m.i++
	m.value()
}

// finish closes what is still open at the end.
func (m *mender) finish() {
	if len(m.open) == 0 {
		if m.want != wantEnd {
			m.fail(len(m.src), "", "the text is empty")
		}
		if m.many {
			m.edits = append(m.edits, edit{len(m.src), 0, "]"})
		}
		return
	}
	missing := ""
	for i := len(m.open) - 1; i >= 0; i-- {
		if m.open[i].brace == '[' {
			m.want = wantValue
		}
		missing += closer(m.open[i].brace)
	}
	if m.bare {
		missing = missing[1:]
	}
	if m.want == wantValue || m.want == wantColon || len(missing) > 3 {
		m.fail(len(m.src), "is it whole? copy it again", "the text ends in the middle; %q is missing", missing)
		return
	}
	switch {
	case m.bare:
		m.edits = append(m.edits, edit{len(m.src), 0, missing + "}"})
		if missing != "" {
			m.done = append(m.done, flaw{at: len(m.src), text: fmt.Sprintf("the final %q is missing", missing)})
		}
	default:
		m.fix(len(m.src), 0, missing, fmt.Sprintf("the final %q is missing", missing))
	}
}
