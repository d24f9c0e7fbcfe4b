// Package safehttp is the only source of HTTP clients for URLs that a person,
// a server or a model supplied. Such a client reaches public addresses only,
// never follows a redirect to another origin, and reads no more than its limits.
package safehttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Options adjusts a client. The zero value is right for most uses.
type Options struct {
	// AllowLoopback opens the operator's own machine: http and https URLs whose
	// host is a loopback address or the word localhost, at any port. A public
	// name that resolves to loopback stays closed.
	AllowLoopback bool
	// Allow opens hosts of private networks, with and without AllowLoopback.
	Allow Allow

	DialTimeout   time.Duration // name lookup and connection; 0 = 5 s
	HeaderTimeout time.Duration // from request sent to response headers; 0 = 15 s
	Timeout       time.Duration // whole exchange with body; 0 = none, then give every request's context a deadline

	MaxBody   int64 // bytes of a body after decompression; 0 = 8 MiB
	MaxEvent  int64 // bytes of one event of a text/event-stream body; 0 = 1 MiB
	MaxStream int64 // bytes of a whole text/event-stream body, in place of MaxBody; 0 = 64 MiB

	UserAgent string         // sent when the request names none
	RootCAs   *x509.CertPool // nil = the system's
	Resolver  resolver       // nil = the system's
}

// resolver is called once for each new connection to a name, concurrently.
// [net.Resolver] is one.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// New makes a client that is safe for concurrent use. Make few and keep them:
// each has its own pool of connections.
//
// It has no cookie jar and ignores the proxy variables of the environment: a
// proxy would resolve and dial where the guard cannot see. It speaks TLS 1.2
// or newer and HTTP/1.1 or 2.
//
// Among the errors, to be found with [errors.As], are [*URLError],
// [*BlockedError], [*UnreachableError] and [*RedirectError] from the request
// and [*TooLargeError] from reading the body. Their texts name no address; the
// [*net/url.Error] around them does. Every guard is in the Transport, so it may
// be the base of other round trippers.
func New(o Options) *http.Client {
	o.DialTimeout = orDefault(o.DialTimeout, 5*time.Second)
	o.HeaderTimeout = orDefault(o.HeaderTimeout, 15*time.Second)
	o.MaxBody = orDefault(o.MaxBody, 8<<20)
	o.MaxEvent = orDefault(o.MaxEvent, 1<<20)
	o.MaxStream = orDefault(o.MaxStream, 64<<20)
	return &http.Client{
		Timeout: o.Timeout,
		Transport: &transport{options: o, base: &http.Transport{
			Proxy:                  nil,
			DialContext:            newDialer(o).DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
			TLSHandshakeTimeout:    10 * time.Second,
			ResponseHeaderTimeout:  o.HeaderTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			MaxConnsPerHost:        64,
			MaxIdleConnsPerHost:    32, // the default of 2 makes parallel callers dial again and again
			MaxIdleConns:           256,
			IdleConnTimeout:        90 * time.Second,
			ForceAttemptHTTP2:      true,
			// Without pings a dead HTTP/2 connection is given to every next request.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		}},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return &RedirectError{}
			}
			return checkRedirect(next, via[len(via)-1])
		},
	}
}

const maxRedirects = 5

func orDefault[T time.Duration | int64](value, standard T) T {
	if value <= 0 {
		return standard
	}
	return value
}

// transport holds the guards that do not depend on the connection.
type transport struct {
	base    *http.Transport
	options Options
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.check(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must, on errors too
		}
		return nil, err
	}
	nameless := t.options.UserAgent != "" && req.Header.Get("User-Agent") == ""
	if nameless || req.Header.Get("Accept-Encoding") != "" {
		req = req.WithContext(req.Context()) // a copy, since the caller's must not change
		req.Header = req.Header.Clone()
		// With an Accept-Encoding of the caller's the base would hand out compressed
		// bytes, and the limits would count those.
		req.Header.Del("Accept-Encoding")
		if nameless {
			req.Header.Set("User-Agent", t.options.UserAgent)
		}
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = t.limited(resp)
	return resp, nil
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] looks for.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// check repeats what CheckURL and CheckRedirect do, for requests that came
// past them: a server's metadata, or a client with other redirect rules.
func (t *transport) check(req *http.Request) error {
	if err := checkTarget(req.URL, Rules{t.options.AllowLoopback, t.options.Allow}); err != nil {
		return err
	}
	if req.Response != nil && req.Response.Request != nil {
		return checkRedirect(req, req.Response.Request)
	}
	return nil
}

// checkRedirect lets a safe method move inside its origin. To another origin
// it would carry credentials: net/http takes away Authorization and cookies,
// but no X-API-Key and nothing that a round tripper adds.
func checkRedirect(next, previous *http.Request) error {
	safe := previous.Method == "" || previous.Method == http.MethodGet || previous.Method == http.MethodHead
	if !safe || Origin(next.URL) != Origin(previous.URL) {
		return &RedirectError{}
	}
	return nil
}

func isEventStream(resp *http.Response) bool {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
