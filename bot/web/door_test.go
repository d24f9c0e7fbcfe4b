package web_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/bot"
	"bobbin/bot/web"
	"bobbin/schemas"
)

// visitor is a browser that opened the link.
func visitor(t *testing.T, s *site) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Jar: jar, Transport: tr, Timeout: 20 * time.Second}
	res, err := c.Get(s.door.Link(s.addr))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Request.URL.String() != s.url("/t/web-default") || !bytes.Contains(body, []byte("Conversation")) {
		t.Fatalf("the link led to %d %s", res.StatusCode, res.Request.URL)
	}
	return c
}

func do(t *testing.T, c *http.Client, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data), res.Header
}

func stranger(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

const requests = "/api/threads/web-default/requests"

func TestLink_SetsStrictCookieOnce(t *testing.T) {
	s := start(t)
	code, _, h := do(t, stranger(t), "GET", s.door.Link(s.addr), "")
	if code != http.StatusSeeOther || h.Get("Location") != "/" {
		t.Fatalf("got %d to %q, want a redirect to the clean address", code, h.Get("Location"))
	}
	c := h.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(c, want) {
			t.Errorf("cookie %q lacks %s", c, want)
		}
	}
	if strings.Contains(c, token) {
		t.Error("the cookie gives the link's token away")
	}
	code, _, h = do(t, stranger(t), "GET", s.door.Link(s.addr), "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if code != http.StatusOK || h.Get("Refresh") != "0; url=/" {
		t.Errorf("from another site: %d, Refresh %q", code, h.Get("Refresh"))
	}
	if _, _, h = do(t, stranger(t), "GET", s.url("//evil.example/x?token="+token), ""); strings.HasPrefix(h.Get("Location"), "//") {
		t.Errorf("open redirect to %q", h.Get("Location"))
	}
}

func TestLocked(t *testing.T) {
	s := start(t)
	c := stranger(t)
	var bodies []string
	for _, tc := range []struct {
		name, method, path, body string
		header                   []string
		want                     int
	}{
		{"front", "GET", "/", "", nil, 200},
		{"page", "GET", "/t/web-default", "", nil, 401},
		{"wrong token", "GET", "/?token=" + strings.Repeat("0", 32), "", nil, 401},
		{"token twice", "GET", "/?token=" + token + "&token=" + token, "", nil, 401},
		{"token and a broken query", "GET", "/?token=" + token + "&a=%zz", "", nil, 401},
		{"token for an API", "GET", "/api/threads/web-default/board?token=" + token, "", nil, 401},
		{"token with POST", "POST", requests + "?token=" + token, `{"text":"x"}`, nil, 401},
		{"board", "GET", "/api/threads/web-default/board", "", nil, 401},
		{"events", "GET", "/api/threads/web-default/events", "", nil, 401},
		{"request", "POST", requests, `{"text":"x"}`, nil, 401},
		{"asset", "GET", "/assets/app.js", "", nil, 401},
		{"wrong cookie", "GET", "/t/web-default", "", []string{"Cookie", "bobbin-" + s.addr[strings.LastIndex(s.addr, ":")+1:] + "=" + token}, 401},
		{"health", "GET", "/healthz", "", nil, 200},
	} {
		code, body, h := do(t, c, tc.method, s.url(tc.path), tc.body, tc.header...)
		if code != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, code, tc.want)
		}
		if h.Get("Set-Cookie") != "" {
			t.Errorf("%s: sets a cookie", tc.name)
		}
		if strings.Contains(h.Get("Content-Type"), "html") {
			bodies = append(bodies, body)
		}
	}
	for _, b := range bodies[1:] {
		if b != bodies[0] {
			t.Error("the locked page tells one cause from another")
		}
	}
	if !strings.Contains(bodies[0], "Open the link") {
		t.Errorf("the locked page does not say what to do: %s", bodies[0])
	}
	if s.last().Text != "" {
		t.Error("a request reached the bot")
	}
}

