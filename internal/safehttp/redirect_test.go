package safehttp_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bobbin/internal/safehttp"
)

// wire is a version of HTTP.
type wire struct {
	name string
	tls  bool // HTTP/2
}

func wires() []wire { return []wire{{"HTTP/1.1", false}, {"HTTP/2.0", true}} }

// origin is a server that counts what reaches it.
type origin struct {
	*httptest.Server
	conns, requests atomic.Int32
}

func (w wire) origin(t *testing.T, h http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		o.requests.Add(1)
		if r.Proto != w.name {
			t.Errorf("%s in place of %s", r.Proto, w.name)
		}
		h(rw, r)
	}))
	o.Config.ErrorLog = log.New(io.Discard, "", 0)
	o.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			o.conns.Add(1)
		}
	}
	if o.EnableHTTP2 = w.tls; w.tls {
		o.StartTLS()
	} else {
		o.Start()
	}
	t.Cleanup(o.Close)
	return o
}

// client trusts the origin.
func (o *origin) client(t *testing.T, opt safehttp.Options) *http.Client {
	t.Helper()
	if cert := o.Certificate(); cert != nil {
		opt.RootCAs = x509.NewCertPool()
		opt.RootCAs.AddCert(cert)
	}
	opt.AllowLoopback = true
	return client(t, opt)
}

// secretly sends a request with every kind of credential.
func secretly(ctx context.Context, c *http.Client, method, url string) (string, error) {
	var body io.Reader
	if method == http.MethodPost || method == http.MethodPut {
		body = strings.NewReader("canary")
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return "", err
	}
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "X-API-Key", "Mcp-Session-Id", "X-Custom"} {
		req.Header.Set(name, "canary")
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}

// TestRedirect_Matrix: a redirect of a safe method inside its origin is followed, any other never, and nobody else hears of it.
func TestRedirect_Matrix(t *testing.T) {
	for _, w := range wires() {
		other := w.origin(t, func(http.ResponseWriter, *http.Request) {})
		var mu sync.Mutex
		reached := map[string]int{}
		var o *origin
		o = w.origin(t, func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			reached[r.URL.Path]++
			mu.Unlock()
			if r.URL.Path == "/end" {
				fmt.Fprint(rw, "end")
				return
			}
			var code int
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
			to := map[string]string{
				"same": "/end", "whole": o.URL + "/end", "other": other.URL + "/end", "scheme": strings.Replace(other.URL, "http", "ftp", 1), "slashes": "//" + other.Listener.Addr().String() + "/end",
				"name": strings.Replace(o.URL, "127.0.0.1", "localhost", 1) + "/end", "user": strings.Replace(o.URL, "://", "://me:canary@", 1) + "/end",
				"down": "http://" + other.Listener.Addr().String() + "/end", "up": "https://" + other.Listener.Addr().String() + "/end",
				"file": "file:///etc/passwd", "script": "javascript:alert(1)",
			}[r.URL.Query().Get("to")]
			rw.Header()["Location"] = []string{to}
			rw.WriteHeader(code)
		})
		safe := o.client(t, safehttp.Options{Resolver: &answers{}})
		for name, c := range map[string]*http.Client{"safe": safe, "without CheckRedirect": {Transport: safe.Transport}} {
			for _, code := range []int{301, 302, 303, 307, 308} {
				for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} {
					for _, to := range []string{"same", "whole", "other", "scheme", "slashes", "name", "user", "down", "up", "file", "script"} {
						clear(reached)
						got, err := secretly(t.Context(), c, method, fmt.Sprintf("%s/%d?to=%s", o.URL, code, to))
						follows := (method == "GET" || method == "HEAD") && (to == "same" || to == "whole")
						if (err == nil) != follows || err == nil && method == "GET" && got != "end" {
							t.Errorf("%s %s %s %d to %s: %q, %v", w.name, name, method, code, to, got, err)
						}
						if n := reached["/end"]; (n != 0) != follows || len(reached) > 2 {
							t.Errorf("%s %s %s %d to %s: reached %v", w.name, name, method, code, to, reached)
						}
					}
				}
			}
		}
		if n, conns := other.requests.Load(), other.conns.Load(); n != 0 || conns != 0 {
			t.Errorf("%s: another origin got %d requests on %d connections", w.name, n, conns)
		}
	}
}

