package bot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// accounts is the sign-ins that there are. Signed contacts nobody; SignOut and Leave forget, then revoke as far as that works.
type accounts interface {
	Signed(context.Context, schemas.ThreadID, schemas.MemberID, schemas.Server) bool
	SignOut(context.Context, schemas.ThreadID, schemas.MemberID, schemas.Server) error
	Leave(context.Context, schemas.ThreadID, schemas.MemberID) error
}

// revoker ends all members' sign-ins to a server of a thread; with an empty name, to all of its servers. SignOutOld ends those to
// definitions that the server had before.
type revoker interface {
	SignOutAll(ctx context.Context, thread schemas.ThreadID, server string) error
	SignOutOld(ctx context.Context, thread schemas.ThreadID, now schemas.Server) error
}

// loans keeps whose sign-in others may use. A nil loan withdraws. Detach drops all loans of a member in a thread, and names their
// servers.
type loans interface {
	Lend(ctx context.Context, caller schemas.Caller, server string, loan *schemas.Loan) error
	Detach(context.Context, schemas.ThreadID, schemas.MemberID) ([]string, error)
}

// viewed gives states as they are for one viewer: a connector that they have not signed in to, and that nobody lends, wants their
// sign-in, whoever else uses it.
func (b *Bot) viewed(ctx context.Context, c schemas.Caller, ss []schemas.Status) []schemas.Status {
	if b.opt.Accounts == nil || !slices.ContainsFunc(ss, func(s schemas.Status) bool { return s.Kind == schemas.Connector }) {
		return ss
	}
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		b.opt.Log.Warn("sign-ins not looked at", "thread", c.Thread, "err", err)
		return ss
	}
	ss = slices.Clone(ss)
	for i, s := range ss {
		e, ok := cfg.Find(s.Name)
		if !ok || e.Kind != s.Kind || s.State == schemas.ShadowedState {
			continue
		}
		def, runs := e.Running()
		if !runs || !view.SignsIn(def) {
			continue
		}
		lent, signed := e.Loan.Holds(b.opt.Now()), b.opt.Accounts.Signed(ctx, c.Thread, c.Member, def)
		ss[i].RunsAs = "the one who asks"
		if lent && signed {
			ss[i].RunsAs += "; " + words.At(e.Loan.Member, e.Loan.Name) + " lends theirs " + view.Until(e.Loan.Until, b.opt.Now())
		}
		if lent && !signed {
			ss[i].RunsAs = words.At(e.Loan.Member, e.Loan.Name) + ", lent " + view.Until(e.Loan.Until, b.opt.Now())
		}
		switch {
		case !signed && !lent && slices.Contains([]schemas.State{schemas.Ready, schemas.Idle, schemas.Starting, schemas.Held}, s.State):
			ss[i].State = schemas.NeedsConnect
		case signed && s.State == schemas.NeedsConnect && c.Member != e.Owner: // what is missing is the owner's
			ss[i].State = schemas.Idle
		}
	}
	return ss
}

// account shows how the caller stands with a connector, and what they can do about it.
func (b *Bot) account(ctx context.Context, t desk.Turn, e schemas.Entry) (Reply, error) {
	name := words.Clean(e.Name)
	switch {
	case !e.Remote():
		return Reply{}, words.Invalid(name+" is no connector; there is nothing to sign in to", "`/mcp show "+name+"`")
	case !view.SignsIn(e.Server):
		return Reply{}, words.Invalid(name+" is connected without a sign-in of each member", "`/mcp edit "+name+"` changes its key; to sign in, remove it and connect it again")
	case b.opt.SignIns == nil:
		return Reply{}, noSignIns()
	}
	s, err := b.status(ctx, t, e)
	if err != nil {
		return Reply{}, err
	}
	def, runs := e.Running()
	if !runs {
		return Reply{}, &schemas.Error{Code: schemas.CodePending, Text: name + " is " + string(s.State), Hint: "`/mcp enable " + name + "`"}
	}
	head := "you are not signed in to " + name
	if b.opt.Accounts.Signed(ctx, t.Caller.Thread, t.Caller.Member, def) {
		head = "you are signed in to " + name
	}
	r := Reply{Private: true, Blocks: []Block{{Text: head}, {Facts: []Fact{{Label: "sends to", Value: words.Clean(words.SafeURL(def.URL))},
		{Label: "runs as", Value: words.Clean(s.RunsAs)}}}}}
	if e.Loan.Holds(b.opt.Now()) {
		r.Blocks[1].Facts = append(r.Blocks[1].Facts, Fact{Label: "lent", Value: "by " + words.At(e.Loan.Member, e.Loan.Name) + " to everybody in this thread", Note: view.Until(e.Loan.Until, b.opt.Now())})
	}
	r.Choices = append(b.accountChoices(ctx, t.Caller, e), Choice{Key: "leave", Label: "Leave it"})
	return b.desk.Deal(b.accountCard(t.Caller, e.Name), r), nil
}

