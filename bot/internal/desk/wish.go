package desk

import (
	"context"
	"slices"
	"sync"
	"time"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// bidMost bounds the wait for what goes on after a yes.
const bidMost = 30 * time.Minute

// Wish is what the assistant wants done, and a person confirms on a card.
type Wish struct {
	Call schemas.Call
	What string // "install notes"
	Wary string // who may have told it to; "" for nobody
}

// bid is a card that the assistant waits for, with those that take its place.
type bid struct {
	Wish
	ask   *Question
	ended chan Ended // room for one

	mu    sync.Mutex
	cards []string
	busy  int  // presses that go on
	over  bool // nobody waits any more
	still bool // nothing is told any more
}

// Ended is how a card was answered.
type Ended struct {
	choice string
	Reply  view.Reply
	err    error
	Again  bool // another card took the place of the first
}

// Wished posts a dealt card to the caller on the assistant's wish, and waits until what it is about is done or refused. The card is
// settled with words when nobody answers.
func (d *Desk) Wished(ctx context.Context, f Wish, r view.Reply) (Ended, error) {
	c := f.Call.Caller
	waiting, cancel := context.WithTimeout(ctx, d.opt.CardTTL)
	defer cancel()
	head := []view.Block{{Text: "the assistant wants to " + f.What + ", for " + words.At(c.Member, c.Name)}}
	if f.Wary != "" {
		head = append(head, view.Block{Warning: f.Wary + ", and may have told it to."})
	}
	r.Blocks = append(head, r.Blocks...)
	w := &bid{Wish: f, ask: &Question{Notice: view.Notice{Thread: c.Thread, To: c.Member, Reply: r}}, ended: make(chan Ended, 1)}
	d.follow(r.ID, w, false)
	if !d.Ask(w.ask) {
		d.Drop(r.ID)
		return Ended{}, &schemas.Error{Code: schemas.CodeAsk, Text: "to " + f.What + " needs a yes first, and nobody could be asked", Hint: "open the thread in a chat door"}
	}
	if f.Call.Waiting == nil { // else the answer that they see says it
		d.Publish(view.Notice{Thread: c.Thread, Reply: view.Reply{Blocks: []view.Block{{Text: "waiting for " + words.At(c.Member, c.Name) + " to let the assistant " + f.What}}}}, c.Member)
	}
	defer d.Done(w.ask)
	w.tell(true)
	defer w.quiet()
	select {
	case e := <-w.ended:
		return e, e.refused()
	case <-waiting.Done():
	}
	return d.bidOver(ctx, w, "nobody answered whether the assistant may "+f.What+", so nothing was changed")
}

// bidOver ends the waiting: nobody can answer any more, unless somebody is at it, whose answer is waited for.
func (d *Desk) bidOver(ctx context.Context, w *bid, nobody string) (Ended, error) {
	late, cancel := context.WithTimeout(ctx, bidMost)
	if ctx.Err() != nil {
		late, cancel = After(ctx)
	}
	defer cancel()
	tick := time.NewTicker(PollStep)
	defer tick.Stop()
	for !w.end() {
		select {
		case e := <-w.ended:
			return e, e.refused()
		case <-tick.C:
		case <-late.Done():
			return Ended{}, &schemas.Error{Code: schemas.CodeUnknown, Text: "the card was answered, and what came of it is not known yet"}
		}
	}
	select {
	case e := <-w.ended: // in the same moment
		return e, e.refused()
	default:
	}
	for _, id := range w.cards {
		d.Drop(id)
	}
	n := w.ask.Notice
	d.Publish(view.Notice{Thread: n.Thread, To: n.To, Reply: view.Reply{Private: n.Reply.Private, Replace: w.cards[len(w.cards)-1], Blocks: []view.Block{{Text: nobody}}}}, "")
	return Ended{}, &schemas.Error{Code: schemas.CodeExpired, Text: nobody, Hint: "ask the member before you try again"}
}

// refused gives the error that an answer means.
func (e Ended) refused() error {
	switch {
	case e.err != nil:
		return e.err
	case e.choice == Cancel:
		return &schemas.Error{Code: schemas.CodeDenied, Text: "the member cancelled it; nothing was changed", Hint: "ask them what they want instead"}
	}
	return nil
}

// tell says that a person is waited for, or that what they allowed goes on.
func (w *bid) tell(waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Call.Waiting == nil || w.still {
		return
	}
	why := ""
	if waits {
		why = "waits for " + words.At(w.Call.Caller.Member, w.Call.Caller.Name) + " to let the assistant " + w.What
	}
	w.Call.Waiting(why)
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
func (d *Desk) follow(id string, w *bid, again bool) {
	d.cards.mu.Lock()
	defer d.cards.mu.Unlock()
	c := d.cards.open[id]
	if c == nil {
		return
	}
	w.mu.Lock()
	w.cards = append(w.cards, id)
	w.mu.Unlock()
	act := c.Act
	c.Act = func(ctx context.Context, t Turn, a view.Action) (view.Reply, error) {
		if !w.begin() {
			return view.Reply{}, Gone()
		}
		defer w.done()
		if !slices.Contains(c.Look, a.Choice) {
			w.tell(false)
		}
		r, err := act(ctx, t, a)
		cancels := slices.ContainsFunc(r.Choices, func(ch view.Choice) bool { return ch.Key == Cancel })
		switch {
		case err == nil && r.ID == a.ID && r.ID != "": // looked
		case slices.Contains(c.Look, a.Choice) && err != nil:
		case c.form != nil && r.Code == schemas.CodeInvalid && r.ID == "", c.form != nil && schemas.CodeOf(err) == schemas.CodeInvalid: // it is asked again
			w.tell(true)
		case err == nil && r.ID != "" && (r.Form != nil || cancels):
			d.follow(r.ID, w, true)
			w.tell(true)
			if cancels { // who comes later is asked on the card that is open now
				d.Redealt(w.ask, func(old *view.Reply) { *old = r })
			}
		default:
			select {
			case w.ended <- Ended{a.Choice, r, err, again}:
			default: // another of its cards was answered
			}
		}
		return r, err
	}
}

// PollStep is how often is looked at what tells nobody when it changes.
const PollStep = 200 * time.Millisecond
