package bot_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bobbin/schemas"
)

func upgradable(t *testing.T) (*world, *store) {
	t.Helper()
	w, s := newStore(t)
	w.press(alice(), w.say(alice(), "/mcp install npm weather"), "Confirm")
	s.left("weather", "weather")
	s.version = "1.1.0"
	return w, s
}

func TestUpgrade_OldOneGoesLast(t *testing.T) {
	w, s := upgradable(t)
	card := w.say(alice(), "/mcp install upgrade weather next")
	want(t, card, "1 changed: weather", "version: 1.0.0 → 1.1.0", "new env: NEW_KEY", "new scripts: postinstall: node x.js", "runs: /usr/bin/node /workspace/external-mcp/weather-2/index.js")
	if s.upgraded[0] != "next" {
		t.Error(s.upgraded)
	}
	wantCode(t, w.press(mallory(), card, "Confirm"), schemas.CodeDenied)
	s.install = func(context.Context, func(string)) error { s.left("weather", "weather"); return nil }
	want(t, w.press(alice(), card, "Confirm"), "weather is upgraded from 1.0.0 to 1.1.0", "weather is ready")
	s.left("weather-2", "weather")
	if e, _ := w.cfg.Find("weather"); e.Cwd != "/workspace/external-mcp/weather-2" || e.Pending() || e.Owner != "alice" {
		t.Errorf("%+v", e)
	}
	s.version = "1.0.0"
	want(t, w.say(alice(), "/mcp install upgrade weather"), "weather is up to date")
}

func TestUpgrade_FailingLeavesTheOldOne(t *testing.T) {
	npm := &schemas.Error{Code: schemas.CodeFailed, Text: "npm ended with exit code 1"}
	for name, c := range map[string]struct {
		set  func(*world, *store)
		want []string
	}{
		"npm says no": {func(_ *world, s *store) { s.err["Install"] = npm }, []string{"exit code 1", "weather stays at 1.0.0", "added 2 packages"}},
		"not stored":  {func(w *world, _ *store) { w.failWith["Commit"] = errors.New("disk full") }, []string{"weather stays at 1.0.0"}},
		"does not start": {func(w *world, _ *store) {
			w.state["weather"] = schemas.Status{State: schemas.Failed, Why: "exited with 1: no such module"}
		}, []string{"weather 1.1.0 did not start: exited with 1: no such module", "1.0.0 is back, and the new one removed", "added 2 packages"}},
		"never ready": {func(w *world, _ *store) { w.state["weather"] = schemas.Status{State: schemas.Starting} }, []string{"it was still starting after 35 s", "1.0.0 is back"}},
		"unknown":     {func(w *world, _ *store) { w.failWith["Status"] = errors.New("no") }, []string{"how it is could not be seen", "1.0.0 is back"}},
		"changed meanwhile": {func(w *world, s *store) {
			s.install = func(context.Context, func(string)) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.cfg.Entries[0].Args = append(w.cfg.Entries[0].Args, "-v")
				w.bump()
				return nil
			}
		}, []string{"would be another server now than the card showed", "weather stays at 1.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := upgradable(t)
				card := w.say(alice(), "/mcp install upgrade weather")
				c.set(w, s)
				r := w.press(alice(), card, "Confirm")
				want(t, r, c.want...)
				if !r.Bad {
					t.Error("it sounds well")
				}
				s.left("weather", "weather")
				if e, _ := w.cfg.Find("weather"); e.Cwd != "/workspace/external-mcp/weather" {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// Another hand may have started it already, so that bringing the config in line waits for nothing.
func TestUpgrade_WaitsWhileItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := upgradable(t)
		card := w.say(alice(), "/mcp install upgrade weather")
		s.install = func(context.Context, func(string)) error {
			w.state["weather"] = schemas.Status{State: schemas.Starting}
			return nil
		}
		time.AfterFunc(20*time.Second, func() { w.mu.Lock(); defer w.mu.Unlock(); delete(w.state, "weather") })
		want(t, w.press(alice(), card, "Confirm"), "weather is ready")
		s.left("weather-2", "weather")
	})
}

func TestUpgrade_Refused(t *testing.T) {
	w, s := upgradable(t)
	w.have("alice", schemas.Server{Name: "plain", Command: "x"})
	want(t, w.say(alice(), "/mcp install upgrade plain"), "plain was not installed with /mcp install")
	wantCode(t, w.say(mallory(), "/mcp install upgrade weather"), schemas.CodeDenied)
	wantCode(t, w.say(guest(), "/mcp install upgrade weather"), schemas.CodeDenied)
	wantCode(t, w.say(alice(), "/mcp install upgrade nope"), schemas.CodeNotFound)
	w.cfg.Entries[0].Approval = nil
	wantCode(t, w.say(alice(), "/mcp install upgrade weather"), schemas.CodePending)
	if len(s.upgraded) != 0 {
		t.Error(s.upgraded)
	}
}
