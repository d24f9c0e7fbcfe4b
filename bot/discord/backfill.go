package discord

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"bobbin/bot/discord/internal/link"
	"bobbin/bot/discord/internal/wire"
)

// Bounds of what is remembered of messages, and of looking for those that a gap hid.
const (
	maxHeard    = 5000  // channels whose last message is known
	maxTaken    = 20000 // messages that were taken up, so that none is answered twice
	maxLane     = 200   // messages of a channel that wait for their answer
	maxHeld     = 200   // messages of a channel that came in while older ones were looked for
	maxPages    = 5     // of 100 messages, for each channel and gap
	refillers   = 4     // channels that are looked through at a time
	refillTries = 6
	skew        = time.Minute     // between Discord's clock and this machine's; what is read twice is answered once
	listing     = 2 * time.Minute // from a shard's return until all its guilds were listed
)

// heard is what came in by text. Everything that is taken up passes it once, under its lock, which gives each channel its order.
type heard struct {
	mu    sync.Mutex
	last  map[string]spot   // by channel
	gaps  map[string]*gap   // channels in which messages may have been missed
	owed  map[string]uint64 // where the gap of a channel began that could not be looked through
	since map[int]cut       // by shard: its last gap
	taken map[string]struct{}
	order []string // of taken, oldest first
	wake  chan struct{}
}

// spot is how far a channel was heard.
type spot struct {
	guild string
	shard int
	id    uint64
}

// cut is when a shard was away: it missed what is newer than the id, and its guilds are listed again until then.
type cut struct {
	id    uint64
	until time.Time
}

// gap is a channel that has to be looked through before anything newer is answered.
type gap struct {
	guild   string
	after   uint64
	started bool
	again   bool           // cut off once more since it was started
	held    []wire.Message // came in meanwhile
}

// init fills in the maps; the caller holds mu.
func (h *heard) init() {
	if h.last == nil {
		h.last, h.gaps, h.owed, h.since = map[string]spot{}, map[string]*gap{}, map[string]uint64{}, map[int]cut{}
		h.taken, h.wake = map[string]struct{}{}, make(chan struct{}, 1)
	}
}

// visit notes that something happened in a channel; id is a snowflake.
func (h *heard) visit(shard int, guild, channel, id string) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || channel == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.init()
	h.note(channel, spot{guild, shard, n})
}

// note: the caller holds mu.
func (h *heard) note(channel string, s spot) {
	if was, ok := h.last[channel]; ok {
		s.id = max(s.id, was.id)
	} else if len(h.last) >= maxHeard {
		ids := slices.SortedFunc(maps.Keys(h.last), func(a, b string) int { return cmp.Compare(h.last[a].id, h.last[b].id) })
		for _, old := range ids[:len(ids)/4] {
			delete(h.last, old)
		}
	}
	h.last[channel] = s
}

// forget drops a channel that is no more.
func (h *heard) forget(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, channel)
	delete(h.gaps, channel)
	delete(h.owed, channel)
}

// gap says that a shard was cut off since then: all its channels may have missed something. One whose earlier gap is still open
// keeps that one's beginning.
func (h *heard) gap(shard int, since, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.init()
	h.since[shard] = cut{wire.Snowflake(since.Add(-skew)), now.Add(listing)}
	for channel, s := range h.last {
		if s.shard == shard {
			h.open(channel, s.guild, s.id)
		}
	}
}

// open: the caller holds mu.
func (h *heard) open(channel, guild string, after uint64) {
	if g := h.gaps[channel]; g != nil {
		g.again = g.started
		return
	}
	if earlier, ok := h.owed[channel]; ok {
		after = earlier
		delete(h.owed, channel)
	}
	h.gaps[channel] = &gap{guild: guild, after: after}
	h.wakeUp()
}

func (h *heard) wakeUp() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// listed takes the last message of each channel of a guild after a gap: it adds those that were not heard before, and spares the
// look into those where nothing happened.
func (h *heard) listed(shard int, guild string, channels []wire.Channel, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, ok := h.since[shard]
	if !ok || now.After(since.until) {
		return
	}
	for _, c := range channels {
		newest, err := strconv.ParseUint(c.LastMessageID, 10, 64)
		g := h.gaps[c.ID]
		_, known := h.last[c.ID]
		switch {
		case g != nil && !g.started && newest <= g.after && len(g.held) == 0:
			delete(h.gaps, c.ID)
		case g == nil && !known && err == nil && newest > since.id:
			h.open(c.ID, guild, since.id)
			h.note(c.ID, spot{guild, shard, since.id})
		}
	}
}

