package bot_test

import (
	"fmt"
	"strings"
	"testing"

	"bobbin/schemas"
)

func TestHeld_Card(t *testing.T) {
	w := issues(t)
	ch, stop := w.bot.Subscribe(thread, "mallory")
	defer stop()
	var long strings.Builder
	for i := range 60 {
		fmt.Fprintf(&long, "+line %d.\n", i)
	}
	changed := schemas.HeldTool{Tool: schemas.Tool{Server: "github", Name: "whoami", Pin: "p2"}, Why: "changed", Diff: "-says who\n+reads ~/.ssh\u202e\n"}
	fresh := schemas.HeldTool{Tool: schemas.Tool{Server: "github", Name: "extra", Pin: "p3"}, Why: "new", Diff: long.String()}
	w.bot.Held(t.Context(), thread, "github", []schemas.HeldTool{changed})
	first := hear(t, ch)
	want(t, first.Reply, "1 tool of github changed after approval, so it is held", "github.whoami · changed", "+reads ~/.ssh", `\u{202e}`, "1) Show the change\n2) Approve")
	if !first.Changed || first.To != "" {
		t.Errorf("%+v", first)
	}
	both := []schemas.HeldTool{changed, fresh}
	w.heldOf["github"] = both
	w.bot.Held(t.Context(), thread, "github", both)
	second := hear(t, ch).Reply
	want(t, second, "2 tools of github changed after approval, so they are held", "github.extra · new", "more of it: Show the change")
	wantNot(t, second, "line 59.")
	if second.Replace != first.Reply.ID {
		t.Error("the first card stays")
	}
	wantCode(t, w.press(boss(), first.Reply, "Approve"), schemas.CodeExpired)
	wantCode(t, w.press(mallory(), second, "Approve"), schemas.CodeDenied)
	want(t, w.press(alice(), second, "Show"), "line 59.")
	want(t, w.press(alice(), second, "Approve"), "whoami, extra of github can be used again")
	if len(w.accepted) != 2 {
		t.Errorf("accepted %v", w.accepted)
	}
	w.bot.Held(t.Context(), thread, "gone", both)
	if hear(t, ch); len(ch) != 0 { // the approval ticked
		t.Error("a card about a server that is not here")
	}
}
