package config

import (
	"net/url"
	"slices"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// maxSuggested bounds the suggestions of one text, and the values that one of them asks for.
const maxSuggested = 64

// suggest finds the first package of a registry entry that can be installed, else a bundle. Of the others it says why not; why
// is the last of that, "" when there is a suggestion.
func (e *entry) suggest(packages []*node) (why string) {
	before := len(e.notes)
	if e.suggestFirst(packages) || len(e.notes) == before {
		return ""
	}
	return e.notes[len(e.notes)-1].Text
}

func (e *entry) suggestFirst(packages []*node) bool {
	var bundle *node
	for _, p := range packages {
		switch kind := registryKind(p); kind {
		case "npm", "pypi":
			if e.suggestPackage(p, kind) {
				return true
			}
		case "mcpb":
			if bundle == nil {
				bundle = p
			}
		case "oci", "docker":
			e.say(schemas.NotePath, p.at, "it comes as a container image; docker would have to be in your sandbox to start it")
		case "nuget":
			e.say(schemas.NotePath, p.at, "it comes from NuGet; dnx would have to be in your sandbox to start it")
		case "":
		default:
			e.say(schemas.NoteOther, p.at, "packages of %s cannot be installed here", shownKey(kind))
		}
	}
	return bundle != nil && e.suggestBundle(bundle)
}

// registryKind is where a package comes from, in any spelling of the format's history.
func registryKind(p *node) string {
	if kind := field(p, "registryType", "registry_type").str(); kind != "" {
		return kind
	}
	return field(p, "registryName", "registry_name").str()
}

var (
	exactVersion = lazy.Regexp(`\A[0-9][A-Za-z0-9.+!_-]{0,99}\z`)
	npmID        = lazy.Regexp(`\A((?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*)(?:@([A-Za-z0-9._+-]+))?\z`)
	pypiID       = lazy.Regexp(`\A([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._-]+\])?)(?:==([A-Za-z0-9.+!_-]+))?\z`)
)

func (e *entry) suggestPackage(p *node, kind string) bool {
	if t := transportWord(p.get("transport").get("type").str()); t != "" && t != "stdio" {
		e.say(schemas.NoteOther, p.at, "its package is meant to be reached over HTTP once it runs; here it would be started over stdio")
		return false
	}
	if base := field(p, "registryBaseUrl", "registry_base_url").str(); base != "" && !usual(base, kind) {
		e.say(schemas.NoteRisk, p.at, "it names a registry of its own, which is not asked here; what has that name elsewhere may be something else")
		return false
	}
	form, sign, to := npmID, "@", schemas.NPM
	if kind == "pypi" {
		form, sign, to = pypiID, "==", schemas.Pip
	}
	m := form().FindStringSubmatch(firstText(p, "identifier", "name"))
	if m == nil || len(e.packages) >= maxSuggested {
		return false
	}
	version := firstNonEmpty(p.get("version").str(), m[2])
	spec := m[1]
	if exactVersion().MatchString(version) && !strings.HasSuffix(version, ".x") {
		spec += sign + version // without one, the newest is looked up when it is installed
	}
	w := &wants{entry: e}
	s := schemas.Suggestion{Package: schemas.Package{Kind: to, Spec: spec, Name: e.name, Args: w.args(field(p, "packageArguments", "package_arguments").itemsOf())}}
	s.Env = w.env(field(p, "environmentVariables", "environment_variables").itemsOf())
	s.Inputs, s.Optional = w.inputs, w.optional
	e.packages = append(e.packages, s)
	return true
}

// usual reports whether a package's registry is the one that npm or pip asks by itself: its host's second level tells.
func usual(base, kind string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	labels := strings.Split(strings.ToLower(u.Hostname()), ".")
	return u.Scheme == "https" && len(labels) >= 2 && labels[len(labels)-2] == map[string]string{"npm": "npmjs", "pypi": "pypi"}[kind] && labels[len(labels)-1] == "org"
}

var sha256Hex = lazy.Regexp(`\A[0-9a-f]{64}\z`)

func (e *entry) suggestBundle(p *node) bool {
	address, sum := firstText(p, "identifier", "name"), strings.ToLower(field(p, "fileSha256", "file_sha256").str())
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || hasSecret(address):
		e.say(schemas.NoteOther, p.at, "its bundle has no https address")
		return false
	case !sha256Hex().MatchString(sum):
		e.say(schemas.NoteOther, p.at, "its bundle comes without a SHA-256, so it cannot be told from another file")
		return false
	case len(e.packages) >= maxSuggested:
		return false
	}
	e.packages = append(e.packages, schemas.Suggestion{Package: schemas.Package{Kind: schemas.Bundle, Spec: address, Name: e.name}, Integrity: "sha256:" + sum})
	return true
}

