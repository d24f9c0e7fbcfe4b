package safehttp_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

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
	for _, e := range []string{
		"", " ", "*", "*.corp.example", "mcp corp", "mcp..example", "bücher.example", "0x7f000001", "2130706433", "10.0.0.0/33", "10.1.2.3/8", ":8080",
		"0.0.0.0/0", "::/0", "0.0.0.0/1", "8.0.0.0/6", "8.8.8.8", "8.8.8.8:443", "2606:4700::1111", "fc00::/6",
		"127.0.0.1", "127.0.0.0/8", "127.0.0.1:80", "localhost", "localhost:80", "http://localhost:8080", "http://127.0.0.1:8080", "::1", "[::1]:80", "0.0.0.0", "::",
		"169.254.169.254", "169.254.0.0/16", "http://169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd00:ec2::/32", "https://[fd00:ec2::254]", "fe80::/10", "fe80::1",
		"::ffff:10.0.0.1", "::ffff:10.0.0.0/104", "64:ff9b::/96", "64:ff9b::a00:1", "64:ff9b:1::/48", "2002:a00:1::/48", "2001::/32", "fd12::1%eth0", "224.0.0.0/4", "192.0.0.0/24",
		"https://mcp.corp.example/path", "https://mcp.corp.example?x", "https://mcp.corp.example#x", "mcp.corp.example?", "ftp://mcp.corp.example", "http://", "//mcp.corp.example",
		"https://ann:hunter2@mcp.corp.example", "mcp.corp.example:25", "mcp.corp.example:", "mcp.corp.example:0", "mcp.corp.example:x",
	} {
		_, err := safehttp.ParseAllow([]string{"mcp.corp.example", e})
		var wrong *safehttp.URLError
		if !errors.As(err, &wrong) || wrong.Hint == "" || strings.Contains(wrong.Problem, "hunter2") {
			t.Errorf("%q: %v", e, err)
		}
	}
}

// TestParseAllow_AnyOrder: an entry closes nothing that another opens.
func TestParseAllow_AnyOrder(t *testing.T) {
	for _, list := range [][]string{{"http://h.example:8080", "https://h.example:8080", "h.example"}, {"h.example", "https://h.example:8080", "http://h.example:8080/"}} {
		for _, raw := range []string{"http://h.example:8080/mcp", "https://h.example:8080/mcp"} {
			if _, err := (safehttp.Rules{Allow: allow(t, list...)}).Check(raw); err != nil {
				t.Errorf("%v: %s: %v", list, raw, err)
			}
		}
	}
}

