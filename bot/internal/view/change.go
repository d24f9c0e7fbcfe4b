package view

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Runs reports whether a change of that kind lets something run that did not before.
func Runs(k schemas.ChangeKind) bool {
	return k == schemas.Added || k == schemas.Changed || k == schemas.Enabled || k == schemas.Approved
}

// Found is the literal secrets of servers that the proposal keeps; a value for a server that is not added is not sealed.
func Found(p schemas.Proposal) []schemas.Found {
	return slices.DeleteFunc(slices.Clone(p.Found), func(f schemas.Found) bool {
		return !slices.ContainsFunc(p.Changes, func(c schemas.Change) bool {
			// A definition that stays says nothing about who may replace its owner's value.
			mine := c.Kind != schemas.Unchanged || c.Owner == p.By.Member
			return c.Server == f.Server && c.After != nil && mine
		})
	})
}

// FoundOf is Found of one server.
func FoundOf(p schemas.Proposal, c schemas.Change) []schemas.Found {
	return slices.DeleteFunc(Found(p), func(f schemas.Found) bool { return f.Server != c.Server })
}

// Summary counts a proposal's changes: "1 added: github · 1 removed: old".
func Summary(p schemas.Proposal) string {
	var parts []string
	for _, k := range []schemas.ChangeKind{schemas.Added, schemas.Changed, schemas.Removed, schemas.Enabled, schemas.Disabled,
		schemas.Approved, schemas.Unchanged} {
		var ns []string
		for _, c := range p.Changes {
			if c.Kind == k {
				ns = append(ns, words.Clean(c.Server))
			}
		}
		if len(ns) > 0 {
			word := string(k)
			if k == schemas.Approved {
				word = "to approve"
			}
			parts = append(parts, fmt.Sprintf("%d %s: %s", len(ns), word, strings.Join(ns, ", ")))
		}
	}
	if p.Empty() && len(Found(p)) > 0 {
		return "no server changes; " + words.Count(len(Found(p)), "value", "values") + " to put into your vault"
	}
	return strings.Join(parts, " · ")
}

// Kept names the servers that a change leaves alone.
func Kept(ks []string) string {
	verb := "2 other servers stay"
	if len(ks) == 1 {
		verb = "1 other server stays"
	} else {
		verb = strings.Replace(verb, "2", words.Thousands(len(ks)), 1)
	}
	return verb + " as " + map[bool]string{true: "it is", false: "they are"}[len(ks) == 1] + ": " + words.Short(words.Clean(strings.Join(ks, ", ")), 300)
}

// MaxShown is how much of a command line stands on a card before the rest is left to "Show everything", in characters.
const MaxShown = 600

// ChangeFacts is what holds for one server; of a changed one only what changed.
func ChangeFacts(p schemas.Proposal, c schemas.Change) []Fact {
	var fs []Fact
	add := func(label, value, note string) { fs = append(fs, Fact{label, value, note}) }
	has := func(fields ...string) bool {
		return c.Kind != schemas.Changed || slices.ContainsFunc(c.Fields, func(f string) bool { return slices.Contains(fields, f) })
	}
	s := c.After
	switch {
	case c.Kind == schemas.Removed:
		add("stops", "its program or connection ends; its values in the vault are deleted", "`/mcp undo` brings the entry back, not the values")
		if c.Before != nil && SignsIn(*c.Before) {
			add("sign-ins", "everybody's are ended", "and revoked where its authorization server can do that")
		}
		return fs
	case c.Kind == schemas.Disabled:
		add("stops", "its tools are gone until it is enabled; the entry stays", "")
		return fs
	case s == nil:
		return nil
	case s.Remote() && has("url", "headers", "auth", "type"):
		add("sends to", words.Short(words.Clean(words.SafeURL(s.URL)), MaxShown), string(s.Type))
	case !s.Remote() && has("command", "args"):
		line := words.CommandLine(s.Command, s.Args)
		add("runs", words.Short(line, MaxShown), CutNote(line))
	}
	if c.Kind == schemas.Changed {
		add("changed", strings.Join(c.Fields, ", "), "")
		if c.Before != nil && SignsIn(*c.Before) && c.Before.Fingerprint() != s.Fingerprint() {
			add("sign-ins", "everybody must sign in again", "a sign-in holds for exactly one definition")
		}
	}
	if s.Cwd != "" && has("cwd") {
		add("folder", words.Arg(s.Cwd), "")
	}
	for _, f := range FoundOf(p, c) {
		to := "moved to " + whose(p, c) + " vault"
		if p.Edit.Hold {
			to = "held in memory until bobbin ends"
		}
		add("secrets", words.Clean(f.Input), to+"; the config keeps ${input:"+words.Clean(f.Input)+"}")
	}
	if slices.ContainsFunc(p.Edit.Put, func(d schemas.Draft) bool { return d.Server.Name == c.Server && d.Disabled }) {
		add("off", "as the text says; it does not start", "`/mcp enable "+words.Clean(c.Server)+"`")
	}
	for _, id := range p.Needs[c.Server] {
		add("needs", words.Clean(id), "asked for after Confirm")
	}
	return fs
}

