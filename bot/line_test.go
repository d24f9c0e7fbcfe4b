package bot

import (
	"slices"
	"strings"
	"testing"

	"bobbin/bot/internal/words"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{"add-json x {}", "policy allow a.* me", "upload 'a b'", "```json\n{}\n```", "call a.b {\"x\":1}", "show \"", "\\", "add-json"} {
		f.Add(s)
	}
	b := &Bot{}
	b.verbs = b.table()
	f.Fuzz(func(t *testing.T, line string) {
		v, args, err := b.parse(strings.TrimSpace(line))
		if (v == nil) != (err != nil && args == nil) && err == nil {
			t.Fatalf("%q: %v %v %v", line, v, args, err)
		}
		for name := range args {
			if !slices.ContainsFunc(v.Args, func(a Arg) bool { return a.Name == name }) {
				t.Fatalf("%q: argument %q is not in the table", line, name)
			}
		}
		_, _ = words.Split(line)
	})
}
