package config

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// container is an object or list that holds server entries.
type container struct {
	key    string // as written, "" for a bare map
	node   *node
	at     int
	ptr    string
	near   bool // the key is misspelt
	single bool // node itself is the one server
	off    bool // its key says that these are switched off
}

// plain folds a key so that mcpServers, mcp_servers and MCP-Servers are one.
func plain(key string) string {
	return strings.ToLower(strings.Map(func(c rune) rune {
		if strings.ContainsRune("_-. ", c) {
			return -1
		}
		return c
	}, key))
}

// containerKey tells whether servers stand under a key: by its name alone (sure), or only if the shape fits.
func containerKey(key string) (sure, maybe, near bool) {
	switch p := plain(key); {
	case p == "mcpservers", p == "contextservers", p == "modelcontextprotocolservers", strings.HasSuffix(p, "mcpservers"):
		return true, true, key != "mcpServers" && key != "mcp_servers" && key != "context_servers" && p == "mcpservers"
	case p == "servers", p == "mcp", p == "extensions", p == "mcpserver", p == "server", p == "connectors", p == "mcps", p == "modelcontextprotocol", p == "mcpserverconfigs":
		return false, true, p == "mcpserver"
	case len(p) > 7 && levenshtein.ComputeDistance(p, "mcpservers") <= 2:
		return false, true, true
	}
	return false, false, false
}

// serverLike reports whether an object has what starts or reaches a server.
func serverLike(n *node) bool {
	if !n.is(objectNode) || n.get("type").str() == "command" {
		return false // a hook or status line of an editor
	}
	for _, m := range n.members {
		switch m.key {
		case "command", "cmd":
			if m.value.kind == textNode || m.value.kind == listNode || serverLike(m.value) || m.value.get("path") != nil {
				return true
			}
		case "url", "serverUrl", "server_url", "httpUrl", "http_url", "sseUrl", "serverURL", "endpoint", "uri", "baseUrl":
			if s := m.value.str(); strings.Contains(s, "://") || s != "" && strings.IndexByte("$<{", s[0]) >= 0 {
				return true
			}
		case "stdio", "http", "sse", "streamable_http", "streamableHttp", "connection", "launch", "run", "transport":
			if m.value.is(objectNode) && (m.value.get("command").is(textNode) || strings.Contains(m.value.get("url").str(), "://")) {
				return true
			}
		case "mcp_config":
			return true
		}
	}
	return n.get("type") != nil && transportWord(n.get("type").str()) != "" && (n.get("args") != nil || n.get("uri") != nil || n.get("url").is(textNode))
}

// anyServer reports whether some member or item looks like a server.
func anyServer(n *node) bool {
	switch {
	case n.is(objectNode):
		for _, m := range n.members {
			if serverLike(m.value) {
				return true
			}
		}
	case n.is(listNode):
		for _, i := range n.items {
			if (serverLike(i) && nameOf(i) != "") || registryLike(i) || registryLike(i.get("server")) {
				return true
			}
		}
	}
	return false
}

// registryLike reports whether an object is a server.json of the MCP registry.
func registryLike(n *node) bool {
	if !n.is(objectNode) || n.get("name").str() == "" {
		return false
	}
	p, r := n.get("packages"), n.get("remotes")
	return p.is(listNode) && len(p.items) > 0 && p.items[0].is(objectNode) || r.is(listNode) && len(r.items) > 0 && r.items[0].get("url") != nil
}

// containers finds every place that holds servers, outermost first.
func containers(root *node) []container {
	if root.is(listNode) {
		if anyServer(root) {
			return []container{{node: root, at: root.at}}
		}
		var out []container
		for _, i := range root.items {
			out = append(out, containers(i)...)
		}
		return out
	}
	if !root.is(objectNode) {
		return nil
	}
	if registryLike(root) || root.get("server").get("mcp_config") != nil {
		return []container{{node: root, at: root.at, single: true}}
	}
	var out []container
	if root.get("openapi") == nil && root.get("swagger") == nil {
		search(root, "", 0, &out)
	}
	if len(out) > 0 {
		return out
	}
	switch {
	case serverLike(root) && mostlyServer(root), singleByKeys(root):
		return []container{{node: root, at: root.at, single: true}}
	case registryLike(root.get("server")):
		return []container{{node: root.get("server"), at: root.at, single: true}}
	case bareMap(root):
		return []container{{node: root, at: root.at}}
	}
	if out = transportLists(root); len(out) > 0 {
		return out
	}
	return deeper(root, "", 0)
}

// transportLists finds lists under any key whose items all have a name and a transport of MCP as an object of its own.
func transportLists(root *node) (out []container) {
	for _, m := range root.members {
		strange := func(i *node) bool {
			return nameOf(i) == "" || !serverLike(i.get("stdio")) && !serverLike(i.get("sse")) && !serverLike(i.get("streamableHttp")) && !serverLike(i.get("streamable_http"))
		}
		if items := m.value.itemsOf(); m.value.is(listNode) && len(items) > 0 && !foreignSection(m.key) && !slices.ContainsFunc(items, strange) {
			out = append(out, container{key: m.key, node: m.value, at: m.at, ptr: pointer("", m.key), near: true})
		}
	}
	return out
}

