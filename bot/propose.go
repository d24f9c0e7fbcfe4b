package bot

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

const (
	keyConfirm = "confirm"
	keyCancel  = "cancel"
	keyAll     = "everything"
)

// maxShown is how much of a command line stands on a card before the rest is left to "Show everything", in characters.
const maxShown = 600

// propose computes what an edit would do and deals the card for it. Nothing is written, started or contacted.
func (b *Bot) propose(ctx context.Context, t turn, edit schemas.Edit) (Reply, error) {
	return b.proposed(ctx, t, edit, nil)
}

// proposed is propose for an edit that adds a connector of which more is known; seen is nil for any other.
func (b *Bot) proposed(ctx context.Context, t turn, edit schemas.Edit, seen *remote) (Reply, error) {
	p, err := b.opt.Config.Propose(ctx, t.caller, edit)
	if err != nil {
		return Reply{}, err
	}
	p.By, p.Edit = t.caller, edit
	if !p.Empty() {
		for _, c := range p.Changes {
			if err := b.placeable(t.caller, c); err != nil {
				return Reply{}, err
			}
		}
	} else if len(found(p)) == 0 {
		if len(p.Remote) > 0 {
			return b.remoteOnly(t, p), nil
		}
		return Reply{Blocks: []Block{{Text: "No changes; everything is as that says already"}}}, nil
	}
	if p.Needs, err = b.unknownNeeds(ctx, p); err != nil {
		return Reply{}, err
	}
	if p.Diff == "" {
		if p.Diff, err = b.approvedDiff(ctx, p); err != nil {
			return Reply{}, err
		}
	}
	if seen != nil {
		seen.then = b.searchFact(ctx, t.caller.Thread, seen)
	}
	return b.proposal(t.caller, edit, p, seen), nil
}

// unknownNeeds leaves out what the vault holds already.
func (b *Bot) unknownNeeds(ctx context.Context, p schemas.Proposal) (map[string][]string, error) {
	needs := map[string][]string{}
	for _, c := range p.Changes {
		if len(p.Needs[c.Server]) == 0 || c.After == nil {
			continue
		}
		who := c.Owner
		if who == "" {
			who = p.By.Member
		}
		keys, err := b.opt.Secrets.Names(ctx, who, p.Thread)
		if err != nil {
			return nil, err
		}
		for _, id := range p.Needs[c.Server] {
			if !slices.Contains(keys, schemas.SecretKey{Member: who, Thread: p.Thread, Server: c.Server, Name: id, Origin: c.After.Origin()}) {
				needs[c.Server] = append(needs[c.Server], id)
			}
		}
	}
	return needs, nil
}

// placeable refuses what could not run here, before anybody confirms it.
func (b *Bot) placeable(c schemas.Caller, ch schemas.Change) error {
	if !runs(ch.Kind) || ch.Remote {
		return nil
	}
	if p := b.opt.Place(c.Thread); !p.Available {
		return &schemas.Error{Code: schemas.CodeMissing, Text: noPlace(p), Hint: p.Hint}
	}
	return nil
}

// noPlace says why programs cannot run here.
func noPlace(p schemas.Place) string {
	if strings.HasPrefix(p.Why, "local servers ") {
		return p.Why
	}
	return "local servers cannot run here: " + p.Why
}

// runs reports whether a change of that kind lets something run that did not before.
func runs(k schemas.ChangeKind) bool {
	return k == schemas.Added || k == schemas.Changed || k == schemas.Enabled || k == schemas.Approved
}

// found is the literal secrets of servers that the proposal keeps; a value for a server that is not added is not sealed.
func found(p schemas.Proposal) []schemas.Found {
	return slices.DeleteFunc(slices.Clone(p.Found), func(f schemas.Found) bool {
		return !slices.ContainsFunc(p.Changes, func(c schemas.Change) bool {
			// A definition that stays says nothing about who may replace its owner's value.
			mine := c.Kind != schemas.Unchanged || c.Owner == p.By.Member
			return c.Server == f.Server && c.After != nil && mine
		})
	})
}

