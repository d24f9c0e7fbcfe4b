package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// bit is a text with its place.
type bit struct {
	key string // of env and headers
	s   string
	at  int
	ptr string
}

// entry is one server while it is read.
type entry struct {
	*reader
	node     *node
	at       int
	ptr      string
	name     string
	title    string
	command  bit
	args     []bit
	env      []bit
	headers  []bit
	cwd, url bit
	word     string // transport as said
	typed    bool
	typeAt   int
	disabled bool
	timeout  int
	tools    schemas.ToolFilter
	auth     *schemas.Auth
	skip     string // why there is nothing to import
	misspelt bool
	shell    bool
	spent    []string // variables that went into another value
}

// bad is wrong with the entry's name.
func (e *entry) bad(at int, key, hint, format string, a ...any) {
	p := e.ptr
	if key != "" {
		p = pointer(p, key)
	}
	e.wrong(at, p, e.name, hint, format, a...)
}

func (e *entry) say(kind schemas.NoteKind, at int, format string, a ...any) {
	e.note(kind, e.name, at, format, a...)
}

// member reads one key of an entry.
func (e *entry) member(m member) {
	if meaningOf(m.key) == unknownKey {
		for _, k := range coreKeys() {
			if strings.EqualFold(m.key, k) && e.node.get(k) == nil {
				e.say(schemas.NoteMapped, m.at, "%s is read as %q", shownKey(m.key), k)
				m.key = k
			}
		}
	}
	v, p := m.value, pointer(e.ptr, m.key)
	switch meaningOf(m.key) {
	case commandKey:
		e.readCommand(m, p)
	case argsKey:
		e.args = append(e.args, e.texts(m, p, maxArgs, `write "args": ["…"]`)...)
	case envKey:
		e.env = append(e.env, e.pairs(m, p, false)...)
	case envNamesKey:
		e.envNames(m, p)
	case envFileKey:
		if strings.TrimSpace(v.str()) != "" {
			e.say(schemas.NoteIgnored, m.at, "%s %s is not read; give its values when you are asked", m.key, shownText(v.str()))
		}
	case cwdKey:
		e.cwd = e.one(m, p)
	case urlKey:
		if b := e.one(m, p); strings.TrimSpace(b.s) != "" && (e.url.s == "" || e.url.s == b.s) {
			e.url = b
		} else if strings.TrimSpace(b.s) != "" {
			e.bad(m.at, m.key, "keep one", "there are two addresses")
		}
	case headersKey:
		e.headers = append(e.headers, e.pairs(m, p, true)...)
	case envHeadersKey:
		for _, b := range e.pairs(m, p, true) {
			b.s = "${" + b.s + "}"
			e.headers = append(e.headers, b)
		}
	case bearerKey:
		if b := e.one(m, p); b.s != "" {
			e.headers = append(e.headers, bit{"Authorization", "Bearer ${" + b.s + "}", b.at, p})
		}
	case typeKey:
		e.readType(m, p)
	case requestKey:
		for _, o := range m.value.members {
			if meaningOf(o.key) == headersKey || meaningOf(o.key) == timeoutKey {
				e.member(o)
			}
		}
	case nameKey:
		// the name was taken before
	default:
		e.option(m, p)
	}
}

// option reads the keys beside what runs.
func (e *entry) option(m member, p string) {
	switch k := meaningOf(m.key); k {
	case disabledKey, enabledKey:
		e.disabled = e.disabled || e.flag(m) == (k == disabledKey)
	case timeoutKey, timeoutSecKey, timeoutMsKey:
		e.readTimeout(m, k)
	case includeKey, excludeKey, toolsKey:
		e.readTools(m, p, k)
	case authKey, scopesKey:
		e.readAuth(m)
	case notObeyedKey:
		e.notObeyed(m)
	case forbiddenKey:
		if m.key == "image" && e.node.get("command") == nil && e.node.get("url") == nil {
			e.misspelt = true
			e.bad(m.at, m.key, `write "command": "docker", "args": ["run", "-i", "--rm", "IMAGE"]`, "a container image alone is not started")
			return
		}
		if (m.key == "capabilities" || m.key == "volumes") && !confining(m.value) {
			e.say(schemas.NoteIgnored, m.at, "%s is ignored", m.key)
			return
		}
		e.bad(m.at, m.key, "remove it; where a server runs is decided here", "a config cannot set %q", m.key)
	case ignoredKey:
		if !quiet(m.key) && !(m.key == "config" && m.value.is(objectNode)) { // ownSettings tells about that
			e.ignored = append(e.ignored, unread{e.name, m.key, m.at})
		}
	default:
		e.unknown(m)
	}
}

