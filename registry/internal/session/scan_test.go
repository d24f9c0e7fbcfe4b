package session

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The scanner must call valid exactly what encoding/json calls valid: a
// result that it lets pass is spliced into other messages.
func TestScanObject_AgreesWithEncodingJSON(t *testing.T) {
	for _, in := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":01}`, `{"a":-}`, `{"a":-0.5e+10}`, `{"a":1.}`, `{"a":"\u12g4"}`, `{"a":"\u00e4"}`, `{"a":"\x"}`,
		`{"a":"` + "\x01" + `"}`, `{"a":tru}`, `{"a":[1,2,]}`, `{"a":[1,{"b":null}]}`, `{"a":1,}`, `{"a" 1}`, `{"a":1}}`, `{"a":1`, `{`, ``,
		`{"a":"\`, `{"a":"\u12`, `{"a":[}`, `{"a":{"b":[[[]]]}}`, `{,}`, `{"a":"}"}`, `{"a":"\""}`, `{"a":1e}`, `{"a":nul}`, `{"a":}`,
	} {
		if got, want := scanObject([]byte(in), nil) == nil, json.Valid([]byte(in)) && strings.TrimSpace(in) != ""; got != want {
			t.Errorf("scanObject(%q) valid = %v, encoding/json says %v", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOf(rapid.SampledFrom([]string{`{`, `}`, `[`, `]`, `,`, `:`, `"a"`, `"\n"`, `"\u00e4"`, `1`, `-0.1e5`, `true`, `null`, ` `, `\`, `"`})).Draw(t, "tokens")
		in := `{"k":` + strings.Join(tokens, "") + `}`
		if got, want := scanObject([]byte(in), nil) == nil, json.Valid([]byte(in)); got != want {
			t.Fatalf("scanObject(%q) valid = %v, encoding/json says %v", in, got, want)
		}
	})
}

func TestScanObject_DepthIsBounded(t *testing.T) {
	deep := `{"a":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`
	if scanObject([]byte(deep), nil) == nil {
		t.Fatal("accepted a million levels")
	}
}

func TestScanEnvelope(t *testing.T) {
	e, err := scanEnvelope([]byte(`{"jsonrpc":"2.0","id": 7 ,"result":{"id":8,"s":"\"id\":9"}}`))
	if err != nil || string(e.id) != "7" || string(e.result) != `{"id":8,"s":"\"id\":9"}` || e.method != nil || e.err != nil {
		t.Fatalf("got %q %q, %v", e.id, e.result, err)
	}
}

func TestCompactObject(t *testing.T) {
	for in, want := range map[string]string{"": "{}", "{\n\"a\":\r\n1}": `{"a":1}`, ` {"a": "b"} `: `{"a": "b"}`, "[]": "", "{": ""} {
		got, err := compactObject([]byte(in))
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("compactObject(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}
