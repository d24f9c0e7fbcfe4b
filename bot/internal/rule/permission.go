package rule

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

const (
	grantTime = time.Hour // of a permission that names none
	grantMost = 30 * 24 * time.Hour
)

// Grant opens the shell of a member for a time. Managers alone do, also for themselves.
func (rs *Rules) Grant(ctx context.Context, t desk.Turn) (view.Reply, error) {
	return rs.permission(ctx, t, true)
}

// Revoke closes it again; a member may close their own.
func (rs *Rules) Revoke(ctx context.Context, t desk.Turn) (view.Reply, error) {
	return rs.permission(ctx, t, false)
}

func (rs *Rules) permission(ctx context.Context, t desk.Turn, open bool) (view.Reply, error) {
	who, err := memberOf(t.Arg("member"), t.Caller)
	if err != nil {
		return view.Reply{}, err
	}
	if !t.Caller.Manages() && (open || who != t.Caller.Member) {
		return view.Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can open or close a member's shell"}
	}
	d := grantTime
	if s := strings.TrimSpace(t.Arg("time")); s != "" && open {
		if d, err = time.ParseDuration(s); err != nil || d < time.Minute || d > grantMost {
			return view.Reply{}, words.Invalid("that is no time between a minute and 30 days", "such as 30m, 1h or 24h")
		}
	}
	p := schemas.Permission{Member: who, Resource: schemas.Shell, Action: schemas.Execute, By: t.Caller.Member, Until: rs.opt.Now().Add(d).UTC().Truncate(time.Second)}
	said := "shell closed for " + string(who)
	if open {
		said = "shell opened for " + string(who) + " " + view.Until(p.Until, rs.opt.Now())
	}
	if err := rs.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventPolicy, Detail: said}); err != nil {
		return view.Reply{}, err
	}
	err = rs.opt.Rules.Rule(ctx, t.Caller.Thread, func(rules *schemas.Policy) error {
		rules.Permissions = slices.DeleteFunc(rules.Permissions, func(o schemas.Permission) bool {
			return o.Member == who && o.Resource == p.Resource && o.Action == p.Action || !rs.opt.Now().Before(o.Until)
		})
		if open {
			rules.Permissions = append(rules.Permissions, p)
		}
		return nil
	})
	if err != nil {
		return view.Reply{}, err
	}
	if !open {
		return view.Reply{Blocks: []view.Block{{Text: "commands in the sandbox are closed to " + words.At(who, "")}}}, nil
	}
	return view.Reply{Blocks: []view.Block{{Text: words.At(who, "") + " can run commands in their own sandbox " + view.Until(p.Until, rs.opt.Now()) + " · `/mcp sandbox revoke " + words.Clean(string(who)) + "`"},
		{Text: "they see nothing of anybody else's sandbox"}}}, nil
}

// memberOf reads a member as people write one: a mention, an id, a name at the terminal; nobody named is the caller.
func memberOf(s string, c schemas.Caller) (schemas.MemberID, error) {
	s = strings.TrimSpace(s)
	if s == "" || s == "me" {
		return c.Member, nil
	}
	m := schemas.MemberID(strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(s, "<@"), "!"), ">"), "@"))
	if !m.Valid() {
		return "", words.Invalid("that is no member", "a mention, or the member's id")
	}
	return m, nil
}
