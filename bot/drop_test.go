package bot_test

import (
	"errors"
	"slices"
	"testing"

	"bobbin/schemas"
)

func TestDrop_ForgetsTheThreadAndSaysSo(t *testing.T) {
	w := newWorld(t)
	card := w.say(alice(), "/mcp add-json "+github())
	w.failWith["Drop"] = errors.New("a kill, or a full disk")
	if err := w.bot.Drop(t.Context(), thread); err == nil {
		t.Error("a failure is nobody's")
	}
	delete(w.failWith, "Drop")
	for range 2 {
		if err := w.bot.Drop(t.Context(), thread); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(w.dropped, []schemas.ThreadID{thread, thread}) || !slices.Equal(w.forgot, []string{"", "", ""}) {
		t.Errorf("dropped %v, forgot %q", w.dropped, w.forgot)
	}
	if n := len(w.records); w.records[n-1].Event != schemas.EventDropped || n > 1 && w.records[n-2].Event != schemas.EventDropped || n > 2 && w.records[n-3].Event == schemas.EventDropped {
		t.Errorf("two tries that had something to do are two records: %v", w.events())
	}
	wantCode(t, w.press(alice(), card, "Confirm"), schemas.CodeExpired)
	if err := w.bot.Drop(t.Context(), "../etc"); err == nil {
		t.Error("a thread without a usable id was dropped")
	}
}

// What cannot be written down is not done.
func TestDrop_AuditUnwritable(t *testing.T) {
	w := newWorld(t)
	w.failWith["Append"] = errors.New("disk full")
	if err := w.bot.Drop(t.Context(), thread); err == nil || len(w.dropped)+len(w.forgot) > 0 {
		t.Errorf("%v, dropped %v, forgot %q", err, w.dropped, w.forgot)
	}
}
