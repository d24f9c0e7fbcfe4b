package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bobbin/bot"
	"bobbin/bot/discord/internal/wire"
)

// Pages is how many modals a form takes, five fields each.
func Pages(f bot.Form) int {
	return max(1, (len(f.Fields)+wire.MaxModalFields-1)/wire.MaxModalFields)
}

func page(f bot.Form, n int) []bot.Field {
	return f.Fields[min(n*wire.MaxModalFields, len(f.Fields)):min((n+1)*wire.MaxModalFields, len(f.Fields))]
}

// Modal draws page n of a form, from 0, with values typed before. Custom ids of fields are "f" and the field's index. fits is false
// when a value that stands there is too long for Discord; then the form cannot be used here.
func Modal(f bot.Form, n int, values map[string]string, id string) (m wire.Modal, fits bool) {
	title := visible(f.Title, true)
	if Pages(f) > 1 {
		of := fmt.Sprintf(" (%d/%d)", n+1, Pages(f))
		title = short(title, wire.MaxTitle-len(of)) + of
	}
	m = wire.Modal{CustomID: id, Title: cmp.Or(short(title, wire.MaxTitle), "form")}
	for i, field := range page(f, n) {
		v, typed := values[field.Name]
		if !typed && field.Kind != "secret" {
			v = field.Default
		}
		if units(v) > wire.MaxInput {
			return wire.Modal{}, false
		}
		m.Components = append(m.Components, wire.Component{
			Type: wire.Label, Label: short(cmp.Or(visible(field.Label, true), visible(field.Name, true), "value"), wire.MaxTitle),
			Description: short(visible(hint(field), true), wire.MaxOptionText), Component: input(field, v, "f"+strconv.Itoa(i)),
		})
	}
	return m, true
}

func hint(f bot.Field) string {
	h := f.Hint
	switch f.Kind {
	case "number":
		h = strings.TrimPrefix(h+" · a number", " · ")
	case "integer":
		h = strings.TrimPrefix(h+" · a whole number", " · ")
	case "choice":
		if !selectable(f) {
			h = "one of " + strings.Join(f.Options, ", ")
		}
	}
	return h
}

// selectable reports whether a field's answers fit into a select menu.
func selectable(f bot.Field) bool {
	return f.Kind == "boolean" || f.Kind == "choice" && len(f.Options) > 0 && len(f.Options) <= wire.MaxOptions &&
		!slices.ContainsFunc(f.Options, func(o string) bool { return o == "" })
}

func options(f bot.Field) []string {
	if f.Kind == "boolean" {
		return []string{"yes", "no"}
	}
	return f.Options
}

func input(f bot.Field, v, id string) *wire.Component {
	required := f.Required
	if selectable(f) {
		least, most := 0, 1
		if required {
			least = 1
		}
		c := &wire.Component{Type: wire.StringSelect, CustomID: id, Required: &required, MinValues: &least, MaxValues: &most}
		now := v
		if f.Kind == "boolean" {
			now = map[string]string{"true": "yes", "false": "no"}[v]
			now = cmp.Or(now, v)
		}
		for i, o := range options(f) { // a value is an index: what stands there may be longer than Discord takes
			c.Options = append(c.Options, wire.SelectOption{Label: cmp.Or(short(visible(o, true), wire.MaxOptionText), "(empty)"), Value: strconv.Itoa(i), Default: o == now})
		}
		return c
	}
	style := wire.Short
	if f.Kind == "multiline" || f.Kind == "json" || strings.Contains(v, "\n") {
		style = wire.Paragraph
	}
	return &wire.Component{Type: wire.TextInput, CustomID: id, Style: style, Value: v, Required: &required, MaxLength: wire.MaxInput}
}

// Values reads what Modal asked for, by field name, out of wire's Fields of that page.
func Values(f bot.Form, n int, fields map[string][]string) map[string]string {
	out := map[string]string{}
	for i, field := range page(f, n) {
		got := fields["f"+strconv.Itoa(i)]
		v := ""
		if len(got) > 0 {
			v = got[0]
		}
		if selectable(field) {
			k, err := strconv.Atoi(v)
			if err != nil || k < 0 || k >= len(options(field)) {
				v = ""
			} else {
				v = options(field)[k]
			}
		}
		out[field.Name] = v
	}
	return out
}
