package config

import (
	"bytes"
	"slices"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// commandLines gives the lines for a terminal that a text consists of, as the manuals of servers give them: one that starts
// a server, or several that add one each. It is nil for any other text.
func commandLines(text []byte) []string {
	joined := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\\\n", " ")
	if strings.Count(joined, "\n") > 200 {
		return nil
	}
	var lines []string
	prepares := false
	for line := range strings.SplitSeq(joined, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if beforehand().MatchString(line) {
			prepares = true
			continue
		}
		if len(line) > maxArg || !addsServer(line) && (!startsServer(line) || len(lines) > 0) {
			return nil
		}
		lines = append(lines, line)
	}
	if (len(lines) > 1 || prepares) && !slices.ContainsFunc(lines, addsServer) {
		return nil
	}
	return lines
}

// beforehand matches what manuals let people run before a server is added.
var beforehand = lazy.Regexp(`^(?:export [A-Za-z_]\w*=|(?:npm|pnpm|yarn|bun) (?:i|install|add|ci)\b|pip3? install|pipx install|uv (?:tool|pip) install|brew install|git clone|cd |mkdir |(?:claude|codex|gemini) mcp (?:list|get)\b)`)

// addsServer reports whether a line is "claude mcp add NAME …" or the same of another client.
func addsServer(line string) bool {
	f := strings.Fields(line)
	return len(f) > 3 && f[1] == "mcp" && strings.HasPrefix(f[2], "add")
}

// startsServer reports whether a line starts a program in the way servers are started.
func startsServer(line string) bool {
	f := strings.Fields(line)
	if len(f) < 2 {
		return false
	}
	switch f[0] {
	case "npx", "uvx", "bunx", "pnpx", "dnx":
		return true
	case "docker", "podman":
		return f[1] == "run"
	case "uv", "node", "python", "python3", "deno", "bun", "pipx":
		return f[1] == "run" || f[1][0] == '-' || scriptFile().MatchString(f[1])
	}
	return false
}

// parseLine reads claude mcp add NAME …, codex mcp add NAME … or a bare npx … as one server, and several lines as a list.
func parseLine(src *source) (*node, schemas.Problems) {
	list := &node{kind: listNode}
	for _, line := range commandLines(src.text) {
		words, ok := lineWords(line)
		at := max(bytes.Index(src.text, []byte(line[:min(len(line), 12)])), 0)
		if !ok {
			n, col := src.place(at)
			return nil, schemas.Problems{{File: src.name, Line: n, Col: col, Text: "this line needs a shell", Hint: "give the command alone, or a config in JSON"}}
		}
		l := &lineReader{at: at, root: &node{kind: objectNode, at: at}}
		if addsServer(line) {
			l.add(words[2], words[3:])
		} else {
			l.run(words)
		}
		list.items = append(list.items, l.root)
	}
	if len(list.items) == 1 {
		return list.items[0], nil
	}
	return list, nil
}

// lineWords splits a line in which a JSON text may stand in quotes.
func lineWords(line string) ([]string, bool) {
	if words, ok := shellWords(line); ok {
		return words, true
	}
	// An address may hold ? and &, which a shell would take for its own; quotes protect what is inside them.
	plain := strings.NewReplacer("?", "\x01", "&", "\x02", "*", "\x03", "<", "\x04", ">", "\x05").Replace(line)
	words, ok := shellWords(plain)
	if !ok || strings.Contains(plain, "\x02\x02") || strings.Contains(plain, " \x05 ") {
		return nil, false
	}
	for i, w := range words {
		words[i] = strings.NewReplacer("\x01", "?", "\x02", "&", "\x03", "*", "\x04", "<", "\x05", ">").Replace(w)
	}
	return words, true
}

type lineReader struct {
	at   int
	root *node
}

func (l *lineReader) text(s string) *node { return &node{kind: textNode, text: s, at: l.at} }

func (l *lineReader) set(key string, v *node) {
	l.root.members = append(l.root.members, member{key, l.at, v})
}

func (l *lineReader) list(words []string) *node {
	n := &node{kind: listNode, at: l.at}
	for _, w := range words {
		n.items = append(n.items, l.text(w))
	}
	return n
}

func (l *lineReader) run(words []string) {
	l.set("command", l.text(words[0]))
	l.set("args", l.list(words[1:]))
}

// add reads the words behind "mcp add" or "mcp add-json".
func (l *lineReader) add(verb string, words []string) {
	var plain, env, headers []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		flag, value, joined := strings.Cut(w, "=")
		next := func() string {
			if !joined && i+1 < len(words) {
				i++
				value = words[i]
			}
			return value
		}
		switch {
		case w == "--":
			plain = append(plain, words[i+1:]...)
			i = len(words)
		case flag == "-e" || flag == "--env":
			env = append(env, next())
		case flag == "-H" || flag == "--header":
			headers = append(headers, next())
		case flag == "-t" || flag == "--transport" || flag == "--type":
			l.set("type", l.text(next()))
		case flag == "--url", flag == "--name", flag == "--command":
			l.set(flag[2:], l.text(next()))
		case flag == "--args" && l.root.get("command") != nil:
			l.set("args", l.list(strings.Split(next(), ",")))
		case flag == "-s" || flag == "--scope" || flag == "--bearer-token-env-var":
			if v := next(); flag == "--bearer-token-env-var" {
				l.set("bearer_token_env_var", l.text(v))
			}
		case strings.HasPrefix(w, "-") && len(plain) < 2:
		case len(plain) >= 2 && !strings.Contains(plain[1], "://"):
			plain = append(plain, words[i:]...)
			i = len(words)
		default:
			plain = append(plain, w)
		}
	}
	l.place(verb, plain)
	if len(env) > 0 {
		l.set("env", l.list(env))
	}
	if len(headers) > 0 {
		l.set("headers", l.list(headers))
	}
}

// place takes name and command, address or JSON.
func (l *lineReader) place(verb string, plain []string) {
	if len(plain) == 0 {
		return
	}
	l.set("name", l.text(plain[0]))
	if len(plain) == 1 {
		return
	}
	switch rest := plain[1]; {
	case verb == "add-json":
		if m := mend([]byte(rest)); m.stuck == nil {
			if inner, err := parseJSON(apply([]byte(rest), m.edits)); err == nil {
				for _, k := range inner.members {
					l.set(k.key, l.moved(k.value))
				}
			}
		}
	case len(plain) == 2 && (strings.Contains(rest, "://") || slices.Contains([]string{"http", "sse"}, transportWord(l.root.get("type").str()))):
		l.set("url", l.text(rest))
	default:
		l.run(plain[1:])
	}
}

// moved gives a node of inner text the place of the line.
func (l *lineReader) moved(n *node) *node {
	n.at = l.at
	for i := range n.members {
		n.members[i].at = l.at
		l.moved(n.members[i].value)
	}
	for _, v := range n.items {
		l.moved(v)
	}
	return n
}
