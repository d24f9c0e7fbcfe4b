package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/gateway"
	"bobbin/schemas"
)

// client is a session of the versions before 2026-07-28, by hand.
type handmade struct {
	*house
	at, token, id string
}

func (h *house) session(c schemas.Caller, caps string) *handmade {
	h.t.Helper()
	s := &handmade{house: h, at: h.url + "/gateway/t1/mcp", token: h.token(c)}
	_, head, body := post(h.t, s.at, s.token, strings.Replace(hello, `"capabilities":{}`, `"capabilities":`+caps, 1))
	if s.id = head.Get("Mcp-Session-Id"); s.id == "" {
		h.t.Fatal(body)
	}
	return s
}

func (s *handmade) say(body string) (int, string) {
	s.t.Helper()
	code, _, said := post(s.t, s.at, s.token, body, "Mcp-Session-Id", s.id)
	return code, said
}

// TestHostile_IDs: an id comes back as the bytes it was, if it is one at all.
func TestHostile_IDs(t *testing.T) {
	h := start(t, nil)
	s := h.session(ann, "{}")
	for id, ok := range map[string]bool{
		`1`: true, `0`: true, `-7`: true, `"a"`: true, `""`: true, `"1"`: true, `1.5`: true, `9007199254740993`: true, `123456789012345678901234567890`: true, `1e400`: true,
		`"` + strings.Repeat("x", 254) + `"`: true, `"` + strings.Repeat("x", 255) + `"`: false, strings.Repeat("9", 257): false, `"\u0000\ud83d\ude00"`: true,
		`null`: false, `true`: false, `[1]`: false, `{"a":1}`: false, `01`: false, `+1`: false, `NaN`: false, `.5`: false,
	} {
		code, body := s.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		if want := `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`; ok && (code != 200 || body != want) {
			t.Errorf("%s: %d %s", id, code, body)
		}
		if !ok && (code != 400 || !strings.Contains(body, `"id":null,"error"`)) {
			t.Errorf("%s is taken: %d %s", id, code, body)
		}
	}
}

// TestHostile_IDsInFlight: an id is used once at a time in a session, and two sessions with the same ones hear nothing of each other.
func TestHostile_IDsInFlight(t *testing.T) {
	h := start(t, nil)
	one, two := h.session(ann, "{}"), h.session(ann, "{}")
	wait := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ext_s_wait","_meta":{"progressToken":"p"}}}`
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, s := range []*handmade{one, two} {
		wg.Go(func() {
			if _, body := s.say(wait); !strings.Contains(body, "waited") {
				t.Errorf("%s", body)
			}
		})
		<-h.thread.began
	}
	if code, body := one.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`); code != 400 || !strings.Contains(body, "under way already") {
		t.Errorf("the same id again: %d %s", code, body)
	}
	bob := ann
	bob.Member = "bob"
	others := h.session(bob, "{}")
	for _, s := range []*handmade{others, {h, one.at, others.token, one.id}, {h, h.url + "/gateway/t1/servers/s/mcp", one.token, one.id}} {
		for _, id := range []string{"7", `"7"`, "7.0", "null", "[7]", `"never"`} {
			s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		}
	}
	for _, body := range []string{`{}`, `{"requestId":null}`, `{"requestId":"7"}`, `{"requestId":8}`} {
		if code, said := one.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + body + `}`); code != 202 {
			t.Errorf("%s: %d %s", body, code, said)
		}
	}
	select {
	case err := <-h.thread.ended:
		t.Errorf("somebody else's word ended it: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(h.thread.hold)
}

// TestHostile_Texts: what is no message, or one that two readers may read differently, does nothing and harms nobody.
func TestHostile_Texts(t *testing.T) {
	h := start(t, nil)
	s := h.session(ann, "{}")
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
	}
	for name, body := range map[string]string{
		"nothing": ``, "a space": ` `, "half": `{"jsonrpc":"2.0"`, "two": `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`,
		"a text": `"ping"`, "a number": `1`, "null": `null`, "no version": `{"id":1,"method":"ping"}`, "another version": `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		"a method that is none": `{"jsonrpc":"2.0","id":1,"method":5}`, "an empty method": `{"jsonrpc":"2.0","id":1,"method":""}`, "params as a list": `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`,
		"not UTF-8": call(`{"name":"ext_s_echo","arguments":{"a":"` + "\xff\xfe" + `"}}`), "a NUL": call("{\"name\":\"ext_s_echo\x00\"}"), "a bare line break in a text": call("{\"name\":\"ext_s_\necho\"}"),
		"deep":           call(`{"name":"ext_s_echo","arguments":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`),
		"deep and open":  call(`{"name":"ext_s_echo","arguments":{"a":` + strings.Repeat(`{"a":`, 100_000)),
		"a member twice": `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, "a member in two spellings": `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/list"}`,
		"a name twice": call(`{"name":"ext_s_deny","name":"ext_s_echo"}`), "a name in two spellings": call(`{"name":"ext_s_deny","NAME":"ext_s_echo"}`), "a byte order mark": "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"both a result and an error": `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, "a batch": `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "an empty batch": `[]`,
	} {
		if code, said := s.say(body); code != 400 || !strings.Contains(said, `"error":{"code":-32`) || !strings.Contains(said, `"id":null`) {
			t.Errorf("%s: %d %s", name, code, clip(said))
		}
	}
	if len(h.thread.calls) != 0 {
		t.Errorf("%d calls arrived", len(h.thread.calls))
	}
	for name, body := range map[string]string{
		"a method of nobody": `{"jsonrpc":"2.0","id":1,"method":"tools/destroy"}`, "a notification with an id": `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`,
		"a server's method": `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`, "tasks, which nobody declared": `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`,
		"discover before 2026": `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`,
	} {
		if code, said := s.say(body); code != 200 || !strings.Contains(said, `"id":1,"error":{"code":-32601`) {
			t.Errorf("%s: %d %s", name, code, clip(said))
		}
	}
	for name, params := range map[string]string{"no name": `{}`, "a name that is none": `{"name":7}`, "of nobody": `{"name":"rm"}`} {
		if code, said := s.say(call(params)); code != 200 || !strings.Contains(said, `"code":-32602`) {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
}

func clip(s string) string { return s[:min(len(s), 300)] }

// TestHostile_Cursors: a page is found by a cursor that was given, and by no other.
func TestHostile_Cursors(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Page = 2 })
	s := h.session(ann, "{}")
	for cursor, ok := range map[string]bool{`"at-2"`: true, `"at-999"`: true, `""`: true, `"at--1"`: false, `"at-"`: false, `"2"`: false, `"at-1e1"`: false, `"at-99999999999999999999"`: false, `"at-2 "`: false, `"../x"`: false, `7`: false, `{"a":1}`: false, `null`: true} {
		code, body := s.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":` + cursor + `}}`)
		if code != 200 || ok != strings.Contains(body, `"tools":[`) || ok == strings.Contains(body, `"code":-32602`) {
			t.Errorf("%s: %d %s", cursor, code, clip(body))
		}
	}
}

