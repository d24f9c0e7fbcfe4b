package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/proxy"
)

const token = "a-token-of-the-tests"

func TestMain(m *testing.M) {
	if os.Getenv("PROXY_CHILD") != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// world is a proxy that serves on loopback.
type world struct {
	t     *testing.T
	p     *proxy.Proxy
	at    string
	token string
	log   *lockedBuffer
}

type lockedBuffer struct {
	mu  chan struct{}
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu <- struct{}{}
	defer func() { <-b.mu }()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu <- struct{}{}
	defer func() { <-b.mu }()
	return b.buf.String()
}

// open gives a proxy with a token, whose goroutines must all be over at the end.
func open(t *testing.T, change ...func(*proxy.Options)) *world {
	t.Helper()
	before := goleak.IgnoreCurrent()
	w := &world{t: t, token: token, log: &lockedBuffer{mu: make(chan struct{}, 1)}}
	o := proxy.Options{
		Token: token, Env: []string{"PATH=" + os.Getenv("PATH"), "PROXY_CHILD=1", "GORACE=atexit_sleep_ms=0", "GOTRACEBACK=none"},
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, fn := range change {
		fn(&o)
	}
	w.token = o.Token
	ctx, cancel := context.WithCancel(context.Background())
	p, err := proxy.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.p, w.at = p, "http://"+l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		p.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		// net/http gives a connection that it closes another 500 ms.
		leak := goleak.Find(before)
		for range 5 {
			if leak != nil {
				leak = goleak.Find(before)
			}
		}
		if leak != nil {
			t.Error(leak)
		}
	})
	return w
}

// me is the definition of this program as a server with the vice named.
func me(vice ...string) proxy.Definition {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return proxy.Definition{Command: exe, Args: vice}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

// do makes a request; head holds more headers as name and value in turn.
func (w *world) do(method, path, body string, head ...string) answer {
	w.t.Helper()
	resp := w.begin(w.t.Context(), method, path, body, head...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v after %q", method, path, err, b)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// begin gives the answer while it still comes.
func (w *world) begin(ctx context.Context, method, path, body string, head ...string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.at+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
		if head[i] == "Host" {
			req.Host = head[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// put registers a server and wants the status.
func (w *world) put(name string, d proxy.Definition, want int) proxy.Status {
	w.t.Helper()
	body, err := json.Marshal(d)
	if err != nil {
		w.t.Fatal(err)
	}
	a := w.do("PUT", "/servers/"+name, string(body))
	if a.status != want {
		w.t.Fatalf("PUT %s: %d %s, want %d", name, a.status, a.body, want)
	}
	var st proxy.Status
	a.into(w.t, &st)
	return st
}

func (w *world) status(name string) proxy.Status {
	w.t.Helper()
	a := w.do("GET", "/servers/"+name, "")
	var st proxy.Status
	a.into(w.t, &st)
	return st
}

// until waits for something to become true.
func until(t *testing.T, what string, fn func() bool) {
	t.Helper()
	for limit := time.Now().Add(15 * time.Second); !fn(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

// client is one MCP client with a session (2025-11-25).
type client struct {
	w       *world
	path    string
	session string
	last    atomic.Int64
}

const hello = `{"jsonrpc":"2.0","id":"h","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// connect shakes hands.
func (w *world) connect(name string) *client {
	w.t.Helper()
	c := &client{w: w, path: "/servers/" + name + "/mcp"}
	a := w.do("POST", c.path, hello, "Accept", both)
	if c.session = a.header.Get("Mcp-Session-Id"); a.status != 200 || c.session == "" || !strings.Contains(a.body, `"id":"h"`) {
		w.t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	if a := c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != 202 {
		w.t.Fatalf("initialized: %d %s", a.status, a.body)
	}
	return c
}

const both = "application/json, text/event-stream"

func (c *client) post(body string, head ...string) answer {
	c.w.t.Helper()
	return c.w.do("POST", c.path, body, append([]string{"Mcp-Session-Id", c.session, "Mcp-Protocol-Version", "2025-11-25", "Accept", both}, head...)...)
}

// request is a call of a tool as it is sent.
func request(id, tool string, args map[string]any) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, b)
}

// call runs a tool and gives its text; an error gives its message after "error: ".
func (c *client) call(tool string, args map[string]any) string {
	c.w.t.Helper()
	id := fmt.Sprint(c.last.Add(1))
	a := c.post(request(id, tool, args))
	return text(c.w.t, a.body, id)
}

// text takes an answer apart, in a stream or not, and wants it under the id.
func text(t *testing.T, body, id string) string {
	t.Helper()
	if events := streamed(body); len(events) > 0 {
		body = events[len(events)-1]
	}
	var m struct {
		ID     json.RawMessage
		Result struct{ Content []struct{ Text string } }
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil || string(m.ID) != id {
		t.Fatalf("%s: want an answer with id %s (%v)", body, id, err)
	}
	if m.Error != nil {
		return "error: " + m.Error.Message
	}
	if len(m.Result.Content) != 1 {
		t.Fatalf("%s: not one content", body)
	}
	return m.Result.Content[0].Text
}

// streamed gives the messages of an event stream.
func streamed(body string) []string {
	var all []string
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			all = append(all, strings.TrimSpace(data))
		}
	}
	return all
}

// listen reads an event stream message by message.
func listen(t *testing.T, body io.Reader) <-chan string {
	t.Helper()
	messages := make(chan string, 1000)
	go func() {
		defer close(messages)
		in := bufio.NewScanner(body)
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				messages <- data
			}
		}
	}()
	return messages
}

// hear waits for the next message.
func hear(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case m, ok := <-from:
		if !ok {
			t.Fatal("the stream ended")
		}
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was heard within 10 s")
	}
	return ""
}

func with(d proxy.Definition, env map[string]string) proxy.Definition {
	d.Env = maps.Clone(env)
	return d
}
