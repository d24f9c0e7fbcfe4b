package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestAnotherProgramEditsTheFile renames new versions of mcp.json into place while the page is open.
func TestAnotherProgramEditsTheFile(t *testing.T) {
	long(t)
	t.Parallel()
	linuxOnly(t)
	data, pids := t.TempDir(), filepath.Join(t.TempDir(), "pids")
	p := serve(t, data)
	r := p.open(t, "t1")
	r.say("/mcp add-json " + config(t, map[string]any{"keep": fake(pids), "drop": fake(pids)}))
	if got := r.choose("Confirm"); !matches(`keep is ready`, got) || !matches(`drop is ready`, got) {
		t.Fatal(got)
	}
	before := r.board()
	file := filepath.Join(data, "users", "t1", "mcp.json")

	rename(t, file, config(t, map[string]any{"keep": fake(pids), "new": fake(pids, "slow", "1")}))
	r.notice(`edited outside of chat.*removed.*drop.*added.*new|edited outside of chat.*added.*new.*removed.*drop`)
	gone(t, "a removed server", 5*time.Second, before["drop"].PID)
	if got := r.say("/mcp call new.echo {\"message\":\"too early\"}"); matches(`Echo`, got) {
		t.Errorf("a server that nobody approved answered: %s", got)
	}
	if n := len(started(t, pids)); n != 2 {
		t.Errorf("%d processes were started before the approval, want 2", n)
	}
	if got := r.choose("Approve"); !matches(`new is ready`, got) {
		t.Errorf("approving: %s", got)
	}
	if got := r.say(`/mcp call new.echo {"message":"hi"}`); !matches(`Echo: hi`, got) {
		t.Errorf("after approval: %s", got)
	}
	if got := r.say(`/mcp call keep.pid {}`); !matches(`\b`+strconv.Itoa(before["keep"].PID)+`\b`, got) {
		t.Errorf("the unchanged server has another process: %s, was %d", got, before["keep"].PID)
	}
	if _, ok := r.board()["drop"]; ok {
		t.Error("the removed server is still listed")
	}

	if err := os.WriteFile(file, []byte(`{"mcpServers": {"keep": {"comm`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.notice(`mcp\.json.*(mistake|cannot be read|unreadable|not valid|unexpected|ends)`)
	if got := r.say(`/mcp call keep.pid {}`); !matches(`\b`+strconv.Itoa(before["keep"].PID)+`\b`, got) {
		t.Errorf("with half a file: %s", got)
	}
	p.signal(os.Interrupt)
	p.wait()
	gone(t, "after Ctrl-C", time.Second, started(t, pids)...)
}

// TestSecretByHand: a token that somebody types into the file moves to the vault when the change is approved; until then it is
// shown nowhere.
func TestSecretByHand(t *testing.T) {
	const token = "ghp_1234567890abcdefghij1234567890abcdef"
	data := t.TempDir()
	c := chat(t, data)
	c.say(`/mcp add-json demo {"command":"fakemcp"}`, "Confirm")
	c.hear(`demo is ready`)
	file := filepath.Join(data, "users", "t1", "mcp.json")
	rename(t, file, config(t, map[string]any{"demo": map[string]any{"command": "fakemcp", "env": map[string]string{"GITHUB_TOKEN": token}}}))
	c.hear(`edited outside of chat.*changed +demo.*env.*Approve`)
	c.say("Show the change")
	c.hear(`\+.*\$\{input:GITHUB_TOKEN\}.*Approve`)
	c.say("Approve")
	c.hear(`demo is ready`)
	if got := c.do("/mcp show demo"); !matches(`\$\{input:GITHUB_TOKEN\}`, got) {
		t.Error(got)
	}
	if got := c.do("/mcp call demo.env {}"); !matches(`GITHUB_TOKEN=\*\*\*`, got) { // own secrets are taken out of answers
		t.Errorf("the server does not get it: %s", got)
	}
	c.end()
	if matches(token, c.all()) {
		t.Error("the token was shown")
	}
	err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		hidden(t, map[string]bool{token: true}, path, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
