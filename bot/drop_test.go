package bot_test

import (
	"slices"
	"testing"

	"bobbin/schemas"
)

func TestDrop_ForgetsTheThreadAndSaysSo(t *testing.T) {
	w := newWorld(t)
	if err := w.bot.Drop(t.Context(), "123456789012345678"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.dropped, []schemas.ThreadID{"123456789012345678"}) || !slices.Equal(w.forgot, []string{""}) {
		t.Errorf("dropped %v, forgot %q", w.dropped, w.forgot)
	}
	if err := w.bot.Drop(t.Context(), "../etc"); err == nil {
		t.Error("a thread without a usable id was dropped")
	}
}
