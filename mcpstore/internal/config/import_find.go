package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

const maxBlocks = 64 // code blocks or objects looked at in one text

// finding is what was read out of a text.
type finding struct {
	src      *source
	root     *node
	syntax   string
	problems schemas.Problems
	said     []string // what was left out around it
}

func (f finding) holds() bool { return f.root != nil && len(containers(f.root)) > 0 }

// find reads the config in a text that may have other things around it: prose, Markdown, the quote of a chat, a shell
// script, a program, an install link. Lines stay where they are.
func find(name string, text []byte) finding {
	text, said := undress(text)
	f := findIn(name, text)
	f.said = append(said, f.said...)
	if inner := strings.TrimSpace(f.root.str()); strings.HasPrefix(inner, "{") {
		if g := findIn(name, []byte(inner)); g.holds() {
			g.said = append(f.said, "the config stood in quotes as one text")
			return g
		}
	}
	return f
}

func findIn(name string, text []byte) finding {
	fences := fencedBlocks(text)
	if len(fences) > 0 {
		if f, ok := best(name, text, fences); ok {
			return f
		}
	}
	whole := read(name, text)
	if whole.holds() {
		return whole
	}
	if root := fromLink(text); root != nil {
		return finding{src: whole.src, root: root, syntax: "link"}
	}
	if len(fences) == 0 && startsAsValue(text) && !wholeFirst(text) {
		return whole
	}
	if f, ok := best(name, text, append(objects(text), tables(text)...)); ok {
		return f
	}
	if len(fences) > 0 { // the first block that was meant says what is wrong
		for _, b := range append(fences, [2]int{0, len(text)}) {
			if f := read(name, blankAround(text, b[0], b[1])); meant(text[b[0]:b[1]]) && f.root == nil {
				return f
			}
		}
		return read(name, blankAround(text, fences[0][0], fences[0][1]))
	}
	if p := bytes.TrimSpace(text); whole.root == nil && !broken(text) && !bytes.ContainsAny(p, "{}[]=") && whole.syntax != "env" && whole.syntax != "line" && !strings.Contains(name, ".") {
		whole.problems = schemas.Problems{{File: name, Line: 1, Col: 1, Text: "this text holds no config of servers",
			Hint: `give JSON such as {"mcpServers": {…}}, a file, an install link, or a line such as npx -y PACKAGE`, Excerpt: whole.src.excerpt(1)}}
	}
	return whole
}

func read(name string, text []byte) finding {
	f := finding{src: newSource(name, text)}
	f.root, f.syntax, f.problems = parse(f.src)
	return f
}

// best reads the first of several blocks that holds servers: a config wins over a line for a terminal, which a manual
// often gives for something else.
func best(name string, text []byte, blocks [][2]int) (finding, bool) {
	var first *finding
	others := 0
	for _, b := range blocks {
		f := read(name, blankAround(text, b[0], b[1]))
		if block := text[b[0]:b[1]]; !f.holds() && !startsAsValue(block) {
			if g, ok := best(name, f.src.text, objects(f.src.text)); ok {
				f = g
				f.said = nil
			}
		}
		switch {
		case !f.holds() && f.root == nil && first == nil && broken(text[b[0]:b[1]]):
			return f, true // what is meant is damaged; a part of it must not pass for the whole
		case !f.holds():
		case first == nil:
			first = &f
		case first.syntax == "line" && (f.syntax != "line" || !adds(first.src.text) && adds(f.src.text)):
			first = &f
		case f.syntax != "line":
			others++
		}
	}
	if first == nil {
		return finding{}, false
	}
	if b := bytes.TrimSpace(first.src.text); !bytes.Equal(b, bytes.TrimSpace(text)) {
		first.said = append(first.said, "the text around the config was left out")
	}
	if others > 0 {
		first.said = append(first.said, fmt.Sprintf("the text holds %d configs; the first is read", others+1))
	}
	return *first, true
}

