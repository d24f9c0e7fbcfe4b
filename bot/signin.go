package bot

import (
	"context"
	"strings"
	"sync"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// signIns begins and ends sign-ins by OAuth. Offer answers CodeMissing when the server names no way. Finish is for the member who
// asked: CodeNeeds while the browser is not done, CodeInvalid for a wrong code with words about the tries left, CodeExpired when it
// is over. Called after a person's yes to the server's host.
type signIns interface {
	Offer(context.Context, schemas.Caller, schemas.Server) (schemas.Offer, error)
	Link(context.Context, schemas.SignIn) (schemas.Link, error)
	Finish(ctx context.Context, by schemas.Caller, id, code string) error
}

const (
	codeTime  = 5 * time.Minute  // to type a code after the link itself is over
	callKept  = 10 * time.Minute // that a call waits for a sign-in
	maxKept   = 1000             // calls that wait, of all threads
	looseTime = time.Minute      // beyond a card's own time
)

// holder names a member's sign-in to a server.
type holder struct {
	thread schemas.ThreadID
	member schemas.MemberID
	server string
}

// errand is a sign-in on its way and what follows it.
type errand struct {
	by     schemas.Caller
	server schemas.Server
	shared string
	then   func(context.Context, desk.Turn) (Reply, error) // once, when the member is signed in
	leave  func(context.Context, desk.Turn) (Reply, error)
	key    func(desk.Turn) Reply // asks for an API key in its place; nil: it is here already, with a sign-in
	// now gives the definition as it is approved, for a connector that is here already: it may be edited while its member signs in.
	now func(context.Context, desk.Turn) (schemas.Server, error)
	// undo takes back a sign-in that its member had left before the browser ended it; nil keeps it.
	undo func(context.Context, schemas.Caller)

	link schemas.Link
	card string // the open card, if any
	left bool   // the member does not want it any more
}

// waiting is a call that goes on when its member signed in.
type waiting struct {
	run   func(context.Context, desk.Turn) (Reply, error)
	until time.Time
}

// loose is a sign-in for a definition that nobody confirmed yet.
type loose struct {
	server schemas.Server
	until  time.Time
}

// signing is what goes on about sign-ins. It is in memory only: after a restart a member begins anew.
type signing struct {
	mu    sync.Mutex
	links map[string]*errand // by link id
	calls map[holder]waiting
	loose map[holder]loose
}

// claim takes an errand that was not left; of those who end it at the same time, one gets it.
func (s *signing) claim(id string) *errand {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.links[id]
	if e == nil || e.left {
		return nil
	}
	delete(s.links, id)
	return e
}

// wait keeps a call for when its member signed in to its server; a newer one takes its place.
func (s *signing) wait(k holder, w waiting, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, o := range s.calls {
		if !now.Before(o.until) {
			delete(s.calls, old)
		}
	}
	if len(s.calls) < maxKept {
		s.calls[k] = w
	}
}

// resume takes the call that waits.
func (s *signing) resume(k holder, now time.Time) (waiting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.calls[k]
	delete(s.calls, k)
	return w, ok && now.Before(w.until)
}

// forget drops all of a thread, or of one member in it.
func (s *signing) forget(thread schemas.ThreadID, member schemas.MemberID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.links {
		if e.by.Thread == thread && (member == "" || e.by.Member == member) {
			delete(s.links, id)
		}
	}
	for k := range s.calls {
		if k.thread == thread && (member == "" || k.member == member) {
			delete(s.calls, k)
		}
	}
	for k := range s.loose {
		if k.thread == thread && (member == "" || k.member == member) {
			delete(s.loose, k)
		}
	}
}

// signInAt says where and for what a member would sign in to a new connector, and asks for a yes. said stands above it.
func (b *Bot) signInAt(ctx context.Context, t desk.Turn, r remote, said string) (Reply, error) {
	host := words.Clean(words.HostOf(r.draft.Server.URL))
	if b.opt.SignIns == nil {
		return b.keyForm(t, r, host+" wants a sign-in, and signing in by OAuth is not part of this setup; an API key works, if it gives one"), nil
	}
	r.draft.Server.Auth, r.draft.Server.Headers = &schemas.Auth{Type: "oauth", ClientID: r.client, Identity: "requester"}, nil
	t.Tell("asking " + host + " how to sign in …")
	wait, cancel := context.WithTimeout(ctx, contactWait)
	defer cancel()
	o, err := b.opt.SignIns.Offer(wait, t.Caller, r.draft.Server)
	if schemas.CodeOf(err) == schemas.CodeMissing {
		return b.keyForm(t, r, host+" wants a sign-in and names no way to do it by OAuth; an API key works, if it gives one"), nil
	}
	if err != nil {
		return b.stuck(t, r, err), nil
	}
	const shared = "only you, unless you lend it"
	if said == "" {
		said = words.Clean(r.draft.Server.Name) + " wants a sign-in"
	}
	reply := Reply{Blocks: append([]Block{{Text: said}}, view.OfferBlocks(r.draft.Server, o, shared)...), Choices: []Choice{{Key: "here", Label: "Sign in"}}}
	if o.Device && t.Caller.Operator {
		reply.Choices = append(reply.Choices, Choice{Key: "device", Label: "Sign in on another device"})
	}
	reply.Choices = append(reply.Choices, Choice{Key: "leave", Label: "Leave it"})
	e := errand{server: r.draft.Server, shared: shared}
	e.then = func(ctx context.Context, t desk.Turn) (Reply, error) {
		r.by, r.signed = t.Caller, &o
		b.loosen(r)
		return b.contact(ctx, t, r)
	}
	e.leave = func(ctx context.Context, t desk.Turn) (Reply, error) { return b.leave(ctx, t, r) }
	e.key = func(t desk.Turn) Reply { return b.keyForm(t, r, "") }
	e.undo = func(ctx context.Context, by schemas.Caller) {
		b.undone(ctx, &remote{by: by, draft: r.draft, signed: &o})
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice == "leave" {
			return b.leave(ctx, t, r)
		}
		return b.begin(ctx, t, e, a.Choice == "device")
	}
	return b.desk.Deal(c, reply), nil
}

// begin asks for a link and gives it to the member alone.
func (b *Bot) begin(ctx context.Context, t desk.Turn, e errand, device bool) (Reply, error) {
	if e.now != nil {
		def, err := e.now(ctx, t)
		if err != nil {
			return Reply{}, err
		}
		e.server = def
	}
	wait, cancel := context.WithTimeout(ctx, contactWait)
	defer cancel()
	l, err := b.opt.SignIns.Link(wait, schemas.SignIn{Caller: t.Caller, Server: e.server, Shared: e.shared, Device: device})
	if err != nil {
		return b.beginAgain(t, e, err), nil
	}
	e.by, e.link, e.card, e.left = t.Caller, l, "", false
	b.signs.mu.Lock()
	for id, old := range b.signs.links { // a member has one link for a server, and old ones are over
		if !b.opt.Now().Before(b.linkEnd(old.link)) || old.by.Thread == e.by.Thread && old.by.Member == e.by.Member && old.server.Name == e.server.Name {
			delete(b.signs.links, id)
		}
	}
	b.signs.links[l.ID] = &e
	b.signs.mu.Unlock()
	return b.linkCard(t, e, Reply{}), nil
}

// linkEnd is when nothing comes of a link any more.
func (b *Bot) linkEnd(l schemas.Link) time.Time { return l.Expires.Add(codeTime) }

// linkCard shows the link, and asks for what ends the sign-in. said is what went wrong with an earlier answer.
func (b *Bot) linkCard(t desk.Turn, e errand, said Reply) Reply {
	l, r := e.link, said
	at := words.Clean(words.BareHost(l.Offer.Issuer))
	r.Private = true
	if len(r.Blocks) == 0 {
		r.Blocks = []Block{{Text: "sign in to " + words.Clean(e.server.Name) + " at " + at + ", then come back here; the link is for you alone"}}
		r.Blocks = append(r.Blocks, view.OfferBlocks(e.server, l.Offer, e.shared)...)
	}
	if l.Code != "" {
		r.Blocks = append(r.Blocks, Block{Text: "on any device, open the page and type `" + words.Short(words.Clean(l.Code), 64) + "`"})
	}
	r.Blocks = append(r.Blocks, Block{Open: &Open{Label: "Sign in at " + at, URL: l.URL}})
	if l.Proof == schemas.ProofCode {
		r.Form = &Form{Title: "code of the sign-in", Submit: "Finish", Fields: []Field{
			{Name: "code", Label: "code", Hint: "the page ends with a code; type it here and tell it to nobody else", Kind: "secret", Required: true}}}
	} else {
		r.Choices = append(r.Choices, Choice{Key: "done", Label: "I am done"})
	}
	if l.Offer.Device && t.Caller.Operator && l.Code == "" {
		r.Choices = append(r.Choices, Choice{Key: "device", Label: "Sign in on another device"})
	}
	r.Choices = append(r.Choices, Choice{Key: "leave", Label: "Leave it"})
	c := &desk.Card{By: t.Caller, Role: schemas.Member, May: desk.RequesterOnly(t.Caller), Ttl: max(b.linkEnd(l).Sub(b.opt.Now()), time.Second)}
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		switch a.Choice {
		case "leave":
			b.signs.mu.Lock()
			if now := b.signs.links[l.ID]; now != nil {
				now.left = true
			}
			b.signs.mu.Unlock()
			return e.leave(ctx, t)
		case "device":
			return b.begin(ctx, t, e, true)
		}
		return b.finish(ctx, t, e, a.Values["code"])
	}
	r = b.desk.Deal(c, r)
	b.signs.mu.Lock()
	defer b.signs.mu.Unlock()
	if now := b.signs.links[l.ID]; now != nil {
		now.card = r.ID
	}
	return r
}

