// Package host plugs the rooms together: bobbin without its doors. The binary runs it, and so does a program that embeds bobbin
// beside a door of its own; it is public because such a program cannot import our internal folders to do the wiring itself.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"bobbin/agent"
	"bobbin/audit"
	"bobbin/bot"
	"bobbin/gateway"
	"bobbin/internal/safehttp"
	"bobbin/mcpstore"
	"bobbin/oauth"
	"bobbin/observe"
	"bobbin/registry"
	"bobbin/schemas"
)

// Options of a Host. Data is required.
type Options struct {
	Data    string // folder for everything that is kept; made if it is missing
	Sandbox string // where local servers run: "docker", "process", "off", or "auto" (also ""): docker where it can be had, else process
	Version string // told to servers
	Log     *slog.Logger
	// Loopback lets connectors reach servers on this machine's own loopback: for programs whose members sit at it.
	Loopback bool
	// Allow opens hosts of private networks to the connectors of all threads.
	Allow     safehttp.Allow
	Connect   Connect
	Container Container
	Assistant Assistant
	Gateway   Gateway
	Observe   *observe.Observer // nil: nothing is measured
}

// Assistant is who answers messages. Without models nobody does, and people are told how the operator sets one up.
type Assistant struct {
	Models []agent.Choice // those that threads may choose; the first one is a new thread's
	Prompt string         // the operator's own words to the model

	MemberTokens, ThreadTokens int // bounds of what a member in all threads, and a thread, may spend in a day (UTC); 0 = none
}

// Connect is how members sign in to connectors by OAuth.
type Connect struct {
	// Public is the origin, such as https://bot.example.com, at which browsers anywhere reach Host.SignIns.Handler; "" for none:
	// then members on Discord cannot sign in.
	Public string
	// Local makes Host.SignIns.Handler reachable on this machine's loopback and gives its origin. nil: no sign-in on this machine.
	Local func() (string, error)
	// Login is the operator's Discord application, by which browsers prove whose they are. nil: by a code that members type.
	Login *oauth.Login
	// Clients are registered beforehand, by issuer.
	Clients map[string]oauth.Client
	// Document is the URL of a client metadata document that others host; "" = the one under Public.
	Document string
}

// Host is every room, plugged together. Its parts are safe for concurrent use while Run runs.
type Host struct {
	Bot      *bot.Bot
	Store    *mcpstore.Store
	Registry *registry.Registry
	SignIns  *oauth.SignIns
	Gateway  *gateway.Gateway

	journal  *audit.Log
	launcher launcher
	admins   *admins
}

// launcher starts local servers, says where they run, and ends them.
type launcher interface {
	Launch(context.Context, schemas.Launch) (io.ReadWriteCloser, error)
	Place() schemas.Place
	Close() error
}

// measured is the registry with its calls measured.
type measured struct {
	*registry.Registry
	by *observe.Observer
}

func (m measured) Call(ctx context.Context, in schemas.Call) (schemas.Result, error) {
	return m.by.Call(ctx, m.Registry, in)
}

// gate lets the registry ask and tell through the bot, which is made after it.
type gate struct {
	bot   *bot.Bot
	live  *registry.Registry
	agent *agent.Agent
}

func (g *gate) Sample(ctx context.Context, s schemas.Sampling) (schemas.Sampled, error) {
	return g.agent.Sample(ctx, s)
}

func (g *gate) Ask(ctx context.Context, a schemas.Ask) (schemas.Answer, error) {
	return g.bot.Ask(ctx, a)
}

func (g *gate) OwnTools(ctx context.Context, c schemas.Caller) []schemas.Tool {
	return g.bot.OwnTools(ctx, c)
}

func (g *gate) CallOwn(ctx context.Context, call schemas.Call) (schemas.Result, error) {
	return g.bot.CallOwn(ctx, call)
}

func (g *gate) Masked(name string, args json.RawMessage) json.RawMessage {
	return g.bot.Masked(name, args)
}

