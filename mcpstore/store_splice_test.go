package mcpstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"bobbin/mcpstore"
)

func manyText(n int) string {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`    "s%d": {"command": "npx", "args": ["-y", "server-%d", "a \"} ] {[ \\"], "env": {"K": "${input:KEY%d}"}}`, i, i, i%7))
	}
	return `{"inputs": [{"type": "promptString", "id": "KEY3", "description": "x"}],
  "mcpServers": {
` + strings.Join(members, ",\n") + "\n}}\n"
}

// Reading a part gives what reading the whole gives, for whatever was done to the text.
func TestLoad_Spliced(t *testing.T) {
	was := manyText(100)
	kinds := map[string]string{
		"same":           was,
		"one arg":        strings.Replace(was, "server-50", "other", 1),
		"new input":      strings.Replace(was, `"s50": {"command": "npx", "args": ["-y"`, `"s50": {"command": "npx", "args": ["${input:NEW}"`, 1),
		"renamed":        strings.Replace(was, `"s50"`, `"z50"`, 1),
		"removed":        strings.Replace(was, `    "s0": {"command": "npx", "args": ["-y", "server-0", "a \"} ] {[ \\"], "env": {"K": "${input:KEY0}"}},`, "", 1),
		"all inputs off": strings.ReplaceAll(was, "${input:KEY5}", "plain"),
	}
	for what, now := range kinds {
		if now == was && what != "same" {
			t.Fatal(what)
		}
		spliced, same, got, want := mcpstore.Splice(was, now, 200)
		if !spliced || !same {
			t.Errorf("%s: spliced %v\ngot  %.600s\nwant %.600s", what, spliced, got, want)
		}
	}
	whole := map[string]string{
		"twice":   strings.Replace(was, `"s50"`, `"s51"`, 1),
		"case":    strings.Replace(was, `"s50"`, `"S51"`, 1),
		"slug":    strings.NewReplacer(`"s50"`, `"a.b"`, `"s51"`, `"a-b"`).Replace(was),
		"unknown": strings.Replace(was, `"s50": {"command"`, `"s50": {"comand"`, 1),
		"comma":   strings.Replace(was, "}},\n", "}},,\n", 1),
		"secret":  strings.Replace(was, "${input:KEY3}", "ghp_CANARYcanaryCANARYcanary0123456789", 1),
		"tail":    was + "x",
		"inputs":  strings.Replace(was, `"KEY3", "desc`, `"KEY2", "desc`, 1),
		"url":     strings.Replace(was, `"s50": {"command": "npx"`, `"s50": {"url": "https://u.example"`, 1),
		"empty":   "",
	}
	for what, now := range whole {
		if spliced, _, _, _ := mcpstore.Splice(was, now, 200); spliced {
			t.Errorf("%s was read in part", what)
		}
	}
	if spliced, _, _, _ := mcpstore.Splice(was, strings.Replace(was, "server-50", "x", 1), 99); spliced {
		t.Error("over the limit")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		now := []byte(was)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(now))
			now[at] = `{}[]",:\ aK0`[random.IntN(12)]
		}
		if spliced, same, got, want := mcpstore.Splice(was, string(now), 200); spliced && !same {
			t.Fatalf("%s\ngot  %.900s\nwant %.900s", now, got, want)
		}
	}
}
