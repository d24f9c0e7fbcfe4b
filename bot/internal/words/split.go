package words

import (
	"strings"
	"unicode"
)

// Unfence takes JSON out of a code fence.
func Unfence(s string) string {
	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, "```") {
		return strings.Trim(s, "`")
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "```"), "```")
	if i := strings.IndexAny(s, "\n{"); i >= 0 {
		s = s[i:]
	}
	return strings.TrimSpace(s)
}

// plainWord is a word that needs no quotes in a shown or typed command line.
func plainWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		letter := r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r))
		return !letter && !strings.ContainsRune("_@%+=:,./{}$~^-", r)
	}) < 0
}

// CutSpace splits a text at its first white space.
func CutSpace(s string) (first, rest string) {
	s = strings.TrimSpace(s)
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// First takes one word off a typed line: quotes hold words together, a backslash escapes a space, a quote or itself and is
// plain in front of anything else, so that C:\Users stays as it is.
func First(s string) (w, rest string, err error) {
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	var b strings.Builder
	var open rune
	skip := false
	for i, r := range s {
		switch {
		case skip:
			skip = false
			b.WriteRune(r)
		case r == '\\' && open != '\'' && escapes(s[i+1:], open):
			skip = true
		case open != 0 && r == open:
			open = 0
		case open != 0:
			b.WriteRune(r)
		case r == '"' || r == '\'':
			open = r
		case unicode.IsSpace(r):
			return b.String(), s[i:], nil
		default:
			b.WriteRune(r)
		}
	}
	if open != 0 {
		return "", "", Invalid("a quote ("+string(open)+") is not closed", "")
	}
	return b.String(), "", nil
}

func escapes(next string, open rune) bool {
	if next == "" {
		return false
	}
	if open == '"' {
		return next[0] == '"' || next[0] == '\\'
	}
	return strings.ContainsRune(" \t\"'\\", rune(next[0]))
}

// Split splits a line as a shell does, without expanding anything.
func Split(s string) ([]string, error) {
	var all []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		w, rest, err := First(s)
		if err != nil {
			return nil, err
		}
		all, s = append(all, w), rest
	}
	return all, nil
}

// Quote writes one argument so that Split reads it back.
func Quote(arg string) string {
	switch {
	case plainWord(arg):
		return arg
	case !strings.Contains(arg, "'"):
		return "'" + arg + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(arg) + `"`
}

// QuoteAll writes arguments as one line, each as Quote writes it.
func QuoteAll(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = Quote(a)
	}
	return strings.Join(quoted, " ")
}
