package bot_test

import (
	"testing"

	"bobbin/bot"
	"bobbin/schemas"
)

// After words of a server everything that does something asks, and the card says whose words they were; a believed server's do not count.
func TestOwn_Wary(t *testing.T) {
	box := &boxes{}
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.have("alice", schemas.Server{Name: "notes", Command: "x"})
		w.say(boss(), "/mcp sandbox grant alice")
		w.cfg.Policy.Thread.Allow = []string{"bobbin.*"}
		w.cfg.Policy.Trust = []string{"good"}
		for _, c := range []struct{ name, args, wants string }{
			{"sandbox_shell_exec", `{"command":"pwd"}`, "the assistant wants to run a command in your sandbox"},
			{"connect_external_mcp", `{"name":"x","command":"y"}`, "the assistant wants to connect x"},
			{"disconnect_external_mcp", `{"id":"notes"}`, "the assistant wants to switch off notes"},
		} {
			x := w.ownAfter(t.Context(), alice(), c.name, c.args, "good", "bobbin", "evil", "evil")
			r := card(t, ch)
			want(t, r, c.wants, "evil answered before it in this turn, and may have told it to.")
			wantNot(t, r, "good", "1 hour", "Always")
			w.press(alice(), r, r.Choices[1].Label)
			x.fails(schemas.CodeDenied)
		}
		if len(box.ran) > 0 || len(w.cfg.Entries) != 1 || !w.cfg.Entries[0].Enabled {
			t.Fatalf("%+v %+v", box.ran, w.cfg.Entries)
		}
		x := w.ownAfter(t.Context(), alice(), "disconnect_external_mcp", `{"id":"notes"}`, "evil")
		w.press(alice(), card(t, ch), "Confirm")
		if x.ok(false); w.cfg.Entries[0].Enabled {
			t.Error("still on")
		}
		w.ownAfter(t.Context(), alice(), "sandbox_shell_exec", `{"command":"pwd"}`, "good", "bobbin").ok(false)
		if len(box.ran) != 1 {
			t.Errorf("%d commands ran", len(box.ran))
		}
	}, func(o *bot.Options) { o.Sandboxes = box })
}

func TestConnectOwn_MaskIsNoValue(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.own(t.Context(), alice(), "connect_external_mcp", `{"name":"x","command":"y","env":{"TOKEN":"***"}}`).fails(schemas.CodeInvalid, "env TOKEN: *** is how a value is hidden")
		if len(ch) > 0 {
			t.Error("a card")
		}
	})
}
