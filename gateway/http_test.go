package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/gateway"
)

func TestGuard(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Hosts = []string{"tools.example.com"} })
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	port := h.url[strings.LastIndex(h.url, ":"):]
	for _, c := range []struct {
		name, host, origin string
		want               int
	}{
		{"plain", "", "", 200},
		{"by name", "localhost" + port, "", 200},
		{"a published name", "tools.example.com", "", 200},
		{"DNS rebinding", "evil.example.com", "", 403},
		{"DNS rebinding with our port", "evil.example.com" + port, "", 403},
		{"another port", "localhost:1", "", 403},
		{"another site's page", "", "http://evil.example.com", 403},
		{"a page of no site", "", "null", 403},
		{"a page on this machine", "", "http://localhost:6274", 200},
		{"our own page", "", h.url, 200},
		{"a page on the visitor's machine, elsewhere", "tools.example.com", "http://localhost:6274", 403},
	} {
		var head []string
		if c.host != "" {
			head = append(head, "Host", c.host)
		}
		if c.origin != "" {
			head = append(head, "Origin", c.origin)
		}
		if code, _, body := post(t, at, token, hello, head...); code != c.want {
			t.Errorf("%s: %d %s", c.name, code, body)
		}
	}
}

func TestHTTP_Refuses(t *testing.T) {
	h := start(t, nil)
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	_, head, _ := post(t, at, token, hello)
	id := head.Get("Mcp-Session-Id")
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, c := range []struct {
		name, method, body string
		want               int
		code               string
		head               []string
	}{
		{"not JSON", "POST", `{`, 400, "-32700", nil},
		{"no message", "POST", `{"a":1}`, 400, "-32600", nil},
		{"null id", "POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, "-32600", []string{"Mcp-Session-Id", id}},
		{"a batch", "POST", `[` + hello + `]`, 400, "-32600", nil},
		{"another type", "POST", hello, 415, "-32600", []string{"Content-Type", "text/plain"}},
		{"too large", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 4<<20) + `"}}`, 413, "-32600", []string{"Mcp-Session-Id", id}},
		{"no session", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 400, "-32600", nil},
		{"a session that never was", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 404, "-32600", []string{"Mcp-Session-Id", strings.Repeat("A", len(id))}},
		{"a session with another end", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 404, "-32600", []string{"Mcp-Session-Id", id[:10] + "AAAA" + id[14:]}},
		{"an unknown version", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 400, "-32600", []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "1999-01-01"}},
		{"an unknown method", "POST", `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, 200, "-32601", []string{"Mcp-Session-Id", id}},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, "", []string{"Mcp-Session-Id", id}},
		{"an answer nobody asked for", "POST", `{"jsonrpc":"2.0","id":"x","result":{}}`, 202, "", []string{"Mcp-Session-Id", id}},
		{"GET without a session", "GET", "", 405, "-32600", nil},
		{"PUT", "PUT", hello, 405, "-32600", nil},
		{"GET since 2026", "GET", "", 405, "-32600", []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2026-07-28"}},
		{"2026 without headers", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`, 400, "-32020", nil},
		{"2026 with another method", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`, 400, "-32020", []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call"}},
		{"2026 with another name", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ext_s_echo",` + meta + `}}`, 400, "-32020", []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "x"}},
		{"2026 with its name coded", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ext_s_echo",` + meta + `}}`, 200, "", []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?ZXh0X3NfZWNobw==?="}},
		{"2026 with a state that is not ours", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ext_s_ask","requestState":"x",` + meta + `}}`, 400, "-32602", []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "ext_s_ask"}},
	} {
		status, _, body := send(t, c.method, at, token, c.body, c.head...)
		if status != c.want || c.code != "" && !strings.Contains(body, `"code":`+c.code+",") {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
	for _, path := range []string{"/gateway/t1/nothing", "/gateway/", "/api/mcp/nothing", "/api/mcp/config.json?client=emacs", "/api/mcp/config.json?thread=../x", "/api/mcp/install.sh?client=emacs"} {
		if code := h.get(path); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestBatch(t *testing.T) {
	h := start(t, nil)
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	batch := `[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_s_echo"}},{"x":1}]`
	for version, want := range map[string]int{"2025-03-26": 200, "2025-06-18": 400} {
		_, head, _ := post(t, at, token, strings.Replace(hello, "2025-11-25", version, 1))
		code, _, body := post(t, at, token, batch, "Mcp-Session-Id", head.Get("Mcp-Session-Id"))
		if code != want {
			t.Errorf("%s: %d %s", version, code, body)
		}
		var all []struct{ ID, Result, Error json.RawMessage }
		if want == 200 && (json.Unmarshal([]byte(body), &all) != nil || len(all) != 3 || string(all[0].Result) != "{}" || all[1].Result == nil || all[2].Error == nil) {
			t.Errorf("%s", body)
		}
	}
}

func TestSession_SurvivesARestartAndBeingForgotten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gateway")
	var id, token string
	ping := func(h *house) int {
		code, _, _ := post(t, h.url+"/gateway/t1/mcp", token, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id)
		return code
	}
	t.Run("before", func(t *testing.T) {
		h := startIn(t, dir, newThread(), func(o *gateway.Options) { o.Sessions = 1 })
		token = h.token(ann)
		_, head, _ := post(t, h.url+"/gateway/t1/mcp", token, hello)
		id = head.Get("Mcp-Session-Id")
		post(t, h.url+"/gateway/t1/mcp", token, hello) // takes the one place
		if ping(h) != 200 {
			t.Error("it is lost")
		}
		if code, _, _ := post(t, h.url+"/gateway/t1/mcp", h.token(ann), `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id); code != 404 {
			t.Errorf("another token has it: %d", code)
		}
		if code, _, _ := post(t, h.url+"/gateway/t1/servers/s/mcp", token, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id); code != 404 {
			t.Errorf("it leads to another endpoint: %d", code)
		}
	})
	h := startIn(t, dir, newThread(), nil)
	if ping(h) != 200 {
		t.Error("it did not survive")
	}
	if code, _, _ := send(t, "DELETE", h.url+"/gateway/t1/mcp", token, "", "Mcp-Session-Id", id); code != 204 {
		t.Errorf("DELETE: %d", code)
	}
	if code := ping(h); code != 404 {
		t.Errorf("after DELETE: %d", code)
	}
}

// events reads server-sent events until the stream ends.
func events(t *testing.T, resp *http.Response) <-chan string {
	ch := make(chan string, 64)
	go func() {
		defer close(ch)
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				ch <- data
			}
		}
	}()
	t.Cleanup(func() { _ = resp.Body.Close() })
	return ch
}

func next(t *testing.T, ch <-chan string) string {
	t.Helper()
	select {
	case s, ok := <-ch:
		if !ok {
			t.Fatal("the stream ended")
		}
		return s
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
	}
	return ""
}

func open(t *testing.T, ctx context.Context, method, url, token, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestCall_NotesComeBeforeTheAnswer(t *testing.T) {
	h := start(t, nil)
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	_, head, _ := post(t, at, token, hello)
	call := `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"ext_s_echo","arguments":{"x":1},"_meta":{"progressToken":"p-1"}}}`
	got := events(t, open(t, t.Context(), "POST", at, token, call, "Mcp-Session-Id", head.Get("Mcp-Session-Id")))
	if s := next(t, got); !strings.Contains(s, `"notifications/progress"`) || !strings.Contains(s, `"progressToken":"p-1"`) || strings.Contains(s, "7") {
		t.Errorf("%s", s)
	}
	if s := next(t, got); !strings.Contains(s, `"loud"`) {
		t.Errorf("%s", s)
	}
	if s := next(t, got); !strings.HasPrefix(s, `{"jsonrpc":"2.0","id":"a","result":{"content":`) {
		t.Errorf("%s", s)
	}
	post(t, at, token, `{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"debug"}}`, "Mcp-Session-Id", head.Get("Mcp-Session-Id"))
	got = events(t, open(t, t.Context(), "POST", at, token, call, "Mcp-Session-Id", head.Get("Mcp-Session-Id")))
	next(t, got)
	if s := next(t, got); !strings.Contains(s, `"quiet"`) {
		t.Errorf("%s", s)
	}
}

func TestCall_TakenBack(t *testing.T) {
	h := start(t, nil)
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	_, head, _ := post(t, at, token, hello)
	id := head.Get("Mcp-Session-Id")
	wait := `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ext_s_wait"}}`
	t.Run("by the client's word", func(t *testing.T) {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { post(t, at, token, wait, "Mcp-Session-Id", id) })
		<-h.thread.began
		post(t, at, token, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, "Mcp-Session-Id", id)
		if err := <-h.thread.ended; err == nil {
			t.Error("it went on")
		}
	})
	t.Run("by the end of the session", func(t *testing.T) {
		_, head, _ := post(t, at, token, hello)
		id := head.Get("Mcp-Session-Id")
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { post(t, at, token, wait, "Mcp-Session-Id", id) })
		<-h.thread.began
		send(t, "DELETE", at, token, "", "Mcp-Session-Id", id)
		if err := <-h.thread.ended; err == nil {
			t.Error("it went on")
		}
	})
	t.Run("not by a broken connection before 2026", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-h.thread.began; cancel() }()
		req, _ := http.NewRequestWithContext(ctx, "POST", at, strings.NewReader(wait))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Mcp-Session-Id", id)
		if _, err := http.DefaultClient.Do(req); err == nil {
			t.Fatal("it answered")
		}
		select {
		case err := <-h.thread.ended:
			t.Errorf("it was taken back: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		close(h.thread.hold)
		<-h.thread.ended
		h.thread.hold = make(chan struct{})
	})
	t.Run("by a broken connection since", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-h.thread.began; cancel() }()
		req, _ := http.NewRequestWithContext(ctx, "POST", at, strings.NewReader(since(9, "tools/call", `"name":"ext_s_wait"`, "{}")))
		for k, v := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + token, "Mcp-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "ext_s_wait"} {
			req.Header.Set(k, v)
		}
		if _, err := http.DefaultClient.Do(req); err == nil {
			t.Fatal("it answered")
		}
		if err := <-h.thread.ended; err == nil {
			t.Error("it went on")
		}
	})
}

