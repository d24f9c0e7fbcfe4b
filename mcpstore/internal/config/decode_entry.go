package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bobbin/schemas"
)

// server reads one entry of a stored file.
func (d *strict) server(m member) {
	ptr := pointer("/mcpServers", m.key)
	if !d.storedName(m, ptr) {
		return
	}
	n := m.value
	if n.kind != objectNode {
		d.wrong(n.at, ptr, m.key, "", "a server must be an object, not %s", n.kind)
		return
	}
	before := len(d.problems)
	e := &entry{reader: d.reader, node: n, at: m.at, ptr: ptr, name: m.key}
	s := schemas.Server{Name: m.key}
	remote := d.remote || n.get("url") != nil && n.get("command") == nil
	disabled := false
	for _, k := range n.members {
		p := pointer(ptr, k.key)
		switch k.key {
		case "type":
			s.Type = d.transport(k, p, m.key, remote)
		case "timeout":
			s.Timeout = d.timeout(k, p, m.key)
		case "tools":
			s.Tools = d.tools(k, p, m.key)
		case "disabled":
			disabled = d.flag(k, p, m.key)
		default:
			d.part(e, &s, k, p, remote)
		}
	}
	if d.whole(e, &s, remote); len(d.problems) > before {
		return
	}
	d.keep(e, s, remote, disabled)
}

// storedName holds the rule for names; two that differ only in case are refused.
func (d *strict) storedName(m member, ptr string) bool {
	hint := "use letters, digits, . _ and -, at most 48"
	if bad := badName(m.key); bad != "" {
		d.wrong(m.at, ptr, "", hint, "%s", bad)
		return false
	}
	if !schemas.ValidName(m.key) {
		d.wrong(m.at, ptr, "", hint, "the name %s is not allowed", asciiQuote(m.key))
		return false
	}
	first, taken := d.names[strings.ToLower(m.key)]
	if taken && first.raw != m.key {
		line, _ := d.src.place(first.at)
		d.wrong(m.at, ptr, m.key, "rename one of them", "%q and %q of line %d differ only in case", m.key, first.raw, line)
		return false
	}
	d.names[strings.ToLower(m.key)] = claimed{raw: m.key, at: m.at}
	return !taken
}

// part reads what runs or is reached, and refuses the rest.
func (d *strict) part(e *entry, s *schemas.Server, k member, p string, remote bool) {
	switch {
	case k.key == "url" && (remote || e.node.get("command") != nil):
		e.url = bit{k.key, d.text(k, p, e.name), k.value.at, p}
	case k.key == "headers" && remote:
		e.headers = d.pairs(e, k, p, true)
	case k.key == "auth" && remote:
		s.Auth = d.auth(k, p, e.name)
	case k.key == "command" && d.remote:
		d.wrong(k.at, p, e.name, "programs belong into mcp.json", "a remote server has no \"command\"")
	case k.key == "command":
		e.command = bit{k.key, d.text(k, p, e.name), k.value.at, p}
	case k.key == "args" && !remote:
		for i, a := range d.list(k, p, e.name, maxArgs) {
			e.args = append(e.args, bit{"", a, k.value.items[i].at, fmt.Sprintf("%s/%d", p, i)})
		}
	case k.key == "env" && !remote:
		e.env = d.pairs(e, k, p, false)
	case k.key == "cwd" && !remote:
		e.cwd = bit{k.key, d.text(k, p, e.name), k.value.at, p}
	case notObeyed(k.key) && k.key != "permissions" && k.key != "sandbox":
		e.notObeyed(k)
	case forbidden(k.key):
		d.wrong(k.at, p, e.name, "remove it; where a server runs is decided here", "a config cannot set %q", k.key)
	default:
		d.unknown(k, e.ptr, e.name, storedKeys(remote))
	}
}

func storedKeys(remote bool) []string {
	if remote {
		return []string{"type", "url", "headers", "auth", "timeout", "tools", "disabled"}
	}
	return []string{"type", "command", "args", "env", "cwd", "timeout", "tools", "disabled"}
}

