package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// readAll reads every server of a text.
func (r *reader) readAll(root *node, syntax, hint string) {
	r.repairs()
	all := containers(root)
	r.format = formatOf(all, root, syntax, r.src.name)
	r.duplicates(root, "", "", false)
	r.readInputs(root, 0, "")
	count := 0
	for _, c := range all {
		count += map[bool]int{true: 1, false: max(len(c.node.members), len(c.node.items))}[c.single]
	}
	if count > MaxServers*MaxServers || count > MaxServers*2 && count > len(all)*MaxServers {
		r.wrong(all[0].at, all[0].ptr, "", "split the file", "max %d servers, this file has %d", MaxServers, count)
		return
	}
	for i, c := range all {
		r.group, r.off = i, c.off
		if c.near {
			r.note(schemas.NoteMapped, "", c.at, "the servers stand under %s; it is read as \"mcpServers\"", shownKey(c.key))
		}
		r.readContainer(c, root, hint)
	}
	r.switchedOff(root)
	if len(r.drafts) > MaxServers {
		r.wrong(all[0].at, all[0].ptr, "", "split the file", "max %d servers, this file has %d", MaxServers, len(r.drafts))
	}
	r.ignoredTop(root, all)
}

// switchedOff turns off the servers that a list beside them names: Gemini CLI's mcp.excluded and mcp.allowed, Claude Code's
// disabledMcpServers and the like.
func (r *reader) switchedOff(root *node) {
	names := func(keys ...string) (out []string, given bool) {
		l := root.path(keys...)
		for _, i := range l.itemsOf() {
			out = append(out, i.str())
		}
		return out, l.is(listNode) && len(l.items) > 0
	}
	for _, keys := range [][]string{{"mcp", "excluded"}, {"excludeMCPServers"}, {"disabledMcpServers"}, {"disabledMcpjsonServers"}, {"disabledServers"}} {
		off, _ := names(keys...)
		r.turnOff(func(d schemas.Draft) bool {
			return slices.Contains(off, d.Server.Name) || d.Title != "" && slices.Contains(off, d.Title)
		})
	}
	for _, keys := range [][]string{{"mcp", "allowed"}, {"allowMCPServers"}} {
		if on, given := names(keys...); given {
			r.turnOff(func(d schemas.Draft) bool {
				return !slices.Contains(on, d.Server.Name) && !slices.Contains(on, d.Title)
			})
		}
	}
}

func (r *reader) turnOff(which func(schemas.Draft) bool) {
	for i := range r.drafts {
		if d := &r.drafts[i]; !d.Disabled && which(*d) {
			d.Disabled = true
			r.note(schemas.NoteMapped, d.Server.Name, -1, "a list in the file switches it off")
		}
	}
}

// repairs says what was mended, each kind once.
func (r *reader) repairs() {
	count := map[string]int{}
	for _, f := range r.src.flaws {
		count[f.text]++
	}
	for _, f := range r.src.flaws {
		n := count[f.text]
		text := f.text // that it was mended is what the kind of the note says
		if f.said != "" {
			text = f.said
		} else if n > 1 {
			text += fmt.Sprintf(" in %d places", n)
		}
		if n > 0 {
			line, col := r.src.raw(f.at)
			r.notes = append(r.notes, schemas.Note{Kind: schemas.NoteRepair, Line: line, Col: col, Text: text})
		}
		count[f.text] = 0
	}
}

// ignoredTop names the other keys of a file in one note.
func (r *reader) ignoredTop(root *node, all []container) {
	if len(all) == 0 || len(r.drafts) == 0 {
		return
	}
	var names []string
	for _, m := range root.members {
		mine := slices.ContainsFunc(all, func(c container) bool {
			return c.node == root || strings.HasPrefix(c.ptr+"/", pointer("", m.key)+"/")
		})
		if !mine && m.key != "inputs" && !aside(m.key) {
			names = append(names, shownKey(m.key))
		}
	}
	if len(names) > 6 {
		names = append(names[:6], fmt.Sprintf("and %d more", len(names)-6))
	}
	if len(names) > 0 {
		r.note(schemas.NoteIgnored, "", -1, "beside the servers the file has %s; it is ignored", strings.Join(names, ", "))
	}
}

// aside reports whether a key only says something to people or editors.
func aside(key string) bool {
	return strings.HasPrefix(key, "_") || strings.HasPrefix(key, "/") || strings.HasPrefix(key, "$") || strings.HasPrefix(key, "#") ||
		slices.Contains([]string{"comment", "comments", "description", "name", "title", "version", "schema"}, key)
}

