package proxy_test

import (
	"context"
	"net/http"
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
