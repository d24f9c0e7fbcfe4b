package schemas_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bobbin/schemas"
)

func TestIDs(t *testing.T) {
	for _, bad := range []string{"", "../x", ".", "a/b", "a\n", "１２３", "-a", "_a", strings.Repeat("a", 65), "a b", "a\x00"} {
		if schemas.ThreadID(bad).Valid() {
			t.Errorf("%q is taken as a thread", bad)
		}
	}
	for _, good := range []string{"t1", "web-default", "123456789012345678", "A_b-C"} {
		if !schemas.ThreadID(good).Valid() {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/b", "a\\b", "a\nb", "g\u0456thub", "ａ", "__proto__", "constructor", "Prototype", strings.Repeat("a", 49)} {
		if schemas.ValidName(bad) {
			t.Errorf("%q is taken as a server's name", bad)
		}
	}
}

// TestServer_Fingerprint forces a decision for every field of a definition: whether a change of it needs a new approval.
func TestServer_Fingerprint(t *testing.T) {
	free := []string{"Name", "Timeout", "Tools"}
	base := schemas.Server{Name: "x", Type: schemas.Stdio, Command: "c"}
	change := map[string]schemas.Server{
		"Type":    {Name: "x", Type: schemas.HTTP, Command: "c"},
		"Command": {Name: "x", Type: schemas.Stdio, Command: "d"},
		"Args":    {Name: "x", Type: schemas.Stdio, Command: "c", Args: []string{"a"}},
		"Env":     {Name: "x", Type: schemas.Stdio, Command: "c", Env: map[string]string{"A": ""}},
		"Cwd":     {Name: "x", Type: schemas.Stdio, Command: "c", Cwd: "/"},
		"URL":     {Name: "x", Type: schemas.Stdio, Command: "c", URL: "https://x"},
		"Headers": {Name: "x", Type: schemas.Stdio, Command: "c", Headers: map[string]string{"A": ""}},
		"Auth":    {Name: "x", Type: schemas.Stdio, Command: "c", Auth: &schemas.Auth{Type: "none"}},
		"Name":    {Name: "y", Type: schemas.Stdio, Command: "c"},
		"Timeout": {Name: "x", Type: schemas.Stdio, Command: "c", Timeout: 5000},
		"Tools":   {Name: "x", Type: schemas.Stdio, Command: "c", Tools: &schemas.ToolFilter{Include: []string{"a"}}},
	}
	fields := reflect.TypeFor[schemas.Server]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		changed, ok := change[name]
		if !ok {
			t.Errorf("nobody decided whether a changed %s needs a new approval", name)
			continue
		}
		if same := changed.Fingerprint() == base.Fingerprint(); same != slices.Contains(free, name) {
			t.Errorf("a changed %s: same fingerprint %t", name, same)
		}
	}
	if (schemas.Server{Command: "c"}).Fingerprint() != (schemas.Server{Type: schemas.Stdio, Command: "c"}).Fingerprint() {
		t.Error("a type that is left out counts as a change")
	}
}

func TestSecret_IsNeverPrinted(t *testing.T) {
	s := schemas.NewSecret("hunter2")
	b, err := json.Marshal(map[string]any{"s": s, "l": []schemas.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(b), fmt.Sprintf("%v %+v %#v %s %q %x", s, s, s, s, s, s), fmt.Sprintf("%v %+v", struct{ S schemas.Secret }{s}, &struct{ S schemas.Secret }{s})} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
			t.Errorf("printed: %s", text)
		}
	}
	if s.Reveal() != "hunter2" {
		t.Error("lost")
	}
}

func TestProblem_String(t *testing.T) {
	p := schemas.Problem{File: "mcp.json", Line: 4, Col: 51, Server: "github", Text: `unknown key "envs"`, Hint: `did you mean "env"?`}
	if want := `mcp.json:4:51: github: unknown key "envs" (did you mean "env"?)`; p.String() != want {
		t.Errorf("%s", p)
	}
	p.File = ""
	if want := `4:51: github: unknown key "envs" (did you mean "env"?)`; p.String() != want {
		t.Errorf("%s", p)
	}
}

func TestEntry_Running(t *testing.T) {
	old := schemas.Server{Name: "x", Command: "old"}
	e := schemas.Entry{Server: schemas.Server{Name: "x", Command: "new"}, Enabled: true}
	if _, ok := e.Running(); ok || !e.Pending() {
		t.Error("an entry that nobody approved may run")
	}
	e.Approval = &schemas.Approval{Fingerprint: old.Fingerprint(), Definition: old}
	if s, ok := e.Running(); !ok || s.Command != "old" || !e.Pending() {
		t.Errorf("runs %q, %t: the approved definition runs on while the new one waits", s.Command, ok)
	}
	e.Approval.Fingerprint = e.Server.Fingerprint()
	if s, ok := e.Running(); !ok || s.Command != "new" || e.Pending() {
		t.Errorf("runs %q, %t", s.Command, ok)
	}
	for _, off := range []func(*schemas.Entry){func(e *schemas.Entry) { e.Enabled = false }, func(e *schemas.Entry) { e.Shadowed = true }} {
		o := e
		off(&o)
		if _, ok := o.Running(); ok {
			t.Error("what is off or shadowed may run")
		}
	}
}
