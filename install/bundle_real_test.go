package install_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"bobbin/install"
	"bobbin/schemas"
)

// TestReal_Bundle installs a bundle with the real tar and node of this machine, starts it, and removes it.
func TestReal_Bundle(t *testing.T) {
	in, l := here(t, "tar", "node", "uname")
	script := "console.log(JSON.stringify([require('./lib'), process.argv.slice(2), process.env.MODE]))\n"
	data := archiveOf(t, part{name: "manifest.json", text: plainManifest(func(m map[string]any) {
		c := m["server"].(map[string]any)["mcp_config"].(map[string]any)
		c["args"] = []any{"${__dirname}/server/index.js", "--at", "${__dirname}${/}data"}
		c["env"] = map[string]any{"MODE": "fast"}
	})}, part{name: "server/index.js", text: script}, part{name: "server/lib.js", text: "module.exports = 'lib'\n"}, part{name: "run.sh", text: "#!/bin/sh\n", mode: 0o755})
	p, err := in.Bundle(t.Context(), thread, member, "", data)
	if err != nil {
		t.Fatal(err)
	}
	log, err := in.Install(t.Context(), thread, member, p, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.Text)
	}
	s := log.Server
	done, err := l.Exec(t.Context(), schemas.Exec{Args: append([]string{s.Command}, s.Args...), Dir: s.Cwd, Timeout: 1 << 35, Env: map[string]schemas.Secret{"MODE": schemas.NewSecret(s.Env["MODE"])}})
	if want := `["lib",["--at","` + p.Folder + `/data"],"fast"]`; err != nil || strings.TrimSpace(done.Stdout) != want {
		t.Errorf("%v, %+v, want %s", err, done, want)
	}
	if info, err := os.Stat(filepath.Join(p.Folder, "run.sh")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Join(l.root, "external-mcp/.bundles")); err != nil || len(left) > 0 {
		t.Errorf("%v left, %v", left, err)
	}
	r, err := in.Installed(t.Context(), thread, member, s)
	if err != nil || r.Kind != schemas.Bundle || r.Integrity != p.Integrity || r.Package != "acme" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := in.Upgrade(t.Context(), thread, member, s, ""); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Errorf("upgrade: %v", err)
	}
	if _, err := in.Install(t.Context(), thread, member, p, nil); schemas.CodeOf(err) != schemas.CodeConflict {
		t.Errorf("twice: %v", err)
	}
	if err := in.Uninstall(t.Context(), thread, member, s); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.Folder); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzBundle holds that no bytes make the reader fail otherwise than in words, and that nothing but plain files within the
// limits is put into a sandbox.
func FuzzBundle(f *testing.F) {
	f.Add(archiveOf(f, plainParts()...))
	f.Add(archiveOf(f, plainParts(part{name: "../x", text: "x"})...))
	f.Add(archiveOf(f, plainParts(part{name: "a/", mode: fs.ModeDir | 0o755}, part{name: "l", text: "/etc", mode: fs.ModeSymlink | 0o777})...))
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMachine(t, "Linux x86_64")
		p, err := install.New(m, m, install.Options{}).Bundle(t.Context(), thread, member, "", data)
		if err != nil {
			if schemas.CodeOf(err) == schemas.CodeInternal {
				t.Fatal(err)
			}
			return
		}
		held(t, p)
		for _, packed := range m.put {
			for name, text := range unpacked(t, packed) {
				if name = name[5:]; strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") || len(text) > 256<<20 {
					t.Fatalf("unpacks %q", name)
				}
			}
		}
	})
}

// FuzzManifest does the same for manifests alone.
func FuzzManifest(f *testing.F) {
	files, err := filepath.Glob("testdata/bundle/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range a.Files {
			if p.Name == "manifest.json" {
				f.Add(string(p.Data))
			}
		}
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		data := archiveOf(t, part{name: "manifest.json", text: manifest}, part{name: "server/index.js", text: "x"}, part{name: "pyproject.toml", text: "x"})
		m := newMachine(t, "Linux x86_64")
		p, err := install.New(m, m, install.Options{}).Bundle(t.Context(), thread, member, "", data)
		if err != nil {
			if schemas.CodeOf(err) == schemas.CodeInternal {
				t.Fatal(err)
			}
			return
		}
		held(t, p)
	})
}

// held checks what must be true of every plan.
func held(t *testing.T, p schemas.PackagePlan) {
	t.Helper()
	if !schemas.ValidName(p.Server.Name) || p.Server.Cwd != p.Folder || !strings.HasPrefix(p.Folder, "/workspace/external-mcp/") || p.Server.Command == "" || len(p.Inputs) > 25 {
		t.Fatalf("%+v", p)
	}
	if strings.Contains(p.Server.Command, "${input:") {
		t.Fatalf("the command is filled in: %q", p.Server.Command)
	}
	var declared []string
	for _, in := range p.Inputs {
		if !schemas.ValidInput(in.ID) || in.Password && in.Default != "" || slices.Contains(declared, in.ID) {
			t.Fatalf("input %+v", in)
		}
		declared = append(declared, in.ID)
	}
	for _, id := range p.Server.Inputs() {
		if !slices.Contains(declared, id) {
			t.Fatalf("%q is filled in and was not declared", id)
		}
	}
}
