package words

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"bobbin/schemas"
)

// Clean makes untrusted text safe to stand inside a line: what cannot be seen (control, bidi, zero-width and tag characters,
// line ends) is shown as an escape, and a backtick cannot end a `span`.
func Clean(s string) string {
	return escape(s, func(r rune) bool { return r == '`' })
}

// Bare is Clean for lines that are drawn as they are: there is no span in them, so backticks are left out, and several lines become one.
func Bare(s string) string {
	return Clean(strings.NewReplacer("`", "", ":\n", ": ", "\n", "; ").Replace(strings.TrimSpace(s)))
}

// Text is Clean for texts of ours around untrusted words: line ends and spans stay.
func Text(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = escape(l, func(rune) bool { return false })
	}
	return strings.Join(lines, "\n")
}

// Lines is Text for preformatted text; tabs stay, too.
func Lines(s string) string {
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
	if strings.IndexFunc(s, func(r rune) bool { return Hidden(r) || also(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !Hidden(r) && !also(r):
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

// Hidden reports whether a rune shows nothing, or changes how others show.
func Hidden(r rune) bool { return r != utf8.RuneError && (!schemas.Visible(r) || r == 0xFE0F) }

// Arg writes one argument as a shell would take it, with everything invisible in it made visible.
func Arg(arg string) string {
	if utf8.ValidString(arg) && strings.IndexFunc(arg, func(r rune) bool { return Hidden(r) || r == '`' }) < 0 {
		return Quote(arg)
	}
	return strings.ReplaceAll(escape(strconv.Quote(arg), func(rune) bool { return false }), "`", `\x60`)
}

// CommandLine is a command with its arguments, each as Arg writes it.
func CommandLine(command string, args []string) string {
	said := []string{Arg(command)}
	for _, a := range args {
		said = append(said, Arg(a))
	}
	return strings.Join(said, " ")
}

// Short cuts a cleaned text to n characters and says so.
func Short(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n]) + fmt.Sprintf(" … (%s more characters)", Thousands(len(r)-n))
}

// Tail keeps the last parts of a long path, the ones that tell what it is; what is no path is cut at its end.
func Tail(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if (s[i] == '/' || s[i] == '\\') && utf8.RuneCountInString(s[i:]) < n {
			return "…" + s[i:]
		}
	}
	return Short(s, n)
}

// FirstLine is the first sentence or line of a description, for tables.
func FirstLine(s string, n int) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if i := strings.Index(s, ". "); i > 0 {
		s = s[:i]
	}
	s = Clean(s)
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// JSON is Lines for indented JSON: it keeps the lines and makes all else visible; in JSON an escaped backtick is the same text.
func JSON(s string) string { return strings.ReplaceAll(Lines(s), "`", `\u0060`) }
