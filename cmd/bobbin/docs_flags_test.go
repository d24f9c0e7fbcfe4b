package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestDocs_Flags: every flag, variable and command of bobbin that the documents name is there.
func TestDocs_Flags(t *testing.T) {
	root := NewMain(nil, nil, nil).command()
	root.InitDefaultHelpFlag()
	var flags []string
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		note := func(f *pflag.Flag) { flags = append(flags, f.Name) }
		c.Flags().VisitAll(note)
		c.PersistentFlags().VisitAll(note)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	foreign := []string{"iptables", "uid", "exclude", "system", "home-dir", "shell", "now"} // of Docker, id, tar, adduser, systemctl
	glob := func(pattern string) []string {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		return files
	}
	flag, variable := regexp.MustCompile("(?:^|[\\s`(\\[])--([a-z][a-z-]*[a-z])"), regexp.MustCompile(`\bBOBBIN_([A-Z][A-Z_]*[A-Z])\b`)
	span, block := regexp.MustCompile("`(?:bin/)?bobbin ((?:[a-z][a-z-]* ?)+)"), regexp.MustCompile("(?m)^ *(?:bin/)?bobbin ((?:[a-z][a-z-]* ?)+)")
	for _, file := range append(glob("../../docs/*.md"), "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range flag.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(flags, m[1]) && !slices.Contains(foreign, m[1]) {
				t.Errorf("%s: there is no flag --%s", filepath.Base(file), m[1])
			}
		}
		for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
			name := strings.ToLower(strings.ReplaceAll(m[1], "_", "-"))
			code := slices.Concat(glob("*.go"), glob("../../agent/model/*.go"))
			known := slices.Contains(flags, name) || m[1] == "GATEWAY_TOKEN" /* of a client */ || slices.ContainsFunc(code, func(f string) bool {
				src, err := os.ReadFile(f)
				return err == nil && !strings.HasSuffix(f, "_test.go") && strings.Contains(string(src), `"BOBBIN_`+m[1]+`"`)
			})
			if !known {
				t.Errorf("%s: nothing reads BOBBIN_%s", filepath.Base(file), m[1])
			}
		}
		commands := span.FindAllStringSubmatch(string(text), -1)
		for i, code := range strings.Split(string(text), "```") {
			if i%2 == 1 {
				commands = append(commands, block.FindAllStringSubmatch(code, -1)...)
			}
		}
		for _, m := range commands {
			words := strings.Fields(m[1])
			if c, _, err := root.Find(words); err != nil || c == root {
				t.Errorf("%s: there is no command bobbin %s (%v)", filepath.Base(file), m[1], err)
			}
		}
	}
}
