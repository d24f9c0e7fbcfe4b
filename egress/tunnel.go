package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// tunnel connects the two ends and copies until both have ended.
func (s *session) tunnel(w http.ResponseWriter, r *http.Request, c schemas.Contact) {
	far, err := s.p.dial(r.Context(), hostPort(c))
	if err != nil {
		s.refuse(w, s.failed(r.Context(), c, err))
		return
	}
	defer far.Close()
	near, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	defer context.AfterFunc(s.life, func() { _ = near.Close(); _ = far.Close() })()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { pipe(near, far, nil) })
	pipe(far, near, early.Reader)
	back.Wait()
}

// pipe copies one direction, first what was read too early. A clean end is passed on; anything else ends both directions.
func pipe(to, from net.Conn, early *bufio.Reader) {
	var err error
	if early != nil && early.Buffered() > 0 {
		_, err = io.CopyN(to, early, int64(early.Buffered()))
	}
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err == nil {
		err = closeWrite(to)
	}
	if err != nil {
		_ = to.Close()
		_ = from.Close()
	}
}

// failed says why there is no connection. An address that the guard refused is written down.
func (s *session) failed(ctx context.Context, c schemas.Contact, err error) *refusal {
	if blocked, ok := errors.AsType[*safehttp.BlockedError](err); ok {
		return s.note(ctx, c, verdict{schemas.Deny, blocked.Error(), ""})
	}
	s.p.opt.Log.Debug("egress failed", "thread", c.Thread, "server", c.Server, "err", err)
	return &refusal{http.StatusBadGateway, address(c) + " does not answer: its name may be wrong, or it is down"}
}

// forwarder carries plain http, each request on a connection of its own: nothing that one request leaves behind reaches another.
func (s *session) forwarder() *httputil.ReverseProxy {
	t := &http.Transport{
		DialContext:            s.p.dialPlain,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		TLSHandshakeTimeout:    10 * time.Second,
	}
	if up := s.p.opt.Upstream; up != nil {
		t.Proxy = http.ProxyURL(up)
		t.TLSClientConfig = s.p.upstreamTLS()
	}
	return &httputil.ReverseProxy{
		Transport:     t,
		FlushInterval: -1, // event streams
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Rewrite: func(pr *httputil.ProxyRequest) {
			c, _ := pr.In.Context().Value(contactKey{}).(schemas.Contact)
			pr.Out.URL.Host = hostPort(c)
			if c.Port == 80 { // as servers are used to see it
				pr.Out.URL.Host = strings.TrimSuffix(pr.Out.URL.Host, ":80")
			}
			pr.Out.Host = pr.Out.URL.Host
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			c, _ := r.Context().Value(contactKey{}).(schemas.Contact)
			s.refuse(w, s.failed(r.Context(), c, err))
		},
	}
}

// dialPlain is for forwarded requests; with an upstream, address is the upstream's.
func (p *Proxy) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	if p.opt.Upstream == nil {
		return p.opt.Dial(ctx, network, address)
	}
	c, _ := ctx.Value(contactKey{}).(schemas.Contact)
	if err := p.pass(ctx, hostPort(c)); err != nil {
		return nil, err
	}
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
}

// pass refuses what resolves to a closed address; a name that only the upstream knows passes.
func (p *Proxy) pass(ctx context.Context, address string) error {
	err := p.check(ctx, address)
	if _, ok := errors.AsType[*safehttp.UnreachableError](err); ok {
		return nil
	}
	return err
}

func (p *Proxy) upstreamTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.opt.CA, ServerName: p.opt.Upstream.Hostname(), NextProtos: []string{"http/1.1"}}
}

// dial makes the far end of a tunnel.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	up := p.opt.Upstream
	if up == nil {
		return p.opt.Dial(ctx, "tcp", address)
	}
	if err := p.pass(ctx, address); err != nil {
		return nil, err
	}
	port := up.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[up.Scheme]
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(up.Hostname(), port))
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if up.Scheme == "https" {
		secure := tls.Client(conn, p.upstreamTLS())
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = secure
	}
	if err := connect(conn, address, up.User); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// connect asks an upstream for a tunnel. It reads byte by byte, so that nothing of the tunnel's own is taken.
func connect(conn net.Conn, address string, user *url.Userinfo) error {
	req := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if user != nil {
		password, _ := user.Password()
		req += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, req+"\r\n"); err != nil {
		return err
	}
	var head []byte
	for b := make([]byte, 1); len(head) < 16<<10; head = append(head, b[0]) {
		if n := len(head); n >= 4 && string(head[n-4:]) == "\r\n\r\n" {
			var minor, status int
			if _, err := fmt.Sscanf(string(head), "HTTP/1.%d %d", &minor, &status); err != nil || status/100 != 2 {
				return fmt.Errorf("egress: the upstream answered %.64q", head)
			}
			return nil
		}
		if _, err := conn.Read(b); err != nil {
			return err
		}
	}
	return errors.New("egress: the upstream's answer has too long a head")
}