// confining reports whether a value of capabilities or volumes would change the container.
func confining(v *node) bool {
	if v.kind == objectNode && len(v.members) > 0 && v.get("add") == nil {
		return false
	}
	if v.kind != listNode {
		return true
	}
	for _, i := range v.items {
		s := strings.ToUpper(i.str())
		if strings.ContainsAny(s, ":/") || strings.HasPrefix(s, "CAP_") || strings.HasPrefix(s, "SYS_") || strings.HasPrefix(s, "NET_") || s == "ALL" {
			return true
		}
	}
	return false
}

func (e *entry) unknown(m member) {
	if m.key == "envs" && e.format == "goose" {
		e.env = append(e.env, e.pairs(m, pointer(e.ptr, m.key), false)...)
		return
	}
	if serverLike(m.value) && (transportWord(m.key) != "" || m.key == "connection" || m.key == "launch" || m.key == "run") {
		for _, o := range m.value.members { // {"transport": "stdio", "stdio": {"command": …}}
			e.member(o)
		}
		return
	}
	if serverLike(m.value) {
		e.bad(m.at, m.key, `a "}" is missing before it`, "%s stands inside %s", shownKey(m.key), e.name)
		return
	}
	if near := nearest(m.key, coreKeys()); near != "" {
		e.misspelt = true
		e.bad(m.at, m.key, fmt.Sprintf("did you mean %q?", near), "unknown key %s", shownKey(m.key))
		return
	}
	if strings.HasPrefix(m.value.str(), "http") && (m.key == "link" || m.key == "address" || m.key == "href") {
		return // findAddress looks at it
	}
	if bearerName(m.key) && e.node.get("command") == nil && m.value.is(textNode) {
		e.bearer(m)
		return
	}
	if secretName(m.key) && m.value.is(textNode) && strings.TrimSpace(m.value.text) != "" && e.node.get("command") == nil {
		e.say(schemas.NoteIgnored, m.at, "%s is not taken over; how to sign in is asked at connect", shownKey(m.key))
		return
	}
	if secretName(m.key) && m.value.is(textNode) && strings.TrimSpace(m.value.text) != "" {
		e.say(schemas.NoteIgnored, m.at, "%s is not taken over; give the secret when you are asked", shownKey(m.key))
		return
	}
	if !quiet(m.key) {
		e.ignored = append(e.ignored, unread{e.name, m.key, m.at})
	}
}

// one reads a text.
func (e *entry) one(m member, p string) bit {
	if m.value.kind == nullNode {
		return bit{}
	}
	if m.value.kind != textNode {
		e.wrong(m.value.at, p, e.name, "", "%q must be text, not %s", m.key, m.value.kind)
		return bit{}
	}
	if len(m.value.text) > maxArg {
		e.wrong(m.value.at, p, e.name, "", "%q is longer than %d KiB", m.key, maxArg>>10)
		return bit{}
	}
	return bit{m.key, m.value.text, m.value.at, p}
}

