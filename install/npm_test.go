package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bobbin/install"
	"bobbin/schemas"
)

const (
	hash = "sha512-5U3OZh8Xq0Li4nA26l6uNvV9/1suMDuWSn+NjLZIhzinhMY6N3A4DCrxVecBGPf2PsNFKTEv5krxGPRwzxc7jQ=="
	view = "npm view --json -- @acme/mcp-weather@latest name version license deprecated bin scripts dist.integrity dist.tarball"
	base = "/workspace/external-mcp"
)

func viewOf(fields map[string]any) string {
	all := map[string]any{"name": "@acme/mcp-weather", "version": "1.2.3", "license": "MIT", "bin": map[string]string{"mcp-weather": "./dist/index.js"}, "dist.integrity": hash, "dist.tarball": "https://me:secret@registry.example/acme/-/x.tgz"}
	for k, v := range fields {
		all[k] = v
	}
	b, _ := json.Marshal(all)
	return string(b)
}

func resolving(fields map[string]any) []said {
	return []said{
		{args: "mkdir -p " + base},
		{args: "ls -1A " + base, out: "other\n"},
		{args: view, out: viewOf(fields)},
		{args: "node -p process.execPath", out: "/usr/local/bin/node\n"},
		{args: "npm view --json -- @acme/mcp-weather@1.2.3 time[1.2.3]", out: `"2026-09-02T05:06:16+00:00"`},
		{args: "npm view -- @acme/mcp-weather@1.2.3 readme", out: `# x {"mcpServers":{"w":{"command":"npx","env":{"WEATHER_KEY":"…","B_URL": "x"}}}}`},
	}
}

func at(day int) func() time.Time {
	return func() time.Time { return time.Date(2026, 9, day, 12, 0, 0, 0, time.UTC) }
}

func resolved(t *testing.T, fields map[string]any) (*replay, *install.Installer, schemas.PackagePlan) {
	t.Helper()
	r := &replay{t: t, steps: resolving(fields)}
	in := install.New(r, r, install.Options{Now: at(3)})
	p, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.NPM, Spec: "@acme/mcp-weather", Args: []string{"stdio"}})
	if err != nil {
		t.Fatal(err)
	}
	r.done()
	return r, in, p
}

func lock(integrity string) string {
	b, _ := json.Marshal(map[string]any{"version": "1.2.3", "integrity": integrity, "count": 12, "scripts": []string{"esbuild"}, "found": true})
	return string(b)
}

func TestResolve_NPM(t *testing.T) {
	_, in, p := resolved(t, map[string]any{"deprecated": "use\u202e other", "scripts": map[string]string{"postinstall": "node x.js", "test": "y"}})
	want := schemas.Server{Name: "weather", Type: schemas.Stdio, Command: "/usr/local/bin/node", Cwd: base + "/weather",
		Args: []string{base + "/weather/node_modules/@acme/mcp-weather/dist/index.js", "stdio"}}
	if d := cmp.Diff(want, p.Server); d != "" {
		t.Error(d)
	}
	cmds := [][]string{{"mkdir", base + "/weather"},
		{"npm", "install", "--prefix", base + "/weather", "--ignore-scripts", "--save-exact", "--no-audit", "--no-fund", "--", "@acme/mcp-weather@1.2.3"}}
	if d := cmp.Diff(cmds, p.Commands); d != "" {
		t.Error(d)
	}
	if p.Integrity != hash || p.License != "MIT" || p.Deprecated != "use other" || p.Published.Day() != 2 {
		t.Errorf("%+v", p)
	}
	if d := cmp.Diff([]string{"B_URL", "WEATHER_KEY"}, p.Env); d != "" {
		t.Error(d)
	}
	for _, w := range []string{`"latest" was asked for; version 1.2.3 is what Confirm installs and keeps`, "deprecated by its authors", "only 30 h old", "postinstall: node x.js", "npm takes it from registry.example"} {
		if !strings.Contains(text(p.Notes), w) {
			t.Errorf("no note %q in\n%s", w, text(p.Notes))
		}
	}
	if f, ok := in.Folder(p.Server); !ok || f != p.Folder {
		t.Error(f, ok)
	}
}

func TestInstall_NPM(t *testing.T) {
	r, in, p := resolved(t, nil)
	r.steps = []said{
		{args: strings.Join(p.Commands[0], " ")},
		{args: strings.Join(p.Commands[1], " "), out: "added 12 packages\n"},
		{args: "/usr/local/bin/node -e * -- " + base + "/weather @acme/mcp-weather " + p.Server.Args[0], out: lock(hash)},
	}
	var lines []string
	log, err := in.Install(t.Context(), thread, member, p, func(l string) { lines = append(lines, l) })
	if err != nil {
		t.Fatal(err)
	}
	r.done()
	if d := cmp.Diff(p.Server, log.Server); d != "" {
		t.Error(d)
	}
	if len(lines) != 2 || lines[1] != "added 12 packages" || !strings.Contains(log.Text, "$ npm install") {
		t.Errorf("%q %q", lines, log.Text)
	}
	if !strings.Contains(text(log.Notes), "esbuild") || !strings.Contains(text(log.Notes), "12 packages") {
		t.Error(text(log.Notes))
	}
	if rec := r.put[base+"/weather/.bobbin-install.json"]; !strings.Contains(rec, hash) {
		t.Errorf("record %q", rec)
	}
}

