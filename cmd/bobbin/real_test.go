package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// realCase is what one of npm's servers is asked.
type realCase struct {
	name   string
	args   []string // after the script; FOLDER stands for a folder with a file "a.txt" in it
	tool   string
	args1  string
	answer string
	more   []string // lines and answers, in turn
}

func realCases() []realCase {
	return []realCase{
		{
			"everything", nil, "echo", `{"message":"hi"}`, `Echo: hi`,
			[]string{
				"/mcp prompt", `everything\.args-prompt`,
				"/mcp show everything", `@everything:demo://resource/static/document/architecture\.md`,
				"/mcp call @everything:demo://resource/static/document/architecture.md", `Architecture`,
				`/mcp call everything.trigger-url-elicitation {"url":"https://example.com/sign-in","message":"Sign in"}`, `wants you to open a page.*https://example\.com/sign-in`,
				"Continue", `User completed the URL elicitation flow`,
				`/mcp call everything.trigger-url-elicitation {"url":"https://example.com/then","message":"Sign in","errorPath":true}`, `wants you to open a page.*https://modelcontextprotocol\.io`,
				"Continue", `https://example\.com/then`, // the call is made again, and asks on its own account
				"Decline", `User declined to open the URL`,
			},
		},
		{
			"filesystem", []string{"FOLDER"}, "read_text_file", `{"path":"FOLDER/a.txt"}`, `plain and simple`,
			[]string{"/mcp call filesystem.write_file {\"path\":\"FOLDER/b.txt\",\"content\":\"x\"}", `denied.*policy allow`},
		},
		{"memory", nil, "read_graph", `{}`, `"entities": ?\[\]`, []string{
			"/mcp tools memory", `memory\.create_entities.*asks`,
			`/mcp call memory.create_entities {"entities":[{"name":"a","entityType":"t","observations":["kept"]}]}`, `as you`,
			"/mcp call memory.read_graph {}", `kept`,
		}},
		{
			"sequential-thinking", nil, "sequentialthinking",
			`{"thought":"x","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`, `"totalThoughts": ?1`, nil,
		},
	}
}

// TestRealServers talks to npm's own servers, as a newcomer would: paste, Confirm, tools, a call, remove.
func TestRealServers(t *testing.T) {
	long(t)
	linuxOnly(t)
	for _, s := range realCases() {
		t.Run(s.name, func(t *testing.T) {
			script := realServer(t, s.name)
			data, folder := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "a.txt"), []byte("plain and simple"), 0o600); err != nil {
				t.Fatal(err)
			}
			here := strings.NewReplacer("FOLDER", folder)
			args := []string{script}
			for _, a := range s.args {
				args = append(args, here.Replace(a))
			}
			one, err := json.Marshal(map[string]any{"command": "node", "args": args, "env": map[string]string{"MEMORY_FILE_PATH": filepath.Join(folder, "memory.json")}})
			if err != nil {
				t.Fatal(err)
			}
			c := chat(t, data)
			c.say("/mcp add-json " + s.name + " " + string(one))
			c.hear(`1 added: ` + s.name + `.*NOT isolated.*Confirm`)
			c.say("Confirm")
			c.hear(s.name + ` is ready in .* tool`)
			c.say("/mcp tools")
			c.hear(s.name + `\.` + s.tool)
			c.say("/mcp call " + s.name + "." + s.tool + " " + here.Replace(s.args1))
			c.hear(s.answer + `.*as you`)
			for i := 0; i < len(s.more); i += 2 {
				c.say(here.Replace(s.more[i]))
				c.hear(s.more[i+1])
			}
			var file struct {
				Servers map[string]struct {
					Command string   `json:"command"`
					Args    []string `json:"args"`
				} `json:"mcpServers"`
			}
			readJSON(t, filepath.Join(data, "users", "t1", "mcp.json"), &file)
			if got := file.Servers[s.name]; got.Command != "node" || len(got.Args) != len(args) || got.Args[0] != script {
				t.Errorf("mcp.json holds %+v", got)
			}
			before := children(t, c.cmd.Process.Pid)
			if len(before) != 1 {
				t.Errorf("%d children, want the one server", len(before))
			}
			c.say("/mcp remove "+s.name, "Confirm")
			c.hear(s.name + ` is removed`)
			gone(t, "after remove", 5*time.Second, before...)
			if took := c.end(); took > time.Second {
				t.Errorf("the end took %s", took)
			}
		})
	}
}

// TestRealConnectors reaches npm's server over both HTTP transports, through /mcp connect alone.
func TestRealConnectors(t *testing.T) {
	long(t)
	linuxOnly(t)
	script := realServer(t, "everything")
	for kind, path := range map[string]string{"streamableHttp": "/mcp", "sse": "/sse"} {
		t.Run(kind, func(t *testing.T) {
			port := freePort(t)
			node := exec.Command("node", script, kind)
			node.Env = append(os.Environ(), "PORT="+port)
			if err := node.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = node.Process.Kill(); _ = node.Wait() })
			address := "http://127.0.0.1:" + port
			if !eventually(patience, func() bool {
				c, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err == nil {
					_ = c.Close()
				}
				return err == nil
			}) {
				t.Fatal("the server does not listen")
			}
			data := t.TempDir()
			c := chat(t, data)
			c.say("/mcp connect " + address + path + " far")
			c.hear(`Nothing has been sent to it yet`)
			c.say("Connect")
			c.hear(`sends to +` + address + path + `.*Confirm only if you trust`)
			if exists(filepath.Join(data, "users", "t1", "mcp_remote.json")) {
				t.Error("written before Confirm")
			}
			c.say("Confirm")
			c.hear(`far is ready in .* 15 tools`)
			c.say(`/mcp call far.echo {"message":"over the wire"}`, "/mcp list")
			c.hear(`Echo: over the wire.*connectors.*far +ready`)
			c.say(`/mcp call far.trigger-url-elicitation {"url":"https://example.com/sign-in","message":"Sign in"}`)
			c.hear(`far wants you to open a page.*https://example\.com/sign-in`)
			c.say("Continue")
			c.hear(`User completed the URL elicitation flow`)
			c.say("/mcp remove far", "Confirm")
			c.hear(`far is removed`)
			if exists(filepath.Join(data, "users", "t1", "mcp.json")) {
				t.Error("a connector stands in mcp.json")
			}
			c.end()
		})
	}
}

// realServer gives the script of one of npm's servers.
func realServer(t testing.TB, name string) string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("..", "..", "testdata", "npm", "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	if !exists(script) {
		if os.Getenv("CI") != "" {
			t.Fatal("the npm servers are missing; scripts/tools installs them")
		}
		t.Skip("the npm servers are not installed; scripts/tools installs them")
	}
	return script
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func readJSON(t testing.TB, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, clip(string(data)))
	}
}
