package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"bobbin/bot/terminal"
	"bobbin/host"
	"bobbin/schemas"
)

func (m *Main) chatCommand() *cobra.Command {
	var thread, user string
	c := &cobra.Command{
		Use: "chat", Annotations: wires(), Short: "Talk to bobbin in this terminal, or on a pipe", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			caller := schemas.Caller{Thread: schemas.ThreadID(thread), Member: schemas.MemberID(user), Name: user, Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
			if !caller.Thread.Valid() {
				return usagef("--thread %q is no thread id: letters, digits, - and _, at most 64, beginning with a letter or digit", thread)
			}
			if err := checkUser(user); err != nil {
				return err
			}
			return m.chat(c.Context(), caller)
		},
	}
	c.Flags().StringVar(&thread, "thread", "terminal-default", "thread to talk in (BOBBIN_THREAD)")
	c.Flags().StringVar(&user, "user", "operator", "who you are in it (BOBBIN_USER)")
	return c
}

func (m *Main) chat(ctx context.Context, caller schemas.Caller) error {
	logFile, err := m.logFile()
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()
	back := newCallbackPage()
	h, err := m.open(ctx, m.logger(logFile), host.Connect{Local: back.Open})
	if err != nil {
		return err
	}
	in, screen := m.In.(*os.File)
	screen = screen && term.IsTerminal(int(in.Fd()))
	opt := terminal.Options{Bot: h.Bot, Notices: h.Bot, Caller: caller, In: m.In, Out: m.Out, Echo: !screen}
	if out, ok := m.Out.(*os.File); ok && term.IsTerminal(int(out.Fd())) {
		opt.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		opt.Width, _, _ = term.GetSize(int(out.Fd()))
	}
	if screen {
		// Ctrl-C at a screen ends what is under way, not bobbin; at the prompt the line editor reads it as the end.
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, os.Interrupt)
		defer signal.Stop(stop)
		opt.Stop = stop
		var end context.CancelFunc
		ctx, end = signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
		defer end()
	}
	return h.Run(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		var pages errgroup.Group
		pages.Go(func() error { return back.Run(ctx, h.SignIns.Handler()) })
		err := terminal.New(opt).Run(ctx)
		cancel()
		if e := pages.Wait(); e != nil && !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
		return err
	})
}

// logFile keeps the operator's log of a conversation out of the conversation.
func (m *Main) logFile() (io.WriteCloser, error) {
	if err := os.MkdirAll(m.Data, 0o700); err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "the data folder " + m.Data + " cannot be made", Hint: "name another one with --data", Err: err}
	}
	return os.OpenFile(filepath.Join(m.Data, "bobbin.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
