package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"bobbin/proxy"
)

// What two parsers could read differently does not reach the server.
func TestHostile_Messages(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	c := w.connect("a")
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	for _, body := range []string{
		``, `null`, `[]`, `"x"`, `{}`, `{"jsonrpc":"2.0"}`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","Params":{}}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":true,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,"method":""}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, `{"jsonrpc":"2.0","id":1,"method":"ping","params":7}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":7}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":1,"progressToken":2}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":1},"_meta":{"progressToken":2}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progress\u0054oken":2,"progressToken":3}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":` + deep + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\n{\\\"id\\\":1}\"}}",
		`{"jsonrpc":"2.0","id":01,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping",}`,
	} {
		if a := c.post(body); a.status != 400 || !strings.Contains(a.body, "-32700") {
			t.Errorf("%.100s: %d %s", body, a.status, a.body)
		}
	}
	for kind, want := range map[string]int{"text/plain": 415, "application/x-www-form-urlencoded": 415, "": 415, "application/json; charset=utf-8": 200} {
		if a := c.post(request("1", "pid", nil), "Content-Type", kind); a.status != want {
			t.Errorf("%q: %d %s", kind, a.status, a.body)
		}
	}
	large := request("1", "echo", map[string]any{"text": strings.Repeat("x", 4<<20)})
	if a := c.post(large); a.status != 413 {
		t.Errorf("4 MiB: %d %s", a.status, a.body)
	}
	if a := c.post(large + strings.Repeat(" ", 5<<20)); a.status != 413 {
		t.Errorf("9 MiB: %d %s", a.status, a.body)
	}
	if got := c.call("echo", map[string]any{"text": "still here"}); got != "still here" {
		t.Errorf("%q", got)
	}
	if words := w.status("a").Stderr; strings.Contains(words, "not JSON") {
		t.Errorf("the server got what is no JSON: %s", words)
	}
}

func TestHostile_Servers(t *testing.T) {
	w := open(t)
	w.put("endless", me("endless-line"), 201)
	w.put("garbage", me("garbage"), 201)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, why := range map[string]string{"endless": "a line above the limit", "garbage": "more than 100 lines"} {
		if a := w.do("POST", "/servers/"+name+"/mcp", hello, "Accept", both); !strings.Contains(a.body, `"error"`) || !strings.Contains(a.body, `"id":"h"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		until(t, name+" is ended", func() bool { return w.status(name).Exit != "" })
		if log := w.log.String(); !strings.Contains(log, why) {
			t.Errorf("%s: the log does not say why: %s", name, log)
		}
	}
	runtime.ReadMemStats(&after)
	if more := int64(after.HeapInuse) - int64(before.HeapInuse); more > 64<<20 {
		t.Errorf("%d MiB more are used", more>>20)
	}
	// A word or two besides MCP is passed over.
	w.put("chatty", me("chatty"), 201)
	if got := w.connect("chatty").call("big", map[string]any{"n": 3 << 20}); len(got) != 3<<20/10*10 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestHostile_Sessions: more sessions than there is room for end the longest unused ones, never one at work.
func TestHostile_Sessions(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	working := w.connect("a")
	ctx := t.Context()
	done := make(chan struct{})
	go func() {
		defer close(done)
		working.wait(ctx, "1", "busy")
	}()
	until(t, "it works", func() bool { return strings.Contains(w.status("a").Stderr, "waits busy") })
	listening := w.connect("a")
	stream := w.begin(ctx, "GET", listening.path, "", "Accept", "text/event-stream", "Mcp-Session-Id", listening.session)
	defer stream.Body.Close()
	idle := w.connect("a")
	for range 300 {
		w.connect("a")
	}
	ping := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if a := idle.post(ping); a.status != 404 {
		t.Errorf("the idle one: %d %s", a.status, a.body)
	}
	for _, c := range []*client{working, listening} {
		if a := c.post(ping); a.status != 200 {
			t.Errorf("one at work: %d %s", a.status, a.body)
		}
	}
	if a := working.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	<-done
}

func TestHostile_TooManyCalls(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	c := w.old(t.Context(), "a")
	c.post(hello)
	hear(t, c.heard)
	for i := range 256 {
		c.post(request(fmt.Sprint(i), "wait", nil))
	}
	c.post(request(`"more"`, "pid", nil))
	if got := text(t, hear(t, c.heard), `"more"`); !strings.Contains(got, "too many calls") {
		t.Errorf("%q", got)
	}
}

// TestHostile_Slowness: whoever sends nothing, or byte by byte, is let go.
func TestHostile_Slowness(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	w := open(t)
	addr := strings.TrimPrefix(w.at, "http://")
	began := time.Now()
	conns := make([]net.Conn, 50)
	for i := range conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
		conns[i] = conn
	}
	if a := w.do("GET", "/health", ""); a.status != 200 {
		t.Errorf("beside them: %d %s", a.status, a.body)
	}
	for _, conn := range conns {
		_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Fatalf("it is still there: %v", err)
		}
	}
	if took := time.Since(began); took > 13*time.Second {
		t.Errorf("it took %s", took)
	}
	// Large headers are not read.
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.at+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 431 {
		t.Errorf("%s", resp.Status)
	}
}

// TestHostile_DeafClient: who does not read its stream loses it, and holds up nobody.
func TestHostile_DeafClient(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	deaf := w.connect("a")
	stream := w.begin(t.Context(), "GET", deaf.path, "", "Accept", "text/event-stream", "Mcp-Session-Id", deaf.session)
	defer stream.Body.Close()
	c := w.connect("a")
	for range 500 {
		if got := c.call("notify", nil); got != "told" {
			t.Fatalf("%q", got)
		}
	}
}

func TestHostile_Definitions(t *testing.T) {
	w := open(t)
	for _, name := range []string{"-a", ".", "..", "a%2Fb", "a%00b", strings.Repeat("a", 65), "ä"} {
		if a := w.do("PUT", "/servers/"+name, `{"command":"x"}`); a.status < 300 || a.status >= 500 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if all := w.p.List(); len(all) > 0 {
		t.Errorf("%v", all)
	}
	if _, err := w.p.Put("a", proxy.Definition{Command: "x", Args: make([]string, 2000)}); err == nil {
		t.Error("2000 arguments")
	}
}
