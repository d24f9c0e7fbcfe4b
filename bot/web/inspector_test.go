package web_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"bobbin/bot/web"
)

// The inspector stands behind the page's own guard, and the page leads to it where there is one.
func TestInspector(t *testing.T) {
	inspector := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "inspected "+r.URL.Path) })
	s := start(t, func(o *web.Options) { o.Inspector = inspector })
	jar, _ := cookiejar.New(nil)
	guest, known := &http.Client{}, &http.Client{Jar: jar}
	if resp, err := known.Get(s.door.Link(s.addr)); err != nil {
		t.Fatal(err)
	} else {
		_ = resp.Body.Close()
	}
	for _, c := range []struct {
		who          *http.Client
		path, header string
		status       int
		want         string
	}{
		{guest, "/inspect?thread=web-team", "", 401, "locked"},
		{guest, "/inspect/api/servers?thread=web-team", "", 401, "locked"},
		{known, "/inspect?thread=web-team", "", 200, "inspected /inspect"},
		{known, "/inspect/api/servers?thread=web-team", "", 200, "inspected /inspect/api/servers"},
		{known, "/inspect/api/events?thread=web-team", "cross-site", 403, "other pages"},
		{known, "/t/web-team", "", 200, `href="/inspect?thread=web-team"`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url(c.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.header != "" {
			req.Header.Set("Sec-Fetch-Site", c.header)
		}
		resp, err := c.who.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %d %.200s", c.path, resp.StatusCode, text)
		}
	}
	plain := start(t)
	jar, _ = cookiejar.New(nil)
	known = &http.Client{Jar: jar}
	resp, err := known.Get(plain.door.Link(plain.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); strings.Contains(string(text), "/inspect") {
		t.Error("the page leads to an inspector that is not there")
	}
}
