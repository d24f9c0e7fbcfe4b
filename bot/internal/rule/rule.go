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

// List is /mcp policy allow, ask, deny and forget.
func (rs *Rules) List(list string) func(context.Context, desk.Turn) (view.Reply, error) {
	return func(ctx context.Context, t desk.Turn) (view.Reply, error) { return rs.rule(ctx, t, list) }
}

// rule changes a list. A member's own lists only narrow; the thread's are a manager's, and allow is confirmed on a card.
func (rs *Rules) rule(ctx context.Context, t desk.Turn, list string) (view.Reply, error) {
	pattern, who := t.Arg("pattern"), strings.TrimPrefix(t.Arg("who"), "@")
	if host, ok := strings.CutPrefix(pattern, hostRule); ok {
		return rs.hostRule(ctx, t, list, strings.ToLower(host), who)
	}
	if err := checkPattern(pattern); err != nil {
		return view.Reply{}, err
	}
	switch {
	case strings.EqualFold(who, "me"):
		return rs.setRule(ctx, t, list, pattern, true)
	case who != "":
		return view.Reply{}, words.Invalid("a rule is for the thread, or with `me` for you alone", "`/mcp policy "+list+" "+words.Clean(pattern)+" me`")
	case list == "allow":
		return rs.allowCard(ctx, t, pattern)
	case list == "forget" && !t.Caller.Manages():
		return rs.setRule(ctx, t, list, pattern, true)
	case !t.Caller.Manages():
		return view.Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can change its rules",
			Hint: "for you alone: `/mcp policy " + list + " " + words.Clean(pattern) + " me`"}
	}
	return rs.setRule(ctx, t, list, pattern, false)
}

func checkPattern(p string) error {
	bad := len(p) > 200 || p == "" || strings.IndexFunc(p, func(r rune) bool { return words.Hidden(r) || r == '`' || r == ' ' }) >= 0 ||
		strings.ContainsAny(p, "[]\\")
	if bad {
		return words.Invalid("that is no pattern", "server.tool, where * stands for any letters: github.create_* or github.*")
	}
	return nil
}

// allowCard asks a manager before tools that wrote with a question, or were denied, run freely.
func (rs *Rules) allowCard(ctx context.Context, t desk.Turn, pattern string) (view.Reply, error) {
	ts, err := rs.opt.Tools.Tools(ctx, t.Caller)
	if err != nil {
		return view.Reply{}, err
	}
	tab := &view.Table{Columns: []string{"tool", "risk", "what it does"}}
	n, risky := 0, 0
	for _, x := range ts {
		if !schemas.Match(pattern, x.Server, x.Name) {
			continue
		}
		n++
		risk := x.Risk
		if risk != "" {
			risky++
		} else if x.Writes {
			risk = "writes"
		}
		if len(tab.Rows) < 40 {
			tab.Rows = append(tab.Rows, view.Row{Cells: []string{words.Clean(x.Full()), risk, words.FirstLine(x.Description, 90)}})
		}
	}
	covers := "It covers " + words.Count(n, "tool", "tools") + " now"
	if n == 0 {
		covers = "No tool of that name is here now"
	}
	r := view.Reply{
		Blocks:  []view.Block{{Text: "allow " + words.Clean(pattern) + " for everyone in this thread? " + covers}},
		Choices: []view.Choice{{Key: desk.Confirm, Label: "Confirm", Style: "danger"}, {Key: desk.Cancel, Label: "Cancel"}},
	}
	if len(tab.Rows) > 0 {
		r.Blocks = append(r.Blocks, view.Block{Table: tab})
	}
	warning := "They then run without a question, also when the assistant picks them."
	switch {
	case n == 1 && risky == 1:
		warning = "It is denied by default, since it can run programs, change files or destroy. It then runs without a question, also when the assistant picks it."
	case risky > 0:
		warning = words.Count(risky, "of them is", "of them are") + " denied by default, since they can run programs, change files or destroy. " + warning
	}
	if !t.Caller.Manages() {
		warning += " A manager of the thread has to confirm."
	}
	r.Blocks = append(r.Blocks, view.Block{Warning: warning})
	c := &desk.Card{By: t.Caller, Role: schemas.Member, May: desk.ManagerOnly}
	c.Act = func(ctx context.Context, t desk.Turn, a view.Action) (view.Reply, error) {
		if a.Choice != desk.Confirm {
			rs.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCancelled, Detail: "allow " + words.Clean(pattern)})
			return view.Reply{Blocks: []view.Block{{Text: "cancelled; nothing was changed"}}}, nil
		}
		return rs.setRule(ctx, t, "allow", pattern, false)
	}
	return rs.desk.Deal(c, r), nil
}

