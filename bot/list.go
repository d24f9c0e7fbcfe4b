package bot

import (
	"context"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// list shows everything that is stored, in load order and by kind.
func (b *Bot) list(ctx context.Context, t desk.Turn) (Reply, error) {
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	ss, err := b.opt.Tools.Status(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	ss = b.viewed(ctx, t.Caller, ss)
	r := Reply{Blocks: view.Unreadable(cfg.Problems)}
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
			tab.Rows = append(tab.Rows, view.ServerRow(t.Caller, s, b.opt.Now()))
			if wantsOf(t.Caller, s) {
				needy = append(needy, s)
			}
		}
	}
	r.Blocks = append(r.Blocks, Block{Table: tab})
	if t.Caller.Role == schemas.Guest {
		needy = nil
	}
	return b.offerNeeds(t, r, needy), nil
}

// show opens one server.
func (b *Bot) show(ctx context.Context, t desk.Turn) (Reply, error) {
	e, cfg, err := b.entry(ctx, t, t.Arg("name"))
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
	facts := []Fact{{Label: "kind", Value: string(e.Kind)}, {Label: "owner", Value: view.OwnerText(t.Caller, s)}}
	if e.Title != "" && e.Title != e.Name {
		facts = append(facts, Fact{Label: "written", Value: words.Clean(e.Title)})
	}
	if e.Remote() {
		facts = append(facts, Fact{Label: "sends to", Value: words.Clean(words.SafeURL(e.URL))})
	} else {
		facts = append(facts, Fact{Label: "runs", Value: words.CommandLine(e.Command, e.Args)}, Fact{Label: "where", Value: words.Clean(b.opt.Place(t.Caller.Thread).Where)})
	}
	if note := view.RowNote(t.Caller, s, b.opt.Now()); note != "" {
		facts = append(facts, Fact{Label: "now", Value: note})
	}
	if s.Tools > 0 {
		facts = append(facts, Fact{Label: "tools", Value: words.Count(s.Tools, "tool", "tools") + ", " + words.About(s.Tokens) + " tokens", Note: "`/mcp tools " + words.Clean(e.Name) + "`"})
	}
	if e.Approval != nil {
		facts = append(facts, Fact{Label: "approved", Value: "by " + words.At(e.Approval.By, e.Approval.ByName) + ", " + e.Approval.At.UTC().Format("2006-01-02 15:04 UTC")})
	}
	r := Reply{Blocks: append(view.Unreadable(cfg.Problems), Block{Text: head}, Block{Facts: facts}, Block{Code: view.Definition(e.Server)})}
	if s.Stderr != "" && t.Caller.Role > schemas.Guest {
		r.Blocks = append(r.Blocks, Block{Text: "last lines on its standard error"}, Block{Code: words.Lines(s.Stderr)})
	}
	if t.Caller.Role > schemas.Guest && (s.State == schemas.Ready || s.State == schemas.Idle) {
		r.Blocks = append(r.Blocks, b.offered(ctx, t, s)...)
	}
	if choices := b.accountChoices(ctx, t.Caller, e); t.Caller.Role > schemas.Guest && len(choices) > 0 {
		r.Choices = choices
		r = b.desk.Deal(b.accountCard(t.Caller, e.Name), r)
	}
	return r, nil
}

// offered lists resources and prompts of a server that runs; that it has none is no failure.
func (b *Bot) offered(ctx context.Context, t desk.Turn, s schemas.Status) []Block {
	var blocks []Block
	if s.Resources {
		rs, err := b.opt.Resources.Resources(ctx, t.Caller)
		if err != nil {
			b.opt.Log.Warn("resources not listed", "thread", t.Caller.Thread, "server", s.Name, "err", err)
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
func (b *Bot) status(ctx context.Context, t desk.Turn, e schemas.Entry) (schemas.Status, error) {
	ss, err := b.opt.Tools.Status(ctx, t.Caller.Thread)
	if err != nil {
		return schemas.Status{}, err
	}
	i := slices.IndexFunc(ss, func(s schemas.Status) bool { return s.Name == e.Name && s.Kind == e.Kind })
	if i < 0 {
		return schemas.Status{Name: e.Name, Kind: e.Kind, Owner: e.Owner, OwnerName: e.OwnerName, State: schemas.Starting}, nil
	}
	return b.viewed(ctx, t.Caller, ss[i:i+1])[0], nil
}

// tools lists what the caller may use, or one tool whole.
func (b *Bot) tools(ctx context.Context, t desk.Turn) (Reply, error) {
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	name := t.Arg("name")
	ts, err := b.opt.Tools.Tools(ctx, t.Caller)
	if err != nil {
		return Reply{}, err
	}
	if i := slices.IndexFunc(ts, func(x schemas.Tool) bool { return x.Full() == name || x.Model == name }); i >= 0 && name != "" {
		return view.OneTool(cfg, t.Caller, ts[i], b.opt.Now()), nil
	}
	if _, ok := cfg.Find(name); !ok && name != "" {
		return Reply{}, words.NotFound("server or tool", name, append(names(cfg), view.Fulls(ts)...), "`/mcp list` shows all servers")
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
		tab.Rows = append(tab.Rows, Row{Cells: []string{words.Clean(x.Full()), view.Mark(cfg, t.Caller, x, b.opt.Now()), words.FirstLine(x.Description, 90)}})
	}
	if n == 0 {
		return Reply{Blocks: []Block{{Text: "no tools yet · `/mcp list` shows the servers"}}}, nil
	}
	return Reply{Blocks: []Block{{Text: words.Count(n, "tool", "tools") + ", " + words.About(tokens) + " tokens"}, {Table: tab}}}, nil
}