// finish ends a sign-in on the member's word. What follows it runs once, here or when the browser's end was told.
func (b *Bot) finish(ctx context.Context, t desk.Turn, e errand, code string) (Reply, error) {
	err := b.opt.SignIns.Finish(ctx, t.Caller, e.link.ID, strings.TrimSpace(code))
	b.signs.mu.Lock()
	open := b.signs.links[e.link.ID] != nil
	b.signs.mu.Unlock()
	if err == nil || !open {
		mine := b.signs.claim(e.link.ID)
		if mine == nil {
			if err != nil && !b.opt.Accounts.Signed(ctx, t.Caller.Thread, t.Caller.Member, e.server) {
				return Reply{}, err
			}
			return Reply{Private: true, Blocks: []Block{{Text: "you are signed in to " + words.Clean(e.server.Name)}}}, nil
		}
		b.opt.Live.Poke(t.Caller.Thread)
		return mine.then(ctx, t)
	}
	switch schemas.CodeOf(err) {
	case schemas.CodeExpired, schemas.CodeDenied, schemas.CodeFailed:
		b.signs.claim(e.link.ID)
		return b.beginAgain(t, e, err), nil
	}
	return b.linkCard(t, e, b.desk.Refusal(t.Caller, err)), nil
}

// beginAgain says why a sign-in came to nothing, and offers a new one.
func (b *Bot) beginAgain(t desk.Turn, e errand, err error) Reply {
	r := b.desk.Refusal(t.Caller, err)
	r.Choices = []Choice{{Key: "again", Label: "Sign in again"}, {Key: "leave", Label: "Leave it"}}
	if schemas.CodeOf(err) == schemas.CodeMissing && e.key != nil { // another try changes nothing
		r.Choices[0] = Choice{Key: "key", Label: "With an API key"}
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		switch a.Choice {
		case "again":
			return b.begin(ctx, t, e, false)
		case "key":
			return e.key(t), nil
		}
		return e.leave(ctx, t)
	}
	return b.desk.Deal(c, r)
}

