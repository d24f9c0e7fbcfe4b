package bot

import (
	"context"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// reload reads the files again, or starts one server anew.
func (b *Bot) reload(ctx context.Context, t desk.Turn) (Reply, error) {
	if name := t.Arg("name"); name != "" {
		e, _, err := b.entry(ctx, t, name)
		if err == nil {
			err = mayAccept(t.Caller, e)
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
	if _, err := b.bring(ctx, t, func(ctx context.Context) error { return b.opt.Live.Apply(ctx, t.Caller.Thread) }); err != nil {
		return Reply{}, err
	}
	return b.list(ctx, t)
}

// anew starts one server again; see bring.
func (b *Bot) anew(ctx context.Context, t desk.Turn, e schemas.Entry) (<-chan struct{}, error) {
	t.Tell(words.Clean(e.Name) + " is starting …")
	return b.bring(ctx, t, func(ctx context.Context) error { return b.restart(ctx, t.Caller.Thread, []string{e.Name}) })
}

// doctor says what is wrong and what to do. A server that failed or sleeps is started once, by who may change it.
func (b *Bot) doctor(ctx context.Context, t desk.Turn) (Reply, error) {
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if t.Arg("name") == "" {
		return b.checkup(ctx, t, cfg)
	}
	e, _, err := b.entry(ctx, t, t.Arg("name"))
	if err != nil {
		return Reply{}, err
	}
	s, err := b.status(ctx, t, e)
	if err != nil {
		return Reply{}, err
	}
	if (s.State == schemas.Failed || s.State == schemas.Idle) && mayChange(t.Caller, e) == nil {
		if _, err := b.anew(ctx, t, e); err != nil {
			return Reply{}, err
		}
		if s, err = b.status(ctx, t, e); err != nil {
			return Reply{}, err
		}
	}
	r := Reply{Blocks: view.Unreadable(cfg.Problems)}
	if s.State == schemas.Failed {
		r.Bad, r.Code = true, schemas.CodeNotReady
	}
	r.Blocks = append(r.Blocks, Block{Text: strings.TrimSuffix(view.Became(t.Caller, s), " · `/mcp doctor "+words.Clean(s.Name)+"`")}, Block{Facts: view.Findings(e, s, b.opt.Place(t.Caller.Thread))})
	if s.Stderr != "" {
		r.Blocks = append(r.Blocks, Block{Text: "last lines on its standard error"}, Block{Code: words.Lines(s.Stderr)})
	}
	r.Blocks = append(r.Blocks, Block{Text: "next: " + view.Next(t.Caller, e, s)})
	if wantsOf(t.Caller, s) {
		r = b.offerNeeds(t, r, []schemas.Status{s})
	}
	return r, nil
}

// checkup looks at all servers and names those that want something.
func (b *Bot) checkup(ctx context.Context, t desk.Turn, cfg schemas.Config) (Reply, error) {
	ss, err := b.opt.Tools.Status(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	ss = b.viewed(ctx, t.Caller, ss)
	r := Reply{Blocks: view.Unreadable(cfg.Problems)}
	tab := &Table{Columns: []string{"name", "state", "next"}}
	var unsigned []schemas.Status
	for _, s := range ss {
		if s.State == schemas.NeedsConnect && t.Caller.Role > schemas.Guest {
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
		tab.Rows = append(tab.Rows, Row{State: s.State, Cells: []string{words.Clean(s.Name), string(s.State), view.Next(t.Caller, e, s)}})
	}
	p := b.opt.Place(t.Caller.Thread)
	if !p.Available {
		r.Blocks = append(r.Blocks, Block{Text: words.Clean(words.WithHint(view.NoPlace(p), p.Hint))})
	}
	if len(tab.Rows) == 0 {
		return view.With(r, Block{Text: words.Count(len(ss), "server", "servers") + ", nothing wrong"}), nil
	}
	return b.offerNeeds(t, view.With(r, Block{Text: words.Count(len(tab.Rows), "server wants", "servers want") + " something"}, Block{Table: tab}), unsigned), nil
}
