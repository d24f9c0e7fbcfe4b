package main

import (
	"encoding/base64"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bobbin/mcpstore"
)

// planted finds the made-up credentials in the configs of mcpstore's corpus: all of them say that they are fake.
var planted = regexp.MustCompile(`(?i)[A-Za-z0-9_.-]*fake[A-Za-z0-9_.-]*`)

// TestNoSecretAnywhere uploads every config shape that is known and confirms it. What is planted in them is then nowhere: not in
// what was said, in no file, and in the vault not in clear.
func TestNoSecretAnywhere(t *testing.T) {
	long(t)
	all, err := filepath.Glob(filepath.Join("..", "..", "mcpstore", "internal", "config", "testdata", "import", "*--*"))
	if err != nil || len(all) == 0 {
		t.Fatal("the corpus is gone", err)
	}
	program, err := exec.LookPath("bobbin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(program)) // npx, uvx and docker are not found: nothing is fetched
	secrets, confirmed := 0, 0
	for _, file := range all {
		_, name, _ := strings.Cut(filepath.Base(file), "--")
		if strings.HasSuffix(name, ".want") {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			values := map[string]bool{}
			for _, v := range planted.FindAllString(string(content), -1) {
				if len(v) >= 10 {
					values[v] = true
				}
			}
			for _, d := range mcpstore.Import(name, content, "").Servers {
				for _, f := range d.Found {
					values[f.Value.Reveal()] = true
				}
			}
			secrets += len(values)
			folder, data := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
			c := bobbin(t, data, "chat", "--thread", "t1", "--user", "alice")
			c.say("/mcp upload "+filepath.Join(folder, name), "Show everything", "Confirm", "/mcp list", "/mcp download", "/mcp download vscode", "/mcp secrets", "/mcp audit", "/mcp history")
			c.end()
			out := c.all()
			if _, err := os.Stat(filepath.Join(data, "users", "t1", "mcp.json")); err == nil {
				confirmed++
			}
			if strings.Contains(out, "something went wrong on my side") {
				t.Error("an internal error:\n", clip(out))
			}
			hidden(t, values, "what was said", out)
			err = filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				b, err := os.ReadFile(path)
				hidden(t, values, strings.TrimPrefix(path, data), string(b))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Logf("%d planted values, %d configs confirmed", secrets, confirmed)
	if secrets < 30 || confirmed < 40 {
		t.Error("the test looks at too little")
	}
}

func hidden(t *testing.T, values map[string]bool, where, text string) {
	t.Helper()
	for v := range values {
		if len(v) < 6 {
			continue
		}
		for _, form := range []string{v, base64.StdEncoding.EncodeToString([]byte(v))} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s holds %q: …%s…", where, v, text[max(0, i-60):min(len(text), i+len(form)+20)])
			}
		}
	}
}
