package bot

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	udiff "github.com/aymanbagabas/go-udiff"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Subscribe gives what happens by itself in a thread, as far as it is for that member; with an empty member, all of it, and
// the door heeds Notice.To. The channel holds 64 notices, the newest are kept; stop closes it and may be called twice.
func (b *Bot) Subscribe(thread schemas.ThreadID, member schemas.MemberID) (notices <-chan Notice, stop func()) {
	return b.desk.Subscribe(thread, member)
}

// Listen gives what happens by itself in all threads that match, for everybody; the door heeds Notice.To. match is called
// under a lock and must be quick and pure. The channel holds 1024 notices, the newest are kept; questions that wait are told
// again at once; stop closes it and may be called twice.
func (b *Bot) Listen(match func(schemas.ThreadID) bool) (notices <-chan Notice, stop func()) {
	return b.desk.Listen(match)
}

// Changed tells the doors of a thread that its servers, their states or its rules changed.
func (b *Bot) Changed(thread schemas.ThreadID) { b.desk.Changed(thread) }

// editedTTL is how long the card of a hand edit waits: nobody may be looking when it comes, and what it approves is bound to
// what it shows.
const editedTTL = 24 * time.Hour

// noteWait bounds the audit record of an edit from outside.
const noteWait = 5 * time.Second

// Edited is the watcher's notify. It pokes the registry and posts the card of a hand edit; it does not block on people.
func (b *Bot) Edited(ctx context.Context, e schemas.Edited) {
	ctx = context.WithoutCancel(ctx) // what an edit did is written down even while bobbin ends
	b.opt.Live.Poke(e.Thread)
	n := Notice{Thread: e.Thread, Changed: true}
	b.shown.mu.Lock()
	was := b.shown.edits[e.Thread]
	b.shown.mu.Unlock()
	now := was
	now.broken = len(e.Problems) > 0
	var line []Block
	if e.By != nil && !now.broken { // another bobbin asked, showed and wrote it down
		line = []Block{{Text: words.At(e.By.By, e.By.ByName) + " changed the config" + words.InDoor(e.By.Door) + ": " + words.Short(words.Clean(e.By.Summary), 200)}}
		e.Removed, e.Waiting = nil, nil
	}
	switch {
	case !e.Outside && !now.broken:
	case now.broken || len(e.Removed) > 0 || len(e.Waiting) > 0 || e.Policy:
		b.outside(ctx, e)
		if len(e.Waiting) > 0 && !now.broken {
			e.Waiting = append(b.stillWaiting(ctx, was.waiting, e), e.Waiting...)
			now.waiting = e.Waiting
		}
		n.Reply = b.editedCard(e)
		if n.Reply.ID != "" {
			now.card, n.Reply.Replace = n.Reply.ID, was.card
			b.desk.Drop(was.card)
		}
	case was.broken:
		n.Reply = Reply{Blocks: []Block{{Text: "the file can be read again; nothing else changed"}}}
	}
	n.Reply.Blocks = append(line, n.Reply.Blocks...)
	b.shown.mu.Lock()
	b.shown.edits[e.Thread] = now
	b.shown.mu.Unlock()
	b.desk.Publish(n, "")
}

// newest is the cards of which a thread has one at a time: a newer one takes the place of the one before.
type newest struct {
	mu    sync.Mutex
	edits map[schemas.ThreadID]lastEdit
	held  map[string]string // thread and server → the card about held tools
}

// lastEdit is what was said last about a hand edit of a thread: a newer card takes the place of one that nobody answered, and
// holds what that one held.
type lastEdit struct {
	card    string
	waiting []schemas.Change
	broken  bool
}

// stillWaiting gives those of an earlier card that a newer edit leaves as they were.
func (b *Bot) stillWaiting(ctx context.Context, earlier []schemas.Change, e schemas.Edited) []schemas.Change {
	if len(earlier) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, noteWait)
	defer cancel()
	cfg, err := b.opt.Config.Load(ctx, e.Thread)
	if err != nil {
		b.opt.Log.Warn("earlier hand edits are not shown again", "thread", e.Thread, "err", err)
		return nil
	}
	return slices.DeleteFunc(slices.Clone(earlier), func(w schemas.Change) bool {
		entry, ok := cfg.Find(w.Server)
		again := slices.ContainsFunc(e.Waiting, func(n schemas.Change) bool { return n.Server == w.Server })
		return !ok || again || !entry.Pending() || w.After == nil || entry.Fingerprint() != w.After.Fingerprint()
	})
}

// outside writes down what came in by another hand; who did it is not known.
func (b *Bot) outside(ctx context.Context, e schemas.Edited) {
	var parts []string
	if len(e.Removed) > 0 {
		parts = append(parts, "removed "+strings.Join(e.Removed, ", "))
	}
	for _, c := range e.Waiting {
		parts = append(parts, string(c.Kind)+" "+c.Server)
	}
	if len(e.Problems) > 0 {
		parts = append(parts, "unreadable")
	}
	if e.Policy {
		parts = append(parts, "policy.json")
	}
	ctx, cancel := context.WithTimeout(ctx, noteWait)
	defer cancel()
	b.desk.Noted(ctx, schemas.Caller{Thread: e.Thread}, schemas.Record{Event: schemas.EventOutside, Detail: words.Short(words.Clean(strings.Join(parts, " · ")), 300)})
}