// SignedIn hears that a browser ended a sign-in whose token is in the vault. It returns at once: what follows goes on inside Run,
// and its reply reaches the member as a notice. Without Run or a door that reaches the member, it waits for "I am done".
func (b *Bot) SignedIn(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, link string) {
	b.signs.mu.Lock()
	e := b.signs.links[link]
	ours := e != nil && e.by.Thread == thread && e.by.Member == member && ctx.Err() == nil
	left := ours && e.left
	if left {
		delete(b.signs.links, link)
	}
	b.signs.mu.Unlock()
	b.desk.Changed(thread)
	switch {
	case left && e.undo != nil:
		b.desk.Beside(desk.MaxLate, func(ctx context.Context) { e.undo(ctx, e.by) })
	case ours && !left && b.desk.Heard(e.by):
		b.desk.Beside(desk.MaxLate, func(ctx context.Context) { b.goOn(ctx, link) })
	}
}

// goOn runs what waited for a sign-in, unless the member's own word did.
func (b *Bot) goOn(ctx context.Context, link string) {
	e := b.signs.claim(link)
	if e == nil {
		return
	}
	b.desk.Drop(e.card)
	b.opt.Live.Poke(e.by.Thread)
	r, err := e.then(ctx, desk.Turn{Caller: e.by, Tell: func(string) {}})
	if err != nil {
		r = b.desk.Refusal(e.by, err)
	}
	r.Private, r.Replace = true, e.card
	b.desk.Publish(Notice{Thread: e.by.Thread, To: e.by.Member, Reply: r, Changed: true}, "")
}

