package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"bobbin/internal/durable"
	"bobbin/operator"
	"bobbin/schemas"
	"bobbin/vault"
)

// operator opens the operator's servers of the data folder.
func (m *Main) operator() (*operator.Operator, error) {
	data, err := durable.Open(m.Data)
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the data folder " + m.Data + " cannot be used", Hint: "name another one with --data", Err: err}
	}
	sealed, err := data.Sub("vault")
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the vault in " + m.Data + " cannot be used", Hint: "check who owns it", Err: err}
	}
	secrets, err := vault.Open(sealed)
	if err != nil {
		return nil, err
	}
	return operator.New(operator.Options{Data: data, Secrets: secrets, Getenv: os.LookupEnv, Binary: m.containers.Binary})
}

// withOperator runs a command on the operator's servers.
func (m *Main) withOperator(fn func(context.Context, *operator.Operator, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		o, err := m.operator()
		if err != nil {
			return err
		}
		return errors.Join(fn(c.Context(), o, args), o.Close())
	}
}

// exactly is cobra.ExactArgs as a usage error, with the words of the command.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("bobbin %s %s", strings.TrimPrefix(c.CommandPath(), "bobbin "), what)
		}
		return nil
	}
}

// serverNames completes the names of the operator's servers.
func (m *Main) serverNames(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return m.allServers(c), cobra.ShellCompDirectiveNoFileComp
}

func (m *Main) allServers(c *cobra.Command) (all []string) {
	o, err := m.operator()
	if err != nil {
		return nil
	}
	defer o.Close() //nolint:errcheck // only a client of the engine
	f, err := o.Load(c.Context())
	if err != nil {
		return nil
	}
	for _, s := range f.Servers {
		all = append(all, s.Name)
	}
	return all
}

func (m *Main) mcpCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "mcp", Short: "The operator's MCP servers: in containers, or reached by URL", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(m.mcpList(), m.mcpStatus(), m.mcpStart(), m.mcpStop(), m.mcpRestart(), m.mcpUpgrade(), m.mcpLogs(), m.mcpAdd(), m.mcpAddRemote(), m.mcpRemove(), m.inspectorCommand())
	return c
}

func (m *Main) printJSON(v any) error { return writeJSONTo(m.Out, v) }

func writeJSONTo(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (m *Main) sayf(format string, args ...any) { _, _ = fmt.Fprintf(m.Out, format+"\n", args...) }

func (m *Main) warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(m.Err, "Warning: "+format+"\n", args...)
}

// complain shows an error and its hint, and lets the command go on.
func (m *Main) complain(err error) {
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		_, _ = fmt.Fprintf(m.Err, "bobbin: %s\n", e.Text)
		if e.Hint != "" {
			_, _ = fmt.Fprintf(m.Err, "hint: %s\n", e.Hint)
		}
		return
	}
	_, _ = fmt.Fprintf(m.Err, "bobbin: %v\n", err)
}

func (m *Main) mcpList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "list", Short: "List all MCP servers and how they are", Args: cobra.NoArgs}
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, _ []string) error {
		all, err := o.List(ctx)
		if err != nil {
			return err
		}
		f, err := o.Load(ctx)
		if err != nil {
			return err
		}
		for _, p := range f.Problems {
			m.warnf("%s", p)
		}
		switch {
		case asJSON:
			return m.printJSON(all)
		case len(all) == 0:
			m.sayf("No MCP servers configured")
			return nil
		}
		w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "Name\tType\tStatus\tPorts\tDetails")
		for _, s := range all {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Name, s.Type, s.State, cmp.Or(strings.Join(s.Ports, ", "), "-"), cmp.Or(s.Why, s.Image, s.URL))
		}
		return w.Flush()
	})
	return c
}

func (m *Main) mcpStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "status NAME", Short: "Show one MCP server in detail", Args: exactly(1, "NAME"), ValidArgsFunction: m.serverNames}
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		s, err := o.Status(ctx, args[0])
		switch {
		case err != nil:
			return err
		case asJSON:
			return m.printJSON(s)
		}
		return m.printStatus(s)
	})
	return c
}