func (b *Bot) editedCard(e schemas.Edited) Reply {
	if len(e.Problems) > 0 {
		r := Reply{Bad: true, Code: schemas.CodeUnreadable, Blocks: view.Unreadable(e.Problems)}
		return view.With(r, Block{Text: "nothing was changed; put it right in the editor, or `/mcp undo`"})
	}
	file := "mcp.json"
	if len(e.Removed) == 0 && len(e.Waiting) == 0 {
		file = "policy.json"
	} else if len(e.Waiting) > 0 && !slices.ContainsFunc(e.Waiting, func(c schemas.Change) bool { return !c.Remote }) {
		file = "mcp_remote.json"
	}
	r := Reply{Blocks: []Block{{Text: file + " was edited outside of chat"}}}
	var facts []Fact
	for _, n := range e.Removed {
		facts = append(facts, Fact{Label: "removed", Value: words.Clean(n), Note: "stopped"})
	}
	for _, c := range e.Waiting {
		note := "waits for approval"
		if c.Kind == schemas.Changed {
			note = words.Clean(strings.Join(c.Fields, ", ")) + "; waits for approval, the running one goes on"
		}
		facts = append(facts, Fact{Label: string(c.Kind), Value: words.Clean(c.Server), Note: note})
	}
	if e.Policy {
		facts = append(facts, Fact{Label: "rules", Value: "policy.json holds as it stands now", Note: "`/mcp policy show`"})
	}
	r.Blocks = append(r.Blocks, Block{Facts: facts})
	if len(e.Waiting) == 0 {
		return r
	}
	p := schemas.Proposal{Thread: e.Thread, Changes: e.Waiting}
	for _, c := range e.Waiting {
		if c.After != nil {
			if len(e.Waiting) > 1 {
				r.Blocks = append(r.Blocks, Block{Text: words.Clean(c.Server)})
			}
			r.Blocks = append(r.Blocks, Block{Facts: view.ChangeFacts(p, schemas.Change{Server: c.Server, Kind: schemas.Added, After: c.After, Remote: c.Remote})})
		}
	}
	r.Blocks = append(r.Blocks, Block{Facts: view.CommonFacts(p, b.opt.Place(p.Thread))})
	r.Blocks = append(r.Blocks, view.NoteWarnings(p)...)
	r.Choices = []Choice{{Key: "change", Label: "Show the change"}, {Key: "approve", Label: "Approve"}, {Key: "back", Label: "Put back"}}
	c := &desk.Card{By: schemas.Caller{Thread: e.Thread}, Ttl: editedTTL, Role: schemas.Member, Look: []string{"change"}, May: func(c schemas.Caller) error { return mayApprove(c, e.Waiting) }}
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice == "change" {
			return Reply{Private: true, ID: a.ID, Expires: c.Expires, Choices: r.Choices, Blocks: view.WaitingDiffs(e.Waiting)}, nil
		}
		return b.judge(ctx, t, e.Waiting, a.Choice == "approve")
	}
	return b.desk.Deal(c, r)
}

// mayApprove lets owners judge their own entries and managers all; entries of nobody are a manager's.
func mayApprove(c schemas.Caller, waiting []schemas.Change) error {
	if c.Manages() || slices.ContainsFunc(waiting, func(w schemas.Change) bool { return w.Owner == c.Member }) {
		return nil
	}
	return &schemas.Error{Code: schemas.CodeDenied, Text: "only the owner of a server or a manager of the thread can approve it"}
}

// judge approves or puts back what the card showed, as far as it is the caller's to judge. What changed again since is shown
// again instead.
func (b *Bot) judge(ctx context.Context, t desk.Turn, waiting []schemas.Change, approve bool) (Reply, error) {
	var names []string
	seen := map[string]string{}
	for _, w := range waiting {
		if t.Caller.Manages() || w.Owner == t.Caller.Member {
			names = append(names, w.Server)
			if w.After != nil {
				seen[w.Server] = w.After.Fingerprint()
			}
		}
	}
	edit := schemas.Edit{Approve: names, Source: "approve"}
	if !approve {
		edit = schemas.Edit{Source: "put back"}
		for _, w := range waiting {
			switch {
			case !slices.Contains(names, w.Server):
			case w.Kind == schemas.Added: // there is nothing to put back but its absence
				edit.Remove = append(edit.Remove, w.Server)
			default:
				edit.PutBack = append(edit.PutBack, w.Server)
			}
		}
	}
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventAsked, Detail: edit.Source + " " + strings.Join(names, ", ")}); err != nil {
		return Reply{}, err
	}
	p, err := b.opt.Config.Propose(ctx, t.Caller, edit)
	if err != nil {
		return Reply{}, err
	}
	p.By = t.Caller
	for _, c := range p.Changes {
		if fp := seen[c.Server]; approve && c.Kind != schemas.Unchanged && (c.After == nil || c.After.Fingerprint() != fp) {
			return b.again(ctx, t, edit, p, nil)
		}
	}
	if p.Empty() {
		return Reply{Blocks: []Block{{Text: "nothing waits any more"}}}, nil
	}
	return b.confirm(ctx, t, edit, p, nil)
}

// approvedDiff shows what a yes to files that stand there already is about: what was approved before against what they say now.
func (b *Bot) approvedDiff(ctx context.Context, p schemas.Proposal) (string, error) {
	if !slices.ContainsFunc(p.Changes, func(c schemas.Change) bool { return c.Kind == schemas.Approved }) {
		return "", nil
	}
	cfg, err := b.opt.Config.Load(ctx, p.Thread)
	if err != nil {
		return "", err
	}
	var was, is strings.Builder
	for _, c := range p.Changes {
		if c.Kind != schemas.Approved || c.After == nil {
			continue
		}
		if e, ok := cfg.Find(c.Server); ok && e.Approval != nil {
			was.WriteString(c.Server + ": " + view.Indented(e.Approval.Definition))
		}
		is.WriteString(c.Server + ": " + view.Indented(*c.After))
	}
	return view.NoHeader(udiff.Unified("a", "b", was.String(), is.String())), nil
}