// TestHostile_Bodies: a body's length is bounded however it comes, and those that never come whole keep nobody waiting.
func TestHostile_Bodies(t *testing.T) {
	h := start(t, nil)
	s := h.session(ann, "{}")
	const most = 4 << 20
	message := func(size int) string {
		b := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""}}`
		return strings.Replace(b, `""`, `"`+strings.Repeat("x", size-len(b))+`"`, 1)
	}
	for size, want := range map[int]int{most: 200, most + 1: 413} {
		for _, chunked := range []bool{false, true} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", s.at, io.Reader(strings.NewReader(message(size))))
			if err != nil {
				t.Fatal(err)
			}
			if chunked {
				req.ContentLength, req.Body = -1, io.NopCloser(strings.NewReader(message(size)))
			}
			req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + s.token}, "Mcp-Session-Id": {s.id}}
			if code, _, body := answer(t, req); code != want {
				t.Errorf("%d bytes, chunked %v: %d %s", size, chunked, code, clip(body))
			}
		}
	}
	for range 64 {
		c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = fmt.Fprintf(c, "POST /gateway/t1/mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Type: application/json\r\nContent-Length: 4194304\r\n\r\n{", strings.TrimPrefix(h.url, "http://"), s.token, s.id)
	}
	if code, body := s.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); code != 200 {
		t.Errorf("beside slow bodies: %d %s", code, body)
	}
}

// TestHostile_Tokens: a token counts in its header alone, and guessing teaches nothing.
func TestHostile_Tokens(t *testing.T) {
	h := start(t, nil)
	token := h.token(ann)
	for _, query := range []string{"?token=", "?access_token=", "?bearer_token=", "?authorization=Bearer%20"} {
		for _, path := range []string{"/mcp", "/sse"} {
			method := map[string]string{"/mcp": "POST", "/sse": "GET"}[path]
			if code, _, _ := send(t, method, h.url+"/gateway/t1"+path+query+token, "", hello); code != 401 {
				t.Errorf("%s%s: %d", path, query, code)
			}
		}
	}
	for _, head := range []string{"Basic " + token, token, "bearer" + token, "Bearer", "Bearer " + token + " x", "Bearer " + token + ","} {
		if code, _, _ := post(t, h.url+"/gateway/t1/mcp", "", hello, "Authorization", head); code != 401 {
			t.Errorf("%q: %d", strings.Replace(head, token, "TOKEN", 1), code)
		}
	}
	for _, path := range []string{"/gateway/T1/mcp", "/gateway/t1%00/mcp", "/gateway/t1%2F..%2Ft2/mcp", "/gateway/t2/mcp", "/gateway/t1x/mcp", "/gateway/%20t1/mcp"} {
		if code, _, body := post(t, h.url+path, token, hello); code != 401 && code != 404 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	said := map[string]bool{}
	began := time.Now()
	for n := range 500 {
		guess := fmt.Sprintf("bobbin_%08x_%052d", n, n)
		if n%2 == 0 { // of a token that there is
			guess = token[:len(token)-4] + fmt.Sprintf("%04d", n)
		}
		code, head, body := post(t, h.url+"/gateway/t1/mcp", guess, hello)
		if code != 401 {
			t.Fatalf("%s: %d", guess, code)
		}
		said[body+head.Get("WWW-Authenticate")] = true
	}
	if len(said) != 1 {
		t.Errorf("answers differ: %v", said)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("500 guesses cost %v", took)
	}
	if code, _, _ := post(t, h.url+"/gateway/t1/mcp", token, hello); code != 200 {
		t.Errorf("the right one after that: %d", code)
	}
}

// TestHostile_StreamsEnd: what a token opened ends with it, with the member and with the thread.
func TestHostile_StreamsEnd(t *testing.T) {
	for name, end := range map[string]func(h *house, id string) error{
		"revoked":        func(h *house, id string) error { return h.Revoke(h.t.Context(), ann, id) },
		"who left":       func(h *house, _ string) error { return h.Left(h.t.Context(), "t1", "ann") },
		"thread dropped": func(h *house, _ string) error { return h.Left(h.t.Context(), "t1", "") },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, nil)
			tok, secret, err := h.Make(t.Context(), ann, "x", 0)
			if err != nil {
				t.Fatal(err)
			}
			at := h.url + "/gateway/t1/"
			_, head, _ := post(t, at+"mcp", secret, hello)
			id := head.Get("Mcp-Session-Id")
			listen := since(3, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "{}")
			streams := []<-chan string{
				events(t, open(t, t.Context(), "GET", at+"mcp", secret, "", "Mcp-Session-Id", id)),
				events(t, open(t, t.Context(), "GET", at+"sse", secret, "")),
				events(t, open(t, t.Context(), "POST", at+"mcp", secret, listen, "Mcp-Protocol-Version", modern, "Mcp-Method", "subscriptions/listen")),
			}
			until(t, func() bool { return h.thread.watched() == 3 })
			began := time.Now()
			if err := end(h, tok.ID); err != nil {
				t.Fatal(err)
			}
			for _, s := range streams {
				for range s { // until its end
				}
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
			if code, _, _ := post(t, at+"mcp", secret, hello); code != 401 {
				t.Errorf("afterwards: %d", code)
			}
		})
	}
}

// TestHostile_Storm: a server whose list changes all the time does not make clients ask all the time, and they hear of the last change.
func TestHostile_Storm(t *testing.T) {
	h := start(t, nil)
	s := h.session(ann, "{}")
	got := events(t, open(t, t.Context(), "GET", s.at, s.token, "", "Mcp-Session-Id", s.id))
	until(t, func() bool { return h.thread.watched() == 1 })
	heard, storm := 0, time.After(1500*time.Millisecond)
	for n := 0; ; n++ {
		select {
		case <-storm:
			h.thread.change(tool("s", "last"))
			for last := time.After(3 * time.Second); ; {
				select {
				case <-got:
					heard++
					if _, body := s.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); strings.Contains(body, "ext_s_last") {
						if heard > 15 {
							t.Errorf("heard %d times", heard)
						}
						return
					}
				case <-last:
					t.Fatal("the last change was not heard of")
				}
			}
		case <-got:
			heard++
		case <-time.After(time.Millisecond):
			h.thread.change(tool("s", fmt.Sprintf("n%d", n)))
		}
	}
}

// TestHostile_Sessions: one token opens as many sessions as it likes, takes nobody's place by that, and is told when it holds too many.
func TestHostile_Sessions(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Sessions, o.Streams = 40, 40 })
	bob := ann
	bob.Member = "bob"
	his := h.session(bob, "{}")
	his.say(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"emergency"}}`)
	token := h.token(ann)
	open := func() (string, int, string) {
		code, head, body := post(t, h.url+"/gateway/t1/mcp", token, hello)
		return head.Get("Mcp-Session-Id"), code, body
	}
	first, _, _ := open()
	for range 1000 {
		if _, code, body := open(); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	if code, _ := (&handmade{h, his.at, token, first}).say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); code != 200 {
		t.Errorf("the first one after a thousand: %d", code)
	}
	if _, body := his.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_s_echo"}}`); strings.Contains(body, "loud") {
		t.Error("what another one's session had set is forgotten")
	}
	refused := 0
	for range 60 { // each follows a resource, so none of them can be forgotten
		id, code, body := open()
		if code == 200 {
			code, body = (&handmade{h, his.at, token, id}).say(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"test://a"}}`)
		}
		if strings.Contains(body, `"error"`) {
			if refused++; !strings.Contains(body, "too many") {
				t.Errorf("%d %s", code, body)
			}
		}
	}
	if refused < 40 {
		t.Errorf("%d of 60 were refused", refused)
	}
}

// TestHostile_LateAnswers: an answer to a question that nobody asks any more, or of somebody else, is nothing.
func TestHostile_LateAnswers(t *testing.T) {
	h := start(t, nil)
	s := h.session(ann, `{"elicitation":{}}`)
	other := h.session(ann, `{"elicitation":{}}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := events(t, open(t, ctx, "POST", s.at, s.token, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ext_s_ask"}}`, "Mcp-Session-Id", s.id))
	var q struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(next(t, got)), &q); err != nil {
		t.Fatal(err)
	}
	yes := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Eve"}}}`, q.ID)
	if code, _ := other.say(yes); code != 202 {
		t.Errorf("in another session: %d", code)
	}
	if code, body := s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`); code != 202 {
		t.Errorf("%d %s", code, body)
	}
	for s := range got {
		if strings.Contains(s, "Eve") {
			t.Errorf("answered by another session: %s", s)
		}
	}
	for range 3 {
		if code, body := s.say(yes); code != 202 || body != "" {
			t.Errorf("after its end: %d %s", code, body)
		}
	}
}

// TestHostile_ProgressIsOnesOwn: two clients with the same ids and progress tokens each hear of their own calls alone.
func TestHostile_ProgressIsOnesOwn(t *testing.T) {
	h := start(t, nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := range 4 {
		s := h.session(ann, "{}")
		wg.Go(func() {
			for i := range 50 {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ext_s_echo","arguments":{"mine":"%d-%d"},"_meta":{"progressToken":"p"}}}`, i, n, i)
				code, said := s.say(body)
				if code != 200 || strings.Count(said, "notifications/progress") != 1 || !strings.Contains(said, fmt.Sprintf(`\"mine\":\"%d-%d\"`, n, i)) {
					t.Errorf("client %d, call %d: %d %s", n, i, code, said)
					return
				}
			}
		})
	}
}

