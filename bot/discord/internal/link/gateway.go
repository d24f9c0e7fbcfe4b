package link

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// Options of a connection.
type Options struct {
	Token string // of the bot, without "Bot "
	// Base, if set, takes the place of https://discord.com for requests, files and the gateway, such as http://127.0.0.1:4000.
	Base    string
	Intents int
	Shards  int   // in all; 0 = as many as Discord recommends
	ShardID []int // those that run here; nil = all
	Log     *slog.Logger
	Version string // of the program, for the User-Agent
}

// Event is one dispatch of the gateway. Events of a shard come in order, from one goroutine; the handler must not block.
type Event struct {
	Shard int
	Type  string // "INTERACTION_CREATE"
	Data  json.RawMessage
}

// Ready says that a shard is connected (again). Since is the time of the last sign of life before a gap, zero at the first connection.
type Ready struct {
	Shard       int
	Application string // id
	User        string // id of the bot
	Since       time.Time
}

// Gateway keeps shards connected. A fresh session is opened after every drop, since discordgo v0.29.0 can resume into a deadlock
// (discordgo #513) or without end.
type Gateway struct {
	opt   Options
	rest  *Rest
	ready func(Ready)
	event func(Event)
}

// New returns both halves of a connection. Nothing is sent yet.
func New(opt Options) (*Rest, *Gateway, error) { panic("stub") }

// Run connects all shards and keeps them connected until ctx ends. It returns early with a *schemas.Error in words when Discord says
// that no retry can help: 4004 (the token), 4010 and 4011 (shards), 4013 and 4014 (intents). Handlers' panics are caught and logged.
func (g *Gateway) Run(ctx context.Context, ready func(Ready), event func(Event)) error {
	panic("stub")
}
