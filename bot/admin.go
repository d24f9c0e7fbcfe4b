package bot

import (
	"context"
	"slices"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// operators knows the operator's servers. List names those that the caller may attach to their thread, and those that are; Attach
// and Detach answer CodeDenied for who may not, without a word on what exists.
type operators interface {
	List(context.Context, schemas.Caller) ([]schemas.AdminServer, error)
	Attach(ctx context.Context, caller schemas.Caller, name string) error
	Detach(ctx context.Context, caller schemas.Caller, name string) error
}

func noOperator() error {
	return &schemas.Error{Code: schemas.CodeMissing, Text: "the operator has no servers here", Hint: "add one of your own with `/mcp add` or `/mcp connect`"}
}

func (b *Bot) adminList(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Operator == nil {
		return Reply{}, noOperator()
	}
	all, err := b.opt.Operator.List(ctx, t.Caller)
	if err != nil {
		return Reply{}, err
	}
	if len(all) == 0 {
		return Reply{}, &schemas.Error{Code: schemas.CodeMissing, Text: "there are no servers of the operator that this thread may use", Hint: "the operator adds them with bobbin mcp add, and opens them with allow: in mcps.yaml"}
	}
	tab := &Table{Columns: []string{"name", "type", "state", ""}}
	for _, s := range all {
		note := "`/mcp attach " + words.Clean(s.Name) + "`"
		if s.Attached {
			note = "attached · `/mcp detach " + words.Clean(s.Name) + "`"
		}
		tab.Rows = append(tab.Rows, Row{Cells: []string{words.Clean(s.Name), words.Clean(s.Type), words.Clean(s.State), note}})
	}
	return Reply{Private: true, Blocks: []Block{{Text: "servers of the operator"}, {Table: tab}}}, nil
}

func (b *Bot) adminAttach(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Operator == nil {
		return Reply{}, noOperator()
	}
	name := t.Arg("name")
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if err := b.opt.Operator.Attach(ctx, t.Caller, name); err != nil {
		return Reply{}, err
	}
	b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventApprove, Server: name, Detail: "the operator's server is attached"})
	b.desk.Changed(t.Caller.Thread)
	if i := slices.IndexFunc(cfg.Entries, func(e schemas.Entry) bool {
		return schemas.Slug(e.Name) == schemas.Slug(name) && e.Kind != schemas.Admin
	}); i >= 0 {
		return Reply{Blocks: []Block{{Text: words.Clean(name) + " is attached, but shadowed: a server of this thread has the name and comes first"}}}, nil
	}
	done, err := b.bring(ctx, t, func(ctx context.Context) error { return b.opt.Live.Apply(ctx, t.Caller.Thread) })
	if err != nil {
		return b.desk.Saved(t, nil, err), nil
	}
	return b.told(ctx, t, []string{name}, []Block{{Text: words.Clean(name) + " is attached; its calls run with the operator's credentials"}}, done)
}

func (b *Bot) adminDetach(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Operator == nil {
		return Reply{}, noOperator()
	}
	name := t.Arg("name")
	if err := b.opt.Operator.Detach(ctx, t.Caller, name); err != nil {
		return Reply{}, err
	}
	b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCommit, Server: name, Detail: "the operator's server is detached"})
	b.desk.Changed(t.Caller.Thread)
	if err := b.rules.Applied(ctx, t.Caller.Thread); err != nil {
		return b.desk.Saved(t, nil, err), nil
	}
	return Reply{Blocks: []Block{{Text: words.Clean(name) + " is detached; others may use it on"}}}, nil
}

// attachable are the names for completion.
func (b *Bot) attachable(ctx context.Context, c schemas.Caller) (all []string) {
	if b.opt.Operator == nil {
		return nil
	}
	list, err := b.opt.Operator.List(ctx, c)
	if err != nil {
		return nil
	}
	for _, s := range list {
		if !s.Attached {
			all = append(all, s.Name)
		}
	}
	return all
}
