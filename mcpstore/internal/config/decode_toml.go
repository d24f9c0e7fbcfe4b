package config

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"bobbin/schemas"
)

const maxTOMLLines = 5_000

// parseTOML reads TOML 1.0 into nodes.
func parseTOML(src *source) (*node, schemas.Problems) {
	if len(src.lines) > maxTOMLLines || bytes.Count(src.text, []byte("=")) > 2*maxTOMLLines {
		return nil, schemas.Problems{{File: src.name, Line: 1, Col: 1, Text: "this is too long for TOML"}}
	}
	var all map[string]any
	if err := toml.Unmarshal(src.text, &all); err != nil {
		p := schemas.Problem{File: src.name, Text: "this is no TOML that can be read", Line: 1, Col: 1}
		if de, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, col := de.Position()
			p.Line, p.Col = line, col
			p.Text = "TOML: " + tomlWords(de.Error())
		}
		p.Excerpt = src.excerpt(p.Line)
		return nil, schemas.Problems{p}
	}
	root := &node{kind: objectNode}
	t := &tomlReader{src: src, table: root, root: root}
	t.p.Reset(src.text)
	for t.p.NextExpression() {
		t.expression(t.p.Expression())
		if t.deep {
			line, col := src.place(t.at)
			return nil, schemas.Problems{{File: src.name, Line: line, Col: col, Text: "this is nested too deep"}}
		}
	}
	return root, nil
}

// tomlWords keeps the library's reason, which never quotes a value, and drops its prefix.
func tomlWords(s string) string {
	s = strings.TrimPrefix(s, "toml: ")
	switch {
	case strings.Contains(s, "already"), strings.Contains(s, "redefin"), strings.Contains(s, "duplicate"):
		return "this key or table is given twice"
	case strings.Contains(s, "should be a table"), strings.Contains(s, "should be an array"):
		return "this table is given already as a value"
	case strings.Contains(s, "incomplete"), strings.Contains(s, "expected newline"):
		return "this line or text has no proper end"
	case strings.Contains(s, "newline"), strings.Contains(s, "unterminated"):
		return "this line or text has no proper end"
	case strings.Contains(s, "expected character ="):
		return `a "=" is expected after the key`
	}
	return "this cannot be read; a text must stand in quotes"
}

type tomlReader struct {
	p           unstable.Parser
	src         *source
	root, table *node
	at          int
	deep        bool
}

func (t *tomlReader) expression(e *unstable.Node) {
	switch e.Kind {
	case unstable.Table, unstable.ArrayTable:
		keys := t.keys(e.Key())
		t.table = t.enter(t.root, keys, e.Kind == unstable.ArrayTable)
	case unstable.KeyValue:
		t.set(t.table, e)
	}
}

type tomlKey struct {
	name string
	at   int
}

func (t *tomlReader) keys(it unstable.Iterator) []tomlKey {
	var keys []tomlKey
	for it.Next() {
		n := it.Node()
		t.at = int(n.Raw.Offset)
		keys = append(keys, tomlKey{string(n.Data), t.at})
	}
	t.deep = t.deep || len(keys) > MaxDepth
	return keys
}

// enter walks to a table, making what is missing.
func (t *tomlReader) enter(n *node, keys []tomlKey, list bool) *node {
	for i, k := range keys {
		next := n.get(k.name)
		last := i == len(keys)-1
		if next == nil {
			next = &node{kind: objectNode, at: k.at}
			if list && last {
				next.kind = listNode
			}
			n.members = append(n.members, member{k.name, k.at, next})
		}
		if next.kind == listNode {
			if list && last {
				next.items = append(next.items, &node{kind: objectNode, at: k.at})
			}
			if len(next.items) == 0 {
				return &node{kind: objectNode}
			}
			next = next.items[len(next.items)-1]
		}
		n = next
	}
	return n
}

func (t *tomlReader) set(n *node, e *unstable.Node) {
	keys := t.keys(e.Key())
	last := keys[len(keys)-1]
	n = t.enter(n, keys[:len(keys)-1], false)
	n.members = append(n.members, member{last.name, last.at, t.value(e.Value(), 0)})
}

func (t *tomlReader) value(v *unstable.Node, depth int) *node {
	n := &node{at: t.at, text: string(v.Data)}
	if v.Raw.Length > 0 {
		n.at = int(v.Raw.Offset)
	}
	if depth > MaxDepth {
		t.deep = true
		return n
	}
	switch v.Kind {
	case unstable.String:
		n.kind = textNode
	case unstable.Bool:
		n.kind = boolNode
	case unstable.Array:
		n.kind = listNode
		for it := v.Children(); it.Next(); {
			n.items = append(n.items, t.value(it.Node(), depth+1))
		}
	case unstable.InlineTable:
		n.kind = objectNode
		for it := v.Children(); it.Next(); {
			t.set(n, it.Node())
		}
	default:
		n.kind = numberNode
	}
	return n
}
