package bot

import (
	"context"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// sandboxes are the members' own. Exec runs one command to its end; Stop keeps the workspace, Remove nothing. Called after the permission was
// checked; errors are *schemas.Error with words.
type sandboxes interface {
	Exec(context.Context, schemas.Exec) (schemas.Executed, error)
	Status(context.Context, schemas.MemberID) (schemas.Box, error)
	Stop(context.Context, schemas.MemberID) error
	Remove(context.Context, schemas.MemberID) error
}

const (
	shellTime  = 5 * time.Minute // of one command
	maxCommand = 8 << 10         // bytes
)

// noSandbox says why there is none, and how the operator gets one.
func (b *Bot) noSandbox(t desk.Turn) error {
	p := b.opt.Place(t.Caller.Thread)
	if p.Available {
		return &schemas.Error{Code: schemas.CodeMissing, Text: "there are no containers here; programs run on " + words.Clean(p.Where), Hint: "the operator starts Docker and bobbin with --sandbox docker"}
	}
	return &schemas.Error{Code: schemas.CodeMissing, Text: words.Clean(p.Why), Hint: words.Clean(p.Hint)}
}

func (b *Bot) sandboxStatus(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Sandboxes == nil {
		return Reply{}, b.noSandbox(t)
	}
	x, err := b.opt.Sandboxes.Status(ctx, t.Caller.Member)
	if err != nil {
		return Reply{}, err
	}
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	head := map[string]string{"none": "you have no sandbox yet; it is made when a server of yours starts", "stopped": "your sandbox is stopped; /workspace is kept", "running": "your sandbox runs"}[x.State]
	r := Reply{Private: true, Blocks: []Block{{Text: head}}}
	var fs []Fact
	if x.ID != "" {
		fs = append(fs, Fact{Label: "container", Value: words.Clean(x.ID), Note: words.Clean(x.Image)})
	}
	if !x.Since.IsZero() {
		fs = append(fs, Fact{Label: "up", Value: words.Took(b.opt.Now().Sub(x.Since)), Note: words.Count(x.Servers, "program", "programs")})
	}
	for i, l := range x.Locks {
		fs = append(fs, Fact{Label: map[bool]string{true: "locks"}[i == 0], Value: words.Clean(l)})
	}
	shell := "closed"
	for _, p := range cfg.Policy.Permissions {
		if p.Member == t.Caller.Member && cfg.Policy.Permits(p.Member, schemas.Shell, schemas.Execute, b.opt.Now()) {
			shell = "open " + view.Until(p.Until, b.opt.Now())
		}
	}
	fs = append(fs, Fact{Label: "shell", Value: shell, Note: "`/mcp sandbox exec`"})
	r.Blocks = append(r.Blocks, Block{Facts: fs})
	for _, m := range x.Missing {
		r.Blocks = append(r.Blocks, Block{Warning: words.Clean(m)})
	}
	return r, nil
}

func (b *Bot) sandboxExec(ctx context.Context, t desk.Turn) (Reply, error) {
	res, d, err := b.exec(ctx, t, t.Arg("command"), t.Arg("cwd"))
	if err != nil {
		return Reply{}, err
	}
	return view.Ran(res, d), nil
}

// workspace joins a folder to /workspace, which it must not leave.
func workspace(dir string) (string, error) {
	dir = strings.TrimSpace(dir)
	if dir == "" {
		return "", nil
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(dir, "/workspace"), "/")
	if strings.HasPrefix(dir, "/") && dir != "/workspace" && !strings.HasPrefix(dir, "/workspace/") || slices.Contains(strings.Split(rest, "/"), "..") || strings.ContainsRune(dir, 0) {
		return "", words.Invalid("a folder lies under /workspace", "such as external-mcp/notes")
	}
	return strings.TrimSuffix("/workspace/"+rest, "/"), nil
}

func (b *Bot) sandboxStop(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Sandboxes == nil {
		return Reply{}, b.noSandbox(t)
	}
	switch t.Arg("what") {
	case "":
	case "remove":
		return b.sandboxRemove(t), nil
	default:
		return Reply{}, words.Invalid("that is nothing to do with a sandbox", "`/mcp sandbox stop`, or `/mcp sandbox stop remove`, which deletes /workspace, too")
	}
	if err := b.opt.Sandboxes.Stop(ctx, t.Caller.Member); err != nil {
		return Reply{}, err
	}
	b.desk.Changed(t.Caller.Thread)
	return Reply{Private: true, Blocks: []Block{{Text: "your sandbox is stopped, and your servers in it; /workspace is kept, and a call starts them again"}}}, nil
}

// sandboxRemove asks before everything in the sandbox is gone.
func (b *Bot) sandboxRemove(t desk.Turn) Reply {
	r := Reply{Private: true, Blocks: []Block{{Text: "remove your sandbox with everything in /workspace?"},
		{Warning: "It is yours in every thread. Servers that you installed in it are gone, and their entries fail until you install them again. Configs and your vault stay."}},
		Choices: []Choice{{Key: desk.Confirm, Label: "Confirm", Style: "danger"}, {Key: desk.Cancel, Label: "Cancel"}}}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice != desk.Confirm {
			b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCancelled, Detail: "remove the sandbox"})
			return Reply{Private: true, Blocks: []Block{{Text: "cancelled; nothing was changed"}}}, nil
		}
		if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventAsked, Detail: "/mcp sandbox stop remove: confirmed, with the workspace"}); err != nil {
			return Reply{}, err
		}
		if err := b.opt.Sandboxes.Remove(ctx, t.Caller.Member); err != nil {
			return Reply{}, err
		}
		b.desk.Changed(t.Caller.Thread)
		return Reply{Private: true, Blocks: []Block{{Text: "your sandbox is removed, /workspace with it; the next server of yours that starts gets a new one"}}}, nil
	}
	return b.desk.Deal(c, r)
}
