package safehttp

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// Allow lists hosts of private networks that an operator opens. The zero value opens none. It is safe for concurrent use.
type Allow struct {
	prefixes []netip.Prefix
	hosts    map[string]bool // name, or host:port
	plain    map[string]bool // host:port that may be reached without TLS
}

// ParseAllow reads a list of entries: an address or a prefix of them (10.1.2.3, 10.0.0.0/8), a host (mcp.corp.example), a host with
// its port (mcp.corp.example:8443), or an origin (http://mcp.corp.example:8080), which is what opens plain http. A listed host may
// resolve to addresses of private networks (RFC 1918, RFC 4193, RFC 6598) beside public ones, and of networks for tests and examples
// (RFC 2544, RFC 5737, RFC 3849), which gateways that answer for every name like to use. Addresses of this machine and its links, of
// the clouds' metadata services, and those that carry another address inside, stay closed whatever is listed.
//
// The error is a [*URLError] that tells the operator which entry is wrong.
func ParseAllow(entries []string) (Allow, error) {
	a := Allow{hosts: map[string]bool{}, plain: map[string]bool{}}
	for _, e := range entries {
		if why := a.add(strings.ToLower(strings.TrimSpace(e))); why != "" {
			if strings.Contains(e, "@") { // what stands before it may be a password
				e = "one entry"
			}
			return Allow{}, &URLError{fmt.Sprintf("%.100q opens nothing: %s", e, why), "write an address, a prefix such as 10.0.0.0/8, a host, host:port, or an origin such as http://mcp.corp.example:8080"}
		}
	}
	return a, nil
}

// add says why it refuses an entry.
func (a *Allow) add(e string) string {
	if p, err := netip.ParsePrefix(e); err == nil {
		if p != p.Masked() {
			return "write it as " + p.Masked().String() + ", or the one address without a length"
		}
		return a.addPrefix(p)
	}
	if addr, err := netip.ParseAddr(e); err == nil && addr.Zone() == "" {
		return a.addPrefix(netip.PrefixFrom(addr, addr.BitLen()))
	}
	scheme, rest, origin := strings.Cut(e, "://")
	if !origin {
		scheme, rest = "https", e
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil || scheme != "http" && scheme != "https" || u.User != nil || strings.Trim(u.Path, "/") != "" || strings.ContainsAny(rest, "?#") {
		return "it is no host"
	}
	host := hostname(u)
	if err := checkHost(host); err != nil {
		return "it is no host"
	}
	if isLoopbackHost(host) {
		return "this machine is never open this way"
	}
	if addr, err := netip.ParseAddr(host); err == nil && !private(netip.PrefixFrom(addr, addr.BitLen())) {
		return notPrivate
	}
	if err := checkPort(u); err != nil {
		return "that port is never open"
	}
	if !origin && u.Port() == "" {
		a.hosts[host] = true
		return ""
	}
	key := net.JoinHostPort(host, port(u))
	a.hosts[key] = true
	if origin && scheme == "http" {
		a.plain[key] = true
	}
	return ""
}

const notPrivate = "only addresses of private networks can be opened, and no metadata service"

func (a *Allow) addPrefix(p netip.Prefix) string {
	if !private(p) {
		return notPrivate
	}
	a.prefixes = append(a.prefixes, p)
	return ""
}

// http reports whether a URL may be reached without TLS.
func (a Allow) http(u *url.URL) bool { return a.plain[net.JoinHostPort(hostname(u), port(u))] }

// opens reports whether an address that is not public is open, as that of a host and port.
func (a Allow) opens(host, port string, addr netip.Addr) bool {
	addr = addr.Unmap()
	if !private(netip.PrefixFrom(addr, addr.BitLen())) {
		return false
	}
	for _, p := range a.prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	host = hostname(&url.URL{Host: net.JoinHostPort(host, port)})
	return a.hosts[host] || a.hosts[net.JoinHostPort(host, port)]
}

// dialer connects to what is public or open. Its Control judges the very address of the socket.
func (a Allow) dialer(guard *ssrf.Guardian, host, port string) *net.Dialer {
	return &net.Dialer{Control: func(network, address string, c syscall.RawConn) error {
		if ap, err := netip.ParseAddrPort(address); err == nil && a.opens(host, port, ap.Addr()) {
			return nil
		}
		return guard.Safe(network, address, c)
	}}
}

// private reports addresses that companies give to machines of their own, without those where clouds keep credentials.
func private(p netip.Prefix) bool {
	return within(p, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7",
		"198.18.0.0/15", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32") &&
		!within(p,
			"100.100.100.200/32",     // Alibaba Cloud
			"fd00:ec2::/32",          // AWS: metadata, and identities of pods
			"fd20:ce::254/128",       // Google Cloud
			"fd00:c1::a9fe:a9fe/128", // Oracle Cloud
			"fd00:42::42/128",        // Scaleway
		)
}

func within(p netip.Prefix, of ...string) bool {
	for _, s := range of {
		if q := netip.MustParsePrefix(s); q.Bits() <= p.Bits() && q.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// Rules judge URLs as the client of [New] with the same Loopback and Allow would, before anything is looked up.
type Rules struct {
	Loopback bool // as [Options.AllowLoopback]
	Allow    Allow
}

// Check is [CheckURL] with these rules.
func (r Rules) Check(raw string) (*url.URL, error) { return checkURL(raw, r) }
