package operator

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"bobbin/schemas"
)

// Changes of mcps.yaml leave every other byte as it is, so that comments, order and quotes stay. Each is done on the lines of the
// text and checked by reading the result; a text in a shape that this cannot do (flow style, several documents) is refused.

// appended gives the text with one more entry at the end of the list.
func appended(text []byte, s Server) ([]byte, error) {
	seq, key, err := sequence(text)
	if err != nil {
		return nil, err
	}
	lines := split(text)
	switch {
	case key == nil:
		if len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) != "" {
			lines = append(lines, "")
		}
		entry, err := entryLines(s, 2)
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, "mcps:"), entry...)
	case seq == nil || len(seq.Values) == 0:
		at := key.GetToken().Position
		entry, err := entryLines(s, at.Column+1)
		if err != nil {
			return nil, err
		}
		line, comment, _ := strings.Cut(lines[at.Line-1], "#")
		line = line[:strings.Index(line, ":")+1]
		if comment != "" {
			line += " #" + comment
		}
		lines = splice(lines, at.Line-1, at.Line, append([]string{line}, entry...))
	case seq.IsFlowStyle:
		return nil, unshaped()
	default:
		entry, err := entryLines(s, seq.Start.Position.Column-1)
		if err != nil {
			return nil, err
		}
		_, end := span(lines, seq, len(seq.Values)-1)
		lines = splice(lines, end, end, entry)
	}
	return verified(text, join(lines), func(f *File) { f.Servers = append(f.Servers, s) })
}

// without gives the text without an entry; comments right above it go with it.
func without(text []byte, name string) ([]byte, error) {
	seq, _, err := sequence(text)
	if err != nil {
		return nil, err
	}
	i := index(seq, name)
	if i < 0 {
		return nil, notFound(name)
	}
	if seq.IsFlowStyle {
		return nil, unshaped()
	}
	lines := split(text)
	begin, end := span(lines, seq, i)
	return verified(text, join(splice(lines, begin, end, nil)), func(f *File) {
		for j, s := range f.Servers {
			if s.Name == name {
				f.Servers = append(f.Servers[:j:j], f.Servers[j+1:]...)
				return
			}
		}
	})
}

// replaced gives the text with another definition in the place of one. What stays the same keeps its lines and comments; where that
// cannot be done, the whole entry is written anew.
func replaced(text []byte, s Server) ([]byte, error) {
	seq, _, err := sequence(text)
	if err != nil {
		return nil, err
	}
	i := index(seq, s.Name)
	if i < 0 {
		return nil, notFound(s.Name)
	}
	if seq.IsFlowStyle {
		return nil, unshaped()
	}
	lines := split(text)
	begin, end := span(lines, seq, i)
	for begin < end && isComment(lines[begin]) {
		begin++
	}
	f, err := decode(text)
	if err != nil {
		return nil, err
	}
	old, _ := f.Find(s.Name)
	change := func(f *File) {
		for j := range f.Servers {
			if f.Servers[j].Name == s.Name {
				f.Servers[j] = s
			}
		}
	}
	if entry, err := merged(lines[:end], seq.Values[i], old, s); err == nil {
		if after, err := verified(text, join(splice(lines, begin, end, entry)), change); err == nil {
			return after, nil
		}
	}
	entry, err := entryLines(s, seq.Start.Position.Column-1)
	if err != nil {
		return nil, err
	}
	return verified(text, join(splice(lines, begin, end, entry)), change)
}

// revalued gives the text with other values for keys of an entry's env or headers.
func revalued(text []byte, name, group string, values map[string]string) ([]byte, error) {
	seq, _, err := sequence(text)
	if err != nil {
		return nil, err
	}
	i := index(seq, name)
	if i < 0 {
		return nil, notFound(name)
	}
	lines, gone := split(text), map[int]bool{}
	found := 0
	for k, v := range pairs(child(seq.Values[i], group)) {
		now, change := values[k]
		if !change {
			continue
		}
		tk := v.GetToken()
		switch v := v.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		case *ast.LiteralNode:
			tk = v.Start
			for j := range blockLines(lines, tk.Position.Line) {
				gone[j] = true
			}
		default:
			return nil, unshaped()
		}
		line, raw := lines[tk.Position.Line-1], strings.TrimSpace(tk.Origin)
		at := byteColumn(line, tk.Position.Column)
		if at < 0 || !strings.HasPrefix(line[at:], raw) {
			return nil, unshaped()
		}
		lines[tk.Position.Line-1] = line[:at] + `"` + now + `"` + line[at+len(raw):]
		found++
	}
	if found != len(values) {
		return nil, unshaped()
	}
	kept := lines[:0]
	for j, line := range lines {
		if !gone[j] {
			kept = append(kept, line)
		}
	}
	return verified(text, join(kept), func(f *File) {
		for j := range f.Servers {
			if f.Servers[j].Name != name {
				continue
			}
			in := f.Servers[j].Env
			if group == "headers" {
				in = f.Servers[j].Headers
			}
			for k, v := range values {
				in[k] = v
			}
		}
	})
}

// blockLines gives the indices of the lines of a block text, which begins at an index and is indented more than the line before it.
func blockLines(lines []string, begin int) iter.Seq[int] {
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	return func(yield func(int) bool) {
		for i := begin; i < len(lines); i++ {
			blank := strings.TrimSpace(lines[i]) == ""
			if !blank && indent(lines[i]) <= indent(lines[begin-1]) || !yield(i) {
				return
			}
		}
	}
}

