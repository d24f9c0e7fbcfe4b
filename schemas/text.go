package schemas

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a text of somebody else safe to show to people and models: no terminal sequences (ECMA-48), no control or
// formatting characters (bidi, zero-width, Unicode tags U+E0000), no private or unassigned ones, no line separators.
// Without oneLine, line breaks and tabs stay.
func Clean(text string, oneLine bool) string {
	if plain(text) {
		return text
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == 0x1b || r == 0x9b || r == 0x9d {
			i += sequence(text[i:], r)
			continue
		}
		i += size
		switch {
		case r == '\n' || r == '\t':
			if oneLine {
				r = ' '
			}
			b.WriteRune(r)
		case r == '\u2028' || r == '\u2029':
			b.WriteByte(' ')
		case Visible(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain reports the common case: printable ASCII.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Visible reports whether a character is drawn as something. It excludes the categories C* but lets emoji be joined by their
// variation selector alone.
func Visible(r rune) bool {
	switch {
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs):
		return false
	case r >= 0xFE00 && r <= 0xFE0E, r >= 0xE0100 && r <= 0xE01EF, r >= 0x180B && r <= 0x180F: // variation selectors can carry hidden bytes
		return false
	case r == 0x2800, unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r): // drawn as nothing
		return false
	}
	return unicode.IsGraphic(r) || r == 0xFE0F
}

// sequence is the length of the terminal sequence at the start of text.
func sequence(text string, first rune) int {
	i := utf8.RuneLen(first)
	kind := byte('[')
	switch {
	case first == 0x9d:
		kind = ']'
	case first == 0x1b && i >= len(text):
		return i
	case first == 0x1b:
		kind = text[i]
		i++
	}
	switch kind {
	case '[': // CSI: parameters, then one final byte
		for i < len(text) && text[i] >= 0x20 && text[i] < 0x40 {
			i++
		}
		if i < len(text) && text[i] >= 0x40 && text[i] <= 0x7e {
			i++
		}
	case ']', 'P', 'X', '^', '_': // a string up to BEL or ST
		for j := i; j < len(text); j++ {
			switch {
			case text[j] == 7:
				return j + 1
			case text[j] == 0x1b && j+1 < len(text) && text[j+1] == '\\':
				return j + 2
			case text[j] == '\n': // unterminated: swallow no more than the line
				return j
			}
		}
		return len(text)
	}
	return min(i, len(text))
}
