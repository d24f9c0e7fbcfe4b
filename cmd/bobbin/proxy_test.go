package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// startProxy runs the real binary and gives the address that it says.
func startProxy(t testing.TB, args ...string) (at string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command("bobbin", append([]string{"proxy", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("bobbin proxy ended with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	at = regexp.MustCompile(`http://[^/\s]+`).FindString(line)
	if err != nil || at == "" {
		t.Fatalf("it said %q (%v)", line, err)
	}
	return at, cmd
}

// TestProxy_Standalone serves one command at both of its endpoints, and nothing else without a token.
func TestProxy_Standalone(t *testing.T) {
	linuxOnly(t)
	at, cmd := startProxy(t, "--", "fakemcp")
	everyTransport(t, at, func(t *testing.T, tr transport.Interface) {
		talk(t, tr, "echo", map[string]any{"message": "hi ☃"}, "Echo: hi ☃")
	})
	for _, path := range []string{"/servers", "/exec"} {
		resp, err := http.Post(at+path, "application/json", strings.NewReader(`{"args":["id"]}`))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("POST %s without a token: %d %s", path, resp.StatusCode, b)
		}
	}
	pids := children(t, cmd.Process.Pid)
	if len(pids) != 1 {
		t.Fatalf("children: %v", pids)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	gone(t, "after SIGTERM", 10*time.Second, pids...)
}

func everyTransport(t *testing.T, at string, fn func(*testing.T, transport.Interface)) {
	for kind, open := range map[string]func() (transport.Interface, error){
		"streamable": func() (transport.Interface, error) { return transport.NewStreamableHTTP(at + "/mcp") },
		"sse":        func() (transport.Interface, error) { return transport.NewSSE(at + "/sse") },
	} {
		t.Run(kind, func(t *testing.T) {
			tr, err := open()
			if err != nil {
				t.Fatal(err)
			}
			fn(t, tr)
		})
	}
}

// TestProxy_RealServer puts npm's server behind the proxy, for several clients at once.
func TestProxy_RealServer(t *testing.T) {
	long(t)
	linuxOnly(t)
	at, _ := startProxy(t, "--", "node", realServer(t, "everything"), "stdio")
	everyTransport(t, at, func(t *testing.T, tr transport.Interface) {
		talk(t, tr, "echo", map[string]any{"message": "hi ☃"}, "Echo: hi ☃")
	})
	for _, path := range []string{"/mcp", "/sse"} {
		t.Run("long"+path, func(t *testing.T) { t.Parallel(); longOperation(t, at+path) })
	}
}

// longOperation hears of the progress of a call, and lists what is not tools.
func longOperation(t *testing.T, at string) {
	var tr transport.Interface
	var err error
	if strings.HasSuffix(at, "/sse") {
		tr, err = transport.NewSSE(at)
	} else {
		tr, err = transport.NewStreamableHTTP(at)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := client.NewClient(tr)
	defer func() { _ = c.Close() }()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	var steps atomic.Int64
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == "notifications/progress" {
			steps.Add(1)
		}
	})
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	if list, err := c.ListPrompts(ctx, mcp.ListPromptsRequest{}); err != nil || len(list.Prompts) == 0 {
		t.Errorf("prompts: %v %v", list, err)
	}
	if list, err := c.ListResources(ctx, mcp.ListResourcesRequest{}); err != nil || len(list.Resources) == 0 {
		t.Errorf("resources: %v %v", list, err)
	}
	var call mcp.CallToolRequest
	call.Params.Name, call.Params.Arguments = "trigger-long-running-operation", map[string]any{"duration": 1, "steps": 4}
	call.Params.Meta = &mcp.Meta{ProgressToken: "mine"}
	if got, err := c.CallTool(ctx, call); err != nil || got.IsError {
		t.Errorf("%v %v", got, err)
	}
	if !eventually(5*time.Second, func() bool { return steps.Load() == 4 }) {
		t.Errorf("%d steps were heard of, not 4", steps.Load())
	}
}

// talk shakes hands, lists all tools, calls one and wants the text.
func talk(t *testing.T, tr transport.Interface, tool string, args map[string]any, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := client.NewClient(tr)
	defer func() { _ = c.Close() }()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = "2025-11-25"
	if _, err := c.Initialize(ctx, hello); err != nil {
		t.Fatal(err)
	}
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil || len(list.Tools) < 3 {
		t.Fatalf("tools: %v %v", list, err)
	}
	var call mcp.CallToolRequest
	call.Params.Name, call.Params.Arguments = tool, args
	got, err := c.CallTool(ctx, call)
	if err != nil || len(got.Content) != 1 {
		t.Fatalf("%v %v", got, err)
	}
	if text, ok := got.Content[0].(mcp.TextContent); !ok || text.Text != want {
		t.Errorf("%v, want %q", got.Content[0], want)
	}
}

// TestProxy_Words is what a person sees who gets the command line wrong.
func TestProxy_Words(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "where to serve is missing"},
		{"--listen 127.0.0.1:0", 2, "nothing to serve"},
		{"--listen 127.0.0.1:0 fakemcp", 2, "comes after --"},
		{"--listen nowhere -- fakemcp", 2, "is no address"},
		{"--listen 127.0.0.1:0 --token-file " + empty, 1, "cannot be read, or is empty"},
		{"--listen 127.0.0.1:0 --token-file " + dir + "/none", 1, "cannot be read, or is empty"},
		{"--listen 127.0.0.1:0 -- /no/such/program", 1, "cannot be started: no such program"},
		{"--listen 0.0.0.0:0 -- fakemcp", 1, "needs a token"},
		{"--socket " + dir + "/s -- fakemcp", 1, "needs a token"},
		{"--socket " + dir + "/none/s -- fakemcp", 1, "its folder must exist"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		cmd := exec.CommandContext(ctx, "bobbin", append([]string{"proxy"}, strings.Fields(c.args)...)...)
		out, err := cmd.CombinedOutput()
		cancel()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("bobbin proxy %s: %d %s (%v), want %d and %q", c.args, code, out, err, c.code, c.want)
		}
	}
}

// TestProxy_Inside runs as in a sandbox: on a socket, with a token, with a way out.
func TestProxy_Inside(t *testing.T) {
	linuxOnly(t)
	dir := t.TempDir()
	socket, token, way := filepath.Join(dir, "proxy.sock"), filepath.Join(dir, "token"), filepath.Join(dir, "egress.sock")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := net.Listen("unix", way)
	if err != nil {
		t.Fatal(err)
	}
	outside := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "asked for "+r.URL.String()) })}
	go func() { _ = outside.Serve(out) }()
	defer outside.Close()
	port := freePort(t)
	start := func() *exec.Cmd {
		cmd := exec.Command("bobbin", "proxy", "--socket", socket, "--egress", way, "--egress-listen", "127.0.0.1:"+port, "--token-file", token)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "BOBBIN_CANARY=ours", "THEIRS=kept", "FAKEMCP_STARTS="+filepath.Join(dir, "starts"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	var d net.Dialer
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }}}
	defer web.CloseIdleConnections()
	ask := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://sandbox"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer t0ken")
		resp, err := web.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	ready := func() bool { code, _ := ask("GET", "/healthz", ""); return code == http.StatusOK }

	cmd := start()
	if !eventually(10*time.Second, ready) {
		t.Fatal("it does not answer")
	}
	if code, text := ask("PUT", "/servers/a", `{"command":"fakemcp"}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	if _, text := ask("POST", "/exec", `{"args":["env"]}`); strings.Contains(text, "BOBBIN_CANARY") || !strings.Contains(text, "THEIRS=kept") {
		t.Errorf("the environment of a command: %s", text)
	}
	if _, text := ask("POST", "/exec", `{"args":["pwd"]}`); !strings.Contains(text, `"out":"`+dir) {
		t.Errorf("the folder of a command: %s", text)
	}
	through := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port}), DisableKeepAlives: true}}
	if resp, err := through.Get("http://far.example/x"); err != nil {
		t.Error(err)
	} else {
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(b) != "asked for http://far.example/x" {
			t.Errorf("%q", b)
		}
	}
	second, err := exec.Command("bobbin", "proxy", "--socket", socket, "--token-file", token).CombinedOutput()
	if err == nil || !strings.Contains(string(second), "served already") {
		t.Errorf("a second one at the same socket: %s", second)
	}

	// Killed, it takes its programs along, and leaves a socket that the next one replaces.
	pids := children(t, cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	gone(t, "after a kill", 10*time.Second, pids...)
	cmd = start()
	if !eventually(10*time.Second, ready) {
		t.Fatal("it does not answer after a kill")
	}
	if code, text := ask("GET", "/servers", ""); code != http.StatusOK || text != "[]" {
		t.Errorf("%d %s", code, text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
