package desk

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// maxCards bounds the open cards of one member; the oldest gives way.
const maxCards = 64

// Card waits for one answer. It is used once; choices in look leave it open.
type Card struct {
	By      schemas.Caller
	Role    schemas.Role // the least role that may still answer
	Expires time.Time
	Ttl     time.Duration // 0 = Options.CardTTL
	May     func(schemas.Caller) error
	keys    []string // the choices there are; nil for a form
	Look    []string
	form    *view.Form // what it asks; nil for choices
	Act     func(context.Context, Turn, view.Action) (view.Reply, error)
}

// deck holds the open cards of all threads, by nonce. What a card holds in memory is gone when it is used or expired.
type deck struct {
	mu   sync.Mutex
	open map[string]*Card
}

func (d *deck) put(id string, c *Card, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mine, oldest := 0, ""
	for k, o := range d.open {
		switch {
		case !now.Before(o.Expires):
			delete(d.open, k)
		case o.By.Thread == c.By.Thread && o.By.Member == c.By.Member:
			mine++
			if oldest == "" || o.Expires.Before(d.open[oldest].Expires) {
				oldest = k
			}
		}
	}
	if mine >= maxCards {
		delete(d.open, oldest)
	}
	d.open[id] = c
}

// get gives an open card of the thread.
func (d *deck) get(id string, thread schemas.ThreadID, now time.Time) *Card {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.open[id]
	if c == nil || c.By.Thread != thread || !now.Before(c.Expires) {
		return nil
	}
	return c
}

// waits reports whether a card is open that the caller may answer.
func (d *deck) waits(c schemas.Caller, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.open {
		if o.By.Thread == c.Thread && now.Before(o.Expires) && len(o.keys) > len(o.Look) && o.May(c) == nil {
			return true
		}
	}
	return false
}

// take removes a card; of several who answer at once, one gets true.
func (d *deck) take(id string, c *Card) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[id] != c {
		return false
	}
	delete(d.open, id)
	return true
}

// Deal opens a card and puts its nonce on the reply.
func (d *Desk) Deal(c *Card, r view.Reply) view.Reply {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails since Go 1.24
	now := d.opt.Now()
	r.ID, c.Expires = hex.EncodeToString(nonce[:]), now.Add(cmp.Or(c.Ttl, d.opt.CardTTL))
	r.Expires = c.Expires
	c.form, c.keys = r.Form, nil
	for _, ch := range r.Choices {
		c.keys = append(c.keys, ch.Key)
	}
	d.cards.put(r.ID, c, now)
	return r
}

// Press answers a card. Role and right are looked at again, whatever held when the card was dealt. A form whose values are
// refused is asked again.
func (d *Desk) Press(ctx context.Context, t Turn, a view.Action) (view.Reply, error) {
	c := d.cards.get(a.ID, t.Caller.Thread, d.opt.Now())
	if c == nil {
		return view.Reply{}, Gone()
	}
	if t.Caller.Role < c.Role {
		return view.Reply{}, Guest()
	}
	if err := c.May(t.Caller); err != nil {
		return view.Reply{}, err
	}
	if c.keys != nil && !(c.form != nil && a.Choice == "") && !slices.Contains(c.keys, a.Choice) {
		return view.Reply{}, words.Invalid("that is no choice of this card", "answer with a number or a label")
	}
	total := 0
	for _, v := range a.Values {
		total += len(v)
	}
	if total > MaxText {
		return view.Reply{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: "that is " + words.Size(total) + "; at most " + words.Size(MaxText)}
	}
	if slices.Contains(c.Look, a.Choice) {
		return c.Act(ctx, t, a)
	}
	if !d.cards.take(a.ID, c) {
		return view.Reply{}, Gone()
	}
	reply, err := c.Act(ctx, t, a)
	if err != nil {
		reply = d.Refusal(t.Caller, err)
	}
	if c.form != nil && reply.Code == schemas.CodeInvalid && reply.Form == nil && reply.ID == "" {
		reply.Private, reply.Form = true, c.form
		reply = d.Deal(c, reply)
	}
	reply.Replace = a.ID
	return reply, nil
}

// Gone refuses an answer to a card that is not open.
func Gone() error {
	return &schemas.Error{Code: schemas.CodeExpired, Text: "this card is no longer open: it was answered, or its time is over",
		Hint: "run the command again, or see `/mcp list`"}
}

// RequesterOnly lets nobody else answer, not even a manager: what is asked for is personal.
func RequesterOnly(by schemas.Caller) func(schemas.Caller) error {
	return func(c schemas.Caller) error {
		if c.Member == by.Member {
			return nil
		}
		return &schemas.Error{Code: schemas.CodeDenied, Text: "only " + words.At(by.Member, by.Name) + " can answer this"}
	}
}

// RequesterOrManager is the rule for changes.
func RequesterOrManager(by schemas.Caller) func(schemas.Caller) error {
	return func(c schemas.Caller) error {
		if c.Member == by.Member || c.Manages() {
			return nil
		}
		return &schemas.Error{Code: schemas.CodeDenied,
			Text: "only " + words.At(by.Member, by.Name) + " can confirm this change, or a manager of the thread"}
	}
}

// ManagerOnly is the rule for what only a manager confirms.
func ManagerOnly(c schemas.Caller) error {
	if c.Manages() {
		return nil
	}
	return &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can confirm this"}
}

// drop takes a card away; true: it was open, and nobody else answers it.
func (d *deck) drop(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.open[id]
	delete(d.open, id)
	return ok
}

// forget takes away the cards of a thread, or of one member in it.
func (d *deck) forget(thread schemas.ThreadID, member schemas.MemberID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, c := range d.open {
		if c.By.Thread == thread && (member == "" || c.By.Member == member) {
			delete(d.open, id)
		}
	}
}

// Personal is a card that its requester alone answers.
func Personal(by schemas.Caller) *Card {
	return &Card{By: by, Role: schemas.Member, May: RequesterOnly(by)}
}

// Drop takes a card away; true: it was open, and nobody else answers it.
func (d *Desk) Drop(id string) bool { return d.cards.drop(id) }

// Take removes a card that answers itself; of several who answer at once, one gets true.
func (d *Desk) Take(id string, c *Card) bool { return d.cards.take(id, c) }

// Waits reports whether a card is open that the caller may answer.
func (d *Desk) Waits(c schemas.Caller) bool { return d.cards.waits(c, d.opt.Now()) }

// Forget takes the cards of a thread away, or of one member in it: what they would do is about what is no more.
func (d *Desk) Forget(thread schemas.ThreadID, member schemas.MemberID) {
	d.cards.forget(thread, member)
}

const (
	Confirm    = "confirm"
	Cancel     = "cancel"
	Everything = "everything"
)
