package bot

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"bobbin/schemas"
)

// clean makes untrusted text safe to stand inside a line: what cannot be seen (control, bidi, zero-width and tag characters,
// line ends) is shown as an escape, and a backtick cannot end a `span`.
func clean(s string) string {
	return escape(s, func(r rune) bool { return r == '`' })
}

// bare is clean for lines that are drawn as they are: there is no span in them, so backticks are left out, and several lines become one.
func bare(s string) string {
	return clean(strings.NewReplacer("`", "", ":\n", ": ", "\n", "; ").Replace(strings.TrimSpace(s)))
}

// cleanText is clean for texts of ours around untrusted words: line ends and spans stay.
func cleanText(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = escape(l, func(rune) bool { return false })
	}
	return strings.Join(lines, "\n")
}

// cleanLines is cleanText for preformatted text; tabs stay, too.
func cleanLines(s string) string {
	return escapeBut(strings.ReplaceAll(s, "\r\n", "\n"), "\n\t")
}

func escapeBut(s, keep string) string {
	parts := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(keep, r) })
	if len(parts) == 1 && parts[0] == s {
		return escape(s, func(rune) bool { return false })
	}
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(keep, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(string(r), func(rune) bool { return false }))
		}
	}
	return b.String()
}

func escape(s string, also func(rune) bool) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexFunc(s, func(r rune) bool { return hidden(r) || also(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r) && !also(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// hidden reports whether a rune shows nothing, or changes how others show.
func hidden(r rune) bool { return r != utf8.RuneError && (!schemas.Visible(r) || r == 0xFE0F) }

// plainWord is a word that needs no quotes in a shown or typed command line.
func plainWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		letter := r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r))
		return !letter && !strings.ContainsRune("_@%+=:,./{}$~^-", r)
	}) < 0
}

// shown writes one argument as a shell would take it, with everything invisible in it made visible.
func shown(arg string) string {
	if utf8.ValidString(arg) && strings.IndexFunc(arg, func(r rune) bool { return hidden(r) || r == '`' }) < 0 {
		return quote(arg)
	}
	return strings.ReplaceAll(escape(strconv.Quote(arg), func(rune) bool { return false }), "`", `\x60`)
}

func shownLine(command string, args []string) string {
	words := []string{shown(command)}
	for _, a := range args {
		words = append(words, shown(a))
	}
	return strings.Join(words, " ")
}

// short cuts a cleaned text to n characters and says so.
func short(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n]) + fmt.Sprintf(" … (%s more characters)", thousands(len(r)-n))
}

// tail keeps the last parts of a long path, the ones that tell what it is; what is no path is cut at its end.
func tail(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if (s[i] == '/' || s[i] == '\\') && utf8.RuneCountInString(s[i:]) < n {
			return "…" + s[i:]
		}
	}
	return short(s, n)
}

// firstLine is the first sentence or line of a description, for tables.
func firstLine(s string, n int) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if i := strings.Index(s, ". "); i > 0 {
		s = s[:i]
	}
	s = clean(s)
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