func noSignIns() error {
	return &schemas.Error{Code: schemas.CodeMissing, Text: "signing in by OAuth is not part of this setup", Hint: "a connector with an API key works: `/mcp connect https://…`"}
}

// accountChoices is what the caller can do about an approved connector that members sign in to.
func (b *Bot) accountChoices(ctx context.Context, c schemas.Caller, e schemas.Entry) []Choice {
	def, runs := e.Running()
	if b.opt.SignIns == nil || !runs || !view.SignsIn(def) {
		return nil
	}
	lent := e.Loan.Holds(b.opt.Now())
	cs := []Choice{{Key: "connect", Label: "Connect yours"}}
	if b.opt.Accounts.Signed(ctx, c.Thread, c.Member, def) {
		cs = nil
		if b.opt.Loans != nil && !lent {
			cs = append(cs, Choice{Key: "lend 1", Label: "Lend mine to this thread: 1 hour"}, Choice{Key: "lend 8", Label: "Lend mine: 8 hours"},
				Choice{Key: "lend", Label: "Lend mine: until I withdraw"})
		}
		cs = append(cs, Choice{Key: "connect", Label: "Sign in again"}, Choice{Key: "out", Label: "Sign out"})
	}
	if lent && b.opt.Loans != nil && (e.Loan.Member == c.Member || c.Manages()) {
		cs = append(cs, Choice{Key: "withdraw", Label: "Withdraw the loan"})
	}
	return cs
}

// accountCard answers accountChoices for the one who was shown them.
func (b *Bot) accountCard(by schemas.Caller, name string) *desk.Card {
	c := desk.Personal(by)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		switch a.Choice {
		case "connect":
			return b.connectYours(ctx, t, name)
		case "out":
			return b.signOut(ctx, t, name)
		case "withdraw":
			return b.withdraw(ctx, t, name)
		case "lend 1":
			return b.lendCard(ctx, t, name, time.Hour)
		case "lend 8":
			return b.lendCard(ctx, t, name, 8*time.Hour)
		case "lend":
			return b.lendCard(ctx, t, name, 0)
		}
		return Reply{Private: true, Blocks: []Block{{Text: "left as it was"}}}, nil
	}
	return c
}

// running gives a connector that members sign in to, and the definition that is approved.
func (b *Bot) running(ctx context.Context, t desk.Turn, name string) (schemas.Entry, schemas.Server, error) {
	e, _, err := b.entry(ctx, t, name)
	if err != nil {
		return e, schemas.Server{}, err
	}
	if b.opt.SignIns == nil {
		return e, schemas.Server{}, noSignIns()
	}
	def, runs := e.Running()
	if !runs || !view.SignsIn(def) {
		return e, def, &schemas.Error{Code: schemas.CodeConflict, Text: words.Clean(name) + " changed meanwhile", Hint: "`/mcp show " + words.Clean(name) + "`"}
	}
	return e, def, nil
}