// since is a request of 2026-07-28.
func since(id int, method, params, caps string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`, id, method, params, caps)
}

func TestElicit(t *testing.T) {
	h := start(t, nil)
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	call := `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ext_s_ask"}}`
	t.Run("a client that cannot leaves it to the chat", func(t *testing.T) {
		_, head, _ := post(t, at, token, hello)
		if _, _, body := post(t, at, token, call, "Mcp-Session-Id", head.Get("Mcp-Session-Id")); !strings.Contains(body, `"nobody"`) {
			t.Errorf("%s", body)
		}
	})
	t.Run("before 2026", func(t *testing.T) {
		_, head, _ := post(t, at, token, strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
		id := head.Get("Mcp-Session-Id")
		got := events(t, open(t, t.Context(), "POST", at, token, call, "Mcp-Session-Id", id))
		var q struct {
			ID     json.RawMessage
			Method string
			Params struct{ Message, Mode string }
		}
		if err := json.Unmarshal([]byte(next(t, got)), &q); err != nil || q.Method != "elicitation/create" || q.Params.Message != "s asks: who?" || q.Params.Mode != "form" {
			t.Fatalf("%v %+v", err, q)
		}
		if code, _, _ := post(t, at, h.token(ann), fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Eve"}}}`, q.ID), "Mcp-Session-Id", id); code != 404 {
			t.Errorf("another token may answer: %d", code)
		}
		post(t, at, token, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ann"}}}`, q.ID), "Mcp-Session-Id", id)
		if s := next(t, got); !strings.Contains(s, `accept {\"name\":\"Ann\"} \u003cnil\u003e`) && !strings.Contains(s, `accept {\"name\":\"Ann\"} <nil>`) {
			t.Errorf("%s", s)
		}
	})
	t.Run("since 2026", func(t *testing.T) {
		head := []string{"Mcp-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "ext_s_ask"}
		_, _, body := post(t, at, token, since(1, "tools/call", `"name":"ext_s_ask"`, `{"elicitation":{}}`), head...)
		var r struct {
			Result struct {
				ResultType    string
				RequestState  string
				InputRequests map[string]struct{ Method string }
			}
		}
		if err := json.Unmarshal([]byte(body), &r); err != nil || r.Result.ResultType != "input_required" || len(r.Result.InputRequests) != 1 {
			t.Fatalf("%v %s", err, body)
		}
		retry := func(name, state, token string) string {
			answer := `"inputResponses":{"question-1":{"action":"accept","content":{"name":"Ann"}}}`
			head := append(head[:5:5], name)
			_, _, body := post(t, at, token, since(2, "tools/call", fmt.Sprintf(`"name":%q,"requestState":%q,%s`, name, state, answer), `{"elicitation":{}}`), head...)
			return body
		}
		for what, body := range map[string]string{
			"another's": retry("ext_s_ask", r.Result.RequestState, h.token(ann)), "another call": retry("ext_s_echo", r.Result.RequestState, token), "changed": retry("ext_s_ask", r.Result.RequestState+"x", token),
		} {
			if !strings.Contains(body, "-32602") {
				t.Errorf("%s: %s", what, body)
			}
		}
		if body := retry("ext_s_ask", r.Result.RequestState, token); !strings.Contains(body, "accept") || !strings.Contains(body, `"resultType":"complete"`) {
			t.Errorf("%s", body)
		}
		if body := retry("ext_s_ask", r.Result.RequestState, token); !strings.Contains(body, "-32602") {
			t.Errorf("a state works twice: %s", body)
		}
	})
}

func TestList_Pages(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Page = 4 })
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	_, head, _ := post(t, at, token, hello)
	list := func(cursor string) (n int, next, body string) {
		_, _, body = post(t, at, token, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+`}}`, "Mcp-Session-Id", head.Get("Mcp-Session-Id"))
		var r struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
		}
		_ = json.Unmarshal([]byte(body), &r)
		return len(r.Result.Tools), r.Result.NextCursor, body
	}
	n, cursor, _ := list("")
	if n != 4 || cursor == "" {
		t.Fatalf("%d %q", n, cursor)
	}
	if n, cursor, body := list(`"cursor":"` + cursor + `"`); n != 2 || cursor != "" {
		t.Errorf("%s", body)
	}
	if _, _, body := list(`"cursor":"nonsense"`); !strings.Contains(body, "-32602") {
		t.Errorf("%s", body)
	}
}