var containerWord = lazy.Regexp(`mcp_?[sS]ervers|context_servers`)

// broken reports whether a block that cannot be read was meant as a config.
func broken(block []byte) bool { return containerWord().Match(block) }

func meant(block []byte) bool {
	return broken(block) || bytes.Contains(block, []byte("command")) || bytes.Contains(block, []byte("url"))
}

// adds reports whether a line adds a server to a client.
func adds(text []byte) bool { return bytes.Contains(text, []byte(" mcp add")) }

// startsAsValue reports whether a text begins as JSON does.
func startsAsValue(text []byte) bool {
	t := bytes.TrimSpace(text)
	return len(t) > 0 && (t[0] == '{' || t[0] == '[' || nameFirst().Match(t) || t[0] == '"' && json.Valid(t))
}

var nameFirst = lazy.Regexp(`^"[^"\n]+"\s*:`)

// wholeFirst reports whether the first object of a text is whole, so that only what follows it is in the way.
func wholeFirst(text []byte) bool {
	i := bytes.IndexByte(text, '{')
	if i < 0 || len(bytes.TrimSpace(text[:i])) > 0 {
		return false
	}
	m := mendFirst(text[i:])
	if m.stuck != nil {
		return false
	}
	rest := bytes.TrimSpace(text[i+m.end:])
	return len(rest) > 0 && strings.IndexByte(`,:}]"`, rest[0]) < 0 // a brace too early is a mistake, prose is none
}

var fence = lazy.Regexp("(?ms)^[ \t]*(?:```|~~~)[^\n`]*\n(.*?)^[ \t]*(?:```|~~~)[ \t]*\r?$")

// fencedBlocks gives the insides of the code blocks of a Markdown text.
func fencedBlocks(text []byte) [][2]int {
	if !bytes.Contains(text, []byte("```")) && !bytes.Contains(text, []byte("~~~")) || startsAsValue(text) && !wholeFirst(text) {
		return nil
	}
	var out [][2]int
	for _, m := range fence().FindAllSubmatchIndex(text, maxBlocks) {
		out = append(out, [2]int{m[2], m[3]})
	}
	if len(out) > 0 {
		return out
	}
	start := bytes.Index(text, []byte("```"))
	if start < 0 {
		return nil
	}
	body := start + 3 + len(infoWord().Find(text[start+3:]))
	end := bytes.Index(text[body:], []byte("```"))
	if end < 0 {
		end = len(text) - body
	}
	return [][2]int{{body, body + end}}
}

var infoWord = lazy.Regexp(`^(?:(?:json[c5]?|js|javascript|ts|toml|ya?ml|bash|sh|shell|text|txt|console)\b)?[ \t]*`)

var keyBefore = lazy.Regexp(`"[^"\n]{1,80}"[ \t]*:[ \t]*$`)

// objects finds the outermost {…} of a text, each with the quoted name in front of it.
func objects(text []byte) [][2]int {
	var out [][2]int
	for i, tries := 0, 0; tries < maxBlocks; tries++ {
		n := bytes.IndexByte(text[i:], '{')
		if n < 0 {
			break
		}
		start := i + n
		if m := keyBefore().FindIndex(text[max(0, start-100):start]); m != nil {
			start = max(0, start-100) + m[0]
		}
		m := mendFirst(text[start:])
		switch {
		case m.stuck == nil:
			out = append(out, [2]int{start, start + m.end})
			i = max(start+m.end, i+n+1)
		case containerWord().Match(text[start:min(len(text), start+m.stuck.at+1)]):
			return append(out, [2]int{start, len(text)})
		default:
			i += n + 1
		}
		if i >= len(text) {
			break
		}
	}
	return out
}

var (
	serverTable = lazy.Regexp(`(?m)^[ \t]*\[+mcp_?[sS]ervers\.`)
	tableLine   = lazy.Regexp(`^[ \t]*(?:$|[\[\]{}#"',]|[\w."'-]+[ \t]*=)`)
)

