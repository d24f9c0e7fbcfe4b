package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/form"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// installer brings packages into members' sandboxes. Resolve, Upgrade and Folder change nothing. Install is only ever called
// after a person's yes to its plan; when it fails, its folder is removed. progress gets lines of output from another goroutine,
// one at a time, and never after Install returned. Folder says where a definition's program was installed. Errors are
// *schemas.Error with words.
type installer interface {
	Resolve(context.Context, schemas.ThreadID, schemas.MemberID, schemas.Package) (schemas.PackagePlan, error)
	Install(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, plan schemas.PackagePlan, progress func(string)) (schemas.PackageLog, error)
	Uninstall(context.Context, schemas.ThreadID, schemas.MemberID, schemas.Server) error
	Upgrade(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, server schemas.Server, version string) (schemas.PackageUpgrade, error)
	Folder(schemas.Server) (string, bool)
}

const (
	lookTime   = 5 * time.Minute // for a look at a package
	tidyTime   = time.Minute     // to remove a folder
	keyScripts = "scripts"
	keyValues  = "values"
)

// wish is an installation on its way from its command to its card.
type wish struct {
	by    schemas.Caller
	owner schemas.MemberID // in whose sandbox
	plan  schemas.PackagePlan
	spec  schemas.Package         // as it was asked for
	up    *schemas.PackageUpgrade // nil: a new one
	more  *schemas.Suggestion     // what a registry entry adds to the plan; nil: none
	was   schemas.Entry           // of an upgrade: the server as it is
	found []schemas.Found         // values that were given
	chose bool                    // which values are given was said; else what looks like a secret is asked for later
	model bool                    // the assistant asked
	hide  []string                // ids of found whose values no card shows
	hold  bool                    // values are held in memory, not kept
	edit  schemas.Edit
	shown schemas.Proposal // what the card shows
}

// installVerb is /mcp install npm, pip and git.
func (b *Bot) installVerb(kind schemas.PackageKind) func(context.Context, desk.Turn) (Reply, error) {
	return func(ctx context.Context, t desk.Turn) (Reply, error) {
		pkg, err := packageOf(kind, t)
		if err != nil {
			return Reply{}, err
		}
		return b.install(ctx, t, pkg, nil)
	}
}

// packageOf reads a command, also one that came as one line: the package, then name:, program:, start: and scripts:yes in any
// order, then arguments for the program.
func packageOf(kind schemas.PackageKind, t desk.Turn) (schemas.Package, error) {
	ws, err := words.Split(t.Args["package"])
	if err != nil {
		return schemas.Package{}, err
	}
	more, err := words.Split(t.Args["args"])
	if err != nil {
		return schemas.Package{}, err
	}
	name, program, start, scripts := t.Arg("name"), t.Arg("program"), t.Arg("start"), t.Arg("scripts")
	options := map[string]*string{"name": &name, "program": &program, "start": &start, "scripts": &scripts}
	p := schemas.Package{Kind: kind}
	if len(ws) > 0 {
		p.Spec, ws = ws[0], ws[1:]
	}
	for len(ws) > 0 {
		k, v, ok := strings.Cut(ws[0], ":")
		if !ok || options[k] == nil {
			break
		}
		*options[k], ws = v, ws[1:]
	}
	if len(ws) > 0 && ws[0] == "--" {
		ws = ws[1:]
	}
	p.Name, p.Program, p.Args = name, program, append(ws, more...)
	if p.Start, err = words.Split(start); err != nil {
		return p, err
	}
	switch scripts {
	case "", "no":
	case "yes":
		p.Scripts = true
	default:
		return p, words.Invalid("scripts are allowed with scripts:yes, or not at all", "")
	}
	if p.Spec == "" {
		return p, words.Invalid("a package is needed", "`/mcp install "+string(kind)+" PACKAGE`")
	}
	return p, nil
}

// preset is what the assistant gives along with a package: values for its environment, by name, and whether they are held in
// memory alone.
type preset struct {
	env  map[string]string
	hide []string // names of env whose values look like secrets
	hold bool
}

