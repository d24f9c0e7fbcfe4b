package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

var errSyntax = errors.New("not a JSON value")

// maxDepth bounds the nesting of a message, and so the stack of the scanner.
const maxDepth = 512

// envelope holds the members of a JSON-RPC message as slices of the scanned
// line. What is absent is nil.
type envelope struct {
	id, method, params, result, err []byte
}

// scanEnvelope checks that line is one JSON object and finds the members of a
// JSON-RPC message in it without decoding anything. It is the whole cost of
// passing a result through.
func scanEnvelope(line []byte) (envelope, error) {
	var e envelope
	err := scanObject(line, func(key, value []byte) {
		switch string(key) {
		case "id":
			e.id = value
		case "method":
			e.method = value
		case "params":
			e.params = value
		case "result":
			e.result = value
		case "error":
			e.err = value
		}
	})
	return e, err
}

// scanObject checks that b is exactly one JSON object and gives each member to
// fn; a key comes without quotes, with its escapes as they stand.
func scanObject(b []byte, fn func(key, value []byte)) error {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return errSyntax
	}
	i, ok := object(b, i, 1, fn)
	if !ok || space(b, i) != len(b) {
		return errSyntax
	}
	return nil
}

// compactObject returns b as one JSON object on one line, or an error. An
// empty b is the empty object.
func compactObject(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return []byte("{}"), nil
	}
	if err := scanObject(b, nil); err != nil {
		return nil, err
	}
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return bytes.TrimSpace(b), nil
	}
	var out bytes.Buffer
	err := json.Compact(&out, b)
	return out.Bytes(), err
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// object reads the object at b[i] and returns the position after it.
func object(b []byte, i, depth int, fn func(key, value []byte)) (int, bool) {
	if depth > maxDepth {
		return i, false
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, true
	}
	for {
		start := i
		var ok bool
		if i, ok = text(b, i); !ok {
			return i, false
		}
		key := b[start+1 : i-1]
		if i = space(b, i); i >= len(b) || b[i] != ':' {
			return i, false
		}
		i = space(b, i+1)
		start = i
		if i, ok = value(b, i, depth); !ok {
			return i, false
		}
		if fn != nil {
			fn(key, b[start:i:i])
		}
		if i = space(b, i); i >= len(b) {
			return i, false
		}
		switch b[i] {
		case '}':
			return i + 1, true
		case ',':
			i = space(b, i+1)
		default:
			return i, false
		}
	}
}

func array(b []byte, i, depth int) (int, bool) {
	if depth > maxDepth {
		return i, false
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, true
	}
	for {
		var ok bool
		if i, ok = value(b, i, depth); !ok {
			return i, false
		}
		if i = space(b, i); i >= len(b) {
			return i, false
		}
		switch b[i] {
		case ']':
			return i + 1, true
		case ',':
			i = space(b, i+1)
		default:
			return i, false
		}
	}
}

func value(b []byte, i, depth int) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch b[i] {
	case '{':
		return object(b, i, depth+1, nil)
	case '[':
		return array(b, i, depth+1)
	case '"':
		return text(b, i)
	case 't':
		return word(b, i, "true")
	case 'f':
		return word(b, i, "false")
	case 'n':
		return word(b, i, "null")
	}
	return number(b, i)
}

func word(b []byte, i int, w string) (int, bool) {
	if len(b)-i < len(w) || string(b[i:i+len(w)]) != w {
		return i, false
	}
	return i + len(w), true
}

// text reads the string at b[i], quotes included.
func text(b []byte, i int) (int, bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	for i++; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '"':
			return i + 1, true
		case c < 0x20:
			return i, false
		case c == '\\':
			if i++; i >= len(b) {
				return i, false
			}
			if b[i] == 'u' {
				if i+4 >= len(b) || slices.ContainsFunc(b[i+1:i+5], notHex) {
					return i, false
				}
				i += 4
			} else if bytes.IndexByte([]byte(`"\/bfnrt`), b[i]) < 0 {
				return i, false
			}
		}
	}
	return i, false
}

func notHex(c byte) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F')
}

func number(b []byte, i int) (int, bool) {
	digits := func() bool {
		start := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return i, false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return i, false
		}
	}
	return i, true
}
