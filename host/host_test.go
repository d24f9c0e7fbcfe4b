package host_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"bobbin/bot"
	"bobbin/host"
	"bobbin/schemas"
)

var alice = schemas.Caller{Thread: "t1", Member: "alice", Name: "alice", Door: "embed", Role: schemas.Owner}

func TestRun_LeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	data := filepath.Join(t.TempDir(), "new", "data")
	for range 2 { // the second finds what the first kept
		h, err := host.Open(t.Context(), host.Options{Data: data, Sandbox: "off"})
		if err != nil {
			t.Fatal(err)
		}
		said := false
		err = h.Run(t.Context(), func(ctx context.Context) error {
			r := h.Bot.Handle(ctx, bot.Request{Caller: alice, Text: "/mcp list"})
			said = len(r.Blocks) > 0 && !r.Bad
			return nil
		})
		if err != nil || !said {
			t.Errorf("%v, answered %t", err, said)
		}
	}
}

func TestRun_EndsWithTheDoorOrTheContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	open := func() *host.Host {
		h, err := host.Open(t.Context(), host.Options{Data: t.TempDir(), Sandbox: "off"})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	broken := errors.New("the door is broken")
	if err := open().Run(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the door's error is lost: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := open().Run(ctx, func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
	if err != nil {
		t.Errorf("an end that was wished for is no failure: %v", err)
	}
}

func TestOpen_Refuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]host.Options{
		"a file in the folder's place": {Data: file},
		"an unknown sandbox":           {Data: t.TempDir(), Sandbox: "jail"},
		"containers":                   {Data: t.TempDir(), Sandbox: "docker"},
	} {
		_, err := host.Open(t.Context(), opt)
		if e, ok := errors.AsType[*schemas.Error](err); !ok || e.Text == "" || e.Hint == "" {
			t.Errorf("%s: no words: %v", name, err)
		}
	}
}
