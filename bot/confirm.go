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

// confirm carries out a proposal after a person's yes: audit, secrets, commit, start. On a conflict nothing of it stays and
// the change is shown again as it would be now.
func (b *Bot) confirm(ctx context.Context, t desk.Turn, edit schemas.Edit, p schemas.Proposal, seen *remote) (Reply, error) {
	for _, c := range p.Changes {
		if err := b.placeable(t.Caller, c); err != nil {
			return Reply{}, err
		}
	}
	cfg, err := b.opt.Config.Load(ctx, p.Thread)
	if err != nil {
		return Reply{}, err
	}
	stale, err := b.commit(ctx, t, p, cfg)
	if err != nil {
		return Reply{}, err
	}
	if stale {
		return b.again(ctx, t, edit, p, seen)
	}
	if p.Empty() {
		var names []string
		for _, f := range view.Found(p) {
			if !slices.Contains(names, f.Server) {
				names = append(names, f.Server)
			}
		}
		return b.up(ctx, t, names, names, []Block{{Text: map[bool]string{false: "the value is in the vault", true: "the value is held until bobbin ends"}[p.Edit.Hold]}})
	}
	b.keep(seen)
	r, err := b.settle(ctx, t, p)
	for _, d := range p.Remote {
		r.Blocks = append(r.Blocks, Block{Text: view.NotAdded(d.Server)})
	}
	return r, err
}

// commit stores a proposal: audit, secrets, config, or nothing of it. stale says that the config, of which cfg is a reading, is
// another one than the proposal was made for.
func (b *Bot) commit(ctx context.Context, t desk.Turn, p schemas.Proposal, cfg schemas.Config) (stale bool, err error) {
	if !p.Empty() && cfg.Base != p.Base {
		return true, nil
	}
	for _, c := range p.Changes {
		if view.Runs(c.Kind) && c.After != nil {
			if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventApprove, Server: c.Server,
				Detail: string(c.Kind) + ", approval " + c.After.Fingerprint()[:12]}); err != nil {
				return false, err
			}
		}
	}
	put, err := b.seal(ctx, t.Caller, p, cfg)
	if err != nil {
		b.unseal(ctx, put)
		return false, err
	}
	if p.Empty() {
		b.sealed(ctx, t, p)
		return false, nil
	}
	rev, err := b.opt.Config.Commit(ctx, t.Caller, p)
	if err != nil {
		b.unseal(ctx, put)
		if schemas.CodeOf(err) == schemas.CodeConflict {
			return true, nil
		}
		return false, err
	}
	b.sealed(ctx, t, p)
	b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCommit, Detail: strings.TrimSpace(rev.ID + " " + view.Summary(p))})
	b.desk.Changed(p.Thread)
	return false, nil
}

// sealed writes down which values went into the vault.
func (b *Bot) sealed(ctx context.Context, t desk.Turn, p schemas.Proposal) {
	kept := "set "
	if p.Edit.Hold {
		kept = "held until bobbin ends: "
	}
	for _, f := range view.Found(p) {
		b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventSecret, Server: f.Server, Detail: kept + f.Input})
	}
}

// again shows a change anew after the config changed under it. It stays the wish of the one who asked first.
func (b *Bot) again(ctx context.Context, t desk.Turn, edit schemas.Edit, p schemas.Proposal, seen *remote) (Reply, error) {
	asker := t
	asker.Caller = p.By
	r, err := b.proposed(ctx, asker, edit, seen)
	if err != nil {
		return Reply{}, err
	}
	r.Bad, r.Code = true, schemas.CodeConflict
	r.Blocks = append([]Block{{Text: "the config changed meanwhile, so nothing was done; this is the change as it would be now"}}, r.Blocks...)
	return r, nil
}

// seal puts the literal secrets of a proposal into the vault of each entry's owner. What it returns was not there before and
// can be taken back.
func (b *Bot) seal(ctx context.Context, by schemas.Caller, p schemas.Proposal, cfg schemas.Config) ([]schemas.SecretKey, error) {
	var put []schemas.SecretKey
	known := map[schemas.MemberID][]schemas.SecretKey{}
	for _, f := range view.Found(p) {
		i := slices.IndexFunc(p.Changes, func(c schemas.Change) bool { return c.Server == f.Server })
		key := schemas.SecretKey{Member: owner(by, p, p.Changes[i], cfg), Thread: p.Thread, Server: f.Server, Name: f.Input,
			Origin: p.Changes[i].After.Origin()}
		if known[key.Member] == nil {
			names, err := b.opt.Secrets.Names(ctx, key.Member, p.Thread)
			if err != nil {
				return put, err
			}
			known[key.Member] = append(names, schemas.SecretKey{})
		}
		if err := b.keeping(p)(ctx, key, f.Value); err != nil {
			return put, err
		}
		if !slices.Contains(known[key.Member], key) {
			put = append(put, key)
		}
	}
	return put, nil
}

