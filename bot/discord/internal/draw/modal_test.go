package draw_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
)

func field(name, kind string, more ...string) bot.Field {
	return bot.Field{Name: name, Label: name, Kind: kind, Options: more}
}

func TestModal_PagesAndComesBack(t *testing.T) {
	f := bot.Form{Title: strings.Repeat("a long title ", 9), Fields: []bot.Field{
		field("text", ""), field("lines", "multiline"), field("secret", "secret"), field("number", "number"), field("whole", "integer"),
		field("switch", "boolean"), field("one", "choice", "red", strings.Repeat("green", 40)), field("many", "choice", strings.Split(strings.Repeat("x ", 30)+"y", " ")...),
		field("json", "json"), {Name: "described", Label: strings.Repeat("L", 60), Hint: strings.Repeat("h", 150), Default: "given", Required: true}, field("last", ""),
	}}
	f.Fields[2].Default = "must not be shown"
	typed := map[string]string{"text": "typed", "switch": "true", "one": f.Fields[6].Options[1]}
	back := map[string]string{}
	if n := draw.Pages(f); n != 3 {
		t.Fatalf("%d pages", n)
	}
	for p := range 3 {
		m, fits := draw.Modal(f, p, typed, "mcp:x")
		if !fits || len(m.Components) == 0 || len(m.Components) > wire.MaxModalFields || units(m.Title) > wire.MaxTitle || !strings.Contains(m.Title, fmt.Sprintf("(%d/3)", p+1)) {
			t.Fatalf("page %d: %+v", p, m)
		}
		got := map[string][]string{}
		for _, l := range m.Components {
			c := l.Component
			if units(l.Label) > 45 || units(l.Description) > 100 || l.Type != wire.Label {
				t.Errorf("%+v", l)
			}
			if strings.Contains(c.Value, "must not be shown") {
				t.Error("a secret is filled in")
			}
			v := []string{c.Value}
			if c.Type == wire.StringSelect {
				v = nil
				for _, o := range c.Options {
					if units(o.Label) > 100 {
						t.Errorf("option %q", o.Label)
					}
					if o.Default {
						v = []string{o.Value}
					}
				}
			}
			got[c.CustomID] = v
		}
		for k, v := range draw.Values(f, p, got) {
			back[k] = v
		}
	}
	for name, want := range map[string]string{"text": "typed", "switch": "yes", "one": f.Fields[6].Options[1], "described": "given", "secret": "", "many": "", "last": ""} {
		if v, ok := back[name]; !ok || v != want {
			t.Errorf("%s came back as %q, %t", name, v, ok)
		}
	}
	if len(back) != len(f.Fields) {
		t.Errorf("%d of %d values", len(back), len(f.Fields))
	}
}

func TestModal_TellsWhatDoesNotFit(t *testing.T) {
	f := bot.Form{Title: "edit", Fields: []bot.Field{{Name: "env", Kind: "multiline", Default: strings.Repeat("x", 4001)}}}
	if _, fits := draw.Modal(f, 0, nil, "mcp:x"); fits {
		t.Error("a value of 4,001 characters was cut or sent")
	}
	f.Fields[0].Default = strings.Repeat("x", 4000)
	if _, fits := draw.Modal(f, 0, nil, "mcp:x"); !fits {
		t.Error("a value of 4,000 characters was refused")
	}
}

func TestCommand_RequiredFirstAndModalsForJSON(t *testing.T) {
	c, err := draw.Command([]bot.Verb{
		{Name: "add-json", Summary: "s", Args: []bot.Arg{{Name: "name"}, {Name: "json", Kind: "json", Required: true}}},
		{Name: "secrets set", Summary: "s", Args: []bot.Arg{{Name: "server", Kind: "server"}, {Name: "name", Required: true}}},
		{Name: "secrets list", Summary: "s"},
	}, map[string]draw.Locale{"de": {Names: map[string]string{"add-json": "json-dazu"}, Descriptions: map[string]string{"add-json": strings.Repeat("ä", 100)}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Options) != 2 || c.Options[0].Options[1].Required || c.Options[1].Type != wire.SubCommandGroup || len(c.Options[1].Options) != 2 {
		t.Errorf("%+v", c)
	}
	set := c.Options[1].Options[0].Options
	if set[0].Name != "name" || !set[0].Required || !set[1].Autocomplete {
		t.Errorf("required options are not first: %+v", set)
	}
	if c.Options[0].DescriptionLocal["de"] == "" || draw.Size(c) < 100 {
		t.Errorf("the translation is lost, or not counted: %d", draw.Size(c))
	}
	var many []bot.Verb
	for i := range 26 {
		many = append(many, bot.Verb{Name: fmt.Sprintf("v%d", i), Summary: "s"})
	}
	if _, err := draw.Command(many, nil); err == nil {
		t.Error("26 subcommands were let through")
	}
	long := slices.Clone(many[:25])
	for i := range long {
		for j := range 4 {
			long[i].Args = append(long[i].Args, bot.Arg{Name: fmt.Sprintf("a%d", j), Hint: strings.Repeat("x", 99)})
		}
	}
	if _, err := draw.Command(long, nil); err == nil || !strings.Contains(err.Error(), "8000") {
		t.Errorf("more than 8,000 characters: %v", err)
	}
	if _, err := draw.Command([]bot.Verb{{Name: "Upper", Summary: "s"}}, nil); err == nil {
		t.Error("an upper-case name was let through")
	}
}
