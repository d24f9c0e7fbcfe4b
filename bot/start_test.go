package bot_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// atDoor is a caller at another door.
func atDoor(c schemas.Caller, d schemas.Door) schemas.Caller {
	c.Door = d
	return c
}

func TestConfirm_SlowServer(t *testing.T) {
	const two = `{"mcpServers":{"fast":{"command":"f"},"weather":{"command":"w"}}}`
	for name, c := range map[string]struct {
		door  schemas.Door
		run   bool
		slow  time.Duration
		reply time.Duration
		words []string
		later string
	}{
		"settled at once":      {schemas.DoorWeb, true, time.Second, time.Second, []string{"fast is ready", "weather is ready"}, ""},
		"slow":                 {schemas.DoorWeb, true, 12 * time.Second, 5 * time.Second, []string{"fast is ready", "weather is still starting; I tell you when it is ready"}, "weather is ready"},
		"a script waits":       {schemas.DoorTerminal, true, 12 * time.Second, 12 * time.Second, []string{"fast is ready", "weather is ready"}, ""},
		"mute":                 {schemas.DoorWeb, true, time.Hour, 5 * time.Second, []string{"I tell you"}, "weather is still starting; /mcp list"},
		"nobody could be told": {schemas.DoorWeb, false, 12 * time.Second, 12 * time.Second, []string{"weather is ready"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.slow = c.slow
				ctx, end := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				if c.run {
					wg.Go(func() { _ = w.bot.Run(ctx) })
				}
				synctest.Wait()
				ch, stop := w.bot.Subscribe(thread, "alice")
				defer stop()
				who := atDoor(alice(), c.door)
				card := w.say(who, "/mcp add-json "+two)
				w.state["weather"] = schemas.Status{State: schemas.Starting}
				began := time.Now()
				r := w.press(who, card, "Confirm")
				if took := time.Since(began); took != c.reply {
					t.Errorf("the reply took %v", took)
				}
				want(t, r, c.words...)
				time.Sleep(time.Minute)
				synctest.Wait()
				var said []bot.Notice
				for len(ch) > 0 {
					if n := <-ch; len(n.Reply.Blocks) > 0 {
						said = append(said, n)
					}
				}
				switch {
				case c.later == "" && len(said) != 0:
					t.Errorf("told twice: %s", flat(said[0].Reply))
				case c.later != "" && len(said) != 1:
					t.Errorf("%d notices", len(said))
				case c.later != "":
					want(t, said[0].Reply, c.later)
					wantNot(t, said[0].Reply, "fast")
				}
				end()
				wg.Wait()
			})
		})
	}
}

func TestStarting_SaysWhatItPrinted(t *testing.T) {
	w := issues(t)
	w.state["github"] = schemas.Status{State: schemas.Starting, Why: "has printed, but nothing that is MCP: listening on port 1"}
	want(t, w.say(alice(), "/mcp doctor github"), "github is still starting: has printed, but nothing that is MCP: listening on port 1", "next: if it stays so, see that this command starts an MCP server")
	want(t, w.say(alice(), "/mcp list"), "starting |  | yours | has printed, but nothing that is MCP: listening on port 1 · /mcp doctor github")
}

func TestStray_NothingWaits(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{"Confirm", "1", "2)", "Cancel", "always here", "yes"} {
		r := w.say(alice(), text)
		want(t, r, "nothing waits for an answer here · /mcp list")
		wantCode(t, r, schemas.CodeExpired)
	}
	for _, text := range []string{"0", "1234", "confirm the order for me", "1 more"} {
		want(t, w.say(alice(), text), "No model is set")
	}
	w.say(alice(), "/mcp add-json "+github())
	want(t, w.say(alice(), "7"), "that is no choice of an open card")
	want(t, w.say(mallory(), "Confirm"), "nothing waits for an answer here")
	w.now = w.now.Add(time.Hour)
	want(t, w.say(alice(), "Confirm"), "nothing waits for an answer here")
}