// What came is not what was confirmed, npm failed, the lock is garbage: the folder goes, nothing can be started.
func TestInstall_NPM_Fails(t *testing.T) {
	for name, steps := range map[string][]said{
		"other integrity": {{args: "npm install"}, {args: "node", out: lock("sha512-other")}},
		"no lock":         {{args: "npm install"}, {args: "node", code: 1, err: "ENOENT"}},
		"garbage":         {{args: "npm install"}, {args: "node", out: "x"}},
		"exit 7":          {{args: "npm install", code: 7, out: "some\n", err: "npm error \x1b[31mE_BAD\x1b[0m\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, in, p := resolved(t, nil)
			steps[0].args = strings.Join(p.Commands[1], " ")
			if len(steps) > 1 {
				steps[1].args = "/usr/local/bin/node -e * -- " + base + "/weather @acme/mcp-weather " + p.Server.Args[0]
			}
			r.steps = append([]said{{args: "mkdir " + base + "/weather"}}, steps...)
			r.steps = append(r.steps, said{args: "rm -rf " + base + "/weather"})
			log, err := in.Install(t.Context(), thread, member, p, nil)
			if schemas.CodeOf(err) != schemas.CodeFailed || log.Server.Name != "" || len(r.put) != 0 {
				t.Errorf("%v %+v", err, log)
			}
			if name == "exit 7" && (!strings.Contains(err.Error(), "exit code 7: npm error E_BAD") || !strings.Contains(log.Text, "E_BAD")) {
				t.Errorf("%v %q", err, log.Text)
			}
			r.done()
		})
	}
}

func TestInstall_FolderTaken(t *testing.T) {
	r, in, p := resolved(t, nil)
	r.steps = []said{{args: "mkdir " + base + "/weather", code: 1, err: "File exists"}} // and no rm of somebody's folder
	if _, err := in.Install(t.Context(), thread, member, p, nil); schemas.CodeOf(err) != schemas.CodeConflict {
		t.Error(err)
	}
	r.done()
	p.Server.Cwd, p.Folder = "/etc", "/etc"
	if _, err := in.Install(t.Context(), thread, member, p, nil); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
}

func TestInstall_Cancelled(t *testing.T) {
	r, in, p := resolved(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r.steps = []said{{args: "mkdir " + base + "/weather"}, {args: strings.Join(p.Commands[1], " "), code: -1}, {args: "rm -rf " + base + "/weather"}}
	_, err := in.Install(ctx, thread, member, p, func(string) { cancel() })
	if err == nil {
		t.Error("no error")
	}
	r.done()
}

func TestResolve_NPM_Refuses(t *testing.T) {
	for name, c := range map[string]struct {
		answer said
		want   schemas.Code
	}{
		"unknown":       {said{code: 1, out: `{"error":{"code":"E404","summary":"…"}}`}, schemas.CodeNotFound},
		"range":         {said{out: `["1.0.0","1.0.1"]`}, schemas.CodeInvalid},
		"no npm":        {said{code: 127}, schemas.CodeMissing},
		"offline":       {said{code: 1, err: "npm error network"}, schemas.CodeFailed},
		"no integrity":  {said{out: viewOf(map[string]any{"dist.integrity": ""})}, schemas.CodeFailed},
		"weak":          {said{out: viewOf(map[string]any{"dist.integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="})}, schemas.CodeFailed},
		"another":       {said{out: viewOf(map[string]any{"name": "@acme/other"})}, schemas.CodeFailed},
		"bad version":   {said{out: viewOf(map[string]any{"version": "1 --x"})}, schemas.CodeFailed},
		"library":       {said{out: viewOf(map[string]any{"bin": nil})}, schemas.CodeInvalid},
		"bin leads out": {said{out: viewOf(map[string]any{"bin": "../../../bin/sh"})}, schemas.CodeInvalid},
		"garbage":       {said{out: "<html>"}, schemas.CodeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			c.answer.args = view
			r := &replay{t: t, steps: append(resolving(nil)[:2], c.answer)}
			in := install.New(r, r, install.Options{})
			_, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.NPM, Spec: "@acme/mcp-weather"})
			if schemas.CodeOf(err) != c.want {
				t.Error(err)
			}
			if strings.Contains(err.Error(), "registry.") {
				t.Errorf("names a host: %v", err)
			}
			r.done()
		})
	}
}

