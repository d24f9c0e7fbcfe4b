package bot

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

const (
	maxWorks    = 2               // installations of one member at a time
	installTick = 2 * time.Second // of progress
)

// works is the installations that go on.
type works struct {
	mu sync.Mutex
	on map[string]schemas.MemberID // thread and server → whose sandbox
}

// begin reserves a server's name until end is called.
func (w *works) begin(thread schemas.ThreadID, server string, owner schemas.MemberID) (end func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, mine := string(thread)+" "+server, 0
	for _, m := range w.on {
		if m == owner {
			mine++
		}
	}
	switch {
	case w.on[key] != "":
		return nil, &schemas.Error{Code: schemas.CodeConflict, Text: words.Clean(server) + " is being installed already", Hint: "`/mcp list` shows it when it is done"}
	case mine >= maxWorks:
		return nil, &schemas.Error{Code: schemas.CodeConflict, Text: words.Thousands(mine) + " installations of yours go on already", Hint: "wait for one to end"}
	}
	if w.on == nil {
		w.on = map[string]schemas.MemberID{}
	}
	w.on[key] = owner
	return func() { w.mu.Lock(); delete(w.on, key); w.mu.Unlock() }, nil
}

// carryOut is what Confirm does: install, store, start. Whatever fails, nothing of it stays but the log.
func (b *Bot) carryOut(ctx context.Context, t desk.Turn, w wish, scripts bool) (Reply, error) {
	end, err := b.works.begin(w.by.Thread, w.plan.Server.Name, w.owner)
	if err != nil {
		return Reply{}, err
	}
	defer end()
	if err := b.installs(t); err != nil {
		return Reply{}, err
	}
	if _, err := b.proposeInstall(ctx, w); err != nil { // before minutes are spent on it
		return Reply{}, err
	}
	if scripts {
		plan, same, err := b.withScripts(ctx, t, w)
		if err != nil {
			return Reply{}, err
		}
		if w.plan = plan; !same {
			w.shown = schemas.Proposal{}
			r, err := b.installCard(ctx, w)
			r.Blocks = append([]Block{{Text: "the package is another one than the card showed, so nothing was done; this is what it would be now"}}, r.Blocks...)
			r.Bad, r.Code = true, schemas.CodeConflict
			return r, err
		}
	}
	how := ""
	if w.plan.Spec.Scripts {
		how = ", its scripts may run"
	}
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventApprove, Server: w.plan.Server.Name,
		Detail: "install " + w.what() + ", integrity " + words.Tail(words.Clean(w.plan.Integrity), 24) + how}); err != nil {
		return Reply{}, err
	}
	began := b.opt.Now()
	log, err := b.runInstall(ctx, t, w)
	if err != nil {
		return b.notInstalled(t, w, log, err), nil
	}
	head := words.Clean(w.plan.Server.Name) + " is installed: " + w.what() + " · " + words.Took(b.opt.Now().Sub(began))
	var r Reply
	if w.up != nil {
		r, err = b.swap(ctx, t, w)
		head = words.Clean(w.plan.Server.Name) + " is upgraded from " + w.version(w.up.From.Version) + " to " + w.version(w.plan.Version) + " · " + words.Took(b.opt.Now().Sub(began))
	} else {
		r, err = b.keepInstalled(ctx, t, w)
	}
	if err != nil {
		return b.notInstalled(t, w, log, err), nil
	}
	notes := afterNotes(log.Notes[min(len(w.plan.Notes), len(log.Notes)):])
	if w.up == nil || !r.Bad {
		r.Blocks = slices.Concat([]Block{{Text: head}}, notes, r.Blocks)
	}
	r.Blocks = append(r.Blocks, logBlock(w, log)...)
	return r, nil
}

