package own

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

const (
	maxArgs     = 256 << 10 // bytes of one call's arguments
	maxMistakes = 20        // that are said about them
)

// Check checks what a model gave against the schema; all mistakes at once, and no value in them.
func (t Tool) Check(args json.RawMessage) error {
	if len(args) > maxArgs {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: "the arguments are " + words.Size(len(args)) + "; at most " + words.Size(maxArgs)}
	}
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || len(bytes.TrimSpace(args[d.InputOffset():])) > 0 {
		return words.Invalid("the arguments of "+t.Name+" are no JSON object", "")
	}
	err := t.check.Validate(v)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return words.Invalid("the arguments of "+t.Name+" cannot be checked", "")
	}
	var said []string
	mistaken(wrong, &said)
	return words.Invalid(t.Name+": "+strings.Join(said, "; "), "its input schema says what it takes")
}

// mistaken words the leaves of a validation error.
func mistaken(e *jsonschema.ValidationError, said *[]string) {
	if len(*said) >= maxMistakes {
		return
	}
	keyword := e.KeywordLocation[strings.LastIndexByte(e.KeywordLocation, '/')+1:]
	at := strings.ReplaceAll(strings.TrimPrefix(e.InstanceLocation, "/"), "/", ".")
	if plain, err := url.PathUnescape(at); err == nil {
		at = plain
	}
	if at != "" {
		at = words.Short(words.Clean(at), 100) + ": "
	}
	text := ""
	switch {
	case keyword == "anyOf":
		text = "id or name is missing"
	case strings.HasSuffix(e.KeywordLocation, "/propertyNames/pattern"):
		text = at + "a name must be letters, digits and _, a letter or _ first, at most 64"
	case len(e.Causes) > 0:
		for _, c := range e.Causes {
			mistaken(c, said)
		}
		return
	case keyword == "required":
		text = at + strings.ReplaceAll(strings.TrimPrefix(e.Message, "missing properties: "), "'", "") + " is missing"
	case keyword == "enum":
		text = at + "must be npm, git or pip"
	default:
		text = at + words.Short(words.Clean(e.Message), 200)
	}
	if !slices.Contains(*said, text) {
		*said = append(*said, text)
	}
}