// loosen remembers a sign-in that ends when its card is not confirmed.
func (b *Bot) loosen(r remote) {
	if r.signed == nil {
		return
	}
	b.signs.mu.Lock()
	defer b.signs.mu.Unlock()
	b.signs.loose[holder{r.by.Thread, r.by.Member, r.draft.Server.Name}] = loose{r.draft.Server, b.opt.Now().Add(b.opt.CardTTL + looseTime)}
}

// keep says that the card was confirmed, and with it the sign-in.
func (b *Bot) keep(r *remote) {
	if r == nil {
		return
	}
	b.signs.mu.Lock()
	defer b.signs.mu.Unlock()
	delete(b.signs.loose, holder{r.by.Thread, r.by.Member, r.draft.Server.Name})
}

// undone takes back the sign-in that was made for a card, and says so.
func (b *Bot) undone(ctx context.Context, r *remote) []Block {
	if r == nil || r.signed == nil {
		return nil
	}
	b.keep(r)
	ctx, cancel := desk.After(ctx)
	defer cancel()
	if err := b.opt.Accounts.SignOut(ctx, r.by.Thread, r.by.Member, r.draft.Server); err != nil {
		b.opt.Log.Error("a sign-in without its card stays", "thread", r.by.Thread, "server", r.draft.Server.Name, "err", err)
		return []Block{{Text: "the sign-in could not be ended; end it in your account at " + words.Clean(words.BareHost(r.signed.Issuer))}}
	}
	return []Block{{Text: words.At(r.by.Member, r.by.Name) + " is signed out again"}}
}

// tidy ends the sign-ins whose cards nobody confirmed in time, until ctx ends.
func (b *Bot) tidy(ctx context.Context) {
	tick := time.NewTicker(looseTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := b.opt.Now()
		b.signs.mu.Lock()
		over := map[holder]loose{}
		for k, l := range b.signs.loose {
			if !now.Before(l.until) {
				over[k] = l
				delete(b.signs.loose, k)
			}
		}
		b.signs.mu.Unlock()
		for k, l := range over {
			end, cancel := context.WithTimeout(ctx, desk.AfterWait)
			if err := b.opt.Accounts.SignOut(end, k.thread, k.member, l.server); err != nil {
				b.opt.Log.Error("a sign-in without its card stays", "thread", k.thread, "server", k.server, "err", err)
			}
			cancel()
		}
	}
}
