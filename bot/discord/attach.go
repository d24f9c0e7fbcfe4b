package discord

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"bobbin/bot/discord/internal/link"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// attached is somebody else's session.
type attached struct {
	session *discordgo.Session
	remove  func() // takes the handler away

	mu    sync.Mutex
	ready func(link.Ready) // of Run; nil before and after
	self  link.Ready       // READY that came before Run
}

// Attach adds /mcp to a bot that has a session of its own. It adds one handler and changes nothing else of the session: the bot's
// own commands, buttons and modals stay its own, and so do all text messages. Run must be running for /mcp to be answered; it
// registers that one command once the session is open, and takes the handler away when it ends.
func Attach(s *discordgo.Session, opt Options) (*Door, error) {
	if s == nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "there is no session to attach to", Hint: "make one with discordgo.New"}
	}
	token, ok := strings.CutPrefix(s.Token, "Bot ")
	if !ok || token == "" {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the session has no bot's token", Hint: `discordgo.New("Bot " + token)`}
	}
	opt.Token = token
	d, err := New(opt)
	if err != nil {
		return nil, err
	}
	d.gateway = nil
	d.attached = &attached{session: s}
	d.attached.remove = s.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) {
		d.safely(func() { d.overhear(s, e) })
	})
	return d, nil
}

// overhear takes what is this door's from another bot's events. Handlers run beside each other there.
func (d *Door) overhear(s *discordgo.Session, e *discordgo.Event) {
	ev := link.Event{Shard: s.ShardID, Type: e.Type, Data: e.RawData}
	switch e.Type {
	case "READY":
		read(d, ev, func(r struct {
			User        struct{ ID string }
			Application struct{ ID string }
		}) {
			d.attached.opened(link.Ready{Shard: s.ShardID, Application: r.Application.ID, User: r.User.ID})
		})
	case "INTERACTION_CREATE":
		read(d, ev, func(i wire.Interaction) {
			if ours(i) {
				d.interacted(s.ShardID, i)
			}
		})
		return
	}
	d.event(ev)
}

// ours reports whether an interaction is with /mcp or something that this door sent.
func ours(i wire.Interaction) bool {
	switch i.Type {
	case wire.Commanded, wire.Typing:
		return i.Data.Name == "mcp"
	case wire.Pressed, wire.Submitted:
		return strings.HasPrefix(i.Data.CustomID, prefix)
	}
	return false
}

// opened notes that the session is open.
func (a *attached) opened(r link.Ready) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.self = r
	if a.ready != nil {
		a.ready(r)
	}
}

// run works until ctx ends, then takes the handler away.
func (a *attached) run(ctx context.Context, d *Door, ready func(link.Ready)) {
	a.mu.Lock()
	a.ready = ready
	self := a.self
	a.mu.Unlock()
	if self.Application == "" && a.isOpen() {
		self = d.whoami(ctx)
	}
	if self.Application != "" {
		a.opened(self)
	}
	<-ctx.Done()
	a.remove()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = nil // nothing is begun any more
}

// isOpen tells whether READY was before the handler. A session that is busy opening has it still to come.
func (a *attached) isOpen() bool {
	if !a.session.TryRLock() {
		return false
	}
	defer a.session.RUnlock()
	return a.session.DataReady
}

// whoami asks who the bot is, until Discord says so.
func (d *Door) whoami(ctx context.Context) link.Ready {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		try, cancel := context.WithTimeout(ctx, lookWait)
		app, err := d.rest.Application(try)
		cancel()
		if err == nil {
			r := link.Ready{Shard: d.attached.session.ShardID, Application: app.ID}
			if app.Bot != nil {
				r.User = app.Bot.ID
			}
			return r
		}
		d.opt.Log.Warn("Discord does not say who this bot is", "again_in", wait, "err", err)
		if !pause(ctx, wait) {
			return link.Ready{}
		}
	}
}
