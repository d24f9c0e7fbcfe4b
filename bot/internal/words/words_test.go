package words

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for in, out := range map[string][]string{
		`a  b`: {"a", "b"}, `'a b' "c d"`: {"a b", "c d"}, `a\ b`: {"a b"}, `C:\Users\me`: {`C:\Users\me`}, `"C:\dir\"`: nil, `a,b`: {"a,b"},
		`""`: {""}, `it\'s`: {"it's"}, `"a\"b"`: {`a"b`}, "a\nb": {"a", "b"}, `x'`: nil, ``: nil, `--k="v w"`: {"--k=v w"},
	} {
		if got, _ := Split(in); !slices.Equal(got, out) {
			t.Errorf("%s: %q, want %q", in, got, out)
		}
	}
}

// What a form shows of arguments is read back as the same arguments.
func TestQuote_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOf(rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\\'\" \t\n$`")))).Filter(utf8.ValidString)).Draw(t, "args")
		got, err := Split(QuoteAll(args))
		if err != nil || !slices.Equal(got, args) && len(args)+len(got) > 0 {
			t.Fatalf("%q → %s → %q %v", args, QuoteAll(args), got, err)
		}
	})
}

func FuzzClean(f *testing.F) {
	f.Add("a\u202e`b\x1b[31m\U000E0041\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{Clean(s), Arg(s)} {
			if strings.ContainsFunc(out, func(r rune) bool { return Hidden(r) || r == '`' }) || !utf8.ValidString(out) {
				t.Fatalf("%q → %q", s, out)
			}
		}
		if out := Lines(s); strings.ContainsFunc(out, func(r rune) bool { return Hidden(r) && r != '\n' && r != '\t' }) {
			t.Fatalf("%q → %q", s, out)
		}
	})
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		About(5134): "about 5,100", About(99): "about 99", About(0): "about 0", About(1234567): "about 1,200,000", Thousands(1000): "1,000", Thousands(999): "999",
		Size(1): "1 byte", Size(2048): "2.0 KiB", Size(300 << 10): "300 KiB", Size(5 << 20): "5.0 MiB", Size(50 << 20): "50 MiB",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
