package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bobbin/schemas"
)

// reader reads the servers of one text and collects everything there is to say about it.
type reader struct {
	src      *source
	format   string
	notes    []schemas.Note
	problems schemas.Problems
	vals     *values
	ids      map[string]string // input ids that had to be changed
	drafts   []schemas.Draft
	stored   bool               // a file of ours: blanks and sample texts are what they are
	defaults []string           // inputs whose declared default is a secret
	names    map[string]claimed // by lower-case name
	group    int                // which container is read
	left     schemas.Problems   // what was left out because it cannot be used here
	off      bool               // what is read is switched off by the place where it stands
	samples  map[string]string  // input ids of sample paths
	ignored  []unread
	subjects map[string]subject // by input id
	up       string             // the workspace as seen from the cwd of the server that is read, "" for itself
	askers   map[string]string  // everyday input ids and the server that first asked for them
	packages []schemas.Suggestion
}

// unread is a key of a server without a meaning here.
type unread struct {
	server, key string
	at          int
}

func newReader(src *source) *reader {
	return &reader{src: src, vals: newValues(), ids: map[string]string{}, names: map[string]claimed{}, samples: map[string]string{}, askers: map[string]string{}, subjects: map[string]subject{}}
}

// wrong adds a mistake at an offset.
func (r *reader) wrong(at int, ptr, server, hint, format string, a ...any) {
	if len(r.problems) >= maxProblems {
		return
	}
	line, col := r.src.place(at)
	r.problems = append(r.problems, schemas.Problem{File: r.src.name, Line: line, Col: col, Pointer: visible(ptr), Server: server,
		Text: fmt.Sprintf(format, a...), Hint: hint, Excerpt: r.src.excerpt(line)})
}

// note adds a remark, each once; without a place if at is negative.
func (r *reader) note(kind schemas.NoteKind, server string, at int, format string, a ...any) {
	if len(r.notes) >= maxNotes {
		return
	}
	n := schemas.Note{Kind: kind, Server: server, Text: fmt.Sprintf(format, a...)}
	for _, o := range r.notes {
		if o.Kind == n.Kind && o.Server == n.Server && o.Text == n.Text {
			return
		}
	}
	if at >= 0 {
		n.Line, n.Col = r.src.place(at)
	}
	r.notes = append(r.notes, n)
}

// Import reads a text of unknown kind as MCP servers: a file or paste of any client. name is the shown file name, "" for a
// paste; hint names a single server object that has no name. It is pure, bounded and safe for concurrent use.
func Import(name string, data []byte, hint string) schemas.Import {
	name = shown(name)
	text, notes, problem := plainText(data)
	if problem != nil {
		problem.File = name
		return schemas.Import{Problems: schemas.Problems{*problem}}
	}
	f := find(name, text)
	if f.root == nil {
		return schemas.Import{Format: f.syntax, Notes: notes, Problems: f.problems}
	}
	r := newReader(f.src)
	r.notes = notes
	for _, s := range f.said {
		r.note(schemas.NoteMapped, "", -1, "%s", s)
	}
	r.readAll(f.root, f.syntax, hint)
	return r.result(f.root)
}

// result puts everything in order.
func (r *reader) result(root *node) schemas.Import {
	r.sayIgnored()
	im := schemas.Import{Format: r.format, Servers: r.drafts, Inputs: r.vals.inputs, Notes: r.notes, Packages: r.packages}
	switch {
	case len(r.drafts)+len(r.packages) > 0 || len(r.problems) > 0:
	case len(r.left) > 0:
		r.problems, r.notes = r.left, nil
	default:
		r.nothing(root)
	}
	sortProblems(r.problems)
	if len(r.problems) > 0 {
		return schemas.Import{Format: r.format, Notes: r.notes, Problems: r.problems}
	}
	im.Inputs = r.used(im.Inputs)
	for i := range im.Servers {
		d := &im.Servers[i]
		for _, f := range r.vals.found {
			if f.Server == d.Server.Name {
				d.Found = append(d.Found, f)
				r.note(schemas.NoteSecret, f.Server, -1, "%s holds a secret; it moves to your vault and the config keeps ${input:%s}", f.Where, f.Input)
			}
		}
		asks := d.Server
		asks.Command = "" // nothing is ever filled in there
		for _, id := range asks.Inputs() {
			if slices.Contains(r.defaults, id) {
				d.Found = append(d.Found, schemas.Found{Server: d.Server.Name, Input: id, Value: schemas.NewSecret(r.vals.byID[id]), Where: "the default of input " + id})
				r.note(schemas.NoteSecret, d.Server.Name, -1, "the default of the input %s is a secret; it moves to your vault", id)
			}
			in := r.vals.input(id)
			given := slices.ContainsFunc(d.Found, func(f schemas.Found) bool { return f.Input == id })
			if !given && (in == nil || in.Default == "") {
				d.Needs = append(d.Needs, id)
			}
		}
	}
	im.Notes = r.notes
	if len(r.src.flaws) > 0 {
		im.Repaired = repairedText(im)
	}
	return im
}

