package bot_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// boxes is the members' sandboxes.
type boxes struct {
	ran     []schemas.Exec
	result  schemas.Executed
	stopped []schemas.MemberID
	removed []schemas.MemberID
}

func (b *boxes) Exec(_ context.Context, x schemas.Exec) (schemas.Executed, error) {
	b.ran = append(b.ran, x)
	return b.result, nil
}

func (b *boxes) Status(context.Context, schemas.MemberID) (schemas.Box, error) {
	return schemas.Box{State: "running", ID: "0123456789ab", Image: "bobbin-sandbox", Locks: []string{"all capabilities are dropped", "no network"}, Missing: []string{"the disk has no limit here"}}, nil
}

func (b *boxes) Stop(_ context.Context, m schemas.MemberID) error {
	b.stopped = append(b.stopped, m)
	return nil
}

func (b *boxes) Remove(_ context.Context, m schemas.MemberID) error {
	b.removed = append(b.removed, m)
	return nil
}

func TestSandbox_ClosedUntilAManagerOpensIt(t *testing.T) {
	x := &boxes{result: schemas.Executed{Stdout: "uid=10001\n"}}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, func(o *bot.Options) { o.Sandboxes, o.Now = x, func() time.Time { return now } })
	closed := w.say(alice(), "/mcp sandbox exec id")
	wantCode(t, closed, schemas.CodeDenied)
	want(t, closed, "SHELL_PERMISSION_DENIED", "a manager can")
	wantCode(t, w.say(alice(), "/mcp sandbox grant"), schemas.CodeDenied)
	if len(x.ran) != 0 {
		t.Fatal("it ran")
	}
	want(t, w.say(boss(), "/mcp sandbox grant "+string(alice().Member)+" 30m"), "can run commands in their own sandbox until 12:30 UTC")
	want(t, w.say(alice(), "/mcp sandbox exec id && pwd"), "exit 0", "uid=10001")
	if got := x.ran[0]; strings.Join(got.Args, "|") != "/bin/sh|-c|id && pwd" || got.Member != alice().Member || got.Install {
		t.Errorf("%+v", got)
	}
	want(t, w.say(alice(), "/mcp sandbox status"), "your sandbox runs", "all capabilities are dropped", "shell: open until 12:30 UTC", "the disk has no limit here")
	wantCode(t, w.say(mallory(), "/mcp sandbox exec id"), schemas.CodeDenied)
	now = now.Add(31 * time.Minute)
	wantCode(t, w.say(alice(), "/mcp sandbox exec id"), schemas.CodeDenied)
	want(t, w.say(boss(), "/mcp sandbox grant "+string(alice().Member)), "until 13:31 UTC")
	want(t, w.say(alice(), "/mcp sandbox revoke"), "are closed to")
	wantCode(t, w.say(alice(), "/mcp sandbox exec id"), schemas.CodeDenied)
	for _, bad := range []string{"5s", "1000h", "soon"} {
		wantCode(t, w.say(boss(), "/mcp sandbox grant me "+bad), schemas.CodeInvalid)
	}
	if len(x.ran) != 1 {
		t.Errorf("%d commands ran", len(x.ran))
	}
}

func TestSandbox_LongOutputIsAFile(t *testing.T) {
	x := &boxes{result: schemas.Executed{Code: 3, Stdout: strings.Repeat("x", 5000), Stderr: "bad", Cut: true}}
	w := newWorld(t, func(o *bot.Options) { o.Sandboxes = x })
	w.say(boss(), "/mcp sandbox grant")
	r := w.say(boss(), "/mcp sandbox exec ls")
	want(t, r, "exit 3", "stdout, 4.9 KiB", "bad", "more was printed")
	if !r.Private {
		t.Error("everybody sees it")
	}
	want(t, w.say(boss(), "/mcp sandbox stop"), "/workspace is kept")
	if len(x.stopped) != 1 || x.stopped[0] != boss().Member {
		t.Errorf("%v", x.stopped)
	}
}

func TestSandbox_RemovedAfterAYes(t *testing.T) {
	x := &boxes{}
	w := newWorld(t, func(o *bot.Options) { o.Sandboxes = x })
	wantCode(t, w.say(alice(), "/mcp sandbox stop everything"), schemas.CodeInvalid)
	card := w.say(alice(), "/mcp sandbox stop remove")
	want(t, card, "with everything in /workspace", "yours in every thread")
	wantCode(t, w.press(boss(), card, "Confirm"), schemas.CodeDenied)
	want(t, w.press(alice(), card, "Cancel"), "nothing was changed")
	if len(x.removed)+len(x.stopped) != 0 {
		t.Fatalf("%+v", x)
	}
	want(t, w.press(alice(), w.say(alice(), "/mcp sandbox stop remove"), "Confirm"), "is removed")
	if len(x.removed) != 1 || x.removed[0] != alice().Member {
		t.Errorf("%v", x.removed)
	}
}

func TestSandbox_NoneHere(t *testing.T) {
	w := newWorld(t)
	for _, verb := range []string{"status", "exec ls", "stop"} {
		wantCode(t, w.say(alice(), "/mcp sandbox "+verb), schemas.CodeMissing)
	}
}
