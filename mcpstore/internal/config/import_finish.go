package config

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"bobbin/schemas"
)

// readEntry reads one server object.
func (r *reader) readEntry(n *node, rawName string, at int, ptr string) {
	name, title, ok := r.claim(rawName, at, ptr)
	e := &entry{reader: r, node: n, at: at, ptr: ptr, name: name, title: title, disabled: r.off}
	if !ok {
		e.name = shown(rawName)
	}
	seen := map[string]bool{}
	for _, m := range n.members {
		if !seen[m.key] {
			e.member(m)
		}
		seen[m.key] = true
	}
	if e.finish() && ok {
		r.keep(e)
	}
}

// readCommand reads a command: text, a list, or an object of Zed's older form.
func (e *entry) readCommand(m member, p string) {
	switch m.value.kind {
	case listNode:
		all := e.texts(m, p, maxArgs+1, "")
		if len(all) > 0 {
			e.command, e.args = all[0], append(all[1:], e.args...)
		}
	case objectNode:
		for _, c := range m.value.members {
			q := pointer(p, c.key)
			switch c.key {
			case "path", "command":
				e.command = e.one(c, q)
			case "args":
				e.args = append(e.args, e.texts(c, q, maxArgs, "")...)
			case "env":
				e.env = append(e.env, e.pairs(c, q, false)...)
			default:
				e.member(c)
			}
		}
		if e.command.s == "" && len(e.args) > 0 {
			e.command, e.args = e.args[0], e.args[1:]
		}
	default:
		e.command = e.one(m, p)
	}
}

// readType reads the transport's word.
func (e *entry) readType(m member, p string) {
	v := m.value
	if v.is(objectNode) && v.get("type") != nil {
		for _, t := range v.members {
			e.member(t)
		}
		return
	}
	b := e.one(m, p)
	if strings.TrimSpace(b.s) == "" {
		return
	}
	switch w := transportWord(b.s); w {
	case "":
		if strings.ContainsAny(b.s, "${<") {
			e.say(schemas.NoteIgnored, m.at, "%s is a placeholder; the transport follows from the rest", m.key)
			return
		}
		e.wrong(v.at, p, e.name, "", `%q must be "stdio", "http" or "sse", not %s`, m.key, shownKey(b.s))
		e.typed = true
	case "skip":
		e.skip = b.s
	default:
		e.word, e.typed, e.typeAt = w, strings.EqualFold(b.s, w), v.at
	}
}

// finish decides what kind of server it is; false means that nothing is to be kept.
func (e *entry) finish() bool {
	e.splitCommand()
	e.findAddress()
	command, address := strings.TrimSpace(e.command.s), strings.TrimSpace(e.url.s)
	switch {
	case e.misspelt && command == "" && address == "":
		return false
	case command == "" && address == "" && (e.skip != "" || onlySwitches(e.node)):
		e.say(schemas.NoteIgnored, e.at, "%s names a part of the other client, nothing to start; it is left out", shownKey(e.name))
		return false
	case command != "" && address != "":
		e.bad(e.url.at, e.url.key, "keep one of them", `there is both a "command" and a "url"`)
		return false
	case command == "" && address == "":
		hint := `add "command" for a program or "url" for a remote server`
		if e.node.get("command") != nil || e.node.get("url") != nil {
			hint = "fill it in"
		}
		e.bad(e.at, "", hint, `there is neither a "command" nor a "url"`)
		return false
	case command != "":
		e.unwrap()
		if e.toRemote() {
			return e.checkURL()
		}
		if e.word == "http" || e.word == "sse" || e.word == "ws" {
			e.note(schemas.NoteMapped, e.name, e.typeAt, "the type says %s, but a command is started; it is read as stdio", e.word)
		}
		e.word = "stdio"
		return true
	}
	return e.checkURL()
}

// findAddress takes an address from a key that no client knows, if there is nothing else.
func (e *entry) findAddress() {
	if strings.TrimSpace(e.command.s+e.url.s) != "" || e.misspelt {
		return
	}
	for _, m := range e.node.members {
		if s := m.value.str(); (m.key == "link" || m.key == "address" || m.key == "href") && strings.HasPrefix(s, "http") && !strings.HasSuffix(s, ".git") {
			e.url = e.one(m, pointer(e.ptr, m.key))
			e.say(schemas.NoteMapped, m.at, "%q is read as the address", m.key)
			return
		}
	}
}

// onlySwitches reports whether an object only turns something on or off that is defined elsewhere.
func onlySwitches(n *node) bool {
	for _, m := range n.members {
		switch meaningOf(m.key) {
		case disabledKey, enabledKey, notObeyedKey, toolsKey, includeKey, excludeKey, ignoredKey, nameKey, timeoutKey:
		default:
			return m.key == "settings"
		}
	}
	return len(n.members) > 0
}

