package bot

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// prober contacts a remote server's host and reads what it offers, with these values for its inputs; CodeNeeds when it wants a
// sign-in. It writes the audit record without which it contacts nobody. Only ever called after a person's yes to that host.
type prober interface {
	Probe(context.Context, schemas.Caller, schemas.Server, map[string]schemas.Secret) (schemas.Probe, error)
}

// contactWait bounds the look at a server before its card.
const contactWait = 45 * time.Second

// remote is a connector on its way from its address to its card. Values that were given go along in memory.
type remote struct {
	by     schemas.Caller
	draft  schemas.Draft
	inputs []schemas.Input
	client string         // client id that an upload named
	probe  *schemas.Probe // what its host says of itself; nil: it was not asked
	signed *schemas.Offer // where the member signed in for it
	then   []Fact         // what the assistant does once it is there
}

// contact looks at the server, at its host and nowhere else, and goes on with what it answers.
func (b *Bot) contact(ctx context.Context, t desk.Turn, r remote) (Reply, error) {
	r.by = t.Caller
	s := r.draft.Server
	values, whole := given(r.draft)
	if b.opt.Probe == nil || !whole {
		return b.remoteCard(ctx, t, r)
	}
	host := words.Clean(words.HostOf(s.URL))
	t.Tell("contacting " + host + " …")
	wait, cancel := context.WithTimeout(ctx, contactWait)
	defer cancel()
	p, err := b.opt.Probe.Probe(wait, t.Caller, s, values)
	other := p.Transport != "" && p.Transport != s.Type
	if other {
		r.draft.Server.Type = p.Transport
	}
	switch {
	case err == nil && other && r.signed != nil:
		// A sign-in holds for one definition, and this is another one now.
		b.undone(ctx, &r)
		r.signed = nil
		return b.signInAt(ctx, t, r, host+" speaks another transport to those who are signed in, so the sign-in has to be made once more")
	case err == nil:
		r.probe = &p
		return b.remoteCard(ctx, t, r)
	case schemas.CodeOf(err) == schemas.CodeNeeds && s.Auth.Type == "none":
		return b.signInAt(ctx, t, r, "")
	case schemas.CodeOf(err) == schemas.CodeNeeds && s.Auth.Type == "header":
		again := b.keyForm(t, r, host+" does not take that key; nothing was added")
		again.Bad, again.Code = true, schemas.CodeNeeds
		return again, nil
	}
	return b.stuck(t, r, err), nil
}

// given is the values that came with a draft; whole says that nothing is missing to contact its host.
func given(d schemas.Draft) (values map[string]schemas.Secret, whole bool) {
	values = map[string]schemas.Secret{}
	for _, f := range d.Found {
		values[f.Input] = f.Value
	}
	return values, !slices.ContainsFunc(d.Server.Inputs(), func(id string) bool { _, ok := values[id]; return !ok })
}

// stuck says what went wrong on the way to the card, and lets the member try again or leave.
func (b *Bot) stuck(t desk.Turn, r remote, err error) Reply {
	reply := b.desk.Refusal(t.Caller, err)
	reply.Choices = []Choice{{Key: "again", Label: "Try again"}, {Key: "leave", Label: "Leave it"}}
	if r.draft.Server.Auth.Type == "oauth" {
		reply.Choices = slices.Insert(reply.Choices, 1, Choice{Key: "signin", Label: "Sign in again"})
		if r.signed == nil {
			reply.Choices = append([]Choice{{Key: "signin", Label: "Try again"}, {Key: "key", Label: "With an API key"}}, reply.Choices[2:]...)
		}
	}
	b.loosen(r)
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		switch a.Choice {
		case "again":
			return b.contact(ctx, t, r)
		case "signin":
			return b.signInAt(ctx, t, r, "")
		case "key":
			return b.keyForm(t, r, ""), nil
		}
		return b.leave(ctx, t, r)
	}
	return b.desk.Deal(c, reply)
}

