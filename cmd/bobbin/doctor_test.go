//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// examine runs bobbin doctor with nothing but env in its environment, and gives its exit code and what it said.
func examine(t *testing.T, data string, env []string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bobbin", append([]string{"doctor", "--data", data}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0", "DOCKER_HOST=unix:///no/engine"}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

const doctorSecret = "ghp_1234567890abcdefghij1234567890abcdef"

// lived is a data folder in which a thread has a server with a secret, and a call was made.
func lived(t *testing.T) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	p := chat(t, data)
	demo := fake(filepath.Join(t.TempDir(), "pids"))
	demo["env"] = map[string]string{"GITHUB_TOKEN": doctorSecret}
	p.say("/mcp add-json " + config(t, map[string]any{"demo": demo}))
	p.hear(`1\) Confirm`)
	p.say("1")
	p.hear("demo is ready")
	shows(t, "a call", p.do(`/mcp call demo.echo {"message":"hi"}`), "Echo: hi")
	p.end()
	return data
}

func TestDoctor_Well(t *testing.T) {
	linuxOnly(t)
	data := lived(t)
	code, out := examine(t, data, nil, "--sandbox", "off", "--listen", "127.0.0.1:0")
	if code != 0 {
		t.Fatal(out)
	}
	shows(t, "a sound folder", out, `ok data .*/data, owned by`, "ok space", "ok vault opens", "ok files 1 thread with 1 server can be read", `ok audit \d+ records, every chain is whole`, "ok page", "1 warning$")
	code, out = examine(t, data, nil, "--sandbox", "off", "--listen", "127.0.0.1:0", "--json")
	var said struct {
		OK     bool
		Checks []struct{ Check, State, Text, Hint string }
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != 0 || !said.OK || len(said.Checks) < 6 {
		t.Errorf("%d %s %v", code, out, err)
	}
	for _, c := range said.Checks {
		if !slices.Contains([]string{"ok", "warning", "problem"}, c.State) || c.Text == "" || c.State != "ok" && c.Hint == "" {
			t.Errorf("%+v", c)
		}
	}
	code, out = examine(t, filepath.Join(t.TempDir(), "none"), nil, "--sandbox", "off", "--listen", "127.0.0.1:0")
	if _, err := os.Stat(filepath.Join(data, "none")); code != 0 || err == nil || !strings.Contains(out, "is not there yet") {
		t.Errorf("%d %s", code, out)
	}
}

// Each thing that can be wrong is named with its place and a next step, and no secret is repeated.
func TestDoctor_Problems(t *testing.T) {
	linuxOnly(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const badToken = "this-is-no-token-at-all"
	for name, c := range map[string]struct {
		spoil func(data string)
		env   []string
		args  []string
		says  []string
	}{
		"a file with a mistake": {spoil: func(d string) {
			must(os.WriteFile(filepath.Join(d, "users/t1/mcp.json"), []byte("{\"mcpServers\":{\n\"a\":{\"comand\":\"x\"}}}"), 0o600))
		}, says: []string{`problem files t1: mcp.json:2:\d+: .*unknown key "comand"`, "correct it in an editor"}},
		"a broken chain": {spoil: func(d string) {
			log := filepath.Join(d, "users/t1/audit.jsonl")
			text, err := os.ReadFile(log)
			must(err)
			must(os.WriteFile(log, []byte(strings.Replace(string(text), `"member":"operator"`, `"member":"somebody"`, 1)), 0o600))
		}, says: []string{`problem audit t1: the chain breaks at line \d+`, "compare it with a backup"}},
		"a lost key":           {spoil: func(d string) { must(os.Remove(filepath.Join(d, "vault/key"))) }, says: []string{"problem vault the vault is locked: its key is gone", "puts the key back"}},
		"a wrong key":          {spoil: func(d string) { must(os.WriteFile(filepath.Join(d, "vault/key"), make([]byte, 32), 0o600)) }, says: []string{"problem vault the vault is locked: its key is not the one"}},
		"a key for all to see": {spoil: func(d string) { must(os.Chmod(filepath.Join(d, "vault/key"), 0o644)) }, says: []string{"problem vault the key was open to others", "chmod 600"}},
		"an open folder":       {spoil: func(d string) { must(os.Chmod(d, 0o755)) }, says: []string{"warning data others on this machine may enter", "chmod 700"}},
		"a clock": {spoil: func(d string) {
			must(os.Chtimes(filepath.Join(d, "users/t1/mcp.json"), time.Now(), time.Now().Add(time.Hour)))
		}, says: []string{"warning clock files were written in the future"}},
		"mcps.yaml": {spoil: func(d string) {
			must(os.WriteFile(filepath.Join(d, "mcps.yaml"), []byte("mcps:\n  - name: x\n    type: remote\n"), 0o600))
		}, says: []string{"problem mcps.yaml x: "}},
		"no engine":         {args: []string{"--sandbox", "docker"}, says: []string{"problem sandbox no container engine answers at unix:///no/engine", "start Docker"}},
		"a CA that is none": {env: []string{"DOCKER_HOST=" + os.Getenv("BOBBIN_TEST_ENGINE")}, args: []string{"--sandbox", "docker", "--sandbox-image", "no-such-image"}, says: []string{"sandbox (no container engine|the container engine has no image no-such-image)"}},
		"a Discord token":   {env: []string{"DISCORD_TOKEN=" + badToken}, says: []string{"problem discord what DISCORD_TOKEN holds is no bot token", "developer portal"}},
		"a public address":  {args: []string{"--public-url", "http://bot.example.com"}, says: []string{"problem public-url --public-url must be https", "TLS"}},
		"a public path":     {args: []string{"--public-url", "https://bot.example.com/x"}, says: []string{"problem public-url --public-url is not of the right form"}},
		"a model nowhere":   {args: []string{"--model", "m", "--model-url", "http://127.0.0.1:1/v1"}, says: []string{"problem model 127.0.0.1:1/m at http://127.0.0.1:1 cannot be reached: nothing listens there"}},
		"a model unknown":   {args: []string{"--model", "antropic/x"}, says: []string{`problem model there is no provider "antropic"`, `did you mean "anthropic"`}},
		"a listen address":  {args: []string{"--listen", "0.0.0.0:80"}, says: []string{"problem page --listen .*loopback only"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			must(os.Chmod(data, 0o700))
			if c.spoil != nil {
				data = lived(t)
				c.spoil(data)
			}
			args := append([]string{"--sandbox", "off", "--listen", "127.0.0.1:0"}, c.args...)
			code, out := examine(t, data, c.env, args...)
			shows(t, name, out, c.says...)
			if (code == 1) != strings.Contains(out, "\nproblem") {
				t.Errorf("exit code %d", code)
			}
			for _, s := range []string{doctorSecret, badToken} {
				if strings.Contains(out, s) {
					t.Errorf("a secret is repeated: %s", out)
				}
			}
		})
	}
}

// A page of another program, a bobbin's own page, and Discord's answers.
func TestDoctor_Network(t *testing.T) {
	linuxOnly(t)
	data := t.TempDir()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	code, out := examine(t, data, nil, "--sandbox", "off", "--listen", strings.TrimPrefix(other.URL, "http://"))
	if code != 1 || !strings.Contains(out, "another program has") {
		t.Errorf("%d %s", code, out)
	}
	p := serve(t, data)
	code, out = examine(t, data, nil, "--sandbox", "off", "--listen", strings.TrimPrefix(p.base, "http://"))
	if code != 0 || !strings.Contains(out, "bobbin serve runs at") {
		t.Errorf("%d %s", code, out)
	}
	const token = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabCDe.abcdefghijklmnopqrstuvwxyz0123456789AB"
	var late atomic.Bool
	var asked atomic.Int32
	discord := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if late.Load() {
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		}
		if r.Header.Get("Authorization") != "" {
			asked.Add(1)
		}
		switch {
		case r.URL.Path != "/api/v10/users/@me":
			w.WriteHeader(http.StatusNotFound)
		case r.Header.Get("Authorization") != "Bot "+token:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(`{"id":"1","username":"bobbin"}`))
		}
	}))
	defer discord.Close()
	look := func(token string, args ...string) (int, string) {
		return examine(t, data, []string{"DISCORD_TOKEN=" + token}, append([]string{"--sandbox", "off", "--listen", "127.0.0.1:0", "--discord-api-base", discord.URL}, args...)...)
	}
	if code, out = look(token); code != 0 || !strings.Contains(out, "has the right form") || asked.Load() != 0 {
		t.Errorf("%d, the token was sent %d times: %s", code, asked.Load(), out)
	}
	if code, out = look(token, "--online"); code != 0 || !strings.Contains(out, `the token is "bobbin"'s`) {
		t.Errorf("%d %s", code, out)
	}
	late.Store(true)
	if code, out = look(token, "--online"); code != 0 || !strings.Contains(out, "clock is 1h0m0s ahead") {
		t.Errorf("%d %s", code, out)
	}
	if code, out = look(strings.Replace(token, "MTI", "MTM", 1), "--online"); code != 1 || !strings.Contains(out, "does not know this token") {
		t.Errorf("%d %s", code, out)
	}
}

