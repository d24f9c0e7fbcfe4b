package terminal_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/bot/terminal"
	"bobbin/schemas"
)

// quiet is a bot that has nothing to say.
type quiet struct{}

func (quiet) Handle(context.Context, bot.Request) bot.Reply             { return bot.Reply{} }
func (quiet) Welcome(context.Context, schemas.Caller) bot.Reply         { return bot.Reply{} }
func (quiet) Complete(context.Context, schemas.Caller, string) []string { return nil }
func (quiet) Subscribe(schemas.ThreadID, schemas.MemberID) (<-chan bot.Notice, func()) {
	notices := make(chan bot.Notice)
	return notices, func() { close(notices) }
}

// Ctrl-C reaches a door that waits for a line which never comes.
func TestRunEndsWithItsContext(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- terminal.New(terminal.Options{Bot: quiet{}, Notices: quiet{}, In: in, Out: &bytes.Buffer{}, Echo: true}).Run(ctx)
	}()
	if _, err := out.Write([]byte("hello\n")); err != nil { // it is reading
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run = %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Run still waits for a line")
	}
}