// sayIgnored names the keys that mean nothing here: in one remark a server, and what three servers or more have once for all.
func (r *reader) sayIgnored() {
	count := map[string]int{}
	for _, g := range r.ignored {
		count[g.key]++
	}
	type remark struct {
		server string
		at     int
		keys   []string
	}
	var all []remark
	for _, g := range r.ignored {
		server := g.server
		if count[g.key] >= 3 {
			server = ""
		}
		i := slices.IndexFunc(all, func(m remark) bool { return m.server == server })
		if i < 0 {
			i, all = len(all), append(all, remark{server: server, at: g.at})
		}
		if k := shownKey(g.key); !slices.Contains(all[i].keys, k) {
			all[i].keys = append(all[i].keys, k)
		}
	}
	for _, m := range all {
		verb, where := "is", " wherever it stands"
		if len(m.keys) > 1 {
			verb, where = "are", " wherever they stand"
		}
		if len(m.keys) > 6 {
			m.keys = append(m.keys[:6], fmt.Sprintf("and %d more", len(m.keys)-6))
		}
		text := strings.Join(m.keys, ", ") + " " + verb + " ignored"
		if m.server == "" {
			text += where
		}
		r.note(schemas.NoteIgnored, m.server, m.at, "%s", text)
	}
}

// used leaves out declared inputs that no server refers to.
func (r *reader) used(all []schemas.Input) []schemas.Input {
	var out []schemas.Input
	for _, in := range all {
		if slices.ContainsFunc(r.drafts, func(d schemas.Draft) bool { return slices.Contains(d.Server.Inputs(), in.ID) }) {
			out = append(out, in)
		}
	}
	return out
}

func sortProblems(ps schemas.Problems) {
	slices.SortStableFunc(ps, func(a, b schemas.Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col)) })
}

// repairedText writes what was understood, without secrets: the text as given may hold some.
func repairedText(im schemas.Import) string {
	servers := make([]schemas.Server, len(im.Servers))
	for i, d := range im.Servers {
		servers[i] = d.Server
	}
	return string(EncodeRemote(servers, im.Inputs, ""))
}

// nothing says that the text holds no server, with what it does hold.
func (r *reader) nothing(root *node) {
	hint := `servers stand under "mcpServers" as in Claude Desktop; VS Code's "servers", Codex TOML, OpenCode, Zed, a server.json and a single server object are read, too`
	seen := "an empty object"
	switch {
	case emptyContainer(root) != "":
		seen, hint = emptyContainer(root)+" is empty", "to remove a server use /mcp remove"
	case root.kind == listNode:
		seen = fmt.Sprintf("a list of %d", len(root.items))
	case root.kind != objectNode:
		seen = root.kind.String()
	case len(root.members) > 0:
		var keys []string
		for _, m := range root.members[:min(6, len(root.members))] {
			keys = append(keys, shownKey(m.key))
		}
		if len(root.members) > 6 {
			keys = append(keys, "…")
		}
		seen = "it has " + strings.Join(keys, ", ")
	}
	r.wrong(root.at, "", "", hint, "no MCP servers in this file: %s", seen)
	r.problems[len(r.problems)-1].Excerpt = "" // no line is to blame
}

// emptyContainer names the place for servers that holds none.
func emptyContainer(root *node) string {
	for _, c := range containers(root) {
		if len(c.node.members)+len(c.node.items) == 0 {
			return shownKey(c.key)
		}
	}
	return ""
}
