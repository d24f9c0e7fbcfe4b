package words

import (
	"net/url"
	"slices"
	"strings"

	"bobbin/schemas"
)

// Lookalike reports whether a host is written with letters beyond ASCII (RFC 5891).
func Lookalike(host string) bool {
	return slices.ContainsFunc(strings.Split(host, "."), func(label string) bool { return strings.HasPrefix(label, "xn--") })
}

// BareHost is the host of a URL, with its port.
func BareHost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(no host)"
	}
	return u.Host
}

// SafeURL leaves out user info and the values of a query, which may be secrets.
func SafeURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(an address that cannot be read)"
	}
	u.User, u.Fragment = nil, ""
	q := u.Query()
	for k, vs := range q {
		for i := range vs {
			if !schemas.InputRef.MatchString(vs[i]) {
				q[k][i] = "…"
			}
		}
	}
	if len(q) > 0 {
		u.RawQuery, _ = url.QueryUnescape(q.Encode())
	}
	return u.String()
}

// HostOf is the scheme and host of a URL, as a yes to contact it names them.
func HostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(no host)"
	}
	return u.Scheme + "://" + u.Host
}