// withScripts plans the same package with its scripts allowed. same: it is what the card showed in everything else.
func (b *Bot) withScripts(ctx context.Context, t desk.Turn, w wish) (plan schemas.PackagePlan, same bool, err error) {
	t.Tell("looking again, with scripts …")
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	spec := w.plan.Spec
	spec.Scripts = true
	plan, err = b.opt.Install.Resolve(look, w.by.Thread, w.owner, spec)
	if err != nil {
		return plan, false, err
	}
	if w.more != nil {
		plan = w.more.Onto(plan)
	}
	if w.up != nil { // what an upgrade keeps of the old definition
		plan.Server.Env, plan.Server.Timeout, plan.Server.Tools, plan.Server.Args = w.plan.Server.Env, w.plan.Server.Timeout, w.plan.Server.Tools, w.plan.Server.Args
	}
	was := w.plan
	same = plan.Version == was.Version && plan.Integrity == was.Integrity && plan.Folder == was.Folder && plan.Server.Equal(was.Server) && slices.Equal(plan.Scripts, was.Scripts)
	return plan, same, nil
}

// runInstall installs, and tells the newest line of it now and then. When it gives no error, the definition that it gives is
// the one that was shown.
func (b *Bot) runInstall(ctx context.Context, t desk.Turn, w wish) (schemas.PackageLog, error) {
	name := words.Clean(w.plan.Server.Name)
	t.Tell(name + " is being installed …")
	var mu sync.Mutex
	newest, told := "", ""
	var log schemas.PackageLog
	var err error
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(done)
		log, err = b.opt.Install.Install(ctx, w.by.Thread, w.owner, w.plan, func(line string) {
			mu.Lock()
			defer mu.Unlock()
			newest = line
		})
	})
	defer all.Wait()
	tick := time.NewTicker(installTick)
	defer tick.Stop()
	for {
		select {
		case <-done:
			if err == nil && log.Server.Fingerprint() != w.plan.Server.Fingerprint() {
				b.uninstall(ctx, w.by.Thread, w.owner, w.plan.Server)
				err = &schemas.Error{Code: schemas.CodeFailed, Text: "what was installed starts otherwise than the card showed, so it was removed"}
			}
			return log, err
		case <-tick.C:
			mu.Lock()
			line := newest
			mu.Unlock()
			if line != told && strings.TrimSpace(line) != "" {
				told = line
				t.Tell(name + " is being installed · " + words.Short(words.Bare(line), 120))
			}
		}
	}
}

// keepInstalled stores what was installed and starts it. When it cannot, the folder is removed.
func (b *Bot) keepInstalled(ctx context.Context, t desk.Turn, w wish) (Reply, error) {
	p, err := b.storeInstalled(ctx, t, w)
	if err != nil {
		b.uninstall(ctx, w.by.Thread, w.owner, w.plan.Server)
		return Reply{}, err
	}
	return b.settle(ctx, t, p)
}

// storeInstalled commits the definition that the card showed. Other changes of the config meanwhile are no hindrance, since the yes
// is to this definition.
func (b *Bot) storeInstalled(ctx context.Context, t desk.Turn, w wish) (schemas.Proposal, error) {
	for range 5 {
		if err := ctx.Err(); err != nil {
			return schemas.Proposal{}, err
		}
		p, err := b.proposeInstall(ctx, w)
		if err != nil {
			return p, err
		}
		cfg, err := b.opt.Config.Load(ctx, p.Thread)
		if err != nil {
			return p, err
		}
		stale, err := b.commit(ctx, t, p, cfg)
		if err != nil || !stale {
			return p, err
		}
	}
	return schemas.Proposal{}, &schemas.Error{Code: schemas.CodeConflict, Text: "the config changes all the time", Hint: "ask for the installation again"}
}

// uninstall removes a folder although the one who asked may be gone; false: it is still there.
func (b *Bot) uninstall(ctx context.Context, thread schemas.ThreadID, owner schemas.MemberID, s schemas.Server) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
	defer cancel()
	if err := b.opt.Install.Uninstall(ctx, thread, owner, s); err != nil {
		b.opt.Log.Warn("what was installed stays in the sandbox", "thread", thread, "member", owner, "server", s.Name, "err", err)
		return false
	}
	return true
}

