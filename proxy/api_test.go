package proxy_test

import (
	"strings"
	"testing"

	"bobbin/proxy"
)

func TestProxy_Token(t *testing.T) {
	w := open(t)
	for _, path := range []string{"/health", "/healthz", "/servers", "/mcp", "/nothing"} {
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x", "Bearer " + token[1:]} {
			a := w.do("GET", path, "", "Authorization", header)
			if a.status != 401 || !strings.Contains(a.body, `"code":"UNAUTHORIZED"`) || a.header.Get("Www-Authenticate") == "" {
				t.Errorf("GET %s with %q: %d %s", path, header, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/health", "/healthz"} {
		if a := w.do("GET", path, "", "Authorization", "bearer "+token); a.status != 200 || a.body != `{"ok":true}` {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
		}
	}
}

func TestProxy_WebPages(t *testing.T) {
	w := open(t)
	for _, head := range [][]string{{"Host", "evil.example"}, {"Host", "127.0.0.1.evil.example:80"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		if a := w.do("GET", "/health", "", head...); a.status != 403 {
			t.Errorf("%v: %d %s", head, a.status, a.body)
		}
	}
	for _, head := range [][]string{{"Host", "localhost:1"}, {"Host", "[::1]:1"}, {"Origin", "http://localhost:6274"}} {
		if a := w.do("GET", "/health", "", head...); a.status != 200 {
			t.Errorf("%v: %d %s", head, a.status, a.body)
		}
	}
}

func TestProxy_Register(t *testing.T) {
	w := open(t)
	first := w.put("a", me(), 201)
	if first.State != proxy.Running || first.PID == 0 || first.Name != "a" {
		t.Fatalf("%+v", first)
	}
	if again := w.put("a", me(), 200); again.PID != first.PID || again.Restarts != 0 {
		t.Errorf("the same definition again: %+v, before %+v", again, first)
	}
	c := w.connect("a")
	if got := c.call("echo", map[string]any{"text": "hi ☃"}); got != "hi ☃" {
		t.Errorf("echo: %q", got)
	}
	changed := w.put("a", with(me(), map[string]string{"X": "y"}), 200)
	if changed.PID == first.PID || changed.State != proxy.Running {
		t.Errorf("another definition: %+v, before %+v", changed, first)
	}
	if a := w.do("DELETE", "/servers/a", ""); a.status != 204 {
		t.Errorf("DELETE: %d %s", a.status, a.body)
	}
	if a := w.do("GET", "/servers", ""); a.body != "[]" {
		t.Errorf("after DELETE: %s", a.body)
	}
	if a := w.do("DELETE", "/servers/a", ""); a.status != 404 {
		t.Errorf("DELETE again: %d %s", a.status, a.body)
	}
}