// wants collects the values that a package is to be given.
type wants struct {
	*entry
	inputs   []schemas.Input
	optional []string
}

// ask declares an input as the registry describes it and gives the reference to it. Without a default, what is not required may
// stay empty.
func (w *wants) ask(id string, v *node, required bool) string {
	ref := "${input:" + id + "}"
	if slices.ContainsFunc(w.inputs, func(in schemas.Input) bool { return in.ID == id }) {
		return ref
	}
	in := schemas.Input{Type: "promptString", ID: id, Description: clip(firstText(v, "description", "placeholder"), 200)}
	in.Password = isTrue(field(v, "isSecret", "is_secret")) || secretName(id) || connectionName(id)
	if d := v.get("default").str(); d != "" && !in.Password && !literal(d) && !sample(d, false) {
		in.Default = clip(d, maxArg)
	}
	for _, c := range v.get("choices").itemsOf() {
		if s := clip(c.str(), 200); s != "" && !slices.Contains(in.Options, s) {
			in.Type, in.Options = "pickString", append(in.Options, s)
		}
	}
	if v.get("format").str() == "boolean" && len(in.Options) == 0 {
		in.Type, in.Options = "pickString", []string{"true", "false"}
	}
	w.inputs = append(w.inputs, in)
	if !required && in.Default == "" {
		w.optional = append(w.optional, id)
	}
	return ref
}

// literal reports whether a text holds a secret, also as the password of an address.
func literal(text string) bool {
	u, err := url.Parse(text)
	return hasSecret(text) || err == nil && u.User != nil || err != nil && strings.Contains(text, "://") && strings.Contains(text, "@")
}

func needed(v *node) bool {
	return isTrue(field(v, "isRequired", "is_required")) || isTrue(v.get("required"))
}

// text gives a fixed value with its {variables} as inputs. A literal secret is asked for instead.
func (w *wants) text(id, value string, v *node) string {
	if literal(value) || secretName(id) && !strings.ContainsAny(value, "{$") && !noSecret(value) {
		return w.ask(id, &node{kind: objectNode}, true)
	}
	for _, m := range v.get("variables").membersOf() {
		if strings.Contains(value, "{"+m.key+"}") {
			value = strings.ReplaceAll(value, "{"+m.key+"}", w.ask(inputID(m.key), m.value, needed(m.value)))
		}
	}
	return value
}

// args reads packageArguments: flags with their values, and positional ones.
func (w *wants) args(list []*node) []string {
	var out []string
	for _, a := range list {
		name, value := a.get("name").str(), a.get("value").str()
		named := a.get("type").str() == "named" || strings.HasPrefix(name, "-")
		id := upperSnake(firstNonEmpty(firstText(a, "valueHint", "value_hint"), strings.TrimLeft(name, "-"), "VALUE"))
		def := a.get("default").str()
		if named && a.get("format").str() == "boolean" {
			if firstNonEmpty(value, def) == "true" || needed(a) && value == "" && def == "" {
				out = append(out, name)
			}
			continue
		}
		switch {
		case value != "":
			value = w.text(id, value, a)
		case def != "" || needed(a):
			value = w.ask(id, a, needed(a))
		default:
			w.say(schemas.NoteOther, a.at, "%s can be given, too; it is left out", shownText(firstNonEmpty(name, id)))
			continue
		}
		if named {
			out = append(out, name)
		}
		out = append(out, value)
	}
	if len(out) > maxArgs {
		return out[:maxArgs]
	}
	return out
}

// env reads environmentVariables; each is asked for but those with a value of their own.
func (w *wants) env(list []*node) map[string]string {
	env := map[string]string{}
	for _, v := range list {
		name := v.get("name").str()
		if !envName().MatchString(name) || len(env) >= maxSuggested {
			continue // said while the command was read
		}
		if value := v.get("value").str(); value != "" {
			env[name] = w.text(inputID(name), value, v)
			continue
		}
		env[name] = w.ask(inputID(name), v, needed(v) || isTrue(field(v, "isSecret", "is_secret")) && field(v, "isRequired", "is_required") == nil)
	}
	return env
}
