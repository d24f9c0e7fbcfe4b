package bot

import (
	"context"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// maxHeldLines is how much of a diff a card shows before the rest is left to "Show the change".
const maxHeldLines = 30

// Held is the registry's word that tools of a server wait for approval: it posts a card to the thread, which takes the place of
// an earlier one about that server. It waits for the config at most, never for people.
func (b *Bot) Held(ctx context.Context, thread schemas.ThreadID, server string, tools []schemas.HeldTool) {
	cfg, err := b.opt.Config.Load(ctx, thread)
	if err != nil {
		b.opt.Log.Warn("held tools are not shown", "thread", thread, "server", server, "err", err)
		return
	}
	e, ok := cfg.Find(server)
	if !ok || len(tools) == 0 {
		return
	}
	blocks, names, pins := view.HeldBlocks(tools)
	shown, lines := blocks, 0
	for i, x := range blocks {
		if lines += strings.Count(x.Diff, "\n"); lines > maxHeldLines {
			shown = append(blocks[:i:i], Block{Text: "more of it: Show the change"})
			break
		}
	}
	r := Reply{Blocks: append([]Block{{Text: view.HeldHead(e.Name, tools)}}, shown...)}
	r.Blocks = append(r.Blocks, Block{Warning: heldWarning})
	r.Choices = []Choice{{Key: "change", Label: "Show the change"}, {Key: "approve", Label: "Approve"}}
	c := &desk.Card{By: schemas.Caller{Thread: thread}, Ttl: editedTTL, Role: schemas.Member, Look: []string{"change"},
		May: func(c schemas.Caller) error { return mayAccept(c, e) }}
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice == "change" {
			return Reply{Private: true, ID: a.ID, Expires: c.Expires, Choices: r.Choices, Blocks: blocks}, nil
		}
		return b.acceptTools(ctx, t, e, names, pins)
	}
	r = b.desk.Deal(c, r)
	key := string(thread) + " " + e.Name
	b.shown.mu.Lock()
	r.Replace, b.shown.held[key] = b.shown.held[key], r.ID
	b.shown.mu.Unlock()
	b.desk.Drop(r.Replace)
	b.desk.Publish(Notice{Thread: thread, Reply: r, Changed: true}, "")
}

const heldWarning = "What a tool says about itself steers the assistant. Approve only if you trust the new words."

// heldTool shows what changed in tools that are held, with the choice to approve what is shown.
func (b *Bot) heldTool(ctx context.Context, t desk.Turn, e schemas.Entry, tool string) (Reply, error) {
	hs, err := b.opt.Held.Held(ctx, t.Caller.Thread, e.Name)
	if err != nil {
		return Reply{}, err
	}
	var known []string
	var wanted []schemas.HeldTool
	for _, h := range hs {
		known = append(known, e.Name+"."+h.Tool.Name)
		if tool == "" || h.Tool.Name == tool {
			wanted = append(wanted, h)
		}
	}
	blocks, names, pins := view.HeldBlocks(wanted)
	if len(names) == 0 && tool == "" {
		return Reply{Blocks: []Block{{Text: words.Clean(e.Name) + " is on already"}}}, nil
	}
	if len(names) == 0 {
		return Reply{}, words.NotFound("held tool", e.Name+"."+tool, known, "`/mcp show "+words.Clean(e.Name)+"`")
	}
	if err := mayAccept(t.Caller, e); err != nil {
		return Reply{}, err
	}
	r := Reply{Blocks: append(append([]Block{{Text: view.HeldHead(e.Name, wanted)}}, blocks...), Block{Warning: heldWarning})}
	r.Choices = []Choice{{Key: "approve", Label: "Approve"}, {Key: "leave", Label: "Keep held"}}
	c := &desk.Card{By: t.Caller, Role: schemas.Member, May: desk.RequesterOrManager(t.Caller)}
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice != "approve" {
			return Reply{Blocks: []Block{{Text: "held as before"}}}, nil
		}
		return b.acceptTools(ctx, t, e, names, pins)
	}
	return b.desk.Deal(c, r), nil
}

// acceptTools approves held tools if they still are what the card showed.
func (b *Bot) acceptTools(ctx context.Context, t desk.Turn, e schemas.Entry, names, pins []string) (Reply, error) {
	hs, err := b.opt.Held.Held(ctx, t.Caller.Thread, e.Name)
	if err != nil {
		return Reply{}, err
	}
	now, seen := map[string]string{}, map[string]string{}
	for _, h := range hs {
		now[h.Tool.Name] = h.Tool.Pin
	}
	for i, n := range names {
		seen[n] = pins[i]
		if now[n] != pins[i] {
			return Reply{}, &schemas.Error{Code: schemas.CodeConflict, Text: words.Clean(n) + " changed again meanwhile, so nothing was approved",
				Hint: "`/mcp enable " + e.Name + "` shows it as it is now"}
		}
	}
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventApprove, Server: e.Name, Detail: "tools " + strings.Join(names, ", ")}); err != nil {
		return Reply{}, err
	}
	if err := b.opt.Held.Accept(ctx, t.Caller, e.Name, seen); err != nil {
		return Reply{}, err
	}
	b.desk.Changed(t.Caller.Thread)
	return Reply{Blocks: []Block{{Text: words.Clean(strings.Join(names, ", ")) + " of " + words.Clean(e.Name) + " can be used again"}}}, nil
}
