package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"bobbin/operator"
	"bobbin/schemas"
)

func (m *Main) sessionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "session", Short: "Threads, and drivers in containers, that use the operator's MCP servers", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	m.forPrograms(c)
	c.AddCommand(m.sessionCreate(), m.sessionList(), m.sessionStop(), m.sessionLogs(), m.sessionEnv())
	return c
}

// sessionNames completes the names of sessions.
func (m *Main) sessionNames(c *cobra.Command, args []string, _ string) (all []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	o, err := m.operator()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer o.Close() //nolint:errcheck // only a client of the engine
	sessions, err := o.Sessions(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, s := range sessions {
		all = append(all, s.Name)
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

func (m *Main) sessionCreate() *cobra.Command {
	var w operator.Wanted
	var driver string
	c := &cobra.Command{
		Use: "create [--image DRIVER] [flags] [-- COMMAND…]", Short: "Make a thread with MCP servers, or start a driver in a container beside them",
		Long: "Without --image the session is a thread to chat in, to which the servers are attached.\n" +
			"With --image a driver starts in a container, on a network of its own and on those of its servers. It finds them by the variables MCP_COUNT, MCP_0_URL and so on,\n" +
			"and by the file that MCP_CONFIG names. With --tty it waits for you: docker attach.",
		Example: "  bobbin session create --mcp github\n  bobbin session create --image goose --mcp github --mcp linear",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && c.ArgsLenAtDash() != 0 {
				return usagef("the command comes after --, as in: bobbin session create --image goose -- COMMAND ARGS…")
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&w.Name, "name", "", "what to call it; made up if it is left out")
	f.StringVar(&w.Image, "image", "", "image of the driver")
	f.StringVar(&driver, "driver", "", "the same as --image")
	f.StringArrayVar(&w.Servers, "mcp", nil, "an MCP server that it may use; may be repeated")
	f.BoolVar(&w.TTY, "tty", false, "the driver is used at a terminal")
	_ = c.RegisterFlagCompletionFunc("mcp", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return m.allServers(c), cobra.ShellCompDirectiveNoFileComp
	})
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		w.Image, w.Command = cmp.Or(w.Image, driver), args
		tell := func(step string) { _, _ = fmt.Fprintln(m.Err, step) }
		create := func() (operator.Session, error) { return o.Create(ctx, w, tell) }
		if w.Image == "" {
			create = func() (operator.Session, error) { return m.createThread(ctx, o, w, tell) }
		}
		s, err := create()
		for _, n := range s.Notes {
			m.warnf("%s", n)
		}
		switch {
		case err != nil:
			return err
		case m.JSON:
			return m.printJSON(s)
		}
		state := s.State
		if w.Image == "" {
			state = "a thread"
		}
		m.sayf("session %s is %s · MCP servers: %s", s.Name, state, cmp.Or(strings.Join(s.Servers, ", "), "none"))
		switch {
		case w.Image == "":
			m.sayf("bobbin chat --thread %s", s.Name)
		case w.TTY:
			m.sayf("docker attach %s", s.Container)
		}
		return nil
	})
	return c
}

func (m *Main) sessionList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List all sessions", Args: cobra.NoArgs}
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, _ []string) error {
		all, err := o.Sessions(ctx)
		if schemas.CodeOf(err) == schemas.CodeMissing { // without an engine there are threads alone
			all, err = []operator.Session{}, nil
		}
		if err != nil {
			return err
		}
		threads, err := m.threadSessions(ctx)
		all = append(all, threads...)
		switch {
		case err != nil:
			return err
		case m.JSON:
			return m.printJSON(all)
		case len(all) == 0:
			m.sayf("No sessions")
			return nil
		}
		w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "Name\tStatus\tImage\tMCP servers\tCreated")
		for _, s := range all {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Name, s.State, cmp.Or(s.Image, "-"), cmp.Or(strings.Join(s.Servers, ", "), "-"), s.Created.Format("2006-01-02 15:04:05 UTC"))
		}
		return w.Flush()
	})
	return c
}

func (m *Main) sessionStop() *cobra.Command {
	c := &cobra.Command{Use: "stop NAME", Short: "End a session: its container is removed, or its thread's servers are detached; MCP servers run on", Args: exactly(1, "NAME"), ValidArgsFunction: m.sessionNames}
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		was, err := m.endThread(ctx, args[0])
		switch {
		case err != nil:
			return err
		case was:
			return m.told(map[string]any{"name": args[0], "state": "thread", "mcps": []string{}}, "session %s has no MCP servers any more; the thread stays", args[0])
		}
		if err := o.StopSession(ctx, args[0]); err != nil {
			return err
		}
		return m.told(map[string]any{"name": args[0], "state": "stopped"}, "session %s is stopped", args[0])
	})
	return c
}

func (m *Main) sessionLogs() *cobra.Command {
	var opt operator.LogOptions
	c := &cobra.Command{Use: "logs NAME", Short: "Show what a session's driver printed", Args: exactly(1, "NAME"), ValidArgsFunction: m.sessionNames}
	c.Flags().BoolVarP(&opt.Follow, "follow", "f", false, "go on until Ctrl-C")
	c.Flags().IntVar(&opt.Tail, "tail", 100, "how many of the last lines; -1 for all that is kept")
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		return m.ofThread(ctx, args[0], o.SessionLogs(ctx, args[0], opt, m.lines()))
	})
	return c
}

// ofThread explains why there is no container of a session that is a thread.
func (m *Main) ofThread(ctx context.Context, name string, err error) error {
	if code := schemas.CodeOf(err); code != schemas.CodeNotFound && code != schemas.CodeMissing {
		return err
	}
	threads, e := m.threadSessions(ctx)
	if e == nil && slices.ContainsFunc(threads, func(s operator.Session) bool { return s.Name == name }) {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "session " + name + " is a thread, which has no container", Hint: "bobbin chat --thread " + name, Err: err}
	}
	return err
}

func (m *Main) sessionEnv() *cobra.Command {
	c := &cobra.Command{Use: "env NAME", Short: "Show the variables by which a session finds its MCP servers, credentials masked", Args: exactly(1, "NAME"), ValidArgsFunction: m.sessionNames}
	c.RunE = m.withOperator(func(ctx context.Context, o *operator.Operator, args []string) error {
		vars, err := o.SessionEnv(ctx, args[0])
		if err != nil {
			return m.ofThread(ctx, args[0], err)
		}
		shown := map[string]string{}
		for _, v := range vars {
			shown[v.Name] = v.Value.Reveal()
			if v.Secret {
				shown[v.Name] = "****"
			}
			if !m.JSON {
				m.sayf("%s=%s", v.Name, shown[v.Name])
			}
		}
		if m.JSON {
			return m.printJSON(shown)
		}
		return nil
	})
	return c
}

// frameCommand is what a session's container begins with: it takes the environment that it is handed, and becomes the driver.
func (m *Main) frameCommand() *cobra.Command {
	return &cobra.Command{
		Use: "frame SOCKET COMMAND…", Hidden: true, DisableFlagParsing: true, Args: cobra.MinimumNArgs(2),
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // a driver's environment is not bobbin's
		RunE: func(c *cobra.Command, args []string) error {
			env, err := operator.Frame(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := become(args[1:], env); err != nil {
				return &schemas.Error{Code: schemas.CodeMissing, Text: fmt.Sprintf("%q cannot be started: %v", args[1], err), Hint: "give the full path, or use an image that has it"}
			}
			return nil
		},
	}
}