// install looks at a package and shows the card for it; g is nil for a person's command.
func (b *Bot) install(ctx context.Context, t desk.Turn, pkg schemas.Package, g *preset) (Reply, error) {
	if err := b.installs(t); err != nil {
		return Reply{}, err
	}
	if pkg.Name != "" {
		if err := b.freeFor(ctx, t, pkg.Name); err != nil {
			return Reply{}, err
		}
	}
	t.Tell("looking at " + string(pkg.Kind) + " " + words.Short(words.Clean(pkg.Spec), 80) + " …")
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	plan, err := b.opt.Install.Resolve(look, t.Caller.Thread, t.Caller.Member, pkg)
	if err != nil {
		return Reply{}, err
	}
	if err := b.freeFor(ctx, t, plan.Server.Name); err != nil {
		return Reply{}, err
	}
	w := wish{by: t.Caller, owner: t.Caller.Member, plan: plan, spec: pkg}
	if g != nil {
		w.model, w.hold, w.hide = true, g.hold, g.hide
		for _, k := range slices.Sorted(maps.Keys(g.env)) {
			w.found = append(w.found, schemas.Found{Server: plan.Server.Name, Input: k, Value: schemas.NewSecret(g.env[k]), Where: "env " + k})
		}
	}
	return b.installCard(ctx, w)
}

// installs refuses where nothing can be installed.
func (b *Bot) installs(t desk.Turn) error {
	if b.opt.Install == nil {
		return b.noSandbox(t)
	}
	return b.placeable(t.Caller, schemas.Change{Kind: schemas.Added})
}

// freeFor refuses a name that a server of the thread has.
func (b *Bot) freeFor(ctx context.Context, t desk.Turn, name string) error {
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return err
	}
	if e, ok := cfg.Find(name); ok {
		hint := "give this one another name: name:" + freeName(words.Clean(name), cfg)
		if _, installed := b.opt.Install.Folder(e.Server); installed {
			hint = "`/mcp install upgrade " + words.Clean(name) + "`, or " + hint
		}
		return &schemas.Error{Code: schemas.CodeConflict, Text: "there is a server " + words.Clean(name) + " here already", Hint: hint}
	}
	return nil
}

// installCard words what would be installed and what would run. Nothing is installed yet.
func (b *Bot) installCard(ctx context.Context, w wish) (Reply, error) {
	edit, err := b.installEdit(w)
	if err != nil {
		return Reply{}, err
	}
	w.edit = edit
	if w.shown, err = b.proposeInstall(ctx, w); err != nil {
		return Reply{}, err
	}
	blocks := b.cardBlocks(w.shown, nil)
	blocks = slices.DeleteFunc(blocks, func(x Block) bool { return x.Warning != "" && x.Warning == view.Trust(w.shown) })
	blocks = slices.Insert(blocks, 1, Block{Facts: w.facts()})
	blocks = append(blocks, Block{Warning: "This installs and runs what somebody else wrote, and what that depends on. Confirm only if you trust `" + words.Tail(words.Clean(w.plan.Package), 80) + "`."})
	r := Reply{Blocks: blocks}
	must := w.plan.Must && !w.plan.Spec.Scripts
	switch {
	case must:
		r.Choices = []Choice{{Key: desk.Confirm, Label: "Confirm with scripts", Style: "danger"}}
	case len(w.plan.Scripts) > 0 && !w.plan.Spec.Scripts:
		r.Choices = []Choice{{Key: desk.Confirm, Label: "Confirm", Style: "primary"}, {Key: keyScripts, Label: "Confirm with scripts", Style: "danger"}}
	default:
		r.Choices = []Choice{{Key: desk.Confirm, Label: "Confirm", Style: "primary"}}
	}
	r.Choices = append(r.Choices, Choice{Key: desk.Cancel, Label: "Cancel"}, Choice{Key: desk.Everything, Label: "Show everything"})
	if inputs, _ := w.inputs(); len(inputs) > 0 && !w.model {
		r.Choices = append(r.Choices, Choice{Key: keyValues, Label: "Give values"})
	}
	c := &desk.Card{By: w.by, Role: schemas.Member, May: desk.RequesterOrManager(w.by), Look: []string{desk.Everything, keyValues}}
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		switch a.Choice {
		case desk.Confirm, keyScripts:
			return b.carryOut(ctx, t, w, must || a.Choice == keyScripts)
		case desk.Everything:
			answers := slices.DeleteFunc(slices.Clone(r.Choices), func(ch Choice) bool { return slices.Contains(c.Look, ch.Key) })
			return Reply{Private: true, ID: a.ID, Expires: c.Expires, Choices: answers, Blocks: append(view.Whole(w.shown), w.whole()...)}, nil
		case keyValues:
			return b.valuesForm(t, w, a.ID)
		}
		b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCancelled, Detail: "install " + w.what()})
		return Reply{Blocks: []Block{{Text: "cancelled; nothing was installed or changed"}}}, nil
	}
	return b.desk.Deal(c, r), nil
}

