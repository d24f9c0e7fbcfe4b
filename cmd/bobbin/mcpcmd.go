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
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

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
	m.forPrograms(c)
	c.AddCommand(m.mcpList(), m.mcpStatus(), m.mcpStart(), m.mcpStop(), m.mcpRestart(), m.mcpUpgrade(), m.mcpLogs(), m.mcpAdd(), m.mcpAddRemote(), m.mcpRemove(), m.inspectorCommand())
	return c
}

func (m *Main) forPrograms(c *cobra.Command) {
	c.PersistentFlags().BoolVar(&m.JSON, "json", false, "print one JSON document, for programs; a failure has \"error\" in it")
}

func (m *Main) printJSON(v any) error { return writeJSONTo(m.Out, v) }

func writeJSONTo(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// told tells what was done, to a person or a program.
func (m *Main) told(doc any, format string, args ...any) error {
	if m.JSON {
		return m.printJSON(doc)
	}
	m.sayf(format, args...)
	return nil
}

func (m *Main) sayf(format string, args ...any) { _, _ = fmt.Fprintf(m.Out, format+"\n", args...) }

func (m *Main) warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(m.Err, "Warning: "+format+"\n", args...)
}

func (m *Main) mcpList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List all MCP servers and how they are", Args: cobra.NoArgs}
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
		case m.JSON:
			return m.printJSON(all)
		case len(all) == 0:
			m.sayf("No MCP servers configured")
			return nil
		}
		w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "Name\tType\tStatus\tPorts\tDetails")
		for _, s := range all {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Name, s.Type, s.State, cmp.Or(strings.Join(s.Ports, ", "), "-"), details(s))
		}
		return w.Flush()
	})
	return c
}

// details is the most important of a server in a list.
func details(s operator.Status) string {
	text := cmp.Or(s.Why, s.Image, s.URL)
	if s.Stale {
		text += " · its definition has changed since it was started"
	}
	return text
}

