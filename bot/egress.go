package bot

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// hostRule marks a rule about a host, as the lists of tools and of hosts share their commands.
const hostRule = "host:"

// contactTTL is how long a program waits for a yes to a host: longer, and it gives up by itself.
const contactTTL = time.Minute

// maxContacts is how many questions about hosts a member has open at once, so that no program floods them with cards.
const maxContacts = 8

// Contact is the gate of hosts that need a yes: it posts a card to the member whose sandbox wants to reach one, and waits for
// the answer, the end of ctx, or a minute. Always and never change the thread's rules when a manager says them; they are stored
// before it returns, and a rule about the host that is made meanwhile answers, too. Without a door that reaches the member it
// answers CodeAsk at once, at the end CodeExpired; whenever there is an error the host must not be reached.
func (b *Bot) Contact(ctx context.Context, c schemas.Contact) (schemas.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, contactTTL)
	defer cancel()
	host := contactHost(c)
	if !schemas.ValidHost(host) || strings.Contains(host, "*") || host != strings.ToLower(host) || c.Port < 1 || c.Port > 65535 {
		return schemas.AnswerDeny, words.Invalid("that is no host", "")
	}
	refused := &schemas.Error{Code: schemas.CodeAsk, Text: host + " needs a yes first, and nobody could be asked",
		Hint: "open the thread in a chat door, or a manager can `/mcp policy allow " + hostRule + host + "`"}
	a := &desk.Question{Answer: make(chan schemas.Answer, 1), Contact: &c}
	if b.contacts(c) >= maxContacts {
		refused.Text, refused.Hint = host+" needs a yes first, and too many questions about hosts are open already", "answer those first"
		return schemas.AnswerDeny, refused
	}
	a.Notice = Notice{Thread: c.Thread, To: c.Member, Reply: b.hostCard(ctx, c, host, a)}
	if !b.desk.Ask(a) {
		b.desk.Drop(a.Notice.Reply.ID)
		return schemas.AnswerDeny, refused
	}
	defer b.desk.Done(a)
	return b.desk.Await(ctx, a, "nobody answered whether "+host+" may be reached, so it was not", "ask for it again")
}

// contacts counts a member's open questions about hosts.
func (b *Bot) contacts(c schemas.Contact) int {
	n := 0
	for _, o := range b.desk.Questions() {
		if o.Contact != nil && o.Contact.Thread == c.Thread && o.Contact.Member == c.Member {
			n++
		}
	}
	return n
}

// answered lets go on what waits for an answer that the rules give by now, and settles its card.
func (b *Bot) answered(thread schemas.ThreadID, rules schemas.EgressRules) {
	for _, o := range b.desk.Questions() {
		if o.Contact == nil || o.Contact.Thread != thread {
			continue
		}
		answer, text := schemas.AnswerAlways, " may be reached from this thread: a rule says so"
		switch verb, _ := rules.Decide(o.Contact.Host, o.Contact.Port); verb {
		case schemas.Allow:
		case schemas.Deny:
			answer, text = schemas.AnswerDeny, " is never reached from this thread: a rule says so"
		default:
			continue
		}
		if b.desk.Drop(o.Notice.Reply.ID) { // else its own answer is on its way
			o.Answer <- answer
			b.desk.Publish(Notice{Thread: thread, To: o.Notice.To, Reply: Reply{Private: true, Replace: o.Notice.Reply.ID,
				Blocks: []Block{{Text: words.Clean(contactHost(*o.Contact)) + text}}}}, "")
		}
	}
}

// contactHost is a host as rules write it. The ports of the web are left out, so that one answer holds for both.
func contactHost(c schemas.Contact) string {
	if c.Port == 443 || c.Port == 80 {
		return c.Host
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
}

func (b *Bot) hostCard(ctx context.Context, c schemas.Contact, host string, a *desk.Question) Reply {
	who := "a program in your sandbox"
	if c.Server != "" {
		who = words.Short(words.Clean(c.Server), 64)
	}
	always := "every program of this thread, every port"
	if c.Port != 443 && c.Port != 80 {
		always = "every program of this thread"
	}
	r := Reply{Private: true, Blocks: []Block{{Text: who + " tried " + words.Clean(host)},
		{Facts: []Fact{{Label: "port", Value: strconv.Itoa(c.Port)}, {Label: "once", Value: "lets it connect for a minute"},
			{Label: "always", Value: "for " + always, Note: "a manager's"}}},
		{Warning: "What a program knows, it can send there, values from your vault included."}}}
	if words.Lookalike(c.Host) {
		r = view.With(r, Block{Warning: "`" + words.Clean(c.Host) + "` is written with letters that can look like those of another name."})
	}
	r.Choices = []Choice{{Key: string(schemas.AnswerOnce), Label: "Once"}, {Key: string(schemas.AnswerAlways), Label: "Always here"},
		{Key: string(schemas.AnswerDeny), Label: "Never"}}
	by := schemas.Caller{Thread: c.Thread, Member: c.Member}
	// Always stays open for one who may not say it.
	d := &desk.Card{By: by, Role: schemas.Member, Ttl: contactTTL, Look: []string{string(schemas.AnswerAlways)}, May: desk.RequesterOnly(by)}
	d.Act = desk.UnlessOver(ctx, func(ctx context.Context, t desk.Turn, act Action) (Reply, error) {
		if schemas.Answer(act.Choice) == schemas.AnswerAlways {
			if !t.Caller.Manages() {
				return Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can open a host for always; `Once` is yours",
					Hint: "`/mcp policy allow " + hostRule + words.Clean(host) + "` asks one"}
			}
			if !b.desk.Take(act.ID, d) {
				return Reply{}, desk.Gone()
			}
		}
		r, err := b.hostAnswer(ctx, t, c, host, a, schemas.Answer(act.Choice))
		if err != nil {
			r = b.desk.Refusal(t.Caller, err)
		}
		r.Replace = act.ID
		return r, nil
	})
	return b.desk.Deal(d, r)
}