// proposeInstall computes the change of the config. It is one server's, and what the card has shown already stays as it was.
func (b *Bot) proposeInstall(ctx context.Context, w wish) (schemas.Proposal, error) {
	p, err := b.opt.Config.Propose(ctx, w.by, w.edit)
	if err != nil {
		return p, err
	}
	p.By, p.Edit = w.by, w.edit
	kind := schemas.Added
	if w.up != nil {
		kind = schemas.Changed
	}
	if len(p.Changes) != 1 || p.Changes[0].Kind != kind || p.Changes[0].After == nil {
		return p, &schemas.Error{Code: schemas.CodeConflict, Text: words.Clean(w.plan.Server.Name) + " changed here meanwhile", Hint: "`/mcp list` shows what there is; ask for the installation again"}
	}
	if len(w.shown.Changes) == 1 {
		seen := w.shown.Changes[0]
		if p.Changes[0].After.Fingerprint() != seen.After.Fingerprint() || seen.Before != nil && !p.Changes[0].Before.Equal(*seen.Before) {
			return p, &schemas.Error{Code: schemas.CodeConflict, Text: words.Clean(w.plan.Server.Name) + " would be another server now than the card showed", Hint: "ask for the installation again"}
		}
	}
	if err := b.placeable(w.by, p.Changes[0]); err != nil {
		return p, err
	}
	p.Needs, err = b.unknownNeeds(ctx, p)
	return p, err
}

// installEdit is the change of the config that a wish ends in.
func (b *Bot) installEdit(w wish) (schemas.Edit, error) {
	inputs, optional := w.inputs()
	s := w.filled(w.plan.Server, inputs, optional)
	d, notes, source := schemas.Draft{Server: s, Disabled: !w.was.Enabled}, []schemas.Note(nil), "install upgrade "+w.what()
	if w.up == nil {
		source = "install " + w.what()
		in, err := b.readDraft(s)
		if err != nil {
			return schemas.Edit{}, err
		}
		d, notes = in.Servers[0], slices.DeleteFunc(slices.Clone(in.Notes), func(n schemas.Note) bool { return n.Kind == schemas.NotePath })
		for _, i := range in.Inputs {
			if !slices.ContainsFunc(inputs, func(have schemas.Input) bool { return have.ID == i.ID }) {
				inputs = append(inputs, i)
			}
		}
	}
	d.Found, d.Needs = append(d.Found, w.found...), nil
	for _, id := range d.Server.Inputs() {
		given := slices.ContainsFunc(d.Found, func(f schemas.Found) bool { return f.Input == id })
		if !given && !slices.ContainsFunc(inputs, func(in schemas.Input) bool { return in.ID == id && in.Default != "" }) {
			d.Needs = append(d.Needs, id)
		}
	}
	return schemas.Edit{Hold: w.hold, Put: []schemas.Draft{d}, Inputs: usedInputs(d.Server, inputs), Notes: append(slices.Clone(w.plan.Notes), notes...), Source: source}, nil
}