// One server of the thread alone goes by its tools' own names, and nothing of the others shows.
func TestOneServer(t *testing.T) {
	h := start(t, nil)
	at, token := h.url+"/gateway/t1/servers/s/mcp", h.token(ann)
	_, head, _ := post(t, at, token, hello)
	id := []string{"Mcp-Session-Id", head.Get("Mcp-Session-Id")}
	if _, _, body := post(t, at, token, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, id...); !strings.Contains(body, `"name":"echo"`) || strings.Contains(body, "ext_") || strings.Count(body, `"echo"`) != 1 {
		t.Errorf("%s", body)
	}
	if _, _, body := post(t, at, token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, id...); !strings.Contains(body, `"result"`) {
		t.Errorf("%s", body)
	}
	if got := h.thread.calls[len(h.thread.calls)-1].Tool; got != "s.echo" {
		t.Errorf("called %s", got)
	}
	if _, _, body := post(t, at, token, `{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}`, id...); !strings.Contains(body, `"resourceTemplates":[]`) {
		t.Errorf("%s", body)
	}
}

func TestLimits(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Calls, o.Streams = 1, 1 })
	at, token := h.url+"/gateway/t1/mcp", h.token(ann)
	_, head, _ := post(t, at, token, hello)
	id := []string{"Mcp-Session-Id", head.Get("Mcp-Session-Id")}
	var wg sync.WaitGroup
	wg.Go(func() {
		post(t, at, token, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ext_s_wait"}}`, id...)
	})
	<-h.thread.began
	if code, _, body := post(t, at, token, `{"jsonrpc":"2.0","id":6,"method":"ping"}`, id...); code != 429 || !strings.Contains(body, "did not run") {
		t.Errorf("%d %s", code, body)
	}
	close(h.thread.hold)
	<-h.thread.ended
	wg.Wait()
	_ = events(t, open(t, t.Context(), "GET", at, token, "", id...))
	until(t, func() bool { return h.thread.watched() == 1 })
	if resp := open(t, t.Context(), "GET", h.url+"/gateway/t1/sse", token, ""); resp.StatusCode != 503 {
		t.Errorf("a second stream: %d", resp.StatusCode)
	}
}

// One token takes no more than its share.
func TestLimits_OfOneToken(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Calls = 8 })
	at, token, other := h.url+"/gateway/t1/mcp", h.token(ann), h.token(ann)
	session := func(token string) []string {
		_, head, _ := post(t, at, token, hello)
		return []string{"Mcp-Session-Id", head.Get("Mcp-Session-Id")}
	}
	id := session(token)
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			post(t, at, token, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ext_s_wait"}}`, n+10), id...)
		})
		<-h.thread.began
	}
	ping := `{"jsonrpc":"2.0","id":6,"method":"ping"}`
	if code, _, _ := post(t, at, token, ping, id...); code != 429 {
		t.Errorf("a third of a quarter of eight: %d", code)
	}
	if code, _, _ := post(t, at, other, ping, session(other)...); code != 200 {
		t.Errorf("another token: %d", code)
	}
	close(h.thread.hold)
	wg.Wait()
	if code, _, _ := post(t, at, token, ping, id...); code != 200 {
		t.Errorf("afterwards: %d", code)
	}
}
