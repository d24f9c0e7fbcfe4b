package egress_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"bobbin/egress"
	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

func TestTunnel(t *testing.T) {
	w := open(t)
	c := w.conn()
	// The first request comes before the tunnel stands.
	_, _ = io.WriteString(c, "CONNECT API.Example.com.:443 HTTP/1.1\r\nHost: other.example\r\n\r\nGET /early HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
	r := bufio.NewReader(c)
	if code, _ := answer(t, r); code != 200 {
		t.Fatal(code)
	}
	if _, body := answer(t, r); body != "hello api.example.com /early 0" {
		t.Errorf("%q", body)
	}
	_, _ = io.WriteString(c, "GET /late HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
	if _, body := answer(t, r); body != "hello api.example.com /late 0" {
		t.Errorf("%q", body)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the far end is passed on: %v", err)
	}
	if !slices.Equal(w.dialed, []string{"api.example.com:443"}) {
		t.Errorf("dialed %v", w.dialed)
	}
	if got := w.details(); !slices.Equal(got, []string{"ok weather api.example.com:443 · by default"}) {
		t.Errorf("%q", got)
	}
}

func TestForward(t *testing.T) {
	w := open(t)
	proxy, _ := url.Parse("http://notes:x@" + w.addr)
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	defer client.CloseIdleConnections()
	for range 3 {
		resp, err := client.Post("http://api.example.com/a?b=c", "text/plain", strings.NewReader("12345"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(body) != "hello api.example.com /a?b=c 5" {
			t.Errorf("%q", body)
		}
	}
	h := w.last.Load().Header
	if h.Get("Proxy-Authorization") != "" || h.Get("X-Forwarded-For") != "" {
		t.Errorf("%v", h)
	}
	if got := w.details(); !slices.Equal(got, []string{"ok notes api.example.com:80 · by default"}) {
		t.Errorf("%q", got)
	}
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		operator, deny, regs []string
		def                  schemas.Verb
		rules                schemas.EgressRules
		install, ok          bool
		why                  string
	}{
		"default":              {ok: true},
		"default deny":         {def: schemas.Deny, why: "by default; a manager of the thread can run /mcp policy allow host:api.example.com"},
		"operator deny":        {deny: []string{"*.example.com"}, operator: []string{"*"}, rules: schemas.EgressRules{Allow: []string{"*"}}, why: "the operator denies it"},
		"operator allow":       {operator: []string{"api.example.com:443"}, def: schemas.Deny, ok: true},
		"other port":           {operator: []string{"api.example.com:80"}, def: schemas.Deny},
		"thread deny":          {operator: []string{"*"}, rules: schemas.EgressRules{Deny: []string{"api.example.com"}}, why: "a rule of this thread denies it"},
		"thread allow":         {rules: schemas.EgressRules{Allow: []string{"*.example.com"}, Ask: []string{"*"}}, def: schemas.Deny, ok: true},
		"thread ask":           {rules: schemas.EgressRules{Ask: []string{"*"}}, why: "nobody can be asked"},
		"install":              {install: true, def: schemas.AskVerb, ok: true},
		"install, denied":      {install: true, def: schemas.Deny},
		"install, registry":    {install: true, def: schemas.Deny, regs: []string{"*.example.com"}, ok: true},
		"install, no registry": {install: true, def: schemas.Deny, regs: []string{"other.example"}},
		"install, thread deny": {install: true, rules: schemas.EgressRules{Deny: []string{"*"}}},
		"registry, later":      {def: schemas.Deny, regs: []string{"*.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, func(o *egress.Options) { o.Allow, o.Deny, o.Registries, o.Default = c.operator, c.deny, c.regs, c.def })
			w.set(func() { w.rules, w.contact.Install = c.rules, c.install })
			code, body := w.connect("api.example.com:443")
			if c.ok != (code == 200) || !c.ok && (code != 403 || !strings.Contains(body, c.why) || strings.Count(body, "\n") != 1) {
				t.Errorf("%d %q", code, body)
			}
			if c.ok != (len(w.dialed) == 1) {
				t.Errorf("dialed %v", w.dialed)
			}
			if got := w.details(); len(got) != 1 || strings.HasPrefix(got[0], "ok") != c.ok {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestRulesUnreadable(t *testing.T) {
	w := open(t)
	w.set(func() { w.contact.Thread = "broken" })
	code, body := w.connect("api.example.com:443")
	wantStatus(t, 503, code, body, "rules of the thread cannot be read")
	w.set(func() { w.contact.Thread, w.fail = "T1", errors.New("disk full") })
	code, body = w.connect("api.example.com:443")
	wantStatus(t, 503, code, body, "the audit log cannot be written")
	w.set(func() { w.fail = nil })
	if code, _ := w.connect("api.example.com:443"); code != 200 {
		t.Error(code)
	}
	if len(w.dialed) != 1 {
		t.Errorf("dialed %v", w.dialed)
	}
}

func TestGuard(t *testing.T) {
	w := open(t)
	_, port, _ := net.SplitHostPort(w.web.Listener.Addr().String())
	rebind := &names{addrs: map[string][]string{"rebind.example": {"127.0.0.1", "10.0.0.1", "8.8.8.8"}}}
	r := open(t, func(o *egress.Options) { o.Dial, o.Guard = nil, safehttp.Options{Resolver: rebind} })
	g := open(t, guarded(map[string][]string{
		"loop.example":     {"127.0.0.1"},
		"mapped.example":   {"::ffff:127.0.0.1"},
		"mixed.example":    {"192.0.2.1 127.0.0.1", "8.8.8.8 127.0.0.1"},
		"private.example":  {"10.0.0.1"},
		"metadata.example": {"169.254.169.254"},
		"azure.example":    {"168.63.129.16"},
		"ula.example":      {"fd00::1"},
		"local.example":    {"fe80::1"},
		"cgnat.example":    {"100.64.0.1"},
		"zero.example":     {"0.0.0.0"},
		"nat64.example":    {"64:ff9b::7f00:1"},
		"sixtofour.test":   {"2002:7f00:1::"},
	}))
	closed := "private and local networks are closed"
	for _, host := range []string{"loop.example", "mapped.example", "mixed.example", "mixed.example", "private.example", "metadata.example", "azure.example", "ula.example",
		"local.example", "cgnat.example", "zero.example", "nat64.example", "sixtofour.test", "localhost", "127.0.0.1", "127.1.2.3", "10.0.0.1", "169.254.169.254", "0.0.0.0",
		"[::1]", "[::]", "[fd00::1]", "[fe80::1]", "172.17.0.1", "[64:ff9b::7f00:1]"} {
		target := host + ":" + port
		code, body := g.connect(target)
		wantStatus(t, 403, code, body, closed)
		code, body = g.raw("GET http://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
		wantStatus(t, 403, code, body, closed)
	}
	for _, target := range []string{"[::ffff:127.0.0.1]:" + port, "2130706433:" + port, "0x7f.1:" + port, "127.1:" + port, "[fe80::1%25lo]:80"} {
		code, body := g.connect(target)
		wantStatus(t, 400, code, body, "egress: ")
	}
	// One look-up a connection: what is judged is what would be dialed, and a name that turns has no second chance.
	code, body := r.connect("rebind.example:" + port)
	wantStatus(t, 403, code, body, closed)
	code, body = r.raw("GET http://rebind.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	wantStatus(t, 403, code, body, closed)
	if left := rebind.addrs["rebind.example"]; !slices.Equal(left, []string{"8.8.8.8"}) {
		t.Errorf("left over: %v", left)
	}
	if n := w.hits.Load() + g.hits.Load(); n != 0 {
		t.Errorf("%d hits", n)
	}
	if got := g.details(); !slices.ContainsFunc(got, func(s string) bool {
		return s == "refused weather loop.example:"+port+" · that address is not reachable from here: "+closed
	}) {
		t.Errorf("%q", got)
	}
}

func TestMalformed(t *testing.T) {
	w := open(t)
	for _, port := range []string{"25", "465", "587"} {
		code, body := w.connect("mx.example.com:" + port)
		wantStatus(t, 400, code, body, "mail servers")
	}
	for name, text := range map[string]string{
		"two hosts":           "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",
		"origin form":         "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"asterisk":            "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"https form":          "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"file form":           "GET file:///etc/passwd HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"user":                "GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"connect path":        "CONNECT /x HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
		"connect no port":     "CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"connect empty port":  "CONNECT a.example: HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"connect port 0":      "CONNECT a.example:0 HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"connect port name":   "CONNECT a.example:https HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"connect body":        "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nContent-Length: 5\r\n\r\nhello",
		"connect chunked":     "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"connect user":        "CONNECT u@a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
		"two targets":         "CONNECT a.example:443,b.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
		"nul":                 "CONNECT a\x00.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
		"two dots":            "CONNECT a.example..:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
		"length twice":        "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"encodings":           "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"space in the header": "GET http://a.example/ HTTP/1.1\r\nHost : b.example\r\n\r\n",
	} {
		code, body := w.raw(text)
		if code/100 != 4 && code != 501 {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if n := w.hits.Load(); n != 0 || len(w.dialed) != 0 {
		t.Errorf("%d hits, dialed %v", n, w.dialed)
	}
}

func TestSmuggling(t *testing.T) {
	w := open(t, func(o *egress.Options) { o.Deny = []string{"evil.example"} })
	// The target counts, whatever the Host field says, in both directions.
	code, body := w.raw("GET http://evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n")
	wantStatus(t, 403, code, body, "evil.example is not reached")
	_, body = w.raw("GET http://good.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
	if body != "hello good.example / 0" {
		t.Error(body)
	}
	for _, host := range []string{"EVIL.example", "evil.example.", "Evil.Example.:80"} {
		code, body := w.raw("GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
		wantStatus(t, 403, code, body, "evil.example is not reached")
	}
	// With both lengths, what follows the body that chunks end is another request, which is judged by itself.
	hits := w.hits.Load()
	c := w.conn()
	_, _ = io.WriteString(c, "POST http://good.example/ HTTP/1.1\r\nHost: good.example\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"0\r\n\r\nGET http://evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n")
	r := bufio.NewReader(c)
	if code, body := answer(t, r); code != 200 && code != 400 || code == 200 && body != "hello good.example / 0" {
		t.Errorf("%d %s", code, body)
	}
	if resp, err := http.ReadResponse(r, nil); err == nil {
		if resp.StatusCode/100 != 4 {
			t.Errorf("the second: %d", resp.StatusCode)
		}
		_ = resp.Body.Close()
	}
	if n := w.hits.Load() - hits; n > 1 {
		t.Errorf("%d hits", n)
	}
	for _, d := range w.dialed {
		if d != "good.example:80" {
			t.Errorf("dialed %s", d)
		}
	}
}

func TestUpstream(t *testing.T) {
	var got []string
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		if r.Method != http.MethodConnect {
			_, _ = io.WriteString(rw, "by way of")
			return
		}
		c, _, _ := rw.(http.Hijacker).Hijack()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: y\r\n\r\nthrough")
		_ = c.Close()
	}))
	up.Start()
	defer up.Close()
	u, _ := url.Parse(up.URL)
	u.User = url.UserPassword("me", "pw")
	w := open(t, guarded(map[string][]string{"private.example": {"10.0.0.1"}, "public.example": {"8.8.8.8"}}), func(o *egress.Options) { o.Upstream = u })
	for _, host := range []string{"private.example", "10.0.0.1", "127.0.0.1", "localhost"} {
		code, body := w.connect(host + ":443")
		wantStatus(t, 403, code, body, "closed")
		code, body = w.raw("GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
		wantStatus(t, 403, code, body, "closed")
	}
	if len(got) != 0 {
		t.Fatalf("%q", got)
	}
	c := w.conn()
	_, _ = io.WriteString(c, "CONNECT public.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	if all, _ := io.ReadAll(c); !strings.HasSuffix(string(all), "\r\n\r\nthrough") {
		t.Errorf("%q", all)
	}
	if code, body := w.raw("GET http://unknown.example/z HTTP/1.1\r\nHost: x\r\n\r\n"); code != 200 || body != "by way of" {
		t.Errorf("%d %s", code, body)
	}
	want := []string{"CONNECT public.example:443 Basic bWU6cHc=", "GET http://unknown.example/z Basic bWU6cHc="}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestNew(t *testing.T) {
	w := &world{}
	for i, o := range []egress.Options{
		{}, {Rules: w.lists}, {Record: w.record},
		{Rules: w.lists, Record: w.record, Default: "maybe"},
		{Rules: w.lists, Record: w.record, Allow: []string{"http://a"}},
		{Rules: w.lists, Record: w.record, Deny: []string{""}},
		{Rules: w.lists, Record: w.record, Registries: []string{"a b"}},
		{Rules: w.lists, Record: w.record, Upstream: &url.URL{Scheme: "socks5", Host: "a"}},
	} {
		if _, err := egress.New(o); err == nil {
			t.Error(fmt.Sprint(i), "passes")
		}
	}
}
