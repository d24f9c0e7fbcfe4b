package registry_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/registry"
	"bobbin/schemas"
)

func pageQuestion(url, id string) string {
	return fmt.Sprintf(`{"mode":"url","message":"Sign in","url":%s,"elicitationId":%s}`, quote(url), quote(id))
}

func TestPage_AsksWhoCalled(t *testing.T) {
	const url = "https://auth.example.com/authorize?state=a%20b&x=1"
	h := asked(t, func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
		if q.Caller.Member != "ann" || q.Server != "s" || q.Message != "Sign in" || q.URL != url || q.Schema != nil || q.Done == nil {
			t.Errorf("asked %+v", q)
		}
		time.Sleep(300 * time.Millisecond) // longer than the call may take: its clock stands still
		return schemas.Elicited{Action: "accept", Content: []byte(`{}`)}, nil
	}, func(o *registry.Options) { o.CallTimeout = 200 * time.Millisecond })
	res, err := h.call(by(one, "s.ask", pageQuestion(url, "e1")))
	if err != nil || !strings.Contains(text(t, res), `"result":{"action":"accept"}`) {
		t.Fatalf("%s %v", res.Raw, err)
	}
}

// Nobody is asked to open what a person should not, and the log says why without the address.
func TestPage_Refused(t *testing.T) {
	for name, url := range map[string]string{
		"script": "javascript:alert(1)", "data": "data:text/html,x", "file": "file:///etc/passwd", "plain": "http://example.com/", "metadata": "https://169.254.169.254/latest",
		"metadata in the clear": "http://169.254.169.254/latest", "private": "https://10.0.0.1/", "local": "http://127.0.0.1:8080/", "local by name": "https://localhost/",
		"user": "https://github.com@evil.example/", "long": "https://example.com/" + strings.Repeat("x", 3<<10), "no host": "https:///x", "relative": "/sign-in", "empty": "",
		"space": "https://example.com/ x", "letters": "https://exаmple.com/", "number": "https://0x7f.1/", "backslash": `https://example.com\@evil.example/`, "mapped": "https://[::ffff:169.254.169.254]/",
		"discord": "discord://invite", "ours": "https://example.com/?t=s3cret%2fvalue", "ours as it is": "https://example.com/s3cret/value", "fragment": "https://example.com/#x", "newline": "https://example.com/\nx",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, map[string]script{"fake": {Tools: tools(toolJSON("ask", readOnly), toolJSON("page-first", readOnly))}}, func(o *registry.Options) {
				o.Ask = askFunc(func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
					t.Errorf("asked to open %q", q.URL)
					return schemas.Elicited{Action: "accept"}, nil
				})
			})
			h.vault.put(one, "s", "KEY", "s3cret/value")
			h.set(one, entry("s", "fake", func(e *schemas.Entry) { e.Env = map[string]string{"TOKEN": "${input:KEY}"} }))
			h.apply(one)
			res, err := h.call(by(one, "s.ask", pageQuestion(url, "e1")))
			if err != nil || !strings.Contains(text(t, res), `"result":{"action":"decline"}`) {
				t.Fatalf("%s %v", res.Raw, err)
			}
			_, err = h.call(by(one, "s.page-first", `{"Times":9,"Pages":[`+pageQuestion(url, "e1")+`]}`))
			wantCode(t, err, schemas.CodeDenied, "it did not run")
			want := "ann: declined: the address of its page " + map[bool]string{true: "holds a secret", false: "cannot be used"}[strings.HasPrefix(name, "ours")]
			if got := h.questions(); len(got) != 1 || got[0] != want {
				t.Errorf("audit %q", got)
			}
		})
	}
}

// Before 2026-07-28 a page has a name of its own.
func TestPage_NeedsAName(t *testing.T) {
	h := asked(t, func(context.Context, schemas.Elicit) (schemas.Elicited, error) {
		t.Error("asked")
		return schemas.Elicited{Action: "accept"}, nil
	})
	for _, id := range []string{"", strings.Repeat("x", 300)} {
		res, err := h.call(by(one, "s.ask", pageQuestion("https://example.com/", id)))
		if err != nil || !strings.Contains(text(t, res), `"action":"decline"`) {
			t.Fatalf("%s %v", res.Raw, err)
		}
	}
}

// The server's word that the member is done ends the question; its word about others is ignored.
func TestPage_Complete(t *testing.T) {
	h := asked(t, func(ctx context.Context, q schemas.Elicit) (schemas.Elicited, error) {
		select {
		case <-q.Done:
			return schemas.Elicited{Action: "accept"}, nil
		case <-ctx.Done():
			return schemas.Elicited{Action: "cancel"}, nil
		}
	})
	for range 2 { // the same name may come again once it is done
		res, err := h.call(by(one, "s.ask-complete", pageQuestion("https://example.com/", "e1")))
		if err != nil || !strings.Contains(text(t, res), `"result":{"action":"accept"}`) {
			t.Fatalf("%s %v", res.Raw, err)
		}
	}
}

// A connector on this machine may have its page there, in the clear; nothing else may.
func TestPage_OfAConnectorOnThisMachine(t *testing.T) {
	server := httptest.NewServer(webServer(script{Tools: tools(toolJSON("page-first", readOnly))}))
	defer server.Close()
	var opened atomic.Value
	h := newHouse(t, nil, func(o *registry.Options) {
		o.HTTP = func(schemas.ThreadID, schemas.Server) *http.Client { return server.Client() }
		o.Ask = askFunc(func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
			opened.Store(q.URL)
			return schemas.Elicited{Action: "accept"}, nil
		})
	})
	h.set(one, connector("web", server.URL+"/mcp"))
	h.apply(one)
	page := "http://127.0.0.1:9/sign-in"
	_, err := h.call(by(one, "web.page-first", `{"Times":9,"Pages":[`+pageQuestion(page, "e1")+`]}`))
	wantCode(t, err, schemas.CodeFailed, "wants it again after 2 times")
	if opened.Load() != page {
		t.Errorf("opened %v", opened.Load())
	}
	_, err = h.call(by(one, "web.page-first", `{"Times":99,"Pages":[`+pageQuestion("http://169.254.169.254/", "e2")+`]}`))
	wantCode(t, err, schemas.CodeDenied, "declined")
	h.stop()
}

