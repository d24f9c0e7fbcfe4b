package install

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"bobbin/internal/lazy"
	"bobbin/schemas"
)

// filling puts folders and references to inputs in the place of a manifest's variables.
type filling struct {
	folder    string // where the bundle is installed
	workspace string // stands for the home, desktop and other folders of a person's own machine
	options   map[string]option
	prefix    string // of the inputs' ids, so that two bundles' "api_key" stay apart
	used      []string
	unknown   []string // variables that mean nothing here
	form
}

var braces = lazy.Regexp(`\$\{([^{}]*)\}`)

// fill replaces every variable of a text once (MCPB, MANIFEST.md, "Variable Substitution").
func (f *filling) fill(ptr, text string) string {
	return braces().ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[2 : len(ref)-1]
		if key, ok := strings.CutPrefix(name, "user_config."); ok {
			if _, known := f.options[key]; !known {
				f.wrong(ptr, "declare it under user_config", "refers to ${user_config.%s}, which is not declared", brief(key))
				return ref
			}
			if !slices.Contains(f.used, key) {
				f.used = append(f.used, key)
			}
			return "${input:" + f.id(key) + "}"
		}
		if t, ok := f.place(name); ok {
			return t
		}
		if !slices.Contains(f.unknown, name) && len(f.unknown) < 10 {
			f.unknown = append(f.unknown, name)
		}
		return ref
	})
}

// place gives what a variable stands for that needs no asking.
func (f *filling) place(name string) (string, bool) {
	switch name {
	case "__dirname":
		return f.folder, true
	case "/", "pathSeparator":
		return "/", true
	case "HOME", "DESKTOP", "DOCUMENTS", "DOWNLOADS":
		return f.workspace, true
	}
	return "", false
}

// known fills in what needs no asking and leaves the rest.
func (f *filling) known(text string) string {
	return braces().ReplaceAllStringFunc(text, func(ref string) string {
		if t, ok := f.place(ref[2 : len(ref)-1]); ok {
			return t
		}
		return ref
	})
}

// start fills in a whole mcp_config.
func (f *filling) start(s start) start {
	at := "/server/mcp_config"
	out := start{command: s.command, env: map[string]string{}}
	if strings.Contains(s.command, "${user_config.") {
		f.wrong(at+"/command", "values belong into args or env", "depends on a value that a person gives")
	} else {
		out.command = f.fill(at+"/command", s.command)
	}
	for i, a := range s.args {
		out.args = append(out.args, f.fill(at+"/args/"+strconv.Itoa(i), a))
	}
	for _, k := range slices.Sorted(maps.Keys(s.env)) {
		out.env[k] = f.fill(pointer(at+"/env", k), s.env[k])
	}
	return out
}

var home = lazy.Regexp(`\$\{(?:HOME|DESKTOP|DOCUMENTS|DOWNLOADS)\}`)

var notInID = lazy.Regexp(`[^A-Za-z0-9]+`)

// id names the input of a value: WEATHER_API_KEY for api_key of weather.
func (f *filling) id(key string) string {
	id := strings.ToUpper(notInID().ReplaceAllString(key, "_"))
	if !strings.HasPrefix(id, f.prefix) {
		id = f.prefix + id
	}
	id = strings.TrimRight(id[:min(len(id), 64)], "_")
	if !schemas.ValidInput(id) {
		id = "_" + id[:min(len(id), 63)]
	}
	return id
}

// prefixOf makes the beginning of a server's input ids out of its name.
func prefixOf(server string) string {
	return strings.ToUpper(strings.Trim(notInID().ReplaceAllString(server, "_"), "_")) + "_"
}

var secretWord = lazy.Regexp(`(?i)(?:key|token|secret|passw|passphrase|credential)`)

// inputs declares what has to be asked for, and says which of it may stay empty.
func (f *filling) inputs(server string) (asked []schemas.Input, optional []string, notes []schemas.Note) {
	note := func(kind schemas.NoteKind, format string, a ...any) {
		notes = append(notes, schemas.Note{Kind: kind, Server: server, Text: fmt.Sprintf(format, a...)})
	}
	taken := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(f.options)) {
		o := f.options[key]
		if !slices.Contains(f.used, key) {
			note(schemas.NoteIgnored, "%s is asked for by its manifest and used nowhere; it is left out", brief(key))
			continue
		}
		in := schemas.Input{Type: "promptString", ID: f.id(key), Description: brief(o.words)}
		if before := taken[in.ID]; before != "" {
			f.wrong(pointer("/user_config", key), "", "is called like %s", quoted(before))
		}
		taken[in.ID] = key
		in.Password = o.sensitive || o.kind == "string" && secretWord().MatchString(key) && len(o.def) == 0
		if len(o.def) > 0 && !in.Password {
			in.Default = f.known(o.def[0])
		}
		switch o.kind {
		case "boolean":
			in.Type, in.Options = "pickString", []string{"true", "false"}
		case "number":
			in.Description = strings.TrimSpace(in.Description + between(o))
		case "directory", "file":
			note(schemas.NotePath, "%s is a path in your sandbox, such as %s; it cannot reach files of your own machine", in.ID, path.Join(f.workspace, "data"))
			if o.kind == "directory" && !in.Password && (home().MatchString(strings.Join(o.def, "")) || in.Default == "" && o.required) {
				in.Default = f.workspace // a "Desktop" does not exist there
			}
		}
		if o.several {
			note(schemas.NoteMapped, "%s may be several; one is asked for here", in.ID)
		}
		if in.Default == "" && !o.required {
			optional = append(optional, in.ID)
		}
		asked = append(asked, in)
	}
	return asked, optional, notes
}

// between words the limits of a number.
func between(o option) string {
	number := func(x *float64) string { return strconv.FormatFloat(*x, 'f', -1, 64) }
	switch {
	case o.min != nil && o.max != nil:
		return " (" + number(o.min) + " to " + number(o.max) + ")"
	case o.min != nil:
		return " (" + number(o.min) + " or more)"
	case o.max != nil:
		return " (" + number(o.max) + " or less)"
	}
	return ""
}