// connectYours begins the caller's own sign-in to a connector that is here already.
func (b *Bot) connectYours(ctx context.Context, t desk.Turn, name string) (Reply, error) {
	entry, def, err := b.running(ctx, t, name)
	if err != nil {
		return Reply{}, err
	}
	e := errand{server: def, shared: "only you, unless you lend it"}
	if entry.Loan.Holds(b.opt.Now()) && entry.Loan.Member == t.Caller.Member {
		e.shared = "everybody in this thread, " + view.Until(entry.Loan.Until, b.opt.Now()) + ", since you lend it"
	}
	e.now = func(ctx context.Context, t desk.Turn) (schemas.Server, error) {
		_, def, err := b.running(ctx, t, name)
		return def, err
	}
	e.then = func(ctx context.Context, t desk.Turn) (Reply, error) {
		k := holder{t.Caller.Thread, t.Caller.Member, name}
		b.keep(&remote{by: t.Caller, draft: schemas.Draft{Server: def}})
		b.desk.Changed(t.Caller.Thread)
		head := Block{Text: "you are signed in to " + words.Clean(name)}
		w, ok := b.signs.resume(k, b.opt.Now())
		if !ok {
			head.Text += "; calls run as you · `/mcp tools " + words.Clean(name) + "`"
			return Reply{Private: true, Blocks: []Block{head}}, nil
		}
		r, err := w.run(ctx, t)
		if err != nil {
			r = b.desk.Refusal(t.Caller, err)
		}
		r.Blocks = append([]Block{{Text: head.Text + "; what waited for it went on"}}, r.Blocks...)
		return r, nil
	}
	e.leave = func(_ context.Context, t desk.Turn) (Reply, error) {
		b.signs.resume(holder{t.Caller.Thread, t.Caller.Member, name}, b.opt.Now())
		return Reply{Private: true, Blocks: []Block{{Text: "left as it was · " + view.ConnectHint(name) + " when you want to"}}}, nil
	}
	return b.begin(ctx, t, e, false)
}

// orSignIn offers the caller alone to sign in, when that is why a call did not run, and keeps the call for when they did. Any other
// error goes on.
func (b *Bot) orSignIn(ctx context.Context, t desk.Turn, name string, err error, again func(context.Context, desk.Turn) (Reply, error)) (Reply, error) {
	e, ok := errors.AsType[*schemas.Error](err)
	if !ok || e.Code != schemas.CodeNeeds || !strings.Contains(e.Hint, "/mcp connect") {
		return Reply{}, err
	}
	if _, _, cannot := b.running(ctx, t, name); cannot != nil {
		return Reply{}, err
	}
	k, now := holder{t.Caller.Thread, t.Caller.Member, name}, b.opt.Now()
	b.signs.wait(k, waiting{again, now.Add(callKept)}, now)
	r := Reply{Private: true, Bad: true, Code: schemas.CodeNeeds, Choices: []Choice{{Key: "connect", Label: "Connect yours"}, {Key: "no", Label: "Not now"}},
		Blocks: []Block{{Text: words.Clean(e.Text)}, {Text: "its calls run as the one who asks; yours waits for 10 minutes, and goes on when you signed in"}}}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice == "connect" {
			return b.connectYours(ctx, t, name)
		}
		b.signs.resume(k, b.opt.Now())
		return Reply{Private: true, Blocks: []Block{{Text: "nothing was called"}}}, nil
	}
	return b.desk.Deal(c, r), nil
}

// lendable says why the caller cannot lend their sign-in now.
func (b *Bot) lendable(ctx context.Context, t desk.Turn, name string) (schemas.Entry, error) {
	e, def, err := b.running(ctx, t, name)
	switch {
	case err != nil:
		return e, err
	case b.opt.Loans == nil:
		return e, &schemas.Error{Code: schemas.CodeMissing, Text: "lending is not part of this setup", Hint: "each member can sign in: " + view.ConnectHint(name)}
	case !b.opt.Accounts.Signed(ctx, t.Caller.Thread, t.Caller.Member, def):
		return e, &schemas.Error{Code: schemas.CodeNeeds, Text: "you are not signed in to " + words.Clean(name) + ", so there is nothing to lend", Hint: view.ConnectHint(name)}
	case e.Loan.Holds(b.opt.Now()) && e.Loan.Member != t.Caller.Member:
		return e, &schemas.Error{Code: schemas.CodeConflict, Text: words.At(e.Loan.Member, e.Loan.Name) + " lends theirs already, " + view.Until(e.Loan.Until, b.opt.Now()),
			Hint: "they can withdraw it, or a manager of the thread"}
	}
	return e, nil
}

