package config

import (
	"bytes"
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"bobbin/schemas"
)

const (
	maxYAML      = 64 << 10 // bytes
	maxYAMLLines = 2_000
	maxYAMLNodes = 20_000 // aliases may repeat nodes
)

// parseYAML reads the first document of a YAML text into nodes.
func parseYAML(src *source) (*node, schemas.Problems) {
	problem := func(line, col int, text string) schemas.Problems {
		return schemas.Problems{{File: src.name, Line: line, Col: col, Text: text, Excerpt: src.excerpt(line),
			Hint: `a config of servers is JSON ({"mcpServers": …}), TOML or YAML`}}
	}
	// The library takes quadratic time for long mappings and deep nesting.
	if len(src.text) > maxYAML || len(src.lines) > maxYAMLLines || bytes.Count(src.text, []byte("[")) > maxYAMLLines || bytes.Count(src.text, []byte("{")) > maxYAMLLines {
		return nil, problem(1, 1, "this is too long for YAML")
	}
	file, err := parser.ParseBytes(src.text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, col := 1, 1
		if se, ok := errors.AsType[*yaml.SyntaxError](err); ok && se.GetToken() != nil {
			line, col = se.GetToken().Position.Line, se.GetToken().Position.Column
		}
		return nil, problem(line, col, "this is neither JSON nor YAML that can be read")
	}
	y := &yamlReader{src: src, anchors: map[string]ast.Node{}}
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		root := y.node(d.Body, 0)
		if y.count > maxYAMLNodes || y.deep {
			return nil, problem(1, 1, "this is nested too deep or refers to itself")
		}
		if root.kind == textNode || root.kind == nullNode {
			return nil, problem(1, 1, "this is plain text, not a config of servers")
		}
		return root, nil
	}
	return nil, problem(1, 1, "the text is empty")
}

type yamlReader struct {
	src     *source
	anchors map[string]ast.Node
	count   int
	deep    bool
}

func (y *yamlReader) at(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 0
	}
	return y.src.offset(t.Position.Line, t.Position.Column)
}

func (y *yamlReader) node(v ast.Node, depth int) *node {
	n := &node{}
	y.count++
	if depth > MaxDepth || y.count > maxYAMLNodes {
		y.deep = true
		return n
	}
	if v == nil {
		return n
	}
	n.at = y.at(v.GetToken())
	switch t := v.(type) {
	case *ast.MappingNode:
		n.kind = objectNode
		for _, m := range t.Values {
			y.member(n, m, depth)
		}
	case *ast.MappingValueNode:
		n.kind = objectNode
		y.member(n, t, depth)
	case *ast.SequenceNode:
		n.kind = listNode
		for _, e := range t.Values {
			n.items = append(n.items, y.node(e, depth+1))
		}
	case *ast.StringNode:
		n.kind, n.text = textNode, t.Value
	case *ast.LiteralNode:
		n.kind, n.text = textNode, t.Value.Value
	case *ast.BoolNode:
		n.kind, n.text = boolNode, "false"
		if t.Value {
			n.text = "true"
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = numberNode, v.GetToken().Value
	case *ast.AnchorNode:
		y.anchors[t.Name.GetToken().Value] = t.Value
		return y.node(t.Value, depth+1)
	case *ast.AliasNode:
		return y.node(y.anchors[t.Value.GetToken().Value], depth+1)
	case *ast.TagNode:
		inner := y.node(t.Value, depth+1)
		if tag := strings.ToLower(t.Start.Value); inner.kind == textNode && (tag == "!secret" || tag == "!env" || tag == "!env_var") && !strings.Contains(inner.text, "${") {
			inner.text = "${" + strings.TrimSpace(inner.text) + "}"
		}
		return inner
	}
	return n
}

func (y *yamlReader) member(n *node, m *ast.MappingValueNode, depth int) {
	value := y.node(m.Value, depth+1)
	if m.Key.IsMergeKey() {
		for _, o := range value.members {
			if n.get(o.key) == nil {
				n.members = append(n.members, o)
			}
		}
		return
	}
	key := m.Key.GetToken().Value
	if s, ok := m.Key.(*ast.StringNode); ok {
		key = s.Value
	}
	n.members = append(n.members, member{key, y.at(m.Key.GetToken()), value})
}
