package view_test

import (
	"encoding/json"
	"strings"
	"testing"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
)

// Whatever a server gives, nothing invisible of it reaches a person, and no markup of its own.
func FuzzContent(f *testing.F) {
	for _, s := range []string{`{"content":[{"type":"text","text":"a\u202eb"}]}`, `{"content":[{"type":"image","data":"AAAA"}]}`, `{"contents":[{"uri":"x","blob":"!"}]}`,
		`{"structuredContent":{"a":1}}`, `{"content":[{"type":"resource","resource":{"type":"resource","resource":{}}}]}`, "no JSON\x1b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, b := range view.Content("x", json.RawMessage(s)) {
			if strings.ContainsFunc(b.Code+b.Text, func(r rune) bool { return words.Hidden(r) && r != '\n' && r != '\t' }) {
				t.Fatalf("%q → %+v", s, b)
			}
		}
	})
}

func TestCut_KeepsTheBeginning(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	shown, whole := view.Cut([]view.Block{{Code: "first"}, {Code: long}, {Code: "last"}})
	if len(shown) != 2 || shown[0].Code != "first" || !strings.HasSuffix(shown[1].Code, "\n…") || whole != "first\n"+long+"\nlast" {
		t.Errorf("%d blocks, the whole is %d bytes", len(shown), len(whole))
	}
	if _, whole := view.Cut([]view.Block{{Code: "short"}}); whole != "" {
		t.Error("a short result is not cut")
	}
}
