package bot

import (
	"context"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// upgrade is /mcp install upgrade: a newer version, in a folder of its own, is shown, installed and started before the old one goes.
func (b *Bot) upgrade(ctx context.Context, t desk.Turn) (Reply, error) {
	if err := b.installs(t); err != nil {
		return Reply{}, err
	}
	e, err := b.mine(ctx, t, t.Arg("name"))
	if err != nil {
		return Reply{}, err
	}
	name := words.Clean(e.Name)
	if _, ok := b.opt.Install.Folder(e.Server); !ok || e.Remote() {
		return Reply{}, words.Invalid(name+" was not installed with `/mcp install`, so there is nothing to upgrade", "`/mcp edit "+name+"` changes what it starts")
	}
	switch {
	case e.Owner == "":
		return Reply{}, words.Invalid(name+" has no owner yet, so nobody's sandbox holds it", "`/mcp enable "+name+"`")
	case e.Pending():
		return Reply{}, &schemas.Error{Code: schemas.CodePending, Text: name + " waits for approval of an earlier change", Hint: "`/mcp enable " + name + "` shows it"}
	}
	t.Tell("looking for a newer " + name + " …")
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	up, err := b.opt.Install.Upgrade(look, t.Caller.Thread, e.Owner, e.Server, t.Arg("version"))
	if err != nil {
		return Reply{}, err
	}
	w := wish{by: t.Caller, owner: e.Owner, plan: up.Plan, up: &up, was: e}
	if up.Same {
		return Reply{Blocks: []Block{{Text: name + " is up to date: " + w.what()}}}, nil
	}
	return b.installCard(ctx, w)
}

// swap puts the new version in the old one's place. One that does not start is taken back and removed; the old one goes only
// after the new one came up.
func (b *Bot) swap(ctx context.Context, t desk.Turn, w wish) (Reply, error) {
	name := w.was.Name
	if _, err := b.storeInstalled(ctx, t, w); err != nil {
		b.uninstall(ctx, w.by.Thread, w.owner, w.plan.Server)
		return Reply{}, err
	}
	t.Tell(words.Clean(name) + " is starting …")
	s, err := b.cameUp(ctx, t.Caller, name)
	if err != nil || s.State == schemas.Failed || s.State == schemas.Starting {
		return b.giveUp(ctx, t, w, s, err)
	}
	var blocks []Block
	if !b.uninstall(ctx, w.by.Thread, w.owner, w.was.Server) {
		blocks = []Block{{Text: "the old version could not be deleted from the sandbox"}}
	}
	r, _ := b.report(ctx, t, []string{name}, blocks, false)
	return r, nil
}

// cameUp starts what is approved, waits while a server is starting, and says how it is then.
func (b *Bot) cameUp(ctx context.Context, c schemas.Caller, name string) (schemas.Status, error) {
	wait, cancel := context.WithTimeout(ctx, b.opt.StartWait)
	defer cancel()
	if err := b.opt.Live.Apply(wait, c.Thread); err != nil && wait.Err() == nil && startless(err) {
		return schemas.Status{}, err
	}
	return b.started(wait, c, name)
}

// giveUp brings the old version back after the new one did not start. It is done although the one who asked may be gone.
func (b *Bot) giveUp(ctx context.Context, t desk.Turn, w wish, s schemas.Status, why error) (Reply, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.opt.StartWait+tidyTime)
	defer cancel()
	name, reason := words.Clean(w.was.Name), "it was still starting after "+words.Took(b.opt.StartWait)
	switch {
	case why != nil:
		reason = "how it is could not be seen"
		b.opt.Log.Warn("an upgrade is taken back", "thread", w.by.Thread, "server", w.was.Name, "err", why)
	case s.State == schemas.Failed:
		reason = words.Short(words.Text(s.Why), 400)
	}
	r := Reply{Bad: true, Code: schemas.CodeFailed, Blocks: []Block{{Text: name + " " + w.version(w.plan.Version) + " did not start: " + reason}}}
	back := w
	back.plan.Server, back.shown, back.found = w.was.Server, schemas.Proposal{}, nil
	back.edit = schemas.Edit{Put: []schemas.Draft{{Server: w.was.Server, Disabled: !w.was.Enabled}}, Source: "install upgrade taken back"}
	if _, err := b.storeInstalled(ctx, t, back); err != nil {
		b.opt.Log.Error("an upgrade that did not start is still in the config", "thread", w.by.Thread, "server", w.was.Name, "err", err)
		r.Blocks = append(r.Blocks, Block{Text: "the old version could not be put back; both are still there · `/mcp undo` brings the old one back"})
		return r, nil
	}
	s, err := b.cameUp(ctx, t.Caller, w.was.Name)
	b.uninstall(ctx, w.by.Thread, w.owner, w.plan.Server)
	r.Blocks = append(r.Blocks, Block{Text: w.version(w.up.From.Version) + " is back, and the new one removed"})
	if err == nil {
		r.Blocks = append(r.Blocks, Block{Text: view.Became(t.Caller, s)})
	}
	return r, nil
}
