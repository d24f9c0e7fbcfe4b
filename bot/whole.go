package bot

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"bobbin/schemas"
)

// everything is the whole of a proposal, nothing cut: each argument on a line of its own, with what is invisible made visible.
func everything(p schemas.Proposal) []Block {
	blocks := []Block{{Text: "all of it: " + summary(p)}}
	for _, c := range p.Changes {
		if c.After == nil || c.Kind == schemas.Unchanged {
			continue
		}
		blocks = append(blocks, Block{Text: string(c.Kind) + " " + clean(c.Server)}, Block{Code: definition(*c.After)})
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
		blocks = append(blocks, Block{Diff: diffText(p.Diff)})
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
		line("url", clean(safeURL(s.URL)))
		line("type", string(s.Type))
	} else {
		line("command", shown(s.Command))
		for i, a := range s.Args {
			line(fmt.Sprintf("arg %d", i+1), shown(a))
		}
	}
	if s.Cwd != "" {
		line("cwd", shown(s.Cwd))
	}
	for _, k := range sorted(s.Env) {
		line("env", shown(k)+"="+shown(s.Env[k]))
	}
	for _, k := range sorted(s.Headers) {
		line("header", shown(k)+": "+shown(s.Headers[k]))
	}
	line("approval", s.Fingerprint())
	js, _ := json.MarshalIndent(s, "", "  ")
	b.WriteString("\n" + cleanDiff(string(js)))
	return b.String()
}

// cleanDiff keeps the lines and makes all else visible; in JSON an escaped backtick is the same text.
func cleanDiff(s string) string { return strings.ReplaceAll(cleanLines(s), "`", `\u0060`) }

// safeURL leaves out user info and the values of a query, which may be secrets.
func safeURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(an address that cannot be read)"
	}
	u.User, u.Fragment = nil, ""
	q := u.Query()
	for k, vs := range q {
		for i := range vs {
			if !schemas.InputRef.MatchString(vs[i]) {
				q[k][i] = "…"
			}
		}
	}
	if len(q) > 0 {
		u.RawQuery, _ = url.QueryUnescape(q.Encode())
	}
	return u.String()
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(no host)"
	}
	return u.Scheme + "://" + u.Host
}
