package bot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// everything is the whole of a proposal, nothing cut: each argument on a line of its own, with what is invisible made visible.
func everything(p schemas.Proposal) []Block {
	blocks := []Block{{Text: "all of it: " + summary(p)}}
	for _, c := range p.Changes {
		if c.After == nil || c.Kind == schemas.Unchanged {
			continue
		}
		blocks = append(blocks, Block{Text: string(c.Kind) + " " + words.Clean(c.Server)}, Block{Code: definition(*c.After)})
	}
	var lines []string
	for _, n := range p.Notes {
		if line := strings.ReplaceAll(string(n.Kind), "_", " ") + ": " + noteText(n); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) > 0 {
		blocks = append(blocks, Block{Text: strings.Join(lines, "\n")})
	}
	if p.Diff != "" {
		blocks = append(blocks, Block{Diff: words.Diff(p.Diff)})
	}
	return append(blocks, noteWarnings(p)...)
}

func noteWarnings(p schemas.Proposal) []Block {
	if w := trust(p); w != "" {
		return []Block{{Warning: w}}
	}
	return nil
}

func definition(s schemas.Server) string {
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