// proposal deals the card that stands before every change.
func (b *Bot) proposal(by schemas.Caller, edit schemas.Edit, p schemas.Proposal, seen *remote) Reply {
	r := Reply{
		Blocks: b.cardBlocks(p, seen),
		Choices: []Choice{
			{Key: keyConfirm, Label: "Confirm", Style: "primary"}, {Key: keyCancel, Label: "Cancel"},
			{Key: keyAll, Label: "Show everything"},
		},
	}
	c := &card{by: by, role: schemas.Member, may: requesterOrManager(by), look: []string{keyAll}}
	for i, d := range p.Remote {
		key := fmt.Sprintf("connect:%d", i)
		r.Choices = append(r.Choices, Choice{Key: key, Label: "Connect " + words.HostOf(d.Server.URL)})
		c.look = append(c.look, key)
	}
	c.act = func(ctx context.Context, t turn, a Action) (Reply, error) {
		switch {
		case a.Choice == keyConfirm:
			return b.confirm(ctx, t, edit, p, seen)
		case a.Choice == keyAll:
			return Reply{Private: true, ID: a.ID, Expires: c.expires, Blocks: append(everything(p), offers(seen)...), Choices: r.Choices[:2:2]}, nil
		case strings.HasPrefix(a.Choice, "connect:"):
			return b.connectDraft(t, p, a.Choice)
		}
		b.noted(ctx, t.caller, schemas.Record{Event: schemas.EventCancelled, Detail: summary(p)})
		return Reply{Blocks: append([]Block{{Text: "cancelled; nothing was changed"}}, b.undone(ctx, seen)...)}, nil
	}
	return b.deal(c, r)
}

// summary counts a proposal's changes: "1 added: github · 1 removed: old".
func summary(p schemas.Proposal) string {
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
	if p.Empty() && len(found(p)) > 0 {
		return "no server changes; " + words.Count(len(found(p)), "value", "values") + " to put into your vault"
	}
	return strings.Join(parts, " · ")
}

func (b *Bot) cardBlocks(p schemas.Proposal, seen *remote) []Block {
	who := "you"
	if p.By.Door == schemas.DoorDiscord {
		who = words.At(p.By.Member, p.By.Name)
	}
	blocks := []Block{{Text: summary(p) + " · asked by " + who}}
	var common []Fact
	changed := slices.DeleteFunc(slices.Clone(p.Changes), func(c schemas.Change) bool { return c.Kind == schemas.Unchanged && len(foundOf(p, c)) == 0 })
	for _, c := range changed {
		facts := append(changeFacts(p, c), b.folderFact(p, c)...)
		if len(changed) > 1 && len(facts) > 0 {
			blocks = append(blocks, Block{Text: words.Clean(c.Server)})
		}
		if runs(c.Kind) && common == nil {
			common = b.commonFacts(p)
		}
		if len(facts) > 0 {
			blocks = append(blocks, Block{Facts: facts})
		}
	}
	if len(common) > 0 {
		if len(changed) == 1 {
			blocks[len(blocks)-1].Facts = append(blocks[len(blocks)-1].Facts, common...)
		} else {
			blocks = append(blocks, Block{Facts: common})
		}
	}
	if seen != nil {
		blocks = append(blocks, Block{Facts: append(seen.facts(), seen.then...)})
	}
	if len(p.Kept) > 0 {
		blocks = append(blocks, Block{Text: kept(p.Kept)})
	}
	for _, d := range p.Remote {
		blocks = append(blocks, Block{Text: remoteText(d.Server.Name)})
	}
	if p.Diff != "" {
		blocks = append(blocks, Block{Diff: words.Diff(p.Diff)})
	}
	return append(blocks, noteBlocks(p)...)
}

func kept(ks []string) string {
	verb := "2 other servers stay"
	if len(ks) == 1 {
		verb = "1 other server stays"
	} else {
		verb = strings.Replace(verb, "2", words.Thousands(len(ks)), 1)
	}
	return verb + " as " + map[bool]string{true: "it is", false: "they are"}[len(ks) == 1] + ": " + words.Short(words.Clean(strings.Join(ks, ", ")), 300)
}

