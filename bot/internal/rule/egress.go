package rule

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
func (rs *Rules) Contact(ctx context.Context, c schemas.Contact) (schemas.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, contactTTL)
	defer cancel()
	host := contactHost(c)
	if !schemas.ValidHost(host) || strings.Contains(host, "*") || host != strings.ToLower(host) || c.Port < 1 || c.Port > 65535 {
		return schemas.AnswerDeny, words.Invalid("that is no host", "")
	}
	refused := &schemas.Error{Code: schemas.CodeAsk, Text: host + " needs a yes first, and nobody could be asked",
		Hint: "open the thread in a chat door, or a manager can `/mcp policy allow " + hostRule + host + "`"}
	a := &desk.Question{Answer: make(chan schemas.Answer, 1), Contact: &c}
	if rs.contacts(c) >= maxContacts {
		refused.Text, refused.Hint = host+" needs a yes first, and too many questions about hosts are open already", "answer those first"
		return schemas.AnswerDeny, refused
	}
	a.Notice = view.Notice{Thread: c.Thread, To: c.Member, Reply: rs.hostCard(ctx, c, host, a)}
	if !rs.desk.Ask(a) {
		rs.desk.Drop(a.Notice.Reply.ID)
		return schemas.AnswerDeny, refused
	}
	defer rs.desk.Done(a)
	return rs.desk.Await(ctx, a, "nobody answered whether "+host+" may be reached, so it was not", "ask for it again")
}

// contacts counts a member's open questions about hosts.
func (rs *Rules) contacts(c schemas.Contact) int {
	n := 0
	for _, o := range rs.desk.Questions() {
		if o.Contact != nil && o.Contact.Thread == c.Thread && o.Contact.Member == c.Member {
			n++
		}
	}
	return n
}

// answered lets go on what waits for an answer that the rules give by now, and settles its card.
func (rs *Rules) answered(thread schemas.ThreadID, rules schemas.EgressRules) {
	for _, o := range rs.desk.Questions() {
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
		if rs.desk.Drop(o.Notice.Reply.ID) { // else its own answer is on its way
			o.Answer <- answer
			rs.desk.Publish(view.Notice{Thread: thread, To: o.Notice.To, Reply: view.Reply{Private: true, Replace: o.Notice.Reply.ID,
				Blocks: []view.Block{{Text: words.Clean(contactHost(*o.Contact)) + text}}}}, "")
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

func (rs *Rules) hostCard(ctx context.Context, c schemas.Contact, host string, a *desk.Question) view.Reply {
	who := "a program in your sandbox"
	if c.Server != "" {
		who = words.Short(words.Clean(c.Server), 64)
	}
	always := "every program of this thread, every port"
	if c.Port != 443 && c.Port != 80 {
		always = "every program of this thread"
	}
	r := view.Reply{Private: true, Blocks: []view.Block{{Text: who + " tried " + words.Clean(host)},
		{Facts: []view.Fact{{Label: "port", Value: strconv.Itoa(c.Port)}, {Label: "once", Value: "lets it connect for a minute"},
			{Label: "always", Value: "for " + always, Note: "a manager's"}}},
		{Warning: "What a program knows, it can send there, values from your vault included."}}}
	if words.Lookalike(c.Host) {
		r = view.With(r, view.Block{Warning: "`" + words.Clean(c.Host) + "` is written with letters that can look like those of another name."})
	}
	r.Choices = []view.Choice{{Key: string(schemas.AnswerOnce), Label: "Once"}, {Key: string(schemas.AnswerAlways), Label: "Always here"},
		{Key: string(schemas.AnswerDeny), Label: "Never"}}
	by := schemas.Caller{Thread: c.Thread, Member: c.Member}
	// Always stays open for one who may not say it.
	d := &desk.Card{By: by, Role: schemas.Member, Ttl: contactTTL, Look: []string{string(schemas.AnswerAlways)}, May: desk.RequesterOnly(by)}
	d.Act = desk.UnlessOver(ctx, func(ctx context.Context, t desk.Turn, act view.Action) (view.Reply, error) {
		if schemas.Answer(act.Choice) == schemas.AnswerAlways {
			if !t.Caller.Manages() {
				return view.Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can open a host for always; `Once` is yours",
					Hint: "`/mcp policy allow " + hostRule + words.Clean(host) + "` asks one"}
			}
			if !rs.desk.Take(act.ID, d) {
				return view.Reply{}, desk.Gone()
			}
		}
		r, err := rs.hostAnswer(ctx, t, c, host, a, schemas.Answer(act.Choice))
		if err != nil {
			r = rs.desk.Refusal(t.Caller, err)
		}
		r.Replace = act.ID
		return r, nil
	})
	return rs.desk.Deal(d, r)
}

// hostAnswer stores what outlives the connection, then lets it go on. A yes that cannot be written down is none.
func (rs *Rules) hostAnswer(ctx context.Context, t desk.Turn, c schemas.Contact, host string, a *desk.Question, said schemas.Answer) (view.Reply, error) {
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
	err := rs.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventPolicy, Server: c.Server, Detail: text})
	if err == nil && list != "" {
		_, err = rs.storeHost(ctx, t.Caller.Thread, list, host)
	}
	if err != nil {
		a.Answer <- schemas.AnswerDeny
		return view.Reply{}, err
	}
	a.Answer <- said
	if list != "" {
		text += " · `/mcp policy forget " + hostRule + words.Clean(host) + "`"
	}
	return view.Reply{Private: true, Blocks: []view.Block{{Text: text}}}, nil
}

