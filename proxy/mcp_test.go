package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/proxy"
)

// Many clients use the same ids, and the same progress tokens; each hears its own.
func TestMCP_ManyClients(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	pid := ""
	var clients []*client
	for range 20 {
		clients = append(clients, w.connect("a"))
	}
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for n := range 20 {
				want := fmt.Sprintf("client %d call %d", i, n)
				if got := c.call("echo", map[string]any{"text": want}); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
			body := `{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"progress","arguments":{"n":3},"_meta":{"progressToken":"mine-` + strconv.Itoa(i) + `"}}}`
			events := streamed(c.post(body).body)
			if len(events) != 4 {
				t.Fatalf("%v", events)
			}
			for k, e := range events[:3] {
				if want := fmt.Sprintf(`"params":{"progressToken":"mine-%d","progress":%d}`, i, k+1); !strings.Contains(e, want) {
					t.Errorf("%s, want %s", e, want)
				}
			}
			if got := text(t, events[3], `"same"`); got != "done" {
				t.Errorf("%q", got)
			}
		})
	}
	all.Wait()
	for _, c := range clients {
		got := c.call("pid", nil)
		if pid == "" {
			pid = got
		}
		if got != pid {
			t.Errorf("another process: %s, not %s", got, pid)
		}
	}
}

// Nothing but the id and the token is changed on the way to the server.
func TestMCP_BytesPass(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	c := w.connect("a")
	got := text(t, c.post(`{ "id" : "a\"\\b" , "params":{"name":"line","x":[1.0,1e3,12345678901234567890,"\u00e9\/",{"id":7}],`+"\r\n"+`"_meta":{"progressToken":"t"}},"method":"tools\/call","jsonrpc":"2.0" }`).body, `"a\"\\b"`)
	var m message
	if err := json.Unmarshal([]byte(got), &m); err != nil {
		t.Fatal(err)
	}
	id := string(m.ID)
	if want := `{ "id" : ` + id + ` , "params":{"name":"line","x":[1.0,1e3,12345678901234567890,"\u00e9\/",{"id":7}],  "_meta":{"progressToken":` + id + `}},"method":"tools\/call","jsonrpc":"2.0" }`; got != want {
		t.Errorf("the server got\n%s, want\n%s", got, want)
	}
	if _, err := strconv.Atoi(id); err != nil {
		t.Errorf("the server's id is %s", id)
	}
}

// A question goes to the one client that it can be meant for, on the stream of its call.
func TestMCP_Questions(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	one, other := w.connect("a"), w.connect("a")
	ask := func(c *client, id string) (messages <-chan string, end func()) {
		resp := w.begin(t.Context(), "POST", c.path, request(id, "ask", map[string]any{"text": "who?"}), "Accept", both, "Mcp-Session-Id", c.session)
		return listen(t, resp.Body), func() { _ = resp.Body.Close() }
	}
	heard, end := ask(one, "1")
	defer end()
	question := hear(t, heard)
	var q message
	if err := json.Unmarshal([]byte(question), &q); err != nil || q.Method != "elicitation/create" {
		t.Fatalf("%s", question)
	}
	reply := `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"%s"}}`
	// Another client's answer does not reach the server.
	if a := other.post(fmt.Sprintf(reply, "stolen")); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := one.post(fmt.Sprintf(reply, "accept")); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := text(t, hear(t, heard), "1"); !strings.Contains(got, `"action":"accept"`) || strings.Contains(got, "stolen") {
		t.Errorf("%q", got)
	}

	// While two clients have calls under way nobody is asked.
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() { other.wait(ctx, "5", "here") })
	until(t, "the other's call is under way", func() bool { return strings.Contains(w.status("a").Stderr, "waits here") })
	if got := text(t, one.post(request("2", "ask", nil)).body, "2"); !strings.Contains(got, "no client can answer this now") {
		t.Errorf("%q", got)
	}
}

// wait makes a call that is never answered, and returns when ctx or the session ends.
func (c *client) wait(ctx context.Context, id, name string) {
	req, err := http.NewRequestWithContext(ctx, "POST", c.w.at+c.path, strings.NewReader(request(id, "wait", map[string]any{"text": name})))
	if err != nil {
		c.w.t.Error(err)
		return
	}
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {c.session}, "Accept": {both}}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
}

// TestMCP_UnansweredQuestions: they do not fill the room for later ones.
func TestMCP_UnansweredQuestions(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	c := w.connect("a")
	for i := range 80 {
		ctx, cancel := context.WithCancel(t.Context())
		resp := w.begin(ctx, "POST", c.path, request(fmt.Sprint(i), "ask", nil), "Accept", both, "Mcp-Session-Id", c.session)
		if got := hear(t, listen(t, resp.Body)); !strings.Contains(got, "elicitation/create") {
			t.Fatalf("%d: %s", i, got)
		}
		cancel()
		_ = resp.Body.Close()
		// The call is over when the next one is alone.
		until(t, "the server heard that it is cancelled", func() bool { return strings.Contains(c.call("cancelled", map[string]any{"n": i + 1}), "true") })
	}
}

func TestMCP_Cancel(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	one := w.connect("a")
	ctx, cancel := context.WithCancel(t.Context())
	stay, leave := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	defer leave()
	calls.Go(func() { one.wait(stay, `"x"`, "of one") }) // its own notification lets it go
	for i := range 10 {
		other := w.connect("a")
		calls.Go(func() { other.wait(ctx, `"x"`, fmt.Sprint("of other ", i)) })
	}
	cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","reason":"no"}}`
	until(t, "all calls are under way", func() bool { return strings.Count(w.status("a").Stderr, "waits of") == 11 })
	if a := one.post(cancelled); a.status != 202 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	until(t, "the server heard whose call is cancelled", func() bool {
		return strings.Contains(w.status("a").Stderr, "cancelled of one")
	})
	if strings.Contains(w.status("a").Stderr, "cancelled of other") {
		t.Error("another's call was cancelled, too")
	}
	// Who leaves takes the call back.
	cancel()
	until(t, "the server heard that the others left", func() bool { return strings.Count(w.status("a").Stderr, "cancelled of other") == 10 })
}

