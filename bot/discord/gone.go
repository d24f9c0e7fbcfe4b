package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"bobbin/bot/discord/internal/link"
	"bobbin/bot/discord/internal/wire"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

// Bounds and times of what is remembered of threads.
const (
	graveFile   = "discord.json"
	maxGrave    = 64 << 20        // bytes of that file
	maxPlaces   = 200000          // threads
	saveAfter   = 2 * time.Second // a deletion is saved at once, where a thread lies a little later
	censusEvery = 24 * time.Hour
	censusPause = 250 * time.Millisecond
	lookWait    = 30 * time.Second
)

// place is where a thread lies, and since when it is gone.
type place struct {
	Guild  string    `json:"guild,omitempty"`
	Parent string    `json:"parent,omitempty"`
	Gone   time.Time `json:"gone,omitzero"`
	Left   bool      `json:"left,omitempty"` // the whole guild is: the bot was removed
}

// grave remembers the threads that somebody used and which of them were deleted. What it knows survives the program in its folder.
type grave struct {
	dir *durable.Dir // nil: nothing survives
	log *slog.Logger

	mu     sync.Mutex
	places map[string]place
	dirty  bool
	urgent chan struct{} // something was deleted or came back

	saving sync.Mutex
}

type graveText struct {
	Threads map[string]place `json:"threads"`
}

