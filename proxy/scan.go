package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

var errSyntax = errors.New("not a JSON-RPC message")

// span is a part of a scanned message; the zero span is an absent one.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to:s.to] }
func (s span) absent() bool       { return s.to == 0 }

// envelope says where the members of a JSON-RPC message lie.
type envelope struct{ id, method, params, result, err span }

// members are all keys that JSON-RPC 2.0 knows at the top.
func (e *envelope) member(key []byte) *span {
	switch string(key) {
	case "id":
		return &e.id
	case "method":
		return &e.method
	case "params":
		return &e.params
	case "result":
		return &e.result
	case "error":
		return &e.err
	}
	return nil
}

// scanEnvelope finds the members of a message. It checks only the structure that it walks: the far end parses the rest.
// Keys that come twice, or that a lenient parser could take for one of the members, are refused, because both ends must
// see the same id.
func scanEnvelope(b []byte) (envelope, error) {
	var e envelope
	wrong := false
	end := scanObject(b, space(b, 0), func(key []byte, value span) {
		part := e.member(key)
		switch {
		case part == nil:
			wrong = wrong || odd(key, "id", "method", "params", "result", "error")
		case !part.absent():
			wrong = true
		default:
			*part = value
		}
	})
	if wrong || end < 0 || space(b, end) != len(b) {
		return e, errSyntax
	}
	return e, nil
}

// odd reports a key that is none of the names but may be read as one of them: by its escapes, or without regard to case.
func odd(key []byte, names ...string) bool {
	return bytes.IndexByte(key, '\\') >= 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, string(key)) })
}

// find walks down the keys of nested objects from the object at in.
func find(b []byte, in span, path ...string) (span, error) {
	for _, name := range path {
		var got span
		wrong := false
		if in.absent() || b[in.from] != '{' {
			return span{}, nil
		}
		end := scanObject(b, in.from, func(key []byte, value span) {
			switch {
			case string(key) == name:
				wrong = wrong || !got.absent()
				got = value
			default:
				wrong = wrong || odd(key, name)
			}
		})
		if end < 0 || wrong {
			return span{}, errSyntax
		}
		in = got
	}
	return in, nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// scanObject gives each member of the object at b[i] to fn and returns the position after it, or -1.
func scanObject(b []byte, i int, fn func(key []byte, value span)) int {
	if i >= len(b) || b[i] != '{' {
		return -1
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		from := i
		if i = skipText(b, i); i < 0 {
			return -1
		}
		key := b[from+1 : i-1]
		if i = space(b, i); i >= len(b) || b[i] != ':' {
			return -1
		}
		from = space(b, i+1)
		if i = skip(b, from); i < 0 {
			return -1
		}
		fn(key, span{from, i})
		if i = space(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case '}':
			return i + 1
		case ',':
			i = space(b, i+1)
		default:
			return -1
		}
	}
}

// skip returns the position after the value at b[i], or -1.
func skip(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipText(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	from := i
	for i < len(b) && bytes.IndexByte([]byte(",]} \t\r\n\":{["), b[i]) < 0 {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = skipText(b, i) - 1; i < 0 {
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

// skipText looks for the closing quote by leaps: most bytes of MCP traffic are inside of strings.
func skipText(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		quote := i + n
		escapes := 0
		for k := quote - 1; k >= i && b[k] == '\\'; k-- {
			escapes++
		}
		if i = quote + 1; escapes%2 == 0 {
			return i
		}
	}
}

// edit replaces a part of a message.
type edit struct {
	at span
	by []byte
}

// splice appends b to dst with the edits made; absent parts are passed over.
func splice(dst, b []byte, edits ...edit) []byte {
	slices.SortFunc(edits, func(x, y edit) int { return x.at.from - y.at.from })
	from := 0
	for _, e := range edits {
		if !e.at.absent() {
			dst = append(append(dst, b[from:e.at.from]...), e.by...)
			from = e.at.to
		}
	}
	return append(dst, b[from:]...)
}

// oneLine takes the line breaks between the tokens of valid JSON away, in place: inside of strings there are none.
func oneLine(b []byte) []byte {
	for _, c := range []byte("\n\r") {
		for i := bytes.IndexByte(b, c); i >= 0; i = bytes.IndexByte(b, c) {
			b[i] = ' '
		}
	}
	return b
}

// message is what a client sent, checked and on one line.
type message struct {
	envelope
	raw    []byte
	verb   string // the method; "" for an answer
	token  span   // of a progress token in a request
	target span   // requestId of notifications/cancelled
	era    span   // the protocol version in _meta, since 2026-07-28
	name   span   // params.name or params.uri
}

// readMessage checks a client's message. Unlike what a server sends it is parsed whole: another client's answers depend
// on both ends reading it alike.
func readMessage(b []byte) (message, error) {
	m := message{raw: b}
	var err error
	if !json.Valid(b) {
		return m, errSyntax
	}
	if m.envelope, err = scanEnvelope(b); err != nil {
		return m, err
	}
	m.raw = oneLine(b)
	if !m.id.absent() && !goodID(m.id.of(b)) {
		return m, errSyntax
	}
	if m.method.absent() {
		if m.id.absent() || m.result.absent() == m.err.absent() {
			return m, errSyntax
		}
		return m, nil
	}
	if err := json.Unmarshal(m.method.of(b), &m.verb); err != nil || m.verb == "" || !m.result.absent() || !m.err.absent() {
		return m, errSyntax
	}
	return m, m.readParams()
}

func (m *message) readParams() error {
	if m.params.absent() {
		return nil
	}
	var meta span
	wrong := m.raw[m.params.from] != '{'
	if !wrong {
		scanObject(m.raw, m.params.from, func(key []byte, value span) {
			switch string(key) {
			case "_meta":
				wrong = wrong || !meta.absent()
				meta = value
			case "name", "uri":
				m.name = value
			case "requestId":
				wrong = wrong || !m.target.absent()
				m.target = value
			default:
				wrong = wrong || odd(key, "_meta", "requestId")
			}
		})
	}
	if wrong || !meta.absent() && m.raw[meta.from] != '{' {
		return errSyntax
	}
	if !meta.absent() {
		scanObject(m.raw, meta.from, func(key []byte, value span) {
			switch string(key) {
			case "progressToken":
				wrong = wrong || !m.token.absent()
				m.token = value
			case "io.modelcontextprotocol/protocolVersion":
				m.era = value
			default:
				wrong = wrong || odd(key, "progressToken")
			}
		})
	}
	if wrong {
		return errSyntax
	}
	return nil
}

// goodID holds for a string or an integer of sensible length (2025-11-25, basic: never null).
func goodID(id []byte) bool {
	return len(id) <= 256 && id[0] != 'n' && id[0] != '{' && id[0] != '[' && id[0] != 't' && id[0] != 'f'
}
