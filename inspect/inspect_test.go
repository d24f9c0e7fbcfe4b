package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/inspect"
	"bobbin/schemas"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/chromedp/chromedp.(*Browser).run"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func TestAPI(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/api/servers", "", 200, `"name":"notes","kind":"local","transport":"stdio","owner":"Ann","state":"ready","tools":3`},
		{"GET", "/api/tools", "", 200, `"full":"notes.search"`},
		{"GET", "/api/resources", "", 200, `"uri":"note:///{id}"`},
		{"GET", "/api/prompts", "", 200, `"arguments":[{"name":"folder","required":true}]`},
		{"POST", "/api/call", `{"server":"notes","tool":"search","args":{"query":"x"}}`, 200, `"result":{"content":[{"type":"text","text":"3 notes`},
		{"POST", "/api/call", `{"server":"notes","tool":"search","args":{"limit": 50}}`, 422, `"problems":[{"pointer":"/limit","text":"must be at most 20"}]`},
		{"POST", "/api/call", `{"server":"notes","tool":"delete"}`, 403, `"code":"denied"`},
		{"POST", "/api/call", `nonsense`, 422, "not JSON"},
		{"POST", "/api/call", strings.Repeat(" ", 2<<20) + "{}", 422, "at most 1 MiB"},
		{"POST", "/api/read", `{"server":"notes","uri":"note:///1"}`, 200, `"text":"milk"`},
		{"POST", "/api/prompt", `{"server":"notes","name":"summary","args":{"folder":"home"}}`, 200, "Sum up home"},
		{"POST", "/api/prompt", `{"server":"notes","name":"summary","args":{"folder":7}}`, 422, "are texts"},
		{"POST", "/api/restart", `{"server":"notes"}`, 200, "{}"},
		{"GET", "/api/events?server=secret", "", 403, "only at the machine"},
		{"GET", "/api/nothing", "", 404, "nothing at this address"},
		{"GET", "/assets/inspect.css", "", 200, "--accent"},
		{"GET", "/assets/inspect.html", "", 404, ""},
	} {
		status, text := s.ask(t, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %.300s", c.method, c.path, status, text)
		}
	}
	for _, c := range s.calls {
		if c.Origin != schemas.ByPerson || c.Caller.Thread != "operator" || c.Caller.Member != "ann" {
			t.Errorf("called as %+v", c.Caller)
		}
	}
}

// A page that shows any thread takes it from the query, and nothing of an error's chain leaves the machine.
func TestThread(t *testing.T) {
	s := newSite(t, func(o *inspect.Options) { o.Thread, o.Base = "", "/inspect" })
	for path, want := range map[string]string{
		"/inspect": "needs a thread", "/inspect?thread=../x": "needs a thread", "/inspect/api/servers": "names no thread",
		"/inspect?thread=T1": `data-base="/inspect" data-thread="T1"`, "/inspect/?thread=T1": "<title>Inspector · T1",
		"/inspect/api/servers?thread=broken": "went wrong on my side, reference",
	} {
		if _, text := s.ask(t, "GET", path, ""); !strings.Contains(text, want) || strings.Contains(text, "/secret/path") {
			t.Errorf("%s: %.200s", path, text)
		}
	}
	s.ask(t, "GET", "/inspect/api/tools?thread=T2", "")
	if c := s.callers[0]; c.Thread != "T2" || !c.Operator {
		t.Errorf("%+v", c)
	}
}

func TestEvents(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/events?server=notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() (event, data string) {
		for lines.Scan() {
			switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
			case "event":
				event = value
			case "data":
				return event, value
			}
		}
		t.Fatal("the stream ended")
		return
	}
	if event, _ := next(); event != "watching" {
		t.Fatal(event)
	}
	s.ask(t, "POST", "/api/call", `{"server":"notes","tool":"search","args":{"query":"x"}}`)
	for n, kind := range []string{"request", "notification", "answer"} {
		event, data := next()
		var m struct {
			N    int
			Kind string
			Ms   *float64
			Text string
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil || event != "message" || m.N != n+1 || m.Kind != kind || (m.Ms != nil) != (kind == "answer") {
			t.Errorf("%s %s %v", event, data, err)
		}
	}
	s.ask(t, "POST", "/api/restart", `{"server":"notes"}`)
	if event, _ := next(); event != "servers" {
		t.Error(event)
	}
	cancel()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		ticks, watches := s.open()
		if ticks+watches == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("still watched")
		}
	}
}

func TestGuard(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		path   string
		header []string
		status int
	}{
		"no token":              {"/api/servers", []string{"Authorization", ""}, 401},
		"wrong token":           {"/api/servers", []string{"Authorization", "Bearer x" + token}, 401},
		"token in the address":  {"/api/servers?token=" + token, []string{"Authorization", ""}, 401},
		"assets without":        {"/assets/inspect.js", []string{"Authorization", ""}, 401},
		"front page without":    {"/", []string{"Authorization", ""}, 200},
		"rebound name":          {"/api/servers", []string{"Host", "evil.example"}, 403},
		"rebound name and port": {"/api/servers", []string{"Host", "evil.example:80"}, 403},
		"another page":          {"/api/servers", []string{"Origin", "http://evil.example"}, 403},
		"another page, quietly": {"/api/servers", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"with it":               {"/api/servers", nil, 200},
	} {
		status, text := s.ask(t, "GET", c.path, "", c.header...)
		if status != c.status || status != 200 && strings.Contains(text, "notes") {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if name == "front page without" && (!strings.Contains(text, "locked") || strings.Contains(text, "Servers")) {
			t.Error(text)
		}
	}
	if status, _ := s.ask(t, "POST", "/api/call", `{}`, "Sec-Fetch-Site", "same-site"); status != 403 {
		t.Error("a request of another page went through")
	}
	jar, _ := cookiejar.New(nil)
	c := &http.Client{Jar: jar}
	for _, path := range []string{"/?token=" + token, "/api/servers"} {
		resp, err := c.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "script-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Error(csp)
		}
	}
	if _, err := inspect.NewGuard("short"); err == nil {
		t.Error("a short token was taken")
	}
	if _, err := inspect.New(inspect.Options{}); err == nil {
		t.Error("New without parts")
	}
}

// Nothing of the API on its own port answers without the bearer token, not even with the page's cookie.
func TestGuard_API(t *testing.T) {
	g, err := inspect.NewGuard(token)
	if err != nil {
		t.Fatal(err)
	}
	s := newSource()
	p, err := inspect.New(inspect.Options{Live: s, Lists: s, Use: s, Wire: s, Thread: "operator", Member: schemas.Caller{Member: "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	site := &site{s, serve(t, g.WrapAPI(p.API("")))}
	for _, path := range []string{"/", "/api/servers", "/?token=" + token} {
		if status, _ := site.ask(t, "GET", path, "", "Authorization", ""); status != 401 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := site.ask(t, "GET", "/api/servers", ""); status != 200 {
		t.Error(status)
	}
}
