package bot

import (
	"context"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// list shows everything that is stored, in load order and by kind.
func (b *Bot) list(ctx context.Context, t turn) (Reply, error) {
	cfg, err := b.opt.Config.Load(ctx, t.caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	ss, err := b.opt.Tools.Status(ctx, t.caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	ss = b.viewed(ctx, t.caller, ss)
	r := Reply{Blocks: unreadable(cfg.Problems)}
	if len(ss) == 0 {
		r.Blocks = append(r.Blocks, Block{Text: "No MCP servers configured"},
			Block{Text: "Paste a config with `/mcp add-json {…}`, give me a file with `/mcp upload PATH`, answer questions with `/mcp add`, or `/mcp connect` a remote one."})
		return r, nil
	}
	tab := &Table{Columns: []string{"name", "state", "tools", "owner", "note"}}
	var needy []schemas.Status
	for _, g := range []struct {
		kind schemas.Kind
		head string
	}{{schemas.Local, "local"}, {schemas.Connector, "connectors"}, {schemas.Admin, "admin"}} {
		headed := false
		for _, s := range ss {
			if s.Kind != g.kind {
				continue
			}
			if !headed {
				tab.Rows, headed = append(tab.Rows, Row{Head: g.head}), true
			}
			tab.Rows = append(tab.Rows, b.row(t.caller, s))
			if wantsOf(t.caller, s) {
				needy = append(needy, s)
			}
		}
	}
	r.Blocks = append(r.Blocks, Block{Table: tab})
	if t.caller.Role == schemas.Guest {
		needy = nil
	}
	return b.offerNeeds(t, r, needy), nil
}

func (b *Bot) row(c schemas.Caller, s schemas.Status) Row {
	state := string(s.State)
	if s.State == schemas.Needs {
		state = "needs " + words.Clean(strings.Join(s.Needs, ", "))
	}
	ts := words.Count(s.Tools, "tool", "tools")
	if s.Tools == 0 && s.State != schemas.Ready && s.State != schemas.Failed {
		ts = ""
	}
	return Row{State: s.State, Cells: []string{words.Clean(s.Name), state, ts, ownerText(c, s), b.rowNote(c, s)}}
}

func ownerText(c schemas.Caller, s schemas.Status) string {
	switch {
	case s.Kind == schemas.Admin:
		return "the operator's"
	case s.Owner == "":
		return "nobody's"
	case s.Owner == c.Member:
		return "yours"
	}
	return words.At(s.Owner, s.OwnerName)
}

func (b *Bot) rowNote(c schemas.Caller, s schemas.Status) string {
	var notes []string
	add := func(ns ...string) { notes = append(notes, ns...) }
	name := words.Clean(s.Name)
	if s.RunsAs != "" && s.Kind == schemas.Connector {
		as := words.Clean(s.RunsAs)
		if as == words.At(c.Member, c.Name) {
			as = "you"
		}
		add("runs as " + as)
	}
	switch s.State {
	case schemas.Ready:
		up := "up " + words.Took(b.opt.Now().Sub(s.Since))
		switch {
		case s.Since.IsZero():
			up = ""
		case b.opt.Now().Sub(s.Since) < time.Second:
			up = "just started"
		}
		if s.Calls > 0 {
			up = strings.TrimPrefix(up+", "+words.Count(s.Calls, "call", "calls"), ", ")
		}
		if up != "" {
			add(up)
		}
	case schemas.Starting:
		if s.Why != "" {
			add(words.Short(words.Clean(s.Why), 160), "`/mcp doctor "+name+"`")
		}
	case schemas.Idle:
		add("starts when it is needed")
	case schemas.Needs:
		if s.Owner != c.Member && s.Owner != "" {
			add("ask " + words.At(s.Owner, s.OwnerName) + " to give it")
		} else {
			add("`/mcp secrets set " + words.Clean(strings.Join(s.Needs[:min(1, len(s.Needs))], "")) + "`")
		}
	case schemas.Failed:
		add(words.Short(words.Clean(s.Why), 160), "`/mcp doctor "+name+"`")
	case schemas.PendingState:
		add("`/mcp enable " + name + "` shows it")
	case schemas.Off:
		add("`/mcp enable " + name + "`")
	case schemas.NeedsConnect:
		add("`/mcp connect " + name + "`")
	case schemas.ShadowedState:
		add("a server above has the same name")
	}
	if s.Pending && s.State != schemas.PendingState {
		add("a change waits for approval, the approved one goes on · `/mcp enable " + name + "`")
	}
	if len(s.HeldTools) > 0 {
		add(words.Count(len(s.HeldTools), "tool", "tools") + " held: " + words.Short(words.Clean(strings.Join(s.HeldTools, ", ")), 80) + " · `/mcp enable " + name + "`")
	}
	return strings.Join(notes, " · ")
}

// unreadable says that a file cannot be read and the last good state runs on.
func unreadable(ps schemas.Problems) []Block {
	if len(ps) == 0 {
		return nil
	}
	shown := make([]schemas.Problem, len(ps))
	for i, p := range ps {
		p.Text, p.Hint, p.Excerpt, p.Server = words.Clean(p.Text), words.Clean(p.Hint), words.Clean(p.Excerpt), words.Clean(p.Server)
		shown[i] = p
	}
	file := ps[0].File
	if file == "" {
		file = "a file"
	}
	return []Block{{Text: words.Clean(file) + " cannot be read; the last good state runs on"}, {Problems: shown}}
}

// show opens one server.
func (b *Bot) show(ctx context.Context, t turn) (Reply, error) {
	e, cfg, err := b.entry(ctx, t, t.arg("name"))
	if err != nil {
		return Reply{}, err
	}
	s, err := b.status(ctx, t, e)
	if err != nil {
		return Reply{}, err
	}
	head := words.Clean(e.Name) + " is " + string(s.State)
	if s.State == schemas.Needs {
		head = words.Clean(e.Name) + " needs " + words.Clean(strings.Join(s.Needs, ", "))
	}
	facts := []Fact{{Label: "kind", Value: string(e.Kind)}, {Label: "owner", Value: ownerText(t.caller, s)}}
	if e.Title != "" && e.Title != e.Name {
		facts = append(facts, Fact{Label: "written", Value: words.Clean(e.Title)})
	}
	if e.Remote() {
		facts = append(facts, Fact{Label: "sends to", Value: words.Clean(words.SafeURL(e.URL))})
	} else {
		facts = append(facts, Fact{Label: "runs", Value: words.CommandLine(e.Command, e.Args)}, Fact{Label: "where", Value: words.Clean(b.opt.Place(t.caller.Thread).Where)})
	}
	if note := b.rowNote(t.caller, s); note != "" {
		facts = append(facts, Fact{Label: "now", Value: note})
	}
	if s.Tools > 0 {
		facts = append(facts, Fact{Label: "tools", Value: words.Count(s.Tools, "tool", "tools") + ", " + words.About(s.Tokens) + " tokens", Note: "`/mcp tools " + words.Clean(e.Name) + "`"})
	}
	if e.Approval != nil {
		facts = append(facts, Fact{Label: "approved", Value: "by " + words.At(e.Approval.By, e.Approval.ByName) + ", " + e.Approval.At.UTC().Format("2006-01-02 15:04 UTC")})
	}
	r := Reply{Blocks: append(unreadable(cfg.Problems), Block{Text: head}, Block{Facts: facts}, Block{Code: definition(e.Server)})}
	if s.Stderr != "" && t.caller.Role > schemas.Guest {
		r.Blocks = append(r.Blocks, Block{Text: "last lines on its standard error"}, Block{Code: words.Lines(s.Stderr)})
	}
	if t.caller.Role > schemas.Guest && (s.State == schemas.Ready || s.State == schemas.Idle) {
		r.Blocks = append(r.Blocks, b.offered(ctx, t, s)...)
	}
	if choices := b.accountChoices(ctx, t.caller, e); t.caller.Role > schemas.Guest && len(choices) > 0 {
		r.Choices = choices
		r = b.deal(b.accountCard(t.caller, e.Name), r)
	}
	return r, nil
}

// offered lists resources and prompts of a server that runs; that it has none is no failure.
func (b *Bot) offered(ctx context.Context, t turn, s schemas.Status) []Block {
	var blocks []Block
	if s.Resources {
		rs, err := b.opt.Resources.Resources(ctx, t.caller)
		if err != nil {
			b.opt.Log.Warn("resources not listed", "thread", t.caller.Thread, "server", s.Name, "err", err)
		}
		tab := &Table{Columns: []string{"resource", "", ""}}
		for _, r := range rs {
			if r.Server == s.Name && len(tab.Rows) < 100 {
				tab.Rows = append(tab.Rows, Row{Cells: []string{"@" + words.Clean(r.Server) + ":" + words.Short(words.Clean(r.URI), 200), words.Clean(r.Name), words.FirstLine(r.Description, 80)}})
			}
		}
		if len(tab.Rows) > 0 {
			blocks = append(blocks, Block{Text: "resources; `/mcp call @server:uri` reads one"}, Block{Table: tab})
		}
	}
	if s.Prompts {
		blocks = append(blocks, Block{Text: "it offers prompts, too: `/mcp prompt` lists them"})
	}
	return blocks
}

// status gives how an entry is; one that the registry does not list yet is starting.
func (b *Bot) status(ctx context.Context, t turn, e schemas.Entry) (schemas.Status, error) {
	ss, err := b.opt.Tools.Status(ctx, t.caller.Thread)
	if err != nil {
		return schemas.Status{}, err
	}
	i := slices.IndexFunc(ss, func(s schemas.Status) bool { return s.Name == e.Name && s.Kind == e.Kind })
	if i < 0 {
		return schemas.Status{Name: e.Name, Kind: e.Kind, Owner: e.Owner, OwnerName: e.OwnerName, State: schemas.Starting}, nil
	}
	return b.viewed(ctx, t.caller, ss[i:i+1])[0], nil
}

// tools lists what the caller may use, or one tool whole.
func (b *Bot) tools(ctx context.Context, t turn) (Reply, error) {
	cfg, err := b.opt.Config.Load(ctx, t.caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	name := t.arg("name")
	ts, err := b.opt.Tools.Tools(ctx, t.caller)
	if err != nil {
		return Reply{}, err
	}
	if i := slices.IndexFunc(ts, func(x schemas.Tool) bool { return x.Full() == name || x.Model == name }); i >= 0 && name != "" {
		return b.oneTool(cfg, t, ts[i]), nil
	}
	if _, ok := cfg.Find(name); !ok && name != "" {
		return Reply{}, words.NotFound("server or tool", name, append(names(cfg), fulls(ts)...), "`/mcp list` shows all servers")
	}
	tab := &Table{Columns: []string{"tool", "", "what it does"}}
	n, tokens, last := 0, 0, ""
	for _, x := range ts {
		if name != "" && x.Server != name {
			continue
		}
		if x.Server != last {
			tab.Rows, last = append(tab.Rows, Row{Head: words.Clean(x.Server)}), x.Server
		}
		n, tokens = n+1, tokens+x.Tokens
		tab.Rows = append(tab.Rows, Row{Cells: []string{words.Clean(x.Full()), mark(cfg, t.caller, x, b), words.FirstLine(x.Description, 90)}})
	}
	if n == 0 {
		return Reply{Blocks: []Block{{Text: "no tools yet · `/mcp list` shows the servers"}}}, nil
	}
	return Reply{Blocks: []Block{{Text: words.Count(n, "tool", "tools") + ", " + words.About(tokens) + " tokens"}, {Table: tab}}}, nil
}

func fulls(ts []schemas.Tool) []string {
	all := make([]string, len(ts))
	for i, x := range ts {
		all[i] = x.Full()
	}
	return all
}

// mark says in a word or two what a call of the tool would meet.
func mark(cfg schemas.Config, c schemas.Caller, x schemas.Tool, b *Bot) string {
	if x.Held != "" {
		return "held: " + x.Held
	}
	d := cfg.Policy.Decide(x, c.Member, b.opt.Now())
	switch {
	case d.Verb == schemas.Deny && x.Risk != "" && d.Rule == "":
		return "blocked: " + x.Risk
	case d.Verb == schemas.Deny:
		return "denied"
	case d.Verb == schemas.AskVerb:
		return "asks"
	}
	return "runs"
}

func (b *Bot) oneTool(cfg schemas.Config, t turn, x schemas.Tool) Reply {
	d := cfg.Policy.Decide(x, t.caller.Member, b.opt.Now())
	why := mark(cfg, t.caller, x, b)
	if d.Why != "" {
		why += " · " + d.Why
	}
	facts := []Fact{{Label: "call", Value: why}, {Label: "for models", Value: words.Clean(x.Model)}, {Label: "cost", Value: words.About(x.Tokens) + " tokens"}}
	r := Reply{Blocks: []Block{{Text: words.Clean(x.Full())}, {Facts: facts}}}
	if x.Description != "" {
		r.Blocks = append(r.Blocks, Block{Code: words.Lines(x.Description)})
	}
	return append1(r, Block{Code: words.Lines(indent(x.Input))})
}

func append1(r Reply, bs ...Block) Reply {
	r.Blocks = append(r.Blocks, bs...)
	return r
}
