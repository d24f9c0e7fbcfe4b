package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientsFolder is where the real clients are installed, and their Node.
func clientsFolder(t *testing.T) (folder, node string) {
	t.Helper()
	long(t)
	folder, err := filepath.Abs(filepath.Join("..", "..", "testdata", "clients"))
	if err != nil {
		t.Fatal(err)
	}
	if node = suiteNode(t); !exists(node) || !exists(filepath.Join(folder, "node_modules", "mcp-remote")) {
		missing(t, "the real clients are not installed; scripts/tools installs them")
	}
	return folder, node
}

// served is a bobbin with the suite's server behind a listener that wants a token.
func served(t *testing.T) (at, token string) {
	h, origin, token := lender(t, "suitemcp")
	srv := httptest.NewServer(h.Gateway.Handler())
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	origin.Store(srv.URL)
	return srv.URL + "/gateway/t1", token
}

// TestGateway_SDK is the client of the TypeScript SDK, which most clients are made of.
func TestGateway_SDK(t *testing.T) {
	folder, node := clientsFolder(t)
	for kind, path := range map[string]string{"http": "/mcp", "sse": "/sse"} {
		t.Run(kind, func(t *testing.T) {
			at, token := served(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, "sdk.mjs", at+path, token, kind)
			cmd.Dir, cmd.Stderr = folder, os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got struct {
				Tools, Logs, Progress, Questions                                int
				Simple, Answered, Logged, Progressed, Resource, Prompt, Aborted string
				Completed                                                       []string
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got.Tools != 15 || !strings.HasPrefix(got.Simple, "This is a simple text") || got.Logs != 3 || got.Progress != 3 || !strings.Contains(got.Resource, `"id":"7"`) ||
				!strings.Contains(got.Prompt, "arg1='a'") || len(got.Completed) != 1 || got.Aborted == "" {
				t.Errorf("%s", out)
			}
			if got.Questions != 1 || !strings.Contains(got.Answered, "e@example.com") {
				t.Errorf("it was not asked: %s", out)
			}
		})
	}
}

// TestGateway_Inspector is the MCP Inspector on the command line.
func TestGateway_Inspector(t *testing.T) {
	folder, node := clientsFolder(t)
	at, token := served(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{`"ext_suite_test_simple_text"`, []string{"--method", "tools/list"}},
		{`"This is a simple text response for testing."`, []string{"--method", "tools/call", "--tool-name", "ext_suite_test_simple_text"}},
		{`"test://static-text"`, []string{"--method", "resources/list"}},
		{"This is the content of the static text resource.", []string{"--method", "resources/read", "--uri", "test://static-text"}},
		{`"test_simple_prompt"`, []string{"--method", "prompts/list"}},
		{"This is a simple prompt for testing.", []string{"--method", "prompts/get", "--prompt-name", "test_simple_prompt"}},
	} {
		t.Run(strings.ReplaceAll(c.args[1], "/", "-"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			args := append([]string{filepath.Join(folder, "node_modules", ".bin", "mcp-inspector"), "--cli", at + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + token}, c.args...)
			cmd := exec.CommandContext(ctx, node, args...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			cmd.WaitDelay = 5 * time.Second
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte(c.want)) {
				t.Errorf("%v\n%s", err, clip(string(out)))
			}
		})
	}
}

// TestGateway_McpRemote is the bridge by which clients that know only stdio come, started as the entry for Claude Desktop says.
func TestGateway_McpRemote(t *testing.T) {
	folder, node := clientsFolder(t)
	at, token := served(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, filepath.Join(folder, "node_modules", ".bin", "mcp-remote"), at+"/mcp", "--header", "Authorization:${BOBBIN_AUTH}")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "BOBBIN_AUTH=Bearer "+token)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := &printed{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, os.Stderr, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); cancel(); _ = cmd.Wait() })
	for _, step := range [][2]string{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"desktop","version":"1"}}}`, `"serverInfo"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `"ext_suite_test_simple_text"`},
		{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ext_suite_test_simple_text","arguments":{}}}`, "This is a simple text response"},
	} {
		if _, err := in.Write([]byte(step[0] + "\n")); err != nil {
			t.Fatal(err)
		}
		if !eventually(30*time.Second, func() bool { return strings.Contains(out.String(), step[1]) }) {
			t.Fatalf("no %s in\n%s", step[1], clip(out.String()))
		}
	}
}

// printed is what a program prints, while it runs.
type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *printed) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *printed) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}
