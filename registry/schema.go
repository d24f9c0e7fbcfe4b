package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"bobbin/schemas"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

const (
	maxSchemaDepth = 64
	maxMistakes    = 20
)

var (
	errNoObject = errors.New("is not a JSON object")
	errRemote   = errors.New("refers to another document")
	errDeep     = fmt.Errorf("is nested more than %d levels deep", maxSchemaDepth)
	errHidden   = errors.New("holds invisible characters in a name")
	errNotValid = errors.New("is not a valid JSON Schema")
)

// cleanSchema gives a schema whose texts show no more and no less than people see. An absent one is the empty object.
func cleanSchema(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	v, err := decode(raw)
	if err != nil {
		return nil, errNoObject
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errNoObject
	}
	changed := false
	if err := walk(object, 0, &changed); err != nil {
		return nil, err
	}
	if kind, ok := object["type"]; ok && kind != "object" {
		return nil, errors.New("does not describe an object")
	}
	if !changed {
		return raw, nil
	}
	return json.Marshal(object)
}

func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(raw[d.InputOffset():])) > 0 {
		return nil, errNotValid
	}
	return v, nil
}

// walk cleans texts in place and refuses references that leave the document (MCP, server/tools: no network $ref).
func walk(v any, depth int, changed *bool) error {
	if depth > maxSchemaDepth {
		return errDeep
	}
	tidy := func(text string) string {
		c := schemas.Clean(text, false)
		*changed = *changed || c != text
		return c
	}
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if schemas.Clean(key, true) != key {
				return errHidden
			}
			text, isText := item.(string)
			if (key == "$ref" || key == "$dynamicRef") && isText && !strings.HasPrefix(text, "#") {
				return errRemote
			}
			if isText {
				v[key] = tidy(text)
			} else if err := walk(item, depth+1, changed); err != nil {
				return err
			}
		}
	case []any:
		for n, item := range v {
			if text, ok := item.(string); ok {
				v[n] = tidy(text)
			} else if err := walk(item, depth+1, changed); err != nil {
				return err
			}
		}
	}
	return nil
}

// compile makes a validator that never leaves the document. Patterns that RE2 does not know (look-around) are not
// checked here; the server checks them. With formats, "email" and the like are checked, too.
func compile(schema json.RawMessage, formats bool) (*jsonschema.Schema, error) {
	v, err := decode(schema)
	if err != nil {
		return nil, errNotValid
	}
	if dropPatterns(v) {
		if schema, err = json.Marshal(v); err != nil {
			return nil, errNotValid
		}
	}
	c := jsonschema.NewCompiler()
	c.Draft, c.AssertFormat = jsonschema.Draft2020, formats
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, errRemote }
	if err := c.AddResource("tool:///schema", bytes.NewReader(schema)); err != nil {
		return nil, errNotValid
	}
	s, err := c.Compile("tool:///schema")
	switch {
	case errors.Is(err, errRemote):
		return nil, errRemote
	case err != nil:
		return nil, errNotValid
	}
	return s, nil
}

// dropPatterns removes patterns that do not compile and reports whether there were any.
func dropPatterns(v any) (dropped bool) {
	switch v := v.(type) {
	case map[string]any:
		if p, ok := v["pattern"].(string); ok && badPattern(p) {
			delete(v, "pattern")
			dropped = true
		}
		if ps, ok := v["patternProperties"].(map[string]any); ok {
			for p := range ps {
				if badPattern(p) {
					delete(ps, p)
					dropped = true
				}
			}
		}
		for _, item := range v {
			dropped = dropPatterns(item) || dropped
		}
	case []any:
		for _, item := range v {
			dropped = dropPatterns(item) || dropped
		}
	}
	return dropped
}

func badPattern(p string) bool {
	_, err := regexp.Compile(p)
	return err != nil
}

// check gives every mistake of a call's arguments at once.
func (d *definition) check(args any) schemas.Problems {
	schema, err := d.compile()
	if err != nil {
		return schemas.Problems{{Server: d.Server, Text: "the tool's schema " + err.Error()}}
	}
	err = schema.Validate(args)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return schemas.Problems{{Text: "the arguments cannot be checked against the tool's schema"}}
	}
	var ps schemas.Problems
	seen := map[string]bool{}
	d.mistakes(invalid, &ps, seen)
	d.misspelt(args, ps)
	return ps
}

// misspelt gives a missing argument the hint that one was given whose name is near, where the schema allows any.
func (d *definition) misspelt(args any, ps schemas.Problems) {
	given, _ := args.(map[string]any)
	for n, p := range ps {
		name, missing := strings.CutSuffix(p.Text, " is missing")
		if !missing || strings.Count(p.Pointer, "/") != 1 {
			continue
		}
		for key := range given {
			if hint := d.nearest("", key); hint == "did you mean "+name+"?" {
				ps[n].Hint = fmt.Sprintf("%q was given; %s", short(schemas.Clean(key, true), 64), hint)
			}
		}
	}
}

// mistakes flattens the validator's tree: its leaves are what is wrong.
func (d *definition) mistakes(e *jsonschema.ValidationError, ps *schemas.Problems, seen map[string]bool) {
	for _, c := range e.Causes {
		d.mistakes(c, ps, seen)
	}
	if len(e.Causes) > 0 || len(*ps) >= maxMistakes {
		return
	}
	add := func(pointer, text, hint string) {
		if key := pointer + "\x00" + text; !seen[key] {
			seen[key] = true
			*ps = append(*ps, schemas.Problem{Pointer: short(schemas.Clean(pointer, true), 200), Text: short(schemas.Clean(text, true), 200), Hint: hint})
		}
	}
	where, text := e.InstanceLocation, e.Message
	if names, ok := strings.CutPrefix(text, "missing properties: "); ok {
		for _, name := range quoted(names) {
			add(where+"/"+escapePointer(name), fmt.Sprintf("%q is missing", name), "")
		}
		return
	}
	if names, ok := strings.CutPrefix(text, "additionalProperties "); ok {
		for _, name := range quoted(names) {
			add(where+"/"+escapePointer(name), fmt.Sprintf("unknown argument %q", name), d.nearest(where, name))
		}
		return
	}
	if kinds, ok := strings.CutPrefix(text, "expected "); ok {
		text = "must be " + strings.Replace(kinds, ", but got ", ", not ", 1)
	}
	add(where, text, "")
}

// quoted gives the names between single quotes.
func quoted(text string) []string {
	var names []string
	for n, part := range strings.Split(text, "'") {
		if n%2 == 1 {
			names = append(names, part)
		}
	}
	return names
}

func escapePointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// nearest suggests a top-level argument.
func (d *definition) nearest(where, name string) string {
	if where != "" {
		return ""
	}
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(d.Input, &s) != nil {
		return ""
	}
	names := make([]string, 0, len(s.Properties))
	for p := range s.Properties {
		names = append(names, p)
	}
	return didYouMean(name, names)
}

// didYouMean gives a hint with the nearest name, "" if none is near.
func didYouMean(name string, names []string) string {
	best := schemas.Nearest(name, names)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}