func (m *Main) printStatus(s operator.Status) error {
	w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', 0)
	row := func(label, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", label, value)
		}
	}
	row("Name", s.Name)
	row("Type", s.Type)
	row("Status", s.State)
	row("Why", s.Why)
	row("Next", s.Hint)
	row("Image", s.Image)
	row("Digest", s.Digest)
	row("Command", s.Command)
	if s.Proxy == "bobbin" {
		row("Proxy", "bobbin's own")
	} else {
		row("Proxy", s.Proxy)
	}
	row("Container", s.Container)
	row("ID", s.ID)
	row("Network", s.Network)
	row("URL", s.URL)
	row("Bind", strings.TrimSuffix(s.Configured+" in the container; "+cmp.Or(s.Effective, "not reachable")+" on this machine", "; not reachable on this machine"))
	if s.Configured == "" {
		row("Bind", "")
	}
	row("Ports", strings.Join(s.Ports, ", "))
	row("Origins", s.AllowOrigin)
	if !s.Created.IsZero() {
		row("Created", s.Created.UTC().Format("2006-01-02 15:04:05 UTC"))
		row("Started", s.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
		row("Tools", fmt.Sprint(s.Tools))
		row("Restarts", fmt.Sprint(s.Restarts))
	}
	for _, group := range []struct {
		label  string
		values map[string]string
	}{{"Env", s.Env}, {"Header", s.Headers}} {
		for _, k := range sorted(group.values) {
			row(group.label, k+"="+group.values[k])
		}
	}
	row("Allowed", strings.Join(s.Allow, ", "))
	row("Sessions", strings.Join(s.Sessions, ", "))
	for _, p := range s.Problems {
		row("Problem", p)
	}
	return w.Flush()
}

func sorted(in map[string]string) []string {
	keys := make([]string, 0, len(in))
	for k := range in {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// step is what is told of a server while it starts.
func (m *Main) step(name string) func(string) {
	return func(step string) {
		if step != "running" {
			_, _ = fmt.Fprintf(m.Err, "%s: %s…\n", name, step)
		}
	}
}

func (m *Main) tellStarted(s operator.Status) {
	if s.Type == operator.Remote {
		m.sayf("%s is remote: no action needed", s.Name)
		return
	}
	if s.Socket {
		m.warnf("%s has the engine's socket, by which its proxy image is root on this machine", s.Name)
	}
	if s.Proxy != "bobbin" {
		m.sayf("%s is %s · %s", s.Name, s.State, cmp.Or(s.Effective, s.URL))
		return
	}
	m.sayf("%s is %s · %d tools · %s", s.Name, s.State, s.Tools, cmp.Or(s.Effective, s.URL))
}

// nameOrAll reads the arguments of start and stop.
func nameOrAll(all *bool) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 || (len(args) == 1) == *all {
			return usagef("bobbin %s NAME, or --all", strings.TrimPrefix(c.CommandPath(), "bobbin "))
		}
		return nil
	}
}

func (m *Main) mcpStart() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{Use: "start NAME|--all", Short: "Start an MCP server; one that runs as it is written is left alone", Args: nameOrAll(&all), ValidArgsFunction: m.serverNames}
	c.Flags().BoolVar(&all, "all", false, "every server")
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		if all {
			return m.startAll(ctx, o, asJSON)
		}
		s, err := o.Start(ctx, args[0], m.step(args[0]))
		if err != nil {
			return err
		}
		if asJSON {
			return m.printJSON(s)
		}
		m.tellStarted(s)
		return nil
	})
	return c
}

// result is what became of one server of many.
type result struct {
	Name  string `json:"name"`
	Done  string `json:"done"` // started, stopped, remote or failed
	Error string `json:"error,omitempty"`
}

func (m *Main) startAll(ctx context.Context, o *operator.Operator, asJSON bool) error {
	return m.forAll(ctx, o, asJSON, "started", func(name string) error {
		s, err := o.Start(ctx, name, m.step(name))
		if err == nil && !asJSON {
			m.tellStarted(s)
		}
		return err
	})
}

// forAll goes on after an error, and ends with a summary.
func (m *Main) forAll(ctx context.Context, o *operator.Operator, asJSON bool, done string, do func(name string) error) error {
	f, err := o.Load(ctx)
	if err != nil {
		return err
	}
	results, count := []result{}, map[string]int{}
	for _, s := range f.Servers {
		r := result{Name: s.Name, Done: done}
		err := do(s.Name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.Done, r.Error = "failed", err.Error()
			if e, ok := errors.AsType[*schemas.Error](err); ok {
				r.Error = e.Text
			}
			if !asJSON {
				m.complain(err)
			}
		case s.Type == operator.Remote:
			r.Done = "remote"
		}
		count[r.Done]++
		results = append(results, r)
	}
	if asJSON {
		err = m.printJSON(results)
	} else {
		parts := []string{fmt.Sprintf("%d %s", count[done], done)}
		if n := count["failed"]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d failed", n))
		}
		if n := count["remote"]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d remote: no action needed", n))
		}
		m.sayf("%s", strings.Join(parts, ", "))
	}
	if count["failed"] > 0 {
		return errQuiet
	}
	return err
}

