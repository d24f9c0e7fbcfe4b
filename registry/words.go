package registry

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// short cuts a text to at most limit characters.
func short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := 0
	for i := range text {
		if n++; n == limit {
			if utf8.RuneCountInString(text[i:]) > 1 {
				return text[:i] + "…"
			}
			break
		}
	}
	return text
}

// words gives a duration as people write it: "30 s", "310 ms".
func words(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}