// checkURL holds the rules for an address.
func (e *entry) checkURL() bool {
	u := strings.TrimSpace(e.url.s)
	e.url.s = u
	if head, _, ok := strings.Cut(u, ":"); ok && len(head) < 12 {
		switch strings.ToLower(head) {
		case "unix", "pipe", "npipe":
			e.leave(e.url, "give an http(s) address", "sockets and pipes cannot be reached from here")
			return false
		case "ws", "wss":
			e.word = "ws"
		case "http", "https":
		default:
			if !strings.HasPrefix(u, "$") && !strings.Contains(u, "://") && !strings.HasPrefix(u, "<") {
				u = guessScheme(u)
			} else if strings.Contains(u, "://") && !strings.HasPrefix(u, "$") && !strings.HasPrefix(u, "<") && !strings.HasPrefix(u, "{") {
				e.wrong(e.url.at, e.url.ptr, e.name, "", `%q must begin with http:// or https://`, e.url.key)
				return false
			}
		}
	} else if !ok && strings.Contains(u, ".") && !strings.ContainsAny(u, " ${<") {
		u = guessScheme(u)
	}
	if u != e.url.s {
		e.say(schemas.NoteMapped, e.url.at, "the address has no scheme; it is read as %s…", strings.SplitAfter(u, "//")[0])
		e.url.s = u
	}
	if e.word == "ws" {
		e.leave(e.url, `ask its maker for an "http" address`, "WebSocket is no transport of MCP")
		return false
	}
	filled := references().ReplaceAllString(u, "x")
	if p, err := url.Parse(filled); err != nil || strings.ContainsAny(u, "\r\n\t\\") || strings.Contains(filled, "://") && p.Host == "" {
		e.wrong(e.url.at, e.url.ptr, e.name, "", "%q is no address", e.url.key)
		return false
	}
	e.inferRemote(u)
	return true
}

// leave leaves out a server that cannot be used here. That is no mistake of the file, unless nothing else is in it.
func (e *entry) leave(b bit, hint, text string) {
	line, col := e.src.place(b.at)
	e.left = append(e.left, schemas.Problem{File: e.src.name, Line: line, Col: col, Pointer: visible(b.ptr), Server: e.name, Text: text, Hint: hint, Excerpt: e.src.excerpt(line)})
	e.say(schemas.NoteOther, b.at, "%s; it is left out", text)
}

// inferRemote tells sse from http where the type leaves it open.
func (e *entry) inferRemote(u string) {
	path, _, _ := strings.Cut(u, "?")
	path = strings.TrimRight(path, "/")
	switch {
	case e.word == "stdio":
		e.note(schemas.NoteMapped, e.name, e.typeAt, "the type says stdio, but there is an address; it is read as remote")
		fallthrough
	case e.word == "" || e.word == "http" && !e.typed:
		e.word = "http"
		if strings.HasSuffix(path, "/sse") && e.url.key != "httpUrl" && e.url.key != "http_url" {
			e.word = "sse"
		}
	}
	if e.url.key == "sseUrl" || e.url.key == "sse_url" {
		e.word = "sse"
	}
}

func guessScheme(u string) string {
	if strings.HasPrefix(u, "localhost") || strings.HasPrefix(u, "127.") || strings.HasPrefix(u, "[::1]") || strings.HasPrefix(u, "host.docker.internal") {
		return "http://" + u
	}
	return "https://" + u
}

// keep turns an entry into a draft: values are taken out, remarks are made.
func (r *reader) keep(e *entry) {
	s := schemas.Server{Name: e.name, Timeout: e.timeout}
	if len(e.tools.Include)+len(e.tools.Exclude) > 0 {
		t := e.tools
		s.Tools = &t
	}
	e.ownSettings()
	if e.word == "stdio" {
		if e.typed {
			s.Type = schemas.Stdio
		}
		r.keepLocal(e, &s)
	} else {
		s.Type = schemas.Transport(e.word)
		r.keepRemote(e, &s)
	}
	for i, d := range r.drafts {
		if e.title != "" && r.copyOf(d, s, e.title) {
			r.note(schemas.NoteMapped, d.Server.Name, e.at, "%s stands in the file more than once with the same content", r.drafts[i].Server.Name)
			r.notes = dropRenamed(r.notes, e.name)
			r.ignored = slices.DeleteFunc(r.ignored, func(g unread) bool { return g.server == e.name })
			delete(r.names, strings.ToLower(e.name))
			return
		}
	}
	r.drafts = append(r.drafts, schemas.Draft{Server: s, Title: e.title, Disabled: e.disabled})
}

// copyOf reports whether s is the same server as an earlier one, but for its name.
func (r *reader) copyOf(d schemas.Draft, s schemas.Server, title string) bool {
	if d.Server.Name != title && d.Title != title {
		return false
	}
	s.Name = d.Server.Name
	return d.Server.Equal(s)
}

