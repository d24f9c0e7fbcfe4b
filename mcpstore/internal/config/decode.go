package config

import (
	"bytes"
	"fmt"
	"strings"

	"bobbin/schemas"
)

// The largest texts that are read. A count of servers is a parameter where it differs.
const (
	MaxText    = 256 << 10 // bytes of a config file
	MaxDepth   = 32        // nesting of objects and lists
	MaxServers = 32        // in one file
	maxArgs    = 128       // of one server; galleries write long lists of optional flags
	maxArg     = 4 << 10   // bytes of one argument or value
	maxEnv     = 64        // variables or headers of one server

	maxProblems = 100 // told at once
	maxNotes    = 500
)

// Stored is one strictly read mcp.json or mcp_remote.json. With Problems nothing else of it may be used.
type Stored struct {
	Servers  []schemas.Server // in file order, without any secret value
	Inputs   []schemas.Input  // declared ones first, then those that only a reference names
	Schema   string           // "$schema" as written
	Disabled map[string]bool  // entries with "disabled": true
	Remote   []schemas.Draft  // of mcp.json: entries with a url, which are never loaded
	Found    []schemas.Found  // literal secrets that stood in the file
	Notes    []schemas.Note
	Problems schemas.Problems
}

// DecodeLocal reads a stored mcp.json: strict JSON, no unknown key, at most max servers. It is pure and safe for
// concurrent use.
func DecodeLocal(data []byte, max int) Stored { return decode("mcp.json", data, max, false) }

// DecodeRemote is DecodeLocal for a stored mcp_remote.json, whose entries have a url.
func DecodeRemote(data []byte, max int) Stored { return decode("mcp_remote.json", data, max, true) }

// strict reads a stored file.
type strict struct {
	*reader
	remote bool
	out    Stored
}

func decode(name string, data []byte, max int, remote bool) Stored {
	src := newSource(name, data)
	src.json = true
	d := &strict{reader: newReader(src), remote: remote}
	d.stored = true
	if root := d.parse(data, max); root != nil {
		d.duplicates(root, "", "", false)
		d.root(root, max)
	}
	sortProblems(d.problems)
	d.out.Inputs, d.out.Found, d.out.Notes, d.out.Problems = d.vals.inputs, d.vals.found, d.notes, d.problems
	return d.out
}

// parse holds the rules for the text itself; nil when there is nothing to look into.
func (d *strict) parse(data []byte, max int) *node {
	switch {
	case len(data) > MaxText && max <= MaxServers || len(data) > 64*MaxText:
		d.problems = schemas.Problems{{File: d.src.name, Text: fmt.Sprintf("the file is larger than %d KiB", MaxText>>10)}}
		return nil
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		d.wrong(0, "", "", "save the file as UTF-8 without BOM", "the file begins with a byte order mark")
		return nil
	}
	if p := textProblem(data); p != nil {
		p.File = d.src.name
		if p.Text == "the text is empty" {
			p.Text, p.Hint = "the file is empty", `to remove all servers write {"mcpServers": {}}`
		}
		d.problems = schemas.Problems{*p}
		return nil
	}
	m := mend(data)
	for _, f := range append(m.done, m.loose...) {
		d.wrong(f.at, "", "", f.hint, "%s", f.text)
	}
	if m.stuck != nil {
		d.wrong(m.stuck.at, "", "", m.stuck.hint, "%s", m.stuck.text)
	}
	if len(d.problems) > 0 {
		return nil
	}
	root, err := parseJSON(data)
	switch {
	case err != nil:
		d.wrong(0, "", "", "", "this is no JSON that can be read")
		return nil
	case root.kind != objectNode:
		d.wrong(root.at, "", "", `to remove all servers write {"mcpServers": {}}`, "the file must hold an object, not %s", root.kind)
		return nil
	}
	return root
}

func (d *strict) root(root *node, max int) {
	known := []string{"mcpServers", "inputs", "$schema"}
	servers := root.get("mcpServers")
	if in := root.get("inputs"); in != nil {
		d.inputs(in)
	}
	for _, m := range root.members {
		switch {
		case m.key == "$schema":
			d.out.Schema = m.value.str()
			if m.value.kind != textNode {
				d.wrong(m.value.at, "/$schema", "", "", `"$schema" must be text, not %s`, m.value.kind)
			}
		case m.key != "mcpServers" && m.key != "inputs":
			d.unknown(m, "", "", known)
			if nearest(m.key, known) == "mcpServers" && servers == nil {
				return
			}
		}
	}
	switch {
	case servers == nil:
		d.wrong(root.at, "", "", `write {"mcpServers": {}}`, `"mcpServers" is missing`)
	case servers.kind != objectNode:
		d.wrong(servers.at, "/mcpServers", "", `write {"name": {"command": "…"}}`, `"mcpServers" must be an object, not %s`, servers.kind)
	case len(servers.members) > max:
		d.wrong(servers.at, "/mcpServers", "", "remove some", "max %d servers, this file has %d", max, len(servers.members))
	default:
		for _, m := range servers.members {
			d.server(m)
		}
	}
}

