package safehttp_test

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"bobbin/internal/safehttp"
)

func TestCheckURL_Accepts(t *testing.T) {
	for raw, want := range map[string]string{
		"https://mcp.example.com/mcp":              "https://mcp.example.com/mcp",
		"HTTPS://MCP.Example.com:443/A?b=%20c":     "https://mcp.example.com/A?b=%20c",
		"https://xn--gthub-n4a.example:8443":       "https://xn--gthub-n4a.example:8443",
		"https://8.8.8.8:1/":                       "https://8.8.8.8:1/",
		"https://[2606:4700:0::1111]/":             "https://[2606:4700::1111]/",
		"https://[2606:4700::1111]:8443/":          "https://[2606:4700::1111]:8443/",
		"https://a_b.example":                      "https://a_b.example",
		"http://localhost:3000/mcp":                "http://localhost:3000/mcp",
		"http://LOCALHOST:80/mcp":                  "http://localhost/mcp",
		"http://127.0.0.1:8080":                    "http://127.0.0.1:8080",
		"http://[::1]:8080":                        "http://[::1]:8080",
		"https://localhost/":                       "https://localhost/",
		"https://example.com/%C3%BC":               "https://example.com/%C3%BC",
		"https://example.com/" + repeat("a", 2028): "https://example.com/" + repeat("a", 2028),
	} {
		u, err := safehttp.CheckURL(raw, true)
		if err != nil || u.String() != want {
			t.Errorf("%.60s: %v, %v", raw, u, err)
		}
	}
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

func TestCheckURL_Refuses(t *testing.T) {
	for _, raw := range []string{
		"", "example.com", "//evil.example", "/path", "https:", "https://", "https:///x", "https:evil.example", "https://:443/",
		"http://example.com", "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://localhost.", "http://evil.example#localhost",
		"http://localhost@evil.example", "http://evil.example/localhost", "http://10.0.0.1", "http://8.8.8.8",
		"file:///etc/passwd", "unix:///x", "gopher://a.example", "ftp://a.example", "javascript:alert(1)", "data:,x", "ws://localhost",
		"https://good.example@evil.example", "https://@evil.example", `https://evil.example\@good.example`, `https:\\evil.example`, "https://a.example/#", "https://a.example/#f",
		"https://good.example:25", "https://good.example:465", "https://good.example:587", "https://a.example:0", "https://a.example:65536", "https://a.example:", "https://a.example:x",
		"https://gіthub.com", "https://ａ.example", "https://a.example/ü", "https://a.example/\u202e", "https://a.example/%00", "https://a.example/%0a", "https://a.example/?x=%0d%0a", "https://a.example/?x=%zz",
		"https://a.example/\n", " https://a.example", "https://a.example/a b", "https://a%2eexample/", "https://a..example", "https://.example", "https://a.example.",
		"https://" + repeat("a", 64) + ".example", "https://" + repeat("a.", 130) + "example", "https://a.example/" + repeat("a", 2048),
		"https://0x7f000001", "https://2130706433", "https://0177.0.0.1", "https://127.1", "https://0x7f.0x1", "https://1.2.3", "https://1.2.3.4.5", "https://017700000001", "https://256.256.256.256",
		"https://[::ffff:8.8.8.8]", "https://[fe80::1%25eth0]", "https://[::1", "https://a*.example", "https://a!b.example",
	} {
		u, err := safehttp.CheckURL(raw, true)
		var refused *safehttp.URLError
		var blocked *safehttp.BlockedError
		switch {
		case errors.As(err, &blocked):
		case !errors.As(err, &refused):
			t.Errorf("%.60q: %v, %v", raw, u, err)
		case refused.Problem == "" || refused.Hint == "" || strings.HasSuffix(refused.Problem, "."):
			t.Errorf("%.60q: %+v", raw, refused)
		}
	}
	for _, raw := range []string{"http://localhost:1", "https://localhost", "https://127.0.0.1", "https://[::1]", "https://169.254.169.254", "https://[fd00:ec2::254]", "https://168.63.129.16"} {
		var blocked *safehttp.BlockedError
		if _, err := safehttp.CheckURL(raw, false); !errors.As(err, &blocked) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestOrigin(t *testing.T) {
	for raw, want := range map[string]string{
		"https://A.example/x":         "https://a.example:443",
		"https://a.example:443":       "https://a.example:443",
		"HTTP://a.example":            "http://a.example:80",
		"https://a.example:8443":      "https://a.example:8443",
		"https://[2606:4700:0:0::1]/": "https://[2606:4700::1]:443",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := safehttp.Origin(u); got != want {
			t.Errorf("%s: %s", raw, got)
		}
	}
	if safehttp.Origin(nil) != "" {
		t.Error("nil has an origin")
	}
}

func FuzzCheckURL(f *testing.F) {
	f.Add("https://a.example:8443/x?y=z")
	f.Add("http://localhost:1")
	f.Add("https://[::ffff:a9fe:a9fe]")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := safehttp.CheckURL(raw, false)
		if err != nil {
			return
		}
		again, err := safehttp.CheckURL(u.String(), false)
		if err != nil || again.String() != u.String() || safehttp.Origin(again) != safehttp.Origin(u) {
			t.Errorf("%q became %q, then %v, %v", raw, u, again, err)
		}
		if u.Scheme != "https" || u.User != nil || u.Fragment != "" {
			t.Errorf("%q accepted as %q", raw, u)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && (addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast()) {
			t.Errorf("%q reaches %v", raw, addr)
		}
	})
}
