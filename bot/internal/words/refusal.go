package words

import (
	"slices"
	"strings"

	"bobbin/schemas"
)

// Invalid refuses what cannot be understood; hint says how it is written, "" for none.
func Invalid(text, hint string) error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: text, Hint: hint}
}

// WithHint is a text with the next step behind it.
func WithHint(text, hint string) string {
	if hint == "" {
		return text
	}
	return text + " · " + hint
}

// NotFound says that there is no such thing and offers the nearest one that the caller may see.
func NotFound(what, name string, known []string, hint string) error {
	n := schemas.Nearest(name, known)
	if i := slices.IndexFunc(known, func(k string) bool { return name != "" && strings.HasSuffix(k, "."+name) }); n == "" && i >= 0 {
		n = known[i] // a tool without its server
	}
	if n != "" {
		hint = "did you mean " + Clean(n) + "?"
	}
	return &schemas.Error{Code: schemas.CodeNotFound, Text: strings.TrimSpace("there is no " + what + " " + Short(Clean(name), 60)), Hint: hint}
}
