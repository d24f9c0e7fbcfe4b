package safehttp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"code.dny.dev/ssrf"
)

// maxAddresses of one name are tried.
const maxAddresses = 8

// dialer connects to addresses that its guard allows. It looks names up itself
// to see every address: a name with one private address among public ones is
// an attack or a mistake, and net.Dialer would pick whichever answers.
type dialer struct {
	allowLoopback bool
	allow         Allow
	timeout       time.Duration
	resolver      resolver
	guard         *ssrf.Guardian
	public        net.Dialer                                     // its Control is the guard
	loopback      net.Dialer                                     // its Control lets only loopback pass
	foreign       func(address string, addrs []netip.Addr) error // may refuse more; nil refuses none
}

func newDialer(o Options) *dialer {
	guard := publicGuard()
	onlyLoopback := ssrf.New(ssrf.WithAnyPort(),
		ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")),
		ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")),
		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("0.0.0.0/0")),
		ssrf.WithDeniedV6Prefixes(netip.MustParsePrefix("::/0")))
	d := &dialer{
		allowLoopback: o.AllowLoopback,
		allow:         o.Allow,
		timeout:       o.DialTimeout,
		resolver:      o.Resolver,
		guard:         guard,
		public:        net.Dialer{Control: guard.Safe},
		loopback:      net.Dialer{Control: onlyLoopback.Safe},
	}
	if d.resolver == nil {
		d.resolver = net.DefaultResolver
	}
	return d
}

// publicGuard denies every special-purpose address of the IANA registries.
func publicGuard() *ssrf.Guardian {
	return ssrf.New(ssrf.WithAnyPort(),
		// Azure's WireServer gives out credentials at a public address.
		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))
}

func (d *dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &UnreachableError{cause: err}
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if isLoopbackHost(host) {
		if !d.allowLoopback {
			return nil, &BlockedError{}
		}
		return dialEach(ctx, &d.loopback, loopbackAddrs(host), port)
	}
	addrs, opened, err := d.judged(ctx, host, port)
	if err != nil {
		return nil, err
	}
	dialer := &d.public
	if opened {
		dialer = d.allow.dialer(d.guard, host, port)
	}
	return dialEach(ctx, dialer, addrs, port)
}

// judged looks a host up and refuses it for the first address that is closed; opened says that one is open because it is listed.
func (d *dialer) judged(ctx context.Context, host, port string) (addrs []netip.Addr, opened bool, err error) {
	if addrs, err = d.lookup(ctx, host); err != nil {
		return nil, false, &UnreachableError{cause: err}
	}
	for _, addr := range addrs {
		if err := d.guard.SafeAddr(addr); err != nil {
			if !d.allow.opens(host, port, addr) {
				return nil, false, &BlockedError{cause: err}
			}
			opened = true
		}
	}
	if d.foreign != nil {
		if err := d.foreign(net.JoinHostPort(host, port), addrs); err != nil {
			return nil, false, err
		}
	}
	return addrs, opened, nil
}

func (d *dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	addrs, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	// IPv4 first: where a network has none the attempt fails at once, while
	// broken IPv6 often swallows packets silently.
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return addrs, nil
}

// dialEach tries one address after the other and gives each its share of the
// time that is left.
func dialEach(ctx context.Context, dialer *net.Dialer, addrs []netip.Addr, port string) (net.Conn, error) {
	addrs = addrs[:min(len(addrs), maxAddresses)]
	errs := []error{errors.New("no address")}
	for i, addr := range addrs {
		conn, err := dialOne(ctx, dialer, net.JoinHostPort(addr.String(), port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedNetwork) {
			return nil, &BlockedError{cause: err}
		}
		errs = append(errs, err)
	}
	return nil, &UnreachableError{cause: errors.Join(errs...)}
}

func dialOne(ctx context.Context, dialer *net.Dialer, address string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return dialer.DialContext(ctx, "tcp", address)
}

// isLoopbackHost decides on the parsed host of a URL; localhost is never looked
// up (RFC 6761, section 6.3).
func isLoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() && !addr.Is4In6()
}

func loopbackAddrs(host string) []netip.Addr {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
}
