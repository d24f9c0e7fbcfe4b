package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bobbin/operator"
	"bobbin/schemas"
)

func (m *Main) mcpAdd() *cobra.Command {
	var s operator.Server
	var p operator.ProxyOptions
	var env []string
	var yes bool
	c := &cobra.Command{
		Use: "add NAME BASE_IMAGE", Short: "Add an MCP server that runs in a container of its own", Args: exactly(2, "NAME BASE_IMAGE"),
		Example: "  bobbin mcp add github mcp/github --env GITHUB_TOKEN=…",
	}
	f := c.Flags()
	f.StringVar(&s.Command, "command", "", "words for the image's entrypoint, in place of the image's own")
	f.StringVar(&s.ProxyImage, "proxy-image", "", "another proxy than bobbin's own; it needs allow_docker_socket in mcps.yaml")
	f.IntVar(&p.Port, "sse-port", 8080, "port of /sse and /mcp inside the container network")
	f.StringVar(&p.Host, "sse-host", "0.0.0.0", "address to bind inside the container")
	f.StringVar(&p.Origin, "allow-origin", "*", "origin of web pages that may use it, or *")
	f.IntVar(&s.Replicas, "replicas", 1, "how many times it runs; who begins to use it gets the next in turn")
	f.StringArrayVar(&env, "env", nil, "KEY=VALUE, may be repeated; what looks like a secret goes to the vault")
	f.BoolVar(&yes, "yes", false, "do not ask before a server that is there is changed")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		if p.Port < 1 || p.Port > 65535 {
			return usagef("--sse-port is a number from 1 to 65535, not %d", p.Port)
		}
		if s.Replicas < 1 || s.Replicas > operator.MaxReplicas {
			return usagef("--replicas is a number from 1 to %d, not %d", operator.MaxReplicas, s.Replicas)
		}
		s.Name, s.Type, s.BaseImage, s.ProxyOptions = args[0], operator.Proxied, args[1], &p
		s.Env = m.pairs("env", env)
		return m.change(ctx, o, s, yes, "start it with: bobbin mcp start "+s.Name)
	})
	return c
}

// change writes an entry. What changes of one that is there is shown, and takes a yes.
func (m *Main) change(ctx context.Context, o *operator.Operator, s operator.Server, yes bool, next string) error {
	c, err := o.Propose(ctx, s)
	if err != nil {
		return err
	}
	if c.Kind == operator.Same {
		return m.told(c, "%s stays as it is", c.Server)
	}
	if c.Kind == operator.Changed && !m.JSON {
		_, _ = io.WriteString(m.Out, c.Diff)
		if len(c.Sealed) > 0 {
			m.sayf("! the vault gets another value of %s", strings.Join(c.Sealed, ", "))
		}
	}
	if c.Kind == operator.Changed && !yes {
		if ok, err := m.agreed("change "+c.Server+"?", c); !ok {
			return err
		}
	}
	if err := o.Commit(ctx, c); err != nil {
		return err
	}
	if c.Kind == operator.Changed {
		next = "what runs stays as it is until: bobbin mcp restart " + c.Server
	}
	return m.told(c, "%s %s · %s", c.Kind, c.Server, next)
}

// agreed asks a question; anything but a yes is a no. Where nobody answers it is an error, and programs are told what was not done.
func (m *Main) agreed(question string, undone any) (bool, error) {
	unasked := &schemas.Error{Code: schemas.CodeAsk, Text: "nobody was there to say yes, so nothing was changed", Hint: "--yes does it without asking"}
	if m.JSON {
		return false, m.printUndone(undone, failureOf(unasked))
	}
	_, _ = fmt.Fprintf(m.Out, "%s [y/N] ", question)
	line, err := bufio.NewReader(io.LimitReader(m.In, 100)).ReadString('\n')
	if err != nil && line == "" {
		_, _ = fmt.Fprintln(m.Out)
		return false, unasked
	}
	if line = strings.ToLower(strings.TrimSpace(line)); line == "y" || line == "yes" {
		return true, nil
	}
	m.sayf("nothing was changed")
	return false, nil
}

// printUndone prints a document with the failure in it.
func (m *Main) printUndone(doc any, f failure) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	all["error"] = f
	return errors.Join(m.printJSON(all), errQuiet)
}

// pairs reads KEY=VALUE; what is none is left out with a warning.
func (m *Main) pairs(what string, list []string) map[string]string {
	all := map[string]string{}
	for _, p := range list {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			m.warnf("%s %q is not KEY=VALUE and was left out", what, p)
			continue
		}
		all[k] = v
	}
	return all
}

// headerPairs also takes headers as they stand in a request, KEY: VALUE.
func (m *Main) headerPairs(list []string) map[string]string {
	all := map[string]string{}
	for _, p := range list {
		at := strings.IndexAny(p, "=:")
		if at < 1 {
			m.warnf("a header is not KEY=VALUE and was left out") // it may be the value alone
			continue
		}
		all[p[:at]] = strings.TrimSpace(p[at+1:])
	}
	return all
}

func (m *Main) mcpAddRemote() *cobra.Command {
	var headers []string
	var yes bool
	c := &cobra.Command{
		Use: "add-remote NAME URL", Short: "Add an MCP server that somebody else runs", Args: exactly(2, "NAME URL"),
		Example: "  bobbin mcp add-remote linear https://mcp.linear.example/mcp --header \"Authorization=Bearer …\"",
	}
	c.Flags().StringArrayVar(&headers, "header", nil, "KEY=VALUE, may be repeated; the value goes to the vault")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask before a server that is there is changed")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		s := operator.Server{Name: args[0], Type: operator.Remote, URL: args[1], Headers: m.headerPairs(headers)}
		return m.change(ctx, o, s, yes, "attach it to a thread with: /mcp admin attach "+s.Name)
	})
	return c
}

func (m *Main) mcpRemove() *cobra.Command {
	c := &cobra.Command{Use: "remove NAME", Short: "Remove an MCP server: its container, its entry and its values in the vault", Args: exactly(1, "NAME"), ValidArgsFunction: m.serverNames}
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		s, err := o.Status(ctx, args[0])
		if err != nil && schemas.CodeOf(err) == schemas.CodeNotFound {
			return err
		}
		threads, err := m.threadsWith(ctx, args[0])
		if err != nil {
			return err
		}
		users := append(append([]string{}, s.Sessions...), threads...)
		if len(users) > 0 {
			m.warnf("%s is in use by %s", args[0], strings.Join(users, ", "))
		}
		if err := o.Remove(ctx, args[0]); err != nil {
			return err
		}
		return m.told(map[string]any{"server": args[0], "change": "removed", "users": users}, "removed %s", args[0])
	})
	return c
}

// threadsWith names the threads that a server is attached to.
func (m *Main) threadsWith(ctx context.Context, name string) (all []string, err error) {
	threads, err := m.threadSessions(ctx)
	for _, t := range threads {
		if slices.Contains(t.Servers, name) {
			all = append(all, t.Name)
		}
	}
	return all, err
}
