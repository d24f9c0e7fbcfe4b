package discordtest

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
)

func units(s string) int { return len(utf16.Encode([]rune(s))) }

// described is Discord's own description of its API, read once in a process: it takes a quarter of a second.
var described struct {
	once sync.Once
	doc  *openapi3.T
	err  error
}

// description finds and loads the description: DISCORD_OPENAPI, else shared/discord/openapi.json in a folder above.
func (f *Fake) description() *openapi3.T {
	described.once.Do(func() {
		path := os.Getenv("DISCORD_OPENAPI")
		if dir, err := os.Getwd(); path == "" && err == nil {
			for ; path == "" && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
				if p := filepath.Join(dir, "shared", "discord", "openapi.json"); exists(p) {
					path = p
				}
			}
		}
		if path == "" {
			described.err = fmt.Errorf("discord's OpenAPI description is not here: set DISCORD_OPENAPI to its openapi.json (repository discord/discord-api-spec)")
			return
		}
		described.doc, described.err = openapi3.NewLoader().LoadFromFile(path)
	})
	if described.err != nil {
		if os.Getenv("CI") != "" {
			f.t.Fatal(described.err)
		}
		f.t.Logf("bodies are not checked against the description: %v", described.err)
	}
	return described.doc
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// conforms checks a body against one schema of the description.
func (f *Fake) conforms(schema string, body any) *refusal {
	doc := f.description()
	if doc == nil {
		return nil
	}
	ref := doc.Components.Schemas[schema]
	if ref == nil {
		return f.broken(500, 0, "the description has no schema %s", schema)
	}
	if err := ref.Value.VisitJSON(body, openapi3.EnableJSONSchema2020()); err != nil {
		text := err.Error()
		return f.broken(400, 50035, "%s: %s", schema, text[:min(len(text), 1500)])
	}
	return nil
}

// judge checks a message: against the description, then by the rules that it does not know. was is what an edit changes.
func (f *Fake) judge(c *call, schema string, body map[string]any, was *message) *refusal {
	if no := f.conforms(schema, body); no != nil {
		return no
	}
	for _, wrong := range messageRules(body, c.files, was) {
		return f.broken(400, 50035, "%s %s: %s", c.r.Method, tokenPath.ReplaceAllString(c.r.URL.Path, "${1}…"), wrong)
	}
	return nil
}

var messageKeys = []string{"content", "components", "attachments", "flags", "allowed_mentions", "nonce", "enforce_nonce", "message_reference", "embeds", "tts"}

func messageRules(body map[string]any, files []File, was *message) (wrong []string) {
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	for k := range body {
		if !slices.Contains(messageKeys, k) {
			bad("a message has no field %q", k)
		}
	}
	content, _ := body["content"].(string)
	flags := number(body["flags"])
	parts, _ := body["components"].([]any)
	v2 := flags&(1<<15) != 0
	if flags&^(1<<2|1<<6|1<<15) != 0 {
		bad("flags %d", flags)
	}
	if was != nil && flags&(1<<6) != 0 && was.for_ == "" {
		bad("an edit cannot make a message ephemeral")
	}
	if was != nil && was.flags&(1<<15) != 0 && !v2 {
		bad("the flag of Components V2 cannot be taken from a message")
	}
	if units(content) > 2000 {
		bad("content of %d characters", units(content))
	}
	if v2 && (content != "" || body["embeds"] != nil) {
		bad("content or embeds together with Components V2")
	}
	if content == "" && len(parts) == 0 && len(files) == 0 {
		bad("an empty message")
	}
	m, ok := body["allowed_mentions"].(map[string]any)
	parse, list_ := m["parse"].([]any)
	if !ok || !list_ || len(parse) > 0 || m["replied_user"] == true {
		bad("allowed_mentions is not {parse: []}: %v", body["allowed_mentions"])
	}
	w := walker{ids: map[string]bool{}, refs: map[string]bool{}, bad: bad}
	for _, p := range parts {
		w.component(p, v2, 0)
	}
	if w.count > 40 {
		bad("%d components", w.count)
	}
	if w.text > 4000 {
		bad("%d characters of display text", w.text)
	}
	if w.bytes > 10<<10 {
		bad("%d bytes of display text, which Discord answers with 500", w.bytes)
	}
	wrong = append(wrong, fileRules(body, files, v2, w.refs)...)
	return wrong
}

