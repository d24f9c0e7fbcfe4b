package mcpstore

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"bobbin/schemas"
)

// badName says why a name is refused outright, "" when it may be used or changed into one.
func badName(raw string) string {
	switch {
	case strings.TrimSpace(raw) == "":
		return "a server needs a name"
	case raw == "." || raw == "..":
		return fmt.Sprintf("%q is no name", raw)
	case strings.HasPrefix(raw, "__proto__"), slices.Contains([]string{"constructor", "prototype"}, strings.ToLower(raw)):
		return fmt.Sprintf("the name %q is reserved", raw)
	}
	if schemas.ValidName(raw) {
		return ""
	}
	scripts := map[string]bool{}
	for _, c := range raw {
		if c == utf8.RuneError || unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || unicode.Is(unicode.Co, c) || unicode.Is(unicode.Zl, c) || unicode.Is(unicode.Zp, c) {
			return fmt.Sprintf("the name %s holds an invisible or forbidden character", asciiQuote(raw))
		}
		for name, table := range map[string]*unicode.RangeTable{"Latin": unicode.Latin, "Cyrillic": unicode.Cyrillic, "Greek": unicode.Greek, "Armenian": unicode.Armenian, "Cherokee": unicode.Cherokee} {
			if unicode.Is(table, c) && unicode.IsLetter(c) {
				scripts[name] = true
			}
		}
	}
	if len(scripts) > 1 {
		return fmt.Sprintf("the name %s mixes scripts that look alike", asciiQuote(raw))
	}
	return ""
}

// asciiQuote shows a suspicious name so that nothing in it can deceive.
func asciiQuote(s string) string {
	q := fmt.Sprintf("%+q", s)
	return q[:min(len(q), 120)]
}

// slug changes a name into a valid one, "" if nothing readable is left.
func slug(raw string) string {
	raw = strings.TrimRight(raw, "/ ")
	if i := strings.LastIndexAny(raw, `/\`); i >= 0 {
		raw = raw[i+1:]
	}
	var b strings.Builder
	for _, c := range norm.NFKD.String(raw) {
		switch {
		case c < 128 && (unicode.IsLetter(c) || unicode.IsDigit(c)), c == '_', c == '.':
			b.WriteRune(c)
		case unicode.Is(unicode.Mn, c):
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := strings.Trim(b.String(), "-._")
	return strings.TrimRight(s[:min(len(s), 48)], "-._")
}

// claim gives a server its name in this import. ok is false when the name is refused or when the entry is a copy.
func (r *reader) claim(raw string, at int, ptr string) (name, title string, ok bool) {
	if bad := badName(raw); bad != "" {
		r.wrong(at, ptr, "", "use letters, digits, . _ and -, at most 48", "%s", bad)
		return "", "", false
	}
	name = raw
	if !schemas.ValidName(raw) {
		title = shown(strings.TrimSpace(raw))
		if name = slug(raw); !schemas.ValidName(name) {
			name = fmt.Sprintf("server-%d", len(r.names)+1)
		}
	}
	first, taken := r.names[strings.ToLower(name)]
	switch {
	case taken && first.raw == raw && first.group != r.group:
		title = raw // the same name in another part of the file
	case taken && title == "" && !first.changed && first.group == r.group:
		line, _ := r.src.place(first.at)
		r.wrong(at, ptr, raw, "rename one of them", "%q and %q of line %d differ only in case", raw, first.raw, line)
		return "", "", false
	}
	base := name
	for n := 2; taken; n++ {
		end := fmt.Sprintf("-%d", n)
		name = base[:min(len(base), 48-len(end))] + end
		title = raw
		_, taken = r.names[strings.ToLower(name)]
	}
	r.names[strings.ToLower(name)] = claimed{raw: raw, at: at, changed: title != "", group: r.group}
	if title != "" {
		r.note(schemas.NoteRenamed, name, at, "%s is called %s here", shownKey(title), name)
	}
	return name, title, true
}

// claimed is a name in use.
type claimed struct {
	raw     string
	at      int
	changed bool
	group   int
}
