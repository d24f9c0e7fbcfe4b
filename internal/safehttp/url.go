package safehttp

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// maxURL is in bytes.
const maxURL = 2048

// CheckURL parses a URL that someone supplied and returns it with its host in
// lower case and without the scheme's own port. It accepts https to public
// hosts and, with allowLoopbackHTTP, http and https to this machine, decided on
// the parsed host. It looks nothing up: the client of [New] checks the
// addresses behind a name when it connects.
//
// Errors are [*URLError] and, for addresses that are never open, [*BlockedError].
func CheckURL(raw string, allowLoopbackHTTP bool) (*url.URL, error) {
	return checkURL(raw, Rules{Loopback: allowLoopbackHTTP})
}

func checkURL(raw string, rules Rules) (*url.URL, error) {
	switch {
	case raw == "":
		return nil, &URLError{"the address is empty", "write the whole address, such as https://mcp.example.com/mcp"}
	case len(raw) > maxURL:
		return nil, &URLError{fmt.Sprintf("the address is longer than %d bytes", maxURL), "use a shorter address"}
	case strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' }):
		return nil, &URLError{"the address holds a space, backslash or control character", "remove it, or percent-encode a space"}
	case strings.Contains(raw, "#"):
		return nil, &URLError{"the address has a fragment", "remove the # and what follows"}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, &URLError{"the address cannot be read", "write it as https://host/path"}
	}
	if err := checkTarget(u, rules); err != nil {
		return nil, err
	}
	if err := checkPathQuery(u, raw); err != nil {
		return nil, err
	}
	u.Host = hostPort(u)
	return u, nil
}

// Origin is scheme://host:port with the port always written, in lower case:
// equal strings are the same origin (RFC 6454, section 4). A nil URL has the
// empty origin.
func Origin(u *url.URL) string {
	if u == nil {
		return ""
	}
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(hostname(u), port(u))
}

// checkTarget judges where a request would go: scheme, user, host and port.
func checkTarget(u *url.URL, rules Rules) error {
	if u == nil || u.Host == "" || u.Opaque != "" {
		return &URLError{"the address names no host", "write it as https://host/path"}
	}
	if u.User != nil {
		return &URLError{"the address holds a user name or password", "remove what stands before the @; give credentials as a header or connect the account"}
	}
	host := hostname(u)
	if err := checkHost(host); err != nil {
		return err
	}
	if err := checkPort(u); err != nil {
		return err
	}
	loopback := isLoopbackHost(host)
	switch u.Scheme {
	case "https":
	case "http":
		if !loopback && !rules.Allow.http(u) {
			return &URLError{"the address must start with https://", "http only on this machine itself: http://127.0.0.1:PORT"}
		}
	default:
		return &URLError{"the address must start with https://", "it looks like https://mcp.example.com/mcp"}
	}
	if loopback {
		if !rules.Loopback {
			return &BlockedError{}
		}
		return nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if err := publicGuard().SafeAddr(addr); err != nil && !rules.Allow.opens(host, port(u), addr) {
			return &BlockedError{cause: err}
		}
	}
	return nil
}

func checkHost(host string) error {
	if strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return &URLError{"the host has letters outside of ASCII", "write its punycode form, which starts with xn--"}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" || addr.Is4In6() {
			return &URLError{"the host is an unusual form of an address", "write the plain address or a name"}
		}
		return nil
	}
	if len(host) > 253 {
		return &URLError{"the host is too long", "host names have at most 253 characters"}
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		bad := strings.ContainsFunc(label, func(r rune) bool {
			return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_')
		})
		if label == "" || len(label) > 63 || bad {
			return &URLError{"the host is not a valid name", "host names are letters, digits and hyphens between single dots"}
		}
	}
	// C libraries read such names as numeric IPv4 addresses in hexadecimal,
	// octal or one number (WHATWG URL, "ends in a number").
	last := labels[len(labels)-1]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || isDigits(last) || strings.HasPrefix(last, "0x") {
		return &URLError{"the host is an unusual form of an address", "write the plain address or a name"}
	}
	return nil
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// checkPort allows every port but those of mail: a request body inside TLS can
// be a letter to a mail server.
func checkPort(u *url.URL) error {
	if strings.HasSuffix(u.Host, ":") {
		return &URLError{"the port is empty", "remove the colon or write a port"}
	}
	switch n, err := strconv.ParseUint(port(u), 10, 16); {
	case u.Port() == "" && err != nil: // the scheme decides about this one
		return nil
	case err != nil || n == 0:
		return &URLError{"the port is not between 1 and 65535", "correct the number after the host"}
	case n == 25 || n == 465 || n == 587:
		return &URLError{"the port belongs to mail servers", "use the server's web port"}
	}
	return nil
}

func checkPathQuery(u *url.URL, raw string) error {
	if strings.ContainsFunc(raw, func(r rune) bool { return r > unicode.MaxASCII }) {
		return &URLError{"the address has characters outside of ASCII", "percent-encode them"}
	}
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil {
		return &URLError{"the address's query has a broken percent-encoding", "write % as %25"}
	}
	if strings.ContainsFunc(u.Path+query, unicode.IsControl) {
		return &URLError{"the address holds an encoded control character", "remove it"}
	}
	return nil
}

// hostname is the host in lower case, an IP address in its canonical form.
func hostname(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String()
	}
	return host
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	switch strings.ToLower(u.Scheme) {
	case "https":
		return "443"
	case "http":
		return "80"
	}
	return ""
}

func hostPort(u *url.URL) string {
	host, p := hostname(u), port(u)
	if p != port(&url.URL{Scheme: u.Scheme}) {
		return net.JoinHostPort(host, p)
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
