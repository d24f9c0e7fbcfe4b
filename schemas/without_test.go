package schemas_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/schemas"
)

func TestServer_Without(t *testing.T) {
	s := schemas.Server{
		Args: []string{"x.js", "--a", "${input:A}", "--both=${input:A}:${input:C}", "${input:B}", "--", "${input:B}", "--c", "${input:C}"},
		Env:  map[string]string{"A": "${input:A}", "B": "at ${input:B}", "C": "${input:C}", "D": "d"},
	}
	want := schemas.Server{Args: []string{"x.js", "--", "--c", "${input:C}"}, Env: map[string]string{"C": "${input:C}", "D": "d"}}
	if d := cmp.Diff(want, s.Without("A", "B")); d != "" {
		t.Error(d)
	}
	if len(s.Args) != 9 || len(s.Env) != 4 {
		t.Error("the definition itself was changed")
	}
	if d := cmp.Diff(s, s.Without()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(s, s.Without("X")); d != "" {
		t.Error(d)
	}
}