func (g *gate) Contact(ctx context.Context, c schemas.Contact) (schemas.Answer, error) {
	return g.bot.Contact(ctx, c)
}

func (g *gate) Elicit(ctx context.Context, q schemas.Elicit) (schemas.Elicited, error) {
	return g.bot.Elicit(ctx, q)
}

func (g *gate) Held(ctx context.Context, thread schemas.ThreadID, server string, tools []schemas.HeldTool) {
	g.bot.Held(ctx, thread, server, tools)
}

func (g *gate) standing(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) (schemas.Role, bool) {
	return g.bot.Standing(ctx, thread, member)
}

// signedIn lets what waited for a member's sign-in go on.
func (g *gate) signedIn(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, link string) {
	g.live.Poke(thread)
	g.bot.SignedIn(ctx, thread, member, link)
}

func (g *gate) here(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) bool {
	return g.bot.Here(ctx, thread, member)
}

// accounts ends the sessions of a sign-in together with it.
type accounts struct {
	*oauth.SignIns
	live   *registry.Registry
	tokens *gateway.Gateway
}

func (a accounts) SignOut(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID, s schemas.Server) error {
	return errors.Join(a.SignIns.SignOut(ctx, thread, member, s), a.live.SignedOut(ctx, thread, member, s.Name))
}

func (a accounts) Leave(ctx context.Context, thread schemas.ThreadID, member schemas.MemberID) error {
	return a.leaving(ctx, thread, member, errors.Join(a.SignIns.Leave(ctx, thread, member), a.live.SignedOut(ctx, thread, member, "")))
}

// drop removes a thread from the rooms that keep something of it: first what it wants, so that nothing starts any more.
type drop struct {
	*mcpstore.Store
	live   *registry.Registry
	tokens *gateway.Gateway
	chats  *agent.Agent
}

func (d drop) Drop(ctx context.Context, id schemas.ThreadID) error {
	if err := errors.Join(d.Store.Drop(ctx, id), d.tokens.Left(ctx, id, "")); err != nil {
		return err
	}
	return errors.Join(d.chats.Drop(ctx, id), d.live.Drop(ctx, id))
}

// guarded gives the client for connectors. Every call brings its own deadline, so that a tool may work longer than a header
// usually takes. Loopback is never for Discord's threads: their members sit elsewhere.
func (opt Options) guarded() func(schemas.ThreadID) *http.Client {
	strict := safehttp.New(safehttp.Options{Allow: opt.Allow, HeaderTimeout: 10 * time.Minute})
	here := safehttp.New(safehttp.Options{AllowLoopback: opt.Loopback, Allow: opt.Allow, HeaderTimeout: 10 * time.Minute})
	return func(t schemas.ThreadID) *http.Client {
		if t.IsSnowflake() {
			return strict
		}
		return here
	}
}

// check says whether a thread's connectors may lead to an address.
func (opt Options) check(t schemas.ThreadID, raw string) (*url.URL, error) {
	return safehttp.Rules{Loopback: opt.Loopback && !t.IsSnowflake(), Allow: opt.Allow}.Check(raw)
}

// Run runs the rooms and the door, and waits for all of them; it returns when the door does or ctx ends, and is called once. No
// program of a member is left when it returns.
func (h *Host) Run(ctx context.Context, door func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The log ends last, so that what the others write while they end is on disk, too.
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var logging, rest errgroup.Group
	logging.Go(func() error { return h.journal.Run(last) })
	part := func(run func(context.Context) error) {
		rest.Go(func() error {
			defer cancel()
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}
	part(h.Registry.Run)
	part(h.Bot.Run)
	part(h.SignIns.Run)
	part(func(ctx context.Context) error { return h.admins.run(ctx, h.Registry.Poke) })
	part(h.Gateway.Run)
	part(func(ctx context.Context) error {
		return h.Store.Run(ctx, h.Bot.Edited)
	})
	part(door)
	err := errors.Join(rest.Wait(), h.launcher.Close())
	end()
	return errors.Join(err, logging.Wait())
}