// whole checks that an entry is a program or an address, and not both.
func (d *strict) whole(e *entry, s *schemas.Server, remote bool) {
	command, address := e.node.get("command"), e.node.get("url")
	switch {
	case command != nil && address != nil && !d.remote:
		d.wrong(e.url.at, e.url.ptr, e.name, "keep one of them", `there is both a "command" and a "url"`)
	case remote && address == nil:
		if nearMember(e.node, "url") {
			return
		}
		d.wrong(e.at, e.ptr, e.name, "", `"url" is missing`)
	case !remote && command == nil:
		if nearMember(e.node, "command") {
			return
		}
		d.wrong(e.at, e.ptr, e.name, "", `"command" is missing`)
	case !remote && command.is(textNode) && strings.TrimSpace(command.text) == "":
		d.wrong(command.at, e.ptr+"/command", e.name, "", `"command" must not be blank`)
	case remote && address.is(textNode):
		if !strings.HasPrefix(e.url.s, "https://") && !strings.HasPrefix(e.url.s, "http://") || len(e.url.s) < 9 || strings.ContainsAny(e.url.s, " \t\\") {
			d.wrong(e.url.at, e.url.ptr, e.name, "", `"url" must begin with http:// or https://`)
			return
		}
		if s.Type == "" {
			e.word = ""
			e.inferRemote(e.url.s)
			s.Type = schemas.Transport(e.word)
		}
	}
}

// nearMember reports whether a key was refused as a misspelling of this one.
func nearMember(n *node, key string) bool {
	return slices.ContainsFunc(n.members, func(m member) bool { return nearest(m.key, []string{key}) != "" })
}

// keep takes the values out and files the entry.
func (d *strict) keep(e *entry, s schemas.Server, remote, disabled bool) {
	if remote {
		e.word = string(s.Type)
		d.fillRemote(e, &s)
	} else {
		d.fillLocal(e, &s)
	}
	if d.problems != nil {
		return
	}
	if disabled {
		if d.out.Disabled == nil {
			d.out.Disabled = map[string]bool{}
		}
		d.out.Disabled[e.name] = true
	}
	if remote && !d.remote {
		d.note(schemas.NoteRemote, e.name, e.at, "not enabled: remote servers are added with /mcp connect")
		d.out.Remote = append(d.out.Remote, schemas.Draft{Server: s, Disabled: disabled})
		return
	}
	d.out.Servers = append(d.out.Servers, s)
}

func (d *strict) fillLocal(e *entry, s *schemas.Server) {
	e.shell = shellProgram(e.command.s)
	s.Command = d.command(e.name, e.command)
	for _, b := range e.env {
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[b.key] = d.fill(gap{server: e.name, where: "env " + b.key, id: inputID(b.key), secret: secretName(b.key), at: b.at, ptr: b.ptr}, b.s)
	}
	previous := ""
	for i, b := range e.args {
		in := gap{server: e.name, where: fmt.Sprintf("args %d", i+1), id: fmt.Sprintf("VALUE_%d", i+1), arg: true, shell: e.shell, at: b.at, ptr: b.ptr}
		s.Args = append(s.Args, d.fillArg(in, previous, b.s))
		previous = b.s
	}
	if e.cwd.s != "" {
		s.Cwd = d.fill(gap{server: e.name, where: "cwd", id: "CWD", arg: true, at: e.cwd.at, ptr: e.cwd.ptr}, e.cwd.s)
	}
}

func (d *strict) fillRemote(e *entry, s *schemas.Server) {
	s.URL = d.fill(gap{server: e.name, where: "url", id: "URL", url: true, at: e.url.at, ptr: e.url.ptr}, e.url.s)
	for _, b := range e.headers {
		if s.Headers == nil {
			s.Headers = map[string]string{}
		}
		s.Headers[b.key] = d.fill(gap{server: e.name, where: "header " + b.key, id: inputID(b.key), secret: secretName(b.key), at: b.at, ptr: b.ptr}, b.s)
	}
}

