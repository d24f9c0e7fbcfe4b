package safehttp_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/internal/safehttp"
)

// rawServer answers each connection with what write writes, after the request's headers.
func rawServer(t *testing.T, write func(io.Writer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					write(conn)
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wait.Wait() })
	return "http://" + l.Addr().String()
}

// flood writes the same until the client hangs up, at most 64 MiB.
func flood(w io.Writer, line string) int {
	chunk, sent := strings.Repeat(line, 1+4096/len(line)), 0
	for sent < 64<<20 {
		n, err := io.WriteString(w, chunk)
		if sent += n; err != nil {
			break
		}
	}
	return sent
}

// TestHostile_Floods: what stands before and after a body has an end, too.
func TestHostile_Floods(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct{ first, line string }{
		"status line": {"HTTP/1.1 200 ", "a"}, "no HTTP": {"", "a"}, "one header": {head + "X: ", "a"}, "header name": {head, "a"}, "headers": {head, "X: a\r\n"}, "cookies": {head, "Set-Cookie: a=b\r\n"},
		"folded header": {head + "X: a\r\n", " a\r\n"}, "early hints": {"", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"}, "continue": {"", "HTTP/1.1 100 Continue\r\n\r\n"},
		"chunk extension": {head + "Transfer-Encoding: chunked\r\n\r\n1;", "a"}, "chunk size": {head + "Transfer-Encoding: chunked\r\n\r\n", "0"},
		"extensions": {head + "Transfer-Encoding: chunked\r\n\r\n", "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\na\r\n"},
		"trailers":   {head + "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X: a\r\n"},
	} {
		var sent atomic.Int64
		url := rawServer(t, func(w io.Writer) {
			_, _ = io.WriteString(w, c.first)
			sent.Store(int64(flood(w, c.line)))
		})
		safe := client(t, safehttp.Options{AllowLoopback: true})
		if got, err := send(t, safe, http.MethodGet, url); err == nil || errors.Is(err, context.DeadlineExceeded) || len(got) > 64<<10 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	o := wires()[1].origin(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/header":
			rw.Header().Set("X", strings.Repeat("a", 1<<20))
		case "/headers":
			for i := range 5000 {
				rw.Header().Set(fmt.Sprint("X", i), "aaaaaaaaaaaaaaaaaaaa")
			}
		case "/cookies":
			for i := range 3000 {
				rw.Header().Add("Set-Cookie", fmt.Sprintf("c%d=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", i))
			}
		case "/trailer":
			_, _ = io.WriteString(rw, "a")
			rw.Header().Set(http.TrailerPrefix+"X", strings.Repeat("a", 1<<20))
		}
	})
	for _, path := range []string{"/header", "/headers", "/cookies", "/trailer"} {
		if _, err := send(t, o.client(t, safehttp.Options{}), http.MethodGet, o.URL+path); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("HTTP/2.0 %s: %v", path, err)
		}
	}
}