// TestProgress_AtOnce: what a server tells at the very beginning of a call reaches a client that can be asked, too. It is a matter of
// a moment, therefore many at once.
func TestProgress_AtOnce(t *testing.T) {
	h := start(t, nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 16 {
		token := h.token(ann)
		wg.Go(func() {
			body := strings.Replace(since(1, "tools/call", `"name":"ext_s_echo"`, `{"elicitation":{}}`), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
			for range 200 {
				_, _, said := post(t, h.url+"/gateway/t1/mcp", token, body, "Mcp-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "ext_s_echo", "Accept", "application/json, text/event-stream")
				if strings.Count(said, "notifications/progress") != 1 {
					t.Errorf("%s", said)
					return
				}
			}
		})
	}
}

// TestHostile_Results: what a server answers reaches the client as it was, whatever it holds.
func TestHostile_Results(t *testing.T) {
	h := start(t, nil)
	s := h.session(ann, "{}")
	for _, raw := range []string{
		`{"content":[{"type":"text","text":"no"}],"isError":true}`,
		`{"content":[],"structuredContent":{"n":12345678901234567890,"isError":true,"resultType":"task"}}`,
		`{"content":[{"type":"resource","resource":{"uri":"test://a","mimeType":"text/plain","text":"x"}},{"type":"resource_link","uri":"file:///x","name":"x"}]}`,
		`{"content":[{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"},{"type":"image","data":"iVBORw0=","mimeType":"image/png"}],"_meta":{"a":[1,2]}}`,
		`{"content":[{"type":"text","text":"a\u2028b\\n"}],"later":{"unknown":null}}`,
	} {
		h.thread.raw(raw)
		if code, body := s.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ext_s_raw"}}`); code != 200 || body != `{"jsonrpc":"2.0","id":1,"result":`+raw+`}` {
			t.Errorf("%s became %d %s", raw, code, body)
		}
		want := strings.Replace(raw, "{", `{"resultType":"complete",`, 1)
		if code, _, body := post(t, s.at, s.token, since(1, "tools/call", `"name":"ext_s_raw"`, "{}"), "Mcp-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "ext_s_raw"); code != 200 || body != `{"jsonrpc":"2.0","id":1,"result":`+want+`}` {
			t.Errorf("since 2026 %s became %d %s", raw, code, body)
		}
	}
}