// lendCard says in plain words what others could do, before a sign-in is lent; d = 0 is until it is withdrawn.
func (b *Bot) lendCard(ctx context.Context, t desk.Turn, name string, d time.Duration) (Reply, error) {
	shown, err := b.lendable(ctx, t, name)
	if err != nil {
		return Reply{}, err
	}
	end := func() (until time.Time) {
		if d > 0 {
			until = b.opt.Now().Add(d)
		}
		return until
	}
	ending := ""
	if d > 0 {
		ending = "at " + strings.TrimPrefix(view.Until(end(), b.opt.Now()), "until ") + ", or before "
	}
	r := Reply{Private: true, Choices: []Choice{{Key: "lend", Label: "Lend it"}, {Key: "no", Label: "Cancel"}}, Blocks: []Block{
		{Text: "lend your sign-in to " + words.Clean(name) + " to this thread, " + view.Until(end(), b.opt.Now()) + "?"},
		{Facts: []Fact{
			{Label: "others can", Value: "use all its tools as you: see what you see there, and do what you may do there", Note: "everybody who is in this thread or joins it"},
			{Label: "others cannot", Value: "see your password or token, or use it outside of this thread"},
			{Label: "it ends", Value: ending + "when you withdraw it, sign out or leave the thread", Note: view.ConnectHint(name)}}},
		{Warning: "What others do with it is done in your name at `" + words.Clean(words.BareHost(shown.URL)) + "`."}}}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice != "lend" {
			return Reply{Private: true, Blocks: []Block{{Text: "not lent"}}}, nil
		}
		e, err := b.lendable(ctx, t, name)
		if err != nil {
			return Reply{}, err
		}
		if e.Fingerprint() != shown.Fingerprint() {
			return Reply{}, &schemas.Error{Code: schemas.CodeConflict, Text: words.Clean(name) + " changed meanwhile, so nothing was lent", Hint: view.ConnectHint(name)}
		}
		loan := &schemas.Loan{Member: t.Caller.Member, Name: t.Caller.Name, At: b.opt.Now(), Until: end()}
		return b.lend(ctx, t, name, loan, "lent "+view.Until(loan.Until, b.opt.Now()))
	}
	return b.desk.Deal(c, r), nil
}

// lend writes down and stores a loan, or its end, and tells the thread.
func (b *Bot) lend(ctx context.Context, t desk.Turn, name string, loan *schemas.Loan, said string) (Reply, error) {
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventSignIn, Server: name, Detail: said}); err != nil {
		return Reply{}, err
	}
	if err := b.opt.Loans.Lend(ctx, t.Caller, name, loan); err != nil {
		return Reply{}, err
	}
	b.opt.Live.Poke(t.Caller.Thread)
	text := "the sign-in to " + words.Clean(name) + " is " + said
	b.desk.Publish(Notice{Thread: t.Caller.Thread, Changed: true, Reply: Reply{Blocks: []Block{{Text: text + " by " + words.At(t.Caller.Member, t.Caller.Name)}}}}, t.Caller.Member)
	if loan != nil {
		text += " · " + view.ConnectHint(name) + " withdraws it"
	}
	return Reply{Private: true, Blocks: []Block{{Text: text}}}, nil
}

// withdraw ends a loan, for its lender or a manager.
func (b *Bot) withdraw(ctx context.Context, t desk.Turn, name string) (Reply, error) {
	e, _, err := b.entry(ctx, t, name)
	switch {
	case err != nil:
		return Reply{}, err
	case b.opt.Loans == nil || !e.Loan.Holds(b.opt.Now()):
		return Reply{}, &schemas.Error{Code: schemas.CodeConflict, Text: "nobody lends " + words.Clean(name) + " any more", Hint: "`/mcp show " + words.Clean(name) + "`"}
	case e.Loan.Member != t.Caller.Member && !t.Caller.Manages():
		return Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: "only " + words.At(e.Loan.Member, e.Loan.Name) + " can withdraw it, or a manager of the thread"}
	}
	return b.lend(ctx, t, name, nil, "withdrawn")
}

// signOut ends the caller's own sign-in, and their loan of it first.
func (b *Bot) signOut(ctx context.Context, t desk.Turn, name string) (Reply, error) {
	e, def, err := b.running(ctx, t, name)
	if err != nil {
		return Reply{}, err
	}
	if b.opt.Loans != nil && e.Loan != nil && e.Loan.Member == t.Caller.Member {
		if _, err := b.lend(ctx, t, name, nil, "withdrawn"); err != nil {
			return Reply{}, err
		}
	}
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventSignIn, Server: name, Detail: "signed out"}); err != nil {
		return Reply{}, err
	}
	t.Tell("signing out of " + words.Clean(name) + " …")
	if err := b.opt.Accounts.SignOut(ctx, t.Caller.Thread, t.Caller.Member, def); err != nil {
		return Reply{}, err
	}
	b.opt.Live.Poke(t.Caller.Thread)
	b.desk.Changed(t.Caller.Thread)
	return Reply{Private: true, Blocks: []Block{{Text: "you are signed out of " + words.Clean(name) + " · " + view.ConnectHint(name) + " signs in again"}}}, nil
}

