package bot

import (
	"context"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// secretList names the caller's values in this thread; values are never given out.
func (b *Bot) secretList(ctx context.Context, t desk.Turn) (Reply, error) {
	keys, err := b.opt.Secrets.Names(ctx, t.Caller.Member, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(keys) == 0 {
		return Reply{Private: true, Blocks: []Block{{Text: "your vault holds nothing for this thread · `/mcp secrets set NAME` gives a server what it needs"}}}, nil
	}
	tab := &Table{Columns: []string{"name", "server", "goes to"}}
	for _, k := range keys {
		to := "its program"
		if k.Origin != "local" {
			to = words.Clean(k.Origin)
		}
		if b.opt.Memory != nil && b.opt.Memory.Holds(k) {
			to += ", until bobbin ends"
		}
		tab.Rows = append(tab.Rows, Row{Cells: []string{words.Clean(k.Name), words.Clean(k.Server), to}})
	}
	return Reply{Private: true, Blocks: []Block{{Text: words.Count(len(keys), "value", "values") + " of yours; names only"}, {Table: tab}}}, nil
}

// secretSet asks for a value in a form. A value typed into the command is refused and not repeated.
func (b *Bot) secretSet(ctx context.Context, t desk.Turn) (Reply, error) {
	name, only := t.Arg("name"), t.Arg("server")
	typed := words.Invalid("values are never typed into a command, since others may see them; if that was a real one, replace it where it comes from",
		"`/mcp secrets set NAME` asks for it where nobody else sees it")
	if !schemas.ValidInput(name) || strings.ContainsAny(name, "=") {
		return Reply{}, typed
	}
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if _, ok := cfg.Find(only); !ok && only != "" {
		return Reply{}, typed
	}
	if len(users(cfg, t.Caller, name, only)) > 0 {
		return b.giveForm(ctx, t, []string{name}, only)
	}
	for _, e := range cfg.Entries {
		if slices.Contains(wanted(e), name) && e.Owner != t.Caller.Member && e.Owner != "" {
			return Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: name + " is for " + e.Name + ", which runs with its owner's values",
				Hint: "ask " + words.At(e.Owner, e.OwnerName) + " to give it"}
		}
	}
	var known []string
	for _, e := range cfg.Entries {
		if e.Owner == t.Caller.Member {
			known = append(known, wanted(e)...)
		}
	}
	err = words.NotFound("server of yours that uses that name", "", nil, "`/mcp list` shows what is needed")
	if n := schemas.Nearest(name, known); n != "" {
		err = &schemas.Error{Code: schemas.CodeNotFound, Text: "no server of yours uses that name", Hint: "did you mean `/mcp secrets set " + words.Clean(n) + "`?"}
	}
	return Reply{}, err
}

func (b *Bot) secretDelete(ctx context.Context, t desk.Turn) (Reply, error) {
	name, only := t.Arg("name"), t.Arg("server")
	keys, err := b.opt.Secrets.Names(ctx, t.Caller.Member, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	var known, from []string
	for _, k := range keys {
		known = append(known, k.Name)
		if k.Name != name || (only != "" && k.Server != only) {
			continue
		}
		if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventSecret, Server: k.Server, Detail: "deleted " + k.Name}); err != nil {
			return Reply{}, err
		}
		if err := b.opt.Secrets.Delete(ctx, k); err != nil {
			return Reply{}, err
		}
		from = append(from, k.Server)
	}
	if len(from) == 0 {
		hint := "`/mcp secrets list` names them"
		if n := schemas.Nearest(name, known); n != "" {
			hint = "did you mean " + words.Clean(n) + "?"
		}
		return Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "your vault holds no such value here", Hint: hint}
	}
	return Reply{Private: true, Blocks: []Block{{Text: words.Clean(name) + " is deleted from your vault, for " + words.Clean(strings.Join(from, ", ")) +
		"; a program that runs keeps it until `/mcp reload " + words.Clean(from[0]) + "`"}}}, nil
}