func dropRenamed(notes []schemas.Note, server string) []schemas.Note {
	var out []schemas.Note
	for _, n := range notes {
		if n.Server != server {
			out = append(out, n)
		}
	}
	return out
}

func (r *reader) keepLocal(e *entry, s *schemas.Server) {
	e.shell = shellProgram(e.command.s)
	e.plainLauncher()
	r.up = upFrom(e.cwd.s)
	s.Command = r.command(e.name, e.command)
	e.passedOn()
	r.fillEnv(e, s)
	r.fillArgs(e, s)
	e.local(s.Command)
	e.pathNotes(s)
	if c := strings.TrimSpace(e.cwd.s); c != "" {
		s.Cwd = r.fill(gap{server: e.name, where: "cwd", id: "CWD", arg: true, at: e.cwd.at, ptr: e.cwd.ptr}, c)
		e.pathNote(s.Cwd, "cwd", e.cwd.at)
	}
	r.up = ""
	if len(e.headers) > 0 {
		e.say(schemas.NoteIgnored, e.headers[0].at, "headers mean nothing beside a command and are ignored")
	}
}

// upFrom gives the way from a working folder inside the workspace up to it: .. for ${workspaceFolder}/src. A relative path is
// taken from the working folder.
func upFrom(cwd string) string {
	cwd = strings.ReplaceAll(strings.TrimSpace(cwd), `\`, "/")
	if v := references().FindString(cwd); v != "" && strings.HasPrefix(cwd, v) && workspaceVariable(strings.Trim(v, "${}% ")) {
		cwd = "." + strings.TrimPrefix(cwd, v)
	}
	dir := path.Clean(cwd)
	if cwd == "" || dir == "." || strings.HasPrefix(dir, "..") || strings.HasPrefix(dir, "/") || strings.ContainsAny(dir, "$%~<{:") {
		return ""
	}
	return strings.TrimSuffix(strings.Repeat("../", strings.Count(dir, "/")+1), "/")
}

// plainLauncher reads ${HOME}/.local/bin/uvx as uvx: the folder is one of the author's, the program is everybody's.
func (e *entry) plainLauncher() {
	c := strings.TrimSpace(e.command.s)
	if p := program(c); p != c && launcher(p) && !shellProgram(c) && strings.ContainsAny(c, "$%~") && !strings.Contains(c, "input:") && !strings.Contains(strings.ToLower(c), "workspace") {
		e.say(schemas.NoteMapped, e.command.at, "the command %s is read as %s", shownText(c), p)
		e.command.s = p
	}
}

func (r *reader) fillEnv(e *entry, s *schemas.Server) {
	for _, b := range e.env {
		v := strings.TrimSpace(b.s)
		if machineVariable(b.key) && (v == "" || strings.EqualFold(strings.Trim(v, "${}%env:"), b.key) || references().FindString(v) == v && machineVariable(strings.TrimPrefix(strings.Trim(v, "${}%"), "env:"))) {
			r.note(schemas.NoteMapped, e.name, b.at, "env %s passes on a setting of one machine; it is left out", b.key)
			continue
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		if loaderVariable(b.key) {
			r.note(schemas.NoteRisk, e.name, b.at, "env %s changes which code runs or where its traffic goes", b.key)
		}
		s.Env[b.key] = r.fill(gap{server: e.name, where: "env " + b.key, id: inputID(b.key), secret: secretName(b.key), at: b.at, ptr: b.ptr}, b.s)
		if !loaderVariable(b.key) || !machineVariable(b.key) { // said by the risk
			e.pathNote(s.Env[b.key], "env "+b.key, b.at)
		}
	}
}

func (r *reader) keepRemote(e *entry, s *schemas.Server) {
	s.URL = r.fill(gap{server: e.name, where: "url", id: "URL", url: true, at: e.url.at, ptr: e.url.ptr}, e.url.s)
	for _, b := range e.headers {
		if s.Headers == nil {
			s.Headers = map[string]string{}
		}
		s.Headers[b.key] = r.fill(gap{server: e.name, where: "header " + b.key, id: inputID(b.key), secret: secretName(b.key), at: b.at, ptr: b.ptr}, b.s)
	}
	if e.auth != nil {
		s.Auth = e.auth
	}
	if len(e.env) > 0 && e.command.s == "" {
		e.say(schemas.NoteIgnored, e.env[0].at, "env means nothing for a remote server and is ignored")
	}
	if e.command.s == "" && len(e.args) > 0 {
		e.say(schemas.NoteIgnored, e.args[0].at, "args mean nothing for a remote server and are ignored")
	}
	if e.command.s == "" && e.cwd.s != "" {
		e.say(schemas.NoteIgnored, e.cwd.at, "cwd means nothing for a remote server and is ignored")
	}
	r.note(schemas.NoteRemote, e.name, e.url.at, "not enabled: remote servers are added with /mcp connect")
}
