package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// Limits of a manifest.
const (
	maxProblems   = 20
	maxWords      = 256 // arguments
	maxText       = 4096
	maxVariables  = 128
	maxAsked      = 25 // values to ask for; a form has no room for more
	maxNamedTools = 10
)

// The kinds of servers that a bundle can hold.
const (
	nodeServer   = "node"
	pythonServer = "python"
	binaryServer = "binary"
	uvServer     = "uv"
)

// manifest is the manifest.json of a bundle (MCPB 0.1 to 0.4), as far as it means something here.
type manifest struct {
	name, version, license string
	kind, entry            string // server.type, server.entry_point
	start                  *start // nil: server.type uv without mcp_config
	overrides              map[string]start
	asked                  []option // user_config, by key
	platforms              []string
	runtimes               map[string]string
	tools                  []string
	more                   bool // there are tools that the manifest does not name
}

// start is an mcp_config.
type start struct {
	command string
	args    []string
	env     map[string]string
}

// option is one entry of user_config.
type option struct {
	key, kind, words             string
	required, sensitive, several bool
	def                          []string // default; several of a list
	min, max                     *float64
}

// form reads JSON and collects what is wrong, by field.
type form struct{ problems schemas.Problems }

func (f *form) wrong(ptr, hint, format string, a ...any) {
	if len(f.problems) < maxProblems {
		f.problems = append(f.problems, schemas.Problem{File: manifestAt, Pointer: ptr, Text: strings.ReplaceAll(strings.TrimPrefix(ptr, "/"), "/", ".") + " " + fmt.Sprintf(format, a...), Hint: hint})
	}
}

// readManifest reads and checks a manifest. The error is schemas.Problems, each with the field in its words and its pointer.
func readManifest(data []byte) (*manifest, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var root any
	err := d.Decode(&root)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("text after the object")
		}
	}
	if err != nil {
		return nil, schemas.Problems{unreadable(data, err)}
	}
	f := &form{}
	o, ok := root.(map[string]any)
	if !ok {
		return nil, schemas.Problems{{File: manifestAt, Text: "manifest.json is not an object", Hint: "ask its maker for a bundle made with \"mcpb pack\""}}
	}
	m := f.manifest(o)
	if len(f.problems) > 0 {
		return nil, f.problems
	}
	return m, nil
}

func unreadable(data []byte, err error) schemas.Problem {
	p := schemas.Problem{File: manifestAt, Text: "manifest.json is not JSON", Hint: "ask its maker for a bundle made with \"mcpb pack\""}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := data[:min(int(s.Offset), len(data))]
		p.Line = bytes.Count(before, []byte("\n")) + 1
		p.Col = max(utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]), 1)
	}
	return p
}

func (f *form) manifest(o map[string]any) *manifest {
	m := &manifest{name: f.text(o, "", "name", true, 200), version: f.text(o, "", "version", true, 100), license: f.text(o, "", "license", false, 200)}
	said := f.text(o, "", "manifest_version", false, 20)
	if said == "" {
		said = f.text(o, "", "dxt_version", false, 20) // as it was called at first
	}
	switch {
	case said == "":
		f.wrong("/manifest_version", "such as 0.3", "is needed")
	case !strings.HasPrefix(said, "0."):
		f.wrong("/manifest_version", "0.1 to 0.4 are known here", "is %s", quoted(said))
	}
	if s := f.object(o, "", "server", true); s != nil {
		f.server(s, m)
	}
	all := f.object(o, "", "user_config", false)
	if len(all) > maxAsked {
		f.wrong("/user_config", "", "asks for more than %d values", maxAsked)
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if len(m.asked) < maxAsked {
			m.asked = append(m.asked, f.option(all, k))
		}
	}
	if c := f.object(o, "", "compatibility", false); c != nil {
		m.platforms = f.texts(c, "/compatibility", "platforms", 20, 40)
		m.runtimes = f.pairs(c, "/compatibility", "runtimes", 100)
	}
	f.named(o, m)
	return m
}

func (f *form) server(s map[string]any, m *manifest) {
	m.kind = f.text(s, "/server", "type", true, 20)
	m.entry = f.text(s, "/server", "entry_point", true, maxPath)
	switch m.kind {
	case nodeServer, pythonServer, binaryServer, uvServer, "":
	default:
		f.wrong("/server/type", "node, python, binary and uv are known here", "is %s", quoted(m.kind))
	}
	if e, ok := inBundle(m.entry); !ok && m.entry != "" {
		f.wrong("/server/entry_point", "a path in the bundle, such as server/index.js", "leads out of the bundle: %s", quoted(m.entry))
	} else {
		m.entry = e
	}
	c := f.object(s, "/server", "mcp_config", m.kind != uvServer)
	if c == nil {
		return
	}
	at := "/server/mcp_config"
	m.start = &start{command: f.text(c, at, "command", true, maxText), args: f.texts(c, at, "args", maxWords, maxText), env: f.pairs(c, at, "env", maxText)}
	f.environment(at, m.start.env)
	m.overrides = map[string]start{}
	over := f.object(c, at, "platform_overrides", false)
	for _, k := range slices.Sorted(maps.Keys(over)) {
		if o := f.object(over, at+"/platform_overrides", k, false); o != nil && len(m.overrides) < 10 {
			p := pointer(at+"/platform_overrides", k)
			one := start{command: f.text(o, p, "command", false, maxText), args: f.texts(o, p, "args", maxWords, maxText), env: f.pairs(o, p, "env", maxText)}
			f.environment(p, one.env)
			m.overrides[k] = one
		}
	}
}