// hostRule is /mcp policy allow, ask, deny and forget with a host. Rules about hosts are the thread's and a manager's.
func (rs *Rules) hostRule(ctx context.Context, t desk.Turn, list, host, who string) (view.Reply, error) {
	switch {
	case !schemas.ValidHost(host):
		return view.Reply{}, words.Invalid("that is no host", "`/mcp policy "+list+" host:api.example.com`, or host:*.example.com, or with a port host:api.example.com:8443")
	case who != "":
		return view.Reply{}, words.Invalid("rules about hosts are for the whole thread", "`/mcp policy "+list+" "+hostRule+host+"`")
	case list == "allow":
		return rs.hostAllowCard(t, host), nil
	case !t.Caller.Manages():
		return view.Reply{}, &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can change its rules"}
	}
	return rs.setHost(ctx, t, list, host)
}

func (rs *Rules) hostAllowCard(t desk.Turn, host string) view.Reply {
	what := words.Clean(host)
	if host == "*" {
		what = "every public host"
	}
	warning := "They then reach it without a question, and can send there what they know. Addresses that are not public stay closed."
	if !t.Caller.Manages() {
		warning += " A manager of the thread has to confirm."
	}
	r := view.Reply{Blocks: []view.Block{{Text: "let the sandboxes of everyone in this thread reach " + what + "?"}, {Warning: warning}},
		Choices: []view.Choice{{Key: desk.Confirm, Label: "Confirm", Style: "danger"}, {Key: desk.Cancel, Label: "Cancel"}}}
	c := &desk.Card{By: t.Caller, Role: schemas.Member, May: desk.ManagerOnly}
	c.Act = func(ctx context.Context, t desk.Turn, a view.Action) (view.Reply, error) {
		if a.Choice != desk.Confirm {
			rs.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventCancelled, Detail: "allow " + hostRule + words.Clean(host)})
			return view.Reply{Blocks: []view.Block{{Text: "cancelled; nothing was changed"}}}, nil
		}
		return rs.setHost(ctx, t, "allow", host)
	}
	return rs.desk.Deal(c, r)
}

func (rs *Rules) setHost(ctx context.Context, t desk.Turn, list, host string) (view.Reply, error) {
	if err := rs.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventPolicy, Detail: list + " " + hostRule + host + " for the thread"}); err != nil {
		return view.Reply{}, err
	}
	found, err := rs.storeHost(ctx, t.Caller.Thread, list, host)
	switch {
	case err != nil:
		return view.Reply{}, err
	case list == "forget" && !found:
		return view.Reply{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "there is no such rule", Hint: "`/mcp policy show` lists them"}
	case list == "forget":
		return view.Reply{Blocks: []view.Block{{Text: "the rule about " + words.Clean(host) + " is taken back"}}}, nil
	}
	return view.Reply{Blocks: []view.Block{{Text: words.Clean(host) + " is on the " + list + " list of hosts for the thread · `/mcp policy forget " + hostRule + words.Clean(host) + "` takes it back"}}}, nil
}

// storeHost moves a host to one list, or off all of them; found says that it stood on one before.
func (rs *Rules) storeHost(ctx context.Context, thread schemas.ThreadID, list, host string) (found bool, err error) {
	e := schemas.EgressRules{}
	err = rs.opt.Rules.Rule(ctx, thread, func(p *schemas.Policy) error {
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
		rs.answered(thread, e)
		rs.desk.Changed(thread)
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
