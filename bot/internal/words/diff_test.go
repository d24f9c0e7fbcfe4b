package words

import (
	"strings"
	"testing"

	udiff "github.com/aymanbagabas/go-udiff"
	"pgregory.net/rapid"
)

func TestSlide_BeginsWhereTheEntryBegins(t *testing.T) {
	in := strings.Join([]string{"@@ -1,9 +1,5 @@", `   "a": {`, `     "x": 1`, "-  },", `-  "b": {`, `-    "y": 2`, `   },`, `   "c": {`}, "\n")
	want := strings.Join([]string{"@@ -1,9 +1,5 @@", `   "a": {`, `     "x": 1`, "   },", `-  "b": {`, `-    "y": 2`, `-  },`, `   "c": {`}, "\n")
	if got := slide(in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Both texts must come out of the diff as they were, whatever moved.
func TestSlide_KeepsBothTexts(t *testing.T) {
	line := rapid.SampledFrom([]string{"{", "  }", "  },", `  "a": {`, "    1", "]", ""})
	side := func(diff string, drop byte) string {
		var out []string
		for _, l := range strings.Split(diff, "\n") {
			if l != "" && l[0] != '@' && l[0] != drop && !strings.HasPrefix(l, "---") && !strings.HasPrefix(l, "+++") {
				out = append(out, l[1:])
			}
		}
		return strings.Join(out, "\n")
	}
	rapid.Check(t, func(t *rapid.T) {
		a := strings.Join(rapid.SliceOfN(line, 1, 30).Draw(t, "a"), "\n") + "\n"
		b := strings.Join(rapid.SliceOfN(line, 1, 30).Draw(t, "b"), "\n") + "\n"
		diff := udiff.Unified("a", "b", a, b)
		_, diff, _ = strings.Cut(diff, "\n") // the two lines of names
		_, diff, _ = strings.Cut(diff, "\n")
		got := slide(diff)
		for _, drop := range []byte{'+', '-'} {
			if side(got, drop) != side(diff, drop) {
				t.Fatalf("slid:\n%s\nfrom:\n%s", got, diff)
			}
		}
	})
}
