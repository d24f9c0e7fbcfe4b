package discord

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/link"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// Bounds of what goes on at a time.
const (
	maxWork  = 1000 // interactions
	maxLanes = 1000 // channels that are answered, and threads that are told something
	longest  = 15 * time.Minute
)

// pulse is the part of a Door that lives while Run does: what comes in, and what goes on by itself. Its zero value is ready.
type pulse struct {
	work  group // interactions
	slow  group // texts and notices, so that they never take an interaction's place
	talks lanes // texts, by channel
	tells lanes // notices, by thread
	heard heard
	grave grave
	known channels

	mu        sync.Mutex
	self      link.Ready // who the bot is, once a shard was ready
	attached  *attached  // of Attach; nil otherwise
	registers sync.Once
}

// Run registers /mcp and /chat, answers what comes in and tells threads what happens by itself, until ctx ends. It waits for everything that it
// started. It returns early with a *schemas.Error in words when Discord says that no retry can help. It may be called once.
func (d *Door) Run(ctx context.Context) error {
	command, err := draw.Command(d.opt.Bot.Verbs(), d.opt.Locales)
	if err != nil {
		return err
	}
	chat, err := draw.Chat(d.opt.Bot.ChatVerbs(), d.opt.Locales)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !d.work.begin(ctx, maxWork) || !d.slow.begin(ctx, maxLanes) {
		return errors.New("discord: Run was called twice")
	}
	d.grave.load(d.opt.State, d.opt.Log)
	d.stock(ctx)
	var loops sync.WaitGroup
	notices, deaf := d.opt.Bot.Listen(schemas.ThreadID.IsSnowflake)
	gone := d.opt.Bot.Roster(schemas.ThreadID.IsSnowflake, d.standing)
	defer gone()
	loops.Go(func() { d.pump(notices) })
	loops.Go(func() { d.grave.keep(ctx) })
	loops.Go(func() { d.bury(ctx) })
	loops.Go(func() { d.catchUp(ctx) })
	ready := func(r link.Ready) {
		d.ready(r)
		d.registers.Do(func() {
			loops.Go(func() { d.register(ctx, r.Application, command, chat) })
			loops.Go(func() { d.census(ctx) })
		})
	}
	if d.attached != nil {
		d.attached.run(ctx, d, ready)
	} else {
		err = d.gateway.Run(ctx, ready, func(e link.Event) { d.event(e) })
	}
	ended := ctx.Err() != nil
	cancel()
	deaf()
	loops.Wait()
	d.work.end()
	d.slow.end()
	d.grave.save() // what the last answers brought
	if ended && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// spawn runs f beside everything else, until Run ends, which waits for it. It reports false when too much goes on, or the door is
// closed: then f never runs.
func (d *Door) spawn(f func(context.Context)) bool {
	return d.work.spawn(func(ctx context.Context) { d.safely(func() { f(ctx) }) })
}

// safely keeps a mistake in one answer from ending the program.
func (d *Door) safely(f func()) {
	defer func() {
		if p := recover(); p != nil {
			d.opt.Log.Error("discord: something broke", "panic", p)
		}
	}()
	f()
}

// register tells Discord what /mcp and /chat look like, until it took them. With somebody else's session texts are not this door's, and
// neither is /chat.
func (d *Door) register(ctx context.Context, app string, command, chat wire.Command) {
	for wait := time.Second; ; wait = min(2*wait, 5*time.Minute) {
		try, cancel := context.WithTimeout(ctx, time.Minute)
		var err error
		if d.attached != nil {
			err = d.rest.Upsert(try, app, command)
		} else {
			err = d.rest.Register(try, app, []wire.Command{command, chat})
		}
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		d.opt.Log.Warn("Discord did not take the commands; "+unregistered(err), "again_in", wait, "err", err)
		if !pause(ctx, wait) {
			return
		}
	}
}

func unregistered(err error) string {
	var refused *link.Error
	if errors.As(err, &refused) {
		switch refused.Status {
		case 401:
			return "it does not know the token: set the one from the developer portal, page Bot"
		case 403:
			return "the token may not register commands: invite the bot again with the scope applications.commands"
		}
	}
	return "trying again"
}

// ready notes who the bot is, and looks for messages that a gap hid.
func (d *Door) ready(r link.Ready) {
	d.mu.Lock()
	d.self = r
	d.mu.Unlock()
	d.opt.Log.Info("connected to Discord", "shard", r.Shard, "bot", r.User)
	if !r.Since.IsZero() && d.attached == nil {
		d.heard.gap(r.Shard, r.Since, time.Now())
	}
}

// event sorts what a shard says. It never blocks; a type it does not know is nothing to it.
func (d *Door) event(e link.Event) {
	switch e.Type {
	case "INTERACTION_CREATE":
		read(d, e, func(i wire.Interaction) { d.interacted(e.Shard, i) })
	case "MESSAGE_CREATE":
		if d.attached == nil {
			read(d, e, func(m wire.Message) { d.message(e.Shard, m) })
		}
	case "THREAD_CREATE", "THREAD_UPDATE", "CHANNEL_UPDATE":
		read(d, e, d.lives)
	case "THREAD_DELETE", "CHANNEL_DELETE":
		read(d, e, func(c wire.Channel) {
			d.known.drop(c.ID)
			d.heard.forget(c.ID)
			d.grave.deleted(c.ID, time.Now())
		})
	case "READY":
		read(d, e, func(r roll) { d.grave.rollCall(r, time.Now()) })
	case "GUILD_CREATE":
		read(d, e, func(g wire.Guild) { d.joined(e.Shard, g) })
	case "GUILD_DELETE":
		read(d, e, func(g wire.Guild) {
			if !g.Unavailable {
				d.grave.left(g.ID, time.Now())
			}
		})
	}
}

// interacted answers an interaction beside everything else. Discord shows its own words when there is no room for it.
func (d *Door) interacted(shard int, i wire.Interaction) {
	if i.Channel != nil && i.Channel.ID == "" {
		i.Channel.ID = i.ChannelID
	}
	at := place{Guild: i.GuildID}
	if i.Channel != nil {
		at.Parent = i.Channel.ParentID
	}
	d.grave.alive(i.ChannelID, at)
	d.heard.visit(shard, i.GuildID, i.ChannelID, i.ID)
	if !d.spawn(func(ctx context.Context) { d.interaction(ctx, i) }) {
		d.opt.Log.Warn("discord: too much goes on, an interaction is not answered", "channel", i.ChannelID)
	}
}

// lives notes what a channel is, which also says that it is there.
func (d *Door) lives(c wire.Channel) {
	d.known.put(c)
	d.grave.exists(c.ID, place{Guild: c.GuildID, Parent: c.ParentID})
}

func (d *Door) joined(shard int, g wire.Guild) {
	if g.Unavailable {
		return
	}
	d.grave.joined(g.ID)
	all := append(g.Channels, g.Threads...)
	for i := range all {
		all[i].GuildID = g.ID
		d.grave.exists(all[i].ID, place{Guild: g.ID, Parent: all[i].ParentID})
		if all[i].IsThread() {
			d.known.put(all[i])
		}
	}
	d.heard.listed(shard, g.ID, all, time.Now())
}

// read decodes an event. A broken one costs nothing but itself.
func read[T any](d *Door, e link.Event, then func(T)) {
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		d.opt.Log.Debug("discord: an event cannot be read", "type", e.Type, "err", err)
		return
	}
	then(v)
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