// texts reads a list of texts.
func (e *entry) texts(m member, p string, limit int, hint string) []bit {
	if m.value.kind == nullNode {
		return nil
	}
	if m.value.kind != listNode {
		if list, ok := shellWords(m.value.str()); ok && plainWords(list) {
			b, _ := json.Marshal(list)
			hint = fmt.Sprintf("write %q: %s", m.key, strings.ReplaceAll(string(b), `","`, `", "`))
		}
		e.wrong(m.value.at, p, e.name, hint, "%q must be a list, not %s", m.key, m.value.kind)
		return nil
	}
	if len(m.value.items) > limit {
		e.wrong(m.value.at, p, e.name, "", "%q has %d items, the limit is %d", m.key, len(m.value.items), limit)
		return nil
	}
	var out []bit
	for i, v := range m.value.items {
		at := fmt.Sprintf("%s/%d", p, i)
		switch {
		case v.kind == numberNode && !badNumber(v.text), v.kind == boolNode:
			e.say(schemas.NoteMapped, v.at, "%s %d was %s; it is passed as text", m.key, i+1, v.kind)
		case v.kind != textNode:
			e.wrong(v.at, at, e.name, "write it in quotes", "%s %d must be text, not %s", m.key, i+1, v.kind)
			continue
		case len(v.text) > maxArg:
			e.wrong(v.at, at, e.name, "", "%s %d is longer than %d KiB", m.key, i+1, maxArg>>10)
		case strings.ContainsAny(v.text, "\x00\b\f\v\x1b"):
			e.wrong(v.at, at, e.name, `write \\ for a backslash`, "%s %d holds a control character", m.key, i+1)
		}
		out = append(out, bit{"", v.text, v.at, at})
	}
	return out
}

// plainWords reports whether a list may be shown: short, without anything that looks like a secret or names one.
func plainWords(list []string) bool {
	return len(strings.Join(list, " ")) <= 80 && !slices.ContainsFunc(list, func(w string) bool {
		return hasSecret(w) || secretName(w) || strings.ContainsAny(w, "@=") && !strings.HasPrefix(w, "@") || w == "-p" || w == "-u"
	})
}

// bearerName reports whether a key beside an address holds a bearer token.
func bearerName(key string) bool {
	switch plain(key) {
	case "authtoken", "bearertoken", "bearer", "accesstoken", "token", "authorizationtoken":
		return true
	}
	return false
}

// bearer turns a token beside an address into the header that it is sent in.
func (e *entry) bearer(m member) {
	s := strings.TrimSpace(m.value.text)
	if s == "" || slices.ContainsFunc(e.node.get("headers").membersOf(), func(h member) bool { return strings.EqualFold(h.key, "authorization") }) {
		e.say(schemas.NoteIgnored, m.at, "%s is ignored", shownKey(m.key))
		return
	}
	if !scheme().MatchString(s) {
		s = "Bearer " + s
	}
	b := bit{"Authorization", s, m.at, pointer(e.ptr, m.key)}
	if e.checkPair(b, m.key, true) {
		e.headers = append(e.headers, b)
		e.say(schemas.NoteMapped, m.at, "%s is sent as the header Authorization", shownKey(m.key))
	}
}

