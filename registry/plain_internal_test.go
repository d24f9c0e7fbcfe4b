package registry

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// What is passed without the validator is what the validator would pass.
func TestPlain_NeverPassesMoreThanTheValidator(t *testing.T) {
	passed, plains := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "é"})
		said := rapid.SampledFrom([]string{
			`{}`, `{"type":"string"}`, `{"type":"integer"}`, `{"type":"number","title":"n"}`, `{"type":"boolean","default":3}`, `{"type":"object"}`, `{"type":"array"}`,
			`{"type":"null"}`, `{"type":["string","null"]}`, `{"enum":["a"]}`, `{"type":"string","minLength":2}`, `{"type":"array","items":{"type":"string"}}`, `true`, `{"const":1}`,
		})
		value := rapid.SampledFrom([]string{`"a"`, `""`, `1`, `-1`, `1.0`, `1e2`, `1.5`, `true`, `false`, `null`, `{}`, `{"x":1}`, `[]`, `[1]`, `12345678901234567890`})
		object := func(key, item *rapid.Generator[string]) string {
			text := "{"
			for n := range rapid.IntRange(0, 4).Draw(t, "n") {
				if n > 0 {
					text += ","
				}
				text += `"` + key.Draw(t, "key") + `":` + item.Draw(t, "item")
			}
			return text + "}"
		}
		schema := `{"type":"object","properties":` + object(name, said) +
			rapid.SampledFrom([]string{"", `,"required":["a"]`, `,"required":["a","b"]`, `,"required":[]`}).Draw(t, "required") +
			rapid.SampledFrom([]string{"", `,"additionalProperties":false`, `,"additionalProperties":true`, `,"additionalProperties":{"type":"string"}`, `,"minProperties":2`, `,"description":"d"`}).Draw(t, "more") + `}`
		raw, _ := json.Marshal(map[string]any{"name": "t", "inputSchema": json.RawMessage(schema)})
		d, _, why := define("s", raw)
		if why != "" {
			t.Skip(why)
		}
		if d.plain != nil {
			plains++
		}
		for range 30 {
			args := object(name, value)
			if !d.plain.fits([]byte(args)) {
				continue
			}
			passed++
			v, err := decode([]byte(args))
			if err != nil || repeated([]byte(args)) != "" {
				t.Fatalf("%s passes", args)
			}
			if ps := d.check(v); len(ps) > 0 {
				t.Fatalf("%s passes %s: %v", schema, args, ps)
			}
		}
	})
	if passed < 3 || plains < 10 {
		t.Fatalf("%d arguments passed %d plain schemas: nothing was tested", passed, plains)
	}
}

func TestPlain_PassesWhatIsUsual(t *testing.T) {
	const schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["q"],"properties":{"q":{"type":"string","description":"d"},"n":{"type":"integer","default":3}},"additionalProperties":false}`
	raw, _ := json.Marshal(map[string]any{"name": "t", "inputSchema": json.RawMessage(schema)})
	d, _, why := define("s", raw)
	if why != "" {
		t.Fatal(why)
	}
	for args, fits := range map[string]bool{
		`{"q":"x"}`: true, ` { "n" : 3 , "q" : "\u00e9" } `: true,
		`{}`: false, `{"q":1}`: false, `{"q":"x","n":3.5}`: false, `{"q":"x","z":1}`: false, `{"q":null}`: false, `{"q":"x","q":"y"}`: false,
		`{"\u0071":"x"}`: false, `[]`: false, `{"q":"x"`: false, `{"q":"x"}{}`: false, "{\"q\":\"\xff\"}": false, ``: false,
	} {
		if got := d.plain.fits([]byte(args)); got != fits {
			t.Errorf("%s: %v", args, got)
		}
	}
}