// hostAnswer stores what outlives the connection, then lets it go on. A yes that cannot be written down is none.
func (b *Bot) hostAnswer(ctx context.Context, t desk.Turn, c schemas.Contact, host string, a *desk.Question, said schemas.Answer) (Reply, error) {
	text, list := "", ""
	switch {
	case said == schemas.AnswerOnce:
		text = words.Clean(host) + " may be reached for a minute"
	case said == schemas.AnswerAlways:
		list, text = "allow", words.Clean(host)+" may be reached from this thread"
	case t.Caller.Manages():
		list, text = "deny", words.Clean(host)+" is never reached from this thread"
	default:
		text = words.Clean(host) + " stays closed to your sandbox for an hour; a manager can close it for good"
	}
	err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventPolicy, Server: c.Server, Detail: text})
	if err == nil && list != "" {
		_, err = b.storeHost(ctx, t.Caller.Thread, list, host)
	}
	if err != nil {
		a.Answer <- schemas.AnswerDeny
		return Reply{}, err
	}
	a.Answer <- said
	if list != "" {
		text += " · `/mcp policy forget " + hostRule + words.Clean(host) + "`"
	}
	return Reply{Private: true, Blocks: []Block{{Text: text}}}, nil
}

// hostRule is /mcp policy allow, ask, deny and forget with a host. Rules about hosts are the thread's and a manager's.
func (b *Bot) hostRule(ctx context.Context, t desk.Turn, list, host, who string) (Reply, error) {
	switch {
	case !schemas.ValidHost(host):
		return Reply{}, words.Invalid("that is no host", "`/mcp policy "+list+" host:api.example.com`, or host:*.example.com, or with a port host:api.example.com:8443")
	case who != "":
		return Reply{}, words.Invalid("rules about hosts are for the whole thread", "`/mcp policy "+list+" "+hostRule+host+"`")
	case list == "allow":
		return b.hostAllowCard(t, host), nil
	case !t.Caller.Manages():
		return Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can change its rules"}
	}
	return b.setHost(ctx, t, list, host)
}

func (b *Bot) hostAllowCard(t desk.Turn, host string) Reply {
	what := words.Clean(host)
	if host == "*" {
		what = "every public host"
	}
	warning := "They then reach it without a question, and can send there what they know. Addresses that are not public stay closed."
	if !t.Caller.Manages() {
		warning += " A manager of the thread has to confirm."
	}
	r := Reply{Blocks: []Block{{Text: "let the sandboxes of everyone in this thread reach " + what + "?"}, {Warning: warning}},
		Choices: []Choice{{Key: desk.Confirm, Label: "Confirm", Style: "danger"}, {Key: desk.Cancel, Label: "Cancel"}}}
	c := &desk.Card{By: t.Caller, Role: schemas.Member, May: desk.ManagerOnly}
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice != desk.Confirm {
			b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCancelled, Detail: "allow " + hostRule + words.Clean(host)})
			return Reply{Blocks: []Block{{Text: "cancelled; nothing was changed"}}}, nil
		}
		return b.setHost(ctx, t, "allow", host)
	}
	return b.desk.Deal(c, r)
}

func (b *Bot) setHost(ctx context.Context, t desk.Turn, list, host string) (Reply, error) {
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventPolicy, Detail: list + " " + hostRule + host + " for the thread"}); err != nil {
		return Reply{}, err
	}
	found, err := b.storeHost(ctx, t.Caller.Thread, list, host)
	switch {
	case err != nil:
		return Reply{}, err
	case list == "forget" && !found:
		return Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "there is no such rule", Hint: "`/mcp policy show` lists them"}
	case list == "forget":
		return Reply{Blocks: []Block{{Text: "the rule about " + words.Clean(host) + " is taken back"}}}, nil
	}
	return Reply{Blocks: []Block{{Text: words.Clean(host) + " is on the " + list + " list of hosts for the thread · `/mcp policy forget " + hostRule + words.Clean(host) + "` takes it back"}}}, nil
}

// storeHost moves a host to one list, or off all of them; found says that it stood on one before.
func (b *Bot) storeHost(ctx context.Context, thread schemas.ThreadID, list, host string) (found bool, err error) {
	e := schemas.EgressRules{}
	err = b.opt.Rules.Rule(ctx, thread, func(p *schemas.Policy) error {
		e = schemas.EgressRules{}
		if p.Egress != nil {
			e = *p.Egress
		}
		found = false
		lists := map[string]*[]string{"allow": &e.Allow, "ask": &e.Ask, "deny": &e.Deny}
		for name, l := range lists {
			found = found || slices.Contains(*l, host)
			*l = slices.DeleteFunc(slices.Clone(*l), func(h string) bool { return h == host })
			if name == list {
				*l = append(*l, host)
			}
		}
		if p.Egress = nil; !e.Empty() {
			stored := e
			p.Egress = &stored
		}
		return nil
	})
	if err == nil {
		b.answered(thread, e)
		b.desk.Changed(thread)
	}
	return found, err
}

// prefixed gives the lists as the commands take them.
func prefixed(e schemas.EgressRules) schemas.Rules {
	mark := func(hosts []string) []string {
		var out []string
		for _, h := range hosts {
			out = append(out, hostRule+h)
		}
		return out
	}
	return schemas.Rules{Allow: mark(e.Allow), Ask: mark(e.Ask), Deny: mark(e.Deny)}
}
