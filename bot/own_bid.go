package bot

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// bidMost bounds the wait for what goes on after a yes.
const bidMost = 30 * time.Minute

// bidFor is what the assistant wants done, and a person confirms on a card.
type bidFor struct {
	call schemas.Call
	what string // "install notes"
	wary string // who may have told it to; "" for nobody
}

// bid is a card that the assistant waits for, with those that take its place.
type bid struct {
	bidFor
	ask   *openAsk
	ended chan ended // room for one

	mu    sync.Mutex
	cards []string
	busy  int  // presses that go on
	over  bool // nobody waits any more
	still bool // nothing is told any more
}

// ended is how a card was answered.
type ended struct {
	choice string
	reply  Reply
	err    error
	again  bool // another card took the place of the first
}

// wished posts a dealt card to the caller on the assistant's wish, and waits until what it is about is done or refused. The card is
// settled with words when nobody answers.
func (b *Bot) wished(ctx context.Context, f bidFor, r Reply) (ended, error) {
	c := f.call.Caller
	waiting, cancel := context.WithTimeout(ctx, b.opt.CardTTL)
	defer cancel()
	head := []Block{{Text: "the assistant wants to " + f.what + ", for " + words.At(c.Member, c.Name)}}
	if f.wary != "" {
		head = append(head, Block{Warning: f.wary + ", and may have told it to."})
	}
	r.Blocks = append(head, r.Blocks...)
	w := &bid{bidFor: f, ask: &openAsk{notice: Notice{Thread: c.Thread, To: c.Member, Reply: r}}, ended: make(chan ended, 1)}
	b.follow(r.ID, w, false)
	if !b.askAloud(w.ask) {
		b.drop(r.ID)
		return ended{}, &schemas.Error{Code: schemas.CodeAsk, Text: "to " + f.what + " needs a yes first, and nobody could be asked", Hint: "open the thread in a chat door"}
	}
	if f.call.Waiting == nil { // else the answer that they see says it
		b.publish(Notice{Thread: c.Thread, Reply: Reply{Blocks: []Block{{Text: "waiting for " + words.At(c.Member, c.Name) + " to let the assistant " + f.what}}}}, c.Member)
	}
	defer b.askDone(w.ask)
	w.tell(true)
	defer w.quiet()
	select {
	case e := <-w.ended:
		return e, e.refused()
	case <-waiting.Done():
	}
	return b.bidOver(ctx, w, "nobody answered whether the assistant may "+f.what+", so nothing was changed")
}

// bidOver ends the waiting: nobody can answer any more, unless somebody is at it, whose answer is waited for.
func (b *Bot) bidOver(ctx context.Context, w *bid, nobody string) (ended, error) {
	late, cancel := context.WithTimeout(ctx, bidMost)
	if ctx.Err() != nil {
		late, cancel = after(ctx)
	}
	defer cancel()
	tick := time.NewTicker(pollStep)
	defer tick.Stop()
	for !w.end() {
		select {
		case e := <-w.ended:
			return e, e.refused()
		case <-tick.C:
		case <-late.Done():
			return ended{}, &schemas.Error{Code: schemas.CodeUnknown, Text: "the card was answered, and what came of it is not known yet"}
		}
	}
	select {
	case e := <-w.ended: // in the same moment
		return e, e.refused()
	default:
	}
	for _, id := range w.cards {
		b.drop(id)
	}
	n := w.ask.notice
	b.publish(Notice{Thread: n.Thread, To: n.To, Reply: Reply{Private: n.Reply.Private, Replace: w.cards[len(w.cards)-1], Blocks: []Block{{Text: nobody}}}}, "")
	return ended{}, &schemas.Error{Code: schemas.CodeExpired, Text: nobody, Hint: "ask the member before you try again"}
}

// refused gives the error that an answer means.
func (e ended) refused() error {
	switch {
	case e.err != nil:
		return e.err
	case e.choice == keyCancel:
		return &schemas.Error{Code: schemas.CodeDenied, Text: "the member cancelled it; nothing was changed", Hint: "ask them what they want instead"}
	}
	return nil
}

// tell says that a person is waited for, or that what they allowed goes on.
func (w *bid) tell(waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call.Waiting == nil || w.still {
		return
	}
	why := ""
	if waits {
		why = "waits for " + words.At(w.call.Caller.Member, w.call.Caller.Name) + " to let the assistant " + w.what
	}
	w.call.Waiting(why)
}

// quiet is the last that is told.
func (w *bid) quiet() {
	w.tell(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.still = true
}

// begin is a press; false: nobody waits any more.
func (w *bid) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.busy++
	}
	return !w.over
}

func (w *bid) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
}

// end lets no press begin any more, unless one goes on.
func (w *bid) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = w.busy == 0
	return w.over
}

// follow lets a bid know how a card ends. Looking at it is no end, and what takes its place is followed on.
func (b *Bot) follow(id string, w *bid, again bool) {
	b.cards.mu.Lock()
	defer b.cards.mu.Unlock()
	c := b.cards.open[id]
	if c == nil {
		return
	}
	w.mu.Lock()
	w.cards = append(w.cards, id)
	w.mu.Unlock()
	act := c.act
	c.act = func(ctx context.Context, t turn, a Action) (Reply, error) {
		if !w.begin() {
			return Reply{}, gone()
		}
		defer w.done()
		if !slices.Contains(c.look, a.Choice) {
			w.tell(false)
		}
		r, err := act(ctx, t, a)
		cancels := slices.ContainsFunc(r.Choices, func(ch Choice) bool { return ch.Key == keyCancel })
		switch {
		case err == nil && r.ID == a.ID && r.ID != "": // looked
		case slices.Contains(c.look, a.Choice) && err != nil:
		case c.form != nil && r.Code == schemas.CodeInvalid && r.ID == "", c.form != nil && schemas.CodeOf(err) == schemas.CodeInvalid: // it is asked again
			w.tell(true)
		case err == nil && r.ID != "" && (r.Form != nil || cancels):
			b.follow(r.ID, w, true)
			w.tell(true)
			if cancels { // who comes later is asked on the card that is open now
				b.redealt(w.ask, func(old *Reply) { *old = r })
			}
		default:
			select {
			case w.ended <- ended{a.Choice, r, err, again}:
			default: // another of its cards was answered
			}
		}
		return r, err
	}
}

// plain is what stands in a reply, for a model.
func plain(r Reply) string {
	var lines []string
	for _, x := range r.Blocks {
		if s := strings.TrimSpace(x.Text + x.Warning); s != "" {
			lines = append(lines, s)
		}
	}
	return strings.Join(lines, "\n")
}
