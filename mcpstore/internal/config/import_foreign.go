package config

import (
	"fmt"
	"strings"

	"bobbin/schemas"
)

// field reads a member of a registry object in its camel or snake spelling.
func field(n *node, camel, snake string) *node {
	if v := n.get(camel); v != nil {
		return v
	}
	return n.get(snake)
}

func isTrue(n *node) bool { return n.is(boolNode) && n.text == "true" }

// readRegistry reads a server.json of the MCP registry: its first package that can be started, else its first remote.
func (r *reader) readRegistry(n *node, ptr string) {
	name, title, ok := r.claim(n.get("name").str(), n.at, pointer(ptr, "name"))
	if !ok {
		return
	}
	e := &entry{reader: r, node: n, at: n.at, ptr: ptr, name: name, title: title, typed: true}
	for _, p := range n.get("packages").itemsOf() {
		if e.registryPackage(p) {
			break
		}
	}
	if e.command.s == "" {
		for i, rem := range n.get("remotes").itemsOf() {
			e.registryRemote(rem, fmt.Sprintf("%s/remotes/%d", ptr, i))
			break
		}
	} else if len(n.get("remotes").itemsOf()) > 0 {
		e.say(schemas.NoteOther, n.at, "it can be reached by URL, too; the package is taken")
	}
	why, before := "", len(e.packages)
	if e.url.s == "" {
		why = e.suggest(n.get("packages").itemsOf())
	}
	if e.command.s == "" && e.url.s == "" {
		if len(e.packages) == before {
			e.leave(bit{"", "", n.at, ptr}, "npm, pypi, oci and nuget packages, bundles and remotes can be used",
				strings.TrimSuffix("no package of this entry can be started here: "+why, ": "))
		}
		return
	}
	if e.finish() {
		r.keep(e)
	}
}

// registryPackage sets the command of a package; false when its kind is not known.
func (e *entry) registryPackage(p *node) bool {
	id, version := firstText(p, "identifier", "name"), p.get("version").str()
	at := p.at
	add := func(words ...string) {
		for _, w := range words {
			e.args = append(e.args, bit{"", w, at, e.ptr})
		}
	}
	pinned := func(sep string) string {
		if version == "" || version == "latest" || strings.Contains(id, sep+version) {
			return id
		}
		return id + sep + version
	}
	kind := field(p, "registryType", "registry_type").str()
	if kind == "" {
		kind = field(p, "registryName", "registry_name").str()
	}
	command := map[string]string{"npm": "npx", "pypi": "uvx", "oci": "docker", "docker": "docker", "nuget": "dnx"}[kind]
	if command == "" || id == "" || transportWord(p.get("transport").get("type").str()) == "http" && kind != "oci" && len(e.node.get("remotes").itemsOf()) > 0 {
		return false
	}
	if hint := field(p, "runtimeHint", "runtime_hint").str(); launcher(hint) {
		command = hint
	}
	e.command = bit{"command", command, at, e.ptr}
	runtime := field(p, "runtimeArguments", "runtime_arguments").itemsOf()
	switch command {
	case "docker", "podman":
		add("run", "-i", "--rm")
		bare, _, _ := strings.Cut(id, "@")
		if i := strings.LastIndex(bare, ":"); i > strings.LastIndex(bare, "/") {
			bare = bare[:i]
		}
		e.registryArgs(runtime, "run", "-i", "--rm", id, bare)
		for _, v := range field(p, "environmentVariables", "environment_variables").itemsOf() {
			add("-e", v.get("name").str())
		}
		if version != "" && !strings.Contains(id[strings.LastIndex(id, "/")+1:], ":") && !strings.Contains(id, "@sha256:") {
			add(id + ":" + version)
		} else {
			add(id)
		}
	case "npx", "dnx":
		e.registryArgs(runtime)
		if command == "npx" && !hasArg(e.args, "-y") && !hasArg(e.args, "--yes") {
			e.args = append([]bit{{"", "-y", at, e.ptr}}, e.args...)
		}
		add(pinned("@"))
		if command == "dnx" {
			add("--yes", "--")
		}
	default:
		e.registryArgs(runtime)
		if command == "uvx" && kind == "pypi" {
			add(pinned("=="))
		} else {
			add(pinned("@"))
		}
	}
	e.registryArgs(field(p, "packageArguments", "package_arguments").itemsOf())
	for _, v := range field(p, "environmentVariables", "environment_variables").itemsOf() {
		e.registryValue(v, false)
	}
	return true
}

func hasArg(args []bit, s string) bool {
	for _, a := range args {
		if a.s == s {
			return true
		}
	}
	return false
}

