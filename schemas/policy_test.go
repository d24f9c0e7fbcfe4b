package schemas_test

import (
	"testing"
	"time"

	"bobbin/schemas"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, server, tool string
		exact, wide           bool
	}{
		{"*", "a", "b", true, true},
		{"github", "github", "x", true, true},
		{"git*", "github", "x", true, true},
		{"github.*", "github", "x", true, true},
		{"github.x", "github", "x", true, true},
		{"github.x", "github", "y", false, false},
		{"*.delete_*", "github", "delete_repo", true, true},
		{"GitHub.X", "github", "x", false, true},
		{"my.server", "my.server", "x", false, true}, // may mean the whole server: enough to deny, not to allow
		{"my.server.*", "my.server", "x", true, true},
		{"my.server.x", "my.server", "x", true, true},
		{"a.b", "a.b", "shell", false, true},
		{"fs.*", "fs", "a/b", true, true}, // tool names may hold a slash
		{"fs.[", "fs", "x", false, true},  // malformed: denies, never allows
		{"", "fs", "x", false, false},
	} {
		if got := schemas.Match(c.pattern, c.server, c.tool); got != c.exact {
			t.Errorf("Match(%q, %q, %q) = %t", c.pattern, c.server, c.tool, got)
		}
		if got := schemas.MatchWide(c.pattern, c.server, c.tool); got != c.wide {
			t.Errorf("MatchWide(%q, %q, %q) = %t", c.pattern, c.server, c.tool, got)
		}
	}
}

func TestPolicy_Decide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	soon, gone := now.Add(time.Hour), now.Add(-time.Second)
	read := schemas.Tool{Server: "s", Name: "get", ReadOnly: true, Pin: "p"}
	write := schemas.Tool{Server: "s", Name: "put", Writes: true, Pin: "p"}
	shell := schemas.Tool{Server: "s", Name: "exec", Writes: true, Risk: "shell", Pin: "p"}
	rules := func(allow, ask, deny []string) schemas.Rules {
		return schemas.Rules{Allow: allow, Ask: ask, Deny: deny}
	}
	mine := func(r schemas.Rules) map[schemas.MemberID]schemas.Rules {
		return map[schemas.MemberID]schemas.Rules{"alice": r}
	}
	all := []string{"*"}
	for name, c := range map[string]struct {
		policy schemas.Policy
		tool   schemas.Tool
		want   schemas.Verb
		hidden bool
	}{
		"reading runs":                         {schemas.Policy{}, read, schemas.Allow, false},
		"writing asks":                         {schemas.Policy{}, write, schemas.AskVerb, false},
		"risk is denied":                       {schemas.Policy{}, shell, schemas.Deny, false},
		"a manager allows risk":                {schemas.Policy{Thread: rules([]string{"s.exec"}, nil, nil)}, shell, schemas.Allow, false},
		"deny wins over allow":                 {schemas.Policy{Thread: rules(all, nil, all)}, read, schemas.Deny, false},
		"ask wins over allow":                  {schemas.Policy{Thread: rules(all, all, nil)}, read, schemas.AskVerb, false},
		"own deny narrows":                     {schemas.Policy{Members: mine(rules(nil, nil, all))}, read, schemas.Deny, false},
		"own allow lifts no risk":              {schemas.Policy{Members: mine(rules(all, nil, nil))}, shell, schemas.Deny, false},
		"own allow list hides the others":      {schemas.Policy{Members: mine(rules([]string{"s.put"}, nil, nil))}, read, schemas.Deny, true},
		"own allow lifts no question":          {schemas.Policy{Members: mine(rules(all, nil, nil))}, write, schemas.AskVerb, false},
		"somebody else's rules do not count":   {schemas.Policy{Members: map[schemas.MemberID]schemas.Rules{"bob": rules(nil, nil, all)}}, read, schemas.Allow, false},
		"a grant answers the question":         {schemas.Policy{Grants: []schemas.Grant{{Tool: "s.put", Pin: "p", Member: "alice", Until: &soon}}}, write, schemas.Allow, false},
		"a grant without end":                  {schemas.Policy{Grants: []schemas.Grant{{Tool: "s.put", Pin: "p", Member: "alice"}}}, write, schemas.Allow, false},
		"a grant ends":                         {schemas.Policy{Grants: []schemas.Grant{{Tool: "s.put", Pin: "p", Member: "alice", Until: &gone}}}, write, schemas.AskVerb, false},
		"a grant is for one member":            {schemas.Policy{Grants: []schemas.Grant{{Tool: "s.put", Pin: "p", Member: "bob"}}}, write, schemas.AskVerb, false},
		"a grant is for one definition":        {schemas.Policy{Grants: []schemas.Grant{{Tool: "s.put", Pin: "old", Member: "alice"}}}, write, schemas.AskVerb, false},
		"a grant lifts no risk":                {schemas.Policy{Grants: []schemas.Grant{{Tool: "s.exec", Pin: "p", Member: "alice"}}}, shell, schemas.Deny, false},
		"a grant lifts no denial":              {schemas.Policy{Thread: rules(nil, nil, []string{"s"}), Grants: []schemas.Grant{{Tool: "s.put", Pin: "p", Member: "alice"}}}, write, schemas.Deny, false},
		"a server cannot be named like a rule": {schemas.Policy{Thread: rules([]string{"a.b"}, nil, nil)}, schemas.Tool{Server: "a.b", Name: "exec", Writes: true, Risk: "shell"}, schemas.Deny, false},
	} {
		d := c.policy.Decide(c.tool, "alice", now)
		if d.Verb != c.want || d.Hidden != c.hidden {
			t.Errorf("%s: %+v", name, d)
		}
		if d.Verb != schemas.Allow && d.Why == "" {
			t.Errorf("%s: nothing is said", name)
		}
	}
}
