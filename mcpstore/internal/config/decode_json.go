package config

import (
	"errors"

	"github.com/tailscale/hujson"
)

var errNotJSON = errors.New("mcpstore: not JSON with comments")

// parseJSON reads JSON with comments and trailing commas. The caller has checked the depth.
func parseJSON(text []byte) (*node, error) {
	v, err := hujson.Parse(text)
	if err != nil {
		return nil, errors.Join(errNotJSON, err)
	}
	return fromJSON(v), nil
}

func fromJSON(v hujson.Value) *node {
	n := &node{at: v.StartOffset}
	switch t := v.Value.(type) {
	case *hujson.Object:
		n.kind = objectNode
		n.members = make([]member, len(t.Members))
		for i, m := range t.Members {
			n.members[i] = member{key: unquote(m.Name.Value.(hujson.Literal)), at: m.Name.StartOffset, value: fromJSON(m.Value)}
		}
	case *hujson.Array:
		n.kind = listNode
		n.items = make([]*node, len(t.Elements))
		for i, e := range t.Elements {
			n.items[i] = fromJSON(e)
		}
	case hujson.Literal:
		switch t.Kind() {
		case '"':
			n.kind, n.text = textNode, unquote(t)
		case '0':
			n.kind, n.text = numberNode, string(t)
		case 't', 'f':
			n.kind, n.text = boolNode, string(t)
		}
	}
	return n
}

// unquote is Literal.String with a short cut for the usual text without escapes.
func unquote(l hujson.Literal) string {
	for _, b := range l[1 : len(l)-1] {
		if b == '\\' {
			return l.String()
		}
	}
	return string(l[1 : len(l)-1])
}
