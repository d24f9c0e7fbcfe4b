package mcpstore_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/mcpstore"
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
			got := render(mcpstore.Import(shownName(file), read(t, file), ""))
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
