package registry

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"bobbin/schemas"
)

const (
	minHidden = 8 // characters; shorter values are words
	hiddenAs  = "***"
	withheld  = `{"content":[{"type":"text","text":"[withheld by bobbin: the answer holds a secret of this server]"}],"isError":true}`
)

// hidden gives the values that nobody may see, even if the server repeats them: all but those of inputs that are declared as
// no password. A folder or a region is needed in answers.
func hidden(values map[string]schemas.Secret, inputs []schemas.Input) []string {
	var hide []string
	for id, secret := range values {
		v := secret.Reveal()
		open := slices.ContainsFunc(inputs, func(in schemas.Input) bool { return in.ID == id && !in.Password })
		if !open && len(v) >= minHidden {
			hide = append(hide, v)
		}
	}
	slices.SortFunc(hide, func(a, b string) int { return len(b) - len(a) })
	return hide
}

// conceal takes the server's own secrets out of what it answered: an environment that a tool lists must reach neither people
// nor models. It sees a value as JSON writes it, once or twice (a text that holds JSON), and no other encoding.
func (i *instance) conceal(raw json.RawMessage) json.RawMessage {
	found := false
	for _, form := range i.forms {
		if bytes.Contains(raw, form) {
			raw, found = bytes.ReplaceAll(raw, form, []byte(hiddenAs)), true
		}
	}
	if found && !json.Valid(raw) { // it stood outside of a text, as a number
		return json.RawMessage(withheld)
	}
	return raw
}

// written lists the ways in which values may stand inside a JSON text, longest first.
func written(values []string) [][]byte {
	var forms [][]byte
	add := func(texts ...string) {
		for _, t := range texts {
			if !slices.ContainsFunc(forms, func(f []byte) bool { return string(f) == t }) {
				forms = append(forms, []byte(t))
			}
		}
	}
	for _, v := range values {
		for _, once := range []string{inside(v, false), inside(v, true)} {
			add(v, once, inside(once, false), inside(once, true))
		}
	}
	slices.SortStableFunc(forms, func(a, b []byte) int { return len(b) - len(a) })
	return forms
}

func inside(v string, html bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if e.Encode(v) != nil {
		return v
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// veil is conceal for a plain text.
func (i *instance) veil(text string) string {
	for _, v := range i.hide {
		text = strings.ReplaceAll(text, v, hiddenAs)
	}
	return text
}
