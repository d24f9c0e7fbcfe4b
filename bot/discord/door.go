// Package discord is the door to Discord: /mcp as slash commands, modals for forms, buttons for choices. It has no rules of its own:
// an event becomes a bot.Request, a bot.Reply becomes messages. Who somebody is and what they may do is read from Discord's own
// payload, at every interaction anew.
package discord

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/link"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

// Options of a Door. Bot is required; Token is, too, except with Attach.
type Options struct {
	Bot     *bot.Bot
	Token   string // the bot's token, without "Bot "
	Base    string // in place of https://discord.com, for a peer in tests or a proxy; "" = Discord
	Content bool   // ask for the message-content intent, which must be switched on in Discord's developer portal
	Shards  int    // in all; 0 = as many as Discord recommends
	ShardID []int  // the shards that run here; nil = all
	// State keeps which threads were deleted; nil: a deletion is forgotten when the program ends before Grace has passed.
	State *durable.Dir
	// Threads lists what is stored, so that a deletion that happened while the program was down is found; may be nil.
	Threads func(context.Context) ([]schemas.ThreadID, error)
	// Members lists who signed in to something in a thread, so that it ends when they left; may be nil.
	Members func(context.Context, schemas.ThreadID) ([]schemas.MemberID, error)
	Grace   time.Duration // from a thread's deletion until its configuration and secrets are dropped; 0 = 7 days
	Locales map[string]draw.Locale
	Log     *slog.Logger // nil = discard
	Version string

	life time.Duration // of an interaction, as far as it is relied on; 0 = tokenLife
}

// Door is a bot on Discord. It is safe for concurrent use.
type Door struct {
	opt     Options
	rest    *link.Rest
	gateway *link.Gateway // nil: somebody else's session brings the events
	deck    deck
	seats   seats
	pulse
}

// Locale is the translation of command names and descriptions into one language; see draw.Locale.
type Locale = draw.Locale

// New makes a door that connects to Discord by itself when it runs. A *schemas.Error says in words what is wrong with the options.
func New(opt Options) (*Door, error) {
	opt = opt.complete()
	intents := 1<<0 | 1<<9 | 1<<12 // guilds, their messages, direct messages
	if opt.Content {
		intents |= 1 << 15
	}
	rest, gateway, err := link.New(link.Options{
		Token: opt.Token, Base: opt.Base, Intents: intents, Shards: opt.Shards, ShardID: opt.ShardID, Log: opt.Log, Version: opt.Version,
	})
	if err != nil {
		return nil, err
	}
	return &Door{opt: opt, rest: rest, gateway: gateway}, nil
}

// complete fills in what may be left out. It panics without a bot, which is a mistake in the wiring.
func (opt Options) complete() Options {
	if opt.Bot == nil {
		panic("discord: Options.Bot is required")
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.life <= 0 {
		opt.life = tokenLife
	}
	if opt.Grace <= 0 {
		opt.Grace = 7 * 24 * time.Hour
	}
	opt.Token = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(opt.Token), "Bot "))
	return opt
}