func fileRules(body map[string]any, files []File, v2 bool, refs map[string]bool) (wrong []string) {
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	if len(files) > 10 {
		bad("%d files", len(files))
	}
	total := 0
	named := map[string]bool{}
	for i, x := range files {
		total += len(x.Data)
		if len(x.Data) > 10<<20 {
			bad("a file of %d bytes", len(x.Data))
		}
		if regexp.MustCompile(`[^A-Za-z0-9._-]`).MatchString(x.Name) {
			bad("a file name that Discord would change: %q", x.Name)
		}
		if named[x.Name] {
			bad("two files %q", x.Name)
		}
		named[x.Name] = true
		found := false
		for _, a := range list(body["attachments"]) {
			found = found || (a["id"] == strconv.Itoa(i)) && a["filename"] == x.Name
			if d, _ := a["description"].(string); units(d) > 1024 || d == "" {
				bad("alt text of %d characters", units(d))
			}
		}
		if !found {
			bad("attachments do not describe files[%d] %q", i, x.Name)
		}
		if v2 && !refs["attachment://"+x.Name] {
			bad("no component shows the file %q", x.Name)
		}
	}
	for ref := range refs {
		if !named[strings.TrimPrefix(ref, "attachment://")] {
			bad("a component shows %s, which is not attached", ref)
		}
	}
	if total > 25<<20 {
		bad("%d bytes of files", total)
	}
	return wrong
}

// componentKeys are the fields of each type that bots may send (Discord, Component Reference).
func componentKeys(kind int) []string {
	return map[int][]string{
		1: {"components"}, 2: {"style", "label", "custom_id", "url", "disabled", "emoji", "sku_id"}, 3: {"custom_id", "options", "placeholder", "min_values", "max_values", "required", "disabled"},
		4: {"custom_id", "style", "min_length", "max_length", "required", "value", "placeholder"}, 9: {"components", "accessory"}, 10: {"content"}, 11: {"media", "description", "spoiler"},
		12: {"items"}, 13: {"file", "spoiler"}, 14: {"divider", "spacing"}, 17: {"components", "accent_color", "spoiler"}, 18: {"label", "description", "component"},
		19: {"custom_id", "min_values", "max_values", "required"},
	}[kind]
}

type walker struct {
	count, text, bytes int
	ids                map[string]bool
	refs               map[string]bool
	bad                func(string, ...any)
}

func (w *walker) component(v any, v2 bool, parent int) {
	c, ok := v.(map[string]any)
	if !ok {
		w.bad("a component is no object")
		return
	}
	w.count++
	kind := number(c["type"])
	keys := componentKeys(kind)
	for k := range c {
		if k != "type" && k != "id" && !slices.Contains(keys, k) {
			w.bad("a component of type %d has no field %q", kind, k)
		}
	}
	allowed := map[int][]int{0: {1}, 1: {2, 3}, 17: {1, 9, 10, 12, 13, 14}}
	if v2 {
		allowed[0] = []int{1, 9, 10, 12, 13, 14, 17}
	}
	if !slices.Contains(allowed[parent], kind) {
		w.bad("a component of type %d inside one of type %d", kind, parent)
	}
	text := func(key string, low, high int) string {
		s, _ := c[key].(string)
		if n := units(s); n < low || n > high {
			w.bad("%s of a component of type %d has %d characters, allowed are %d to %d", key, kind, n, low, high)
		}
		return s
	}
	id := func() {
		s := text("custom_id", 1, 100)
		if w.ids[s] {
			w.bad("custom_id %q twice", s)
		}
		w.ids[s] = true
	}
	inner, _ := c["components"].([]any)
	switch kind {
	case 1:
		if len(inner) < 1 || len(inner) > 5 {
			w.bad("a row of %d", len(inner))
		}
	case 2:
		text("label", 1, 80)
		if number(c["style"]) == 5 {
			w.link(text("url", 1, 512))
			if c["custom_id"] != nil {
				w.bad("a link button has a custom_id")
			}
		} else {
			if c["url"] != nil {
				w.bad("a button of style %d has a url", number(c["style"]))
			}
			id()
		}
	case 3:
		id()
		w.options(c)
	case 10:
		s := text("content", 1, 4000)
		w.text += units(s)
		w.bytes += len(s)
		if strings.TrimSpace(s) == "" || !utf8.ValidString(s) {
			w.bad("an empty display text")
		}
	case 13:
		media, _ := c["file"].(map[string]any)
		ref, _ := media["url"].(string)
		w.refs[ref] = true
		if !strings.HasPrefix(ref, "attachment://") {
			w.bad("a file of %q", ref)
		}
	case 17:
		if len(inner) == 0 {
			w.bad("an empty container")
		}
	}
	for _, x := range inner {
		w.component(x, v2, kind)
	}
}

