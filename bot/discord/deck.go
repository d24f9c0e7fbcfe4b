package discord

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// Bounds of what components stand for.
const (
	maxSlots = 20000
	maxCards = 5000
	slotTTL  = 24 * time.Hour
	prefix   = "mcp:"
)

// does is what a component does when it is used.
type does int

const (
	choose  does = iota // presses a choice of a reply
	pick                // picks one in a select menu
	open                // opens a reply's form
	next                // opens the next page of a form
	fill                // is a modal that was sent
	show                // shows a private reply to the one it is for
	refresh             // asks how long work goes on
)

// slot is what a custom id stands for. The id itself is a nonce and says nothing.
type slot struct {
	does    does
	reply   bot.Reply // whose choices or form it is
	choice  bot.Choice
	draft   *draft // of next and fill
	page    int
	work    *work            // of refresh
	member  schemas.MemberID // who alone may use it; "" = the bot decides
	name    string
	expires time.Time
}

// draft is a form that somebody fills in, page by page.
type draft struct {
	mu     sync.Mutex
	reply  bot.Reply // that asked for it
	on     bot.Reply // the card that led to it
	member schemas.MemberID
	values map[string]string
}

// card is where a reply with choices was posted, so that it can be settled.
type card struct {
	reply            bot.Reply
	channel, message string
	via              *wire.Interaction // of an ephemeral message, which has no other way in
	at               time.Time
	hidden           bool // seen by one member alone
}

// deck keeps what custom ids stand for, and where cards lie. The oldest give way.
type deck struct {
	mu    sync.Mutex
	slots map[string]slot
	ids   []string
	swept time.Time
	cards map[string][]card // by the reply's id: a private copy of a card has the same
	order []string
}

// deal keeps a slot and gives its custom id.
func (d *deck) deal(s slot) string {
	id := prefix + strings.ToLower(rand.Text()[:20])
	if s.expires.IsZero() || time.Until(s.expires) > slotTTL {
		s.expires = time.Now().Add(slotTTL)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.slots == nil {
		d.slots = map[string]slot{}
	}
	d.slots[id], d.ids = s, append(d.ids, id)
	if now := time.Now(); now.Sub(d.swept) > time.Minute { // what was typed into a form must not lie around
		d.swept = now
		d.ids = slices.DeleteFunc(d.ids, func(id string) bool {
			old := now.After(d.slots[id].expires.Add(time.Minute))
			if old {
				delete(d.slots, id)
			}
			return old
		})
	}
	if len(d.ids) > maxSlots {
		delete(d.slots, d.ids[0])
		d.ids = d.ids[1:]
	}
	return id
}

// turn makes a component that is shown already stand for something else.
func (d *deck) turn(id string, s slot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.slots[id]; ok {
		d.slots[id] = s
	}
}

func (d *deck) find(id string) (slot, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.slots[id]
	return s, ok && time.Now().Before(s.expires.Add(time.Minute)) // a little later the bot itself says that it is over
}

// posted notes where a reply lies.
func (d *deck) posted(c card) {
	if c.reply.ID == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cards == nil {
		d.cards = map[string][]card{}
	}
	if _, ok := d.cards[c.reply.ID]; !ok {
		d.order = append(d.order, c.reply.ID)
	}
	d.cards[c.reply.ID] = append(d.cards[c.reply.ID], c)
	if len(d.order) > maxCards {
		delete(d.cards, d.order[0])
		d.order = d.order[1:]
	}
}

// settled forgets a card and says where it was.
func (d *deck) settled(id string) []card {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.cards[id]
	delete(d.cards, id)
	return all
}

// pen draws a reply with fresh custom ids.
func (d *Door) pen(r bot.Reply, private bool) draw.Pen {
	return draw.Pen{Private: private, Mint: func(kind draw.Kind, c bot.Choice) string {
		s := slot{reply: r, choice: c, expires: r.Expires}
		switch kind {
		case draw.Pick:
			s.does = pick
		case draw.Open:
			s.does = open
		}
		return d.deck.deal(s)
	}}
}

// seats remember each member's last interaction in a thread: for 15 minutes it is a way to tell that member alone.
type seats struct {
	mu  sync.Mutex
	all map[string]seat
}

type seat struct {
	i        wire.Interaction
	at       time.Time
	thinking *atomic.Bool // the answer was put off: the next message would become it, for all who see that
}

// tokenLife is how long an interaction can be followed up, with a minute to spare (Discord, Interaction Tokens).
const tokenLife = 14 * time.Minute

func (s *seats) sit(i wire.Interaction, member schemas.MemberID, now time.Time, thinking *atomic.Bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]seat{}
	}
	if len(s.all) >= maxCards {
		for k, v := range s.all {
			if now.Sub(v.at) > tokenLife {
				delete(s.all, k)
			}
		}
	}
	if len(s.all) < maxCards {
		s.all[i.ChannelID+" "+string(member)] = seat{wire.Interaction{ID: i.ID, ApplicationID: i.ApplicationID, Token: i.Token, ChannelID: i.ChannelID}, now, thinking}
	}
}

func (s *seats) of(channel string, member schemas.MemberID) (seat, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.all[channel+" "+string(member)]
	return x, ok && time.Since(x.at) < tokenLife
}
