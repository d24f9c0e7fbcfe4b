package rule

import (
	"context"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// right is one that a manager gives to servers of a thread.
type right struct {
	give, back string // how it is given and taken back, with {} for the server
	list       func(*schemas.Policy) *[]string
	question   string // of the card
	warning    string
	given      string
	taken      string
}

func trustRight() right {
	return right{
		give: "trust {}", back: "untrust {}", list: func(p *schemas.Policy) *[]string { return &p.Trust },
		question: "believe what {} answers, for everyone in this thread?",
		warning: "What it answers may decide what the assistant does next: tools of other servers that a rule or an earlier yes allows then run without a new question. " +
			"Confirm only if nobody else can put words into what it gives, as into pages, e-mails or issues.",
		given: "{} is believed: its answers raise no new questions", taken: "{} is believed no more",
	}
}

func samplingRight() right {
	return right{
		give: "sampling {}", back: "sampling {} off", list: func(p *schemas.Policy) *[]string { return &p.Sampling },
		question: "let {} ask this thread's model for words?",
		warning: "In the middle of a call it may then send the model a text and gets the answer. The member whose call it is sees the text and is asked each time, and pays its tokens. " +
			"It sees nothing of the thread. A server that runs hears of it when it starts next.",
		given: "{} may ask the model for words, after a yes each time", taken: "{} may not ask the model for words any more",
	}
}

// Trust is /mcp policy trust, or, with give false, untrust.
func (rs *Rules) Trust(give bool) func(context.Context, desk.Turn) (view.Reply, error) {
	return func(ctx context.Context, t desk.Turn) (view.Reply, error) {
		if give {
			return rs.giveRight(ctx, t, trustRight())
		}
		return rs.takeRight(ctx, t, trustRight())
	}
}

// Sampling is /mcp policy sampling.
func (rs *Rules) Sampling(ctx context.Context, t desk.Turn) (view.Reply, error) {
	switch off := t.Arg("off"); {
	case off == "":
		return rs.giveRight(ctx, t, samplingRight())
	case strings.EqualFold(off, "off"):
		return rs.takeRight(ctx, t, samplingRight())
	}
	return view.Reply{}, words.Invalid("behind the server stands `off` or nothing", "`/mcp policy sampling "+words.Clean(t.Arg("name"))+" off`")
}

// naming puts a server into words about a right.
func naming(text, server string) string { return strings.Replace(text, "{}", words.Clean(server), 1) }

// giveRight asks a manager first, on a card that says what it means.
func (rs *Rules) giveRight(ctx context.Context, t desk.Turn, x right) (view.Reply, error) {
	name := t.Arg("name")
	if err := checkPattern(name); err != nil {
		return view.Reply{}, words.Invalid("that is no server", "its name, or a pattern such as team-*")
	}
	cfg, err := rs.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return view.Reply{}, err
	}
	question := naming(x.question, name)
	if _, here := cfg.Find(name); !here && !strings.ContainsAny(name, "*?") {
		question += " No server of that name is here now"
	}
	warning := x.warning
	if !t.Caller.Manages() {
		warning += " A manager of the thread has to confirm."
	}
	r := view.Reply{Blocks: []view.Block{{Text: question}, {Warning: warning}},
		Choices: []view.Choice{{Key: desk.Confirm, Label: "Confirm", Style: "danger"}, {Key: desk.Cancel, Label: "Cancel"}}}
	c := &desk.Card{By: t.Caller, Role: schemas.Member, May: desk.ManagerOnly}
	c.Act = func(ctx context.Context, t desk.Turn, a view.Action) (view.Reply, error) {
		if a.Choice != desk.Confirm {
			rs.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCancelled, Detail: naming(x.give, name)})
			return view.Reply{Blocks: []view.Block{{Text: "cancelled; nothing was changed"}}}, nil
		}
		if _, err := rs.setRight(ctx, t, x, name, true); err != nil {
			return view.Reply{}, err
		}
		return view.Reply{Blocks: []view.Block{{Text: naming(x.given, name) + " · `/mcp policy " + naming(x.back, name) + "` takes it back"}}}, nil
	}
	return rs.desk.Deal(c, r), nil
}

// takeRight takes one back, which is a manager's, too.
func (rs *Rules) takeRight(ctx context.Context, t desk.Turn, x right) (view.Reply, error) {
	name := t.Arg("name")
	if !t.Caller.Manages() {
		return view.Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can change its rules"}
	}
	if err := checkPattern(name); err != nil {
		return view.Reply{}, words.Invalid("that is no server", "`/mcp policy show` lists them")
	}
	found, err := rs.setRight(ctx, t, x, name, false)
	switch {
	case err != nil:
		return view.Reply{}, err
	case !found:
		return view.Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "there is no such rule", Hint: "`/mcp policy show` lists them"}
	}
	return view.Reply{Blocks: []view.Block{{Text: naming(x.taken, name)}}}, nil
}

// setRight writes a right down, or takes it back; found says that it was there.
func (rs *Rules) setRight(ctx context.Context, t desk.Turn, x right, name string, give bool) (found bool, err error) {
	detail := naming(x.back, name)
	if give {
		detail = naming(x.give, name)
	}
	if err := rs.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventPolicy, Detail: detail + " for the thread"}); err != nil {
		return false, err
	}
	err = rs.opt.Rules.Rule(ctx, t.Caller.Thread, func(p *schemas.Policy) error {
		list := x.list(p)
		found = slices.Contains(*list, name)
		*list = slices.DeleteFunc(slices.Clone(*list), func(s string) bool { return s == name })
		if give {
			*list = append(*list, name)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	rs.desk.Changed(t.Caller.Thread)
	return found, rs.Applied(ctx, t.Caller.Thread)
}
