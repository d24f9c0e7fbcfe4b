package form_test

import (
	"encoding/json"
	"testing"

	"bobbin/bot/internal/form"
	"bobbin/schemas"
)

const issue = `{"type":"object","required":["title","number"],"properties":{
	"labels":{"type":"array","items":{"type":"string"}},
	"state":{"enum":["open","closed"]},
	"number":{"type":"integer"},
	"title":{"type":"string"},
	"draft":{"type":["null","boolean"]},
	"extra":{"type":"object"}}}`

func TestRead(t *testing.T) {
	fields := form.Of(json.RawMessage(issue))
	if fields[0].Name != "number" || fields[1].Name != "title" || fields[2].Name != "labels" {
		t.Errorf("required fields do not come first, or the order of the schema is lost: %v", form.Fields(fields))
	}
	for _, c := range []struct {
		given map[string]string
		want  string // "" for mistakes
		wrong int
	}{
		{map[string]string{"title": " a ", "number": " 42 "}, `{"number":42,"title":" a "}`, 0},
		{map[string]string{"title": "a", "number": "1", "labels": "x\n\n y \n", "state": "closed", "draft": "Yes", "extra": `{"k":1}`},
			`{"draft":true,"extra":{"k":1},"labels":["x","y"],"number":1,"state":"closed","title":"a"}`, 0},
		{map[string]string{"title": "a", "number": "1", "labels": `["x"]`}, `{"labels":["x"],"number":1,"title":"a"}`, 0},
		{map[string]string{"number": "1.5", "state": "gone", "draft": "maybe", "extra": "{"}, "", 5},
	} {
		got, problems := form.Read(fields, c.given)
		if string(got) != c.want || len(problems) != c.wrong {
			t.Errorf("%v: %s %v, want %s and %d mistakes", c.given, got, problems, c.want, c.wrong)
		}
	}
}

func TestAsked_ShowsAllOrTheJSON(t *testing.T) {
	for args, whole := range map[string]bool{`{"repo":"acme/site","number":42}`: true, `{"a":"1"}`: false, `{"a":"x","a":"y"}`: false, `{"a":" b"}`: false, `{"a":{"b":1}}`: false} {
		blocks := form.Asked(schemas.Ask{Tool: schemas.Tool{Server: "s", Name: "t"}, Args: json.RawMessage(args)})
		if got := blocks[len(blocks)-1].Code == ""; got != whole {
			t.Errorf("%s: the facts alone show it exactly: %v", args, got)
		}
	}
}