func (g *grave) load(dir *durable.Dir, log *slog.Logger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.init()
	g.dir, g.log = dir, log
	if dir == nil {
		return
	}
	data, err := dir.Read(graveFile, maxGrave)
	var text graveText
	if err == nil {
		err = json.Unmarshal(data, &text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("which Discord threads were deleted cannot be read; starting anew", "file", graveFile, "err", err)
	}
	for id, p := range text.Threads { // what came in since Attach is newer
		if _, ok := g.places[id]; !ok && schemas.ThreadID(id).IsSnowflake() {
			g.places[id] = p
		}
	}
}

// init: the caller holds mu.
func (g *grave) init() {
	if g.places == nil {
		g.places, g.urgent = map[string]place{}, make(chan struct{}, 1)
	}
}

// change: the caller holds mu.
func (g *grave) change(id string, p place) {
	was, ok := g.places[id]
	if ok && was == p {
		return
	}
	g.places[id] = p
	g.dirty = true
	if was.Gone != p.Gone {
		select {
		case g.urgent <- struct{}{}:
		default:
		}
	}
}

// alive notes that somebody used a thread, and where it lies.
func (g *grave) alive(id string, at place) {
	if !schemas.ThreadID(id).IsSnowflake() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.init()
	was, known := g.places[id]
	if !known && len(g.places) >= maxPlaces {
		return // the census still finds it
	}
	g.change(id, place{Guild: cmp.Or(at.Guild, was.Guild), Parent: cmp.Or(at.Parent, was.Parent)})
}

// exists notes that a thread is there, and where as far as it is known. One that nobody used is nothing to it.
func (g *grave) exists(id string, at place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if was, ok := g.places[id]; ok {
		g.change(id, place{Guild: cmp.Or(at.Guild, was.Guild), Parent: cmp.Or(at.Parent, was.Parent)})
	}
}

// stored notes that a thread has a configuration.
func (g *grave) stored(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.places[id]; !ok && len(g.places) < maxPlaces {
		g.places[id] = place{}
	}
}

// deleted notes that a thread, or the channel it lies in, is no more.
func (g *grave) deleted(id string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other, p := range g.places {
		if (other == id || p.Parent == id) && (p.Gone.IsZero() || p.Left) {
			g.change(other, place{Guild: p.Guild, Parent: p.Parent, Gone: now})
		}
	}
}

// left notes that the bot was removed from a guild.
func (g *grave) left(guild string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, p := range g.places {
		if p.Guild == guild && guild != "" && p.Gone.IsZero() {
			p.Gone, p.Left = now, true
			g.change(id, p)
		}
	}
}

// joined notes that the bot is in a guild; threads deleted one by one stay so.
func (g *grave) joined(guild string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, p := range g.places {
		if p.Guild == guild && p.Left {
			g.change(id, place{Guild: p.Guild, Parent: p.Parent})
		}
	}
}

// roll is what READY says of the guilds that the bot is in.
type roll struct {
	Guilds []struct{ ID string }
	Shard  [2]uint64 // this one, of how many
}

// rollCall finds guilds that the bot was removed from while it was away.
func (g *grave) rollCall(r roll, now time.Time) {
	here := map[string]bool{"": true}
	for _, one := range r.Guilds {
		here[one.ID] = true
	}
	g.mu.Lock()
	lost := map[string]bool{}
	for _, p := range g.places {
		if id, err := strconv.ParseUint(p.Guild, 10, 64); err == nil && !here[p.Guild] && (id>>22)%max(r.Shard[1], 1) == r.Shard[0] {
			lost[p.Guild] = true
		}
	}
	g.mu.Unlock()
	for guild := range lost {
		g.left(guild, now)
	}
}

// due gives the threads that were gone before then.
func (g *grave) due(then time.Time) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ids []string
	for id, p := range g.places {
		if !p.Gone.IsZero() && !p.Gone.After(then) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// find gives what is known of a thread.
func (g *grave) find(id string) place {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.places[id]
}

// dropped forgets a thread whose configuration is dropped, unless it came back meanwhile.
func (g *grave) dropped(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.places[id]; !p.Gone.IsZero() {
		delete(g.places, id)
		g.dirty = true
	}
}

// save writes down what changed.
func (g *grave) save() {
	g.saving.Lock()
	defer g.saving.Unlock()
	g.mu.Lock()
	if !g.dirty || g.dir == nil {
		g.mu.Unlock()
		return
	}
	text := graveText{maps.Clone(g.places)}
	g.dirty = false
	g.mu.Unlock()
	data, err := json.Marshal(text)
	if err == nil {
		err = g.dir.Write(graveFile, data)
	}
	if err != nil {
		g.log.Error("which Discord threads were deleted cannot be written down", "file", graveFile, "err", err)
		g.mu.Lock()
		g.dirty = true
		g.mu.Unlock()
	}
}

// keep saves what is known, until ctx ends.
func (g *grave) keep(ctx context.Context) {
	tick := time.NewTicker(saveAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			g.save()
			return
		case <-g.urgent:
		case <-tick.C:
		}
		g.save()
	}
}

// bury drops what has been gone for long enough, until ctx ends.
func (d *Door) bury(ctx context.Context) {
	grace := d.opt.Grace
	for pause(ctx, min(max(grace/10, 10*time.Millisecond), time.Minute)) {
		for _, id := range d.grave.due(time.Now().Add(-grace)) {
			if ctx.Err() == nil {
				d.safely(func() { d.drop(ctx, id) })
			}
		}
	}
}

// drop ends a thread for good, after one more look whether it is really gone.
func (d *Door) drop(ctx context.Context, id string) {
	look, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	_, err := d.rest.Channel(look, id)
	switch {
	case err == nil:
		d.grave.exists(id, place{})
		return
	case gone(err), d.grave.find(id).Left && forbidden(err):
	default:
		d.opt.Log.Debug("discord: whether a thread is gone is not known", "thread", id, "err", err)
		return
	}
	if p := d.grave.find(id); p.Gone.IsZero() {
		return
	}
	if err := d.opt.Bot.Drop(ctx, schemas.ThreadID(id)); err != nil {
		d.opt.Log.Error("the configuration of a deleted thread cannot be dropped; trying again", "thread", id, "err", err)
		return
	}
	d.grave.dropped(id)
	d.opt.Log.Info("the configuration and secrets of a deleted thread were dropped", "thread", id)
}

func forbidden(err error) bool {
	var refused *link.Error
	return errors.As(err, &refused) && refused.Status == 403
}

// stock gives the stored threads that are Discord's.
func (d *Door) stock(ctx context.Context) []string {
	if d.opt.Threads == nil {
		return nil
	}
	all, err := d.opt.Threads(ctx)
	if err != nil && ctx.Err() == nil {
		d.opt.Log.Warn("the stored threads cannot be listed", "err", err)
	}
	var ids []string
	for _, id := range all {
		if id.IsSnowflake() {
			d.grave.stored(string(id))
			ids = append(ids, string(id))
		}
	}
	return ids
}

// census looks slowly, once a day, whether the threads that are stored still exist: Discord does not tell of what was deleted while
// the program was away. Missing access is no sign of it.
func (d *Door) census(ctx context.Context) {
	for ctx.Err() == nil {
		for _, id := range d.stock(ctx) {
			if d.grave.find(id).Gone.IsZero() {
				d.look(ctx, id)
				d.muster(ctx, schemas.ThreadID(id))
				pause(ctx, censusPause)
			}
		}
		pause(ctx, censusEvery)
	}
}

// standing is what a member may do in a thread now, and whether they can still see it: whoever left the guild or lost access to the
// channel cannot.
func (d *Door) standing(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) (role schemas.Role, here bool, err error) {
	ch, err := d.channel(ctx, string(thread))
	if err != nil {
		return schemas.Guest, false, err
	}
	if ch.GuildID == "" {
		return schemas.Owner, true, nil // a conversation of two, which nobody leaves
	}
	may, err := d.rest.PermissionsNow(ctx, ch.GuildID, string(thread), string(member))
	if refused, ok := errors.AsType[*link.Error](err); ok && refused.Code == unknownMember {
		return schemas.Guest, false, nil
	}
	made := ch.IsThread() && ch.OwnerID == string(member)
	return roleOf(made, ch.IsThread(), may), err == nil && may&wire.ViewChannel != 0, err
}

// unknownMember is Discord's JSON error code for who is not in the guild.
const unknownMember = 10007

// muster ends the sign-ins of members who left a thread.
func (d *Door) muster(ctx context.Context, thread schemas.ThreadID) {
	if d.opt.Members == nil {
		return
	}
	members, err := d.opt.Members(ctx, thread)
	if err != nil && ctx.Err() == nil {
		d.opt.Log.Warn("who signed in here is not known", "thread", thread, "err", err)
	}
	for _, m := range members {
		d.opt.Bot.Here(ctx, thread, m)
		pause(ctx, censusPause)
	}
}

func (d *Door) look(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	switch ch, err := d.rest.Channel(ctx, id); {
	case err == nil:
		d.grave.exists(id, place{Guild: ch.GuildID, Parent: ch.ParentID})
	case gone(err):
		d.grave.deleted(id, time.Now())
	}
}