// readDraft reads a definition as any other that a person gives, so that a secret among the arguments is found.
func (b *Bot) readDraft(s schemas.Server) (schemas.Import, error) {
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]schemas.Server{s.Name: s}})
	if err != nil {
		return schemas.Import{}, err
	}
	in := b.opt.Import("", data, s.Name)
	if len(in.Problems) > 0 {
		return in, view.Placeless(in.Problems)
	}
	if len(in.Servers) != 1 || in.Servers[0].Server.Remote() || in.Servers[0].Server.Name != s.Name {
		return in, words.Invalid("that cannot be installed as a server", "`/mcp help install`")
	}
	return in, nil
}

// inputs is the values that the package can take, and the ids of those that need not be given.
func (w wish) inputs() (all []schemas.Input, optional []string) {
	all, optional = slices.Clone(w.plan.Inputs), slices.Clone(w.plan.Optional)
	names := w.plan.Env
	if w.up != nil {
		names = w.up.NewEnv
	}
	for _, f := range w.found {
		names = append(names[:len(names):len(names)], f.Input)
	}
	for _, name := range names {
		if slices.ContainsFunc(all, func(i schemas.Input) bool { return i.ID == name }) || w.plan.Server.Env[name] != "" {
			continue
		}
		all = append(all, schemas.Input{Type: "promptString", ID: name, Password: true, Description: "for " + w.plan.Package})
		if w.up != nil || w.chose || !secretLike(name) {
			optional = append(optional, name)
		}
	}
	return all, optional
}

// filled gives the definition its environment: names of the package that are given or asked for. Of what need not be given and is
// not, nothing stays.
func (w wish) filled(s schemas.Server, inputs []schemas.Input, optional []string) schemas.Server {
	env := map[string]string{}
	for _, i := range inputs {
		if !slices.ContainsFunc(w.plan.Inputs, func(own schemas.Input) bool { return own.ID == i.ID }) {
			env[i.ID] = "${input:" + i.ID + "}"
		}
	}
	for k, v := range s.Env {
		env[k] = v
	}
	var out []string
	for _, id := range optional {
		if !slices.ContainsFunc(w.found, func(f schemas.Found) bool { return f.Input == id }) {
			out = append(out, id)
		}
	}
	s.Env = env
	if s = s.Without(out...); len(s.Env) == 0 {
		s.Env = nil
	}
	return s
}

