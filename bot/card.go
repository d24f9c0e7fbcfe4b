package bot

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// maxCards bounds the open cards of one member; the oldest gives way.
const maxCards = 64

// card waits for one answer. It is used once; choices in look leave it open.
type card struct {
	by      schemas.Caller
	role    schemas.Role // the least role that may still answer
	expires time.Time
	ttl     time.Duration // 0 = Options.CardTTL
	may     func(schemas.Caller) error
	keys    []string // the choices there are; nil for a form
	look    []string
	form    *Form // what it asks; nil for choices
	act     func(context.Context, turn, Action) (Reply, error)
}

// deck holds the open cards of all threads, by nonce. What a card holds in memory is gone when it is used or expired.
type deck struct {
	mu   sync.Mutex
	open map[string]*card
}

func (d *deck) put(id string, c *card, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mine, oldest := 0, ""
	for k, o := range d.open {
		switch {
		case !now.Before(o.expires):
			delete(d.open, k)
		case o.by.Thread == c.by.Thread && o.by.Member == c.by.Member:
			mine++
			if oldest == "" || o.expires.Before(d.open[oldest].expires) {
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
func (d *deck) get(id string, thread schemas.ThreadID, now time.Time) *card {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.open[id]
	if c == nil || c.by.Thread != thread || !now.Before(c.expires) {
		return nil
	}
	return c
}

// waits reports whether a card is open that the caller may answer.
func (d *deck) waits(c schemas.Caller, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.open {
		if o.by.Thread == c.Thread && now.Before(o.expires) && len(o.keys) > len(o.look) && o.may(c) == nil {
			return true
		}
	}
	return false
}

// take removes a card; of several who answer at once, one gets true.
func (d *deck) take(id string, c *card) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[id] != c {
		return false
	}
	delete(d.open, id)
	return true
}

// deal opens a card and puts its nonce on the reply.
func (b *Bot) deal(c *card, r Reply) Reply {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails since Go 1.24
	now := b.opt.Now()
	r.ID, c.expires = hex.EncodeToString(nonce[:]), now.Add(cmp.Or(c.ttl, b.opt.CardTTL))
	r.Expires = c.expires
	c.form, c.keys = r.Form, nil
	for _, ch := range r.Choices {
		c.keys = append(c.keys, ch.Key)
	}
	b.cards.put(r.ID, c, now)
	return r
}

// press answers a card. Role and right are looked at again, whatever held when the card was dealt. A form whose values are
// refused is asked again.
func (b *Bot) press(ctx context.Context, t turn, a Action) (Reply, error) {
	c := b.cards.get(a.ID, t.caller.Thread, b.opt.Now())
	if c == nil {
		return Reply{}, gone()
	}
	if t.caller.Role < c.role {
		return Reply{}, guestRefusal()
	}
	if err := c.may(t.caller); err != nil {
		return Reply{}, err
	}
	if c.keys != nil && !(c.form != nil && a.Choice == "") && !slices.Contains(c.keys, a.Choice) {
		return Reply{}, words.Invalid("that is no choice of this card", "answer with a number or a label")
	}
	total := 0
	for _, v := range a.Values {
		total += len(v)
	}
	if total > maxText {
		return Reply{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: "that is " + words.Size(total) + "; at most " + words.Size(maxText)}
	}
	if slices.Contains(c.look, a.Choice) {
		return c.act(ctx, t, a)
	}
	if !b.cards.take(a.ID, c) {
		return Reply{}, gone()
	}
	reply, err := c.act(ctx, t, a)
	if err != nil {
		reply = b.refusal(t.caller, err)
	}
	if c.form != nil && reply.Code == schemas.CodeInvalid && reply.Form == nil && reply.ID == "" {
		reply.Private, reply.Form = true, c.form
		reply = b.deal(c, reply)
	}
	reply.Replace = a.ID
	return reply, nil
}

func gone() error {
	return &schemas.Error{Code: schemas.CodeExpired, Text: "this card is no longer open: it was answered, or its time is over",
		Hint: "run the command again, or see `/mcp list`"}
}

// requesterOnly lets nobody else answer, not even a manager: what is asked for is personal.
func requesterOnly(by schemas.Caller) func(schemas.Caller) error {
	return func(c schemas.Caller) error {
		if c.Member == by.Member {
			return nil
		}
		return &schemas.Error{Code: schemas.CodeDenied, Text: "only " + words.At(by.Member, by.Name) + " can answer this"}
	}
}

// requesterOrManager is the rule for changes.
func requesterOrManager(by schemas.Caller) func(schemas.Caller) error {
	return func(c schemas.Caller) error {
		if c.Member == by.Member || c.Manages() {
			return nil
		}
		return &schemas.Error{Code: schemas.CodeDenied,
			Text: "only " + words.At(by.Member, by.Name) + " can confirm this change, or a manager of the thread"}
	}
}

func managerOnly(c schemas.Caller) error {
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
		if c.by.Thread == thread && (member == "" || c.by.Member == member) {
			delete(d.open, id)
		}
	}
}

// personal is a card that its requester alone answers.
func personal(by schemas.Caller) *card {
	return &card{by: by, role: schemas.Member, may: requesterOnly(by)}
}

// drop takes a card away; true: it was open, and nobody else answers it.
func (b *Bot) drop(id string) bool { return b.cards.drop(id) }

// take removes a card that answers itself; of several who answer at once, one gets true.
func (b *Bot) take(id string, c *card) bool { return b.cards.take(id, c) }

// waits reports whether a card is open that the caller may answer.
func (b *Bot) waits(c schemas.Caller) bool { return b.cards.waits(c, b.opt.Now()) }

// forget takes the cards of a thread away, or of one member in it: what they would do is about what is no more.
func (b *Bot) forget(thread schemas.ThreadID, member schemas.MemberID) {
	b.cards.forget(thread, member)
}