// mostlyServer reports whether an object with an address has more keys of a server than others.
func mostlyServer(n *node) bool {
	known, other := 0, 0
	for _, m := range n.members {
		if meaningOf(m.key) == unknownKey {
			other++
		} else {
			known++
		}
	}
	return n.get("command") != nil || n.get("cmd") != nil || known >= other
}

// singleByKeys reports whether an object is one server with a mistake in it.
func singleByKeys(n *node) bool {
	return n.get("args").is(listNode) || n.get("command") != nil || n.get("env").is(objectNode) && n.get("name") != nil || misspeltCommand(n)
}

// bareMap reports whether an object maps names to servers and holds little else.
func bareMap(n *node) bool {
	servers, other := 0, 0
	for _, m := range n.members {
		switch {
		case serverLike(m.value) && !foreignSection(m.key):
			servers++
		case m.value.kind == objectNode && looksMeant(m.value):
		case m.key != "$schema" && m.key != "inputs" && !ignored(m.key):
			other++
		}
	}
	return servers > other || nearServers(n)
}

// foreignSection reports whether a section of a settings file starts programs that are no MCP servers.
func foreignSection(key string) bool {
	switch plain(key) {
	case "lsp", "languageservers", "languageserver", "formatter", "formatters", "hooks", "tasks", "dap", "debug", "statusline", "scripts", "launch", "commands", "linters", "acp", "agentservers":
		return true
	}
	return false
}

// nearServers reports whether every member is an object that could be a server with a mistake in it.
func nearServers(n *node) bool {
	for _, m := range n.members {
		if m.key == "$schema" {
			continue
		}
		if !m.value.is(objectNode) || !(m.value.get("args") != nil || m.value.get("command") != nil || misspeltCommand(m.value)) {
			return false
		}
	}
	return len(n.members) > 0
}

func misspeltCommand(n *node) bool {
	for _, m := range n.members {
		if m.key != "command" && m.value.is(textNode) && levenshtein.ComputeDistance(strings.ToLower(m.key), "command") <= 2 {
			return true
		}
	}
	return false
}

// offKey reports whether the key of a container says that its servers are not in use.
func offKey(key string) bool {
	p := plain(key)
	for _, w := range []string{"disabled", "inactive", "unused", "archived", "paused", "backup", "optional", "example"} {
		if strings.Contains(p, w) {
			return true
		}
	}
	return strings.TrimLeft(key, "_/#") != key
}

const searchDepth = 6

// search collects containers by the names of their keys.
func search(n *node, ptr string, depth int, out *[]container) {
	for _, m := range n.members {
		p := pointer(ptr, m.key)
		v := m.value
		if foreignSection(m.key) {
			continue
		}
		if v.kind != objectNode && v.kind != listNode {
			if p := plain(m.key); (p == "mcpservers" || p == "contextservers") && depth == 0 {
				*out = append(*out, container{key: m.key, node: v, at: m.at, ptr: p})
			}
			continue
		}
		sure, maybe, near := containerKey(m.key)
		inner := v.get("servers")
		switch {
		case maybe && !sure && (inner.is(objectNode) || inner.is(listNode)) && !serverLike(inner):
			search(v, p, depth+1, out)
		case sure && len(v.members) == 1 && inner.is(objectNode) && anyServer(inner):
			search(v, p, depth+1, out)
		case sure || maybe && (anyServer(v) || nearServers(v)):
			if off := offKey(m.key); !off || anyServer(v) {
				*out = append(*out, container{key: m.key, node: v, at: m.at, ptr: p, near: near && !off, off: off})
			}
		case maybe && serverLike(v) && m.key != "server":
			*out = append(*out, container{key: m.key, node: v, at: m.at, ptr: p, single: true})
		case v.kind == objectNode && depth < searchDepth && !serverLike(v):
			search(v, p, depth+1, out)
		}
	}
}

// deeper looks for a bare map of servers below unknown keys.
func deeper(n *node, ptr string, depth int) []container {
	for _, m := range n.members {
		if !m.value.is(objectNode) || depth >= searchDepth || foreignSection(m.key) {
			continue
		}
		p := pointer(ptr, m.key)
		count := 0
		for _, e := range m.value.members {
			if serverLike(e.value) {
				count++
			}
		}
		if count > 0 && count == len(m.value.members) && strings.Contains(plain(p), "mcp") {
			return []container{{key: m.key, node: m.value, at: m.at, ptr: p, near: true}}
		}
		if found := deeper(m.value, p, depth+1); found != nil {
			return found
		}
	}
	return nil
}
