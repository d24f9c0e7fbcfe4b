package bot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// propose computes what an edit would do and deals the card for it. Nothing is written, started or contacted.
func (b *Bot) propose(ctx context.Context, t desk.Turn, edit schemas.Edit) (Reply, error) {
	return b.proposed(ctx, t, edit, nil)
}

// proposed is propose for an edit that adds a connector of which more is known; seen is nil for any other.
func (b *Bot) proposed(ctx context.Context, t desk.Turn, edit schemas.Edit, seen *remote) (Reply, error) {
	p, err := b.opt.Config.Propose(ctx, t.Caller, edit)
	if err != nil {
		return Reply{}, err
	}
	p.By, p.Edit = t.Caller, edit
	if !p.Empty() {
		for _, c := range p.Changes {
			if err := b.placeable(t.Caller, c); err != nil {
				return Reply{}, err
			}
		}
	} else if len(view.Found(p)) == 0 {
		if len(p.Remote) > 0 {
			return b.remoteOnly(t, p), nil
		}
		return Reply{Blocks: []Block{{Text: "No changes; everything is as that says already"}}}, nil
	}
	if p.Needs, err = b.unknownNeeds(ctx, p); err != nil {
		return Reply{}, err
	}
	if p.Diff == "" {
		if p.Diff, err = b.approvedDiff(ctx, p); err != nil {
			return Reply{}, err
		}
	}
	if seen != nil {
		seen.then = b.searchFact(ctx, t.Caller.Thread, seen)
	}
	return b.proposal(t.Caller, edit, p, seen), nil
}

// unknownNeeds leaves out what the vault holds already.
func (b *Bot) unknownNeeds(ctx context.Context, p schemas.Proposal) (map[string][]string, error) {
	needs := map[string][]string{}
	for _, c := range p.Changes {
		if len(p.Needs[c.Server]) == 0 || c.After == nil {
			continue
		}
		who := c.Owner
		if who == "" {
			who = p.By.Member
		}
		keys, err := b.opt.Secrets.Names(ctx, who, p.Thread)
		if err != nil {
			return nil, err
		}
		for _, id := range p.Needs[c.Server] {
			if !slices.Contains(keys, schemas.SecretKey{Member: who, Thread: p.Thread, Server: c.Server, Name: id, Origin: c.After.Origin()}) {
				needs[c.Server] = append(needs[c.Server], id)
			}
		}
	}
	return needs, nil
}

// placeable refuses what could not run here, before anybody confirms it.
func (b *Bot) placeable(c schemas.Caller, ch schemas.Change) error {
	if !view.Runs(ch.Kind) || ch.Remote {
		return nil
	}
	if p := b.opt.Place(c.Thread); !p.Available {
		return &schemas.Error{Code: schemas.CodeMissing, Text: view.NoPlace(p), Hint: p.Hint}
	}
	return nil
}

// proposal deals the card that stands before every change.
func (b *Bot) proposal(by schemas.Caller, edit schemas.Edit, p schemas.Proposal, seen *remote) Reply {
	r := Reply{
		Blocks: b.cardBlocks(p, seen),
		Choices: []Choice{
			{Key: desk.Confirm, Label: "Confirm", Style: "primary"}, {Key: desk.Cancel, Label: "Cancel"},
			{Key: desk.Everything, Label: "Show everything"},
		},
	}
	c := &desk.Card{By: by, Role: schemas.Member, May: desk.RequesterOrManager(by), Look: []string{desk.Everything}}
	for i, d := range p.Remote {
		key := fmt.Sprintf("connect:%d", i)
		r.Choices = append(r.Choices, Choice{Key: key, Label: "Connect " + words.HostOf(d.Server.URL)})
		c.Look = append(c.Look, key)
	}
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		switch {
		case a.Choice == desk.Confirm:
			return b.confirm(ctx, t, edit, p, seen)
		case a.Choice == desk.Everything:
			return Reply{Private: true, ID: a.ID, Expires: c.Expires, Blocks: append(view.Whole(p), offers(seen)...), Choices: r.Choices[:2:2]}, nil
		case strings.HasPrefix(a.Choice, "connect:"):
			return b.connectDraft(t, p, a.Choice)
		}
		b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCancelled, Detail: view.Summary(p)})
		return Reply{Blocks: append([]Block{{Text: "cancelled; nothing was changed"}}, b.undone(ctx, seen)...)}, nil
	}
	return b.desk.Deal(c, r)
}

func (b *Bot) cardBlocks(p schemas.Proposal, seen *remote) []Block {
	who := "you"
	if p.By.Door == schemas.DoorDiscord {
		who = words.At(p.By.Member, p.By.Name)
	}
	blocks := []Block{{Text: view.Summary(p) + " · asked by " + who}}
	var common []Fact
	changed := slices.DeleteFunc(slices.Clone(p.Changes), func(c schemas.Change) bool { return c.Kind == schemas.Unchanged && len(view.FoundOf(p, c)) == 0 })
	for _, c := range changed {
		facts := append(view.ChangeFacts(p, c), b.folderFact(p, c)...)
		if len(changed) > 1 && len(facts) > 0 {
			blocks = append(blocks, Block{Text: words.Clean(c.Server)})
		}
		if view.Runs(c.Kind) && common == nil {
			common = view.CommonFacts(p, b.opt.Place(p.Thread))
		}
		if len(facts) > 0 {
			blocks = append(blocks, Block{Facts: facts})
		}
	}
	if len(common) > 0 {
		if len(changed) == 1 {
			blocks[len(blocks)-1].Facts = append(blocks[len(blocks)-1].Facts, common...)
		} else {
			blocks = append(blocks, Block{Facts: common})
		}
	}
	if seen != nil {
		blocks = append(blocks, Block{Facts: append(seen.facts(), seen.then...)})
	}
	if len(p.Kept) > 0 {
		blocks = append(blocks, Block{Text: view.Kept(p.Kept)})
	}
	for _, d := range p.Remote {
		blocks = append(blocks, Block{Text: view.RemoteText(d.Server.Name)})
	}
	if p.Diff != "" {
		blocks = append(blocks, Block{Diff: words.Diff(p.Diff)})
	}
	return append(blocks, view.NoteBlocks(p)...)
}