// unknown refuses a key.
func (d *strict) unknown(m member, ptr, server string, known []string) {
	hint := "remove it"
	if near := nearest(m.key, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	d.wrong(m.at, pointer(ptr, m.key), server, hint, "unknown key %s", shownKey(m.key))
}

func (d *strict) inputs(n *node) {
	if n.kind != listNode {
		d.wrong(n.at, "/inputs", "", "", `"inputs" must be a list, not %s`, n.kind)
		return
	}
	for i, v := range n.items {
		d.input(v, fmt.Sprintf("/inputs/%d", i))
	}
}

func (d *strict) input(v *node, ptr string) {
	if v.kind != objectNode {
		d.wrong(v.at, ptr, "", "", "an input must be an object, not %s", v.kind)
		return
	}
	in := schemas.Input{}
	for _, m := range v.members {
		p := pointer(ptr, m.key)
		switch m.key {
		case "type":
			in.Type = d.text(m, p, "")
		case "id":
			in.ID = d.text(m, p, "")
		case "description":
			in.Description = d.text(m, p, "")
		case "default":
			in.Default = d.text(m, p, "")
		case "options":
			in.Options = d.list(m, p, "", 256)
		case "password":
			in.Password = d.flag(m, p, "")
		default:
			d.unknown(m, ptr, "", []string{"type", "id", "description", "default", "options", "password"})
		}
	}
	switch {
	case in.Type != "promptString" && in.Type != "pickString":
		d.wrong(v.at, pointer(ptr, "type"), "", "", `the type of an input must be "promptString" or "pickString"`)
	case !schemas.ValidInput(in.ID):
		d.wrong(v.at, pointer(ptr, "id"), "", "use letters, digits, _, . and -, starting with a letter or _", "%s is no id for an input", shownKey(in.ID))
	case d.vals.input(in.ID) != nil:
		d.wrong(v.at, pointer(ptr, "id"), "", "delete one of them", "the input %s is declared twice", shownKey(in.ID))
	case in.Password && in.Default != "":
		d.wrong(v.at, pointer(ptr, "default"), "", "remove it; you are asked for the value", "a password has no default in a file")
	default:
		d.vals.inputs = append(d.vals.inputs, in)
	}
}

// text, flag and list read one value of exactly that type.
func (d *strict) text(m member, p, server string) string {
	if m.value.kind != textNode {
		d.wrong(m.value.at, p, server, "", "%q must be text, not %s", m.key, m.value.kind)
		return ""
	}
	if len(m.value.text) > maxArg {
		d.wrong(m.value.at, p, server, "", "%q is longer than %d KiB", m.key, maxArg>>10)
	}
	if strings.ContainsAny(m.value.text, "\x00\r\n") && m.key != "description" {
		d.wrong(m.value.at, p, server, "", "%q holds a control character", m.key)
	}
	return m.value.text
}

func (d *strict) flag(m member, p, server string) bool {
	if m.value.kind != boolNode {
		d.wrong(m.value.at, p, server, "", "%q must be true or false, not %s", m.key, m.value.kind)
	}
	return m.value.text == "true"
}

func (d *strict) list(m member, p, server string, limit int) []string {
	if m.value.kind != listNode {
		hint := ""
		if s := m.value.str(); simpleWord().MatchString(s) && !hasSecret(s) {
			hint = fmt.Sprintf("write %q: [%q]", m.key, s)
		}
		d.wrong(m.value.at, p, server, hint, "%q must be a list, not %s", m.key, m.value.kind)
		return nil
	}
	if len(m.value.items) > limit {
		d.wrong(m.value.at, p, server, "", "%q has %d items, the limit is %d", m.key, len(m.value.items), limit)
		return nil
	}
	var out []string
	for i, v := range m.value.items {
		at := fmt.Sprintf("%s/%d", p, i)
		switch {
		case v.kind != textNode:
			d.wrong(v.at, at, server, "write it in quotes", "%s %d must be text, not %s", m.key, i+1, v.kind)
		case len(v.text) > maxArg:
			d.wrong(v.at, at, server, "", "%s %d is longer than %d KiB", m.key, i+1, maxArg>>10)
		case strings.Contains(v.text, "\x00"):
			d.wrong(v.at, at, server, "", "%s %d holds a control character", m.key, i+1)
		}
		out = append(out, v.text)
	}
	return out
}
