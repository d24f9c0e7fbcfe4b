package operator

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// merged gives the lines of an entry as another definition has it. Keys that stay as they are keep their lines and comments, others
// are written anew. lines end where the entry does.
func merged(lines []string, entry ast.Node, was, is Server) ([]string, error) {
	keys, column, err := keysOf(entry, lines)
	if err != nil {
		return nil, err
	}
	before, err := canonical(was, column)
	if err != nil {
		return nil, err
	}
	after, err := canonical(is, column)
	if err != nil {
		return nil, err
	}
	var out []string
	for n, k := range keys {
		now, stays := after.find(k.name)
		old, said := before.find(k.name)
		switch {
		case stays && slices.Equal(now, old), !stays && !said: // unchanged, or nothing that bobbin knows
			out = append(out, lines[k.begin:k.end]...)
		case stays:
			out = append(append(out, lines[k.begin][:column]+now[0][column:]), now[1:]...) // the first key has the dash before it
		case n == 0:
			return nil, unshaped()
		}
		out = append(out, lines[k.end:k.next]...)
	}
	for _, k := range after {
		old, said := before.find(k.name)
		written := slices.ContainsFunc(keys, func(w keyLines) bool { return w.name == k.name })
		if !written && !(said && slices.Equal(old, k.lines)) {
			out = append(out, k.lines...)
		}
	}
	return out, nil
}

// keyLines says which lines a key of an entry has; from end to next are comments, which are the next key's.
type keyLines struct {
	name             string
	begin, end, next int
}

func keysOf(entry ast.Node, lines []string) (keys []keyLines, column int, err error) {
	m, ok := entry.(ast.MapNode)
	if !ok {
		return nil, 0, unshaped()
	}
	for it := m.MapRange(); it.Next(); {
		p := it.Key().GetToken().Position
		if n := len(keys); n > 0 {
			if p.Column-1 != column || p.Line-1 <= keys[n-1].begin { // flow style
				return nil, 0, unshaped()
			}
			keys[n-1].next = p.Line - 1
		}
		column = p.Column - 1
		keys = append(keys, keyLines{name: it.Key().String(), begin: p.Line - 1, next: len(lines)})
	}
	for n, k := range keys {
		end := k.next
		for n+1 < len(keys) && end > k.begin+1 && (isComment(lines[end-1]) || strings.TrimSpace(lines[end-1]) == "") {
			end--
		}
		keys[n].end = end
	}
	return keys, column, nil
}

// block is a key of an entry as bobbin writes it.
type block struct {
	name  string
	lines []string
}

type blocks []block

func (all blocks) find(name string) ([]string, bool) {
	for _, b := range all {
		if b.name == name {
			return b.lines, true
		}
	}
	return nil, false
}

// canonical writes an entry key by key, at a column.
func canonical(s Server, column int) (all blocks, err error) {
	lines, err := entryLines(s, max(column-2, 0))
	if err != nil || column < 2 {
		return nil, unshaped()
	}
	for i, l := range lines {
		if i == 0 {
			l = strings.Replace(l, "- ", "  ", 1)
		}
		if indent(l) == column {
			name, _, _ := strings.Cut(strings.TrimSpace(l), ":")
			all = append(all, block{name: name})
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, l)
	}
	return all, nil
}
