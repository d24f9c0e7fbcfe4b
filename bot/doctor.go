package bot

import (
	"context"
	"strings"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// reload reads the files again, or starts one server anew.
func (b *Bot) reload(ctx context.Context, t turn) (Reply, error) {
	if name := t.arg("name"); name != "" {
		e, _, err := b.entry(ctx, t, name)
		if err == nil {
			err = mayAccept(t.caller, e)
		}
		if err != nil {
			return Reply{}, err
		}
		done, err := b.anew(ctx, t, e)
		if err != nil {
			return Reply{}, err
		}
		return b.told(ctx, t, []string{e.Name}, nil, done)
	}
	if _, err := b.bring(ctx, t, func(ctx context.Context) error { return b.opt.Live.Apply(ctx, t.caller.Thread) }); err != nil {
		return Reply{}, err
	}
	return b.list(ctx, t)
}

// anew starts one server again; see bring.
func (b *Bot) anew(ctx context.Context, t turn, e schemas.Entry) (<-chan struct{}, error) {
	t.tell(words.Clean(e.Name) + " is starting …")
	return b.bring(ctx, t, func(ctx context.Context) error { return b.restart(ctx, t.caller.Thread, []string{e.Name}) })
}

// doctor says what is wrong and what to do. A server that failed or sleeps is started once, by who may change it.
func (b *Bot) doctor(ctx context.Context, t turn) (Reply, error) {
	cfg, err := b.opt.Config.Load(ctx, t.caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if t.arg("name") == "" {
		return b.checkup(ctx, t, cfg)
	}
	e, _, err := b.entry(ctx, t, t.arg("name"))
	if err != nil {
		return Reply{}, err
	}
	s, err := b.status(ctx, t, e)
	if err != nil {
		return Reply{}, err
	}
	if (s.State == schemas.Failed || s.State == schemas.Idle) && mayChange(t.caller, e) == nil {
		if _, err := b.anew(ctx, t, e); err != nil {
			return Reply{}, err
		}
		if s, err = b.status(ctx, t, e); err != nil {
			return Reply{}, err
		}
	}
	r := Reply{Blocks: unreadable(cfg.Problems)}
	if s.State == schemas.Failed {
		r.Bad, r.Code = true, schemas.CodeNotReady
	}
	r.Blocks = append(r.Blocks, Block{Text: strings.TrimSuffix(b.became(t.caller, s), " · `/mcp doctor "+words.Clean(s.Name)+"`")}, Block{Facts: b.findings(t.caller, e, s)})
	if s.Stderr != "" {
		r.Blocks = append(r.Blocks, Block{Text: "last lines on its standard error"}, Block{Code: words.Lines(s.Stderr)})
	}
	r.Blocks = append(r.Blocks, Block{Text: "next: " + next(t.caller, e, s)})
	if wantsOf(t.caller, s) {
		r = b.offerNeeds(t, r, []schemas.Status{s})
	}
	return r, nil
}

func (b *Bot) findings(c schemas.Caller, e schemas.Entry, s schemas.Status) []Fact {
	def := "approved"
	switch {
	case e.Approval == nil:
		def = "never approved"
	case e.Pending():
		def = "changed since approval; the approved one runs on"
	}
	fs := []Fact{{Label: "definition", Value: def}}
	if !e.Remote() {
		p := b.opt.Place(c.Thread)
		where := words.Clean(p.Where)
		if !p.Available {
			where = words.Clean(words.WithHint(noPlace(p), p.Hint))
		}
		fs = append(fs, Fact{Label: "where", Value: where})
	}
	if len(s.Needs) > 0 {
		fs = append(fs, Fact{Label: "needs", Value: words.Clean(strings.Join(s.Needs, ", "))})
	} else {
		fs = append(fs, Fact{Label: "needs", Value: "nothing"})
	}
	if s.RunsAs != "" && signsIn(e.Server) {
		fs = append(fs, Fact{Label: "runs as", Value: words.Clean(s.RunsAs)})
	}
	if s.Took > 0 {
		fs = append(fs, Fact{Label: "handshake", Value: words.Thousands(int(s.Took.Milliseconds())) + " ms", Note: words.Clean(s.Protocol)})
	}
	tools := words.Count(s.Tools, "tool", "tools")
	if len(s.HeldTools) > 0 {
		tools += ", " + words.Count(len(s.HeldTools), "held", "held")
	}
	return append(fs, Fact{Label: "tools", Value: tools})
}

// next is the one thing to do now.
func next(c schemas.Caller, e schemas.Entry, s schemas.Status) string {
	name := words.Clean(e.Name)
	switch s.State {
	case schemas.Ready:
		if len(s.HeldTools) > 0 {
			return "`/mcp enable " + name + "` shows what changed in the held tools"
		}
		return "nothing; `/mcp tools " + name + "` lists what it can do"
	case schemas.Needs:
		if s.Owner != c.Member {
			return "ask " + words.At(s.Owner, s.OwnerName) + " to give " + words.Clean(strings.Join(s.Needs, ", "))
		}
		return "give " + words.Clean(strings.Join(s.Needs, ", "))
	case schemas.Failed:
		if e.Remote() {
			return "check the address and the key with `/mcp edit " + name + "`, then `/mcp reload " + name + "`"
		}
		if s.Stderr == "" {
			return "see that this command starts an MCP server on standard input and output: `/mcp edit " + name + "`"
		}
		return "put right what its last lines say: `/mcp edit " + name + "` if it is the command, else mend it and `/mcp reload " + name + "`"
	case schemas.NeedsConnect:
		return "sign in with `/mcp connect " + name + "`"
	case schemas.PendingState, schemas.Off, schemas.Held:
		return "`/mcp enable " + name + "`"
	case schemas.Idle:
		return "nothing; it starts with the first call"
	case schemas.ShadowedState:
		return "a server above it in the list has the same name; remove or rename one of them"
	case schemas.Starting:
		if s.Why != "" && !e.Remote() {
			return "if it stays so, see that this command starts an MCP server on standard input and output: `/mcp edit " + name + "`"
		}
		return "wait a little, then `/mcp doctor " + name + "` again"
	}
	return "`/mcp show " + name + "`"
}

// checkup looks at all servers and names those that want something.
func (b *Bot) checkup(ctx context.Context, t turn, cfg schemas.Config) (Reply, error) {
	ss, err := b.opt.Tools.Status(ctx, t.caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	ss = b.viewed(ctx, t.caller, ss)
	r := Reply{Blocks: unreadable(cfg.Problems)}
	tab := &Table{Columns: []string{"name", "state", "next"}}
	var unsigned []schemas.Status
	for _, s := range ss {
		if s.State == schemas.NeedsConnect && t.caller.Role > schemas.Guest {
			unsigned = append(unsigned, s)
		}
		e, _ := cfg.Find(s.Name)
		if e.Name == "" {
			e.Name = s.Name
		}
		calm := s.State == schemas.Ready || s.State == schemas.Idle || s.State == schemas.Off
		if calm && len(s.HeldTools) == 0 && !s.Pending {
			continue
		}
		tab.Rows = append(tab.Rows, Row{State: s.State, Cells: []string{words.Clean(s.Name), string(s.State), next(t.caller, e, s)}})
	}
	p := b.opt.Place(t.caller.Thread)
	if !p.Available {
		r.Blocks = append(r.Blocks, Block{Text: words.Clean(words.WithHint(noPlace(p), p.Hint))})
	}
	if len(tab.Rows) == 0 {
		return append1(r, Block{Text: words.Count(len(ss), "server", "servers") + ", nothing wrong"}), nil
	}
	return b.offerNeeds(t, append1(r, Block{Text: words.Count(len(tab.Rows), "server wants", "servers want") + " something"}, Block{Table: tab}), unsigned), nil
}
