package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bobbin/bot"
	"bobbin/bot/terminal"
	"bobbin/schemas"
)

// pty gives both ends of a terminal: what a person types into, and what the program reads.
func pty(t *testing.T) (keys, in *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if in, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return keys, in
}

// Ctrl-C at a question refuses it, stops what asked, and leaves the conversation open; at the prompt it leaves what was typed, and ends
// the conversation where nothing was.
func TestCtrlC_AtAQuestion(t *testing.T) {
	keys, in := pty(t)
	s, out := &script{}, &screen{}
	answered, cause := make(chan *bot.Action, 1), make(chan error, 1)
	s.wait = func(ctx context.Context) {
		switch r := s.asked[len(s.asked)-1]; {
		case r.Action != nil:
			answered <- r.Action
		case r.Text == "go":
			q := say("asks to use github.close")
			q.ID, q.Choices, q.Expires = "nonce", []bot.Choice{{Key: "once", Label: "Once"}, {Key: "deny", Label: "Deny"}}, time.Now().Add(time.Minute)
			s.notices <- bot.Notice{Thread: "t1", To: "alice", Reply: q}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
			cause <- context.Cause(ctx)
		}
	}
	s.answer = func(r bot.Request) bot.Reply { return say("heard " + r.Text) }
	done := make(chan error, 1)
	go func() {
		done <- terminal.New(terminal.Options{Bot: s, Notices: s, In: in, Out: out, Caller: schemas.Caller{Thread: "t1", Member: "alice"}}).Run(t.Context())
	}()
	press := func(s string) {
		t.Helper()
		if _, err := io.WriteString(keys, s); err != nil {
			t.Fatal(err)
		}
	}
	out.until(t, "welcome")
	press("go\r")
	out.until(t, "2) Deny")
	press("huh\r")
	out.until(t, "that is none of these")
	press("on\x03")
	if a := <-answered; a.Choice != "deny" {
		t.Errorf("answered %+v", a)
	}
	if err := <-cause; !errors.Is(err, bot.ErrStopped) {
		t.Errorf("the answer ended with %v", err)
	}
	press("still here\r")
	out.until(t, "heard still here")
	press("half a line\x03/mcp add-json {\r")
	out.until(t, "…")
	press("\"a\"\x03")
	press("and on\r")
	out.until(t, "heard and on")
	if n := len(s.asked); n != 4 {
		t.Errorf("%d messages: %+v", n, s.asked)
	}
	press("\x03")
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
	}
}
