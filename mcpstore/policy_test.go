package mcpstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

func TestRule(t *testing.T) {
	r := open(t, mcpstore.Options{})
	past := time.Now().Add(-time.Hour)
	allow := func(p *schemas.Policy) error {
		p.Thread.Allow = append(p.Thread.Allow, "github.*")
		p.Members["u1"] = schemas.Rules{Deny: []string{"*"}}
		p.Members["u2"] = schemas.Rules{}
		p.Grants = append(p.Grants, schemas.Grant{Tool: "a.b", Until: &past}, schemas.Grant{Tool: "a.c"})
		return nil
	}
	if err := r.Rule(t.Context(), tid, allow); err != nil {
		t.Fatal(err)
	}
	p := openAt(t, r.path, mcpstore.Options{}).load().Policy
	if !slices.Equal(p.Thread.Allow, []string{"github.*"}) || len(p.Members) != 1 || len(p.Grants) != 1 || p.Grants[0].Tool != "a.c" {
		t.Errorf("%+v", p)
	}
	mine := errors.New("mine")
	if err := r.Rule(t.Context(), tid, func(p *schemas.Policy) error { p.Thread.Allow[0] = "*"; return mine }); err != mine {
		t.Error(err)
	}
	err := r.Rule(t.Context(), tid, func(p *schemas.Policy) error { p.Thread.Deny = []string{"[a"}; return nil })
	if schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
	if got := r.load().Policy.Thread; !slices.Equal(got.Allow, []string{"github.*"}) || got.Deny != nil {
		t.Errorf("%+v", got)
	}
}

func TestPolicy_Broken(t *testing.T) {
	for text, where := range map[string]string{
		"":                               "1:1",
		"null":                           "1:",
		"{\n \"thread\": {\"deny\": 1}}": "2:",
		`{"thraed": {}}`:                 "1:",
		`{"thread": {}, "thread": {}}`:   "1:",
		`{"thread": {"deny": ["*"], "DENY": []}}`: "1:",
		`{"thread": {}} x`:                        "1:",
		`{"thread": {"deny": ["[a"]}}`:            "",
		"{\"thread\": {\"deny\": [\"\xff\"]}}":    "1:1",
	} {
		r := open(t, mcpstore.Options{})
		if err := r.Rule(t.Context(), tid, func(p *schemas.Policy) error { p.Thread.Deny = []string{"a.*"}; return nil }); err != nil {
			t.Fatal(err)
		}
		r.hand("policy.json", text)
		if got := r.load().Policy.Thread.Deny; !slices.Equal(got, []string{"a.*"}) {
			t.Errorf("%q: last good %v", text, got)
		}
		cfg := openAt(t, r.path, mcpstore.Options{}).load()
		if !slices.Equal(cfg.Policy.Thread.Deny, []string{"*"}) || len(cfg.Problems) != 1 || !strings.Contains(cfg.Problems[0].String(), where) {
			t.Errorf("%q: %+v", text, cfg)
		}
		if err := r.Rule(t.Context(), tid, func(*schemas.Policy) error { return nil }); schemas.CodeOf(err) != schemas.CodeUnreadable || r.text("policy.json") != text {
			t.Errorf("%q: %v", text, err)
		}
	}
	r := open(t, mcpstore.Options{})
	r.hand("policy.json", `{"thread": {}, "members": {"alice": {}, "Alice": {"deny": ["*"]}}}`)
	if cfg := r.load(); len(cfg.Problems) != 0 || len(cfg.Policy.Members) != 2 {
		t.Errorf("%+v", cfg)
	}
}

func TestRule_Egress(t *testing.T) {
	r := open(t, mcpstore.Options{})
	set := func(f func(*schemas.Policy)) error {
		return r.Rule(t.Context(), tid, func(p *schemas.Policy) error { f(p); return nil })
	}
	if err := set(func(p *schemas.Policy) {
		p.Egress = &schemas.EgressRules{Allow: []string{"api.example.com:8443"}, Deny: []string{"*.example.org"}}
	}); err != nil {
		t.Fatal(err)
	}
	e := openAt(t, r.path, mcpstore.Options{}).load().Policy.Egress
	if e == nil || !slices.Equal(e.Allow, []string{"api.example.com:8443"}) || !slices.Equal(e.Deny, []string{"*.example.org"}) {
		t.Fatalf("%+v", e)
	}
	err := set(func(p *schemas.Policy) { p.Egress.Allow[0] = "http://a.example" })
	if schemas.CodeOf(err) != schemas.CodeInvalid || !strings.Contains(err.Error(), "is no host") {
		t.Error(err)
	}
	if got := r.load().Policy.Egress.Allow[0]; got != "api.example.com:8443" {
		t.Errorf("a refused change got through: %s", got)
	}
	if err := set(func(p *schemas.Policy) { *p.Egress = schemas.EgressRules{} }); err != nil || strings.Contains(r.text("policy.json"), "egress") {
		t.Errorf("%v %s", err, r.text("policy.json"))
	}
	for _, text := range []string{`{"thread": {}, "egress": {"deny": ["a b"]}}`, `{"thread": {}, "egress": {"denny": []}}`, `{"thread": {}, "egress": {"deny": [], "Deny": []}}`} {
		r.hand("policy.json", text)
		cfg := openAt(t, r.path, mcpstore.Options{}).load()
		if got, _ := cfg.Policy.Egress.Decide("api.example.com", 443); got != schemas.Deny || len(cfg.Problems) == 0 {
			t.Errorf("%s: %q %v", text, got, cfg.Problems)
		}
	}
}