// signOutAll ends everybody's sign-in to a server that was removed; that it did not work holds nothing up.
func (b *Bot) signOutAll(ctx context.Context, thread schemas.ThreadID, c schemas.Change) []Block {
	if c.Before == nil || !view.SignsIn(*c.Before) || b.revokeAll(ctx, thread, c.Server) {
		return nil
	}
	return []Block{{Text: "not all sign-ins to " + words.Clean(c.Server) + " could be revoked; members can end them in their accounts there"}}
}

// signOutOld ends the sign-ins to what a connector was before an edit. Its new definition is here to stay by now.
func (b *Bot) signOutOld(ctx context.Context, thread schemas.ThreadID, c schemas.Change) {
	if b.opt.Revoke == nil || c.Before == nil || c.After == nil || !view.SignsIn(*c.Before) || c.Before.Fingerprint() == c.After.Fingerprint() {
		return
	}
	ctx, cancel := desk.After(ctx)
	defer cancel()
	now := *c.After
	now.Name = c.Server
	if err := b.opt.Revoke.SignOutOld(ctx, thread, now); err != nil {
		b.opt.Log.Error("sign-ins to an earlier definition were not all revoked", "thread", thread, "server", c.Server, "err", err)
	}
}

func (b *Bot) revokeAll(ctx context.Context, thread schemas.ThreadID, server string) bool {
	if b.opt.Revoke == nil {
		return true
	}
	ctx, cancel := desk.After(ctx)
	defer cancel()
	if err := b.opt.Revoke.SignOutAll(ctx, thread, server); err != nil {
		b.opt.Log.Error("sign-ins of a removed server were not all revoked", "thread", thread, "server", server, "err", err)
		return false
	}
	return true
}

// Left ends what a member who left a thread has in it: their loans at once, then their sign-ins, which are revoked. It may be called
// again, and for members who never had anything; what did not work is an error, and can be tried again.
func (b *Bot) Left(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) error {
	if !thread.Valid() || !member.Valid() {
		return words.Invalid("this thread or member has no usable id", "")
	}
	b.signs.forget(thread, member)
	b.desk.Forget(thread, member)
	if b.opt.Accounts == nil {
		return nil
	}
	cfg, err := b.opt.Config.Load(ctx, thread)
	if err != nil {
		b.opt.Log.Warn("servers of a member who left are not named", "thread", thread, "err", err)
	}
	who := words.At(member, "")
	var had []string
	for _, e := range cfg.Entries {
		if e.Owner == member || e.Loan != nil && e.Loan.Member == member && e.Loan.Name != "" {
			who = words.At(member, e.OwnerName)
			if e.Owner != member {
				who = words.At(member, e.Loan.Name)
			}
		}
		if def, ok := e.Running(); ok && view.SignsIn(def) && b.opt.Accounts.Signed(ctx, thread, member, def) {
			had = append(had, e.Name)
		}
	}
	var lent []string
	var errs []error
	if b.opt.Loans != nil {
		lent, err = b.opt.Loans.Detach(ctx, thread, member)
		errs = append(errs, err)
	}
	errs = append(errs, b.opt.Accounts.Leave(ctx, thread, member))
	for _, n := range lent {
		if !slices.Contains(had, n) {
			had = append(had, n)
		}
	}
	if len(had) > 0 {
		by := schemas.Caller{Thread: thread, Member: member, Name: strings.TrimPrefix(who, "@")}
		for _, n := range had {
			b.desk.Noted(ctx, by, schemas.Record{Event: schemas.EventSignIn, Server: n, Detail: "removed, since the member left"})
		}
		b.opt.Live.Poke(thread)
		text := who + "'s sign-ins were removed since they left: " + words.Short(words.Clean(strings.Join(had, ", ")), 300)
		if err := errors.Join(errs...); err != nil {
			text = who + " left, and not all of their sign-ins could be removed; the operator can find why in the log"
		}
		b.desk.Publish(Notice{Thread: thread, Changed: true, Reply: Reply{Blocks: []Block{{Text: text}}}}, "")
	}
	return errors.Join(errs...)
}
