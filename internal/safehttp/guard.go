package safehttp

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Guard is the address guard of [New] for those who need bare connections: tunnels of a proxy. Other than the client it also
// refuses the addresses of this machine's own interfaces, public ones included, save where [Options.Allow] lists that very
// host with its port. It is safe for concurrent use.
type Guard struct{ dialer *dialer }

// NewGuard makes a guard. Of the options it heeds AllowLoopback, Allow, DialTimeout and Resolver.
func NewGuard(o Options) *Guard {
	o.DialTimeout = orDefault(o.DialTimeout, 5*time.Second)
	d := newDialer(o)
	d.foreign = func(address string, addrs []netip.Addr) error { return foreign(o.Allow, address, addrs) }
	return &Guard{dialer: d}
}

// Target reads host:port. The host comes back in lower case, an address in its canonical form, a name without the final dot;
// ports of mail are refused as [CheckURL] does. It looks nothing up. Errors are [*URLError].
func Target(hostport string) (host string, port int, err error) {
	h, p, err := net.SplitHostPort(hostport)
	if err != nil || h == "" {
		return "", 0, &URLError{"that is no host with a port", "write it as host:port"}
	}
	u := &url.URL{Host: net.JoinHostPort(strings.TrimSuffix(h, "."), p)}
	host = hostname(u)
	if err := checkHost(host); err != nil {
		return "", 0, err
	}
	if u.Port() == "" {
		return "", 0, &URLError{"the port is not between 1 and 65535", "correct the number after the host"}
	}
	if err := checkPort(u); err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(p)
	return host, port, err
}

// DialContext connects to host:port as [Target] gives it. Among the errors are [*BlockedError] and [*UnreachableError].
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return g.dialer.DialContext(ctx, network, address)
}

// Check looks a host up and judges its addresses without connecting. It is for those who hand the name on to another proxy,
// which looks it up again: what Check found need not hold there.
func (g *Guard) Check(ctx context.Context, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return &UnreachableError{cause: err}
	}
	if isLoopbackHost(host) {
		if !g.dialer.allowLoopback {
			return &BlockedError{}
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.dialer.timeout)
	defer cancel()
	_, _, err = g.dialer.judged(ctx, host, port)
	return err
}

// foreign refuses this machine's own addresses. What cannot be known is refused.
func foreign(allow Allow, address string, addrs []netip.Addr) error {
	if allow.hosts[address] {
		return nil
	}
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return &BlockedError{cause: err}
	}
	for _, n := range nets {
		own, err := netip.ParsePrefix(n.String())
		if err == nil && slices.Contains(addrs, own.Addr().Unmap().WithZone("")) {
			return &BlockedError{}
		}
	}
	return nil
}
