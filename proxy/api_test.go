package proxy_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
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

func TestProxy_RegisterGivesTools(t *testing.T) {
	for _, vice := range []string{"", "modern"} {
		w := open(t)
		d := me(vice)
		body := func(args ...string) string {
			b, err := json.Marshal(map[string]any{"name": "demo", "command": d.Command, "args": args, "env": map[string]string{"A": "b"}})
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		type registered struct {
			proxy.Status
			Tools []struct{ Name string }
		}
		var first, again, other registered
		a := w.do("POST", "/servers/register", body(vice))
		a.into(t, &first)
		var names []string
		for _, tool := range first.Tools {
			names = append(names, tool.Name)
		}
		if a.status != 201 || !slices.Equal(names, []string{"echo", "pid", "env"}) || first.PID == 0 {
			t.Fatalf("%q: %d %s", vice, a.status, a.body)
		}
		w.do("POST", "/servers/register", body(vice)).into(t, &again)
		if again.PID != first.PID || len(again.Tools) != 3 {
			t.Errorf("%q: again: %+v, before %+v", vice, again, first)
		}
		if a = w.do("POST", "/servers/register", body(vice, "other")); a.status != 200 {
			t.Errorf("%q: other: %d %s", vice, a.status, a.body)
		}
		a.into(t, &other)
		if other.PID == first.PID || len(other.Tools) != 3 {
			t.Errorf("%q: other arguments: %+v, before %+v", vice, other, first)
		}
	}
}

func TestProxy_RegisterFails(t *testing.T) {
	w := open(t)
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"name":"a"}`, 400, `\"command\" is missing`},
		{`{"command":"x"}`, 400, `a name has letters`},
		{`{"name":"../a","command":"x"}`, 400, `a name has letters`},
		{`{"name":"a","command":7}`, 400, `\"command\" is of another type`},
		{`{"name":"a","command":"x","args":"y"}`, 400, `\"args\" is of another type`},
		{`{"name":"a","command":"x","env":{"SECRET":7}}`, 400, `\"env\" is of another type`},
		{`{"name":"a","command":"x","env":{"A=B":"canary"}}`, 400, `\"env\" has a name`},
		{`{"name":"a","command":"x","env":{"A":"canary\u0000"}}`, 400, `\"env\" has a name`},
		{`{"name":"a","command":"x","shell":true}`, 400, `not the JSON`},
		{`{"name":"a","command":"x"} {"canary":1}`, 400, `not the JSON`},
		{`{"name":"a","command":"x"`, 400, `not the JSON`},
		{`{"name":"a","command":"x","args":["` + strings.Repeat("y", 1<<20) + `"]}`, 400, `above 1 MiB`},
		{`{"name":"a","command":"no-such-program"}`, 422, `no such program`},
	} {
		a := w.do("POST", "/servers/register", c.body)
		if a.status != c.status || !strings.Contains(a.body, c.want) || strings.Contains(a.body, "canary") {
			t.Errorf("%.80s: %d %s, want %d and %s", c.body, a.status, a.body, c.status, c.want)
		}
	}
	d := me("exit")
	a := w.do("POST", "/servers/register", `{"name":"quits","command":"`+d.Command+`","args":["exit"],"env":{"SECRET":"canary-canary"}}`)
	if a.status != 422 || !strings.Contains(a.body, "I cannot go on: ***") || !strings.Contains(a.body, `"tools":[]`) || !strings.Contains(a.body, "exited with 3") || strings.Contains(a.body, `"running"`) {
		t.Errorf("a program that ends: %d %s", a.status, a.body)
	}
	if strings.Contains(w.log.String(), "canary") {
		t.Errorf("the log tells a secret: %s", w.log)
	}
}

func TestProxy_WithoutToken(t *testing.T) {
	w := open(t, func(o *proxy.Options) { o.Token = "" })
	if _, err := w.p.Put(proxy.Main, me()); err != nil {
		t.Fatal(err)
	}
	if st, ok := w.p.Settled(t.Context(), proxy.Main); !ok || st.State != proxy.Running {
		t.Fatalf("%+v", st)
	}
	for _, r := range [][2]string{{"PUT", "/servers/x"}, {"POST", "/servers/register"}, {"POST", "/exec"}, {"GET", "/servers"}, {"GET", "/servers/main"}, {"GET", "/servers/main/stdio"}, {"DELETE", "/servers/main"}} {
		if a := w.do(r[0], r[1], `{"name":"x","command":"id","args":["id"]}`); a.status != 404 {
			t.Errorf("%v: %d %s", r, a.status, a.body)
		}
	}
	if a := w.do("POST", "/mcp", hello, "Accept", both); a.status != 200 {
		t.Errorf("initialize: %d %s", a.status, a.body)
	}
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	if err := w.p.Serve(t.Context(), unix); err == nil {
		t.Error("a socket is served without a token")
	}
}

func TestProxy_TooManyServers(t *testing.T) {
	w := open(t)
	body := `{"command":"no-such-program"}`
	for i := range 64 {
		if a := w.do("PUT", fmt.Sprintf("/servers/s%d", i), body); a.status != 422 {
			t.Fatalf("%d: %d %s", i, a.status, a.body)
		}
	}
	if a := w.do("PUT", "/servers/more", body); a.status != 409 || !strings.Contains(a.body, "64 servers") {
		t.Errorf("one more: %d %s", a.status, a.body)
	}
	if a := w.do("PUT", "/servers/s1", body); a.status != 422 {
		t.Errorf("the same again: %d %s", a.status, a.body)
	}
	if all := w.p.List(); len(all) != 64 || all[0].Name != "s0" || all[0].State != proxy.Failed {
		t.Errorf("%d: %+v", len(all), all[0])
	}
}

func TestProxy_NoLog(t *testing.T) {
	if _, err := proxy.New(t.Context(), proxy.Options{}); err == nil {
		t.Error("a proxy without a log")
	}
	if _, err := proxy.New(t.Context(), proxy.Options{Log: slog.New(slog.DiscardHandler), Root: "/no/such/folder"}); err == nil {
		t.Error("a proxy without its root")
	}
}
