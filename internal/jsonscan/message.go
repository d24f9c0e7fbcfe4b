package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	// ErrSyntax says that a text is not what it should be: JSON in UTF-8, nested at most 512 deep.
	ErrSyntax = errors.New("not a JSON text")
	// ErrTwice says that readers might not agree on a member: its name comes twice, or another one that a lenient reader takes for it.
	ErrTwice = errors.New("a member that readers may understand differently")
)

// Span is a part of a text, from the first byte up to the one behind it. The zero Span is an absent part.
type Span struct{ From, To int }

// Of gives the part of b; appending to it never writes into b. An absent one is nil.
func (s Span) Of(b []byte) []byte {
	if s.Absent() {
		return nil
	}
	return b[s.From:s.To:s.To]
}

// Absent holds for the zero Span.
func (s Span) Absent() bool { return s.To == 0 }

// All is the whole of b.
func All(b []byte) Span { return Span{0, len(b)} }

// Envelope says where the members of a JSON-RPC 2.0 message lie.
type Envelope struct{ Version, ID, Method, Params, Result, Error Span }

// Message checks that b is one JSON object and finds the members of a JSON-RPC message in it. Whether they are there and what they are
// is the caller's to decide. A text that is JSON but not in UTF-8 is refused as well: it ends the reader of many a server.
func Message(b []byte) (Envelope, error) {
	var e Envelope
	err := pick(&scanner{b: b}, Span{}, []Want{
		{"jsonrpc", &e.Version}, {"id", &e.ID}, {"method", &e.Method}, {"params", &e.Params}, {"result", &e.Result}, {"error", &e.Error},
	})
	return e, err
}

// Mended is [Message] for a text that is worth keeping though it is not UTF-8: where bytes are none, as of a file in another code, the
// parts lie in a new text that has U+FFFD for them. Else text is b.
func Mended(b []byte) (e Envelope, text []byte, err error) {
	if e, err = Message(b); err == nil || utf8.Valid(b) {
		return e, b, err
	}
	text = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	e, err = Message(text)
	return e, text, err
}

// Valid reports whether b is one JSON value, in UTF-8.
func Valid(b []byte) bool {
	s := scanner{b: b}
	return s.whole(nil)
}

// Object reports whether b is one JSON object, in UTF-8.
func Object(b []byte) bool {
	s := scanner{b: b}
	return s.whole(func([]byte, Span) {})
}

// Want is a member to be found: its name, and where to say where its value lies.
type Want struct {
	Name string
	At   *Span
}

// Pick finds members of the object at in. What is absent, or is no object, has none. Names are compared as they are meant, whatever
// escapes they are written with. [ErrTwice] is for the wanted ones only.
func Pick(b []byte, in Span, want ...Want) error {
	return pick(&scanner{b: b, trusted: true}, in, want)
}

func pick(s *scanner, in Span, want []Want) error {
	for _, w := range want {
		*w.At = Span{}
	}
	twice := false
	member := func(key []byte, value Span) {
		if bytes.IndexByte(key, '\\') >= 0 {
			key = unescape(key)
		}
		for _, w := range want {
			switch {
			case string(key) == w.Name:
				twice = twice || !w.At.Absent()
				*w.At = value
				return
			case alike(w.Name, key):
				twice = true
			}
		}
	}
	if !s.trusted {
		if !s.whole(member) {
			return ErrSyntax
		}
	} else if err := s.members(in, member); err != nil {
		return err
	}
	if twice {
		return ErrTwice
	}
	return nil
}

// alike holds for names that differ by case only, which encoding/json and others overlook.
func alike(name string, key []byte) bool {
	return (len(name) == len(key) || slices.ContainsFunc(key, func(c byte) bool { return c >= 0x80 })) && strings.EqualFold(name, string(key))
}

// unescape reads what stands between the quotes of a string.
func unescape(key []byte) []byte {
	var text string
	_ = json.Unmarshal(slices.Concat([]byte{'"'}, key, []byte{'"'}), &text)
	return []byte(text)
}

// Find walks down the names of nested objects from the object at in, each found as by [Pick].
func Find(b []byte, in Span, path ...string) (Span, error) {
	for _, name := range path {
		var at Span
		if err := Pick(b, in, Want{name, &at}); err != nil {
			return Span{}, err
		}
		in = at
	}
	return in, nil
}

// Members gives every member of the object at in to fn in their order, names between their quotes as they are written.
func Members(b []byte, in Span, fn func(key []byte, value Span)) error {
	s := scanner{b: b, trusted: true}
	return s.members(in, fn)
}

func (s *scanner) members(in Span, fn func(key []byte, value Span)) error {
	s.b = s.b[:min(in.To, len(s.b))]
	if i := s.space(in.From); i < len(s.b) && s.b[i] == '{' && s.object(i, 1, fn) < 0 {
		return ErrSyntax
	}
	return nil
}

// Text gives the text of a JSON string, and false for another value. It allocates the text.
func Text(b []byte) (string, bool) {
	switch {
	case len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"':
		return "", false
	case bytes.IndexByte(b, '\\') < 0:
		return string(b[1 : len(b)-1]), true
	}
	var text string
	err := json.Unmarshal(b, &text)
	return text, err == nil
}

// ID holds for the id of a request or a progress token: a string or a number, at most 256 bytes (MCP, Basic Protocol: never null).
func ID(b []byte) bool {
	return len(b) > 0 && len(b) <= 256 && (b[0] == '"' || b[0] == '-' || '0' <= b[0] && b[0] <= '9')
}

// Edit replaces a part of a text.
type Edit struct {
	At Span
	By []byte
}

// As replaces the part by other bytes.
func (s Span) As(by []byte) Edit { return Edit{s, by} }

// Splice appends b to dst with the edits made, which must not overlap; those of absent parts are passed over. It sorts them.
func Splice(dst, b []byte, edits ...Edit) []byte {
	slices.SortFunc(edits, func(x, y Edit) int { return x.At.From - y.At.From })
	from := 0
	for _, e := range edits {
		if !e.At.Absent() {
			dst = append(append(dst, b[from:e.At.From]...), e.By...)
			from = e.At.To
		}
	}
	return append(dst, b[from:]...)
}

// OneLine takes the line breaks between the tokens of a JSON text away, in place: inside of strings there are none.
func OneLine(b []byte) []byte {
	for _, c := range []byte("\n\r") {
		for i := bytes.IndexByte(b, c); i >= 0; i = bytes.IndexByte(b, c) {
			b[i] = ' '
		}
	}
	return b
}

// Int reads a whole number from 0 on, of at most 18 digits: an id that this side gave. Some send it back as a string.
func Int(b []byte) (int64, bool) {
	if len(b) > 2 && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}
