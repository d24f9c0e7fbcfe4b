package bot

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

func TestDeck_TakenOnce(t *testing.T) {
	d := deck{open: map[string]*card{}}
	c := &card{expires: time.Unix(100, 0)}
	d.put("n", c, time.Unix(0, 0))
	if d.get("n", "", time.Unix(1, 0)) != c || !d.take("n", c) || d.take("n", c) {
		t.Error("a card that two hold is taken by one")
	}
	for i := range 2 * maxCards {
		d.put(strconv.Itoa(i), &card{expires: time.Unix(int64(100+i), 0)}, time.Unix(0, 0))
	}
	if len(d.open) != maxCards || d.get("127", "", time.Unix(1, 0)) == nil {
		t.Errorf("%d cards of one member", len(d.open))
	}
	d.put("last", c, time.Unix(1000, 0))
	if len(d.open) != 1 {
		t.Error("expired cards, and the secrets in them, stay in memory")
	}
}