// changeFacts is what holds for one server; of a changed one only what changed.
func changeFacts(p schemas.Proposal, c schemas.Change) []Fact {
	var fs []Fact
	add := func(label, value, note string) { fs = append(fs, Fact{label, value, note}) }
	has := func(fields ...string) bool {
		return c.Kind != schemas.Changed || slices.ContainsFunc(c.Fields, func(f string) bool { return slices.Contains(fields, f) })
	}
	s := c.After
	switch {
	case c.Kind == schemas.Removed:
		add("stops", "its program or connection ends; its values in the vault are deleted", "`/mcp undo` brings the entry back, not the values")
		if c.Before != nil && signsIn(*c.Before) {
			add("sign-ins", "everybody's are ended", "and revoked where its authorization server can do that")
		}
		return fs
	case c.Kind == schemas.Disabled:
		add("stops", "its tools are gone until it is enabled; the entry stays", "")
		return fs
	case s == nil:
		return nil
	case s.Remote() && has("url", "headers", "auth", "type"):
		add("sends to", words.Short(words.Clean(words.SafeURL(s.URL)), maxShown), string(s.Type))
	case !s.Remote() && has("command", "args"):
		line := words.CommandLine(s.Command, s.Args)
		add("runs", words.Short(line, maxShown), cutNote(line))
	}
	if c.Kind == schemas.Changed {
		add("changed", strings.Join(c.Fields, ", "), "")
		if c.Before != nil && signsIn(*c.Before) && c.Before.Fingerprint() != s.Fingerprint() {
			add("sign-ins", "everybody must sign in again", "a sign-in holds for exactly one definition")
		}
	}
	if s.Cwd != "" && has("cwd") {
		add("folder", words.Arg(s.Cwd), "")
	}
	for _, f := range foundOf(p, c) {
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

func cutNote(line string) string {
	if len([]rune(line)) > maxShown {
		return "cut here; Show everything has it whole"
	}
	return ""
}

func foundOf(p schemas.Proposal, c schemas.Change) []schemas.Found {
	return slices.DeleteFunc(found(p), func(f schemas.Found) bool { return f.Server != c.Server })
}

// commonFacts says where the programs run, what they reach and who may use them.
func (b *Bot) commonFacts(p schemas.Proposal) []Fact {
	var fs []Fact
	local := slices.ContainsFunc(p.Changes, func(c schemas.Change) bool { return runs(c.Kind) && !c.Remote })
	if local {
		place := b.opt.Place(p.Thread)
		fs = append(fs, Fact{Label: "where", Value: words.Clean(place.Where)}, Fact{Label: "reach", Value: words.Clean(place.Reach)})
	}
	as := "calls run as you"
	for _, c := range p.Changes {
		if p.By.Member == "" || runs(c.Kind) && c.Owner != "" && c.Owner != p.By.Member {
			as = "calls run as each server's owner"
		}
		if runs(c.Kind) && c.After != nil && signsIn(*c.After) {
			as = "each call runs as the one who asks"
			if len(p.Changes) > 1 {
				as = "calls of " + words.Clean(c.Server) + " run as the one who asks, of others as their owner"
			}
			break
		}
	}
	return append(fs, Fact{Label: "shared", Value: "everyone in this thread can use its tools; " + as})
}

// noteBlocks draws notes by kind, then the warning about trust.
func noteBlocks(p schemas.Proposal) []Block {
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
			facts = append(facts, Fact{Label: map[bool]string{true: l.word}[i == 0], Value: noteText(n)})
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
			blocks = append(blocks, Block{Warning: "risk: " + noteText(n)})
		}
	}
	if w := trust(p); w != "" {
		blocks = append(blocks, Block{Warning: w})
	}
	return blocks
}

func noteText(n schemas.Note) string {
	text := words.Clean(n.Text)
	if n.Server != "" && !strings.Contains(" "+strings.ReplaceAll(n.Text, ":", " ")+" ", " "+n.Server+" ") {
		text = words.Clean(n.Server) + ": " + text
	}
	return text
}

// trust names what a yes lets run, or which host a yes sends data to.
func trust(p schemas.Proposal) string {
	var programs, hosts []string
	for _, c := range p.Changes {
		if !runs(c.Kind) || c.After == nil {
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