func TestForeign(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	port := s.addr[strings.LastIndex(s.addr, ":"):]
	for _, tc := range []struct {
		name string
		want int
		head []string
	}{
		{"evil host", 403, []string{"Host", "evil.example"}},
		{"rebound host with our port", 403, []string{"Host", "evil.example" + port}},
		{"another port", 403, []string{"Host", "127.0.0.1:1"}},
		{"name that begins like ours", 403, []string{"Host", "127.0.0.1.evil.example" + port}},
		{"evil origin", 403, []string{"Origin", "https://evil.example"}},
		{"null origin", 403, []string{"Origin", "null"}},
		{"origin of another port", 403, []string{"Origin", "http://127.0.0.1:1"}},
		{"origin of another scheme", 403, []string{"Origin", "https://" + s.addr}},
		{"cross-site fetch", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"same-site fetch", 403, []string{"Sec-Fetch-Site", "same-site"}},
		{"text/plain", 415, []string{"Content-Type", "text/plain"}},
		{"urlencoded", 415, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"ours", 200, []string{"Origin", "http://" + s.addr, "Sec-Fetch-Site", "same-origin"}},
	} {
		before := len(s.asked)
		code, body, _ := do(t, c, "POST", s.url(requests), `{"text":"hello"}`, tc.head...)
		if code != tc.want {
			t.Errorf("%s: %d, want %d: %s", tc.name, code, tc.want, body)
		}
		if reached := len(s.asked) > before; reached != (tc.want == 200) {
			t.Errorf("%s: reached the bot: %v", tc.name, reached)
		}
	}
	for _, path := range []string{"/api/threads/web-default/board", "/api/threads/web-default/events"} {
		if code, _, _ := do(t, c, "GET", s.url(path), "", "Sec-Fetch-Site", "cross-site"); code != 403 {
			t.Errorf("cross-site GET of %s: %d", path, code)
		}
	}
	for _, host := range []string{"localhost" + port, "[::1]" + port} {
		if code, _, _ := do(t, stranger(t), "GET", s.url("/healthz"), "", "Host", host); code != 200 {
			t.Errorf("%s is refused: %d", host, code)
		}
	}
}

func TestHeaders(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	for _, path := range []string{"/t/web-default", "/assets/app.js", "/api/threads/web-default/board", "/nothing"} {
		_, _, h := do(t, c, "GET", s.url(path), "")
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: CSP lacks %s", path, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: loose CSP %s", path, csp)
		}
		for k, v := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
			if h.Get(k) != v {
				t.Errorf("%s: %s is %q", path, k, h.Get(k))
			}
		}
	}
}

