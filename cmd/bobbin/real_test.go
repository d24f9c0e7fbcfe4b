package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRealServers talks to npm's own servers, as a newcomer would: paste, Confirm, tools, a call, remove.
func TestRealServers(t *testing.T) {
	long(t)
	linuxOnly(t)
	for _, s := range []struct {
		name   string
		args   []string // after the script; FOLDER stands for a folder with a file "a.txt" in it
		tool   string
		args1  string
		answer string
		more   []string // lines and answers, in turn
	}{
		{
			"everything", nil, "echo", `{"message":"hi"}`, `Echo: hi`,
			[]string{
				"/mcp prompt", `everything\.args-prompt`,
				"/mcp show everything", `@everything:demo://resource/static/document/architecture\.md`,
				"/mcp call @everything:demo://resource/static/document/architecture.md", `Architecture`,
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
	} {
		t.Run(s.name, func(t *testing.T) {
			script, err := filepath.Abs(filepath.Join("..", "..", "testdata", "npm", "node_modules", "@modelcontextprotocol", "server-"+s.name, "dist", "index.js"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(script); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal("the npm servers are missing; scripts/tools installs them")
				}
				t.Skip("the npm servers are not installed; scripts/tools installs them")
			}
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
