package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Whole is the whole of a proposal, nothing cut: each argument on a line of its own, with what is invisible made visible.
func Whole(p schemas.Proposal) []Block {
	blocks := []Block{{Text: "all of it: " + Summary(p)}}
	for _, c := range p.Changes {
		if c.After == nil || c.Kind == schemas.Unchanged {
			continue
		}
		blocks = append(blocks, Block{Text: string(c.Kind) + " " + words.Clean(c.Server)}, Block{Code: Definition(*c.After)})
	}
	var lines []string
	for _, n := range p.Notes {
		if line := strings.ReplaceAll(string(n.Kind), "_", " ") + ": " + NoteText(n); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) > 0 {
		blocks = append(blocks, Block{Text: strings.Join(lines, "\n")})
	}
	if p.Diff != "" {
		blocks = append(blocks, Block{Diff: words.Diff(p.Diff)})
	}
	return append(blocks, NoteWarnings(p)...)
}

// Definition is a whole definition, each part on a line of its own, then as JSON.
func Definition(s schemas.Server) string {
	var b strings.Builder
	line := func(label, value string) { fmt.Fprintf(&b, "%-9s %s\n", label, value) }
	if s.Remote() {
		line("url", words.Clean(words.SafeURL(s.URL)))
		line("type", string(s.Type))
	} else {
		line("command", words.Arg(s.Command))
		for i, a := range s.Args {
			line(fmt.Sprintf("arg %d", i+1), words.Arg(a))
		}
	}
	if s.Cwd != "" {
		line("cwd", words.Arg(s.Cwd))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		line("env", words.Arg(k)+"="+words.Arg(s.Env[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Headers)) {
		line("header", words.Arg(k)+": "+words.Arg(s.Headers[k]))
	}
	line("approval", s.Fingerprint())
	js, _ := json.MarshalIndent(s, "", "  ")
	b.WriteString("\n" + words.JSON(string(js)))
	return b.String()
}

// Indented is a definition as its file has it.
func Indented(s schemas.Server) string {
	js, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return ""
	}
	return string(js) + "\n"
}

// WaitingDiffs shows each definition that waits against the approved one.
func WaitingDiffs(waiting []schemas.Change) []Block {
	blocks := []Block{{Text: "what waits for approval"}}
	for _, c := range waiting {
		if c.After == nil {
			continue
		}
		before := ""
		if c.Before != nil {
			before = Indented(*c.Before)
		}
		blocks = append(blocks, Block{Text: words.Clean(c.Server)}, Block{Diff: words.Diff(NoHeader(udiff.Unified("a", "b", before, Indented(*c.After))))}, Block{Code: Definition(*c.After)})
	}
	return blocks
}

// NoHeader drops the two lines that name files.
func NoHeader(diff string) string {
	if lines := strings.SplitN(diff, "\n", 3); len(lines) == 3 && strings.HasPrefix(lines[0], "--- ") {
		return lines[2]
	}
	return diff
}