func (rs *Rules) setRule(ctx context.Context, t desk.Turn, list, pattern string, mine bool) (view.Reply, error) {
	whose := "the thread"
	if mine {
		whose = "you alone"
	}
	detail := list + " " + pattern + map[bool]string{true: " for themselves", false: " for the thread"}[mine]
	if err := rs.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventPolicy, Detail: detail}); err != nil {
		return view.Reply{}, err
	}
	found := false
	err := rs.opt.Rules.Rule(ctx, t.Caller.Thread, func(p *schemas.Policy) error {
		found = applyRule(p, list, pattern, t.Caller.Member, mine)
		return nil
	})
	if err != nil {
		return view.Reply{}, err
	}
	rs.desk.Changed(t.Caller.Thread)
	if err := rs.Applied(ctx, t.Caller.Thread); err != nil {
		return rs.desk.Saved(t, nil, err), nil
	}
	if list == "forget" {
		if !found {
			return view.Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "there is no such rule", Hint: "`/mcp policy show` lists them"}
		}
		return view.Reply{Private: mine, Blocks: []view.Block{{Text: "the rule about " + words.Clean(pattern) + " is taken back"}}}, nil
	}
	text, back := words.Clean(pattern)+" is on the "+list+" list for "+whose, words.Clean(pattern)
	if mine {
		back += " me"
	}
	if mine && list == "allow" {
		text += "; what is not on it is hidden from you now"
	}
	text += " · `/mcp policy forget " + back + "` takes it back"
	return view.Reply{Private: mine, Blocks: []view.Block{{Text: text}}}, nil
}

// Applied waits until calls obey the rules that were just stored, which is long before slow servers that the config wants, too,
// have started.
func (rs *Rules) Applied(ctx context.Context, thread schemas.ThreadID) error {
	wait, cancel := context.WithTimeout(ctx, min(rs.opt.StartWait, 2*time.Second))
	defer cancel()
	if err := rs.opt.Live.Apply(wait, thread); err != nil && wait.Err() == nil {
		return err
	}
	return nil
}

// applyRule moves a pattern to one list; a pattern stands in one list only. It reports whether it stood anywhere before.
func applyRule(p *schemas.Policy, list, pattern string, m schemas.MemberID, mine bool) bool {
	r := p.Thread
	if mine {
		r = p.Members[m]
	}
	drop := func(l []string) []string {
		return slices.DeleteFunc(slices.Clone(l), func(s string) bool { return s == pattern })
	}
	before := len(r.Allow) + len(r.Ask) + len(r.Deny) + len(p.Grants)
	r.Allow, r.Ask, r.Deny = drop(r.Allow), drop(r.Ask), drop(r.Deny)
	if list == "forget" || list == "deny" || list == "ask" {
		p.Grants = slices.DeleteFunc(slices.Clone(p.Grants), func(g schemas.Grant) bool {
			s, tool, _ := strings.Cut(g.Tool, ".")
			return (!mine || g.Member == m) && (g.Tool == pattern || schemas.Match(pattern, s, tool))
		})
	}
	took := len(r.Allow)+len(r.Ask)+len(r.Deny)+len(p.Grants) != before
	switch list {
	case "allow":
		r.Allow = append(r.Allow, pattern)
	case "ask":
		r.Ask = append(r.Ask, pattern)
	case "deny":
		r.Deny = append(r.Deny, pattern)
	}
	if !mine {
		p.Thread = r
		return took
	}
	members := map[schemas.MemberID]schemas.Rules{}
	for k, v := range p.Members {
		members[k] = v
	}
	members[m] = r
	p.Members = members
	return took
}

