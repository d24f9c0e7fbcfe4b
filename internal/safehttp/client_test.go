package safehttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/internal/safehttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, o safehttp.Options) *http.Client {
	t.Helper()
	c := safehttp.New(o)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// send makes a request, reads the body and returns the first error.
func send(t *testing.T, c *http.Client, method, url string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", "canary")
	req.Header.Set("Accept-Encoding", "br")
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// answers is a resolver: each lookup takes the next answer, the last one stays.
type answers struct {
	sets  [][]string
	calls atomic.Int32
	after func(call int)
}

func (a *answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	call := int(a.calls.Add(1))
	if len(a.sets) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var addrs []netip.Addr
	for _, s := range a.sets[min(call, len(a.sets))-1] {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	if a.after != nil {
		a.after(call)
	}
	return addrs, nil
}

func special() []string {
	return []string{
		"127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255",
		"::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::ffff:127.0.0.1", "::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
		"2002:a9fe:a9fe::1", "2001:0:a9fe::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "::ffff:168.63.129.16",
	}
}

func TestClient_SpecialAddressBehindName(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		for _, addr := range special() {
			c := client(t, safehttp.Options{AllowLoopback: loopback, Resolver: &answers{sets: [][]string{{addr}}}})
			_, err := send(t, c, http.MethodGet, "https://x.nip.example/")
			var blocked *safehttp.BlockedError
			if !errors.As(err, &blocked) {
				t.Errorf("%s (AllowLoopback %v): %v", addr, loopback, err)
			} else if strings.Contains(blocked.Error(), addr) {
				t.Errorf("%s: the text names the address", addr)
			}
		}
	}
}

func TestClient_SpecialAddressInURL(t *testing.T) {
	lookups := &answers{}
	c := client(t, safehttp.Options{Resolver: lookups})
	hosts := []string{"0x7f000001", "2130706433", "0177.0.0.1", "127.1", "0x7f.1", "localhost", "LOCALHOST", "localhost.", "[fe80::1%25eth0]"}
	for _, addr := range special() {
		hosts = append(hosts, net.JoinHostPort(addr, "443"))
	}
	for _, host := range hosts {
		_, err := send(t, c, http.MethodGet, "https://"+host+"/")
		var blocked *safehttp.BlockedError
		var refused *safehttp.URLError
		if !errors.As(err, &blocked) && !errors.As(err, &refused) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := lookups.calls.Load(); n != 0 {
		t.Errorf("%d names were looked up", n)
	}
}

func TestClient_MixedAddresses(t *testing.T) {
	for _, set := range [][]string{{"1.1.1.1", "127.0.0.1"}, {"127.0.0.1", "1.1.1.1"}, {"1.1.1.1", "fd00::1"}} {
		c := client(t, safehttp.Options{AllowLoopback: true, DialTimeout: time.Second, Resolver: &answers{sets: [][]string{set}}})
		_, err := send(t, c, http.MethodGet, "https://mixed.example/")
		var blocked *safehttp.BlockedError
		if !errors.As(err, &blocked) {
			t.Errorf("%v: %v", set, err)
		}
	}
}

func TestClient_Rebind(t *testing.T) {
	var hits atomic.Int32
	s := server(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// The first answer is public; giving up there keeps the test off the network.
	dns := &answers{sets: [][]string{{"1.1.1.1"}, {"127.0.0.1"}}, after: func(call int) {
		if call == 1 {
			cancel()
		}
	}}
	c := client(t, safehttp.Options{AllowLoopback: true, DialTimeout: 300 * time.Millisecond, Resolver: dns})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://rebind.example:"+port, nil)
	if err != nil {
		t.Fatal(err)
	}
	var blocked *safehttp.BlockedError
	if _, err := c.Do(req); err == nil || errors.As(err, &blocked) {
		t.Errorf("first request: %v", err)
	}
	if _, err := send(t, c, http.MethodGet, req.URL.String()); !errors.As(err, &blocked) {
		t.Errorf("second request: %v", err)
	}
	if hits.Load() != 0 || dns.calls.Load() != 2 {
		t.Errorf("%d hits, %d lookups", hits.Load(), dns.calls.Load())
	}
}

func TestClient_ErrorsNameNoAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, err = send(t, client(t, safehttp.Options{AllowLoopback: true}), http.MethodGet, "http://"+l.Addr().String())
	var down *safehttp.UnreachableError
	if !errors.As(err, &down) || strings.Contains(down.Error(), "127") || errors.Unwrap(down) == nil {
		t.Errorf("closed port: %v", err)
	}
	_, err = send(t, client(t, safehttp.Options{Resolver: &answers{}}), http.MethodGet, "https://nowhere.example")
	if !errors.As(err, &down) || strings.Contains(down.Error(), "nowhere") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestClient_LoopbackNeedsOption(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.UserAgent(), r.Header.Get("Accept-Encoding"))
	})
	var blocked *safehttp.BlockedError
	if _, err := send(t, client(t, safehttp.Options{}), http.MethodGet, s.URL); !errors.As(err, &blocked) {
		t.Errorf("closed: %v", err)
	}
	c := client(t, safehttp.Options{AllowLoopback: true, UserAgent: "bobbin"})
	for _, url := range []string{s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)} {
		if got, err := send(t, c, http.MethodPost, url); err != nil || string(got) != "bobbingzip" {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	var refused *safehttp.URLError
	if _, err := send(t, c, http.MethodGet, "http://public.example"); !errors.As(err, &refused) {
		t.Errorf("http to a public host: %v", err)
	}
}

func TestClient_Redirects(t *testing.T) {
	var leaked atomic.Int32
	other := server(t, func(http.ResponseWriter, *http.Request) { leaked.Add(1) })
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/meta":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/303":
			http.Redirect(w, r, "/end", http.StatusSeeOther)
		case "/here":
			http.Redirect(w, r, "/end", http.StatusFound)
		default:
			fmt.Fprint(w, "end")
		}
	})
	safe := client(t, safehttp.Options{AllowLoopback: true})
	// A client with rules of its own keeps the guards of the Transport.
	bare := &http.Client{Transport: safe.Transport}
	for name, c := range map[string]*http.Client{"safe": safe, "bare": bare} {
		for _, r := range []struct{ method, path string }{
			{"GET", "/other"}, {"HEAD", "/other"}, {"GET", "/meta"}, {"POST", "/meta"}, {"POST", "/303"}, {"POST", "/here"}, {"DELETE", "/303"},
		} {
			_, err := send(t, c, r.method, s.URL+r.path)
			var redirect *safehttp.RedirectError
			var refused *safehttp.URLError // the transport sees http:// of a public host first
			if !errors.As(err, &redirect) && !errors.As(err, &refused) {
				t.Errorf("%s %s %s: %v", name, r.method, r.path, err)
			}
		}
		if got, err := send(t, c, http.MethodGet, s.URL+"/here"); err != nil || string(got) != "end" {
			t.Errorf("%s: same origin: %q, %v", name, got, err)
		}
	}
	var redirect *safehttp.RedirectError
	if _, err := send(t, safe, http.MethodGet, s.URL+"/loop"); !errors.As(err, &redirect) {
		t.Errorf("loop: %v", err)
	}
	if leaked.Load() != 0 {
		t.Error("another origin was asked")
	}
}

