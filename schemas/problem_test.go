package schemas_test

import (
	"testing"

	"bobbin/schemas"
)

func TestProblems_Named(t *testing.T) {
	ps := schemas.Problems{
		{Pointer: "/b", Text: "must be number, not null"},
		{Pointer: "/message", Text: `"message" is missing`, Hint: "did you mean it?"},
		{Pointer: "/items/0/name", Text: `"name" is missing`},
		{Text: "the arguments must be one object"},
	}
	want := "b: must be number, not null\n\"message\" is missing (did you mean it?)\nitems/0/name: \"name\" is missing\nthe arguments must be one object"
	if got := ps.Named().Error(); got != want {
		t.Errorf("%s", got)
	}
	if ps[0].Text != "must be number, not null" {
		t.Error("the problems themselves were changed")
	}
}
