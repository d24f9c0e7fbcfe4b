package bot

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/form"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Elicit puts a server's question to the member whose call it is, in a form or with a page to open that only that member sees, and
// waits for the answer, the server's word that the page is done, the end of ctx, or the card's time. Without a door that reaches the
// member it answers CodeAsk at once. Values and addresses are written down nowhere.
func (b *Bot) Elicit(ctx context.Context, q schemas.Elicit) (schemas.Elicited, error) {
	waiting, cancel := context.WithTimeout(ctx, b.opt.CardTTL)
	defer cancel()
	answers := make(chan schemas.Elicited, 1)
	a := &desk.Question{Notice: Notice{Thread: q.Caller.Thread, To: q.Caller.Member}}
	var asks string
	if q.URL != "" {
		asks, a.Notice.Reply = b.pageQuestion(waiting, q, answers)
	} else {
		asks, a.Notice.Reply = b.formQuestion(waiting, q, a, answers)
	}
	if err := b.desk.Record(ctx, q.Caller, schemas.Record{Event: schemas.EventElicit, Server: q.Server, Detail: words.Short(asks, 300)}); err != nil {
		b.desk.Drop(a.Notice.Reply.ID)
		return schemas.Elicited{}, err
	}
	if !b.desk.Ask(a) {
		b.desk.Drop(a.Notice.Reply.ID)
		return schemas.Elicited{}, &schemas.Error{Code: schemas.CodeAsk, Text: q.Server + " asks for input, and nobody could be asked", Hint: "call it in a chat door"}
	}
	b.desk.Publish(Notice{Thread: q.Caller.Thread, Reply: Reply{Blocks: []Block{{
		Text: "waiting for " + words.At(q.Caller.Member, q.Caller.Name) + " to answer " + words.Clean(q.Server)}}}}, q.Caller.Member)
	defer b.desk.Done(a)
	action, noted, said := "cancel", "not answered", words.Clean(q.Server)+" waits for its answer no longer"
	select {
	case answer := <-answers:
		return answer, nil
	case <-q.Done:
		action, noted, said = "accept", "done, says the server", "done · the call goes on"
	case <-waiting.Done():
	}
	card := b.desk.Settled(a)
	select {
	case answer := <-answers: // given in the same moment
		return answer, nil
	default:
	}
	b.desk.Noted(ctx, q.Caller, schemas.Record{Event: schemas.EventElicit, Server: q.Server, Detail: noted})
	b.desk.Publish(Notice{Thread: q.Caller.Thread, To: q.Caller.Member, Reply: Reply{Private: true, Replace: card,
		Blocks: []Block{{Text: said}}}}, "")
	return schemas.Elicited{Action: action}, nil
}

// formQuestion is the card of a form, for as long as waiting lasts, and what the audit log says of it. A refused answer asks again, with
// all mistakes.
func (b *Bot) formQuestion(waiting context.Context, q schemas.Elicit, a *desk.Question, answers chan<- schemas.Elicited) (asks string, r Reply) {
	fields := form.OfQuestion(q)
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	r = Reply{Private: true, Choices: []Choice{{Key: "decline", Label: "Decline"}}, Blocks: []Block{
		{Text: words.Clean(q.Server) + " asks you, in the middle of your call"},
		{Code: words.Lines(q.Message)},
		{Warning: "What you answer goes to `" + words.Clean(q.Server) + "`. Never give it a password or a key this way."},
	}}
	if len(fields) > 0 {
		r.Form = &Form{Title: "answer " + words.Clean(q.Server), Submit: "Answer", Fields: form.Fields(fields)}
	} else {
		r.Choices = append([]Choice{{Key: "accept", Label: "Accept"}}, r.Choices...)
	}
	c := &desk.Card{By: q.Caller, Role: schemas.Guest, May: desk.RequesterOnly(q.Caller)}
	c.Act = desk.UnlessOver(waiting, func(ctx context.Context, t desk.Turn, act Action) (Reply, error) {
		if act.Choice == "decline" {
			return b.elicited(ctx, t, q, answers, schemas.Elicited{Action: "decline"})
		}
		content, problems := form.Read(fields, act.Values)
		if len(problems) == 0 {
			problems = form.Labelled(fields, q.Check(content))
		}
		if len(problems) == 0 {
			return b.elicited(ctx, t, q, answers, schemas.Elicited{Action: "accept", Content: content})
		}
		again := view.Mistakes("the answer", problems, "")
		again.Blocks[0].Text = strings.Replace(again.Blocks[0].Text, "nothing was changed", "nothing was sent", 1)
		again.Private, again.Form, again.Choices = true, r.Form, r.Choices
		again = b.desk.Deal(c, again)
		b.desk.Redealt(a, func(r *Reply) { r.ID, r.Expires = again.ID, again.Expires })
		return again, nil
	})
	return "asks for " + words.Clean(strings.Join(names, ", ")), b.desk.Deal(c, r)
}

// pageQuestion is the card of a page that the member should open, for as long as waiting lasts, and what the audit log says of it, which
// is the host alone: an address may hold what nobody else should read.
func (b *Bot) pageQuestion(waiting context.Context, q schemas.Elicit, answers chan<- schemas.Elicited) (asks string, r Reply) {
	host := "an unknown host"
	if u, err := url.Parse(q.URL); err == nil && u.Host != "" {
		host = words.Clean(u.Host)
	}
	server := words.Clean(q.Server)
	r = Reply{Private: true, Choices: []Choice{{Key: "accept", Label: "Continue"}, {Key: "decline", Label: "Decline"}}, Blocks: []Block{
		{Text: server + " wants you to open a page, in the middle of your call"},
		{Code: words.Lines(q.Message)},
		{Facts: []Fact{{Label: "host", Value: "`" + host + "`", Note: "press Continue when you are done there"}}},
		{Warning: "The page is not bobbin's: `" + server + "` chose it. Open it only if you know that host, and never give it a secret that you keep with bobbin."},
	}}
	if words.Lookalike(host) {
		r = view.With(r, Block{Warning: "`" + host + "` is written with letters that can look like those of another name."})
	}
	r = view.With(r, Block{Open: &Open{Label: "Open " + host, URL: q.URL}})
	c := &desk.Card{By: q.Caller, Role: schemas.Guest, May: desk.RequesterOnly(q.Caller)}
	c.Act = desk.UnlessOver(waiting, func(ctx context.Context, t desk.Turn, act Action) (Reply, error) {
		return b.elicited(ctx, t, q, answers, schemas.Elicited{Action: act.Choice})
	})
	return "asks to open a page at " + host, b.desk.Deal(c, r)
}

// elicited writes down that there is an answer, never what it is, and lets the call go on.
func (b *Bot) elicited(ctx context.Context, t desk.Turn, q schemas.Elicit, answers chan<- schemas.Elicited, answer schemas.Elicited) (Reply, error) {
	text := map[string]string{"accept": "answered", "decline": "declined"}[answer.Action]
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventElicit, Server: q.Server, Detail: text}); err != nil {
		answers <- schemas.Elicited{Action: "cancel"}
		return Reply{}, err
	}
	if answer.Action == "accept" && answer.Content == nil && q.URL == "" {
		answer.Content = json.RawMessage("{}")
	}
	answers <- answer
	if q.URL == "" || answer.Action == "accept" { // a server that was refused a page may end the call instead
		text += " · the call goes on"
	}
	return Reply{Private: true, Blocks: []Block{{Text: text}}}, nil
}
