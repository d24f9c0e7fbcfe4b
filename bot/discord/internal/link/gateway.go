package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"bobbin/schemas"
)

// Waits of a connection.
const (
	openWait    = 10 * time.Second // for each of TCP, TLS, and READY
	maxBackoff  = 30 * time.Second
	stableAfter = time.Minute      // a connection that lived that long starts the backoff anew
	silence     = 90 * time.Second // two heartbeat intervals of Discord's without a single byte
)

// Options of a connection.
type Options struct {
	Token string // of the bot, without "Bot "
	// Base, if set, takes the place of https://discord.com for requests, files and the gateway, such as http://127.0.0.1:4000.
	Base    string
	Intents int
	Shards  int           // in all; 0 = as many as Discord recommends
	ShardID []int         // those that run here; nil = all
	Silence time.Duration // without a byte until a connection counts as dead; 0 = 90 s
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
	via   http.RoundTripper
	turns chan struct{} // one IDENTIFY at a time
}

// Run connects all shards and keeps them connected until ctx ends. It returns early with a *schemas.Error in words when Discord says
// that no retry can help: 4004 (the token), 4010 and 4011 (shards), 4013 and 4014 (intents). Handlers' panics are caught and logged.
func (g *Gateway) Run(ctx context.Context, ready func(Ready), event func(Event)) error {
	version10()
	plan, err := g.plan(ctx)
	if err != nil {
		return err
	}
	g.turns = make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	for _, id := range plan.ids {
		s := &shard{g: g, id: id, of: plan.shards, pause: plan.pause, ready: ready, event: event}
		group.Go(func() error { return s.run(ctx) })
	}
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// version10 sets the version of the gateway; discordgo has it in a variable. Requests carry their own.
var version10 = sync.OnceFunc(func() { discordgo.APIVersion = "10" })

type plan struct {
	shards int
	ids    []int
	pause  time.Duration // between two IDENTIFYs
}

// plan asks how many shards there should be and how fast they may come.
func (g *Gateway) plan(ctx context.Context) (plan, error) {
	for wait := time.Second; ; wait = min(2*wait, maxBackoff) {
		got, err := get[struct {
			Shards int
			Limit  struct {
				Remaining   int
				ResetAfter  int64 `json:"reset_after"` // ms
				Concurrency int   `json:"max_concurrency"`
			} `json:"session_start_limit"`
		}](ctx, g.rest, "/gateway/bot")
		if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusUnauthorized {
			return plan{}, noToken(err)
		}
		if err != nil {
			g.opt.Log.Warn("Discord cannot be reached; trying again", "in", wait, "err", err)
			if !sleep(ctx, jitter(wait)) {
				return plan{}, ctx.Err()
			}
			continue
		}
		p := plan{shards: max(g.opt.Shards, 1), ids: g.opt.ShardID}
		if g.opt.Shards == 0 {
			p.shards = max(got.Shards, 1)
		}
		if p.shards > 1 {
			p.pause = 5 * time.Second / time.Duration(max(got.Limit.Concurrency, 1))
		}
		for id := 0; g.opt.ShardID == nil && id < p.shards; id++ {
			p.ids = append(p.ids, id)
		}
		for _, id := range p.ids {
			if id < 0 || id >= p.shards {
				return plan{}, &schemas.Error{Code: schemas.CodeInvalid, Text: fmt.Sprintf("there is no shard %d of %d", id, p.shards), Hint: "shards are counted from 0"}
			}
		}
		if got.Limit.ResetAfter > 0 && got.Limit.Remaining == 0 {
			reset := time.Duration(got.Limit.ResetAfter) * time.Millisecond
			g.opt.Log.Warn("Discord allows no more connections for now", "for", reset)
			if !sleep(ctx, reset) {
				return plan{}, ctx.Err()
			}
		}
		return p, nil
	}
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

type shard struct {
	g      *Gateway
	id, of int
	pause  time.Duration
	ready  func(Ready)
	event  func(Event)
	life   atomic.Int64 // unix nanoseconds of the last byte
}

// run connects again after every drop.
func (s *shard) run(ctx context.Context) error {
	log := s.g.opt.Log.With("shard", s.id)
	var since time.Time
	for wait := time.Second; ; {
		began := time.Now()
		connected, err := s.connect(ctx, since)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if said := fatal(err); said != nil {
			return said
		}
		if connected {
			since = time.Unix(0, s.life.Load())
		}
		if connected && time.Since(began) > stableAfter {
			wait = time.Second
		}
		log.Warn("the connection to Discord is lost; connecting again", "err", s.g.rest.Redact(fmt.Sprint(err)))
		if !sleep(ctx, jitter(wait)) {
			return ctx.Err()
		}
		wait = min(2*wait, maxBackoff)
	}
}

// heard notes every byte that comes in, which tells a dead link from a quiet one.
type heard struct {
	net.Conn
	life *atomic.Int64
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		h.life.Store(time.Now().UnixNano())
	}
	return n, err
}

// line is one connection with its fresh session.
type line struct {
	session *discordgo.Session
	ready   chan struct{} // closed at READY
	dropped chan struct{} // closed when the session has ended
	once    sync.Once
	drop    sync.Once

	mu     sync.Mutex
	socket net.Conn
}

// hang cuts the connection without a goodbye; discordgo's own takes a second and holds a lock meanwhile.
func (l *line) hang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		_ = l.socket.Close()
	}
}

