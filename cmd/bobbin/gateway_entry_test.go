package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// clientFile is what the clients read of their files, all that we know of them together.
type clientFile struct {
	MCPServers, Servers map[string]clientEntry
	Inputs              []clientInput
}

type clientInput struct {
	Type, ID string
	Password bool
}

type clientEntry struct {
	Type, Command, URL string
	Args               []string
	Env, Headers       map[string]string
}

// the reads one entry as the client does: VS Code looks under "servers" and wants a type, the others under "mcpServers".
func (f *clientFile) the(t *testing.T, client string) clientEntry {
	t.Helper()
	all, none := f.MCPServers, f.Servers
	if client == "vscode" {
		all, none = none, all
	}
	e, ok := all["bobbin-t1"]
	if !ok || len(all) != 1 || len(none) != 0 || client == "vscode" && e.Type == "" || (e.Command == "") == (e.URL == "") {
		t.Fatalf("%s cannot read %+v", client, f)
	}
	return e
}

// said fills a value as each client does from where it has the token.
func (f *clientFile) said(t *testing.T, client, value, token string) string {
	t.Helper()
	form := map[string]string{"claude-code": `\$\{([A-Z_]+)\}`, "cursor": `\$\{env:([A-Z_]+)\}`, "vscode": `\$\{input:([a-z-]+)\}`}[client]
	return regexp.MustCompile(form).ReplaceAllStringFunc(value, func(v string) string {
		name := regexp.MustCompile(form).FindStringSubmatch(v)[1]
		if client == "vscode" {
			if !slices.Contains(f.Inputs, clientInput{"promptString", name, true}) {
				t.Errorf("vscode does not ask for %q as for a password", name)
			}
		} else if name != "BOBBIN_GATEWAY_TOKEN" {
			t.Errorf("%s looks for %q", client, name)
		}
		return token
	})
}

// lists starts a client on what its entry leads to, and has it list and call a tool.
func lists(t *testing.T, tr transport.Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := client.NewClient(tr)
	defer func() { _ = c.Close() }()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	in := mcp.InitializeRequest{}
	in.Params.ProtocolVersion, in.Params.ClientInfo = "2025-11-25", mcp.Implementation{Name: "t", Version: "1"}
	if _, err := c.Initialize(ctx, in); err != nil {
		t.Fatal(err)
	}
	all, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil || !slices.ContainsFunc(all.Tools, func(t mcp.Tool) bool { return t.Name == "ext_demo_echo" }) {
		t.Fatalf("%v %+v", err, all)
	}
	call := mcp.CallToolRequest{}
	call.Params.Name, call.Params.Arguments = "ext_demo_echo", map[string]any{"message": "hello"}
	if res, err := c.CallTool(ctx, call); err != nil || res.IsError {
		t.Fatalf("%v %+v", err, res)
	}
}

// TestGateway_Entries starts what each client's entry says as that client would, with the token where it has its own place for it. The
// entries themselves hold none.
func TestGateway_Entries(t *testing.T) {
	linuxOnly(t)
	g := startServe(t, "fakemcp", "")
	token := strings.TrimSuffix(strings.TrimPrefix(g.more, "Authorization: Bearer "), "\r\n")
	for _, name := range []string{"claude-code", "vscode", "cursor", "claude-desktop"} {
		t.Run(name+" over HTTP", func(t *testing.T) {
			resp, err := http.Get("http://" + g.addr + "/api/mcp/config.json?thread=t1&client=" + name)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			raw, err := io.ReadAll(resp.Body)
			var f clientFile
			if err != nil || json.Unmarshal(raw, &f) != nil || bytes.Contains(raw, []byte(token[7:])) {
				t.Fatalf("%v %s", err, raw)
			}
			e := f.the(t, name)
			if name == "claude-desktop" {
				lists(t, desktop(t, e, token))
				return
			}
			heads := map[string]string{}
			for k, v := range e.Headers {
				heads[k] = f.said(t, name, v, token)
			}
			tr, err := transport.NewStreamableHTTP(e.URL, transport.WithHTTPHeaders(heads), transport.WithHTTPBasicClient(&http.Client{}))
			if err != nil {
				t.Fatal(err)
			}
			lists(t, tr)
		})
	}
	cmd := exec.CommandContext(t.Context(), "bobbin", "--data", g.data, "--sandbox", "process", "chat", "--thread", "t1")
	cmd.Stdin, cmd.Env, cmd.Stderr = strings.NewReader("/mcp download format:client\n"), append(os.Environ(), "DOCKER_HOST=unix:///no/engine"), os.Stderr
	said, err := cmd.Output()
	if err != nil || bytes.Contains(said, []byte("PASTE")) {
		t.Fatalf("%v %s", err, said)
	}
	for name, label := range map[string]string{"claude-code": "Claude Code, `.mcp.json`", "vscode": "VS Code, `.vscode/mcp.json`"} {
		t.Run(name+" over stdio", func(t *testing.T) {
			_, rest, ok := strings.Cut(string(said), label)
			var f clientFile
			if err := json.NewDecoder(strings.NewReader(rest[max(strings.Index(rest, "\n{"), 0):])).Decode(&f); !ok || err != nil {
				t.Fatalf("%v %s", err, said)
			}
			e := f.the(t, name)
			if name == "vscode" && e.Type != "stdio" {
				t.Errorf("%+v", e)
			}
			lists(t, transport.NewStdio(e.Command, []string{"DOCKER_HOST=unix:///no/engine"}, e.Args...))
		})
	}
}

