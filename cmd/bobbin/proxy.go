package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"bobbin/proxy"
	"bobbin/schemas"
)

type proxyFlags struct {
	socket, listen, token string
	egress, egressListen  string
	origin                string
	echo, useOnly         bool
	confine               bool
}

func (m *Main) proxyCommand() *cobra.Command {
	var flags proxyFlags
	c := &cobra.Command{
		Use: "proxy [flags] [-- COMMAND ARGS…]", Short: "Serve stdio MCP servers over HTTP; one with COMMAND, or those that are registered",
		Example: "  bobbin proxy --listen 127.0.0.1:8931 -- npx -y @modelcontextprotocol/server-everything",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && c.ArgsLenAtDash() != 0 {
				return usagef("the command comes after --, as in: bobbin proxy --listen 127.0.0.1:8931 -- COMMAND ARGS…")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return m.proxy(c.Context(), &flags, args) },
	}
	f := c.Flags()
	f.StringVar(&flags.listen, "listen", "", "address to serve HTTP at, such as 127.0.0.1:8931 (BOBBIN_LISTEN)")
	f.StringVar(&flags.socket, "socket", "", "unix socket to serve HTTP at (BOBBIN_SOCKET)")
	f.StringVar(&flags.token, "token-file", "", "file with the token that every request must bear; without one only COMMAND is served, on loopback (BOBBIN_TOKEN_FILE)")
	f.StringVar(&flags.origin, "allow-origin", "", "web pages that may use this: an origin such as https://app.example.com, or * for all (BOBBIN_ALLOW_ORIGIN)")
	f.BoolVar(&flags.useOnly, "use-only", false, "at --listen the token is for using the server: others are started, and commands run, at --socket alone (BOBBIN_USE_ONLY)")
	f.BoolVar(&flags.echo, "echo", false, "show what the programs write to their standard error, their values masked (BOBBIN_ECHO)")
	f.BoolVar(&flags.confine, "confine", false, "keep the programs from user namespaces; only Linux can (BOBBIN_CONFINE)")
	f.StringVar(&flags.egress, "egress", "", "unix socket of an HTTP proxy that programs get to know at --egress-listen (BOBBIN_EGRESS)")
	f.StringVar(&flags.egressListen, "egress-listen", "127.0.0.1:3128", "where programs find that HTTP proxy (BOBBIN_EGRESS_LISTEN)")
	return c
}

func (m *Main) proxy(ctx context.Context, flags *proxyFlags, command []string) error {
	switch {
	case flags.listen == "" && flags.socket == "":
		return usagef("where to serve is missing: --listen 127.0.0.1:8931, or --socket PATH")
	case flags.token == "" && len(command) == 0:
		return usagef("there is nothing to serve: name a command after --, or a --token-file so that servers can be registered")
	}
	token, err := readToken(flags.token)
	if err != nil {
		return err
	}
	listeners, way, err := flags.open()
	if err != nil {
		return err
	}
	defer closeAll(append(listeners, way))
	for _, l := range listeners {
		if at, err := netip.ParseAddrPort(l.Addr().String()); token == "" && (err != nil || !at.Addr().IsLoopback()) {
			return &schemas.Error{Code: schemas.CodeInvalid, Text: "others reach " + l.Addr().String() + ", so it needs a token",
				Hint: "--token-file FILE, with one line in it, such as: openssl rand -hex 32; or --listen 127.0.0.1:8931"}
		}
	}
	root := ""
	if len(command) == 0 {
		if root, err = os.Getwd(); err != nil {
			return err
		}
	}
	var echo io.Writer
	if flags.echo {
		echo = m.Err
	}
	p, err := proxy.New(ctx, proxy.Options{Origin: flags.origin, UseOnly: flags.useOnly, Confine: flags.confine, Echo: echo, Token: token, Root: root, Env: theirs(os.Environ()), Log: m.logger(m.Err)})
	if err != nil {
		return err
	}
	defer p.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Adopt(ctx) })
	if way != nil {
		g.Go(func() error { return proxy.Egress(ctx, way, flags.egress) })
	}
	for _, l := range listeners {
		g.Go(func() error { return p.Serve(ctx, l) })
	}
	g.Go(func() error { return m.startMain(ctx, p, listeners, command) })
	return g.Wait()
}

// startMain starts the server of the command line, and says where all is served.
func (m *Main) startMain(ctx context.Context, p *proxy.Proxy, at []net.Listener, command []string) error {
	if len(command) > 0 {
		if _, err := p.Put(proxy.Main, proxy.Definition{Command: command[0], Args: command[1:]}); err != nil {
			return &schemas.Error{Code: schemas.CodeInvalid, Text: err.Error()}
		}
		st, _ := p.Settled(ctx, proxy.Main)
		if st.State == proxy.Failed {
			return &schemas.Error{Code: schemas.CodeMissing, Text: fmt.Sprintf("%q cannot be started: %s", command[0], st.Exit), Hint: "give the full path, or install it"}
		}
	}
	for _, l := range at {
		where := "unix socket " + l.Addr().String()
		if l.Addr().Network() == "tcp" {
			where = "http://" + l.Addr().String()
		}
		if len(command) > 0 {
			where += "/mcp (streamable HTTP), and /sse for older clients"
		}
		_, _ = fmt.Fprintln(m.Out, "serving at", where)
	}
	return nil
}

// theirs is our environment without our own settings.
func theirs(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "BOBBIN_") })
}

func readToken(file string) (token string, err error) {
	if file == "" {
		return "", nil
	}
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		var b []byte
		b, err = io.ReadAll(io.LimitReader(f, 4<<10))
		token = string(bytes.TrimSpace(b))
	}
	if err != nil || token == "" {
		return "", &schemas.Error{Code: schemas.CodeInvalid, Text: "the token file " + file + " cannot be read, or is empty", Hint: "it holds one line, such as: openssl rand -hex 32", Err: err}
	}
	return token, nil
}

// open listens everywhere, or nowhere. way is nil without --egress.
func (f *proxyFlags) open() (at []net.Listener, way net.Listener, err error) {
	defer func() {
		if err != nil {
			closeAll(append(at, way))
		}
	}()
	if f.listen != "" {
		l, err := listenOn("--listen", f.listen)
		if err != nil {
			return at, way, err
		}
		at = append(at, l)
	}
	if f.egress != "" {
		if way, err = listenOn("--egress-listen", f.egressListen); err != nil {
			return at, nil, err
		}
	}
	if f.socket != "" {
		l, err := listenSocket(f.socket)
		if err != nil {
			return at, way, err
		}
		at = append(at, l)
	}
	return at, way, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close()
		}
	}
}

func listenOn(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: addr + " is already in use", Hint: "choose another port with " + flag, Err: err}
	case err != nil:
		return nil, usagef("%s %q is no address of this machine, like 127.0.0.1:8931", flag, addr)
	}
	return l, nil
}

// listenSocket makes a unix socket in place of one that nobody serves any more. Who may use it is up to the token, and to the
// folder: outside of a sandbox its user is another one than inside.
func listenSocket(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = conn.Close()
			return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the socket " + path + " is served already", Hint: "end the other bobbin proxy, or choose another path"}
		}
		if err := os.Remove(path); err != nil {
			return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the old socket " + path + " cannot be removed", Err: err}
		}
	}
	l, err := net.Listen("unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o666); err != nil {
			_ = l.Close()
		}
	}
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the socket " + path + " cannot be made", Hint: "its folder must exist and be yours, and its path must have less than 104 bytes", Err: err}
	}
	return l, nil
}
