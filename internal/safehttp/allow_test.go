package safehttp_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"bobbin/internal/safehttp"
)

func allow(t *testing.T, entries ...string) safehttp.Allow {
	t.Helper()
	a, err := safehttp.ParseAllow(entries)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestParseAllow_Refuses(t *testing.T) {
	for _, e := range []string{"", "0.0.0.0/0", "::/0", "127.0.0.1", "localhost", "http://localhost:8080", "169.254.169.254", "168.63.129.16", "fd00:ec2::254", "::1",
		"::ffff:10.0.0.1", "https://mcp.corp.example/path", "ftp://mcp.corp.example", "https://u@mcp.corp.example", "mcp corp", "mcp.corp.example:25", "0x7f000001", "*"} {
		if _, err := safehttp.ParseAllow([]string{e}); err == nil {
			t.Errorf("%q was taken", e)
		}
	}
}

func TestRules_Check(t *testing.T) {
	rules := safehttp.Rules{Allow: allow(t, "10.0.0.0/8", "http://Plain.corp.example:8080", "https://tls.corp.example")}
	for raw, want := range map[string]bool{
		"https://10.1.2.3/mcp":                true,
		"https://192.168.1.1/mcp":             false,
		"http://10.1.2.3/mcp":                 false, // an address opens no plain http
		"http://plain.corp.example:8080/mcp":  true,
		"http://plain.corp.example:8081/mcp":  false,
		"http://plain.corp.example/mcp":       false,
		"http://tls.corp.example/mcp":         false,
		"https://anything.example/mcp":        true,
		"http://anything.example/mcp":         false,
		"http://127.0.0.1:8080/mcp":           false,
		"https://169.254.169.254/latest":      false,
		"https://[::ffff:10.1.2.3]/mcp":       false,
		"https://u:p@plain.corp.example:8080": false,
	} {
		if _, err := rules.Check(raw); (err == nil) != want {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestClient_Allow tells what the guard refuses from what it tries to reach: whatever answers there is not the host asked for.
func TestClient_Allow(t *testing.T) {
	for _, c := range []struct {
		list    []string
		host    string
		answers []string
		opened  bool
	}{
		{[]string{"mcp.corp.example"}, "mcp.corp.example", []string{"10.255.255.1"}, true},
		{[]string{"mcp.corp.example:443"}, "mcp.corp.example", []string{"fd12::1"}, true},
		{[]string{"mcp.corp.example:8443"}, "mcp.corp.example", []string{"10.255.255.1"}, false},
		{[]string{"10.255.0.0/16"}, "any.example", []string{"10.255.255.1"}, true},
		{[]string{"10.255.0.0/16"}, "any.example", []string{"10.254.255.1"}, false},
		{[]string{"mcp.corp.example"}, "other.corp.example", []string{"10.255.255.1"}, false},
		{[]string{"mcp.corp.example"}, "mcp.corp.example", []string{"169.254.169.254"}, false},
		{[]string{"mcp.corp.example"}, "mcp.corp.example", []string{"127.0.0.1"}, false},
		{[]string{"mcp.corp.example"}, "mcp.corp.example", []string{"10.255.255.1", "169.254.169.254"}, false},
		{[]string{"mcp.corp.example", "169.254.0.0/16"}, "mcp.corp.example", []string{"169.254.169.254"}, false},
		{[]string{"mcp.corp.example", "fd00::/8"}, "mcp.corp.example", []string{"fd00:ec2::254"}, false},
		{[]string{"mcp.corp.example"}, "mcp.corp.example", []string{"64:ff9b::a9fe:a9fe"}, false},
		{[]string{"mcp.corp.example"}, "mcp.corp.example", []string{"::ffff:169.254.169.254"}, false},
		{[]string{"64:ff9b::/96"}, "mcp.corp.example", []string{"64:ff9b::a00:1"}, false},
		{[]string{"mcp.corp.example"}, "mcp.corp.example", []string{"198.18.0.1"}, false},
	} {
		http1 := client(t, safehttp.Options{DialTimeout: 100 * time.Millisecond, Allow: allow(t, c.list...), Resolver: &answers{sets: [][]string{c.answers}}})
		_, err := send(t, http1, http.MethodGet, "https://"+c.host+"/")
		var blocked *safehttp.BlockedError
		if err == nil || errors.As(err, &blocked) == c.opened {
			t.Errorf("%v, %s at %v: %v", c.list, c.host, c.answers, err)
		}
	}
}