// desktop starts an entry that has npx fetch the bridge, with the one that is installed here.
func desktop(t *testing.T, e clientEntry, token string) transport.Interface {
	t.Helper()
	folder, node := clientsFolder(t)
	raw, err := os.ReadFile(filepath.Join(folder, "node_modules", "mcp-remote", "package.json"))
	var pkg struct{ Version string }
	if err != nil || json.Unmarshal(raw, &pkg) != nil || e.Command != "npx" || len(e.Args) < 3 || e.Args[0] != "-y" || e.Args[1] != "mcp-remote@"+pkg.Version {
		t.Fatalf("%v %+v, installed is %s", err, e, pkg.Version)
	}
	env := []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	for k, v := range e.Env {
		if !strings.Contains(v, "PASTE-THE-TOKEN") {
			t.Errorf("nothing says where the token goes: %s", v)
		}
		env = append(env, fmt.Sprintf("%s=%s", k, strings.Replace(v, "PASTE-THE-TOKEN", token, 1)))
	}
	for _, a := range e.Args { // Claude Desktop on Windows splits them
		if strings.Contains(a, " ") {
			t.Errorf("an argument with a space: %q", a)
		}
	}
	return transport.NewStdio(node, env, append([]string{filepath.Join(folder, "node_modules", ".bin", "mcp-remote")}, e.Args[2:]...)...)
}

// answering is a client's user, who is shown forms.
type answering struct {
	run   bool
	asked []string
}

func (a *answering) Elicit(_ context.Context, in mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	a.asked = append(a.asked, in.Params.Message)
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"run": a.run}}}, nil
}

// TestGateway_StdioAsksItsClient has a bobbin that no chat is open at put the policy's question to its client's user.
func TestGateway_StdioAsksItsClient(t *testing.T) {
	linuxOnly(t)
	data, env := t.TempDir(), []string{"DOCKER_HOST=unix:///no/engine"}
	cmd := exec.CommandContext(t.Context(), "bobbin", "--data", data, "--sandbox", "process", "chat", "--thread", "t1")
	cmd.Stdin, cmd.Env = strings.NewReader(`/mcp add-json {"mcpServers":{"demo":{"command":"fakemcp"}}}`+"\n1\n"), append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("demo is ready")) {
		t.Fatalf("%v %s", err, out)
	}
	for run, want := range map[bool]string{true: "3", false: "refused by a person"} {
		user := &answering{run: run}
		c := client.NewClient(transport.NewStdio("bobbin", env, "--data", data, "--sandbox", "process", "gateway", "--stdio", "--thread", "t1"), client.WithElicitationHandler(user))
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		in := mcp.InitializeRequest{}
		in.Params.ProtocolVersion, in.Params.ClientInfo = "2025-11-25", mcp.Implementation{Name: "t", Version: "1"}
		if _, err := c.Initialize(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		call := mcp.CallToolRequest{}
		call.Params.Name, call.Params.Arguments = "ext_demo_add", map[string]any{"a": 1, "b": 2}
		res, err := c.CallTool(t.Context(), call)
		if err != nil || len(user.asked) != 1 || !strings.Contains(user.asked[0], "may demo.add run this once?") {
			t.Fatalf("%v, asked %q, %+v", err, user.asked, res)
		}
		if text := res.Content[0].(mcp.TextContent).Text; !strings.Contains(text, want) || res.IsError == run {
			t.Errorf("%v: %s", run, text)
		}
		_ = c.Close()
	}
}