// notInstalled words a failure: why, what it means, and the log.
func (b *Bot) notInstalled(t desk.Turn, w wish, log schemas.PackageLog, err error) Reply {
	r := b.desk.Refusal(t.Caller, err)
	r.Private = false
	text := words.Clean(w.plan.Server.Name) + " was not installed and nothing is stored"
	if w.up != nil {
		text = words.Clean(w.plan.Server.Name) + " stays at " + w.version(w.up.From.Version)
	}
	r.Blocks = append(r.Blocks, Block{Text: text})
	r.Blocks = append(r.Blocks, afterNotes(log.Notes[min(len(w.plan.Notes), len(log.Notes)):])...)
	r.Blocks = append(r.Blocks, logBlock(w, log)...)
	return r
}

func logBlock(w wish, log schemas.PackageLog) []Block {
	if strings.TrimSpace(log.Text) == "" {
		return nil
	}
	return []Block{{File: &schemas.File{Name: schemas.Slug(w.plan.Server.Name) + "-install.log.txt", MIME: "text/plain; charset=utf-8", Data: []byte(words.Lines(log.Text))}}}
}

// afterNotes draws what an installation found out.
func afterNotes(notes []schemas.Note) []Block {
	var blocks []Block
	for _, n := range notes {
		if n.Kind == schemas.NoteRisk {
			blocks = append(blocks, Block{Warning: "risk: " + view.NoteText(n)})
		} else {
			blocks = append(blocks, Block{Text: view.NoteText(n)})
		}
	}
	return blocks
}

// removedFolder is the folder that goes with a server that a change removes.
func (b *Bot) removedFolder(c schemas.Change) (string, bool) {
	if b.opt.Install == nil || c.Kind != schemas.Removed || c.Before == nil || c.Before.Remote() {
		return "", false
	}
	return b.opt.Install.Folder(*c.Before)
}

// folderFact says on the card of a removal that what was installed goes with it, and on that of an undo that it may be gone.
func (b *Bot) folderFact(p schemas.Proposal, c schemas.Change) []Fact {
	if folder, ok := b.removedFolder(c); ok {
		return []Fact{{Label: "deletes", Value: words.Clean(folder), Note: "an undo brings the entry back, not what was installed"}}
	}
	if p.Edit.Undo == "" || b.opt.Install == nil || c.After == nil || !view.Runs(c.Kind) {
		return nil
	}
	if folder, ok := b.opt.Install.Folder(*c.After); ok {
		return []Fact{{Label: "starts from", Value: words.Clean(folder), Note: "if that was deleted, it has to be installed again"}}
	}
	return nil
}

// uninstalled deletes what was installed for servers that a proposal removed, as far as no other server of their owner starts
// from there.
func (b *Bot) uninstalled(ctx context.Context, p schemas.Proposal) []Block {
	var blocks []Block
	for _, c := range p.Changes {
		folder, ok := b.removedFolder(c)
		if !ok {
			continue
		}
		rest, cancel := desk.After(ctx)
		cfg, err := b.opt.Config.Load(rest, p.Thread)
		cancel()
		other := func(e schemas.Entry) bool {
			f, ok := b.opt.Install.Folder(e.Server)
			return ok && f == folder && e.Owner == c.Owner
		}
		switch {
		case err == nil && slices.ContainsFunc(cfg.Entries, other):
			blocks = append(blocks, Block{Text: words.Clean(folder) + " stays, since another server starts from there"})
		case err == nil && c.Owner != "" && b.uninstall(ctx, p.Thread, c.Owner, *c.Before):
			blocks = append(blocks, Block{Text: words.Clean(folder) + " is deleted from the sandbox"})
		default:
			blocks = append(blocks, Block{Text: words.Clean(folder) + " could not be deleted from the sandbox; it holds no secrets"})
		}
	}
	return blocks
}
