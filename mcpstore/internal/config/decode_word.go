package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"bobbin/internal/lazy"
)

// text reads a quoted text, mending foreign quotes and backslashes.
func (m *mender) text() (string, bool) {
	r, size := utf8.DecodeRune(m.src[m.i:])
	end, ok := map[rune]string{'"': `"`, '\'': `'`, '`': "`", '“': "”“\"", '”': "”\"", '„': "“”", '‘': "’‘'", '’': "’'", '«': "»"}[r]
	if !ok {
		return "", false
	}
	start, i := m.i, m.i+size
	for i < len(m.src) {
		c, n := utf8.DecodeRune(m.src[i:])
		switch {
		case c == '\\' && i+1 < len(m.src):
			i += 2
			continue
		case strings.ContainsRune(end, c):
			m.i = i + n
			return m.quoted(start, size, i, n)
		case c == '\n':
			m.fail(start, "", "this text has no closing quote")
			return "", true
		}
		i += n
	}
	m.fail(start, "", "this text has no closing quote")
	m.i = len(m.src)
	return "", true
}

// quoted checks the text between two quotes.
func (m *mender) quoted(start, size, end, n int) (string, bool) {
	body := string(m.src[start+size : end])
	var s string
	if size == 1 && m.src[start] == '"' && m.src[end] == '"' {
		if drivePath().MatchString(body) && !strings.Contains(body, `\\`) {
			m.fix(start+1, len(body), strings.ReplaceAll(strings.ReplaceAll(body, `\`, `\\`), `\\"`, `\"`), `a backslash must be written as \\`)
			return body, true
		}
		if simple(body) || json.Unmarshal(m.src[start:end+1], &s) == nil {
			if s == "" {
				s = body
			}
			return s, true
		}
		if strings.ContainsRune(body, '\t') {
			m.fix(start+1, len(body), strings.ReplaceAll(body, "\t", `\t`), "a tab stands inside a text")
			return body, true
		}
		if !strings.Contains(body, `\\`) {
			m.fix(start+1, len(body), strings.ReplaceAll(strings.ReplaceAll(body, `\`, `\\`), `\\"`, `\"`), `a backslash must be written as \\`)
			return body, true
		}
		m.fail(start, `write \\ for a backslash`, "this text has an escape that JSON does not know")
		return "", true
	}
	b, _ := json.Marshal(strings.ReplaceAll(body, `\'`, `'`))
	m.fix(start, end+n-start, string(b), `the quotes are not "`)
	return body, true
}

var (
	// drivePath is a Windows path whose backslashes were not doubled, even if JSON knows the escape: C:\temp.
	drivePath = lazy.Regexp(`^(?:-{0,2}[\w-]*=)?(?:[A-Za-z]:|\.{1,2}|%\w+%)\\[^\\/"]`)
	elided    = lazy.Regexp(`^(?:\.{3,}|…+)`)
	envCode   = lazy.Regexp(`^(?:process\.env\.([A-Za-z_]\w*)|process\.env\[["']([A-Za-z_]\w*)["']\]|os\.environ\[["']([A-Za-z_]\w*)["']\]|os\.environ\.get\(["']([A-Za-z_]\w*)["'][^()\n]{0,80}\)` +
		`|os\.getenv\(["']([A-Za-z_]\w*)["'][^()\n]{0,80}\)|import\.meta\.env\.([A-Za-z_]\w*)|Deno\.env\.get\(["']([A-Za-z_]\w*)["']\))!?(?:\s*(?:\|\||\?\?)\s*(?:"[^"\n]*"|'[^'\n]*'))?`)
)

// simple reports whether a text needs no unescaping.
func simple(s string) bool {
	for i := range len(s) {
		if s[i] == '\\' || s[i] < ' ' {
			return false
		}
	}
	return true
}

// word reads a bare name in the place of a key.
func (m *mender) word() (string, bool) {
	n := wordLen(m.src[m.i:])
	rest := strings.TrimLeft(string(m.src[m.i+n:min(len(m.src), m.i+n+8)]), " \t")
	if n == 0 || !strings.HasPrefix(rest, ":") {
		return "", false
	}
	w := string(m.src[m.i : m.i+n])
	m.fix(m.i, n, `"`+w+`"`, "a name has no quotes")
	m.i += n
	return w, true
}

func wordLen(b []byte) int {
	n := 0
	for n < len(b) && (b[n] == '_' || b[n] == '$' || b[n] == '-' || b[n] == '.' || b[n] == '+' || b[n]|32 >= 'a' && b[n]|32 <= 'z' || b[n] >= '0' && b[n] <= '9') {
		n++
	}
	return n
}

// literal reads a number, switch or null.
func (m *mender) literal() {
	if g := envCode().FindSubmatch(m.src[m.i:]); g != nil {
		name := string(bytes.Join(g[1:], nil))
		m.fix(m.i, len(g[0]), `"${`+name+`}"`, name+" is taken from a program's environment")
		m.done[len(m.done)-1].said = name + " came from the environment of a program; you are asked for it"
		m.i += len(g[0])
		m.value()
		return
	}
	n := wordLen(m.src[m.i:])
	switch w := string(m.src[m.i : m.i+n]); {
	case n == 0:
		m.fail(m.i, "", "a value is expected here")
	case w == "True" || w == "False":
		m.fix(m.i, n, strings.ToLower(w), "a switch is written true or false")
	case w == "None" || w == "undefined":
		m.fix(m.i, n, "null", "nothing is written null")
	case strings.EqualFold(w, "NaN") || strings.Contains(w, "Infinity"):
		m.fail(m.i, "", "%s is not a number that JSON knows", w)
	case !json.Valid([]byte(w)):
		m.fail(m.i, `write it as "text"`, "a text must stand in quotes")
	}
	m.i += n
	m.value()
}
