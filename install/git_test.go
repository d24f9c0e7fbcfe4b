package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bobbin/install"
	"bobbin/schemas"
)

// repository makes a git repository that https://git.example/acme/weather.git stands for.
func repository(t *testing.T, l *local, content map[string]string) (commit func(map[string]string) string) {
	t.Helper()
	dir := filepath.Join(l.root, "upstream")
	git := func(args ...string) string {
		c := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "--quiet", "-b", "main")
	l.env = append(l.env, "GIT_ALLOW_PROTOCOL=https:file", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://git.example/acme/weather.git")
	commit = func(content map[string]string) string {
		for name, text := range content {
			full := filepath.Join(dir, name)
			_ = os.MkdirAll(filepath.Dir(full), 0o755)
			if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		git("add", "-A")
		git("commit", "--quiet", "-m", "x")
		git("tag", "--force", "-a", "-m", "x", "v1")
		return git("rev-parse", "HEAD")
	}
	return commit
}

// TestReal_GitOwnSettings: what a server of the member wrote into the home leads no address elsewhere and runs nothing.
func TestReal_GitOwnSettings(t *testing.T) {
	_, l := here(t, "git")
	commit := repository(t, &l, nil)
	sha := commit(map[string]string{"server.py": "print(1)"})
	l.env = append(l.env, "HOME="+l.root)
	ran := filepath.Join(l.root, "ran")
	hooks := filepath.Join(l.root, "hooks")
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		filepath.Join(l.root, ".gitconfig"):   "[core]\n\thooksPath = " + hooks + "\n[url \"https://evil.example/\"]\n\tinsteadOf = " + repo + "\n",
		filepath.Join(hooks, "post-checkout"): "#!/bin/sh\ntouch " + ran + "\n",
	} {
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in := install.New(l, l, install.Options{Workspace: l.root})
	p, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Git, Spec: repo, Start: []string{"python3", "server.py"}})
	if err != nil || p.Version != sha {
		t.Fatalf("%v %+v", err, p)
	}
	if log, err := in.Install(t.Context(), thread, member, p, nil); err != nil {
		t.Fatalf("%v\n%s", err, log.Text)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a hook of the home ran")
	}
}

const repo = "https://git.example/acme/weather.git"

func TestReal_GitNode(t *testing.T) {
	_, l := here(t, "git", "npm", "node")
	commit := repository(t, &l, nil)
	first := commit(map[string]string{"package.json": `{"name":"acme","version":"1.0.0","license":"MIT","bin":"./index.js","scripts":{"postinstall":"touch ran"}}`,
		"package-lock.json": `{"name":"acme","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"acme","version":"1.0.0"}}}`,
		"index.js":          "console.log('one')", ".env.example": "ACME_URL=x\n", "README.md": "x"})
	in := install.New(l, l, install.Options{Workspace: l.root})
	p, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Git, Spec: repo})
	if err != nil {
		t.Fatal(err)
	}
	if p.Version != first || p.Must || len(p.Scripts) != 1 || p.License != "MIT" || strings.Join(p.Env, "") != "ACME_URL" || p.Spec.Name != "weather" {
		t.Errorf("%+v", p)
	}
	second := commit(map[string]string{"index.js": "console.log('two')"})
	log, err := in.Install(t.Context(), thread, member, p, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.Text)
	}
	if out, err := exec.CommandContext(t.Context(), log.Server.Command, log.Server.Args...).Output(); err != nil || string(out) != "one\n" {
		t.Errorf("%q %v: what was confirmed is what is started", out, err)
	}
	if _, err := os.Stat(filepath.Join(p.Folder, "ran")); err == nil {
		t.Error("a script ran")
	}
	for _, ref := range []string{"#v1", "#main", "#" + second} {
		p, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Git, Spec: repo + ref})
		if err != nil || p.Version != second {
			t.Errorf("%s: %v %s", ref, err, p.Version)
		}
	}
	if _, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Git, Spec: repo + "#nope"}); schemas.CodeOf(err) != schemas.CodeNotFound {
		t.Error(err)
	}
	if up, err := in.Upgrade(t.Context(), thread, member, log.Server, ""); err != nil || up.Same || up.Plan.Version != second {
		t.Errorf("%v %+v", err, up)
	}
}

// A program that must be built first is not installed unless its scripts were allowed.
func TestReal_GitBuild(t *testing.T) {
	_, l := here(t, "git", "npm", "node")
	commit := repository(t, &l, nil)
	commit(map[string]string{"package.json": `{"name":"acme","version":"1.0.0","main":"dist/index.js","scripts":{"build":"node build.js"}}`,
		"build.js": `const f=require("fs");f.mkdirSync("dist",{recursive:true});f.writeFileSync("dist/index.js","console.log('built')")`})
	in := install.New(l, l, install.Options{Workspace: l.root})
	spec := schemas.Package{Kind: schemas.Git, Spec: repo}
	p, err := in.Resolve(t.Context(), thread, member, spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Install(t.Context(), thread, member, p, nil); !p.Must || schemas.CodeOf(err) != schemas.CodeAsk {
		t.Errorf("%v %+v", err, p)
	}
	spec.Scripts = true
	if p, err = in.Resolve(t.Context(), thread, member, spec); err != nil {
		t.Fatal(err)
	}
	log, err := in.Install(t.Context(), thread, member, p, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.Text)
	}
	if out, err := exec.CommandContext(t.Context(), log.Server.Command, log.Server.Args...).Output(); err != nil || string(out) != "built\n" {
		t.Errorf("%q %v", out, err)
	}
}

func TestReal_GitOther(t *testing.T) {
	_, l := here(t, "git", "python3")
	commit := repository(t, &l, nil)
	commit(map[string]string{"README.md": "x"})
	in := install.New(l, l, install.Options{Workspace: l.root})
	if _, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Git, Spec: repo}); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
	commit(map[string]string{"pyproject.toml": "[project]\nname='acme-weather'\nversion='1'\nlicense={text='MIT'}\n[project.scripts]\nacme='acme:main'\n[build-system]\nbuild-backend='hatchling.build'\n"})
	p, err := in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Git, Spec: repo})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Must || p.Scripts[0] != "build: hatchling.build" || p.Server.Command != p.Folder+"/.venv/bin/acme" {
		t.Errorf("%+v", p)
	}
	commit(map[string]string{"package.json": `{"name":"acme","bin":"i.js"}`, "i.js": "", ".npmrc": "git=./evil"})
	if p, err = in.Resolve(t.Context(), thread, member, schemas.Package{Kind: schemas.Git, Spec: repo}); !p.Must {
		t.Errorf("%v %+v", err, p)
	}
	if left, _ := filepath.Glob(l.root + "/external-mcp/*"); len(left) != 0 {
		t.Error(left)
	}
}