var (
	simpleWord = lazy.Regexp(`^[\w@./-]{1,40}\.(?:js|py|ts|mjs|sh)$`)
	envName    = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName = lazy.Regexp("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
)

// pairs reads env or headers: an object, or a list of "K=V", "K: V", names or {name, value}.
func (e *entry) pairs(m member, p string, header bool) []bit {
	var out []bit
	if m.value.kind == listNode {
		for i, v := range m.value.items {
			out = append(out, e.pair(v, fmt.Sprintf("%s/%d", p, i), m.key, header)...)
		}
	} else if m.value.kind == objectNode {
		for _, kv := range m.value.members {
			if b, ok := e.value(kv, pointer(p, kv.key), m.key); ok {
				out = append(out, b)
			}
		}
	} else if m.value.kind != nullNode && (m.value.kind != textNode || strings.TrimSpace(m.value.text) != "") {
		e.wrong(m.value.at, p, e.name, fmt.Sprintf(`write %q: {"NAME": "value"}`, m.key), "%q must be an object, not %s", m.key, m.value.kind)
	}
	if len(out) > maxEnv {
		e.wrong(m.value.at, p, e.name, "", "%q has %d entries, the limit is %d", m.key, len(out), maxEnv)
		return nil
	}
	return slices.DeleteFunc(out, func(b bit) bool { return !e.checkPair(b, m.key, header) })
}

// pair reads one item of a list form.
func (e *entry) pair(v *node, p, key string, header bool) []bit {
	if v.kind == objectNode {
		name := v.get("name").str()
		if name == "" {
			name = v.get("key").str()
		}
		if b, ok := e.value(member{name, v.at, v.get("value")}, p, key); ok && name != "" {
			return []bit{b}
		}
	}
	sep := "="
	if header {
		sep = ":"
	}
	name, value, ok := strings.Cut(v.str(), sep)
	if !ok && header { // codex mcp add --header NAME=value
		name, value, ok = strings.Cut(v.str(), "=")
	}
	switch {
	case v.kind != textNode:
		e.wrong(v.at, p, e.name, "", "an item of %q must be text, not %s", key, v.kind)
		return nil
	case !ok && header:
		e.wrong(v.at, p, e.name, `write "Name: value"`, "an item of %q has no \":\"", key)
		return nil
	case !ok:
		return []bit{{strings.TrimSpace(name), "${" + strings.TrimSpace(name) + "}", v.at, p}}
	}
	return []bit{{strings.TrimSpace(name), strings.TrimSpace(value), v.at, p}}
}

// value reads one value of env or headers as text.
func (e *entry) value(kv member, p, key string) (bit, bool) {
	b := bit{kv.key, "", kv.at, p}
	switch {
	case kv.value == nil || kv.value.kind == nullNode:
		e.say(schemas.NoteMapped, kv.at, "%s %s is null, so it stays unset", key, shownKey(kv.key))
		return b, false
	case kv.value.kind == textNode:
		b.s = kv.value.text
	case kv.value.kind == numberNode && !badNumber(kv.value.text), kv.value.kind == boolNode:
		b.s = kv.value.text
		e.say(schemas.NoteMapped, kv.at, "%s %s was %s; it is passed as text", key, shownKey(kv.key), kv.value.kind)
	default:
		e.wrong(kv.value.at, p, e.name, "write it in quotes", "%s %s must be text, not %s", key, shownKey(kv.key), kv.value.kind)
		return b, false
	}
	return b, true
}

// checkPair holds the rules for names and values of env (POSIX) and headers (RFC 9110, section 5).
func (e *entry) checkPair(b bit, key string, header bool) bool {
	switch {
	case header && !headerName().MatchString(b.key):
		e.wrong(b.at, b.ptr, e.name, "", "%s is no header name", shownKey(b.key))
	case header && ownHeader(b.key) && !e.stored:
		e.say(schemas.NoteIgnored, b.at, "the header %s is set by itself; it is left out", b.key)
	case header && ownHeader(b.key):
		e.wrong(b.at, b.ptr, e.name, "remove it; it is set by itself", "a config cannot set the header %q", b.key)
	case header && strings.ContainsAny(b.s, "\r\n\x00"):
		e.wrong(b.at, b.ptr, e.name, "", "the header %q has a line break in its value", b.key)
	case !header && !envName().MatchString(b.key):
		e.wrong(b.at, b.ptr, e.name, "use letters, digits and _", "%s is no name for a variable in %q", shownKey(b.key), key)
	case !header && strings.Contains(b.s, "\x00"):
		e.wrong(b.at, b.ptr, e.name, "", "%s %q holds a control character", key, b.key)
	case len(b.s) > maxArg:
		e.wrong(b.at, b.ptr, e.name, "", "%s %s is longer than %d KiB", key, shownKey(b.key), maxArg>>10)
	default:
		return true
	}
	return false
}

// ownHeader reports whether a header belongs to the client's own connection.
func ownHeader(name string) bool {
	return slices.Contains([]string{"host", "content-length", "transfer-encoding", "connection", "mcp-session-id", "upgrade", "te", "trailer", "keep-alive", "proxy-connection"}, strings.ToLower(name))
}

// envNames reads names of variables that the client passes on from its own environment.
func (e *entry) envNames(m member, p string) {
	if m.value.kind != listNode {
		e.say(schemas.NoteIgnored, m.at, "%s is ignored", m.key)
		return
	}
	for _, b := range e.pairs(m, p, false) {
		if machineVariable(b.key) || slices.ContainsFunc(e.env, func(o bit) bool { return o.key == b.key }) {
			continue
		}
		e.env = append(e.env, b)
	}
}
