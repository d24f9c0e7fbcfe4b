package desk

import (
	"context"
	"errors"
	"strings"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// ManagersOnly refuses what a manager alone may do.
func ManagersOnly(what string) error {
	return &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can " + what}
}

// Guest refuses what guests may not do.
func Guest() error {
	return &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look here, not use or change servers",
		Hint: "ask a member of the thread"}
}

// Refusal words an error for the person who asked; nobody else sees it. What is nobody's business but the operator's becomes
// a reference number that also stands in the log.
func (d *Desk) Refusal(c schemas.Caller, err error) view.Reply {
	e, ok := errors.AsType[*schemas.Error](err)
	if ps, mistaken := errors.AsType[schemas.Problems](err); mistaken && !ok {
		return view.Mistakes("the text", ps, "")
	}
	switch {
	case ok && e.Code != schemas.CodeInternal:
		return view.Refused(e.Code, words.Text(words.WithHint(e.Text, e.Hint)))
	case !ok && errors.Is(err, context.DeadlineExceeded):
		return view.Refused(schemas.CodeFailed, "that took longer than I wait; nothing more is known · `/mcp list` shows how things are")
	case !ok && errors.Is(err, context.Canceled):
		return view.Refused(schemas.CodeFailed, "that was cancelled")
	}
	ref := view.Reference()
	if ok && e.Ref != "" {
		ref = e.Ref
	}
	d.opt.Log.Error("request failed", "ref", ref, "thread", c.Thread, "member", c.Member, "err", err)
	return view.Refused(schemas.CodeInternal, "something went wrong on my side, reference "+ref+"; the operator can find it in the log. Your config is unchanged")
}

// Saved says that the change stands although the servers could not be brought in line.
func (d *Desk) Saved(t Turn, blocks []view.Block, err error) view.Reply {
	r := d.Refusal(t.Caller, err)
	if schemas.CodeOf(err) == schemas.CodeInternal {
		r.Blocks[0].Text = strings.Replace(r.Blocks[0].Text, "Your config is unchanged", "The change itself is saved", 1)
	}
	r.Blocks = append(append(blocks, view.Block{Text: "the change is saved"}), r.Blocks...)
	return r
}
