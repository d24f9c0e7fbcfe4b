package registry

import (
	"reflect"
	"testing"
	"time"

	"bobbin/schemas"
)

func planned(e schemas.Entry) want {
	w := want{Entry: e}
	w.def, w.runs = e.Running()
	w.id.fingerprint = w.def.Fingerprint()
	return w
}

func approve(e schemas.Entry) schemas.Entry {
	e.Approval = &schemas.Approval{Fingerprint: e.Fingerprint(), Definition: e.Server, At: time.Unix(1, 0)}
	return e
}

// Every field of a definition and of an entry needs a decision: what does a change of it do to a running server?
func TestPlan_EveryFieldIsDecided(t *testing.T) {
	base := approve(schemas.Entry{Server: schemas.Server{Name: "s", Command: "a"}, Kind: schemas.Local, Owner: "ann", Enabled: true})
	at := func(f func(*schemas.Entry)) schemas.Entry {
		e := base
		f(&e)
		return e
	}
	again := func(f func(*schemas.Entry)) schemas.Entry { return approve(at(f)) }
	server := map[string]struct {
		change schemas.Entry
		want   verb
	}{
		"Name":    {again(func(e *schemas.Entry) { e.Name = "z" }), start}, // another server; the old name is stopped
		"Type":    {again(func(e *schemas.Entry) { e.Type = schemas.HTTP }), replace},
		"Command": {again(func(e *schemas.Entry) { e.Command = "b" }), replace},
		"Args":    {again(func(e *schemas.Entry) { e.Args = []string{"x"} }), replace},
		"Env":     {again(func(e *schemas.Entry) { e.Env = map[string]string{"A": "b"} }), replace},
		"Cwd":     {again(func(e *schemas.Entry) { e.Cwd = "/x" }), replace},
		"URL":     {again(func(e *schemas.Entry) { e.URL = "https://x.example" }), replace},
		"Headers": {again(func(e *schemas.Entry) { e.Headers = map[string]string{"A": "b"} }), replace},
		"Auth":    {again(func(e *schemas.Entry) { e.Auth = &schemas.Auth{Type: "oauth"} }), replace},
		"Timeout": {at(func(e *schemas.Entry) { e.Timeout = 5000 }), keep},
		"Tools":   {at(func(e *schemas.Entry) { e.Tools = &schemas.ToolFilter{Include: []string{"a"}} }), keep},
	}
	entry := map[string]struct {
		change schemas.Entry
		want   verb
	}{
		"Server":    {at(func(e *schemas.Entry) { e.Command = "b" }), keep}, // not approved: the old one runs on
		"Kind":      {at(func(e *schemas.Entry) { e.Kind = schemas.Admin }), keep},
		"Title":     {at(func(e *schemas.Entry) { e.Title = "S" }), keep},
		"Owner":     {at(func(e *schemas.Entry) { e.Owner = "bob" }), keep},
		"OwnerName": {at(func(e *schemas.Entry) { e.OwnerName = "Bob" }), keep},
		"Enabled":   {at(func(e *schemas.Entry) { e.Enabled = false }), park},
		"Approval":  {at(func(e *schemas.Entry) { e.Approval = nil }), park},
		"Pins":      {at(func(e *schemas.Entry) { e.Pins = map[string]string{"a": "b"} }), keep},
		"Shadowed":  {at(func(e *schemas.Entry) { e.Shadowed = true }), park},
		"Loan":      {at(func(e *schemas.Entry) { e.Loan = &schemas.Loan{Member: "bob"} }), keep},
	}
	id := planned(base).id
	running := map[string]have{"s": {target: id, serving: id, up: true, known: true}}
	check := func(kind reflect.Type, table map[string]struct {
		change schemas.Entry
		want   verb
	}) {
		for i := range kind.NumField() {
			name := kind.Field(i).Name
			c, ok := table[name]
			if !ok {
				t.Errorf("%s.%s: no decision what a change of it does to a running server", kind.Name(), name)
				continue
			}
			if got := plan([]want{planned(c.change)}, running, true)[0]; got.verb != c.want {
				t.Errorf("%s.%s changed: %s, want %s", kind.Name(), name, got.verb, c.want)
			}
		}
	}
	check(reflect.TypeFor[schemas.Server](), server)
	check(reflect.TypeFor[schemas.Entry](), entry)
}

func TestPlan_States(t *testing.T) {
	e := approve(schemas.Entry{Server: schemas.Server{Name: "s", Command: "a"}, Owner: "ann", Enabled: true})
	w := planned(e)
	other := identity{fingerprint: "old"}
	rotated := identity{w.id.fingerprint, "new value"}
	needing := w
	needing.needs = []string{"KEY"}
	faulty := w
	faulty.fault = "broken"
	for name, c := range map[string]struct {
		w     want
		h     map[string]have
		eager bool
		verb  verb
		state schemas.State
	}{
		"first look starts nothing":      {w, nil, false, park, schemas.Idle},
		"new":                            {w, nil, true, start, ""},
		"needs":                          {needing, nil, true, park, schemas.Needs},
		"fault":                          {faulty, nil, true, park, schemas.Failed},
		"value deleted under it":         {needing, map[string]have{"s": {target: w.id, serving: w.id, up: true}}, true, park, schemas.Needs},
		"new definition needs a value":   {needing, map[string]have{"s": {target: other, serving: other, up: true}}, true, keep, schemas.Ready},
		"rotated while it runs":          {w, map[string]have{"s": {target: rotated, serving: rotated, up: true}}, true, replace, ""},
		"rotated while it rests":         {w, map[string]have{"s": {target: rotated, known: true}}, true, park, schemas.Idle},
		"rotated after it failed":        {w, map[string]have{"s": {target: rotated, failed: true}}, true, start, ""},
		"rotated while it starts":        {w, map[string]have{"s": {target: rotated, starting: true}}, true, start, ""},
		"rests":                          {w, map[string]have{"s": {target: w.id, known: true}}, true, keep, ""},
		"rests, tools unknown":           {w, map[string]have{"s": {target: w.id}}, true, start, ""},
		"starts":                         {w, map[string]have{"s": {target: w.id, starting: true}}, true, keep, ""},
		"failed and unchanged":           {w, map[string]have{"s": {target: w.id, failed: true}}, true, keep, ""},
		"changed while it rests":         {w, map[string]have{"s": {target: other, known: true}}, true, start, ""},
		"back from off":                  {w, map[string]have{"s": {target: w.id, parked: true, known: true}}, true, start, ""},
		"replacement failed, old serves": {w, map[string]have{"s": {target: w.id, serving: other, up: true}}, true, keep, ""},
		"put back to what serves":        {w, map[string]have{"s": {target: other, serving: w.id, up: true}}, true, keep, ""},
		"gone":                           {planned(approve(schemas.Entry{Server: schemas.Server{Name: "z"}})), map[string]have{"s": {up: true}}, true, park, schemas.Off},
	} {
		got := plan([]want{c.w}, c.h, c.eager)
		if got[0].verb != c.verb || got[0].state != c.state {
			t.Errorf("%s: %s %q, want %s %q", name, got[0].verb, got[0].state, c.verb, c.state)
		}
		if name == "gone" && (len(got) != 2 || got[1].verb != stop || got[1].server != "s") {
			t.Errorf("gone: %+v", got)
		}
	}
}