// A call that the server refused to run until pages are open is made again once they are, and only then.
func TestPage_First(t *testing.T) {
	good, other := pageQuestion("https://example.com/a", "e1"), pageQuestion("https://example.com/b", "e2")
	for name, c := range map[string]struct {
		times   int
		pages   string
		answer  string
		fails   error
		code    schemas.Code
		words   string
		calls   int
		asked   int32
		details string
	}{
		"accepted":      {times: 1, pages: good, calls: 2, asked: 1},
		"two pages":     {times: 1, pages: good + "," + other, calls: 2, asked: 2},
		"twice":         {times: 2, pages: good, calls: 3, asked: 2},
		"without end":   {times: 99, pages: good, calls: 3, asked: 2, code: schemas.CodeFailed, words: "again after 2 times; it did not run"},
		"declined":      {times: 1, pages: good, answer: "decline", calls: 1, asked: 1, code: schemas.CodeDenied, words: "that was declined; it did not run"},
		"not answered":  {times: 1, pages: good, answer: "cancel", calls: 1, asked: 1, code: schemas.CodeExpired, words: "nobody answered; it did not run"},
		"nobody there":  {times: 1, pages: good, fails: &schemas.Error{Code: schemas.CodeAsk}, calls: 1, asked: 1, code: schemas.CodeAsk, words: "nobody could be asked", details: "ann: declined: nobody could be asked"},
		"four pages":    {times: 1, pages: strings.Repeat(good+",", 3) + good, calls: 1, code: schemas.CodeDenied, details: "ann: declined: it wants more than 3 pages opened at once"},
		"one page of 2": {times: 1, pages: good + "," + good, calls: 1, code: schemas.CodeDenied, details: "ann: declined: it asks for one page twice"},
		"a form":        {times: 1, pages: askName, calls: 1, code: schemas.CodeDenied, details: "ann: declined: it does not say which page"},
		"none":          {times: 1, calls: 1, code: schemas.CodeDenied, details: "ann: declined: it does not say which page"},
	} {
		t.Run(name, func(t *testing.T) {
			var times atomic.Int32
			h := asked(t, func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
				times.Add(1)
				if q.Caller.Member != "ann" || !strings.HasPrefix(q.URL, "https://example.com/") || q.Message != "Sign in" {
					t.Errorf("asked %+v", q)
				}
				time.Sleep(250 * time.Millisecond) // longer than the call may take
				return schemas.Elicited{Action: cmp.Or(c.answer, "accept")}, c.fails
			}, func(o *registry.Options) { o.CallTimeout = 200 * time.Millisecond })
			res, err := h.call(by(one, "s.page-first", fmt.Sprintf(`{"Times":%d,"Pages":[%s]}`, c.times, c.pages)))
			if c.code == "" && (err != nil || text(t, res) != "ran") {
				t.Fatalf("%s %v", res.Raw, err)
			}
			if c.code != "" {
				wantCode(t, err, c.code, c.words)
				if strings.Contains(err.Error(), "example") {
					t.Errorf("the address gets out: %v", err)
				}
			}
			if n := h.servers.saw("tools/call"); n != c.calls || times.Load() != c.asked {
				t.Errorf("%d calls, asked %d times", n, times.Load())
			}
			if got := strings.Join(h.questions(), "; "); got != c.details {
				t.Errorf("audit %q", got)
			}
		})
	}
}

// Rules that change while the page is open hold for the call that follows.
func TestPage_RulesChangedWhileItWasOpen(t *testing.T) {
	var h *house
	h = asked(t, func(context.Context, schemas.Elicit) (schemas.Elicited, error) {
		h.policy(one, schemas.Policy{Thread: schemas.Rules{Deny: []string{"s.page-first"}}})
		h.apply(one)
		return schemas.Elicited{Action: "accept"}, nil
	})
	_, err := h.call(by(one, "s.page-first", `{"Times":1,"Pages":[`+pageQuestion("https://example.com/", "e1")+`]}`))
	wantCode(t, err, schemas.CodeDenied)
	if n := h.servers.saw("tools/call"); n != 1 {
		t.Errorf("%d calls reached the server", n)
	}
}

// A refusal says whose call it is about, so the one who made it is asked though others call at once.
func TestPage_FirstWhileOthersCall(t *testing.T) {
	h := asked(t, func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
		if q.Caller.Member != "ann" {
			t.Errorf("%s was asked", q.Caller.Member)
		}
		return schemas.Elicited{Action: "accept"}, nil
	})
	bob := by(one, "s.wait", `{}`)
	bob.Caller.Member = "bob"
	done := make(chan error)
	go func() { _, err := h.call(bob); done <- err }()
	eventually(t, "bob's call is out", func() bool { return h.servers.saw("tools/call") == 1 })
	res, err := h.call(by(one, "s.page-first", `{"Times":2,"Pages":[`+pageQuestion("https://example.com/", "e1")+`]}`))
	if err != nil || text(t, res) != "ran" {
		t.Errorf("%s %v", res.Raw, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