// secretLike reports whether a variable of that name mostly holds what a program cannot do without.
func secretLike(name string) bool {
	parts := strings.Split(strings.ToUpper(name), "_")
	return slices.Contains([]string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASS", "PAT", "CREDENTIALS", "APIKEY", "AUTH"}, parts[len(parts)-1])
}

// valuesForm asks where nobody else sees it, and shows the card again with what was given. The old card is no longer open then.
func (b *Bot) valuesForm(t desk.Turn, w wish, old string) (Reply, error) {
	if err := desk.RequesterOnly(w.by)(t.Caller); err != nil {
		return Reply{}, err
	}
	inputs, optional := w.inputs()
	ask := &Form{Title: "values for " + words.Clean(w.plan.Server.Name), Submit: "Show what it would do"}
	for _, in := range inputs {
		own := slices.ContainsFunc(w.plan.Inputs, func(i schemas.Input) bool { return i.ID == in.ID })
		f := Field{Name: in.ID, Label: words.Clean(in.ID), Kind: "secret", Required: own && !slices.Contains(optional, in.ID), Hint: "empty: it is left out"}
		if f.Required {
			f.Hint = "goes to your vault"
		}
		if own && in.Description != "" {
			f.Hint = words.Short(words.Clean(in.Description), 80) + ", " + f.Hint
		}
		if !in.Password {
			f.Kind, f.Default = "", in.Default
		}
		if len(in.Options) > 0 {
			f.Kind, f.Options, f.Default = "choice", in.Options, in.Default
		}
		ask.Fields = append(ask.Fields, f)
		if len(ask.Fields) == form.MaxFields {
			break
		}
	}
	c := desk.Personal(w.by)
	c.Act = func(ctx context.Context, _ desk.Turn, a Action) (Reply, error) {
		w := w
		w.found, w.chose, w.shown = nil, true, schemas.Proposal{}
		for _, f := range ask.Fields {
			v := strings.TrimRight(a.Values[f.Name], "\r\n")
			switch {
			case v != "":
				w.found = append(w.found, schemas.Found{Server: w.plan.Server.Name, Input: f.Name, Value: schemas.NewSecret(v), Where: "env " + f.Name})
			case f.Required:
				return Reply{}, words.Invalid(f.Label+" is needed", "")
			}
		}
		b.desk.Drop(old)
		return b.installCard(ctx, w)
	}
	return b.desk.Deal(c, Reply{Private: true, Form: ask}), nil
}

// what names the package for lines and logs.
func (w wish) what() string {
	return string(w.plan.Spec.Kind) + " " + words.Tail(words.Clean(w.plan.Package), 120) + " " + w.version(w.plan.Version)
}

// version is short where it is a commit.
func (w wish) version(v string) string {
	if w.plan.Spec.Kind == schemas.Git && len(v) == 40 {
		v = v[:12]
	}
	return words.Short(words.Clean(v), 60)
}

// facts is what the card says about the package.
func (w wish) facts() []Fact {
	p := w.plan
	fs := []Fact{{Label: "package", Value: words.Short(words.Clean(p.Package), 300), Note: string(p.Spec.Kind)}}
	add := func(label, value, note string) {
		if value != "" {
			fs = append(fs, Fact{Label: label, Value: value, Note: note})
		}
	}
	age := ""
	if !p.Published.IsZero() {
		age = "published " + p.Published.UTC().Format("2006-01-02")
	}
	version := w.version(p.Version)
	if w.up != nil {
		version = w.version(w.up.From.Version) + " → " + version
	}
	add("version", version, age)
	add("integrity", words.Short(words.Clean(p.Integrity), 160), "what is installed must be exactly this")
	if p.License == "" {
		add("license", "unknown", "")
	}
	add("license", words.Short(words.Clean(p.License), 100), "")
	if p.Packages > 0 {
		add("packages", words.Thousands(p.Packages), "it and what it depends on")
	}
	add("contacts", contacts(p), "while it is installed, from your sandbox")
	if w.up != nil {
		add("new scripts", words.Short(words.Clean(strings.Join(w.up.NewScripts, "; ")), 300), "")
		add("new env", words.Short(words.Clean(strings.Join(w.up.NewEnv, ", ")), 300), "left out unless you give values")
		return fs
	}
	if w.model { // what the assistant chose may say where the program sends what it knows
		for _, f := range w.found {
			line := f.Input + "=" + words.Arg(f.Value.Reveal())
			if slices.Contains(w.hide, f.Input) {
				line = f.Input + "=" + f.Value.String() + ", " + words.Count(len(f.Value.Reveal()), "character", "characters")
			}
			add("env", words.Short(line, view.MaxShown), view.CutNote(line))
		}
	}
	add("documents", words.Short(words.Clean(strings.Join(p.Env, ", ")), 300), "names for its environment")
	return fs
}

// contacts says who is asked for a package.
func contacts(p schemas.PackagePlan) string {
	switch p.Spec.Kind {
	case schemas.NPM:
		return "npm's package registry"
	case schemas.Pip:
		return "Python's package index"
	case schemas.Git:
		if u, err := url.Parse(p.Package); err == nil && u.Host != "" {
			return words.Clean(u.Host) + ", and the registry of what it depends on"
		}
	}
	return ""
}

// whole is what Show everything adds about the installation.
func (w wish) whole() []Block {
	var lines strings.Builder
	for _, c := range w.plan.Commands {
		fmt.Fprintln(&lines, words.CommandLine(c[0], c[1:]))
	}
	blocks := []Block{{Text: "what installs it, in your sandbox"}, {Code: words.Lines(lines.String())}}
	if len(w.plan.Scripts) > 0 {
		blocks = append(blocks, Block{Text: "scripts that it brings"}, Block{Code: words.Lines(strings.Join(w.plan.Scripts, "\n"))})
	}
	return blocks
}
