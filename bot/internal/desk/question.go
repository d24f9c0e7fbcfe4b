package desk

import (
	"context"
	"slices"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Question is a question that waits for its member.
type Question struct {
	Notice  view.Notice
	Answer  chan schemas.Answer // room for one
	Contact *schemas.Contact    // of a question about a host, which a rule answers, too
}

// Await gives the answer. When ctx ends first, the card is settled with the words for nobody's answer.
func (d *Desk) Await(ctx context.Context, a *Question, nobody, hint string) (schemas.Answer, error) {
	select {
	case answer := <-a.Answer:
		return answer, nil
	case <-ctx.Done():
	}
	d.Drop(a.Notice.Reply.ID)
	select {
	case answer := <-a.Answer: // given in the same moment
		return answer, nil
	default:
	}
	d.Publish(view.Notice{Thread: a.Notice.Thread, To: a.Notice.To, Reply: view.Reply{Private: true, Replace: a.Notice.Reply.ID,
		Blocks: []view.Block{{Text: words.Clean(nobody)}}}}, "")
	return schemas.AnswerDeny, &schemas.Error{Code: schemas.CodeExpired, Text: nobody, Hint: hint, Err: ctx.Err()}
}

// Ask tells a question to its member, also to doors that they open later; false: no door reaches them now, and it waits no longer.
// Whoever asks calls Done when the answer is there.
func (d *Desk) Ask(a *Question) bool {
	d.ears.mu.Lock()
	d.ears.asks = append(d.ears.asks, a)
	d.ears.mu.Unlock()
	if d.Publish(a.Notice, "") > 0 {
		return true
	}
	d.Done(a)
	return false
}

// Done ends the waiting of a question.
func (d *Desk) Done(a *Question) {
	d.ears.mu.Lock()
	defer d.ears.mu.Unlock()
	d.ears.asks = slices.DeleteFunc(d.ears.asks, func(o *Question) bool { return o == a })
}

// Redealt changes the card of a question: who comes later is asked on the one that is open now.
func (d *Desk) Redealt(a *Question, change func(*view.Reply)) {
	d.ears.mu.Lock()
	defer d.ears.mu.Unlock()
	change(&a.Notice.Reply)
}

// Settled takes the card of a question away, and names it.
func (d *Desk) Settled(a *Question) string {
	d.ears.mu.Lock()
	card := a.Notice.Reply.ID
	d.ears.mu.Unlock()
	d.Drop(card)
	return card
}

// Questions gives those that wait.
func (d *Desk) Questions() []*Question {
	d.ears.mu.Lock()
	defer d.ears.mu.Unlock()
	return slices.Clone(d.ears.asks)
}

// UnlessOver refuses to answer a question that nobody waits for any more.
func UnlessOver(waiting context.Context, act func(context.Context, Turn, view.Action) (view.Reply, error)) func(context.Context, Turn, view.Action) (view.Reply, error) {
	return func(ctx context.Context, t Turn, a view.Action) (view.Reply, error) {
		if waiting.Err() != nil {
			return view.Reply{}, Gone()
		}
		return act(ctx, t, a)
	}
}
