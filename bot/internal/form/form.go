package form

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
)

// Argument is one property of a tool's input schema, as a field and as what its values are turned into.
type Argument struct {
	view.Field
	title string            // what the schema calls it for people
	enum  []json.RawMessage // of a choice, in the order of Options
	list  *Argument         // what each line of a list is; nil: no list
}

// MaxFields bounds a form; a schema with more properties is called with JSON.
const MaxFields = 50

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

// Of turns an input schema into fields: required ones first, else in the order of the schema.
func Of(schema json.RawMessage) []Argument {
	var top struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &top) != nil {
		return nil
	}
	var fields []Argument
	for _, p := range ordered(top.Properties) {
		f := p.value.argument(p.name)
		f.Required = slices.Contains(top.Required, p.name)
		fields = append(fields, f)
		if len(fields) == MaxFields {
			break
		}
	}
	slices.SortStableFunc(fields, func(a, b Argument) int {
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

// Fields is the fields as a door draws them.
func Fields(args []Argument) []view.Field {
	fields := make([]view.Field, len(args))
	for i, a := range args {
		fields[i] = a.Field
	}
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

func (p property) argument(name string) Argument {
	f := Argument{Field: view.Field{Name: name, Label: words.Short(words.Clean(name), 60), Hint: words.FirstLine(p.Description, 90)}, title: words.Short(words.Clean(p.Title), 60)}
	kind := p.kind()
	for _, alt := range p.AnyOf { // optional values are often written as anyOf with null
		if kind == "json" && len(p.Type) == 0 && alt.kind() != "json" && string(alt.Type) != `"null"` {
			kind, p.Enum = alt.kind(), alt.Enum
		}
	}
	f.Kind = kind
	if len(p.Default) > 0 && string(p.Default) != "null" {
		f.Default = Typed(p.Default)
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
		shown = append(shown, words.Clean(Typed(values[i])))
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
func (f Argument) choice(v string) int {
	if i := slices.Index(f.Options, v); i >= 0 {
		return i
	}
	return slices.IndexFunc(f.enum, func(e json.RawMessage) bool { return Typed(e) == v })
}

// item is what the items of a list are, if each of them fits on a line; else nil.
func (p property) item() *Argument {
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
