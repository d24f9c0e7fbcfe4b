package rule

import (
	"context"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/form"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Ask is the gate of calls that need a yes: it posts a card to the requester and waits for the answer or the end of ctx.
// Several may wait at once. Hour and always are stored before it returns. Without a door that reaches the member it answers
// CodeAsk at once, at the end of ctx CodeExpired; in both cases the call must not run.
func (rs *Rules) Ask(ctx context.Context, ask schemas.Ask) (schemas.Answer, error) {
	return rs.AskShown(ctx, ask, form.Asked(ask))
}

// AskShown is Ask with other words on the card than the arguments.
func (rs *Rules) AskShown(ctx context.Context, ask schemas.Ask, shown []view.Block) (schemas.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, rs.opt.CardTTL)
	defer cancel()
	a := &desk.Question{Answer: make(chan schemas.Answer, 1)}
	name := ask.Tool.Full()
	a.Notice = view.Notice{Thread: ask.Caller.Thread, To: ask.Caller.Member, Reply: rs.askCard(ask, shown, a)}
	if !rs.desk.Ask(a) {
		rs.desk.Drop(a.Notice.Reply.ID)
		hint := "open the thread in a chat door"
		if !ask.Each {
			hint += ", or a manager can `/mcp policy allow " + name + "`"
		}
		return schemas.AnswerDeny, &schemas.Error{Code: schemas.CodeAsk, Text: name + " needs a yes first, and nobody could be asked", Hint: hint}
	}
	if !ask.Shown {
		rs.desk.Publish(view.Notice{Thread: ask.Caller.Thread, Reply: view.Reply{Blocks: []view.Block{{
			Text: "waiting for " + words.At(ask.Caller.Member, ask.Caller.Name) + " to allow " + words.Clean(name)}}}}, ask.Caller.Member)
	}
	defer rs.desk.Done(a)
	return rs.desk.Await(ctx, a, "nobody answered whether "+name+" may run, so it did not", "ask for it again")
}

func (rs *Rules) askCard(ask schemas.Ask, shown []view.Block, a *desk.Question) view.Reply {
	r := view.Reply{Private: true, Blocks: shown}
	r.Choices = []view.Choice{{Key: string(schemas.AnswerOnce), Label: "Once"}}
	if !ask.Each {
		r.Choices = append(r.Choices, view.Choice{Key: string(schemas.AnswerHour), Label: "1 hour"}, view.Choice{Key: string(schemas.AnswerAlways), Label: "Always here"})
	}
	r.Choices = append(r.Choices, view.Choice{Key: string(schemas.AnswerDeny), Label: "Deny"})
	c := &desk.Card{By: ask.Caller, Role: schemas.Member, May: desk.RequesterOnly(ask.Caller)}
	c.Act = func(ctx context.Context, t desk.Turn, act view.Action) (view.Reply, error) {
		return rs.answer(ctx, t, ask, a, act.Choice)
	}
	return rs.desk.Deal(c, r)
}

// answer stores what outlives the call, then lets the call go on. A yes that cannot be written down is none.
func (rs *Rules) answer(ctx context.Context, t desk.Turn, ask schemas.Ask, a *desk.Question, choice string) (view.Reply, error) {
	name, said := ask.Tool.Full(), schemas.Answer(choice)
	text := map[schemas.Answer]string{schemas.AnswerOnce: "allowed once", schemas.AnswerHour: "allowed for 1 hour",
		schemas.AnswerAlways: "allowed until you take it back", schemas.AnswerDeny: "denied"}[said]
	if text == "" || ask.Each && said != schemas.AnswerOnce {
		said, text = schemas.AnswerDeny, "denied"
	}
	err := rs.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventPolicy, Server: ask.Tool.Server, Tool: ask.Tool.Name, Detail: text})
	if err == nil && said != schemas.AnswerDeny && said != schemas.AnswerOnce {
		var until *time.Time
		if said == schemas.AnswerHour {
			end := rs.opt.Now().Add(time.Hour)
			until = &end
		}
		err = rs.grant(ctx, t.Caller, ask.Tool, until)
	}
	if err != nil {
		a.Answer <- schemas.AnswerDeny
		return view.Reply{}, err
	}
	a.Answer <- said
	text = words.Clean(name) + " " + text
	if said == schemas.AnswerAlways {
		text += " · `/mcp policy forget " + strings.ReplaceAll(words.Clean(name), " ", "") + "`"
	}
	return view.Reply{Private: true, Blocks: []view.Block{{Text: text}}}, nil
}