func (m *Main) mcpStop() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{Use: "stop NAME|--all", Short: "Stop an MCP server and remove its container; its entry stays", Args: nameOrAll(&all), ValidArgsFunction: m.serverNames}
	c.Flags().BoolVar(&all, "all", false, "every server")
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		if all {
			return m.forAll(ctx, o, asJSON, "stopped", func(name string) error { return o.Stop(ctx, name) })
		}
		if err := o.Stop(ctx, args[0]); err != nil {
			return err
		}
		s, err := o.Status(ctx, args[0])
		switch {
		case err != nil:
			return err
		case asJSON:
			return m.printJSON(s)
		case s.Type == operator.Remote:
			m.sayf("%s is remote: no action needed", args[0])
		default:
			m.sayf("%s is stopped; its entry stays", args[0])
		}
		return nil
	})
	return c
}

func (m *Main) mcpRestart() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "restart NAME", Short: "Stop an MCP server, read its entry again, and start it", Args: exactly(1, "NAME"), ValidArgsFunction: m.serverNames}
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		s, err := o.Restart(ctx, args[0], m.step(args[0]))
		if err != nil {
			return err
		}
		if asJSON {
			return m.printJSON(s)
		}
		m.tellStarted(s)
		return nil
	})
	return c
}

func (m *Main) mcpLogs() *cobra.Command {
	var opt operator.LogOptions
	c := &cobra.Command{Use: "logs NAME", Short: "Show what an MCP server printed, with times, its secrets masked", Args: exactly(1, "NAME"), ValidArgsFunction: m.serverNames}
	c.Flags().BoolVarP(&opt.Follow, "follow", "f", false, "go on until Ctrl-C")
	c.Flags().IntVar(&opt.Tail, "tail", 100, "how many of the last lines; -1 for all that is kept")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		return o.Logs(ctx, args[0], opt, m.Out)
	})
	return c
}

func (m *Main) mcpAdd() *cobra.Command {
	var s operator.Server
	var p operator.ProxyOptions
	var env []string
	var replace bool
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
	f.StringArrayVar(&env, "env", nil, "KEY=VALUE, may be repeated; what looks like a secret goes to the vault")
	f.BoolVar(&replace, "replace", false, "put this in the place of the server with that name")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		if p.Port < 1 || p.Port > 65535 {
			return usagef("--sse-port is a number from 1 to 65535, not %d", p.Port)
		}
		s.Name, s.Type, s.BaseImage, s.ProxyOptions = args[0], operator.Proxied, args[1], &p
		s.Env = m.pairs("env", env)
		if err := o.Add(ctx, s, replace); err != nil {
			return err
		}
		m.sayf("added %s · start it with: bobbin mcp start %s", s.Name, s.Name)
		return nil
	})
	return c
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
	var replace bool
	c := &cobra.Command{
		Use: "add-remote NAME URL", Short: "Add an MCP server that somebody else runs", Args: exactly(2, "NAME URL"),
		Example: "  bobbin mcp add-remote linear https://mcp.linear.example/mcp --header \"Authorization=Bearer …\"",
	}
	c.Flags().StringArrayVar(&headers, "header", nil, "KEY=VALUE, may be repeated; the value goes to the vault")
	c.Flags().BoolVar(&replace, "replace", false, "put this in the place of the server with that name")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		s := operator.Server{Name: args[0], Type: operator.Remote, URL: args[1], Headers: m.headerPairs(headers)}
		if err := o.Add(ctx, s, replace); err != nil {
			return err
		}
		m.sayf("added %s · attach it to a thread with: /mcp admin attach %s", s.Name, s.Name)
		return nil
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
		if all := append(slices.Clone(s.Sessions), threads...); len(all) > 0 {
			m.warnf("%s is in use by %s", args[0], strings.Join(all, ", "))
		}
		if err := o.Remove(ctx, args[0]); err != nil {
			return err
		}
		m.sayf("removed %s", args[0])
		return nil
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
