package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a text, and so the stack of the scanner.
const maxDepth = 512

// scanner walks over one text. Every step takes a position and returns the one after what it read, or -1.
type scanner struct {
	b       []byte
	trusted bool   // b is known to be JSON: what is not asked for is passed over without a look inside
	high    uint64 // all bytes of strings so far, one over the other
}

const (
	each  = 0x0101010101010101
	tops  = 0x80 * each
	lower = 0x20 * each
)

// whole reports whether the text is one value and nothing else, in UTF-8 (RFC 8259, 8.1).
func (s *scanner) whole(fn func(key []byte, value Span)) bool {
	i, end := s.space(0), 0
	if fn != nil {
		end = s.object(i, 1, fn)
	} else {
		end = s.value(i, 0)
	}
	return end >= 0 && s.space(end) == len(s.b) && (s.high&tops == 0 || utf8.Valid(s.b))
}

func (s *scanner) space(i int) int {
	for i < len(s.b) && (s.b[i] == ' ' || s.b[i] == '\n' || s.b[i] == '\r' || s.b[i] == '\t') {
		i++
	}
	return i
}

// object gives each member to fn, which may be nil.
func (s *scanner) object(i, depth int, fn func(key []byte, value Span)) int {
	if i >= len(s.b) || s.b[i] != '{' || depth > maxDepth {
		return -1
	}
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	for {
		from := i
		if i = s.text(i); i < 0 {
			return -1
		}
		key := s.b[from+1 : i-1]
		if i = s.space(i); i >= len(s.b) || s.b[i] != ':' {
			return -1
		}
		from = s.space(i + 1)
		if i = s.value(from, depth); i < 0 {
			return -1
		}
		if fn != nil {
			fn(key, Span{from, i})
		}
		end := false
		if i, end = s.next(i, '}'); end || i < 0 {
			return i
		}
	}
}

func (s *scanner) array(i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth); i < 0 {
			return -1
		}
		end := false
		if i, end = s.next(i, ']'); end || i < 0 {
			return i
		}
	}
}

// next passes the comma before the next element, or the end of the object or array.
func (s *scanner) next(i int, closing byte) (int, bool) {
	if i = s.space(i); i >= len(s.b) {
		return -1, false
	}
	switch s.b[i] {
	case closing:
		return i + 1, true
	case ',':
		return s.space(i + 1), false
	}
	return -1, false
}

func (s *scanner) value(i, depth int) int {
	if i >= len(s.b) {
		return -1
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.text(i)
	case s.trusted && (c == '{' || c == '['):
		return s.nested(i)
	case c == '{':
		return s.object(i, depth+1, nil)
	case c == '[':
		return s.array(i, depth+1)
	case c == 't':
		return s.word(i, "true")
	case c == 'f':
		return s.word(i, "false")
	case c == 'n':
		return s.word(i, "null")
	}
	return s.number(i)
}

// nested passes over an object or array by its brackets.
func (s *scanner) nested(i int) int {
	for depth := 0; i < len(s.b); i++ {
		switch s.b[i] {
		case '"':
			if i = s.leap(i) - 1; i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

func (s *scanner) word(i int, w string) int {
	if len(s.b)-i < len(w) || string(s.b[i:i+len(w)]) != w {
		return -1
	}
	return i + len(w)
}

// text reads a string with its quotes, eight bytes at a time where nothing in them ends it or is special.
func (s *scanner) text(i int) int {
	b := s.b
	switch {
	case i >= len(b) || b[i] != '"':
		return -1
	case s.trusted:
		return s.leap(i)
	}
	for i++; i < len(b); {
		i = s.run(i)
		if i == len(b) {
			break
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = s.escape(i); i < 0 {
				return -1
			}
		case c < ' ':
			return -1
		default:
			s.high |= uint64(c)
			i++
		}
	}
	return -1
}

// run passes over what is plain, by whole words, and stops at the first byte that is not or at the last few of the text.
func (s *scanner) run(i int) int {
	rest, high := s.b[i:], s.high
	for len(rest) >= 8 {
		x := binary.LittleEndian.Uint64(rest)
		high |= x
		quote, slash := x^'"'*each, x^'\\'*each
		// A zero byte borrows from the next one: only the lowest mark counts, and that one is right.
		if marks := ((quote-each)&^quote | (slash-each)&^slash | (x-lower)&^x) & tops; marks != 0 {
			s.high = high
			return len(s.b) - len(rest) + bits.TrailingZeros64(marks)/8
		}
		rest = rest[8:]
	}
	s.high = high
	return len(s.b) - len(rest)
}

func (s *scanner) escape(i int) int {
	if i++; i >= len(s.b) {
		return -1
	}
	switch s.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for n := 1; n <= 4; n++ {
			if i+n >= len(s.b) || !hex(s.b[i+n]) {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

func hex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// leap goes from quote to quote: most bytes of MCP traffic are inside of strings.
func (s *scanner) leap(i int) int {
	for i++; ; {
		n := bytes.IndexByte(s.b[i:], '"')
		if n < 0 {
			return -1
		}
		quote, escapes := i+n, 0
		for k := quote - 1; k >= i && s.b[k] == '\\'; k-- {
			escapes++
		}
		if i = quote + 1; escapes%2 == 0 {
			return i
		}
	}
}

func (s *scanner) number(i int) int {
	digits := func() bool {
		from := i
		for i < len(s.b) && '0' <= s.b[i] && s.b[i] <= '9' {
			i++
		}
		return i > from
	}
	is := func(chars string) bool {
		if i < len(s.b) && bytes.IndexByte([]byte(chars), s.b[i]) >= 0 {
			i++
			return true
		}
		return false
	}
	is("-")
	if !is("0") && !digits() || is(".") && !digits() {
		return -1
	}
	if is("eE") {
		is("+-")
		if !digits() {
			return -1
		}
	}
	return i
}
