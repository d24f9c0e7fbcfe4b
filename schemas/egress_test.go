package schemas_test

import (
	"testing"

	"bobbin/schemas"
)

func TestMatchHost(t *testing.T) {
	for _, c := range []struct {
		pattern, host string
		port          int
		want          bool
	}{
		{"*", "a.example", 443, true},
		{"*", "192.0.2.1", 443, true},
		{"*:443", "a.example", 80, false},
		{"api.example.com", "api.example.com", 8443, true},
		{"API.example.com", "api.example.com", 443, true},
		{"api.example.com:443", "api.example.com", 8443, false},
		{"*.example.com", "api.example.com", 443, true},
		{"*.example.com", "a.b.example.com", 443, true},
		{"*.example.com", "example.com", 443, false},
		{"*.example.com", "evilexample.com", 443, false},
		{"*.example.com", "example.com.evil.test", 443, false},
		{"*.2.1", "192.0.2.1", 443, false},
		{"192.0.2.1", "192.0.2.1", 443, true},
		{"2001:db8::1", "2001:db8::1", 443, true},
		{"[2001:db8:0::1]:443", "2001:db8::1", 443, true},
		{"[2001:db8::1]:443", "2001:db8::1", 80, false},
	} {
		if got := schemas.MatchHost(c.pattern, c.host, c.port); got != c.want {
			t.Errorf("%s on %s:%d: %v", c.pattern, c.host, c.port, got)
		}
	}
}

func TestValidHost(t *testing.T) {
	for p, want := range map[string]bool{
		"": false, "a b": false, "http://a.example": false, "a.example/x": false, "a..b": false, "*a.example": false, "a.*.example": false,
		"**": false, "a.example:": false, "a.example:0": false, "a.example:70000": false, "a.example:0443": false, "a@b": false, "[a]": false,
		"::ffff:1.2.3.4": false, "fe80::1%eth0": false, "a.example.": false, "ä.example": false,
		"a": true, "*": true, "*.a.example": true, "a.example:443": true, "1.2.3.4": true, "1.2.3.4:80": true, "::1": true, "[::1]:80": true,
	} {
		if got := schemas.ValidHost(p); got != want {
			t.Errorf("%q: %v", p, got)
		}
	}
}

func TestEgressRules(t *testing.T) {
	r := &schemas.EgressRules{Allow: []string{"api.example.com", "evil.example.org"}, Ask: []string{"*"}, Deny: []string{"*.example.org"}}
	for host, want := range map[string]schemas.Verb{
		"api.example.com": schemas.Allow, "example.com": schemas.AskVerb, "evil.example.org": schemas.Deny, "example.org": schemas.Deny,
	} {
		if got, _ := r.Decide(host, 443); got != want {
			t.Errorf("%s: %q", host, got)
		}
	}
	if got, _ := (&schemas.EgressRules{Allow: []string{"*"}, Deny: []string{"ev il"}}).Decide("a.example", 443); got != schemas.Deny {
		t.Errorf("a malformed denial: %q", got)
	}
	if got, _ := (*schemas.EgressRules)(nil).Decide("a.example", 443); got != "" {
		t.Errorf("no rules: %q", got)
	}
}