// formatOf names the kind of file, for people.
func formatOf(all []container, root *node, syntax, name string) string {
	if len(all) == 0 {
		return syntax
	}
	c := all[0]
	has := func(key string) bool {
		return slices.ContainsFunc(all, func(c container) bool {
			return slices.ContainsFunc(c.node.members, func(m member) bool { return m.value.get(key) != nil })
		})
	}
	switch p := plain(c.key); {
	case registryLike(c.node), c.node.is(listNode) && len(c.node.items) > 0 && (registryLike(c.node.items[0]) || registryLike(c.node.items[0].get("server"))):
		return "registry"
	case c.node.get("server").get("mcp_config") != nil:
		return "mcpb"
	case c.single:
		return "single"
	case c.node == root:
		return "map"
	case syntax == "toml":
		return "codex"
	case p == "extensions":
		return "goose"
	case syntax == "yaml":
		return "hermes"
	case p == "contextservers":
		return "zed"
	case p == "mcp":
		return "opencode"
	case p == "servers" && strings.HasPrefix(c.ptr, "/mcp/") && root.get("mcp").get("inputs") == nil && has("toolFilter"):
		return "openclaw"
	case p == "servers":
		return "vscode"
	case strings.HasPrefix(c.ptr, "/projects/"), strings.HasSuffix(name, ".mcp.json"), strings.HasSuffix(name, ".claude.json"):
		return "claude-code"
	case strings.HasSuffix(name, "cline_mcp_settings.json"):
		return "cline"
	case has("alwaysAllow"):
		return "roo"
	case has("httpUrl"), has("trust"), has("includeTools"):
		return "gemini"
	case has("serverUrl"):
		return "windsurf"
	case has("autoApprove"):
		return "cline"
	}
	return "claude-desktop"
}

// duplicates reports keys given twice: in the file's own objects down to the servers, and anywhere inside servers.
func (r *reader) duplicates(n *node, ptr, server string, inside bool) {
	if n.is(listNode) {
		for i, v := range n.items {
			r.duplicates(v, fmt.Sprintf("%s/%d", ptr, i), server, inside)
		}
		return
	}
	seen := map[string]int{}
	for i, m := range n.members {
		first, known := seen[m.key]
		if len(n.members) <= 16 { // faster than a map
			first = slices.IndexFunc(n.members[:i], func(o member) bool { return o.key == m.key })
			known = first >= 0
		} else if !known {
			seen[m.key] = i
		}
		if known {
			r.twice(m, n.members[first].at, ptr, server, inside)
			continue
		}
		if m.value.kind != objectNode && m.value.kind != listNode {
			continue
		}
		p := pointer(ptr, m.key)
		if inside {
			r.duplicates(m.value, p, cmp.Or(server, shown(m.key)), true)
			continue
		}
		sure, maybe, _ := containerKey(m.key)
		switch {
		case sure, maybe, m.key == "inputs":
			r.duplicates(m.value, p, "", sure || maybe)
		case serverLike(m.value) || len(containers(m.value)) > 0:
			r.duplicates(m.value, p, "", serverLike(m.value))
		}
	}
}

// twice reports one duplicate.
func (r *reader) twice(m member, first int, ptr, server string, inside bool) {
	line, _ := r.src.place(first)
	holder := ptr[strings.LastIndex(ptr, "/")+1:]
	if inside && holder != "" && holder != server && server != "" {
		r.wrong(m.at, pointer(ptr, m.key), server, "delete one of them", "%s has %s twice (first on line %d)", holder, shownKey(m.key), line)
		return
	}
	r.wrong(m.at, pointer(ptr, m.key), server, "delete one of them", "%s is given twice (first on line %d)", shownKey(m.key), line)
}

// readInputs declares the inputs of VS Code's form, wherever they stand.
func (r *reader) readInputs(n *node, depth int, ptr string) {
	for _, m := range n.members {
		p := pointer(ptr, m.key)
		switch {
		case m.key == "inputs" && m.value.kind == listNode:
			for i, v := range m.value.items {
				r.readInput(v, fmt.Sprintf("%s/%d", p, i))
			}
		case m.value.kind == objectNode && depth < 3 && (m.key == "mcp" || m.key == "customizations" || m.key == "vscode"):
			r.readInputs(m.value, depth+1, p)
		}
	}
}

func (r *reader) readInput(v *node, ptr string) {
	id := v.get("id").str()
	if id == "" {
		return
	}
	in := schemas.Input{Type: "promptString", ID: id, Description: clip(v.get("description").str(), 200)}
	if !schemas.ValidInput(id) {
		in.ID = inputID(id)
		r.ids[id] = in.ID
	}
	if r.vals.input(in.ID) != nil {
		r.wrong(v.at, ptr, "", "delete one of them", "the input %s is declared twice", shownKey(id))
		return
	}
	if p := v.get("password"); p.is(boolNode) {
		in.Password = p.text == "true"
	} else {
		in.Password = secretName(id)
	}
	def := v.get("default").str()
	if v.get("default").is(numberNode) || v.get("default").is(boolNode) {
		def = v.get("default").text
	}
	if o := v.get("options"); o.is(listNode) && v.get("type").str() == "pickString" {
		in.Type = "pickString"
		for _, i := range o.items {
			s := i.str()
			if i.is(objectNode) {
				s = i.get("value").str()
			}
			in.Options = append(in.Options, clip(s, 200))
		}
	}
	if v.get("type").str() == "command" {
		r.note(schemas.NoteMapped, "", v.at, "the input %s asks a program of the editor; you are asked instead", in.ID)
	}
	secret := in.Password && !noSecret(def) || hasSecret(def)
	r.vals.inputs = append(r.vals.inputs, in)
	switch {
	case def == "" || sample(def, in.Password):
	case secret:
		r.vals.byText[def], r.vals.byID[in.ID] = in.ID, def
		r.defaults = append(r.defaults, in.ID)
	default:
		r.vals.input(in.ID).Default = clip(def, maxArg)
	}
}

