package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"bobbin/audit"
	"bobbin/inspect"
	"bobbin/internal/durable"
	"bobbin/operator"
	"bobbin/registry"
	"bobbin/schemas"
)

// inspected is the thread in which the inspector shows the operator's servers.
const inspected = schemas.ThreadID("operator")

// bench is what the inspector of the operator's servers looks at: sessions of its own, which end with it.
type bench struct {
	*registry.Registry
	o       *operator.Operator
	journal *audit.Log
	seen    string // the definitions that the registry knows
}

// inspect serves bobbin's own page and its API until ctx ends.
func (m *Main) inspect(ctx context.Context, x inspection) error {
	data, err := durable.Open(m.Data)
	if err != nil {
		return err
	}
	defer data.Close() //nolint:errcheck // only a handle
	own, err := data.Sub("inspector")
	if err != nil {
		return err
	}
	defer own.Close() //nolint:errcheck // only a handle
	log := m.logger(m.Err)
	b, err := newBench(x.Operator, own, log)
	if err != nil {
		return err
	}
	p, err := b.page(log)
	if err != nil {
		return err
	}
	guard, err := inspect.NewGuard(x.Token)
	if err != nil {
		return err
	}
	api := http.NewServeMux()
	api.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	api.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent); x.Stop() })
	api.Handle("/", p.API(""))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.Run(ctx) })
	for l, h := range map[net.Listener]http.Handler{x.Page: guard.Wrap(p.Handler()), x.API: guard.WrapAPI(api)} {
		srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ConnState: bounded(64)}
		g.Go(func() error { return serveUntil(ctx, srv, l) })
	}
	return g.Wait()
}

// newBench wires a registry on the operator's servers. What is called here is recorded in inspector/ of the data folder.
func newBench(o *operator.Operator, own *durable.Dir, log *slog.Logger) (*bench, error) {
	cache, err := own.Sub("cache")
	if err != nil {
		return nil, err
	}
	journal, err := audit.Open(own, audit.Options{Log: log})
	if err != nil {
		return nil, err
	}
	b := &bench{o: o, journal: journal}
	b.Registry, err = registry.New(registry.Options{
		Wishes: wanted{o}, Launcher: nothing{}, Secrets: nothing{}, Journal: journal, Cache: cache, Version: version, Log: log,
		ConnectTimeout: 2 * time.Minute, // a container may have to start, and its image to come
		Settle:         24 * time.Hour,  // these are the operator's own servers: no tool of theirs waits for a yes
		Credentials: func(_ schemas.ThreadID, _ schemas.MemberID, s schemas.Server) *http.Client {
			return o.Client(s.Name)
		},
		Hidden: func(ctx context.Context, _ schemas.ThreadID, e schemas.Entry) map[string]schemas.Secret {
			return o.Hidden(ctx, e.Name)
		},
	})
	return b, err
}

// page is the inspector's page for these servers.
func (b *bench) page(log *slog.Logger) (*inspect.Page, error) {
	return inspect.New(inspect.Options{
		Live: b, Lists: b.Registry, Use: b.Registry, Wire: b.Registry, Thread: inspected, Log: log,
		Member: schemas.Caller{Member: "operator", Name: "operator", Door: schemas.DoorWeb, Role: schemas.Owner, Operator: true},
	})
}

// Run keeps the sessions, and follows mcps.yaml, until ctx ends.
func (b *bench) Run(ctx context.Context) error {
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var logging, g errgroup.Group
	logging.Go(func() error { return b.journal.Run(last) })
	g.Go(func() error { return b.Registry.Run(ctx) })
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if f, err := b.o.Load(ctx); err == nil {
			now := fmt.Sprint(f.Servers)
			if b.seen != "" && b.seen != now {
				b.Poke(inspected)
			}
			b.seen = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	err := g.Wait()
	end()
	return errors.Join(err, logging.Wait())
}

// Status has the last lines that servers in containers printed.
func (b *bench) Status(ctx context.Context, id schemas.ThreadID) ([]schemas.Status, error) {
	list, err := b.Registry.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			var text strings.Builder
			if b.o.Logs(ctx, list[i].Name, operator.LogOptions{Tail: 60}, &text) == nil { // else it has none, or no engine answers
				list[i].Stderr = text.String()
			}
		})
	}
	wg.Wait()
	return list, nil
}

// Restart starts the server's container anew, then the session with it.
func (b *bench) Restart(ctx context.Context, id schemas.ThreadID, server string) error {
	if _, err := b.o.Restart(ctx, server, nil); err != nil {
		return err
	}
	return b.Registry.Restart(ctx, id, server)
}

// wanted are the operator's servers as what a thread wants; everything is allowed to the operator.
type wanted struct{ o *operator.Operator }

func (w wanted) Load(ctx context.Context, id schemas.ThreadID) (schemas.Config, error) {
	f, err := w.o.Load(ctx)
	if err != nil {
		return schemas.Config{}, err
	}
	cfg := schemas.Config{Thread: id, Policy: schemas.Policy{Thread: schemas.Rules{Allow: []string{"*"}}}}
	for _, s := range f.Servers {
		if s.Wrong != "" {
			continue
		}
		def := w.o.Endpoint(s)
		cfg.Entries = append(cfg.Entries, schemas.Entry{
			Server: def, Kind: schemas.Admin, Owner: "operator", OwnerName: "the operator", Enabled: true,
			Approval: &schemas.Approval{Fingerprint: def.Fingerprint(), By: "operator", At: time.Now(), Definition: def},
		})
	}
	return cfg, nil
}

func (wanted) Pin(context.Context, schemas.ThreadID, string, map[string]string) error { return nil }

// nothing has no values and starts no program: the operator's servers need neither from here.
type nothing struct{}

func (nothing) Reveal(context.Context, schemas.SecretKey) (schemas.Secret, error) {
	return schemas.Secret{}, &schemas.Error{Code: schemas.CodeNeeds, Text: "there is no such value"}
}

func (nothing) Launch(context.Context, schemas.Launch) (io.ReadWriteCloser, error) {
	return nil, &schemas.Error{Code: schemas.CodeMissing, Text: "the inspector starts no programs"}
}
