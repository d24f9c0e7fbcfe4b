package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"bobbin/audit"
	"bobbin/bot"
	"bobbin/internal/durable"
	"bobbin/internal/safehttp"
	"bobbin/mcpstore"
	"bobbin/registry"
	"bobbin/sandbox"
	"bobbin/schemas"
	"bobbin/vault"
)

// app is every room, plugged together.
type app struct {
	log      *slog.Logger
	store    *mcpstore.Store
	journal  *audit.Log
	launcher launcher
	registry *registry.Registry
	bot      *bot.Bot
}

// launcher starts local servers, says where they run, and ends them.
type launcher interface {
	Launch(context.Context, schemas.Launch) (io.ReadWriteCloser, error)
	Place() schemas.Place
	Close() error
}

// newApp opens the data folder and wires the rooms; nothing runs yet.
func (m *Main) newApp(ctx context.Context, log *slog.Logger) (*app, error) {
	data, err := durable.Open(m.Data)
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the data folder " + m.Data + " cannot be used", Hint: "name another one with --data", Err: err}
	}
	folder := make(map[string]*durable.Dir)
	for _, name := range []string{"users", "vault", "cache", "work"} {
		if folder[name], err = data.Sub(name); err != nil {
			return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: filepath.Join(m.Data, name) + " cannot be used", Hint: "check who owns it", Err: err}
		}
	}
	a := &app{log: log}
	if a.store, err = mcpstore.Open(folder["users"], mcpstore.Options{Log: log}); err != nil {
		return nil, err
	}
	if a.journal, err = audit.Open(folder["users"], audit.Options{Log: log}); err != nil {
		return nil, err
	}
	secrets, err := vault.Open(folder["vault"])
	if err != nil {
		return nil, err
	}
	if a.launcher, err = m.launcher(ctx, folder["work"], log); err != nil {
		return nil, err
	}
	late := &gate{}
	a.registry, err = registry.New(registry.Options{
		Wishes: a.store, Launcher: a.launcher, Secrets: secrets, Journal: a.journal, Gate: late, Tell: late,
		Cache: folder["cache"], HTTP: guarded(), Version: version, Log: log,
	})
	if err != nil {
		return nil, err
	}
	a.bot = bot.New(bot.Options{
		Config: a.store, Past: a.store, Rules: a.store,
		Tools: a.registry, Live: a.registry, Held: a.registry, Resources: a.registry, Prompts: a.registry,
		Secrets: secrets, Forget: secrets, Journal: a.journal,
		Import: mcpstore.Import, Place: func(schemas.Door) schemas.Place { return a.launcher.Place() },
		Version: version, Log: log,
	})
	late.bot = a.bot
	return a, nil
}

// gate lets the registry ask and tell through the bot, which is made after it.
type gate struct{ bot *bot.Bot }

func (g *gate) Ask(ctx context.Context, a schemas.Ask) (schemas.Answer, error) {
	return g.bot.Ask(ctx, a)
}

func (g *gate) Held(ctx context.Context, thread schemas.ThreadID, server string, tools []schemas.HeldTool) {
	g.bot.Held(ctx, thread, server, tools)
}

// guarded gives the client for connectors. The person at this machine may reach servers on its loopback; every call brings its
// own deadline, so that a tool may work longer than a header usually takes.
func guarded() func(schemas.Server) *http.Client {
	c := safehttp.New(safehttp.Options{AllowLoopback: true, HeaderTimeout: 10 * time.Minute})
	return func(schemas.Server) *http.Client { return c }
}

// run starts what every command needs besides its door and waits for all of it; it returns when door does or ctx ends.
func (a *app) run(ctx context.Context, door func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The log ends last, so that what the others write while they end is on disk, too.
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var logging, rest errgroup.Group
	logging.Go(func() error { return a.journal.Run(last) })
	part := func(run func(context.Context) error) {
		rest.Go(func() error {
			defer cancel()
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}
	part(a.registry.Run)
	part(a.bot.Run)
	part(func(ctx context.Context) error {
		return a.store.Run(ctx, a.bot.Edited)
	})
	part(door)
	err := errors.Join(rest.Wait(), a.launcher.Close())
	end()
	return errors.Join(err, logging.Wait())
}

// launcher picks where local servers run.
func (m *Main) launcher(ctx context.Context, work *durable.Dir, log *slog.Logger) (launcher, error) {
	switch m.Sandbox {
	case "auto", "process":
		p, err := sandbox.NewProcess(sandbox.Options{Work: work, Log: log})
		if err == nil {
			p.Sweep(ctx)
		}
		return p, err
	case "off":
		return sandbox.NewOff("local servers are switched off here", "start bobbin with --sandbox process"), nil
	case "docker":
		return nil, &schemas.Error{Code: schemas.CodeMissing, Text: "this build cannot run servers in containers yet", Hint: "use --sandbox process to run them as yourself, or --sandbox off"}
	}
	return nil, usagef("--sandbox is auto, docker, process or off, not %q", m.Sandbox)
}
