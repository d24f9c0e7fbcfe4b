package bot

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"bobbin/schemas"
)

// download sends the config as a file; for the requester alone, since it names what the thread uses.
func (b *Bot) download(ctx context.Context, t turn) (Reply, error) {
	format := "claude"
	for _, w := range strings.Fields(t.arg("format")) {
		w = strings.TrimPrefix(strings.ToLower(w), "format:")
		switch {
		case slices.Contains(formats(), w):
			format = w
		case !strings.ContainsAny(w, "./\\"): // a path is for the door that saves the file
			return Reply{}, notFound("format", w, formats(), "claude, vscode, cursor or remote")
		}
	}
	if format == "client" {
		return bad(schemas.CodeMissing, "the entry that plugs this thread into another client comes with the gateway, which is not part of this build yet"), nil
	}
	f, err := b.opt.Past.Export(ctx, t.caller.Thread, format)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Private: true, Blocks: []Block{{Text: clean(f.Name) + ", " + size(len(f.Data)) + "; it holds no secret values"}, {File: &f}}}, nil
}

// audit shows what happened, or all records of one receipt.
func (b *Bot) audit(ctx context.Context, t turn) (Reply, error) {
	which, n := t.arg("which"), 20
	if v, err := strconv.Atoi(which); err == nil && v > 0 && len(which) < 4 {
		n, which = min(v, 200), ""
	}
	ask := n
	if which != "" {
		ask = 1000
	}
	rs, err := b.opt.Journal.Tail(ctx, t.caller.Thread, ask)
	if err != nil {
		return Reply{}, err
	}
	tab := &Table{Columns: []string{"time (UTC)", "who", "what", "outcome", "detail"}}
	for _, r := range rs {
		if which != "" && r.Receipt != which && strconv.FormatInt(r.Seq, 10) != which {
			continue
		}
		tab.Rows = append(tab.Rows, Row{Cells: auditCells(r, which != "")})
	}
	if len(tab.Rows) == 0 && which != "" {
		return Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "the last " + thousands(ask) + " records have no such receipt", Hint: "`/mcp audit` shows the newest"}
	}
	if len(tab.Rows) == 0 {
		return Reply{Private: true, Blocks: []Block{{Text: "nothing has happened here yet"}}}, nil
	}
	return Reply{Private: true, Blocks: []Block{{Text: count(len(tab.Rows), "record", "records") + ", newest first"}, {Table: tab}}}, nil
}

func auditCells(r schemas.Record, all bool) []string {
	what := string(r.Event)
	if r.Tool != "" {
		what += " " + strings.TrimPrefix(r.Server+"."+strings.TrimPrefix(r.Tool, r.Server+"."), ".")
	} else if r.Server != "" {
		what += " " + r.Server
	}
	var more []string
	if r.Ms > 0 {
		more = append(more, took(time.Duration(r.Ms*float64(time.Millisecond))))
	}
	if r.Bytes > 0 {
		more = append(more, size(r.Bytes))
	}
	if r.Args != "" {
		more = append(more, "args "+r.Args)
	}
	if r.Detail != "" {
		more = append(more, r.Detail)
	}
	if r.Receipt != "" {
		more = append(more, "receipt "+r.Receipt)
	}
	if all && r.RunsAs != "" {
		more = append(more, "as "+string(r.RunsAs))
	}
	who := ""
	if r.Member != "" {
		who = at(r.Member, r.Name)
	}
	return []string{r.At.UTC().Format("01-02 15:04:05"), who, clean(what), string(r.Outcome), short(clean(strings.Join(more, " · ")), 200)}
}

// history lists the last revisions, or shows one with its diff.
func (b *Bot) history(ctx context.Context, t turn) (Reply, error) {
	revs, err := b.opt.Past.History(ctx, t.caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(revs) == 0 {
		return Reply{Blocks: []Block{{Text: "no changes yet"}}}, nil
	}
	if id := t.arg("id"); id != "" {
		i := slices.IndexFunc(revs, func(r schemas.Revision) bool { return r.ID == id })
		if i < 0 {
			return Reply{}, notFound("change", id, nil, "`/mcp history show` lists them")
		}
		r := revs[i]
		return Reply{Private: true, Blocks: []Block{{Text: clean(r.Summary) + " · " + revBy(r)}, {Diff: diffText(r.Diff)},
			{Text: "`/mcp history undo " + clean(r.ID) + "` puts the config back as it was before"}}}, nil
	}
	tab := &Table{Columns: []string{"id", "when (UTC)", "by", "what", "how"}}
	for i, r := range revs {
		if i == 50 {
			break
		}
		tab.Rows = append(tab.Rows, Row{Cells: []string{clean(r.ID), r.At.UTC().Format("2006-01-02 15:04"), revBy(r), short(clean(r.Summary), 120), short(clean(r.Source), 40)}})
	}
	return Reply{Blocks: []Block{{Text: count(len(tab.Rows), "change", "changes") + ", newest first · `/mcp undo` takes the last one back"}, {Table: tab}}}, nil
}

func revBy(r schemas.Revision) string {
	if r.By == "" {
		return "outside of chat"
	}
	return at(r.By, r.ByName)
}

// undo proposes the config as it was before a change; it is confirmed like any other change.
func (b *Bot) undo(ctx context.Context, t turn) (Reply, error) {
	revs, err := b.opt.Past.History(ctx, t.caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(revs) == 0 {
		return Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "there is no change to take back"}
	}
	id := t.arg("id")
	if id == "" {
		id = revs[0].ID
	}
	if !slices.ContainsFunc(revs, func(r schemas.Revision) bool { return r.ID == id }) {
		return Reply{}, notFound("change", id, nil, "`/mcp history show` lists them")
	}
	return b.propose(ctx, t, schemas.Edit{Undo: id, Source: "undo " + id})
}