func (d *strict) transport(k member, p, server string, remote bool) schemas.Transport {
	t := d.text(k, p, server)
	ok, want := t == "stdio", `"stdio"`
	if remote {
		ok, want = t == "http" || t == "sse", `"http" or "sse"`
	}
	if !ok && k.value.kind == textNode {
		d.wrong(k.value.at, p, server, "", `"type" must be %s, not %s`, want, shownKey(t))
	}
	return schemas.Transport(t)
}

func (d *strict) timeout(k member, p, server string) int {
	ms, err := strconv.Atoi(k.value.text)
	switch {
	case k.value.kind != numberNode:
		d.wrong(k.value.at, p, server, "", `"timeout" must be a number, not %s`, k.value.kind)
	case err != nil || ms < 1000 || ms > 600_000:
		d.wrong(k.value.at, p, server, "", `"timeout" must be a whole number of milliseconds from 1000 to 600000`)
	}
	return ms
}

func (d *strict) tools(k member, p, server string) *schemas.ToolFilter {
	if k.value.kind != objectNode {
		d.wrong(k.value.at, p, server, `write {"include": ["…"]}`, `"tools" must be an object, not %s`, k.value.kind)
		return nil
	}
	f := &schemas.ToolFilter{}
	for _, m := range k.value.members {
		switch m.key {
		case "include":
			f.Include = d.list(m, p+"/include", server, 512)
		case "exclude":
			f.Exclude = d.list(m, p+"/exclude", server, 512)
		default:
			d.unknown(m, p, server, []string{"include", "exclude"})
		}
	}
	if len(f.Include)+len(f.Exclude) == 0 {
		return nil
	}
	return f
}

func (d *strict) auth(k member, p, server string) *schemas.Auth {
	if k.value.kind != objectNode {
		d.wrong(k.value.at, p, server, `write {"type": "oauth"}`, `"auth" must be an object, not %s`, k.value.kind)
		return nil
	}
	a := &schemas.Auth{}
	for _, m := range k.value.members {
		q := pointer(p, m.key)
		switch m.key {
		case "type":
			a.Type = d.text(m, q, server)
		case "clientId":
			a.ClientID = d.text(m, q, server)
		case "scopes":
			a.Scopes = d.list(m, q, server, 64)
		case "identity":
			if a.Identity = d.text(m, q, server); m.value.kind == textNode && !slices.Contains([]string{"requester", "lent", "thread"}, a.Identity) {
				d.wrong(m.value.at, q, server, "", `"identity" must be "requester", "lent" or "thread"`)
			}
		default:
			d.unknown(m, p, server, []string{"type", "clientId", "scopes", "identity"})
		}
	}
	if !slices.Contains([]string{"none", "header", "oauth"}, a.Type) {
		d.wrong(k.value.at, p+"/type", server, "", `the "type" of "auth" must be "none", "header" or "oauth"`)
	}
	return a
}

// pairs reads an object of texts.
func (d *strict) pairs(e *entry, k member, p string, header bool) []bit {
	if k.value.kind != objectNode {
		d.wrong(k.value.at, p, e.name, fmt.Sprintf(`write %q: {"NAME": "value"}`, k.key), "%q must be an object, not %s", k.key, k.value.kind)
		return nil
	}
	if len(k.value.members) > maxEnv {
		d.wrong(k.value.at, p, e.name, "", "%q has %d entries, the limit is %d", k.key, len(k.value.members), maxEnv)
		return nil
	}
	var out []bit
	for _, m := range k.value.members {
		q := pointer(p, m.key)
		b := bit{m.key, m.value.text, m.at, q}
		if m.value.kind != textNode {
			d.wrong(m.value.at, q, e.name, "write it in quotes", "%s %s must be text, not %s", k.key, shownKey(m.key), m.value.kind)
		} else if e.checkPair(b, k.key, header) {
			out = append(out, b)
		}
	}
	return out
}
