package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"bobbin/host"
	"bobbin/internal/safehttp"
	"bobbin/oauth"
	"bobbin/schemas"
)

// clients reads the file of applications that the operator registered at authorization servers: {"https://issuer": {"client_id": …}}.
func (m *Main) clients(rules safehttp.Rules) (map[string]oauth.Client, error) {
	if m.Clients == "" {
		return nil, nil
	}
	wrong := func(err error) error {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "the file of --oauth-clients cannot be used", Hint: `it looks like {"https://auth.example.com": {"client_id": "…", "client_secret": "…"}}`, Err: err}
	}
	f, err := os.Open(m.Clients)
	if err != nil {
		return nil, wrong(err)
	}
	defer func() { _ = f.Close() }()
	d := json.NewDecoder(io.LimitReader(f, 1<<20))
	d.DisallowUnknownFields()
	all := map[string]oauth.Client{}
	if err := d.Decode(&all); err != nil {
		return nil, wrong(err)
	}
	for issuer, c := range all {
		if _, err := rules.Check(issuer); err != nil || c.ID == "" {
			return nil, wrong(err)
		}
	}
	return all, nil
}

// login is the operator's Discord application for browsers, nil when there is none.
func (d *discordFlags) login() (*oauth.Login, error) {
	secret := d.clientSecret
	if secret == "" {
		secret = os.Getenv("DISCORD_CLIENT_SECRET")
	}
	switch {
	case d.appID == "" && secret == "":
		return nil, nil
	case d.appID == "" || secret == "":
		return nil, usagef("for Discord login both --discord-client-id and DISCORD_CLIENT_SECRET are needed")
	}
	l := &oauth.Login{ID: d.appID, Secret: secret, HTTP: safehttp.New(safehttp.Options{AllowLoopback: true, Timeout: 15 * time.Second})}
	if base := strings.TrimSuffix(d.base, "/"); base != "" {
		l.Site, l.API = base, base+"/api/v10"
	}
	return l, nil
}

// callbackPage is the page for signing in of a bobbin that serves no other: it listens on this machine when it is needed first. The port
// stays the same where it is free, since authorization servers remember the address.
type callbackPage struct {
	mu      sync.Mutex
	l       net.Listener
	waiting chan struct{}
}

func newCallbackPage() *callbackPage { return &callbackPage{waiting: make(chan struct{})} }

// callbackPort has no meaning but to be the same each time.
const callbackPort = "48763"

// Open makes the page reachable and gives its origin.
func (c *callbackPage) Open() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.l == nil {
		l, err := net.Listen("tcp", "127.0.0.1:"+callbackPort)
		if err != nil {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			return "", err
		}
		c.l = l
		close(c.waiting)
	}
	return "http://" + c.l.Addr().String(), nil
}

// Run serves the page once it was opened, until ctx ends.
func (c *callbackPage) Run(ctx context.Context, pages http.Handler) error {
	select {
	case <-c.waiting:
	case <-ctx.Done():
		return ctx.Err()
	}
	return serveUntil(ctx, &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}, c.l)
}

// serveUntil serves until ctx ends, then gives open requests five seconds.
func serveUntil(ctx context.Context, srv *http.Server, l net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := srv.Shutdown(grace); err != nil {
			return srv.Close()
		}
		return nil
	})
	return g.Wait()
}

// withSignIns puts the pages for signing in beside a door's own.
func withSignIns(h *host.Host, door http.Handler) http.Handler {
	pages := h.SignIns.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, p := range oauth.Paths() {
			if strings.HasPrefix(r.URL.Path, p) {
				pages.ServeHTTP(w, r)
				return
			}
		}
		door.ServeHTTP(w, r)
	})
}
