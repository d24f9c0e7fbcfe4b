package bot

import (
	"context"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/line"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// download sends the config as a file; for the requester alone, since it names what the thread uses.
func (b *Bot) download(ctx context.Context, t desk.Turn) (Reply, error) {
	format := "claude"
	for _, w := range strings.Fields(t.Arg("format")) {
		w = strings.TrimPrefix(strings.ToLower(w), "format:")
		switch {
		case slices.Contains(line.Formats(), w):
			format = w
		case !strings.ContainsAny(w, "./\\"): // a path is for the door that saves the file
			return Reply{}, words.NotFound("format", w, line.Formats(), "claude, vscode, cursor, remote or client")
		}
	}
	if format == "client" {
		return b.clientEntry(t)
	}
	f, err := b.opt.Past.Export(ctx, t.Caller.Thread, format)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Private: true, Blocks: []Block{{Text: words.Clean(f.Name) + ", " + words.Size(len(f.Data)) + "; it holds no secret values"}, {File: &f}}}, nil
}

// history lists the last revisions, or shows one with its diff.
func (b *Bot) history(ctx context.Context, t desk.Turn) (Reply, error) {
	revs, err := b.opt.Past.History(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(revs) == 0 {
		return Reply{Blocks: []Block{{Text: "no changes yet"}}}, nil
	}
	if id := t.Arg("id"); id != "" {
		i := slices.IndexFunc(revs, func(r schemas.Revision) bool { return r.ID == id })
		if i < 0 {
			return Reply{}, words.NotFound("change", id, nil, "`/mcp history show` lists them")
		}
		r := revs[i]
		return Reply{Private: true, Blocks: []Block{{Text: words.Clean(r.Summary) + " · " + view.RevBy(r)}, {Diff: words.Diff(r.Diff)},
			{Text: "`/mcp history undo " + words.Clean(r.ID) + "` puts the config back as it was before"}}}, nil
	}
	tab := &Table{Columns: []string{"id", "when (UTC)", "by", "what", "how"}}
	for i, r := range revs {
		if i == 50 {
			break
		}
		tab.Rows = append(tab.Rows, Row{Cells: []string{words.Clean(r.ID), r.At.UTC().Format("2006-01-02 15:04"), view.RevBy(r), words.Short(words.Clean(r.Summary), 120), words.Short(words.Clean(r.Source), 40)}})
	}
	return Reply{Blocks: []Block{{Text: words.Count(len(tab.Rows), "change", "changes") + ", newest first · `/mcp undo` takes the last one back"}, {Table: tab}}}, nil
}

// undo proposes the config as it was before a change; it is confirmed like any other change.
func (b *Bot) undo(ctx context.Context, t desk.Turn) (Reply, error) {
	revs, err := b.opt.Past.History(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(revs) == 0 {
		return Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "there is no change to take back"}
	}
	id := t.Arg("id")
	if id == "" {
		id = revs[0].ID
	}
	if !slices.ContainsFunc(revs, func(r schemas.Revision) bool { return r.ID == id }) {
		return Reply{}, words.NotFound("change", id, nil, "`/mcp history show` lists them")
	}
	return b.propose(ctx, t, schemas.Edit{Undo: id, Source: "undo " + id})
}