func whose(p schemas.Proposal, c schemas.Change) string {
	if c.Owner == "" || c.Owner == p.By.Member {
		return "your"
	}
	return words.At(c.Owner, "") + "'s"
}

// CutNote says of a command line that the card has its beginning only.
func CutNote(line string) string {
	if len([]rune(line)) > MaxShown {
		return "cut here; Show everything has it whole"
	}
	return ""
}

// CommonFacts says where the programs run, what they reach and who may use them.
func CommonFacts(p schemas.Proposal, place schemas.Place) []Fact {
	var fs []Fact
	local := slices.ContainsFunc(p.Changes, func(c schemas.Change) bool { return Runs(c.Kind) && !c.Remote })
	if local {
		fs = append(fs, Fact{Label: "where", Value: words.Clean(place.Where)}, Fact{Label: "reach", Value: words.Clean(place.Reach)})
	}
	as := "calls run as you"
	for _, c := range p.Changes {
		if p.By.Member == "" || Runs(c.Kind) && c.Owner != "" && c.Owner != p.By.Member {
			as = "calls run as each server's owner"
		}
		if Runs(c.Kind) && c.After != nil && SignsIn(*c.After) {
			as = "each call runs as the one who asks"
			if len(p.Changes) > 1 {
				as = "calls of " + words.Clean(c.Server) + " run as the one who asks, of others as their owner"
			}
			break
		}
	}
	return append(fs, Fact{Label: "shared", Value: "everyone in this thread can use its tools; " + as})
}

// NoteBlocks draws notes by kind, then the warning about trust.
func NoteBlocks(p schemas.Proposal) []Block {
	labels := []struct {
		kind schemas.NoteKind
		word string
	}{
		{schemas.NoteRepair, "mended"}, {schemas.NoteRenamed, "renamed"}, {schemas.NoteMapped, "read as"}, {schemas.NoteIgnored, "ignored"},
		{schemas.NoteNotObeyed, "not granted"}, {schemas.NotePath, "path"}, {schemas.NoteUnpinned, "version"}, {schemas.NoteOther, "note"},
	}
	typed := p.Edit.Source == "add" || p.Edit.Source == "edit" // whoever fills in a form knows the paths of this place
	var facts []Fact
	for _, l := range labels {
		ns := slices.DeleteFunc(slices.Clone(p.Notes), func(n schemas.Note) bool { return n.Kind != l.kind || typed && n.Kind == schemas.NotePath })
		if len(ns) > 2 && l.kind == schemas.NotePath {
			facts = append(facts, Fact{Label: "paths", Value: words.Thousands(len(ns)) + " arguments are paths; they must exist where the servers run", Note: "Show everything names them"})
			continue
		}
		for i, n := range ns {
			facts = append(facts, Fact{Label: map[bool]string{true: l.word}[i == 0], Value: NoteText(n)})
		}
	}
	const most = 24
	if more := len(facts) - most; more > 0 {
		facts = append(facts[:most], Fact{Value: "and " + words.Count(more, "more note", "more notes") + "; Show everything has them"})
	}
	var blocks []Block
	if len(facts) > 0 {
		blocks = append(blocks, Block{Facts: facts})
	}
	for _, n := range p.Notes {
		if n.Kind == schemas.NoteRisk {
			blocks = append(blocks, Block{Warning: "risk: " + NoteText(n)})
		}
	}
	if w := Trust(p); w != "" {
		blocks = append(blocks, Block{Warning: w})
	}
	return blocks
}

