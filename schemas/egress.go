package schemas

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// EgressRules are a thread's lists of hosts that programs in sandboxes may reach. An entry is a host (api.example.com), a
// domain without its own name (*.example.com), an address, or * for all; a port may follow (api.example.com:8443), and
// without one every port is meant. Deny wins over allow, and allow over ask, so that ask may list * and allow what was
// answered. No list opens an address that is not public.
type EgressRules struct {
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Empty reports whether there are no rules.
func (r *EgressRules) Empty() bool { return r == nil || len(r.Allow)+len(r.Ask)+len(r.Deny) == 0 }

// Decide says what the lists hold for a host and port, "" when nothing covers it, and the entry that decided. It reads deny
// widely: *.example.com denies example.com, too, and a malformed entry denies all.
func (r *EgressRules) Decide(host string, port int) (Verb, string) {
	if r == nil {
		return "", ""
	}
	for _, p := range r.Deny {
		if !ValidHost(p) || MatchHost(p, host, port) || MatchHost(strings.TrimPrefix(p, "*."), host, port) {
			return Deny, p
		}
	}
	for _, l := range []struct {
		verb Verb
		list []string
	}{{Allow, r.Allow}, {AskVerb, r.Ask}} {
		for _, p := range l.list {
			if MatchHost(p, host, port) {
				return l.verb, p
			}
		}
	}
	return "", ""
}

var hostForm = regexp.MustCompile(`\A(\*|(\*\.)?[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*)\z`)

// ValidHost reports whether a pattern has the form of an entry of EgressRules.
func ValidHost(pattern string) bool {
	host, port := splitHost(pattern)
	if port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return false
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Zone() == "" && !addr.Is4In6() && (addr.Is4() || host == pattern || port != "")
	}
	return len(pattern) <= 253 && hostForm.MatchString(host) && !strings.HasSuffix(pattern, ":")
}

// MatchHost reports whether a valid pattern covers a host, which is in lower case and without a final dot, and a port.
func MatchHost(pattern, host string, port int) bool {
	p, only := splitHost(pattern)
	if only != "" && only != strconv.Itoa(port) || !ValidHost(pattern) {
		return false
	}
	addr, err := netip.ParseAddr(host)
	if err == nil {
		covers, err := netip.ParseAddr(p)
		return p == "*" || err == nil && covers == addr
	}
	if domain, ok := strings.CutPrefix(p, "*."); ok {
		return strings.HasSuffix(host, "."+domain)
	}
	return p == "*" || p == host
}

// splitHost gives the host in lower case and the port, "" without one.
func splitHost(pattern string) (host, port string) {
	pattern = strings.ToLower(pattern)
	if _, err := netip.ParseAddr(pattern); err == nil {
		return pattern, ""
	}
	if h, p, err := net.SplitHostPort(pattern); err == nil {
		return h, p
	}
	return pattern, ""
}