// link checks the address of a link button (Discord, Button Object).
func (w *walker) link(s string) {
	u, err := url.Parse(s)
	if err != nil || !slices.Contains([]string{"https", "http", "discord"}, u.Scheme) || u.Host == "" || strings.ContainsAny(s, " \n\\") {
		w.bad("a link button to %q", s)
	}
}

func (w *walker) options(c map[string]any) {
	options := list(c["options"])
	if len(options) < 1 || len(options) > 25 {
		w.bad("a select menu of %d options", len(options))
	}
	values := map[string]bool{}
	for _, o := range options {
		l, _ := o["label"].(string)
		v, _ := o["value"].(string)
		if n := units(l); n < 1 || n > 100 || units(v) < 1 || units(v) > 100 || values[v] {
			w.bad("a select option %q with value %q", l, v)
		}
		values[v] = true
	}
	if p, _ := c["placeholder"].(string); units(p) > 150 {
		w.bad("a placeholder of %d characters", units(p))
	}
}

// modal checks what the description does not: what each Label holds.
func (f *Fake) modal(data map[string]any) *refusal {
	var wrong []string
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	w := walker{ids: map[string]bool{}, refs: map[string]bool{}, bad: bad}
	title, _ := data["title"].(string)
	id, _ := data["custom_id"].(string)
	parts := list(data["components"])
	if units(title) < 1 || units(title) > 45 || units(id) < 1 || units(id) > 100 || len(parts) < 1 || len(parts) > 5 {
		bad("a modal %q with %d fields", title, len(parts))
	}
	for _, p := range parts {
		inner, _ := p["component"].(map[string]any)
		label, _ := p["label"].(string)
		about, _ := p["description"].(string)
		kind := number(inner["type"])
		if number(p["type"]) != 18 || !slices.Contains([]int{3, 4, 19}, kind) || units(label) < 1 || units(label) > 45 || units(about) > 100 {
			bad("a modal's part of type %d, label %q (%d), description of %d characters, holding type %d", number(p["type"]), label, units(label), units(about), kind)
		}
		for k := range inner {
			if k != "type" && k != "id" && !slices.Contains(componentKeys(kind), k) {
				bad("a component of type %d has no field %q", kind, k)
			}
		}
		if s, _ := inner["custom_id"].(string); s == "" || units(s) > 100 || w.ids[s] {
			bad("custom_id %q", s)
		} else {
			w.ids[s] = true
		}
		if v, _ := inner["value"].(string); units(v) > 4000 {
			bad("a value of %d characters", units(v))
		}
		if kind == 3 {
			w.options(inner)
			if inner["required"] == true && number(inner["min_values"]) == 0 && inner["min_values"] != nil {
				bad("a required select with min_values 0")
			}
		}
	}
	if len(wrong) > 0 {
		return f.broken(400, 50035, "modal: %s", strings.Join(wrong, "; "))
	}
	return nil
}

