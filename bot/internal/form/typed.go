package form

import (
	"encoding/json"
	"strconv"
	"strings"

	"bobbin/schemas"
)

// Typed is a JSON value as a person types it: a string without its quotes.
func Typed(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// Read builds a tool's arguments of a form: only what was given, typed as the schema says; all mistakes at once.
func Read(fields []Argument, values map[string]string) (json.RawMessage, schemas.Problems) {
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
func (f Argument) typed(v string) (json.RawMessage, string) {
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
func (f Argument) typedList(v string) (json.RawMessage, string) {
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