// NoteText is a note, with the server that it is about.
func NoteText(n schemas.Note) string {
	text := words.Clean(n.Text)
	if n.Server != "" && !strings.Contains(" "+strings.ReplaceAll(n.Text, ":", " ")+" ", " "+n.Server+" ") {
		text = words.Clean(n.Server) + ": " + text
	}
	return text
}

// NoteWarnings is the warning about trust, if a yes lets anything run.
func NoteWarnings(p schemas.Proposal) []Block {
	if w := Trust(p); w != "" {
		return []Block{{Warning: w}}
	}
	return nil
}

// Trust names what a yes lets run, or which host a yes sends data to.
func Trust(p schemas.Proposal) string {
	var programs, hosts []string
	for _, c := range p.Changes {
		if !Runs(c.Kind) || c.After == nil {
			continue
		}
		if c.After.Remote() {
			hosts = append(hosts, "`"+words.Clean(words.HostOf(c.After.URL))+"`")
		} else {
			if name := "`" + words.Tail(words.Clean(program(*c.After)), 64) + "`"; !slices.Contains(programs, name) {
				programs = append(programs, name)
			}
		}
	}
	var lines []string
	if n := len(programs); n == 1 {
		lines = append(lines, "This runs a program that somebody else wrote. Confirm only if you trust "+programs[0]+".")
	} else if n > 1 {
		lines = append(lines, "This runs programs that somebody else wrote. Confirm only if you trust "+strings.Join(programs, ", ")+".")
	}
	if len(hosts) > 0 {
		lines = append(lines, "This sends what its tools are called with to "+strings.Join(hosts, ", ")+". Confirm only if you trust who runs it.")
	}
	return strings.Join(lines, "\n")
}

// program names what a command line really runs: the package of a launcher, the script of an interpreter, else the command.
func program(s schemas.Server) string {
	launchers := map[string][]string{ // and their words in front of what they launch
		"npx": nil, "bunx": nil, "uvx": nil, "node": nil, "python": nil, "python3": nil, "npm": {"exec", "x"}, "pnpm": {"dlx", "exec"},
		"yarn": {"dlx"}, "bun": {"run", "x"}, "deno": {"run"}, "uv": {"run", "tool", "x"}, "pipx": {"run"}, "docker": {"run"},
	}
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(strings.ReplaceAll(s.Command, `\`, "/")), ".exe"), ".cmd")
	before, known := launchers[base]
	if !known {
		return s.Command
	}
	for _, a := range s.Args {
		switch {
		case a == "-c" || a == "-e" || a == "--eval": // the program is the argument itself, and the card shows it
			return s.Command
		case strings.HasPrefix(a, "-") || slices.Contains(before, a):
			continue
		}
		if i := strings.LastIndex(a, "@"); i > 0 && (base == "npx" || base == "bunx") {
			a = a[:i]
		}
		return a
	}
	return s.Command
}

// RemoteText says that a remote server in a text is not added by that text.
func RemoteText(name string) string {
	return words.Clean(name) + " is remote; remote servers are added with `/mcp connect`, so that you see who you sign in to"
}

// NotAdded says of a remote server, after the rest of its config was confirmed, how it is added.
func NotAdded(s schemas.Server) string {
	line := "/mcp connect"
	if u := words.SafeURL(s.URL); !strings.Contains(u, "…") && words.Clean(u) == u && !strings.ContainsAny(u, " ") {
		line += " " + u + " " + words.Clean(s.Name)
	}
	return words.Clean(s.Name) + " is remote, so it is not added yet · `" + line + "`"
}
