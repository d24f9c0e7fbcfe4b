package terminal_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/bot/terminal"
)

// Ctrl-C reaches a door that waits for a line which never comes.
func TestRun_EndsWithItsContext(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{answer: func(bot.Request) bot.Reply { return say("hello") }}
	ended := make(chan error, 1)
	go func() {
		ended <- terminal.New(terminal.Options{Bot: s, Notices: s, In: in, Out: &bytes.Buffer{}, Echo: true}).Run(ctx)
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

func TestExpires_LongOnesInHours(t *testing.T) {
	s := &script{answer: func(bot.Request) bot.Reply {
		r := card()
		r.Expires = time.Now().Add(24 * time.Hour)
		return r
	}}
	if out := talk(t, s, terminal.Options{}, "hello"); !strings.Contains(out, "expires in 24 h") {
		t.Error(out)
	}
}

// A Ctrl-C that came when nothing was under way any more does not end what is asked next.
func TestStop_NotTheNextOne(t *testing.T) {
	stop := make(chan os.Signal, 1)
	stop <- os.Interrupt
	s := &script{}
	s.wait = func(ctx context.Context) {
		select {
		case <-ctx.Done():
			t.Error("stopped before it began")
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.answer = func(bot.Request) bot.Reply { return say("answered") }
	talk(t, s, terminal.Options{Stop: stop}, "hello")
}
