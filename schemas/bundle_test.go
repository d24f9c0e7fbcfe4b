package schemas_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/schemas"
)

func TestPackagePlan_Leave(t *testing.T) {
	p := schemas.PackagePlan{Optional: []string{"A", "B"}, Server: schemas.Server{
		Args: []string{"x.js", "--a", "${input:A}", "--both=${input:A}:${input:C}", "${input:B}", "--", "${input:B}", "--c", "${input:C}"},
		Env:  map[string]string{"A": "${input:A}", "B": "at ${input:B}", "C": "${input:C}", "D": "d"},
	}}
	got := p.Leave("A", "B", "C")
	want := schemas.Server{Args: []string{"x.js", "--", "--c", "${input:C}"}, Env: map[string]string{"C": "${input:C}", "D": "d"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(p.Server.Args) != 9 || len(p.Server.Env) != 4 {
		t.Error("the plan itself was changed")
	}
	if d := cmp.Diff(p.Server, p.Leave()); d != "" {
		t.Error(d)
	}
}