// take notes that a message is taken up; false when it was before. The caller holds mu.
func (h *heard) take(id string) bool {
	if _, twice := h.taken[id]; twice {
		return false
	}
	h.taken[id] = struct{}{}
	h.order = append(h.order, id)
	if len(h.order) > maxTaken {
		delete(h.taken, h.order[0])
		h.order = h.order[1:]
	}
	return true
}

// next gives a channel to look through, the one that was active last first.
func (h *heard) next() (channel string, g gap, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, one := range h.gaps {
		if !one.started && (!ok || one.after > g.after) {
			channel, g, ok = c, *one, true
		}
	}
	if ok {
		h.gaps[channel].started = true
	}
	return channel, g, ok
}

// catchUp looks through channels that may have missed something, a few at a time, until ctx ends.
func (d *Door) catchUp(ctx context.Context) {
	d.heard.mu.Lock()
	d.heard.init()
	wake := d.heard.wake
	d.heard.mu.Unlock()
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, refillers)
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		for {
			select {
			case <-ctx.Done():
				return
			case room <- struct{}{}:
			}
			channel, g, ok := d.heard.next()
			if !ok {
				<-room
				break
			}
			all.Go(func() {
				defer func() { <-room }()
				d.safely(func() { d.refill(ctx, channel, g) })
			})
		}
	}
}

// refill takes up what a channel missed, in order, and then what came in meanwhile.
func (d *Door) refill(ctx context.Context, channel string, g gap) {
	missed, upTo, err := d.missed(ctx, channel, g)
	if err != nil {
		d.opt.Log.Debug("discord: messages that a gap hid cannot be read", "channel", channel, "err", err)
		if gone(err) {
			d.grave.deleted(channel, time.Now())
		}
	}
	d.heard.mu.Lock()
	defer d.heard.mu.Unlock()
	now := d.heard.gaps[channel]
	switch {
	case now == nil: // forgotten meanwhile
		return
	case now.again: // what came in until now is read with what the next cut hid
		now.started, now.again = false, false
		d.heard.wakeUp()
		return
	}
	delete(d.heard.gaps, channel)
	all := append(missed, now.held...)
	slices.SortStableFunc(all, func(a, b wire.Message) int { return cmp.Compare(number(a.ID), number(b.ID)) })
	for _, m := range all {
		d.take(m)
	}
	if s, ok := d.heard.last[channel]; ok && err == nil {
		s.id = max(s.id, upTo)
		d.heard.last[channel] = s
	}
	if err != nil && temporary(err) { // the next gap looks here again
		d.heard.owed[channel] = g.after
	}
}

// missed reads a channel from a gap's beginning, up to the id that it gives. What could be read is given with an error, too.
func (d *Door) missed(ctx context.Context, channel string, g gap) (found []wire.Message, after uint64, err error) {
	after = g.after
	for range maxPages {
		var page []wire.Message
		if page, err = d.page(ctx, channel, after); err != nil {
			return found, after, err
		}
		for _, m := range page {
			after = max(after, number(m.ID))
			m.ChannelID, m.GuildID = channel, g.guild // Discord leaves the guild out here
			switch {
			case d.forUs(m):
				found = append(found, m)
			case overheard(m): // of what nobody asked for, the newest is answered alone
				found = append(slices.DeleteFunc(found, func(o wire.Message) bool { return !d.forUs(o) }), m)
			}
		}
		if len(page) < 100 {
			return found, after, nil
		}
	}
	d.opt.Log.Warn("discord: more messages came in during a gap than are looked through", "channel", channel, "read", maxPages*100)
	return found, after, nil
}

// page asks a few times, since a gap's end is when Discord is least likely to answer.
func (d *Door) page(ctx context.Context, channel string, after uint64) (page []wire.Message, err error) {
	wait := time.Second
	for range refillTries {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		page, err = d.rest.Messages(try, channel, strconv.FormatUint(after, 10))
		cancel()
		if err == nil || !temporary(err) || !pause(ctx, wait) {
			return page, err
		}
		wait *= 2
	}
	return page, err
}

func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// temporary reports whether another try may help.
func temporary(err error) bool {
	var refused *link.Error
	return !errors.As(err, &refused) || refused.Status == 0 || refused.Status == 429 || refused.Status >= 500
}

// gone reports whether Discord says that a channel is no more (10003). Missing access is no sign of it.
func gone(err error) bool {
	var refused *link.Error
	return errors.As(err, &refused) && (refused.Code == 10003 || refused.Status == 404 && refused.Code == 0)
}