// tables finds the tables of TOML in a text that is no TOML as a whole.
func tables(text []byte) [][2]int {
	m := serverTable().FindIndex(text)
	if m == nil {
		return nil
	}
	end := m[0]
	for line := range bytes.Lines(text[m[0]:]) {
		if !tableLine().Match(bytes.TrimRight(line, "\r\n")) {
			break
		}
		end += len(line)
	}
	return [][2]int{{m[0], end}}
}

func blankAround(text []byte, from, to int) []byte {
	out := bytes.Clone(text)
	for i, b := range out {
		if (i < from || i >= to) && b != '\n' {
			out[i] = ' '
		}
	}
	return out
}

var (
	commentMark = lazy.Regexp(`(?m)^[ \t]*(?:/\*\*?[ \t]*$|\*/[ \t]*$|\*(?:[ \t]|$)|//+|#+(?:[ \t]|$))`)
	quoteMark   = lazy.Regexp(`(?m)^[ \t]*(?:>[ \t]?)+`)
	numbered    = lazy.Regexp(`(?m)^[ \t]*(\d{1,5})(?:[ \t]*[|:│]|[ \t]|$)`)
)

// undress takes away what chats, diffs, listings and web pages put around every line, keeping lines and columns where it can.
func undress(text []byte) ([]byte, []string) {
	var said []string
	if bytes.Contains(text, []byte("&quot;")) && !bytes.Contains(text, []byte(`"`)) {
		text = []byte(html.UnescapeString(string(text)))
		said = append(said, "the text was escaped as on a web page; it is read plainly")
	}
	lines := bytes.Split(text, []byte("\n"))
	full := 0
	for _, l := range lines {
		if len(bytes.TrimSpace(l)) > 0 {
			full++
		}
	}
	switch {
	case full == 0:
	case len(quoteMark().FindAllIndex(text, -1)) == full:
		text = blankMatches(text, quoteMark())
		said = append(said, "the quote marks before the lines were left out")
	case full > 1 && len(commentMark().FindAllIndex(text, -1)) == full:
		text = blankMatches(text, commentMark())
		said = append(said, "the comment marks before the lines were left out")
	case full > 1 && counts(text, full):
		text = blankMatches(text, numbered())
		said = append(said, "the line numbers were left out")
	case full > 1 && patch(lines):
		text = fromPatch(lines)
		said = append(said, "the text is a diff; the lines that it adds are read")
	}
	return text, said
}

func blankMatches(text []byte, re *regexp.Regexp) []byte {
	return re.ReplaceAllFunc(text, func(m []byte) []byte { return bytes.Repeat([]byte(" "), len(bytes.TrimSuffix(m, []byte("\n")))) })
}

// counts reports whether every line begins with its number.
func counts(text []byte, full int) bool {
	all := numbered().FindAllSubmatch(text, -1)
	if len(all) < full {
		return false
	}
	last := -1
	for _, m := range all {
		n, _ := strconv.Atoi(string(m[1]))
		if last >= 0 && n != last+1 {
			return false
		}
		last = n
	}
	return true
}

// patch reports whether lines are a unified diff that adds something.
func patch(lines [][]byte) bool {
	added := 0
	for _, l := range lines {
		switch {
		case len(bytes.TrimSpace(l)) == 0, l[0] == ' ', l[0] == '-', l[0] == '@':
		case l[0] == '+':
			added++
		case bytes.HasPrefix(l, []byte("diff ")), bytes.HasPrefix(l, []byte("index ")), l[0] == '\\':
		default:
			return false
		}
	}
	return added > 0
}

func fromPatch(lines [][]byte) []byte {
	out := make([][]byte, len(lines))
	for i, l := range lines {
		switch {
		case len(l) == 0:
		case bytes.HasPrefix(l, []byte("+++")):
		case l[0] == '+', l[0] == ' ':
			out[i] = append([]byte(" "), l[1:]...)
		}
	}
	return bytes.Join(out, []byte("\n"))
}