// endless writes until the client goes away.
func endless(w io.Writer, total int) {
	chunk := bytes.Repeat([]byte("a"), 1<<16)
	for written := 0; written < total; written += len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestClient_BodyLimit(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	endless(z, 64<<20)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		case "/gib":
			endless(w, 1<<30)
		case "/error":
			w.WriteHeader(http.StatusInternalServerError)
			endless(w, 1<<30)
		case "/full":
			_, _ = w.Write(make([]byte, 8<<20))
		}
	})
	c := client(t, safehttp.Options{AllowLoopback: true})
	for _, path := range []string{"/gzip", "/gib", "/error"} {
		got, err := send(t, c, http.MethodGet, s.URL+path)
		var large *safehttp.TooLargeError
		if !errors.As(err, &large) || large.Limit != 8<<20 || len(got) != 8<<20 {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	if got, err := send(t, c, http.MethodGet, s.URL+"/full"); err != nil || len(got) != 8<<20 {
		t.Errorf("exactly the limit: %d bytes, %v", len(got), err)
	}
}

func TestClient_EventLimits(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "Text/Event-Stream; charset=utf-8")
		switch r.URL.Path {
		case "/one":
			endless(w, 1<<30)
		case "/lines":
			for range 1 << 20 {
				if _, err := io.WriteString(w, "data: a\r\n"); err != nil {
					return
				}
			}
		case "/pings":
			for range 1 << 22 {
				if _, err := io.WriteString(w, ": ping\n\n"); err != nil {
					return
				}
			}
		default: // events with each kind of line end, none too large
			for range 1000 {
				_, _ = io.WriteString(w, "data: a\n\ndata: b\r\n\r\ndata: c\r\r")
			}
		}
	})
	c := client(t, safehttp.Options{AllowLoopback: true, MaxEvent: 1000, MaxStream: 1 << 20, MaxBody: 10})
	for path, limit := range map[string]int64{"/one": 1000, "/lines": 1000, "/pings": 1 << 20} {
		got, err := send(t, c, http.MethodGet, s.URL+path)
		var large *safehttp.TooLargeError
		if !errors.As(err, &large) || large.Limit != limit || int64(len(got)) != limit {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	if got, err := send(t, c, http.MethodGet, s.URL); err != nil || len(got) != 29000 {
		t.Errorf("small events: %d bytes, %v", len(got), err)
	}
}

func TestClient_SlowAndBigHeaders(t *testing.T) {
	release := make(chan struct{})
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-release
		case "/body":
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			<-release
		case "/big":
			w.Header().Set("X", strings.Repeat("a", 1<<20))
		case "/cookies":
			for i := range 3000 {
				w.Header().Add("Set-Cookie", fmt.Sprintf("c%d=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", i))
			}
		case "/set":
			w.Header().Set("Set-Cookie", "a=b")
		default:
			fmt.Fprint(w, r.Header.Get("Cookie"))
		}
	})
	t.Cleanup(func() { close(release) }) // before the server's Close, which waits
	c := client(t, safehttp.Options{AllowLoopback: true, HeaderTimeout: 50 * time.Millisecond, Timeout: time.Second})
	for _, path := range []string{"/slow", "/body", "/big", "/cookies"} {
		start := time.Now()
		if _, err := send(t, c, http.MethodGet, s.URL+path); err == nil || time.Since(start) > 5*time.Second {
			t.Errorf("%s: %v after %v", path, err, time.Since(start))
		}
	}
	if _, err := send(t, c, http.MethodGet, s.URL+"/set"); err != nil {
		t.Error(err)
	}
	if got, err := send(t, c, http.MethodGet, s.URL+"/echo"); err != nil || len(got) != 0 {
		t.Errorf("cookie came back: %q, %v", got, err)
	}
}

func TestClient_TLS(t *testing.T) {
	start := func(version uint16) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.EnableHTTP2 = true
		s.TLS = &tls.Config{MaxVersion: version} //nolint:gosec // an old server
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	current, old := start(tls.VersionTLS13), start(tls.VersionTLS11)
	pool := x509.NewCertPool()
	pool.AddCert(current.Certificate())
	pool.AddCert(old.Certificate())
	trusting := client(t, safehttp.Options{AllowLoopback: true, RootCAs: pool})
	if got, err := send(t, trusting, http.MethodGet, current.URL); err != nil || string(got) != "HTTP/2.0" {
		t.Errorf("trusted: %q, %v", got, err)
	}
	if _, err := send(t, trusting, http.MethodGet, old.URL); err == nil {
		t.Error("spoke TLS 1.1")
	}
	if _, err := send(t, client(t, safehttp.Options{AllowLoopback: true}), http.MethodGet, current.URL); err == nil {
		t.Error("trusted a self-signed certificate")
	}
	wrongHost := strings.Replace(current.URL, "127.0.0.1", "localhost", 1)
	if _, err := send(t, trusting, http.MethodGet, wrongHost); err == nil {
		t.Error("accepted a certificate for another name")
	}
}