// verified accepts a changed text when it says exactly what the old one said, with the change.
func verified(before, after []byte, change func(*File)) ([]byte, error) {
	want, err := decode(before)
	if err != nil {
		return nil, err
	}
	change(&want)
	got, err := decode(after)
	if err != nil || got.Prefix != want.Prefix || len(got.Servers) != len(want.Servers) {
		return nil, unshaped()
	}
	for i := range got.Servers {
		if !reflect.DeepEqual(got.Servers[i], want.Servers[i]) {
			return nil, unshaped()
		}
	}
	return after, nil
}

func unshaped() error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: FileName + " is written in a way that bobbin cannot change without losing something of it",
		Hint: "change it in an editor, or write the list as block YAML: one - name: NAME a server"}
}

func notFound(name string) error {
	return &schemas.Error{Code: schemas.CodeNotFound, Text: fmt.Sprintf("MCP server '%s' not found", schemas.Clean(name, true)), Hint: "bobbin mcp list shows all"}
}

// sequence finds the list; nil when it is empty. key is nil when there is none at all.
func sequence(text []byte) (seq *ast.SequenceNode, key ast.Node, err error) {
	tree, err := parse(text)
	if err != nil {
		return nil, nil, schemas.Problems{syntax(text, err)}
	}
	if bytes.Count(text, []byte("\r")) != bytes.Count(text, []byte("\r\n")) { // the library's lines are not those of split
		return nil, nil, unshaped()
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return nil, nil, nil
	}
	m, ok := tree.Docs[0].Body.(ast.MapNode)
	if !ok {
		return nil, nil, nil
	}
	for it := m.MapRange(); it.Next(); {
		if it.Key().String() == "mcps" {
			seq, _ = it.Value().(*ast.SequenceNode)
			return seq, it.Key(), nil
		}
	}
	return nil, nil, nil
}

// index is that of the first entry with the name, -1 if there is none.
func index(seq *ast.SequenceNode, name string) int {
	if seq == nil {
		return -1
	}
	for i, v := range seq.Values {
		if n := child(v, "name"); n != nil {
			if t, _ := text(n); t == name {
				return i
			}
		}
	}
	return -1
}

func child(n ast.Node, key string) ast.Node {
	if m, ok := n.(ast.MapNode); ok {
		for it := m.MapRange(); it.Next(); {
			if it.Key().String() == key {
				return it.Value()
			}
		}
	}
	return nil
}

func pairs(n ast.Node) map[string]ast.Node {
	all := map[string]ast.Node{}
	if m, ok := n.(ast.MapNode); ok {
		for it := m.MapRange(); it.Next(); {
			if k, ok := text(it.Key()); ok {
				all[k] = it.Value()
			}
		}
	}
	return all
}

// span gives the lines of an entry, from the comments above it to the last one that is its own.
func span(lines []string, seq *ast.SequenceNode, i int) (begin, end int) {
	dash := seq.Start.Position.Column - 1
	first := func(i int) int {
		at := seq.Values[i].GetToken().Position.Line - 1
		for at > 0 && !strings.HasPrefix(strings.TrimLeft(lines[at], " "), "-") {
			at-- // the dash may stand alone on a line above
		}
		for at > 0 && isComment(lines[at-1]) && indent(lines[at-1]) >= dash {
			at--
		}
		return at
	}
	begin = first(i)
	if i+1 < len(seq.Values) {
		return begin, first(i + 1)
	}
	at := seq.Values[i].GetToken().Position.Line
	end = at
	for ; at < len(lines); at++ {
		switch l := lines[at]; {
		case strings.TrimSpace(l) == "":
		case indent(l) > dash:
			end = at + 1
		default:
			return begin, end
		}
	}
	return begin, end
}

func isComment(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#") }

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// byteColumn is where a column of characters, from 1, begins; -1 outside of the line.
func byteColumn(line string, column int) int {
	n := 1
	for i := range line {
		if n == column {
			return i
		}
		n++
	}
	return -1
}

func split(text []byte) []string {
	t := strings.TrimSuffix(string(text), "\n")
	if t == "" {
		return nil
	}
	return strings.Split(t, "\n")
}

func join(lines []string) []byte {
	if len(lines) == 0 {
		return nil
	}
	if strings.HasSuffix(lines[0], "\r") { // new ones end like the others
		for i, line := range lines {
			lines[i] = strings.TrimSuffix(line, "\r") + "\r"
		}
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func splice(lines []string, begin, end int, with []string) []string {
	return append(append(lines[:begin:begin], with...), lines[end:]...)
}

// entryLines writes an entry as block YAML.
func entryLines(s Server, dash int) ([]string, error) {
	var b bytes.Buffer
	if err := yaml.NewEncoder(&b, yaml.Indent(2)).Encode(s); err != nil {
		return nil, err
	}
	lines := split(b.Bytes())
	for i := range lines {
		mark := "  "
		if i == 0 {
			mark = "- "
		}
		lines[i] = strings.TrimRight(strings.Repeat(" ", dash)+mark+lines[i], " ")
	}
	return lines, nil
}

// referenced gives the text with references in the place of the entries' literal secrets; stuck names entries where that cannot be
// done in place.
func referenced(text []byte, all []Server) (after []byte, stuck []string) {
	for _, s := range all {
		env, headers := literals(s)
		for group, values := range map[string]map[string]string{"env": env, "headers": headers} {
			if len(values) == 0 {
				continue
			}
			if changed, err := revalued(text, s.Name, group, values); err == nil {
				text = changed
			} else {
				stuck = append(stuck, s.Name)
			}
		}
	}
	return text, stuck
}
