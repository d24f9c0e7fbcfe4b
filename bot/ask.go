package bot

import (
	"context"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/form"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// openAsk is a question that waits for its member.
type openAsk struct {
	notice  Notice
	answer  chan schemas.Answer // room for one
	contact *schemas.Contact    // of a question about a host, which a rule answers, too
}

// Ask is the gate of calls that need a yes: it posts a card to the requester and waits for the answer or the end of ctx.
// Several may wait at once. Hour and always are stored before it returns. Without a door that reaches the member it answers
// CodeAsk at once, at the end of ctx CodeExpired; in both cases the call must not run.
func (b *Bot) Ask(ctx context.Context, ask schemas.Ask) (schemas.Answer, error) {
	return b.ask(ctx, ask, form.Asked(ask))
}

func (b *Bot) ask(ctx context.Context, ask schemas.Ask, shown []Block) (schemas.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opt.CardTTL)
	defer cancel()
	a := &openAsk{answer: make(chan schemas.Answer, 1)}
	name := ask.Tool.Full()
	a.notice = Notice{Thread: ask.Caller.Thread, To: ask.Caller.Member, Reply: b.askCard(ask, shown, a)}
	if !b.askAloud(a) {
		b.drop(a.notice.Reply.ID)
		hint := "open the thread in a chat door"
		if !ask.Each {
			hint += ", or a manager can `/mcp policy allow " + name + "`"
		}
		return schemas.AnswerDeny, &schemas.Error{Code: schemas.CodeAsk, Text: name + " needs a yes first, and nobody could be asked", Hint: hint}
	}
	if !ask.Shown {
		b.publish(Notice{Thread: ask.Caller.Thread, Reply: Reply{Blocks: []Block{{
			Text: "waiting for " + words.At(ask.Caller.Member, ask.Caller.Name) + " to allow " + words.Clean(name)}}}}, ask.Caller.Member)
	}
	defer b.askDone(a)
	return b.await(ctx, a, "nobody answered whether "+name+" may run, so it did not", "ask for it again")
}

// await gives the answer. When ctx ends first, the card is settled with the words for nobody's answer.
func (b *Bot) await(ctx context.Context, a *openAsk, nobody, hint string) (schemas.Answer, error) {
	select {
	case answer := <-a.answer:
		return answer, nil
	case <-ctx.Done():
	}
	b.drop(a.notice.Reply.ID)
	select {
	case answer := <-a.answer: // given in the same moment
		return answer, nil
	default:
	}
	b.publish(Notice{Thread: a.notice.Thread, To: a.notice.To, Reply: Reply{Private: true, Replace: a.notice.Reply.ID,
		Blocks: []Block{{Text: words.Clean(nobody)}}}}, "")
	return schemas.AnswerDeny, &schemas.Error{Code: schemas.CodeExpired, Text: nobody, Hint: hint, Err: ctx.Err()}
}

func (b *Bot) askAloud(a *openAsk) bool {
	b.ears.mu.Lock()
	b.ears.asks = append(b.ears.asks, a)
	b.ears.mu.Unlock()
	if b.publish(a.notice, "") > 0 {
		return true
	}
	b.askDone(a)
	return false
}

func (b *Bot) askDone(a *openAsk) {
	b.ears.mu.Lock()
	defer b.ears.mu.Unlock()
	b.ears.asks = slices.DeleteFunc(b.ears.asks, func(o *openAsk) bool { return o == a })
}

func (b *Bot) askCard(ask schemas.Ask, shown []Block, a *openAsk) Reply {
	r := Reply{Private: true, Blocks: shown}
	r.Choices = []Choice{{Key: string(schemas.AnswerOnce), Label: "Once"}}
	if !ask.Each {
		r.Choices = append(r.Choices, Choice{Key: string(schemas.AnswerHour), Label: "1 hour"}, Choice{Key: string(schemas.AnswerAlways), Label: "Always here"})
	}
	r.Choices = append(r.Choices, Choice{Key: string(schemas.AnswerDeny), Label: "Deny"})
	c := &card{by: ask.Caller, role: schemas.Member, may: requesterOnly(ask.Caller)}
	c.act = func(ctx context.Context, t turn, act Action) (Reply, error) {
		return b.answer(ctx, t, ask, a, act.Choice)
	}
	return b.deal(c, r)
}

// answer stores what outlives the call, then lets the call go on. A yes that cannot be written down is none.
func (b *Bot) answer(ctx context.Context, t turn, ask schemas.Ask, a *openAsk, choice string) (Reply, error) {
	name, said := ask.Tool.Full(), schemas.Answer(choice)
	text := map[schemas.Answer]string{schemas.AnswerOnce: "allowed once", schemas.AnswerHour: "allowed for 1 hour",
		schemas.AnswerAlways: "allowed until you take it back", schemas.AnswerDeny: "denied"}[said]
	if text == "" || ask.Each && said != schemas.AnswerOnce {
		said, text = schemas.AnswerDeny, "denied"
	}
	err := b.record(ctx, t.caller, schemas.Record{Event: schemas.EventPolicy, Server: ask.Tool.Server, Tool: ask.Tool.Name, Detail: text})
	if err == nil && said != schemas.AnswerDeny && said != schemas.AnswerOnce {
		var until *time.Time
		if said == schemas.AnswerHour {
			end := b.opt.Now().Add(time.Hour)
			until = &end
		}
		err = b.grant(ctx, t.caller, ask.Tool, until)
	}
	if err != nil {
		a.answer <- schemas.AnswerDeny
		return Reply{}, err
	}
	a.answer <- said
	text = words.Clean(name) + " " + text
	if said == schemas.AnswerAlways {
		text += " · `/mcp policy forget " + strings.ReplaceAll(words.Clean(name), " ", "") + "`"
	}
	return Reply{Private: true, Blocks: []Block{{Text: text}}}, nil
}

// redealt changes the card of a question: who comes later is asked on the one that is open now.
func (b *Bot) redealt(a *openAsk, change func(*Reply)) {
	b.ears.mu.Lock()
	defer b.ears.mu.Unlock()
	change(&a.notice.Reply)
}

// settled takes the card of a question away, and names it.
func (b *Bot) settled(a *openAsk) string {
	b.ears.mu.Lock()
	card := a.notice.Reply.ID
	b.ears.mu.Unlock()
	b.drop(card)
	return card
}

// questions gives those that wait.
func (b *Bot) questions() []*openAsk {
	b.ears.mu.Lock()
	defer b.ears.mu.Unlock()
	return slices.Clone(b.ears.asks)
}