// TestRedirect_SpecialAddressAtEachHop sends the client on to what it must not reach, at the first hop and at later ones.
func TestRedirect_SpecialAddressAtEachHop(t *testing.T) {
	victim := wire{name: "HTTP/1.1"}.origin(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(victim.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{
		"http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/computeMetadata/v1/", "https://metadata.google.internal/",
		"https://localhost:" + port, "http://localhost.:" + port, "http://127.1:" + port, "http://0x7f000001:" + port, "http://2130706433:" + port, "http://0177.0.0.1:" + port, "http://127.0.0.2:" + port,
		"http://0:" + port, "https://x.nip.example:" + port, "http://x.nip.example:" + port, victim.URL, strings.Replace(victim.URL, "http://", "http://me:pw@", 1),
	}
	for _, addr := range special() {
		targets = append(targets, "https://"+net.JoinHostPort(addr, port), "http://"+net.JoinHostPort(addr, port))
	}
	for _, w := range wires() {
		o := w.origin(t, func(rw http.ResponseWriter, r *http.Request) {
			to := r.URL.Query().Get("to")
			var hops int
			if _, _ = fmt.Sscanf(r.URL.Path, "/%d", &hops); hops > 0 {
				to = fmt.Sprintf("/%d?%s", hops-1, r.URL.RawQuery)
			}
			rw.Header().Set("Location", to)
			rw.WriteHeader(http.StatusTemporaryRedirect)
		})
		// Every name leads to the victim.
		safe := o.client(t, safehttp.Options{Resolver: &answers{sets: [][]string{{"127.0.0.1"}}}})
		for name, c := range map[string]*http.Client{"safe": safe, "without CheckRedirect": {Transport: safe.Transport}} {
			for _, to := range targets {
				for hops := range 4 {
					before := o.requests.Load()
					_, err := secretly(t.Context(), c, http.MethodGet, fmt.Sprintf("%s/%d?to=%s", o.URL, hops, to))
					var moved *safehttp.RedirectError
					var blocked *safehttp.BlockedError
					var refused *safehttp.URLError
					if !errors.As(err, &moved) && !errors.As(err, &blocked) && !errors.As(err, &refused) {
						t.Errorf("%s %s: %s after %d hops: %v", w.name, name, to, hops, err)
					}
					if n := o.requests.Load() - before; n != int32(hops)+1 {
						t.Errorf("%s %s: %s after %d hops: %d requests", w.name, name, to, hops, n)
					}
				}
			}
		}
	}
	if n, conns := victim.requests.Load(), victim.conns.Load(); n != 0 || conns != 0 {
		t.Errorf("the victim got %d requests on %d connections", n, conns)
	}
}

// TestRedirect_Chain ends, and keeps no cookie on its way.
func TestRedirect_Chain(t *testing.T) {
	for _, w := range wires() {
		o := w.origin(t, func(rw http.ResponseWriter, r *http.Request) {
			if c := r.Header.Get("Cookie"); c != "" && c != "canary" {
				t.Errorf("%s: a cookie came back: %s", w.name, c)
			}
			http.SetCookie(rw, &http.Cookie{Name: "id", Value: "stolen"})
			http.Redirect(rw, r, r.URL.Path+"x", http.StatusFound)
		})
		_, err := secretly(t.Context(), o.client(t, safehttp.Options{}), http.MethodGet, o.URL)
		var moved *safehttp.RedirectError
		if n := o.requests.Load(); !errors.As(err, &moved) || n > 6 {
			t.Errorf("%s: %d requests, %v", w.name, n, err)
		}
		if c := o.client(t, safehttp.Options{}); c.Jar != nil {
			t.Error("the client has a cookie jar")
		}
	}
}