// clip cuts a text to n bytes and escapes what cannot be shown.
func clip(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s)
}

// readContainer reads the servers of one object or list.
func (r *reader) readContainer(c container, root *node, hint string) {
	switch {
	case c.single:
		r.readSingle(c, hint)
	case c.node.is(listNode):
		for i, v := range c.node.items {
			p := fmt.Sprintf("%s/%d", c.ptr, i)
			if reg := v.get("server"); registryLike(reg) {
				v = reg
			}
			switch {
			case registryLike(v):
				r.readRegistry(v, p)
			case v.is(objectNode):
				name := nameOf(v)
				if name == "" {
					name = cmp.Or(guessName(v), guessName(v.get("transport")))
				}
				before := len(r.drafts)
				r.readEntry(v, name, v.at, p)
				if own := v.get("name").str(); len(r.drafts) > before && r.drafts[before].Title == "" && own != "" && own != name {
					r.drafts[before].Title = shown(strings.TrimSpace(own))
				}
			default:
				r.wrong(v.at, p, "", "", "a server must be an object, not %s", v.kind)
			}
		}
	case c.node.is(objectNode):
		seen := map[string]bool{}
		for _, m := range c.node.members {
			p := pointer(c.ptr, m.key)
			switch {
			case seen[m.key]: // said as a duplicate
			case m.value.is(objectNode) && (serverLike(m.value) || c.node != root || looksMeant(m.value)):
				before := r.off
				if set := strings.TrimLeft(m.key, "_/#"); set != m.key && badName(m.key) == "" {
					r.off = true
					r.note(schemas.NoteMapped, "", m.at, "%s is taken for switched off by the mark before its name", shownKey(m.key))
				}
				r.readEntry(m.value, m.key, m.at, p)
				r.off = before
			case ignored(m.key), m.key == "inputs", c.node == root:
			case m.value.kind == nullNode:
				r.note(schemas.NoteIgnored, "", m.at, "%s is null and left out", shownKey(m.key))
			default:
				r.wrong(m.value.at, p, shown(m.key), "", "a server must be an object, not %s", m.value.kind)
			}
			seen[m.key] = true
		}
	default:
		r.wrong(c.node.at, c.ptr, "", `write {"name": {"command": "…"}}`, "%q must be an object, not %s", c.key, c.node.kind)
	}
}

// looksMeant reports whether an object of a bare map is a server with a mistake.
func looksMeant(n *node) bool {
	return n.get("command") != nil || n.get("args") != nil || misspeltCommand(n)
}

// nameOf gives the name that an object of a list has for itself.
func nameOf(n *node) string {
	if id := n.get("id").str(); readableID().MatchString(id) && !schemas.ValidName(n.get("name").str()) {
		return id
	}
	return firstText(n, "name", "id", "key", "server_label", "serverLabel", "serverName", "server_name", "title")
}

// readableID is an id that a person made: words, no random letters and digits.
var readableID = lazy.Regexp(`^[A-Za-z]{2,}[0-9]{0,3}(?:[-_.][A-Za-z]+[0-9]{0,3}){0,5}$`)

func firstText(n *node, keys ...string) string {
	for _, k := range keys {
		if s := n.get(k).str(); strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

func (r *reader) readSingle(c container, hint string) {
	n := c.node
	switch {
	case registryLike(n):
		r.readRegistry(n, c.ptr)
	case n.get("server").get("mcp_config") != nil:
		r.readBundle(n, c.ptr)
	default:
		name := nameOf(n)
		if name == "" || hint != "" && schemas.ValidName(hint) {
			name = hint
		}
		if name == "" {
			if name = guessName(n); name != "" {
				r.note(schemas.NoteMapped, name, n.at, "the server has no name; it is called %s", name)
			}
		}
		if name == "" {
			r.wrong(n.at, c.ptr, "", `add "name": "…", or give the name before the text`, "this server has no name")
			return
		}
		r.readEntry(n, name, n.at, c.ptr)
	}
}

func (n *node) itemsOf() []*node {
	if n == nil {
		return nil
	}
	return n.items
}
