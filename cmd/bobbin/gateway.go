package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	lending "bobbin/gateway"
	"bobbin/host"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

func (m *Main) gatewayCommand() *cobra.Command {
	var thread, user, server string
	var stdio bool
	c := &cobra.Command{
		Use: "gateway --stdio --thread ID", Annotations: wires(), Short: "Lend a thread's tools to the MCP client that started this program", Args: cobra.NoArgs,
		Long: "Lends a thread's tools, resources and prompts to the MCP client that started this program, over its standard input and output.\n" +
			"bobbin serve does the same over HTTP, for clients elsewhere: see /mcp gateway token.",
		RunE: func(c *cobra.Command, _ []string) error {
			if !stdio {
				return usagef("bobbin gateway needs --stdio; over HTTP, bobbin serve is the gateway of all threads")
			}
			caller := schemas.Caller{Thread: schemas.ThreadID(thread), Member: schemas.MemberID(user), Name: user, Door: schemas.DoorGateway, Role: schemas.Member, Operator: true}
			if !caller.Thread.Valid() {
				return usagef("--thread %q is no thread id: letters, digits, - and _, at most 64, beginning with a letter or digit", thread)
			}
			if err := checkUser(user); err != nil {
				return err
			}
			return m.gatewayStdio(c.Context(), caller, server)
		},
	}
	c.Flags().BoolVar(&stdio, "stdio", false, "speak MCP on standard input and output")
	c.Flags().StringVar(&thread, "thread", "terminal-default", "thread whose tools are lent (BOBBIN_THREAD)")
	c.Flags().StringVar(&user, "user", "operator", "member as whom calls run (BOBBIN_USER)")
	c.Flags().StringVar(&server, "server", "", "lend this one server only, by its tools' own names")
	return c
}

func (m *Main) gatewayStdio(ctx context.Context, caller schemas.Caller, server string) error {
	logFile, err := m.logFile()
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()
	if data, err := durable.Open(filepath.Join(m.Data, "gateway")); err == nil { // what is wrong with it is said below
		defer func() { _ = data.Close() }()
		if served, err := lending.Bridge(ctx, data, caller, server, m.In, m.Out); served {
			return err
		}
	}
	back := newCallbackPage()
	h, err := m.open(ctx, m.logger(logFile), host.Connect{Local: back.Open})
	if err != nil {
		return err
	}
	return h.Run(ctx, func(ctx context.Context) error {
		if err := h.Gateway.Ready(ctx); err != nil {
			return err
		}
		return h.Gateway.Stdio(ctx, caller, server, m.In, m.Out)
	})
}

// gatewayOptions say how clients reach this bobbin.
func (m *Main) gatewayOptions() host.Gateway {
	g := host.Gateway{Origin: m.origin}
	program, err := os.Executable()
	if err != nil {
		return g
	}
	data, err := filepath.Abs(m.Data)
	if err != nil {
		return g
	}
	g.Program = []string{program, "--data", data}
	if m.Sandbox != "auto" {
		g.Program = append(g.Program, "--sandbox", m.Sandbox)
	}
	return g
}

// withGateway puts the gateway's endpoints beside a door's pages.
func withGateway(h *host.Host, pages http.Handler) http.Handler {
	clients := h.Gateway.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.Gateway.Serves(r.URL.Path) {
			clients.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// maxConns bounds connections where the gateway is served: a client holds two or three.
const maxConns = 4096

// bounded gives a server's hook that closes what comes above the limit.
func bounded(most int) func(net.Conn, http.ConnState) {
	var mu sync.Mutex
	live := map[net.Conn]bool{}
	return func(c net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch s {
		case http.StateNew:
			live[c] = true
			if len(live) > most {
				_ = c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			delete(live, c)
		}
	}
}
