package schemas_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/schemas"
)

func TestSuggestion_Onto(t *testing.T) {
	s := schemas.Suggestion{Env: map[string]string{"A": "${input:A}", "B": "theirs"}, Optional: []string{"A", "C"},
		Inputs: []schemas.Input{{ID: "A"}, {ID: "C", Default: "theirs"}}}
	p := schemas.PackagePlan{Inputs: []schemas.Input{{ID: "C", Default: "own"}}, Server: schemas.Server{Env: map[string]string{"B": "own"}}}
	got := s.Onto(p)
	want := schemas.PackagePlan{Inputs: []schemas.Input{{ID: "C", Default: "own"}, {ID: "A"}}, Optional: []string{"A"},
		Server: schemas.Server{Env: map[string]string{"A": "${input:A}", "B": "own"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(p.Server.Env) != 1 {
		t.Error("the plan itself was changed")
	}
}
