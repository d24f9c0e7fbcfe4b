package bot

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// argument is one property of a tool's input schema, as a field and as what its values are turned into.
type argument struct {
	Field
	title string            // what the schema calls it for people
	enum  []json.RawMessage // of a choice, in the order of Options
	list  *argument         // what each line of a list is; nil: no list
}

// maxFields bounds a form; a schema with more properties is called with JSON.
const maxFields = 50

// property is what a form can use of a JSON Schema.
type property struct {
	Type        json.RawMessage   `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	EnumNames   []string          `json:"enumNames"`
	Const       json.RawMessage   `json:"const"`
	Default     json.RawMessage   `json:"default"`
	AnyOf       []property        `json:"anyOf"`
	OneOf       []property        `json:"oneOf"`
	Items       json.RawMessage   `json:"items"`
	Format      string            `json:"format"`
}

// formFields turns an input schema into fields: required ones first, else in the order of the schema.
func formFields(schema json.RawMessage) []argument {
	var top struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &top) != nil {
		return nil
	}
	var fields []argument
	for _, p := range ordered(top.Properties) {
		f := p.value.argument(p.name)
		f.Required = slices.Contains(top.Required, p.name)
		fields = append(fields, f)
		if len(fields) == maxFields {
			break
		}
	}
	slices.SortStableFunc(fields, func(a, b argument) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return fields
}

type named struct {
	name  string
	value property
}

// ordered reads an object's members in the order of the text.
func ordered(raw json.RawMessage) []named {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var all []named
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return all
		}
		var one json.RawMessage
		if d.Decode(&one) != nil {
			return all
		}
		n := named{name: name}
		_ = json.Unmarshal(one, &n.value) // true and false are schemas, too: anything goes
		all = append(all, n)
	}
	return all
}

func (p property) argument(name string) argument {
	f := argument{Field: Field{Name: name, Label: words.Short(words.Clean(name), 60), Hint: words.FirstLine(p.Description, 90)}, title: words.Short(words.Clean(p.Title), 60)}
	kind := p.kind()
	for _, alt := range p.AnyOf { // optional values are often written as anyOf with null
		if kind == "json" && len(p.Type) == 0 && alt.kind() != "json" && string(alt.Type) != `"null"` {
			kind, p.Enum = alt.kind(), alt.Enum
		}
	}
	f.Kind = kind
	if len(p.Default) > 0 && string(p.Default) != "null" {
		f.Default = text(p.Default)
	}
	if f.enum, f.Options = p.choices(); len(f.enum) > 0 {
		f.Kind = "choice"
		if i := f.choice(f.Default); i >= 0 {
			f.Default = f.Options[i]
		}
	}
	if item := p.item(); item != nil && f.Kind == "json" {
		f.Kind, f.list = "multiline", item
		hint := ", one a line"
		if len(item.Options) > 0 {
			hint += " of " + strings.Join(item.Options, ", ")
		}
		f.Hint = strings.TrimPrefix(f.Hint+hint, ", ")
		return f
	}
	if f.Kind == "json" {
		f.Hint = strings.TrimPrefix(f.Hint+", as JSON", ", ")
	}
	if f.Hint == "" {
		f.Hint = map[string]string{"email": "an e-mail address", "uri": "an address, such as https://example.com", "date": "such as 2026-11-20",
			"date-time": "such as 2026-11-20T12:00:00Z"}[p.Format]
	}
	return f
}

// choices gives the values that a property may have, and what people see for them: titles where there are distinct ones (MCP
// specification, Elicitation, enum schemas).
func (p property) choices() (values []json.RawMessage, shown []string) {
	values = p.Enum
	var titles []string
	if len(p.EnumNames) == len(values) {
		titles = p.EnumNames
	}
	if len(p.Const) > 0 {
		values, titles = []json.RawMessage{p.Const}, nil
	}
	for _, list := range [][]property{p.OneOf, p.AnyOf} {
		if len(values) == 0 && len(list) > 0 && !slices.ContainsFunc(list, func(o property) bool { return len(o.Const) == 0 }) {
			for _, o := range list {
				values, titles = append(values, o.Const), append(titles, o.Title)
			}
		}
	}
	seen := map[string]bool{"": true}
	for i := range values {
		shown = append(shown, words.Clean(text(values[i])))
	}
	for i, title := range titles {
		if titles[i] = words.Short(words.Clean(title), 80); seen[titles[i]] {
			return values, shown
		}
		seen[titles[i]] = true
	}
	if len(titles) == len(values) && len(values) > 0 {
		shown = titles
	}
	return values, shown
}

// choice is the place of a value among a choice's, by what is shown or by itself; -1 if it is none of them.
func (f argument) choice(v string) int {
	if i := slices.Index(f.Options, v); i >= 0 {
		return i
	}
	return slices.IndexFunc(f.enum, func(e json.RawMessage) bool { return text(e) == v })
}

// item is what the items of a list are, if each of them fits on a line; else nil.
func (p property) item() *argument {
	var one property
	if string(p.Type) != `"array"` || json.Unmarshal(p.Items, &one) != nil || len(p.Default) > 0 {
		return nil
	}
	if values, _ := one.choices(); one.kind() == "json" && len(values) == 0 {
		return nil
	}
	f := one.argument("")
	return &f
}

// kind is the field kind of a schema type; a list of types counts as its first that is not null.
func (p property) kind() string {
	var one string
	var many []string
	if json.Unmarshal(p.Type, &one) != nil && json.Unmarshal(p.Type, &many) == nil {
		for _, m := range many {
			if m != "null" {
				one = m
				break
			}
		}
	}
	switch one {
	case "string":
		return ""
	case "number", "integer", "boolean":
		return one
	}
	return "json"
}

// text is a JSON value as a person types it: a string without its quotes.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// arguments builds a tool's arguments of a form: only what was given, typed as the schema says; all mistakes at once.
func arguments(fields []argument, values map[string]string) (json.RawMessage, schemas.Problems) {
	args := map[string]json.RawMessage{}
	var problems schemas.Problems
	for _, f := range fields {
		v := values[f.Name]
		if strings.TrimSpace(v) == "" {
			if f.Required {
				problems = append(problems, schemas.Problem{Text: f.Label + " is needed"})
			}
			continue
		}
		raw, want := f.typed(v)
		if raw == nil {
			problems = append(problems, schemas.Problem{Text: f.Label + " must be " + want})
			continue
		}
		args[f.Name] = raw
	}
	if len(problems) > 0 {
		return nil, problems
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, schemas.Problems{{Text: "the values are no JSON"}}
	}
	return raw, nil
}

// typed gives the JSON of a value, or nil and what it should have been.
func (f argument) typed(v string) (json.RawMessage, string) {
	trimmed := strings.TrimSpace(v)
	if f.list != nil {
		return f.typedList(trimmed)
	}
	switch f.Kind {
	case "number":
		if n, err := strconv.ParseFloat(trimmed, 64); err == nil && json.Valid([]byte(trimmed)) && n == n {
			return json.RawMessage(trimmed), ""
		}
		return nil, "a number"
	case "integer":
		digits := strings.TrimPrefix(trimmed, "-")
		if json.Valid([]byte(trimmed)) && digits != "" && strings.Trim(digits, "0123456789") == "" {
			return json.RawMessage(trimmed), ""
		}
		return nil, "a whole number"
	case "boolean":
		switch strings.ToLower(trimmed) {
		case "true", "yes", "y", "on", "1":
			return json.RawMessage("true"), ""
		case "false", "no", "n", "off", "0":
			return json.RawMessage("false"), ""
		}
		return nil, "yes or no"
	case "choice":
		if i := f.choice(trimmed); i >= 0 {
			return f.enum[i], ""
		}
		return nil, "one of " + strings.Join(f.Options, ", ")
	case "json":
		if json.Valid([]byte(trimmed)) {
			return json.RawMessage(trimmed), ""
		}
		return nil, "JSON, such as [1, 2] or {\"a\": true}"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, "text"
	}
	return raw, ""
}

// typedList gives the JSON of a list that is written one item a line, or as JSON.
func (f argument) typedList(v string) (json.RawMessage, string) {
	if strings.HasPrefix(v, "[") && json.Valid([]byte(v)) {
		return json.RawMessage(v), ""
	}
	items := []json.RawMessage{}
	for line := range strings.Lines(v) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		raw, want := f.list.typed(line)
		if raw == nil {
			return nil, "a list, each line " + want
		}
		items = append(items, raw)
	}
	raw, err := json.Marshal(items)
	if err != nil {
		return nil, "a list"
	}
	return raw, ""
}