// connect holds one connection until it drops. It reports whether READY came.
func (s *shard) connect(ctx context.Context, since time.Time) (connected bool, err error) {
	l, err := s.line(since)
	if err != nil {
		return false, err
	}
	defer l.hang()
	if err := s.open(ctx, l); err != nil {
		return false, err
	}
	timer := time.NewTimer(openWait)
	defer timer.Stop()
	select {
	case <-l.ready:
		connected = true
		err = s.watch(ctx, l.dropped)
	case <-l.dropped:
		return false, errors.New("dropped before READY")
	case <-timer.C:
		err = errNotReady
	case <-ctx.Done():
	}
	l.hang()
	<-l.dropped
	return connected, err
}

var errNotReady = errors.New("the gateway did not say READY in time")

// line makes a session whose events come here and whose socket can be cut.
func (s *shard) line(since time.Time) (*line, error) {
	session, err := s.g.opt.session(s.g.via)
	if err != nil {
		return nil, err
	}
	l := &line{session: session, ready: make(chan struct{}), dropped: make(chan struct{})}
	session.Identify.Intents = discordgo.Intent(s.g.opt.Intents)
	session.ShardID, session.ShardCount = s.id, s.of
	dial := session.Dialer.NetDialContext
	session.Dialer.NetDialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.socket = c
		s.life.Store(time.Now().UnixNano())
		return heard{c, &s.life}, nil
	}
	session.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) {
		defer s.caught()
		s.dispatch(l, e, since)
	})
	session.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) { l.drop.Do(func() { close(l.dropped) }) })
	return l, nil
}

// dispatch passes an event on; nothing before READY.
func (s *shard) dispatch(l *line, e *discordgo.Event, since time.Time) {
	ready := false
	select {
	case <-l.ready:
		ready = true
	default:
	}
	if e.Type == "READY" {
		if ready { // discordgo identified again on the same socket, after op 9
			since = time.Now().Add(-time.Minute)
		}
		s.first(e.RawData, since)
		l.once.Do(func() { close(l.ready) })
		ready = true
	}
	if ready {
		s.event(Event{Shard: s.id, Type: e.Type, Data: e.RawData})
	}
}

// open connects and identifies, when it is this shard's turn.
func (s *shard) open(ctx context.Context, l *line) error {
	opened := make(chan error, 1)
	err := errNotReady
	if no := s.turn(ctx, func() {
		// Open holds the session's lock while it waits for READY: op 7 in that moment deadlocks it for good (discordgo #513). Such a
		// session is left behind, one goroutine without a socket.
		go func() { opened <- l.session.Open() }()
		select {
		case err = <-opened:
		case <-time.After(openWait):
		case <-ctx.Done():
		}
	}); no != nil {
		return no
	}
	return err
}

// watch waits for the end of a connection: its own, silence, or ours.
func (s *shard) watch(ctx context.Context, dropped <-chan struct{}) error {
	limit := s.g.opt.Silence
	if limit <= 0 {
		limit = silence
	}
	tick := time.NewTicker(limit / 8)
	defer tick.Stop()
	for {
		select {
		case <-dropped:
			return errors.New("dropped")
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if quiet := time.Since(time.Unix(0, s.life.Load())); quiet > limit {
				return fmt.Errorf("not a byte for %s", quiet.Round(time.Second))
			}
		}
	}
}

// turn lets one shard identify at a time, as far apart as Discord wants.
func (s *shard) turn(ctx context.Context, open func()) error {
	select {
	case s.g.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.g.turns }()
	open()
	if s.pause > 0 {
		sleep(ctx, s.pause)
	}
	return ctx.Err()
}

// first reads READY.
func (s *shard) first(raw json.RawMessage, since time.Time) {
	var r struct {
		User        struct{ ID string }
		Application struct{ ID string }
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		s.g.opt.Log.Warn("READY cannot be read", "err", err)
	}
	if r.Application.ID == "" { // older peers leave it out; for bots made since 2016 it is the same
		r.Application.ID = r.User.ID
	}
	s.ready(Ready{Shard: s.id, Application: r.Application.ID, User: r.User.ID, Since: since})
}

func (s *shard) caught() {
	if p := recover(); p != nil {
		s.g.opt.Log.Error("a handler of Discord's events panicked", "panic", s.g.rest.Redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
	}
}

func noToken(err error) error {
	return &schemas.Error{Code: schemas.CodeDenied, Text: "Discord does not know this token",
		Hint: "copy it again from the developer portal (Bot, Reset Token) into DISCORD_TOKEN", Err: err}
}

// fatal words what no new attempt can mend, nil for all else.
func fatal(err error) error {
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return e
	}
	e, ok := errors.AsType[*websocket.CloseError](err)
	if !ok {
		return nil
	}
	invalid := func(text, hint string) error {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: text, Hint: hint, Err: err}
	}
	switch e.Code {
	case 4004:
		return noToken(err)
	case 4010, 4011:
		return invalid("Discord refuses this number of shards", "leave out --discord-shards, or raise it")
	case 4012:
		return invalid("Discord no longer speaks version 10 of its gateway", "use a newer bobbin")
	case 4013:
		return invalid("Discord does not know the intents that were asked for", "use a newer bobbin")
	case 4014:
		return invalid("Discord refuses the message-content intent", "switch it on in the developer portal (Bot, Message Content Intent), or start without --discord-message-content")
	}
	return nil
}