// inBundle cleans a path of the manifest and reports whether it stays in the bundle.
func inBundle(p string) (string, bool) {
	p = strings.TrimPrefix(strings.TrimPrefix(p, "${__dirname}/"), "./")
	return p, badPath(p) == ""
}

var variable = lazy.Regexp(`\A[A-Za-z_][A-Za-z0-9_]{0,127}\z`)

func (f *form) environment(at string, env map[string]string) {
	if len(env) > maxVariables {
		f.wrong(at+"/env", "", "has more than %d variables", maxVariables)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if !variable().MatchString(k) {
			f.wrong(pointer(at+"/env", k), "letters, digits and underscores", "%s cannot be the name of a variable", quoted(k))
		}
	}
}

func (f *form) option(all map[string]any, key string) option {
	o := option{key: key}
	at := pointer("/user_config", key)
	u := f.object(all, "/user_config", key, true)
	if !schemas.ValidInput(key) {
		f.wrong(at, "letters, digits, _ . -", "%s cannot be the name of a value", quoted(key))
	}
	if u == nil {
		return o
	}
	o.kind, o.words = f.text(u, at, "type", true, 20), f.text(u, at, "description", false, maxText)
	if title := f.text(u, at, "title", false, 200); o.words == "" {
		o.words = title
	}
	switch o.kind {
	case "string", "number", "boolean", "directory", "file", "":
	default:
		f.wrong(at+"/type", "string, number, boolean, directory or file", "is %s", quoted(o.kind))
	}
	o.required, o.sensitive, o.several = f.is(u, at, "required"), f.is(u, at, "sensitive"), f.is(u, at, "multiple")
	o.min, o.max = f.number(u, at, "min"), f.number(u, at, "max")
	switch d := u["default"].(type) {
	case nil:
	case []any:
		o.def = f.texts(u, at, "default", maxWords, maxText)
	case string:
		o.def = []string{f.text(u, at, "default", false, maxText)}
	case json.Number:
		o.def = []string{d.String()}
	case bool:
		o.def = []string{strconv.FormatBool(d)}
	default:
		f.wrong(at+"/default", "", "must be a text, a number, true or false")
	}
	return o
}

func (f *form) named(o map[string]any, m *manifest) {
	list, ok := o["tools"].([]any)
	if !ok && o["tools"] != nil {
		f.wrong("/tools", "", "must be a list")
	}
	m.more = f.is(o, "", "tools_generated")
	for _, t := range list[:min(len(list), 200)] {
		if one, ok := t.(map[string]any); ok {
			if name, ok := one["name"].(string); ok && name != "" {
				m.tools = append(m.tools, brief(name))
			}
		}
	}
}

// pointer appends a key to a JSON pointer (RFC 6901).
func pointer(at, key string) string {
	return at + "/" + brief(strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
}

func (f *form) object(o map[string]any, at, key string, needed bool) map[string]any {
	v, given := o[key]
	m, ok := v.(map[string]any)
	switch {
	case !given && needed:
		f.wrong(pointer(at, key), "", "is needed")
	case given && !ok && (v != nil || needed):
		f.wrong(pointer(at, key), "", "must be an object")
	}
	return m
}

func (f *form) text(o map[string]any, at, key string, needed bool, limit int) string {
	v, given := o[key]
	s, ok := v.(string)
	switch {
	case given && !ok && v != nil:
		f.wrong(pointer(at, key), "", "must be a text")
	case needed && strings.TrimSpace(s) == "":
		f.wrong(pointer(at, key), "", "is needed")
	default:
		return f.plain(pointer(at, key), s, limit)
	}
	return ""
}

// plain refuses what no definition may hold: references of our own, which would be filled in, and what cannot be passed on.
func (f *form) plain(ptr, s string, limit int) string {
	switch {
	case len(s) > limit:
		f.wrong(ptr, "", "is longer than %d characters", limit)
	case strings.ContainsRune(s, 0):
		f.wrong(ptr, "", "holds a NUL")
	case strings.Contains(s, "${input:"):
		f.wrong(ptr, "values of a bundle are ${user_config.NAME}", "holds ${input:…}, which is no variable of bundles")
	default:
		return s
	}
	return ""
}

func (f *form) texts(o map[string]any, at, key string, count, limit int) []string {
	v, given := o[key]
	list, ok := v.([]any)
	if given && !ok && v != nil {
		f.wrong(pointer(at, key), "", "must be a list of texts")
	}
	if len(list) > count {
		f.wrong(pointer(at, key), "", "has more than %d entries", count)
		return nil
	}
	if !ok {
		return nil
	}
	out := make([]string, 0, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			f.wrong(pointer(at, key)+"/"+strconv.Itoa(i), "", "must be a text")
		}
		out = append(out, f.plain(pointer(at, key)+"/"+strconv.Itoa(i), s, limit))
	}
	return out
}

func (f *form) pairs(o map[string]any, at, key string, limit int) map[string]string {
	m := f.object(o, at, key, false)
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out[k] = f.text(m, pointer(at, key), k, false, limit)
	}
	return out
}

func (f *form) is(o map[string]any, at, key string) bool {
	v, given := o[key]
	b, ok := v.(bool)
	if given && !ok && v != nil {
		f.wrong(pointer(at, key), "", "must be true or false")
	}
	return b
}

func (f *form) number(o map[string]any, at, key string) *float64 {
	v, given := o[key]
	n, ok := v.(json.Number)
	x, err := n.Float64()
	switch {
	case !given || v == nil:
		return nil
	case !ok || err != nil || math.IsInf(x, 0):
		f.wrong(pointer(at, key), "", "must be a number")
		return nil
	}
	return &x
}