func TestRequest_Shapes(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	for _, tc := range []struct {
		name, path, body string
		want             int
	}{
		{"text", requests, `{"text":"hello"}`, 200},
		{"verb", requests, `{"verb":"list","args":{"a":"b"}}`, 200},
		{"nothing", requests, `{}`, 400},
		{"text and verb", requests, `{"text":"a","verb":"list"}`, 400},
		{"unknown key", requests, `{"text":"a","caller":{"Operator":true}}`, 400},
		{"two values", requests, `{"text":"a"}{"text":"b"}`, 400},
		{"array", requests, `["x"]`, 400},
		{"too large", requests, `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, 413},
		{"traversal", "/api/threads/..%2f..%2fetc/requests", `{"text":"a"}`, 404},
		{"dots", "/api/threads/%2e%2e/requests", `{"text":"a"}`, 404},
		{"newline", "/api/threads/a%0a/requests", `{"text":"a"}`, 404},
		{"long id", "/api/threads/" + strings.Repeat("a", 65) + "/requests", `{"text":"a"}`, 404},
		{"other path", "/api/other", `{"text":"a"}`, 404},
	} {
		before := len(s.asked)
		code, body, _ := do(t, c, "POST", s.url(tc.path), tc.body)
		if code != tc.want {
			t.Errorf("%s: %d, want %d: %.200s", tc.name, code, tc.want, body)
		}
		if reached := len(s.asked) > before; reached != (tc.want == 200) {
			t.Errorf("%s: reached the bot: %v", tc.name, reached)
		}
	}
	want := schemas.Caller{Thread: "web-default", Member: "alice", Name: "Alice", Door: schemas.DoorWeb, Role: schemas.Owner, Operator: true}
	if got := s.last().Caller; got != want {
		t.Errorf("caller %+v, want %+v", got, want)
	}
	for _, path := range []string{"/t/..%2f..%2fetc", "/t/a%00b", "/assets/..%2fdoor.go", "/assets/page.html"} {
		if code, _, _ := do(t, c, "GET", s.url(path), ""); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestUpload(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	send := func(name string, n int) (int, string) {
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		_ = m.WriteField("tag", "abc")
		p, _ := m.CreateFormFile("file", name)
		_, _ = p.Write(bytes.Repeat([]byte("x"), n))
		_ = m.Close()
		code, body, _ := do(t, c, "POST", s.url(requests), b.String(), "Content-Type", m.FormDataContentType())
		return code, body
	}
	if code, body := send("../../etc/mcp.json", 300); code != 200 || !strings.Contains(body, "3 mistakes") {
		t.Fatalf("%d %s", code, body)
	}
	if f := s.last().File; f == nil || f.Name != "mcp.json" || len(f.Data) != 300 || s.last().Verb != "upload" {
		t.Errorf("the bot got %+v", s.last())
	}
	if code, body := send("tool.mcpb", 3<<20); code != 200 || len(s.last().File.Data) != 3<<20 {
		t.Errorf("a bundle may be larger: %d %s", code, body)
	}
	if code, body := send("tool.mcpb", 22<<20); code != 413 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := send("big.json", 1<<20); code != 413 || !strings.Contains(body, "larger than 1 MiB") {
		t.Errorf("%d %s", code, body)
	}
}

func TestSettle(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	do(t, c, "POST", s.url(requests), `{"text":"{\"mcpServers\":{\"x\":{\"env\":{\"K\":\"ghp_first1\"}}}}"}`)
	do(t, c, "POST", s.url(requests), `{"action":{"id":"card-1","choice":"confirm"}}`)
	do(t, c, "POST", s.url(requests), `{"text":"/mcp call github.create_issue"}`)
	do(t, c, "POST", s.url(requests), `{"action":{"id":"form-1","values":{"repo":"a/b","key":"hunter2"}}}`)
	do(t, c, "POST", s.url(requests), `{"text":"/mcp secrets set K sk-other9"}`)
	do(t, c, "POST", s.url(requests), `{"text":"/mcp ghp_third1"}`)
	if v := s.asked[3].Action.Values["key"]; v != "hunter2" {
		t.Errorf("the bot got %q", v)
	}
	_, _, history := listen(t, s, c, "").next(t)
	for _, want := range []string{`"settled":"You chose Confirm"`, `"settled":"Sent"`, `a config, 1 line`, `/mcp secrets set …`} {
		if !strings.Contains(history, want) {
			t.Errorf("history lacks %s", want)
		}
	}
	if strings.Contains(history, "hunter2") || strings.Contains(history, "sk-other9") || strings.Contains(history, "ghp_") {
		t.Errorf("a secret is kept: %s", history)
	}
}

func TestFile_IsAnAttachment(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	s.reply = func(context.Context, bot.Request) bot.Reply {
		return bot.Reply{Blocks: []bot.Block{{File: &schemas.File{Name: "x\"\r\nSet-Cookie: a.html", MIME: "text/html", Data: []byte("<script>alert(1)</script>")}}}}
	}
	_, body, _ := do(t, c, "POST", s.url(requests), `{"text":"x"}`)
	if strings.Contains(body, "PHNjcmlwdD4") || !strings.Contains(body, "/api/threads/web-default/files/2/0") {
		t.Fatalf("%s", body)
	}
	code, data, h := do(t, c, "GET", s.url("/api/threads/web-default/files/2/0"), "")
	if code != 200 || data != "<script>alert(1)</script>" || h.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || h.Get("Set-Cookie") != "" {
		t.Errorf("%d %q %v", code, data, h)
	}
	for _, path := range []string{"2/1", "1/0", "9/0", "2/-1", "x/y"} {
		if code, _, _ := do(t, c, "GET", s.url("/api/threads/web-default/files/"+path), ""); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestRooms_AreBounded(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	held := listen(t, s, c, "")
	held.next(t)
	for i := range 100 {
		if code, body, _ := do(t, c, "POST", s.url(fmt.Sprintf("/api/threads/web-%d/requests", i)), `{"text":"x"}`); code != 200 {
			t.Fatalf("%d: %d %s", i, code, body)
		}
	}
	s.mu.Lock()
	n, kept := len(s.subs), s.subs["web-default"] != nil
	s.mu.Unlock()
	if n > 66 || !kept { // two may be on their way out
		t.Errorf("%d subscriptions, the open thread among them: %v", n, kept)
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("use", func(t *testing.T) {
		s := start(t)
		c := visitor(t, s)
		listen(t, s, c, "").next(t)
		do(t, c, "POST", s.url(requests), `{"text":"x"}`)
	})
	goleak.VerifyNone(t, before)
}

func TestNew_Refuses(t *testing.T) {
	if _, err := web.New(web.Options{}); err == nil {
		t.Error("empty options are taken")
	}
	start(t)
	bad := web.Options{Bot: &fake{}, Token: "short"}
	if _, err := web.New(bad); err == nil {
		t.Error("a short token is taken")
	}
}

func TestLink(t *testing.T) {
	s := start(t)
	for addr, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080/?token=" + token, "[::1]:80": "http://[::1]:80/?token=" + token,
		"0.0.0.0:9": "http://127.0.0.1:9/?token=" + token, ":9": "http://127.0.0.1:9/?token=" + token,
	} {
		got := s.door.Link(addr)
		if _, err := url.Parse(got); err != nil || got != want {
			t.Errorf("%s: %s", addr, got)
		}
	}
}