// leave ends the way to a card. A sign-in that was made on it is taken back.
func (b *Bot) leave(ctx context.Context, _ desk.Turn, r remote) (Reply, error) {
	return Reply{Blocks: append([]Block{{Text: "left as it was; nothing was added"}}, b.undone(ctx, &r)...)}, nil
}

// remoteCard shows the card of a connector.
func (b *Bot) remoteCard(ctx context.Context, t desk.Turn, r remote) (Reply, error) {
	b.loosen(r)
	return b.proposed(ctx, t, schemas.Edit{Put: []schemas.Draft{r.draft}, Inputs: r.inputs, Source: "connect"}, &r)
}

// facts is what the card says of the server beside its definition. All of it is the server's own word.
func (r *remote) facts() []Fact {
	var fs []Fact
	add := func(label, value, note string) { fs = append(fs, Fact{Label: label, Value: value, Note: note}) }
	word := func(s string) string { return words.Short(words.Clean(s), 80) }
	if p := r.probe; p == nil {
		add("offers", "not known yet; it was not asked", "")
	} else {
		name := word(p.Name)
		if p.Title != "" && p.Title != p.Name {
			name = strings.TrimSpace(word(p.Title) + " (" + name + ")")
		}
		add("calls itself", strings.TrimSpace(name+" "+word(p.Version)), strings.TrimPrefix("MCP "+word(p.Protocol)+", "+string(r.draft.Server.Type), "MCP , "))
		tools := "adds " + words.Count(len(p.Tools), "tool", "tools") + ", " + words.About(p.Tokens) + " tokens"
		if p.Writing > 0 {
			tools += "; " + view.OfThem(p.Writing, "writes", "write")
		}
		add("tools", tools, view.Names(p.Tools))
		if more := strings.Join(slices.DeleteFunc([]string{map[bool]string{true: "resources"}[p.Resources], map[bool]string{true: "prompts"}[p.Prompts]},
			func(s string) bool { return s == "" }), " and "); more != "" {
			add("and", more, "")
		}
	}
	switch a := r.draft.Server.Auth; {
	case r.signed != nil:
		add("sign-in", "each member with their own account at "+words.Clean(words.BareHost(r.signed.Issuer)), "asks for: "+view.ScopeWords(r.signed.Scopes))
		add("runs as", "the one who asks", "nobody uses yours unless you lend it")
	case a != nil && a.Type == "header":
		add("sign-in", "an API key, in "+words.Clean(strings.Join(slices.Sorted(maps.Keys(r.draft.Server.Headers)), ", ")), "")
		add("runs as", "you, whoever asks", "the key is used for everybody in this thread")
	default:
		add("sign-in", "none", "")
	}
	return fs
}

// maxOffered bounds the tools that "Show everything" lists.
const maxOffered = 200

// offers lists all tools that a server showed, and what it tells models about itself.
func offers(r *remote) []Block {
	if r == nil || r.probe == nil {
		return nil
	}
	var blocks []Block
	tab := &Table{Columns: []string{"tool", "what it does"}}
	for _, x := range r.probe.Tools[:min(len(r.probe.Tools), maxOffered)] {
		tab.Rows = append(tab.Rows, Row{Cells: []string{words.Short(words.Clean(x.Name), 80), words.FirstLine(x.Description, 90)}})
	}
	if more := len(r.probe.Tools) - maxOffered; more > 0 {
		tab.Rows = append(tab.Rows, Row{Cells: []string{"and " + words.Thousands(more) + " more", ""}})
	}
	if len(tab.Rows) > 0 {
		blocks = append(blocks, Block{Text: "what it offers now"}, Block{Table: tab})
	}
	if r.probe.Instructions != "" {
		blocks = append(blocks, Block{Text: "what it tells models"}, Block{Code: words.Short(words.Lines(r.probe.Instructions), 2000)})
	}
	return blocks
}
