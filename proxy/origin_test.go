package proxy_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"bobbin/proxy"
)

func TestOrigin(t *testing.T) {
	const app = "https://app.example.com"
	for _, c := range []struct {
		allow, origin string
		answer        int    // of a request with the token
		header        string // Access-Control-Allow-Origin, also of the question beforehand
	}{
		{"", app, http.StatusForbidden, ""},
		{"", "http://127.0.0.1:5173", http.StatusOK, ""},
		{"*", app, http.StatusOK, "*"},
		{app, app, http.StatusOK, app},
		{app, "https://evil.example.com", http.StatusForbidden, ""},
		{app, "null", http.StatusForbidden, ""},
	} {
		w := open(t, func(o *proxy.Options) { o.Origin = c.allow })
		r := w.begin(context.Background(), "GET", "/servers", "", "Origin", c.origin)
		if r.StatusCode != c.answer || r.Header.Get("Access-Control-Allow-Origin") != c.header {
			t.Errorf("%+v: %d, %q", c, r.StatusCode, r.Header.Get("Access-Control-Allow-Origin"))
		}
		_ = r.Body.Close()
		w.token = "" // a page asks beforehand, and has none then
		r = w.begin(context.Background(), "OPTIONS", "/mcp", "", "Origin", c.origin, "Access-Control-Request-Method", "POST")
		if r.Header.Get("Access-Control-Allow-Origin") != c.header || (c.header != "") != (r.StatusCode == http.StatusNoContent) {
			t.Errorf("%+v: beforehand %d, %q", c, r.StatusCode, r.Header.Get("Access-Control-Allow-Origin"))
		}
		_ = r.Body.Close()
		if c.header != "" {
			r = w.begin(context.Background(), "GET", "/servers", "", "Origin", c.origin)
			if r.StatusCode != http.StatusUnauthorized {
				t.Errorf("%+v: without a token %d", c, r.StatusCode)
			}
			_ = r.Body.Close()
		}
	}
}

func TestEcho(t *testing.T) {
	said := &lockedBuffer{mu: make(chan struct{}, 1)}
	w := open(t, func(o *proxy.Options) { o.Echo = said })
	w.put("a", with(me("exit"), map[string]string{"SECRET": "canary-of-the-echo"}), http.StatusCreated)
	until(t, "its words", func() bool { return strings.Contains(said.String(), "I cannot go on: ***\n") })
	if strings.Contains(said.String(), "canary") {
		t.Error("a value was echoed")
	}
}

func TestUseOnly(t *testing.T) { // who may use a server that others share does not get at what it runs with
	w := open(t, func(o *proxy.Options) { o.UseOnly = true })
	if _, err := w.p.Put(proxy.Main, me()); err != nil {
		t.Fatal(err)
	}
	if a := w.do("POST", "/exec", `{"args":["true"]}`); a.status != http.StatusNotFound {
		t.Errorf("/exec: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/servers", "/servers/main", "/servers/main/stdio"} {
		if a := w.do("GET", path, ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := w.do("PUT", "/servers/other", `{"command":"true"}`); a.status != http.StatusNotFound {
		t.Errorf("PUT: %d %s", a.status, a.body)
	}
	if a := w.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, "Accept", "application/json, text/event-stream"); a.status != http.StatusOK {
		t.Errorf("/mcp: %d %s", a.status, a.body)
	}
	socket := filepath.Join(t.TempDir(), "p.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.p.Serve(ctx, l) }()
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	r, _ := http.NewRequest(http.MethodGet, "http://p/servers", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := tr.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("at the socket: %v %v", resp, err)
	}
	_ = resp.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
