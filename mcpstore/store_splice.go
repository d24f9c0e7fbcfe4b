package mcpstore

import (
	"bytes"
	"slices"
	"strings"

	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// spliceMin is the number of servers from which a file is read in part. Below it the whole is as fast.
const spliceMin = 64

// redecode reads a changed file by reading only the servers whose bytes are new. ok is false when the change is of another
// kind, or anything is to be said about it: then the whole text must be read, which also finds the places of mistakes.
func (s *Store) redecode(i int, was []byte, old config.Stored, now []byte) (doc config.Stored, ok bool) {
	if len(old.Servers) < spliceMin || len(old.Found)+len(old.Notes)+len(old.Remote)+len(old.Disabled) > 0 || len(now) > config.MaxText {
		return doc, false
	}
	a, okA := splitServers(was)
	b, okB := splitServers(now)
	if !okA || !okB || !bytes.Equal(a.head, b.head) || !bytes.Equal(a.tail, b.tail) || len(b.members) > s.opt.servers || !distinct(b.members) {
		return doc, false
	}
	known := make(map[string][]byte, len(a.members))
	for _, m := range a.members {
		known[m.name] = m.text
	}
	var fresh [][]byte
	for _, m := range b.members {
		if text, same := known[m.name]; !same || !bytes.Equal(text, m.text) {
			fresh = append(fresh, m.text)
		}
	}
	if len(fresh) > len(b.members)/4 {
		return doc, false
	}
	declared, part := s.decode(i, b.with(nil)), s.decode(i, b.with(fresh))
	if len(declared.Problems)+len(part.Problems)+len(part.Found)+len(part.Notes)+len(part.Remote)+len(part.Disabled) > 0 {
		return doc, false
	}
	servers := make(map[string]schemas.Server, len(b.members))
	for _, srv := range slices.Concat(old.Servers, part.Servers) { // the newer one last
		servers[srv.Name] = srv
	}
	doc = config.Stored{Schema: part.Schema, Inputs: slices.Clone(declared.Inputs)}
	implied := map[string]schemas.Input{}
	for _, in := range slices.Concat(old.Inputs, part.Inputs) {
		implied[in.ID] = in
	}
	for _, in := range doc.Inputs {
		delete(implied, in.ID)
	}
	for _, m := range b.members {
		srv, read := servers[m.name]
		if !read {
			return doc, false
		}
		doc.Servers = append(doc.Servers, srv)
		for _, id := range srv.Inputs() {
			if in, waits := implied[id]; waits {
				doc.Inputs = append(doc.Inputs, in)
				delete(implied, id)
			}
		}
	}
	return doc, true
}

// distinct reports whether no two names could be taken for each other.
func distinct(members []span) bool {
	seen := make(map[string]bool, len(members))
	for _, m := range members {
		key := schemas.Slug(strings.ToLower(m.name))
		if seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

// span is one member of mcpServers: its name and its bytes, the name included.
type span struct {
	name string
	text []byte
}

// splitText is a config text around and between its servers.
type splitText struct {
	head, tail []byte // up to the { of mcpServers, and from its } on
	members    []span
}

// with is the text with other servers.
func (t splitText) with(members [][]byte) []byte {
	return slices.Concat(t.head, []byte("{"), bytes.Join(members, []byte(",")), t.tail)
}

// splitServers finds the servers of a text of the shape {…"mcpServers": {"name": {…}, …}…}. It checks what stands between
// them and leaves what stands in them to the decoder.
func splitServers(text []byte) (t splitText, ok bool) {
	c := cursor{text: text}
	if !c.take('{') {
		return t, false
	}
	for {
		key, okKey := c.name()
		if !okKey || !c.take(':') {
			return t, false
		}
		c.space()
		if key == "mcpServers" {
			t.head = text[:c.at]
			break
		}
		if !c.value() || !c.take(',') {
			return t, false
		}
	}
	if !c.take('{') {
		return t, false
	}
	for {
		c.space()
		start := c.at
		name, okName := c.name()
		if !okName || !c.take(':') {
			return t, false
		}
		c.space()
		if c.at >= len(text) || text[c.at] != '{' || !c.value() {
			return t, false
		}
		t.members = append(t.members, span{name, text[start:c.at]})
		if c.take(',') {
			continue
		}
		c.space()
		t.tail = text[c.at:]
		return t, len(t.tail) > 0 && t.tail[0] == '}'
	}
}

// cursor steps over JSON without reading it.
type cursor struct {
	text []byte
	at   int
}

func (c *cursor) space() {
	for c.at < len(c.text) && (c.text[c.at] == ' ' || c.text[c.at] == '\n' || c.text[c.at] == '\t' || c.text[c.at] == '\r') {
		c.at++
	}
}

func (c *cursor) take(b byte) bool {
	c.space()
	if c.at >= len(c.text) || c.text[c.at] != b {
		return false
	}
	c.at++
	return true
}

// name steps over a text without escapes, of printable ASCII.
func (c *cursor) name() (string, bool) {
	if !c.take('"') {
		return "", false
	}
	start := c.at
	for ; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; {
		case b == '"':
			c.at++
			return string(c.text[start : c.at-1]), true
		case b == '\\' || b < ' ' || b > '~':
			return "", false
		}
	}
	return "", false
}

// value steps over a text, a list or an object.
func (c *cursor) value() bool {
	depth, inText := 0, false
	for ; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; {
		case inText && b == '\\':
			c.at++
		case b == '"':
			inText = !inText
		case inText:
		case b == '{' || b == '[':
			depth++
		case b == '}' || b == ']':
			depth--
		}
		if depth == 0 && !inText {
			b := c.text[c.at]
			c.at++
			return b == '"' || b == '}' || b == ']' // numbers and words are not followed
		}
	}
	return false
}