// Show shows the rules of the thread and of the caller.
func (rs *Rules) Show(ctx context.Context, t desk.Turn) (view.Reply, error) {
	cfg, err := rs.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return view.Reply{}, err
	}
	tab := &view.Table{Columns: []string{"rule", "pattern", ""}}
	group := func(head string, r schemas.Rules) {
		if len(r.Allow)+len(r.Ask)+len(r.Deny) == 0 {
			return
		}
		tab.Rows = append(tab.Rows, view.Row{Head: head})
		for _, l := range []struct {
			name string
			list []string
		}{{"deny", r.Deny}, {"ask", r.Ask}, {"allow", r.Allow}} {
			for _, p := range l.list {
				tab.Rows = append(tab.Rows, view.Row{Cells: []string{l.name, words.Clean(p), ""}})
			}
		}
	}
	group("for the thread", cfg.Policy.Thread)
	group("for you", cfg.Policy.Members[t.Caller.Member])
	if e := cfg.Policy.Egress; e != nil {
		group("hosts that sandboxes may reach", prefixed(*e))
	}
	for _, l := range []struct {
		head string
		list []string
	}{{"servers that are believed", cfg.Policy.Trust}, {"servers that may ask the model for words", cfg.Policy.Sampling}} {
		for i, s := range l.list {
			if i == 0 {
				tab.Rows = append(tab.Rows, view.Row{Head: l.head})
			}
			tab.Rows = append(tab.Rows, view.Row{Cells: []string{"allow", words.Clean(s), ""}})
		}
	}
	now, headed := rs.opt.Now(), false
	for _, g := range cfg.Policy.Grants {
		if g.Member != t.Caller.Member || (g.Until != nil && !now.Before(*g.Until)) {
			continue
		}
		if !headed {
			tab.Rows, headed = append(tab.Rows, view.Row{Head: "what you allowed"}), true
		}
		until := "until taken back"
		if g.Until != nil {
			until = "for " + words.Took(g.Until.Sub(now)) + " more"
		}
		tab.Rows = append(tab.Rows, view.Row{Cells: []string{"allow", words.Clean(g.Tool), until}})
	}
	r := view.Reply{Private: true, Blocks: view.Unreadable(cfg.Problems)}
	r.Blocks = append(r.Blocks, view.Block{Text: "read-only tools run; tools that write ask first; shell, file and destructive tools are denied until a manager allows them"})
	if len(tab.Rows) == 0 {
		return view.With(r, view.Block{Text: "no other rules · `/mcp policy deny PATTERN me` makes one for you"}), nil
	}
	return view.With(r, view.Block{Table: tab}), nil
}

// grant stores a yes for a time. Grants that are over go with it.
func (rs *Rules) grant(ctx context.Context, c schemas.Caller, x schemas.Tool, until *time.Time) error {
	now := rs.opt.Now()
	return rs.opt.Rules.Rule(ctx, c.Thread, func(p *schemas.Policy) error {
		p.Grants = append(slices.DeleteFunc(slices.Clone(p.Grants), func(g schemas.Grant) bool {
			return (g.Until != nil && !now.Before(*g.Until)) || (g.Member == c.Member && g.Tool == x.Full())
		}), schemas.Grant{Tool: x.Full(), Pin: x.Pin, Member: c.Member, Until: until})
		return nil
	})
}