// TestHostile_ContentLength: a length is a claim. Less than it is an error, more than it is not read.
func TestHostile_ContentLength(t *testing.T) {
	for lengths, want := range map[string]string{
		"2": "he", "10": "hello + unexpected EOF", "1099511627776": "hello + unexpected EOF", "9223372036854775807": "hello + unexpected EOF",
		"-1": "error", "+5": "error", "0x5": "error", "5, 5": "error", "99999999999999999999": "error", "5\r\nContent-Length: 6": "error", "5\r\nContent-Length: 5": "hello",
	} {
		url := rawServer(t, func(w io.Writer) { fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhello", lengths) })
		got, err := send(t, client(t, safehttp.Options{AllowLoopback: true}), http.MethodGet, url)
		said := string(got)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			said += " + unexpected EOF"
		case err != nil:
			said = "error"
		}
		if said != want {
			t.Errorf("%q: %s, %v", lengths, said, err)
		}
	}
	o := wires()[1].origin(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", strings.TrimPrefix(r.URL.Path, "/"))
		_, _ = io.WriteString(rw, "hello")
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, length := range []string{"10", "1099511627776"} {
		if got, err := send(t, o.client(t, safehttp.Options{}), http.MethodGet, o.URL+"/"+length); err == nil || len(got) > 5 {
			t.Errorf("HTTP/2.0 %s: %q, %v", length, got, err)
		}
	}
}

// TestHostile_Slow: whoever drips is cut off: in the headers by the header's time, afterwards by the caller's deadline, which no
// byte and no event extends.
func TestHostile_Slow(t *testing.T) {
	drip := func(w io.Writer, first, line string) {
		_, err := io.WriteString(w, first)
		for ; err == nil; time.Sleep(5 * time.Millisecond) {
			_, err = io.WriteString(w, line)
		}
	}
	const head = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		first, line string
		header      bool // the header's time ends it
	}{
		"status": {"", "H", true}, "headers": {head, "X: a\r\n", true}, "header": {head + "X: ", "a", true}, "early hints": {"", "HTTP/1.1 103 Early Hints\r\n\r\n", true},
		"body": {head + "Content-Length: 1000000\r\n\r\n", "a", false}, "chunks": {head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", false},
		"events": {head + "Content-Type: text/event-stream\r\n\r\n", "data: a\n\n", false}, "pings": {head + "Content-Type: text/event-stream\r\n\r\n", ": ping\n\n", false},
	} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprint(name, own), func(t *testing.T) {
				t.Parallel()
				url := rawServer(t, func(w io.Writer) { drip(w, c.first, c.line) })
				o, wait := safehttp.Options{AllowLoopback: true}, 300*time.Millisecond
				if c.header && own {
					o.HeaderTimeout, wait = wait, 10*time.Second
				} else if own {
					o.Timeout, wait = wait, 10*time.Second
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				if _, err := secretly(ctx, client(t, o), http.MethodGet, url); !timedOut(err) || time.Since(start) > 5*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		}
	}
	for _, path := range []string{"/headers", "/body", "/events"} {
		o := wires()[1].origin(t, func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/headers":
				<-r.Context().Done()
				return
			case "/events":
				rw.Header().Set("Content-Type", "text/event-stream")
			}
			for r.Context().Err() == nil {
				_, _ = io.WriteString(rw, ": ping\n\n")
				_ = http.NewResponseController(rw).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := secretly(ctx, o.client(t, safehttp.Options{}), http.MethodGet, o.URL+path)
		cancel()
		if !timedOut(err) {
			t.Errorf("HTTP/2.0 %s: %v", path, err)
		}
		if path == "/headers" {
			if err := dialOnly(t.Context(), o.client(t, safehttp.Options{HeaderTimeout: 100 * time.Millisecond}), o.URL+path); !timedOut(err) {
				t.Errorf("HTTP/2.0 by the header's time: %v", err)
			}
		}
	}
}

func timedOut(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// TestHostile_Mute: a server that takes a connection and neither reads nor speaks holds nobody beyond the deadline.
func TestHostile_Mute(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := client(t, safehttp.Options{AllowLoopback: true})
	for _, scheme := range []string{"http", "https"} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+l.Addr().String(), strings.NewReader(strings.Repeat("a", 64<<20)))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := c.Do(req); !timedOut(err) || time.Since(start) > 5*time.Second {
			t.Errorf("%s: %v after %v", scheme, err, time.Since(start))
		}
		cancel()
	}
}

// TestHostile_Certificates: nothing but a certificate of a trusted authority, for this name, at this time.
func TestHostile_Certificates(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		from, to time.Time
		host     string
		trusted  bool
		version  uint16
		ok       bool
	}{
		"right":    {now.Add(-time.Hour), now.Add(time.Hour), "localhost", true, tls.VersionTLS13, true},
		"TLS 1.2":  {now.Add(-time.Hour), now.Add(time.Hour), "localhost", true, tls.VersionTLS12, true},
		"TLS 1.1":  {now.Add(-time.Hour), now.Add(time.Hour), "localhost", true, tls.VersionTLS11, false},
		"TLS 1.0":  {now.Add(-time.Hour), now.Add(time.Hour), "localhost", true, tls.VersionTLS10, false},
		"expired":  {now.Add(-2 * time.Hour), now.Add(-time.Hour), "localhost", true, tls.VersionTLS13, false},
		"not yet":  {now.Add(time.Hour), now.Add(2 * time.Hour), "localhost", true, tls.VersionTLS13, false},
		"other":    {now.Add(-time.Hour), now.Add(time.Hour), "other.example", true, tls.VersionTLS13, false},
		"own sign": {now.Add(-time.Hour), now.Add(time.Hour), "localhost", false, tls.VersionTLS13, false},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: c.from, NotAfter: c.to, DNSNames: []string{c.host}, IsCA: true, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		var hits atomic.Int32
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{MaxVersion: c.version, MinVersion: tls.VersionTLS10, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}} //nolint:gosec // an old server
		s.StartTLS()
		pool := x509.NewCertPool()
		if c.trusted {
			pool.AddCert(leaf)
		}
		_, err = secretly(t.Context(), client(t, safehttp.Options{AllowLoopback: true, RootCAs: pool}), http.MethodPost, strings.Replace(s.URL, "127.0.0.1", "localhost", 1))
		if (err == nil) != c.ok || hits.Load() != 0 != c.ok {
			t.Errorf("%s: %d hits, %v", name, hits.Load(), err)
		}
		s.Close()
	}
}

// TestHostile_ProxyOfEnvironment runs itself again: net/http reads the variables once in a process.
func TestHostile_ProxyOfEnvironment(t *testing.T) {
	if os.Getenv("SAFEHTTP_PROXIED") != "" {
		c := client(t, safehttp.Options{AllowLoopback: true, DialTimeout: 1, Resolver: &answers{sets: [][]string{{"1.1.1.1"}}}})
		listed := client(t, safehttp.Options{Allow: allow(t, "http://intern.example"), DialTimeout: 1, Resolver: &answers{sets: [][]string{{"10.0.0.1"}}}})
		for url, c := range map[string]*http.Client{"https://public.example": c, "http://intern.example": listed, "https://intern.example:80": listed} {
			var down *safehttp.UnreachableError
			if _, err := secretly(t.Context(), c, http.MethodPost, url); !errors.As(err, &down) {
				t.Errorf("%s: %v", url, err)
			}
		}
		// The variables do count for a client that obeys them.
		plain := http.DefaultTransport.(*http.Transport).Clone()
		defer plain.CloseIdleConnections()
		if err := dialOnly(t.Context(), &http.Client{Transport: plain}, "http://control.example"); err != nil {
			t.Errorf("no proxy was set: %v", err)
		}
		return
	}
	proxy := wires()[0].origin(t, func(http.ResponseWriter, *http.Request) {})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "SAFEHTTP_PROXIED=1", "NO_PROXY=", "no_proxy=")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		cmd.Env = append(cmd.Env, name+"="+proxy.URL)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := proxy.conns.Load(); n != 1 { // the control's
		t.Errorf("the proxy got %d connections", n)
	}
}