// With a real engine: what it has is said, and a runtime that it lacks is a problem.
func TestDoctor_Engine(t *testing.T) {
	linuxOnly(t)
	engine := os.Getenv("BOBBIN_TEST_ENGINE")
	if engine == "" {
		t.Skip("no engine to test with: set BOBBIN_TEST_ENGINE")
	}
	data := t.TempDir()
	look := func(args ...string) (int, string) {
		return examine(t, data, []string{"DOCKER_HOST=" + engine}, append([]string{"--sandbox", "docker", "--sandbox-image", boxImage, "--listen", "127.0.0.1:0"}, args...)...)
	}
	_, out := look()
	shows(t, "the engine", out, `ok sandbox engine [\d.]+\S* at `+engine)
	code, out := look("--sandbox-runtime", "runsc")
	if code != 1 || !strings.Contains(out, `has no runtime "runsc"`) || !strings.Contains(out, "install gVisor") {
		t.Errorf("%d %s", code, out)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out = look("--sandbox-ca", ca); code != 1 || !strings.Contains(out, "there is no certificate in the file") {
		t.Errorf("%d %s", code, out)
	}
	entries, err := os.ReadDir(data)
	if err != nil || len(entries) > 0 {
		t.Errorf("it left %v", entries)
	}
}

// TestRestore is docs/operations.md, "Back up and restore": a copy of the folder, opened elsewhere, has everything.
func TestRestore(t *testing.T) {
	linuxOnly(t)
	data := lived(t)
	copied := filepath.Join(t.TempDir(), "elsewhere", "data")
	if err := os.Mkdir(filepath.Dir(copied), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", data, copied).CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(copied, "cache")); err != nil { // may be left out of a backup
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "bobbin", "--data", copied, "audit", "verify").CombinedOutput(); err != nil || !strings.Contains(string(out), "the chain is whole") {
		t.Fatalf("%s %v", out, err)
	}
	if code, out := examine(t, copied, nil, "--sandbox", "off", "--listen", "127.0.0.1:0"); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	p := chat(t, copied)
	shows(t, "the server", p.do("/mcp list"), "demo")
	shows(t, "a call with its secret", p.do(`/mcp call demo.echo {"message":"again"}`), "Echo: again")
	shows(t, "the log goes on", p.do("/mcp audit 20"), "demo.echo")
	p.end()
	if out, err := exec.CommandContext(t.Context(), "bobbin", "--data", copied, "audit", "verify").CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
}