// registryArgs adds named and positional arguments; what has no value becomes an input if it is required.
func (e *entry) registryArgs(list []*node, have ...string) {
	for _, a := range list {
		value := a.get("value").str()
		name := a.get("name").str()
		hint := firstText(a, "valueHint", "value_hint")
		if value == "" {
			value = a.get("default").str()
		}
		required := isTrue(field(a, "isRequired", "is_required"))
		named := a.get("type").str() == "named" || strings.HasPrefix(name, "-")
		skip := false
		for _, h := range have {
			skip = skip || value == h || name == h
		}
		if skip || value == "" && !required && !(named && a.get("format").str() == "boolean") {
			continue
		}
		if named && a.get("format").str() == "boolean" {
			if value != "false" {
				e.args = append(e.args, bit{"", name, a.at, e.ptr})
			}
			continue
		}
		if named {
			e.args = append(e.args, bit{"", name, a.at, e.ptr})
		}
		switch {
		case value != "":
			e.args = append(e.args, bit{"", e.registryTemplate(value, a.get("variables")), a.at, e.ptr})
		case required:
			id := firstNonEmpty(hint, strings.TrimLeft(name, "-"), "VALUE")
			e.args = append(e.args, bit{"", e.registryInput(upperSnake(id), a), a.at, e.ptr})
		}
	}
}

func firstNonEmpty(s ...string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

// registryTemplate turns {name} of a value into inputs described by variables.
func (e *entry) registryTemplate(text string, variables *node) string {
	if variables == nil {
		return text
	}
	for _, v := range variables.members {
		if !strings.Contains(text, "{"+v.key+"}") {
			continue
		}
		id := inputID(v.key)
		if m := nameValue().FindStringSubmatch(text); m != nil && m[2] == "{"+v.key+"}" {
			id = m[1] // NAME={token} is what fills the variable NAME
		}
		text = strings.ReplaceAll(text, "{"+v.key+"}", e.registryInput(id, v.value))
	}
	return text
}

// registryInput declares an input as the registry describes it.
func (e *entry) registryInput(id string, v *node) string {
	secret := isTrue(field(v, "isSecret", "is_secret")) || secretName(id)
	ref := e.vals.declare(id, secret)
	in := e.vals.input(id)
	in.Description = clip(v.get("description").str(), 200)
	in.Password = in.Password || secret
	if d := v.get("default").str(); d != "" && !secret && !sample(d, false) {
		in.Default = clip(d, maxArg)
	}
	for _, c := range v.get("choices").itemsOf() {
		if c.str() != "" {
			in.Type, in.Options = "pickString", append(in.Options, clip(c.str(), 200))
		}
	}
	return ref
}

// registryValue reads an environment variable or header.
func (e *entry) registryValue(v *node, header bool) {
	b := bit{v.get("name").str(), v.get("value").str(), v.at, e.ptr}
	if !e.checkPair(b, map[bool]string{true: "headers", false: "env"}[header], header) {
		return
	}
	needed := field(v, "isRequired", "is_required")
	required := isTrue(needed) || isTrue(v.get("required"))
	secret := isTrue(field(v, "isSecret", "is_secret")) || secretName(b.key)
	switch {
	case b.s != "":
		b.s = e.registryTemplate(b.s, v.get("variables"))
	case required, secret && needed == nil:
		b.s = e.registryInput(inputID(b.key), v)
	case v.get("default").str() != "":
		b.s = v.get("default").str()
	default:
		e.say(schemas.NoteOther, v.at, "%s can be set, too; it is left out", b.key)
		return
	}
	if header {
		e.headers = append(e.headers, b)
	} else {
		e.env = append(e.env, b)
	}
}

func (e *entry) registryRemote(n *node, ptr string) {
	e.url = bit{"url", e.registryTemplate(n.get("url").str(), n.get("variables")), n.at, pointer(ptr, "url")}
	if t := n.get("type"); t != nil {
		e.word = transportWord(t.str())
	} else {
		e.word = transportWord(field(n, "transportType", "transport_type").str())
	}
	for _, h := range n.get("headers").itemsOf() {
		e.registryValue(h, true)
	}
}

// readBundle reads the manifest.json of an .mcpb bundle.
func (r *reader) readBundle(n *node, ptr string) {
	for _, u := range n.get("user_config").membersOf() {
		in := schemas.Input{Type: "promptString", ID: inputID(u.key), Password: isTrue(u.value.get("sensitive")) || secretName(u.key),
			Description: clip(firstText(u.value, "description", "title"), 200)}
		if d := u.value.get("default"); d != nil && !in.Password && d.kind != listNode && d.kind != objectNode && !references().MatchString(d.text) {
			in.Default = d.text
		}
		if r.vals.input(in.ID) == nil {
			r.vals.inputs = append(r.vals.inputs, in)
		}
	}
	server := n.get("server")
	r.note(schemas.NotePath, "", server.at, "the bundle's own files are needed; a manifest alone does not bring them")
	config := server.get("mcp_config")
	if o := config.get("platform_overrides"); o != nil {
		r.note(schemas.NoteIgnored, "", o.at, "\"platform_overrides\" is ignored")
	}
	plainConfig := &node{kind: objectNode, at: config.at}
	for _, m := range config.membersOf() {
		if m.key != "platform_overrides" {
			plainConfig.members = append(plainConfig.members, m)
		}
	}
	r.readEntry(plainConfig, n.get("name").str(), n.at, pointer(pointer(ptr, "server"), "mcp_config"))
}

func (n *node) membersOf() []member {
	if n == nil {
		return nil
	}
	return n.members
}
