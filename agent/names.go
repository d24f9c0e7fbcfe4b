package agent

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"bobbin/schemas"
)

// nameOf is how a member is called, safe to stand in brackets before what they say.
func nameOf(c schemas.Caller) string { return label(c.Name) }

// label makes a name of somebody else safe for one line within brackets.
func label(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("[]{}<>`\"@", r) {
			return -1
		}
		return r
	}, schemas.Clean(name, true))
	return first(strings.Join(strings.Fields(name), " "), 64)
}

// first gives at most n characters of a text.
func first(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// reference joins what belongs together in the audit log; it is no secret.
func reference() string { return strings.ToLower(rand.Text()[:8]) }

// tally writes a number with its thousands apart: 20,000.
func tally(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span writes a time as people do.
func span(d time.Duration) string {
	switch {
	case d%time.Minute == 0 && d > 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d >= time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
