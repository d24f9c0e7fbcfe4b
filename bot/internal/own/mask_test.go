package own_test

import (
	"encoding/json"
	"strings"
	"testing"

	"bobbin/bot/internal/own"
)

// However a model writes env, no value of it stays.
func TestHidden(t *testing.T) {
	const secret = "ghp_0123456789"
	for _, odd := range []string{`{"env":["` + secret + `"]}`, `["` + secret + `"]`, `{"env":"` + secret + `"}`, `{"env":{"A":{"b":"` + secret + `"}}}`, `{"ENV":{"A":"` + secret + `"}}`,
		`{"\u0065nv":{"A":"` + secret + `"}}`, `{"env":{"A":"` + secret + `"},"name":"x"}`, ``} {
		if s := own.Hidden(json.RawMessage(odd)); strings.Contains(string(s), secret) || !json.Valid(s) {
			t.Errorf("%s → %s", odd, s)
		}
	}
}

func TestCheck_AllMistakesAtOnce(t *testing.T) {
	for _, tool := range own.Tools() {
		if tool.Name != own.Install {
			continue
		}
		err := tool.Check(json.RawMessage(`{"install":{"type":"brew"},"env":{"a-b":"secret"},"more":1}`))
		if err == nil {
			t.Fatal("accepted")
		}
		for _, want := range []string{"name is missing", "must be npm, git or pip", "spec is missing", "a name must be letters"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("lacks %q: %v", want, err)
			}
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("a value is repeated: %v", err)
		}
		if err := tool.Check(json.RawMessage(`{"name":"a","install":{"type":"npm","spec":"a"}}`)); err != nil {
			t.Error(err)
		}
	}
}
