package bot_test

import (
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

func TestStepLine(t *testing.T) {
	for want, s := range map[string]schemas.Step{
		"github.close · 310 ms · as you · receipt 7f3a": {Tool: "github.close", State: schemas.StepDone, Took: 310 * time.Millisecond, RunsAs: "alice", Receipt: "7f3a"},
		"github.close · under 1 ms · as @bob":           {Tool: "github.close", State: schemas.StepDone, Took: time.Microsecond, RunsAs: "bob"},
		"github.close · denied: it did not run (a manager can /mcp policy allow github.close) · receipt 7f3a": {Tool: "github.close", State: schemas.StepDenied,
			Why: "it did not run (a manager can `/mcp policy allow github.close`)", Took: time.Microsecond, RunsAs: "alice", Receipt: "7f3a"},
		"github.close · denied: was refused by a person; it did not run": {Tool: "github.close", State: schemas.StepDenied, Why: "github.close was refused by a person; it did not run"},
		"github.close · failed: the arguments are wrong: a is missing; b is missing": {Tool: "github.close", State: schemas.StepFailed, RunsAs: "alice",
			Why: "the arguments are wrong:\na is missing\nb is missing\n", Took: time.Microsecond},
		"nope · failed: there is no such tool": {Tool: "nope", State: schemas.StepFailed, Why: "there is no such tool", RunsAs: "alice"},
		"github.close · failed: it says no · under 1 ms · as you · receipt 7f3a": {Tool: "github.close", State: schemas.StepFailed, Why: "it says no",
			Took: time.Microsecond, RunsAs: "alice", Receipt: "7f3a"},
		`a\x60b · runs · as you`: {Tool: "a`b", State: schemas.StepRunning, RunsAs: "alice"},
	} {
		if got := bot.StepLine(s, "alice"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// The JSON of a question stands there where the lines above it do not show every argument exactly.
func TestAsk_JSON(t *testing.T) {
	for args, wants := range map[string]bool{
		`{}`:                                    false,
		`{"repo":"acme/site","number":42}`:      false,
		`{"a":true,"b":-1.5e3,"c":"x < y & z"}`: false,
		`{"number":"42"}`:                       true,
		`{"yes":"true"}`:                        true,
		`{"a":""}`:                              true,
		`{"a":null}`:                            true,
		`{"a":" b"}`:                            true,
		`{"a":"b  c"}`:                          true,
		`{"a":"b\nc"}`:                          true,
		`{"a":"b\u200bc"}`:                      true,
		`{"a":"b` + "`" + `c"}`:                 true,
		`{"a":[1,2]}`:                           true,
		`{"a":{"b":1}}`:                         true,
		`{"a":1,"a":1}`:                         true,
		`{"a":1,"a":2}`:                         true,
		`{"a` + "\u00a0" + `":1}`:               true,
		`[1]`:                                   true,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			mine, stop := w.bot.Subscribe(thread, "alice")
			defer stop()
			q := question()
			q.Args = json.RawMessage(args)
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = w.bot.Ask(t.Context(), q) })
			synctest.Wait()
			card := hear(t, mine)
			shows := false
			for _, b := range card.Reply.Blocks {
				shows = shows || b.Code != ""
			}
			if shows != wants {
				t.Errorf("%s: JSON shown: %v", args, shows)
			}
			w.press(alice(), card.Reply, "Deny")
			wg.Wait()
		})
	}
}

// Where the answer shows who is waited for, nothing else says so.
func TestAsk_Shown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mine, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		theirs, stop2 := w.bot.Subscribe(thread, "mallory")
		defer stop2()
		q := question()
		q.Shown = true
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = w.bot.Ask(t.Context(), q) })
		synctest.Wait()
		w.press(alice(), hear(t, mine).Reply, "Once")
		wg.Wait()
		select {
		case n := <-theirs:
			t.Errorf("mallory hears %s", flat(n.Reply))
		default:
		}
	})
}