func (m *Main) mcpStatus() *cobra.Command {
	c := &cobra.Command{Use: "status NAME", Short: "Show one MCP server in detail", Args: exactly(1, "NAME"), ValidArgsFunction: m.serverNames}
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		s, err := o.Status(ctx, args[0])
		switch {
		case err != nil:
			return err
		case m.JSON:
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
	if s.PID > 0 {
		row("PID", fmt.Sprint(s.PID))
	}
	for _, r := range s.Replicas {
		row("Replica", replicaLine(r))
	}
	row("Network", s.Network)
	row("URL", s.URL)
	switch {
	case s.Effective != "":
		row("Bind", s.Configured+" in the container; "+s.Effective+" on this machine")
	case s.Configured != "":
		row("Bind", s.Configured+" in the container")
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

// replicaLine tells about one of several.
func replicaLine(r operator.Replica) string {
	parts := []string{r.Container, r.State}
	if r.PID > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", r.PID))
	}
	for _, more := range []string{r.ID, r.Effective, r.Why} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	return strings.Join(parts, " · ")
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

// tellStarted tells about a server that was started.
func (m *Main) tellStarted(s operator.Status) error {
	tools := ""
	if s.Proxy == "bobbin" {
		tools = fmt.Sprintf(" · %d tools", s.Tools)
	}
	if s.Socket {
		m.warnf("%s has the engine's socket, by which its proxy image is root on this machine", s.Name)
	}
	if s.Type == operator.Remote {
		return m.told(s, "%s is remote: no action needed", s.Name)
	}
	if n := len(s.Replicas); n > 1 {
		tools += fmt.Sprintf(" · %d replicas", n)
	}
	return m.told(s, "%s is %s%s · %s", s.Name, s.State, tools, cmp.Or(s.Effective, s.URL))
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
	var all bool
	c := &cobra.Command{Use: "start NAME|--all", Short: "Start an MCP server; one that runs as it is written is left alone", Args: nameOrAll(&all), ValidArgsFunction: m.serverNames}
	c.Flags().BoolVar(&all, "all", false, "every server")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		if all {
			return m.startAll(ctx, o)
		}
		s, err := o.Start(ctx, args[0], m.step(args[0]))
		if err != nil {
			return err
		}
		return m.tellStarted(s)
	})
	return c
}

// sideBySide is how many servers are started or stopped at a time.
const sideBySide = 4

// result is what became of one server of many.
type result struct {
	Name  string   `json:"name"`
	Done  string   `json:"done"` // started, stopped, remote or failed
	Error *failure `json:"error,omitempty"`
}

func (m *Main) startAll(ctx context.Context, o *operator.Operator) error {
	return m.forAll(ctx, o, "started", func(m *Main, name string) error {
		s, err := o.Start(ctx, name, m.step(name))
		if err == nil && !m.JSON {
			return m.tellStarted(s)
		}
		return err
	})
}

// forAll goes on after an error, and ends with a summary.
func (m *Main) forAll(ctx context.Context, o *operator.Operator, done string, do func(m *Main, name string) error) error {
	f, err := o.Load(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	own := *m
	own.Out, own.Err = oneByOne{&mu, m.Out}, oneByOne{&mu, m.Err}
	results := make([]result, len(f.Servers))
	var g errgroup.Group
	g.SetLimit(sideBySide)
	for i, s := range f.Servers {
		g.Go(func() error {
			results[i] = result{Name: s.Name, Done: done}
			err := do(&own, s.Name)
			switch {
			case err != nil:
				f := failureOf(err)
				results[i].Done, results[i].Error = "failed", &f
				if !m.JSON {
					f.Text = s.Name + ": " + strings.TrimPrefix(f.Text, s.Name+": ")
					own.fail(f, false)
				}
			case s.Type == operator.Remote:
				results[i].Done = "remote"
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	count := map[string]int{}
	for _, r := range results {
		count[r.Done]++
	}
	if m.JSON {
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

// oneByOne is a writer that several may use.
type oneByOne struct {
	mu  *sync.Mutex
	out io.Writer
}

func (w oneByOne) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}

func (m *Main) mcpStop() *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "stop NAME|--all", Short: "Stop an MCP server and remove its container; its entry stays", Args: nameOrAll(&all), ValidArgsFunction: m.serverNames}
	c.Flags().BoolVar(&all, "all", false, "every server")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		if all {
			return m.forAll(ctx, o, "stopped", func(_ *Main, name string) error { return o.Stop(ctx, name) })
		}
		if err := o.Stop(ctx, args[0]); err != nil {
			return err
		}
		s, err := o.Status(ctx, args[0])
		switch {
		case err != nil:
			return err
		case s.Type == operator.Remote:
			return m.told(s, "%s is remote: no action needed", args[0])
		}
		return m.told(s, "%s is stopped; its entry stays", args[0])
	})
	return c
}

func (m *Main) mcpRestart() *cobra.Command {
	c := &cobra.Command{Use: "restart NAME", Short: "Stop an MCP server, read its entry again, and start it", Args: exactly(1, "NAME"), ValidArgsFunction: m.serverNames}
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		s, err := o.Restart(ctx, args[0], m.step(args[0]))
		if err != nil {
			return err
		}
		return m.tellStarted(s)
	})
	return c
}

func (m *Main) mcpLogs() *cobra.Command {
	var opt operator.LogOptions
	c := &cobra.Command{Use: "logs NAME", Short: "Show what an MCP server printed, with times, its secrets masked", Args: exactly(1, "NAME"), ValidArgsFunction: m.serverNames}
	c.Flags().BoolVarP(&opt.Follow, "follow", "f", false, "go on until Ctrl-C")
	c.Flags().IntVar(&opt.Replica, "replica", 1, "which one of a server that runs several times")
	c.Flags().IntVar(&opt.Tail, "tail", 100, "how many of the last lines; -1 for all that is kept")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		return o.Logs(ctx, args[0], opt, m.lines())
	})
	return c
}

// lines is where the lines of a log go. For programs each is a document.
func (m *Main) lines() io.Writer {
	if m.JSON {
		return jsonLines{m.Out}
	}
	return m.Out
}

type jsonLines struct{ out io.Writer }

// Write takes a line, which begins with its time.
func (l jsonLines) Write(line []byte) (int, error) {
	at, text, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	e := json.NewEncoder(l.out)
	e.SetEscapeHTML(false)
	return len(line), e.Encode(struct {
		At   string `json:"at"`
		Text string `json:"text"`
	}{at, text})
}
