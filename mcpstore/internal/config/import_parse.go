package config

import (
	"bytes"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// parse finds out by content whether a text is JSON, TOML or YAML and reads it. Without a node, problems say why.
func parse(src *source) (root *node, syntax string, problems schemas.Problems) {
	if variables(src.text) {
		return nil, "env", schemas.Problems{{File: src.name, Line: 1, Col: 1, Text: "these are variables as in a .env file, not a config of servers",
			Hint: "add the server first; you are asked for its values", Excerpt: src.excerpt(1)}}
	}
	switch syntax = sniff(src); syntax {
	case "line":
		root, problems = parseLine(src)
	case "toml":
		root, problems = parseTOML(src)
	case "yaml":
		root, problems = parseYAML(src)
	default:
		root, problems = parseLoose(src)
	}
	return root, syntax, problems
}

// sniff decides by content; the name counts only where the content leaves it open.
func sniff(src *source) string {
	lower := strings.ToLower(src.name)
	if len(commandLines(src.text)) > 0 {
		return "line"
	}
	for line := range bytes.Lines(src.text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || bytes.HasPrefix(line, []byte("//")) || bytes.HasPrefix(line, []byte("/*")) || line[0] == '*' || line[0] == '#' {
			continue
		}
		switch {
		case line[0] == '{':
			return "json"
		case line[0] == '[':
			if strings.HasSuffix(lower, ".toml") || tableHead(line) {
				return "toml"
			}
			return "json"
		case line[0] == '"' || bytes.HasPrefix(line, []byte("“")):
			if key, rest, ok := bytes.Cut(line[1:], []byte(`"`)); ok && len(key) > 0 && bytes.HasPrefix(bytes.TrimSpace(rest), []byte(":")) && !strings.HasSuffix(lower, ".yaml") {
				return "json"
			}
		case bytes.HasPrefix(line, []byte("---")):
			return "yaml"
		}
		eq, colon := bytes.IndexByte(line, '='), bytes.IndexByte(line, ':')
		switch {
		case eq > 0 && (colon < 0 || eq < colon):
			return "toml"
		case colon > 0:
			if rest := bytes.TrimSpace(line[colon+1:]); len(rest) > 0 && rest[0] == '{' && !bytes.ContainsAny(line[:colon], " \t") {
				return "json"
			}
			return "yaml"
		}
		break
	}
	switch {
	case strings.HasSuffix(lower, ".toml"):
		return "toml"
	case strings.HasSuffix(lower, ".yaml"), strings.HasSuffix(lower, ".yml"):
		return "yaml"
	}
	return "json"
}

// tableHead reports whether a line is [a.b] or [[a]] of TOML and no JSON list.
func tableHead(line []byte) bool {
	line, _, _ = bytes.Cut(line, []byte("#"))
	s := strings.TrimSpace(string(line))
	if !strings.HasPrefix(s, "[") || !strings.HasSuffix(s, "]") {
		return false
	}
	s = strings.Trim(s, "[]")
	return s != "" && !strings.ContainsAny(s, ",{}") && (s[0] >= 'A' && s[0] <= 'z') && s != "true" && s != "null"
}

// parseLoose reads JSON with comments, mending what is broken in an obvious way.
func parseLoose(src *source) (*node, schemas.Problems) {
	src.json = true
	m := mend(src.text)
	if m.stuck != nil {
		line, col := src.raw(m.stuck.at)
		return nil, schemas.Problems{{File: src.name, Line: line, Col: col, Text: m.stuck.text, Hint: m.stuck.hint, Excerpt: src.excerpt(line)}}
	}
	text := src.text
	if len(m.edits) > 0 {
		text = apply(text, m.edits)
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, schemas.Problems{{File: src.name, Line: 1, Col: 1, Text: "this is no JSON that can be read", Excerpt: src.excerpt(1)}}
	}
	src.edits, src.flaws = m.edits, m.done
	return root, nil
}

var variableLine = lazy.Regexp(`^(?:export\s+)?[A-Z_][A-Z0-9_]*=[^\s{\[]`)

// variables reports whether a text is nothing but NAME=value lines.
func variables(text []byte) bool {
	some := false
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if !variableLine().Match(line) {
			return false
		}
		some = true
	}
	return some
}