// keeping gives what takes the values of a proposal.
func (b *Bot) keeping(p schemas.Proposal) func(context.Context, schemas.SecretKey, schemas.Secret) error {
	switch {
	case !p.Edit.Hold:
		return b.opt.Secrets.Put
	case b.opt.Memory != nil:
		return b.opt.Memory.Hold
	}
	return func(context.Context, schemas.SecretKey, schemas.Secret) error {
		return noMemory()
	}
}

// owner of an entry once the proposal is committed: who has it; who asked for a new one; who says yes to one of nobody.
func owner(by schemas.Caller, p schemas.Proposal, c schemas.Change, cfg schemas.Config) schemas.MemberID {
	if c.Owner != "" {
		return c.Owner
	}
	if e, ok := cfg.Find(c.Server); ok && e.Owner != "" {
		return e.Owner
	}
	if c.Before != nil {
		return by.Member
	}
	return p.By.Member
}

func (b *Bot) unseal(ctx context.Context, keys []schemas.SecretKey) {
	ctx, cancel := desk.After(ctx)
	defer cancel()
	for _, k := range keys {
		if err := b.opt.Secrets.Delete(ctx, k); err != nil {
			b.opt.Log.Error("secret of a change that was not made stays in the vault", "thread", k.Thread, "server", k.Server, "name", k.Name, "err", err)
		}
	}
}

// settle brings the servers in line and says how each of them is.
func (b *Bot) settle(ctx context.Context, t desk.Turn, p schemas.Proposal) (Reply, error) {
	var blocks []Block
	var names, rotated []string
	for _, c := range p.Changes {
		if c.Kind == schemas.Changed && c.Before != nil && c.After != nil && c.Before.Fingerprint() == c.After.Fingerprint() && len(view.FoundOf(p, c)) > 0 && !slices.Contains(c.Fields, "enabled") {
			rotated = append(rotated, c.Server)
		}
		switch {
		case c.Kind == schemas.Removed:
			blocks = append(blocks, Block{Text: words.Clean(c.Server) + " is removed · `/mcp undo`"})
			blocks = append(blocks, b.signOutAll(ctx, p.Thread, c)...)
			rest, cancel := desk.After(ctx)
			err := b.opt.Forget.Forget(rest, p.Thread, c.Server)
			cancel()
			if err != nil {
				b.opt.Log.Error("values of a removed server stay in the vault", "thread", p.Thread, "server", c.Server, "err", err)
				blocks = append(blocks, Block{Text: "its values could not be deleted from the vault; `/mcp secrets list` shows them"})
			}
		case c.Kind == schemas.Disabled:
			blocks = append(blocks, Block{Text: words.Clean(c.Server) + " is off; its entry stays · `/mcp enable " + words.Clean(c.Server) + "`"})
		case view.Runs(c.Kind):
			b.signOutOld(ctx, p.Thread, c)
			names = append(names, c.Server)
		}
	}
	r, err := b.up(ctx, t, names, rotated, blocks)
	r.Blocks = append(r.Blocks, b.uninstalled(ctx, p)...)
	return r, err
}

// report words the state of the named servers, offers to give what is missing, and names those that are still starting. again
// says that a notice follows about these.
func (b *Bot) report(ctx context.Context, t desk.Turn, names []string, blocks []Block, again bool) (r Reply, slow []string) {
	ctx, cancel := desk.After(ctx)
	defer cancel()
	statuses, err := b.opt.Tools.Status(ctx, t.Caller.Thread)
	if err != nil {
		return b.desk.Saved(t, blocks, err), nil
	}
	statuses = b.viewed(ctx, t.Caller, statuses)
	r = Reply{Blocks: blocks}
	var needy, seen []schemas.Status
	for _, n := range names {
		i := slices.IndexFunc(statuses, func(s schemas.Status) bool { return s.Name == n && s.State != schemas.ShadowedState })
		if i < 0 {
			r.Blocks = append(r.Blocks, Block{Text: words.Clean(n) + " is saved; `/mcp list` shows how it is"})
			continue
		}
		s := statuses[i]
		seen = append(seen, s)
		text := view.Became(t.Caller, s)
		if s.State == schemas.Starting {
			slow = append(slow, n)
			if again {
				text = view.StillStarting(s) + "; I tell you when it is ready"
			}
		}
		r.Blocks = append(r.Blocks, Block{Text: text})
		r.Bad = r.Bad || s.State == schemas.Failed
		if wantsOf(t.Caller, s) {
			needy = append(needy, s)
		}
	}
	if r.Bad {
		r.Code = schemas.CodeNotReady
	}
	if len(r.Blocks) == 0 {
		r.Blocks = []Block{{Text: "done"}}
	}
	if text := b.searched(ctx, t.Caller.Thread, statuses, seen); text != "" {
		r.Blocks = append(r.Blocks, Block{Text: text})
	}
	if len(blocks) == 0 && len(seen) > 1 {
		r.Blocks = append([]Block{{Text: words.Count(len(seen), "server: ", "servers: ") + view.Tally(seen)}}, r.Blocks...)
	}
	return b.offerNeeds(t, r, needy), slow
}
