package config_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

var update = flag.Bool("update", false, "rewrite the .want files")

// render writes everything of an import that is shown, and names of found secrets alone.
func render(im schemas.Import) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("format %s", im.Format)
	for _, d := range im.Servers {
		s := d.Server
		line("\nserver %s", s.Name)
		field := func(name string, v any, show bool) {
			if show {
				line("  %-8s %v", name, v)
			}
		}
		field("title", d.Title, d.Title != "")
		field("off", "", d.Disabled)
		field("type", s.Type, s.Type != "")
		field("command", s.Command, s.Command != "")
		for _, a := range s.Args {
			field("arg", fmt.Sprintf("%q", a), true)
		}
		for _, m := range []struct {
			name string
			m    map[string]string
		}{{"env", s.Env}, {"header", s.Headers}} {
			keys := make([]string, 0, len(m.m))
			for k := range m.m {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			for _, k := range keys {
				field(m.name, fmt.Sprintf("%s=%q", k, m.m[k]), true)
			}
		}
		field("cwd", s.Cwd, s.Cwd != "")
		field("url", s.URL, s.URL != "")
		if s.Auth != nil {
			field("auth", fmt.Sprintf("%+v", *s.Auth), true)
		}
		field("timeout", s.Timeout, s.Timeout != 0)
		if s.Tools != nil {
			field("tools", fmt.Sprintf("include %q exclude %q", s.Tools.Include, s.Tools.Exclude), true)
		}
		for _, f := range d.Found {
			field("found", fmt.Sprintf("%s in %s", f.Input, f.Where), true)
		}
		field("needs", strings.Join(d.Needs, " "), len(d.Needs) > 0)
	}
	for _, p := range im.Packages {
		line("\npackage %s %s", p.Package.Kind, p.Package.Spec)
		line("  for      %s", p.Package.Name)
		if p.Integrity != "" {
			line("  file     %s", p.Integrity)
		}
		for _, a := range p.Package.Args {
			line("  arg      %q", a)
		}
		for _, k := range slices.Sorted(maps.Keys(p.Env)) {
			line("  env      %s=%q", k, p.Env[k])
		}
		for _, in := range p.Inputs {
			line("  input    %s %s password=%v default=%q options=%q optional=%v %s", in.ID, in.Type, in.Password, in.Default, in.Options, slices.Contains(p.Optional, in.ID), in.Description)
		}
	}
	if len(im.Inputs) > 0 {
		line("")
	}
	for _, in := range im.Inputs {
		line("input %s %s password=%v default=%q options=%q %s", in.ID, in.Type, in.Password, in.Default, in.Options, in.Description)
	}
	if len(im.Notes) > 0 {
		line("")
	}
	for _, n := range im.Notes {
		line("note %s %d:%d %s: %s", n.Kind, n.Line, n.Col, n.Server, n.Text)
	}
	for _, p := range im.Problems {
		line("\nproblem %s\n  at %s\n  %s", p, p.Pointer, p.Excerpt)
	}
	if im.Repaired != "" {
		line("\nrepaired\n%s", im.Repaired)
	}
	return b.String()
}

func corpus(t *testing.T) []string {
	t.Helper()
	var files []string
	all, err := filepath.Glob("testdata/import/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !strings.HasSuffix(f, ".want") {
			files = append(files, f)
		}
	}
	return files
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// shownName gives the name of a corpus file without its number: 07-mcp.json is mcp.json.
func shownName(file string) string {
	base := filepath.Base(file)
	_, name, _ := strings.Cut(base, "--")
	return name
}

