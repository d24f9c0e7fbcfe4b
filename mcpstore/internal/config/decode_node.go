package config

import (
	"bytes"
	"sort"
	"strings"
	"unicode/utf8"
)

// nodeKind is the type of a value, the same for JSON, TOML and YAML.
type nodeKind byte

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	textNode
	listNode
	objectNode
)

func (k nodeKind) String() string {
	return [...]string{"null", "a switch (true or false)", "a number", "text", "a list", "an object"}[k]
}

// node is one value of a parsed text with its place. Duplicate keys of an object are all kept.
type node struct {
	kind    nodeKind
	text    string // of text unescaped; of a number or switch as written
	at      int    // byte offset of its first character
	items   []*node
	members []member
}

type member struct {
	key   string
	at    int // byte offset of the key
	value *node
}

// get gives the first member of that name, nil when there is none or n is no object.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// path follows members by name.
func (n *node) path(keys ...string) *node {
	for _, k := range keys {
		n = n.get(k)
	}
	return n
}

// str is the text of a text node, "" for anything else.
func (n *node) str() string {
	if n == nil || n.kind != textNode {
		return ""
	}
	return n.text
}

func (n *node) is(k nodeKind) bool { return n != nil && n.kind == k }

// source is a text whose offsets can be told as line and column.
type source struct {
	name  string // shown name
	text  []byte // as the person gave it
	json  bool   // quotes mark what is text
	lines []int  // offset of each line's start
	edits []edit // what was changed before parsing: nodes count in that text, people in this one
	flaws []flaw // what the edits mend
}

// edit replaces del bytes at offset at by ins.
type edit struct {
	at, del int
	ins     string
}

func newSource(name string, text []byte) *source {
	s := &source{name: name, text: text, lines: []int{0}}
	for i, b := range text {
		if b == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// origin gives the offset in the text as given of an offset in the mended one.
func (s *source) origin(off int) int {
	moved := 0
	for _, e := range s.edits {
		switch {
		case off < e.at+moved:
			return off - moved
		case off < e.at+moved+len(e.ins):
			return e.at
		}
		moved += len(e.ins) - e.del
	}
	return off - moved
}

// place tells line and column (in characters) of an offset of a node, both from 1.
func (s *source) place(off int) (line, col int) { return s.raw(s.origin(off)) }

func (s *source) raw(off int) (line, col int) {
	off = max(0, min(off, len(s.text)))
	line = sort.SearchInts(s.lines, off+1)
	return line, utf8.RuneCount(s.text[s.lines[line-1]:off]) + 1
}

// offset is the inverse of raw.
func (s *source) offset(line, col int) int {
	if line < 1 || line > len(s.lines) {
		return len(s.text)
	}
	off := s.lines[line-1]
	for ; col > 1 && off < len(s.text); col-- {
		_, n := utf8.DecodeRune(s.text[off:])
		off += n
	}
	return off
}

// excerpt gives a line with everything masked that could be a secret, each character by one, so that a column still fits.
func (s *source) excerpt(line int) string {
	if line < 1 || line > len(s.lines) {
		return ""
	}
	text := s.text[s.lines[line-1]:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	if len(text) > maxArg {
		return ""
	}
	return maskLine(strings.TrimRight(string(text), "\r"), s.json)
}

// pointer appends a reference token (RFC 6901).
func pointer(base, key string) string {
	if strings.ContainsAny(key, "~/") {
		key = strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
	}
	return base + "/" + key
}
