package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"bobbin/bot/web"
	"bobbin/host"
	"bobbin/inspect"
	"bobbin/observe"
	"bobbin/registry"
	"bobbin/schemas"
)

func (m *Main) serveCommand() *cobra.Command {
	var listen, user, public, metrics string
	var flags discordFlags
	c := &cobra.Command{
		Use: "serve", Annotations: wires(), Short: "Serve the local web page, and Discord when there is a token", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkUser(user); err != nil {
				return err
			}
			return m.serve(c.Context(), listen, user, public, metrics, &flags)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "loopback address of the page (BOBBIN_LISTEN)")
	c.Flags().StringVar(&user, "user", "operator", "who you are on the page (BOBBIN_USER)")
	c.Flags().StringVar(&public, "public-url", "", "address at which members' browsers reach the pages for signing in, such as https://bot.example.com (BOBBIN_PUBLIC_URL)")
	c.Flags().StringVar(&metrics, "metrics", "", "address that serves /metrics for Prometheus and /healthz, such as 127.0.0.1:9464 (BOBBIN_METRICS); traces go where OTEL_EXPORTER_OTLP_ENDPOINT says")
	flags.add(c.Flags())
	return c
}

func (m *Main) serve(ctx context.Context, listen, user, public, metrics string, flags *discordFlags) error {
	l, err := loopback(listen)
	if err != nil {
		return err
	}
	token, err := flags.secret()
	if err != nil {
		return err
	}
	log := m.logger(m.Err)
	login, err := flags.login()
	if err != nil {
		return err
	}
	here := func() (string, error) { return "http://" + l.Addr().String(), nil }
	watch, err := openTelemetry(ctx, metrics)
	if err != nil {
		return err
	}
	m.observer = watch.Observer
	m.origin = func() string { return cmp.Or(strings.TrimSuffix(public, "/"), "http://"+l.Addr().String()) }
	h, err := m.open(ctx, log, host.Connect{Public: strings.TrimSuffix(public, "/"), Local: here, Login: login})
	if err != nil {
		return err
	}
	me := schemas.Caller{Member: schemas.MemberID(user), Name: user, Door: schemas.DoorWeb, Role: schemas.Owner, Operator: true}
	inspector, err := inspect.New(inspect.Options{Live: h.Registry, Lists: h.Registry, Use: counted{h.Registry, m.observer}, Wire: h.Registry, Member: me, Base: "/inspect", Log: log})
	if err != nil {
		return err
	}
	door, err := web.New(web.Options{
		Bot: h.Bot, Watch: h.Registry.Watch, Threads: h.Store.Threads, Token: rand.Text(), Log: log,
		Member: me, Inspector: inspector.Handler(),
	})
	if err != nil {
		return err
	}
	far, err := m.discordDoor(flags, token, h, log)
	if err != nil {
		return err
	}
	// The heap is collected when it has grown by as much as is in use, which at rest is 4 MiB: a few hundred calls. These bytes count as in
	// use, and take no memory since nobody touches them: but for one of the pieces that begins where something was before, which is cleared.
	var reserve [32][]byte
	for i := range reserve {
		reserve[i] = make([]byte, 256<<10)
	}
	defer runtime.KeepAlive(&reserve)
	return h.Run(ctx, func(ctx context.Context) error {
		_, _ = fmt.Fprintf(m.Out, "bobbin is ready. Open this link in a browser on this machine:\n\n  %s\n\nCtrl-C stops it.\n", door.Link(l.Addr().String()))
		if far != nil && m.Sandbox == "process" {
			_, _ = fmt.Fprintln(m.Out, "Members on Discord may run programs on this machine as you, NOT isolated (--sandbox process).")
		}
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return serveHTTP(ctx, door, withGateway(h, withSignIns(h, door.Handler())), l) })
		g.Go(func() error { return watch.run(ctx) })
		g.Go(func() error { return giveBack(ctx, restLook) })
		g.Go(func() error { return h.Gateway.Announce(ctx, "http://"+l.Addr().String()) })
		if far != nil {
			g.Go(func() error { return far.Run(ctx) })
		}
		return g.Wait()
	})
}

// counted is a registry whose calls are measured like those of other doors.
type counted struct {
	*registry.Registry
	by *observe.Observer
}

func (c counted) Call(ctx context.Context, in schemas.Call) (schemas.Result, error) {
	return c.by.Call(ctx, c.Registry, in)
}

// serveHTTP serves the door and the pages beside it until ctx ends.
func serveHTTP(ctx context.Context, door *web.Door, pages http.Handler, l net.Listener) error {
	srv := door.Server()
	srv.Handler, srv.ConnState = pages, bounded(maxConns)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return door.Run(ctx) })
	g.Go(func() error { return serveUntil(ctx, srv, l) })
	return g.Wait()
}

// loopback listens on an address of this machine only.
func loopback(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, usagef("--listen %q is no address like 127.0.0.1:8080", addr)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return nil, usagef("--listen %q: the local page is served on loopback only, such as 127.0.0.1:8080", addr)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: addr + " is already in use", Hint: "another bobbin may be running; choose another port with --listen 127.0.0.1:8081", Err: err}
	}
	return l, err
}