func TestImport_Corpus(t *testing.T) {
	for _, file := range corpus(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got := render(config.Import(shownName(file), read(t, file), ""))
			if *update {
				if err := os.WriteFile(file+".want", []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(read(t, file+".want")), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// canaries are the literal secrets of the corpus. None may stand in anything that is shown.
func canaries() []string {
	return []string{
		"Fake0Not1Real2", "fake0not1real2", "0123456789abcdef0123456789abcdef", "000-111-fakefake", "fake00not11", "plainword", "fakefakefake", "plain-but-secret",
		"correct horse", "hunterword", "Zm9vYmFy", "notarealclientsecret", "notsosecret",
	}
}

func TestImport_NoSecretShown(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range corpus(t) {
		data := read(t, file)
		im := config.Import(shownName(file), data, "")
		text := render(im) + fmt.Sprintf("%+v", im)
		for _, c := range canaries() {
			if strings.Contains(string(data), c) {
				seen[c] = true
			}
			if strings.Contains(text, c) && !strings.Contains(text, "COMMIT_SHA") {
				t.Errorf("%s shows %q", file, c)
			}
		}
	}
	for _, c := range canaries() {
		if !seen[c] {
			t.Errorf("no file holds %q", c)
		}
	}
}

// TestImport_NoSecretInBrokenText cuts and damages files that hold a secret: whatever is said about them must not show it.
func TestImport_NoSecretInBrokenText(t *testing.T) {
	canary := "ghp_" + "Canary0Canary1Canary2"
	word := "plainCanaryWord"
	text := `{"mcpServers": {"a": {"command": "npx", "args": ["--token", "` + canary + `", "--password", "` + word + `"],
 "env": {"API_KEY": "` + canary + `", "PASSWORD": "` + word + `"}, "url": 3}}}`
	for _, name := range []string{"mcp.json", "config.toml", "config.yaml"} {
		for i := range len(text) {
			for _, broken := range []string{text[:i], text[:i] + text[min(i+1, len(text)):], text[:i] + "\n" + text[i:], text[:i] + `"` + text[i:]} {
				im := config.Import(name, []byte(broken), "x")
				// A plain word is a secret by the name beside it alone.
				named := strings.Contains(broken, `"--password",`) && strings.Contains(broken, `"PASSWORD":`)
				shown := fmt.Sprintf("%+v", im.Problems) + fmt.Sprintf("%+v", im.Notes)
				if len(im.Problems) > 0 && (strings.Contains(shown, "Canary0Canary1Canary2") || named && strings.Contains(shown, word)) {
					t.Fatalf("%s\nshows a secret: %s", broken, shown)
				}
			}
		}
	}
}

func TestImport_SampleWordsAndFlagsInOtherPlaces(t *testing.T) {
	im := config.Import("", []byte(`{"command":"npx","args":["-y","acme"]}`), "given")
	if len(im.Servers) != 1 || im.Servers[0].Server.Name != "given" {
		t.Errorf("the hint names a single object: %+v", im)
	}
	im = config.Import("", []byte(`{"name":"own","command":"npx"}`), "given")
	if len(im.Servers) != 1 || im.Servers[0].Server.Name != "given" {
		t.Errorf("the hint wins over the name inside: %+v", im)
	}
}

func TestImport_Huge(t *testing.T) {
	im := config.Import("mcp.json", []byte(`{"mcpServers":{}}`+strings.Repeat(" ", 256<<10)), "")
	if len(im.Problems) != 1 || !strings.Contains(im.Problems[0].Text, "256 KiB") {
		t.Errorf("%v", im.Problems)
	}
}

// TestImport_Idempotent: what an import became, written out and imported again, is the same.
func TestImport_Idempotent(t *testing.T) {
	for _, file := range corpus(t) {
		first := config.Import(shownName(file), read(t, file), "")
		if len(first.Problems) > 0 || len(first.Servers) == 0 {
			continue
		}
		text := config.Encode(first)
		second := config.Import("mcp.json", text, "")
		if len(second.Problems) > 0 || len(second.Servers) != len(first.Servers) {
			t.Errorf("%s: %v\n%s", file, second.Problems, text)
			continue
		}
		for i, d := range second.Servers {
			if !d.Server.Equal(first.Servers[i].Server) {
				t.Errorf("%s: %s", file, cmp.Diff(first.Servers[i].Server, d.Server))
			}
			if len(d.Found) > 0 {
				t.Errorf("%s: %s has secrets left: %v", file, d.Server.Name, d.Found[0].Where)
			}
		}
	}
}

func FuzzImport(f *testing.F) {
	all, _ := filepath.Glob("testdata/import/*")
	for _, file := range all {
		if !strings.HasSuffix(file, ".want") {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"mcp.json", "config.toml", "c.yaml"} {
			im := config.Import(name, data, "x")
			if len(im.Problems)+len(im.Servers)+len(im.Packages) == 0 {
				t.Fatal("nothing read and nothing said")
			}
			for _, p := range im.Packages {
				s := schemas.Server{Args: p.Package.Args, Env: p.Env}
				for _, id := range s.Inputs() {
					if !schemas.ValidInput(id) || !slices.ContainsFunc(p.Inputs, func(in schemas.Input) bool { return in.ID == id }) {
						t.Fatalf("input %q of %+v", id, p)
					}
				}
				if !schemas.ValidName(p.Package.Name) {
					t.Fatalf("name %q", p.Package.Name)
				}
			}
			for _, d := range im.Servers {
				if !schemas.ValidName(d.Server.Name) {
					t.Fatalf("name %q", d.Server.Name)
				}
				for _, id := range d.Server.Inputs() {
					if !schemas.ValidInput(id) {
						t.Fatalf("input %q", id)
					}
				}
			}
		}
	})
}
