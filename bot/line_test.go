package bot

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWords(t *testing.T) {
	for in, out := range map[string][]string{
		`a  b`: {"a", "b"}, `'a b' "c d"`: {"a b", "c d"}, `a\ b`: {"a b"}, `C:\Users\me`: {`C:\Users\me`}, `"C:\dir\"`: nil, `a,b`: {"a,b"},
		`""`: {""}, `it\'s`: {"it's"}, `"a\"b"`: {`a"b`}, "a\nb": {"a", "b"}, `x'`: nil, ``: nil, `--k="v w"`: {"--k=v w"},
	} {
		if got, _ := words(in); !slices.Equal(got, out) {
			t.Errorf("%s: %q, want %q", in, got, out)
		}
	}
}

// What a form shows of arguments is read back as the same arguments.
func TestQuote_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOf(rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\\'\" \t\n$`")))).Filter(utf8.ValidString)).Draw(t, "args")
		got, err := words(quoteAll(args))
		if err != nil || !slices.Equal(got, args) && len(args)+len(got) > 0 {
			t.Fatalf("%q → %s → %q %v", args, quoteAll(args), got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"add-json x {}", "policy allow a.* me", "upload 'a b'", "```json\n{}\n```", "call a.b {\"x\":1}", "show \"", "\\", "add-json"} {
		f.Add(s)
	}
	b := &Bot{verbs: table()}
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
		_, _ = words(line)
	})
}

func FuzzClean(f *testing.F) {
	f.Add("a\u202e`b\x1b[31m\U000E0041\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{clean(s), shown(s)} {
			if strings.ContainsFunc(out, func(r rune) bool { return hidden(r) || r == '`' }) || !utf8.ValidString(out) {
				t.Fatalf("%q → %q", s, out)
			}
		}
		if out := cleanLines(s); strings.ContainsFunc(out, func(r rune) bool { return hidden(r) && r != '\n' && r != '\t' }) {
			t.Fatalf("%q → %q", s, out)
		}
		for _, p := range []string{`{"a":` + s + `}`, s} {
			_ = formFields([]byte(`{"properties":` + p + `}`))
			_ = content("x", []byte(p))
		}
	})
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		about(5134): "about 5,100", about(99): "about 99", about(0): "about 0", about(1234567): "about 1,200,000", thousands(1000): "1,000", thousands(999): "999",
		size(1): "1 byte", size(2048): "2.0 KiB", size(300 << 10): "300 KiB", size(5 << 20): "5.0 MiB", size(50 << 20): "50 MiB",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
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
