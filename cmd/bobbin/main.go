// Command bobbin lets the members of a chat thread bring their own MCP servers.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bobbin/host"
	"bobbin/internal/safehttp"
	"bobbin/observe"
	"bobbin/schemas"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := NewMain(os.Stdin, os.Stdout, os.Stderr).Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// Main is the program with its streams; the end-to-end tests run the same one.
type Main struct {
	In       io.Reader
	Out, Err io.Writer

	Data    string   // --data
	Sandbox string   // --sandbox
	Clients string   // --oauth-clients
	Allow   []string // --allow-internal

	LogFormat string // --log-format: text or json
	JSON      bool   // --json of mcp and session: one document for programs on Out, also for a failure

	containers containerFlags
	models     modelFlags
	origin     func() string     // where clients reach the gateway; nil: nowhere
	observer   *observe.Observer // nil: nothing is measured
}

// NewMain returns a program that talks over the three streams.
func NewMain(in io.Reader, out, err io.Writer) *Main { return &Main{In: in, Out: out, Err: err} }

// Run executes one command line and gives the exit code: 0 done, 1 failed, 2 the command line was wrong.
func (m *Main) Run(ctx context.Context, args []string) int {
	root := m.command()
	root.SetArgs(args)
	root.SetIn(m.In)
	root.SetOut(m.Out)
	root.SetErr(m.Err)
	c, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errQuiet):
		return 1
	}
	f := failureOf(err)
	if f.usage {
		f.Text, f.Hint = meant(root, f.Text), c.CommandPath()+" --help lists its flags"
		if c.HasAvailableSubCommands() {
			f.Hint = c.CommandPath() + " --help lists commands and flags"
		}
	}
	own, _, _ := strings.Cut(strings.Join(args, "\x00")+"\x00", "\x00--\x00") // a command line that is wrong was not read to its end
	m.fail(f, m.JSON || slices.Contains(strings.Split(own, "\x00"), "--json"))
	if f.usage {
		return 2
	}
	return 1
}

// failure is an error for people and programs.
type failure struct {
	Code schemas.Code `json:"code"`
	Text string       `json:"text"`
	Hint string       `json:"hint,omitempty"`

	usage bool
}

func failureOf(err error) failure {
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return failure{Code: e.Code, Text: e.Text, Hint: e.Hint}
	}
	if errors.Is(err, errUsage) || strings.HasPrefix(err.Error(), "unknown ") {
		return failure{Code: schemas.CodeInvalid, Text: strings.TrimPrefix(err.Error(), errUsage.Error()+": "), usage: true}
	}
	if errors.Is(err, context.Canceled) {
		return failure{Code: schemas.CodeFailed, Text: "stopped"}
	}
	return failure{Code: schemas.CodeFailed, Text: err.Error()}
}

// fail tells a failure: programs as a document of its own, where the answer would have been.
func (m *Main) fail(f failure, asJSON bool) {
	if asJSON {
		_ = m.printJSON(map[string]failure{"error": f}) // there is nowhere to tell that it cannot be told
		return
	}
	text := "bobbin: " + f.Text + "\n"
	if f.Hint != "" {
		text += "hint: " + f.Hint + "\n"
	}
	_, _ = io.WriteString(m.Err, text)
}

// meant says what a wrong word may have been meant to be.
func meant(root *cobra.Command, text string) string {
	var word, of string
	if _, err := fmt.Sscanf(text, "unknown command %q for %q", &word, &of); err != nil {
		return text
	}
	c, _, err := root.Find(strings.Fields(of)[1:])
	if err != nil || !c.HasAvailableSubCommands() {
		return of + " takes no word " + strconv.Quote(word)
	}
	c.SuggestionsMinimumDistance = 2
	text = fmt.Sprintf("unknown command %q", strings.TrimPrefix(of+" ", root.Name()+" ")+word)
	if likely := c.SuggestionsFor(word); len(likely) > 0 {
		text += "; did you mean " + of + " " + likely[0] + "?"
	}
	return text
}

// unknownFlag is meant for flags.
func unknownFlag(c *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if n := schemas.Nearest(name, known); ok && n != "" {
		return usagef("%v; did you mean --%s?", err, n)
	}
	text := err.Error()
	if strings.HasPrefix(text, "invalid argument") { // behind it stands how Go would say why
		text, _, _ = strings.Cut(text, ": ")
	}
	return usagef("%s", text)
}