func TestRules_Check(t *testing.T) {
	rules := safehttp.Rules{Allow: allow(t, "10.0.0.0/8", "http://Plain.corp.example:8080", "https://tls.corp.example", "https://[fd12::1]:8080", "http://10.1.2.4")}
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
		"https://[fd12::1]:8080/mcp":          true,
		"https://[FD12:0::1]:8080/mcp":        true,
		"https://[fd12::1]/mcp":               false,
		"https://[fd12::1:8080]/mcp":          false, // another address
		"http://[fd12::1]:8080/mcp":           false,
		"http://10.1.2.4/mcp":                 true,
		"http://10.1.2.4:8080/mcp":            false,
		"http://plain.corp.example.:8080/mcp": false,
		"https://u:p@plain.corp.example:8080": false,
	} {
		if _, err := rules.Check(raw); (err == nil) != want {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestClient_Allow tells what the guard refuses from what it would dial. It stays off the network.
func TestClient_Allow(t *testing.T) {
	for _, c := range []struct {
		list    []string
		url     string
		answers []string
		opened  bool
	}{
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example", []string{"10.255.255.1"}, true},
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example", []string{"198.18.0.0"}, true}, // where a gateway answers for every name
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example", []string{"203.0.113.255"}, true},
		{[]string{"198.18.0.0/16"}, "https://mcp.corp.example", []string{"198.19.0.0"}, false},
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example:8443", []string{"172.16.0.1"}, true},
		{[]string{"mcp.corp.example"}, "https://MCP.Corp.example", []string{"192.168.0.1"}, true},
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example", []string{"100.64.0.1"}, true},
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example", []string{"10.255.255.1", "fd12::1", "1.1.1.1"}, true}, // each is open by itself
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example", []string{"1.1.1.1"}, true},
		{[]string{"mcp.corp.example:443"}, "https://mcp.corp.example", []string{"fd12::1"}, true},
		{[]string{"https://mcp.corp.example"}, "https://mcp.corp.example", []string{"fd12::1"}, true},
		{[]string{"http://mcp.corp.example:8080"}, "http://mcp.corp.example:8080", []string{"10.0.0.1"}, true},
		{[]string{"10.255.0.0/16"}, "https://any.example", []string{"10.255.255.1"}, true},
		{[]string{"10.255.255.1"}, "https://10.255.255.1", nil, true},
		{[]string{"https://[fd12::1]:8443"}, "https://[FD12:0::1]:8443", nil, true},

		{[]string{"mcp.corp.example:8443"}, "https://mcp.corp.example", []string{"10.255.255.1"}, false},
		{[]string{"https://mcp.corp.example"}, "https://mcp.corp.example:8443", []string{"10.255.255.1"}, false},
		{[]string{"10.255.0.0/16"}, "https://any.example", []string{"10.254.255.1"}, false},
		{[]string{"10.255.0.0/16"}, "https://any.example", []string{"10.255.255.1", "10.254.255.1"}, false},
		{[]string{"mcp.corp.example"}, "https://other.corp.example", []string{"10.255.255.1"}, false},
		{[]string{"mcp.corp.example"}, "https://x.mcp.corp.example", []string{"10.255.255.1"}, false},
		{[]string{"mcp.corp.example"}, "https://10.255.255.1", nil, false},
		{[]string{"https://[fd12::1]:8443"}, "https://[fd12::1:8443]", nil, false},
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example", []string{"10.255.255.1", "169.254.169.254"}, false},
		{[]string{"mcp.corp.example"}, "https://mcp.corp.example", []string{"10.255.255.1", "127.0.0.1"}, false},
		{[]string{"mcp.corp.example", "fd00::/8"}, "https://mcp.corp.example", []string{"fd00:ec2::254"}, false},
		{[]string{"mcp.corp.example", "100.64.0.0/10"}, "https://mcp.corp.example", []string{"100.100.100.200"}, false},
	} {
		for _, loopback := range []bool{false, true} {
			// No time is left after the lookup.
			guarded := client(t, safehttp.Options{AllowLoopback: loopback, Allow: allow(t, c.list...), DialTimeout: 1, Resolver: &answers{sets: [][]string{c.answers}}})
			err := dialOnly(t.Context(), guarded, c.url)
			var down *safehttp.UnreachableError
			var blocked *safehttp.BlockedError
			if c.opened && !errors.As(err, &down) || !c.opened && !errors.As(err, &blocked) {
				t.Errorf("%v: %s at %v: %v", c.list, c.url, c.answers, err)
			}
		}
	}
	// Nothing listed opens what is special in another way.
	for _, addr := range special() {
		ip := netip.MustParseAddr(addr).Unmap()
		if ip.IsPrivate() && addr != "fd00:ec2::254" || addr == "198.18.0.1" {
			continue
		}
		everything := allow(t, "mcp.corp.example", "http://mcp.corp.example:8080", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
		c := client(t, safehttp.Options{AllowLoopback: true, Allow: everything, Resolver: &answers{sets: [][]string{{addr}}}})
		for _, url := range []string{"https://mcp.corp.example", "http://mcp.corp.example:8080"} {
			var blocked *safehttp.BlockedError
			if err := dialOnly(t.Context(), c, url); !errors.As(err, &blocked) {
				t.Errorf("%s: %v", addr, err)
			}
		}
	}
}

func dialOnly(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

func FuzzParseAllow(f *testing.F) {
	for _, e := range []string{"10.0.0.0/8", "mcp.corp.example", "http://[fd12::1]:8080", "::ffff:a00:1", "http://a:b@c"} {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		a, err := safehttp.ParseAllow([]string{entry})
		if err != nil {
			return
		}
		for _, addr := range special() {
			ip := netip.MustParseAddr(addr)
			if ip.IsPrivate() && addr != "fd00:ec2::254" || addr == "198.18.0.1" {
				continue
			}
			for _, scheme := range []string{"http", "https"} {
				if u, err := (safehttp.Rules{Allow: a}).Check(scheme + "://" + net.JoinHostPort(addr, "443")); err == nil {
					t.Errorf("%q opens %s", entry, u)
				}
			}
		}
	})
}