func TestUpgrade(t *testing.T) {
	old := schemas.Server{Name: "weather", Type: schemas.Stdio, Command: "/usr/local/bin/node", Cwd: base + "/weather", Env: map[string]string{"B_URL": "x"},
		Args: []string{base + "/weather/node_modules/@acme/mcp-weather/dist/index.js", "--metric"}}
	rec := `{"kind":"npm","spec":"@acme/mcp-weather@1.0.0","package":"@acme/mcp-weather","version":"1.0.0","integrity":"sha512-old","scripts":true}`
	steps := resolving(nil)
	steps[1].out = "weather\nweather-2\n"
	r := &replay{t: t, steps: append([]said{{args: "cat " + base + "/weather/.bobbin-install.json", out: rec}}, steps...)}
	in := install.New(r, r, install.Options{Now: at(30)})
	up, err := in.Upgrade(t.Context(), thread, member, old, "")
	if err != nil {
		t.Fatal(err)
	}
	r.done()
	if up.Same || up.From.Version != "1.0.0" || up.Plan.Version != "1.2.3" || up.Plan.Folder != base+"/weather-3" || up.Plan.Spec.Scripts {
		t.Errorf("%+v", up)
	}
	if d := cmp.Diff([]string{"WEATHER_KEY"}, up.NewEnv); d != "" {
		t.Error(d)
	}
	if !hasArg(up.Plan.Server.Args, "--metric") || up.Plan.Server.Fingerprint() == old.Fingerprint() {
		t.Errorf("%+v", up.Plan.Server)
	}
	for _, forged := range []string{`{"kind":"npm","spec":"--registry=evil"}`, `{"kind":"git","spec":"file:///etc"}`, `{}`, `x`} {
		r.steps = []said{{args: "cat " + base + "/weather/.bobbin-install.json", out: forged}}
		if _, err := in.Upgrade(t.Context(), thread, member, old, ""); schemas.CodeOf(err) != schemas.CodeNotFound {
			t.Errorf("%s: %v", forged, err)
		}
		r.done()
	}
}

func TestUninstall(t *testing.T) {
	r := &replay{t: t, steps: []said{{args: "rm -rf " + base + "/weather"}}}
	in := install.New(r, r, install.Options{})
	if err := in.Uninstall(t.Context(), thread, member, schemas.Server{Command: "node", Args: []string{base + "/weather/x.js"}}); err != nil {
		t.Error(err)
	}
	r.done()
	for _, p := range []string{"", "/", base, base + "/", base + "/..", base + "/../x", base + "/.hidden", base + "/-rf", base + "x/y", "/workspace/own/x.js", base + "/a b/x"} {
		if err := in.Uninstall(t.Context(), thread, member, schemas.Server{Name: "x", Cwd: p, Command: p}); schemas.CodeOf(err) != schemas.CodeNotFound {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// A real package by real npm, in a temporary folder.
func TestReal_NPM(t *testing.T) {
	in, l := here(t, "npm", "node")
	const pkg = "@modelcontextprotocol/server-everything"
	if err := exec.CommandContext(t.Context(), "npm", "view", pkg, "version").Run(); err != nil {
		t.Skip("npm reaches no registry here")
	}
	p, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.NPM, Spec: pkg, Args: []string{"stdio"}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := in.Install(t.Context(), thread, member, p, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.Text)
	}
	c := exec.CommandContext(t.Context(), log.Server.Command, log.Server.Args...)
	c.Dir = log.Server.Cwd
	c.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n")
	out, err := c.Output()
	if err != nil || !strings.Contains(string(out), `"serverInfo"`) {
		t.Errorf("%v %s", err, out)
	}
	again, err := in.Upgrade(t.Context(), thread, member, log.Server, "")
	if err != nil || !again.Same || again.Plan.Folder == p.Folder {
		t.Errorf("%v %+v", err, again)
	}
	if err := in.Uninstall(t.Context(), thread, member, log.Server); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(l.root + "/external-mcp/*"); len(left) != 0 {
		t.Error(left)
	}
	p.Integrity = "sha512-another"
	broken := install.New(tamper{l}, l, install.Options{Workspace: l.root})
	if _, err := broken.Install(t.Context(), thread, member, p, nil); schemas.CodeOf(err) != schemas.CodeFailed {
		t.Error(err)
	}
	if _, err := os.Stat(p.Folder); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder is left")
	}
}

// tamper changes the lock before it is read, as a registry would that gives out another tarball.
type tamper struct{ local }

func (l tamper) Exec(ctx context.Context, e schemas.Exec) (schemas.Executed, error) {
	done, err := l.local.Exec(ctx, e)
	if hasArg(e.Args, "-e") {
		done.Stdout = strings.ReplaceAll(done.Stdout, "sha512-", "sha512-x")
	}
	return done, err
}
