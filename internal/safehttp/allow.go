package safehttp

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Allow lists hosts of private networks that an operator opens. The zero value opens none.
type Allow struct {
	prefixes []netip.Prefix
	hosts    map[string]bool // host, or host:port
	plain    map[string]bool // host:port that may be reached without TLS
}

// ParseAllow reads a list of entries: an address or a prefix of them (10.1.2.3, 10.0.0.0/8), a host (mcp.corp.example), a host with
// its port (mcp.corp.example:8443), or an origin (http://mcp.corp.example:8080), which is what opens plain http. Whatever is
// listed, addresses of this machine, of its links and of the clouds' metadata services stay closed. Errors are [*URLError].
func ParseAllow(entries []string) (Allow, error) {
	a := Allow{hosts: map[string]bool{}, plain: map[string]bool{}}
	for _, e := range entries {
		if err := a.add(strings.ToLower(strings.TrimSpace(e))); err != nil {
			return Allow{}, err
		}
	}
	return a, nil
}

func (a *Allow) add(e string) error {
	wrong := func(why string) error {
		return &URLError{fmt.Sprintf("%q opens nothing: %s", e, why), "write an address, a prefix such as 10.0.0.0/8, a host, host:port, or an origin such as http://mcp.corp.example:8080"}
	}
	if p, err := netip.ParsePrefix(e); err == nil {
		if p.Addr().Is4In6() || p.Bits() == 0 {
			return wrong("that is everything")
		}
		a.prefixes = append(a.prefixes, p.Masked())
		return nil
	}
	if addr, err := netip.ParseAddr(e); err == nil && addr.Zone() == "" && !addr.Is4In6() {
		if forever(addr) {
			return wrong("that address is never open")
		}
		a.prefixes = append(a.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	scheme, rest, origin := strings.Cut(e, "://")
	if !origin {
		scheme, rest = "https", e
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || scheme != "http" && scheme != "https" {
		return wrong("it is no host")
	}
	if err := checkHost(hostname(u)); err != nil {
		return wrong("it is no host")
	}
	if isLoopbackHost(hostname(u)) {
		return wrong("this machine is never open this way")
	}
	if err := checkPort(u); err != nil {
		return wrong("that port is never open")
	}
	switch {
	case origin:
		a.hosts[hostname(u)+":"+port(u)] = true
		a.plain[hostname(u)+":"+port(u)] = scheme == "http"
	case u.Port() != "":
		a.hosts[hostname(u)+":"+u.Port()] = true
	default:
		a.hosts[hostname(u)] = true
	}
	return nil
}

// http reports whether a URL may be reached without TLS.
func (a Allow) http(u *url.URL) bool { return a.plain[hostname(u)+":"+port(u)] }

// addr reports whether an address that is not public is open, as that of a host and port.
func (a Allow) addr(host, port string, addr netip.Addr) bool {
	addr = addr.Unmap()
	if forever(addr) {
		return false
	}
	for _, p := range a.prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	host = strings.ToLower(host)
	return internal(addr) && (a.hosts[host] || a.hosts[host+":"+port])
}

// internal reports an address that companies give to machines of their own: RFC 1918, RFC 4193, and RFC 6598, which some use so.
func internal(addr netip.Addr) bool {
	return addr.IsPrivate() || netip.MustParsePrefix("100.64.0.0/10").Contains(addr)
}

// forever reports an address that nothing opens: of this machine, its links, groups, metadata services, and those that carry
// another address inside, which would slip past every list.
func forever(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsLoopback() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsInterfaceLocalMulticast() {
		return true
	}
	for _, p := range []string{"0.0.0.0/8", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "255.255.255.255/32", "fd00:ec2::254/128", "fd20:ce::254/128",
		"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96"} {
		if netip.MustParsePrefix(p).Contains(addr) {
			return true
		}
	}
	return false
}

// Rules judge URLs as the client of [New] with the same Loopback and Allow would, before anything is looked up.
type Rules struct {
	Loopback bool
	Allow    Allow
}

// Check is [CheckURL] with these rules.
func (r Rules) Check(raw string) (*url.URL, error) { return checkURL(raw, r) }