func TestMCP_Timeout(t *testing.T) {
	w := open(t, func(o *proxy.Options) { o.CallTimeout = 200 * time.Millisecond })
	w.put("a", me(), 201)
	c := w.connect("a")
	if got := c.call("wait", map[string]any{"text": "too long"}); got != "error: no answer in time; whether the call ran is not known" {
		t.Errorf("%q", got)
	}
	until(t, "the server heard it", func() bool { return strings.Contains(w.status("a").Stderr, "cancelled too long") })
}

func TestMCP_Sessions(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	c := w.connect("a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := w.begin(ctx, "GET", c.path, "", "Accept", "text/event-stream", "Mcp-Session-Id", c.session)
	defer stream.Body.Close()
	messages := listen(t, stream.Body)
	if a := w.do("GET", c.path, "", "Accept", "text/event-stream", "Mcp-Session-Id", c.session); a.status != 409 {
		t.Errorf("a second stream: %d %s", a.status, a.body)
	}
	// What belongs to no call goes to everybody's stream.
	if got := w.connect("a").call("notify", nil); got != "told" {
		t.Errorf("%q", got)
	}
	if got := hear(t, messages); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("%s", got)
	}
	for _, r := range []struct {
		method, body, want string
		status             int
		head               []string
	}{
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id is missing", 400, nil},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `"id":1`, 404, []string{"Mcp-Session-Id", "nobody"}},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "version", 400, []string{"Mcp-Session-Id", c.session, "Mcp-Protocol-Version", "1999-01-01"}},
		{"GET", ``, "stream", 405, nil},
		{"GET", ``, "no such session", 404, []string{"Mcp-Session-Id", "nobody"}},
		{"GET", ``, "event-stream", 406, []string{"Mcp-Session-Id", c.session}},
		{"DELETE", ``, "no such session", 404, []string{"Mcp-Session-Id", "nobody"}},
		{"PATCH", ``, "only", 405, nil},
	} {
		if a := w.do(r.method, c.path, r.body, r.head...); a.status != r.status || !strings.Contains(a.body, r.want) {
			t.Errorf("%s %v: %d %s, want %d and %q", r.method, r.head, a.status, a.body, r.status, r.want)
		}
	}
	if a := w.do("DELETE", c.path, "", "Mcp-Session-Id", c.session); a.status != 204 {
		t.Errorf("DELETE: %d %s", a.status, a.body)
	}
	for range messages { // the stream ends with its session
	}
	if a := c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); a.status != 404 {
		t.Errorf("after DELETE: %d %s", a.status, a.body)
	}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}%s}`

// modern posts a message of 2026-07-28, which knows no sessions.
func (w *world) modern(ctx context.Context, id, method, params string, head ...string) *http.Response {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, id, method, params, fmt.Sprintf(meta, ""))
	return w.begin(ctx, "POST", "/servers/a/mcp", body, append([]string{"Accept", both, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}, head...)...)
}

func TestMCP_Modern(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for range 10 {
				resp := w.modern(t.Context(), "7", "tools/call", fmt.Sprintf(`"name":"echo","arguments":{"text":"for %d"},`, i), "Mcp-Name", "echo")
				b, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if got := text(t, string(b), "7"); err != nil || got != fmt.Sprintf("for %d", i) || resp.Header.Get("Mcp-Session-Id") != "" {
					t.Errorf("%q %v", got, err)
				}
			}
		})
	}
	all.Wait()
	for _, c := range []struct{ name, value string }{{"Mcp-Method", "tools/list"}, {"Mcp-Method", ""}, {"Mcp-Name", "pid"}, {"Mcp-Protocol-Version", "2025-11-25"}} {
		resp := w.modern(t.Context(), "7", "tools/call", `"name":"echo",`, c.name, c.value)
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 400 || !strings.Contains(string(b), "-32020") || !strings.Contains(string(b), `"id":7`) {
			t.Errorf("%v: %d %s", c, resp.StatusCode, b)
		}
	}
	if a := w.do("POST", "/servers/a/mcp", `{"jsonrpc":"2.0","id":7,"result":{}}`, "Mcp-Protocol-Version", "2026-07-28"); a.status != 400 {
		t.Errorf("an answer of a client: %d %s", a.status, a.body)
	}
}

// Subscriptions are named by the id of their request; each client knows its own.
func TestMCP_Subscriptions(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var streams []<-chan string
	for range 2 {
		resp := w.modern(ctx, `"mine"`, "subscriptions/listen", `"notifications":{},`)
		defer resp.Body.Close()
		messages := listen(t, resp.Body)
		if got := hear(t, messages); !strings.Contains(got, `acknowledged`) || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"mine"`) {
			t.Fatalf("%s", got)
		}
		streams = append(streams, messages)
	}
	// The server's own names of these are 1 and 2.
	for i, messages := range streams {
		resp := w.modern(ctx, "3", "tools/call", fmt.Sprintf(`"name":"event","arguments":{"n":%d},`, i+1))
		_ = resp.Body.Close()
		if got := hear(t, messages); !strings.Contains(got, `"uri":"a:b","_meta":{"io.modelcontextprotocol/subscriptionId":"mine"}`) {
			t.Errorf("%s", got)
		}
	}
	select {
	case m := <-streams[0]:
		t.Errorf("the first heard the second's: %s", m)
	case <-time.After(50 * time.Millisecond):
	}
}