// errUsage marks a wrong command line; errQuiet says that the words were already printed.
var (
	errUsage = errors.New("usage")
	errQuiet = errors.New("said already")
)

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

func (m *Main) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "bobbin",
		Version:       version, // bobbin --version
		Short:         "Members of a chat thread bring their own MCP servers",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := fromEnvironment(c.Flags()); err != nil {
				return err
			}
			return checkLogFormat(m.LogFormat)
		},
	}
	root.SetVersionTemplate("bobbin {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&m.Data, "data", "./data", "folder for everything that bobbin keeps (BOBBIN_DATA)")
	f.StringVar(&m.Sandbox, "sandbox", "auto", "where local servers run: auto, docker, process or off (BOBBIN_SANDBOX)")
	f.StringVar(&m.Clients, "oauth-clients", "", "file of applications registered at authorization servers, by issuer (BOBBIN_OAUTH_CLIENTS)")
	f.StringSliceVar(&m.Allow, "allow-internal", nil, "host, origin or prefix of a private network that connectors may reach; may be repeated (BOBBIN_ALLOW_INTERNAL)")
	f.StringVar(&m.LogFormat, "log-format", "text", "how log lines are written: text or json (BOBBIN_LOG_FORMAT)")
	m.containers.add(f)
	m.models.add(f)
	root.SetFlagErrorFunc(unknownFlag)
	briefly(root)
	root.AddCommand(m.serveCommand(), m.chatCommand(), m.discordCommand(), m.gatewayCommand(), m.mcpCommand(), m.sessionCommand(), m.frameCommand(), m.proxyCommand(), m.sandboxCommand(), m.auditCommand(), m.doctorCommand(), m.schemaCommand(), m.versionCommand())
	return root
}

// wires marks a command that opens everything: its help shows the flags of all commands.
func wires() map[string]string { return map[string]string{"wires": "everything"} }

// briefly keeps the flags of all commands out of the help of those that only some of them concern.
func briefly(root *cobra.Command) {
	root.SetUsageTemplate(root.UsageTemplate() + "{{if and .HasParent (not .Annotations)}}\nbobbin --help lists the flags of all commands, such as --data.\n{{end}}")
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = c != root && c.Annotations == nil })
		help(c, args)
	})
}

// open wires the rooms on the data folder.
func (m *Main) open(ctx context.Context, log *slog.Logger, connect host.Connect) (*host.Host, error) {
	if !slices.Contains([]string{"auto", "docker", "process", "off"}, m.Sandbox) {
		return nil, usagef("--sandbox is auto, docker, process or off, not %q", m.Sandbox)
	}
	allow, err := safehttp.ParseAllow(m.Allow)
	if wrong, ok := errors.AsType[*safehttp.URLError](err); ok {
		return nil, usagef("--allow-internal: %s; %s", wrong.Problem, wrong.Hint)
	}
	if connect.Clients, err = m.clients(safehttp.Rules{Loopback: true, Allow: allow}); err != nil {
		return nil, err
	}
	boxes, err := m.containers.container()
	if err != nil {
		return nil, err
	}
	who, err := m.models.assistant()
	if err != nil {
		return nil, err
	}
	return host.Open(ctx, host.Options{Allow: allow, Container: boxes, Assistant: who, Observe: m.observer, Gateway: m.gatewayOptions(), Data: m.Data, Sandbox: m.Sandbox, Version: version, Log: log, Loopback: true, Connect: connect})
}

// checkUser judges the --user of chat and serve.
func checkUser(user string) error {
	if !schemas.MemberID(user).Valid() {
		return usagef("--user %q is no user name: letters, digits, - and _, at most 64, beginning with a letter or digit", user)
	}
	return nil
}

// fromEnvironment fills every flag that was not given from BOBBIN_<NAME>.
func fromEnvironment(flags *pflag.FlagSet) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "BOBBIN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v, ok := os.LookupEnv(name)
		if !ok || f.Changed || err != nil || f.Name == "help" || f.Name == "version" {
			return
		}
		if e := flags.Set(f.Name, v); e != nil {
			err = usagef("%s: %v", name, e)
		}
	})
	return err
}

func (m *Main) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(m.Out, "bobbin", version)
			return err
		},
	}
}