var commandKeys = []string{"name", "name_localizations", "description", "description_localizations", "type", "options", "required", "autocomplete", "choices", "max_length", "min_length",
	"file_types", "integration_types", "contexts", "default_member_permissions", "nsfw"}

// commandRules checks a command by hand and counts its 8,000 characters.
func commandRules(c map[string]any) (wrong []string) {
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	total := 0
	longest := func(v any, local any) int {
		s, _ := v.(string)
		n := units(s)
		m, _ := local.(map[string]any)
		for _, l := range m {
			t, _ := l.(string)
			n = max(n, units(t))
		}
		return n
	}
	var walk func(c map[string]any, depth int)
	walk = func(c map[string]any, depth int) {
		for k := range maps.Keys(c) {
			if !slices.Contains(commandKeys, k) {
				bad("a command has no field %q", k)
			}
		}
		name, _ := c["name"].(string)
		if !regexp.MustCompile(`^[-_'\p{L}\p{N}]{1,32}$`).MatchString(name) || strings.ToLower(name) != name {
			bad("%q is no name of a command", name)
		}
		total += longest(c["name"], c["name_localizations"])
		d := longest(c["description"], c["description_localizations"])
		if total += d; d < 1 || d > 100 {
			bad("%s: a description of %d characters", name, d)
		}
		for _, ch := range list(c["choices"]) {
			total += longest(ch["name"], nil) + longest(ch["value"], nil)
		}
		options := list(c["options"])
		if len(options) > 25 || len(list(c["choices"])) > 25 {
			bad("%s: %d options, %d choices", name, len(options), len(list(c["choices"])))
		}
		optional, seen := false, map[string]bool{}
		for _, o := range options {
			n, _ := o["name"].(string)
			if seen[n] {
				bad("%s: option %q twice", name, n)
			}
			seen[n] = true
			kind := number(o["type"])
			if kind == 2 && depth > 0 || kind == 1 && depth > 1 {
				bad("%s: %q is nested too deep", name, n)
			}
			if kind > 2 {
				if o["required"] == true && optional {
					bad("%s: required option %q after an optional one", name, n)
				}
				optional = optional || o["required"] != true
			}
			if o["autocomplete"] == true && len(list(o["choices"])) > 0 {
				bad("%s: option %q has choices and autocompletion", name, n)
			}
			walk(o, depth+1)
		}
	}
	walk(c, 0)
	if total > 8000 {
		bad("%d characters in all", total)
	}
	return wrong
}

func (f *Fake) register(c *call, schema string, one map[string]any) *refusal {
	if c.r.PathValue("app") != f.AppID {
		return f.broken(403, 20012, "the commands of another application")
	}
	checked := maps.Clone(one)
	delete(checked, "file_types") // newer than the description
	if no := f.conforms(schema, checked); no != nil {
		return no
	}
	for _, w := range commandRules(one) {
		return f.broken(400, 50035, "command: %s", w)
	}
	return nil
}

func (f *Fake) putCommands(c *call) (any, *refusal) {
	f.commands = nil
	for _, one := range list(any(c.list)) {
		if no := f.register(c, "ApplicationCommandUpdateRequest", one); no != nil {
			return nil, no
		}
		f.commands = append(f.commands, one)
	}
	f.touch()
	return []any{}, nil
}

func (f *Fake) postCommand(c *call) (any, *refusal) {
	if no := f.register(c, "ApplicationCommandCreateRequest", c.body); no != nil {
		return nil, no
	}
	f.commands = slices.DeleteFunc(f.commands, func(o map[string]any) bool { return o["name"] == c.body["name"] })
	f.commands = append(f.commands, c.body)
	f.touch()
	return map[string]any{"id": f.id()}, nil
}

// Commands are the names that are registered.
func (f *Fake) Commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, c := range f.commands {
		n, _ := c["name"].(string)
		names = append(names, n)
	}
	return names
}
