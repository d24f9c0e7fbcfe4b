package gateway_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bobbin/gateway"
)

func TestInstall_HoldsNoToken(t *testing.T) {
	h := start(t, func(o *gateway.Options) { o.Program = []string{"/usr/bin/bobbin", "--data", "/srv/data"} })
	secret := h.token(ann)
	for _, client := range []string{"", "claude-desktop", "claude-code", "vscode", "cursor"} {
		code, head, body := send(t, "GET", h.url+"/api/mcp/config.json?thread=t1&client="+client, "", "")
		if code != 200 || head.Get("Content-Type") != "application/json" || !strings.Contains(body, h.url+"/gateway/t1/mcp") || strings.Contains(body, secret[:16]) {
			t.Errorf("%s: %d %s", client, code, body)
		}
	}
	if script := h.installer(""); strings.Contains(script, secret[:16]) {
		t.Errorf("%s", script)
	}
}

// installer gives the script for the thread t1.
func (h *house) installer(query string) string {
	h.t.Helper()
	code, head, script := send(h.t, "GET", h.url+"/api/mcp/install.sh?thread=t1"+query, "", "")
	if code != 200 || !strings.HasPrefix(script, "#!/bin/sh\n") || !strings.HasPrefix(head.Get("Content-Type"), "text/x-shellscript") {
		h.t.Fatalf("%d %s", code, script)
	}
	return script
}

// shells are those that are here.
func shells(t *testing.T) (all []string) {
	for _, name := range []string{"sh", "dash", "bash"} {
		if path, err := exec.LookPath(name); err == nil {
			all = append(all, path)
		}
	}
	if len(all) == 0 {
		t.Skip("no shell")
	}
	return all
}

// only gives a folder with those programs, for a PATH on which there is nothing else.
func only(t *testing.T, programs ...string) string {
	dir := t.TempDir()
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip("no " + name)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInstall(t *testing.T) {
	files := map[string]string{"claude-desktop": ".config/Claude/claude_desktop_config.json", "claude-code": ".claude.json", "vscode": ".config/Code/User/mcp.json", "cursor": ".cursor/mcp.json"}
	for _, language := range []string{"python3", "node"} {
		t.Run(language, func(t *testing.T) {
			h := start(t, nil)
			script, sh := h.installer(""), shells(t)[0]
			home, path := filepath.Join(t.TempDir(), "an odd $HOME `id` 'x\""), os.Getenv("PATH")
			if language == "node" { // python3 comes first where it is
				path = only(t, language, "uname", "mkdir", "dirname", "cat")
			} else if _, err := exec.LookPath(language); err != nil {
				t.Skip("no " + language)
			}
			run := func(client string) (string, error) {
				cmd := exec.Command(sh, "-s", client)
				cmd.Stdin, cmd.Env = strings.NewReader(script), []string{"HOME=" + home, "PATH=" + path}
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			for client, file := range files {
				full := filepath.Join(home, filepath.FromSlash(file))
				if out, err := run(client); err != nil {
					t.Fatalf("%s: %v %s", client, err, out)
				}
				got, err := os.ReadFile(full)
				if info, errInfo := os.Stat(full); err != nil || errInfo != nil || info.Mode().Perm() != 0o600 || strings.Count(string(got), h.url+"/gateway/t1/mcp") != 1 {
					t.Errorf("%s: %v %v %s", client, err, info, got)
				}
				before := `{"mcpServers":{"other":{"command":"x"},"bobbin-t1":{"env":{"BOBBIN_AUTH":"Bearer mine"}}},"servers":{"other":{"command":"x"}},"inputs":[{"id":"other"}],"theme":"dark"}`
				put(t, full, before)
				if out, err := run(client); err != nil {
					t.Fatalf("%s: %v %s", client, err, out)
				}
				once, _ := os.ReadFile(full)
				if out, err := run(client); err != nil {
					t.Fatalf("%s: %v %s", client, err, out)
				}
				got, _ = os.ReadFile(full)
				if string(got) != string(once) || !json.Valid(got) {
					t.Errorf("%s: again is not the same:\n%s\n%s", client, once, got)
				}
				for _, want := range []string{h.url + "/gateway/t1/mcp", `"bobbin-t1"`, `"dark"`, `"other"`} {
					if !strings.Contains(string(got), want) {
						t.Errorf("%s: no %s in %s", client, want, got)
					}
				}
				if client == "claude-desktop" && !strings.Contains(string(got), "Bearer mine") {
					t.Errorf("the token that was put in is gone: %s", got)
				}
			}
			for _, broken := range []string{`{"mcpServers":{}, // mine` + "\n}", `[]`, `null`, `{"mcpServers":[]}`, `{"mcpServers":null}`} {
				full := filepath.Join(home, files["cursor"])
				put(t, full, broken)
				out, err := run("cursor")
				if got, _ := os.ReadFile(full); err == nil || string(got) != broken || !strings.Contains(out, "put this into it yourself") || strings.Contains(out, "Traceback") || strings.Contains(out, "node:") {
					t.Errorf("%s: %v %s; left %s", broken, err, out, got)
				}
			}
		})
	}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestInstall_Quoting: nothing of an address is taken for words of the shell, no shell finds a mistake, and a script that came in part does nothing.
func TestInstall_Quoting(t *testing.T) {
	odd := "https://bot.example.com/$(touch pwned)`touch pwned`'\"; touch pwned #"
	h := start(t, func(o *gateway.Options) { o.Origin = func() string { return odd } })
	client := "&client=claude-code"
	var script string
	for _, query := range []string{"", client} {
		req := strings.TrimPrefix(h.url, "http://")
		code, _, body := send(t, "GET", h.url+"/api/mcp/install.sh?thread=t1"+query, "", "", "Host", req)
		if code != 200 {
			t.Fatalf("%d %s", code, body)
		}
		script = body
	}
	for _, sh := range shells(t) {
		check := exec.Command(sh, "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v %s", sh, err, out)
		}
		home := t.TempDir()
		run := func(text string, args ...string) error {
			cmd := exec.Command(sh, append([]string{"-s"}, args...)...)
			cmd.Dir, cmd.Stdin, cmd.Env = home, strings.NewReader(text), []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
			_, err := cmd.CombinedOutput()
			return err
		}
		for _, part := range []int{len(script) / 4, len(script) / 2, len(script) * 9 / 10, len(script) - 6} {
			_ = run(script[:part])
		}
		if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
			t.Errorf("%s: a part of the script left %v", sh, left)
		}
		if err := run(script, "emacs"); err == nil {
			t.Errorf("%s: a client that is none", sh)
		}
		if err := run(script); err != nil {
			t.Errorf("%s: %v", sh, err)
		}
		var got struct {
			Servers map[string]struct{ URL string } `json:"mcpServers"`
		}
		raw, err := os.ReadFile(filepath.Join(home, ".claude.json"))
		if err != nil || json.Unmarshal(raw, &got) != nil || got.Servers["bobbin-t1"].URL != odd+"/gateway/t1/mcp" {
			t.Errorf("%s: %v %s", sh, err, raw)
		}
		if left, _ := os.ReadDir(home); len(left) != 1 {
			t.Errorf("%s: it left %v", sh, left)
		}
	}
}
