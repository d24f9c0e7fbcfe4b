package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"bobbin/internal/jsonscan"

	"pgregory.net/rapid"
)

func corpus() []string {
	deep := strings.Repeat("[", 511) + strings.Repeat("]", 511)
	return []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":01}`, `{"a":-}`, `{"a":-0.5e+10}`, `{"a":1.}`, `{"a":"\u12g4"}`, `{"a":"\u00e4"}`, `{"a":"\x"}`, "{\"a\":\"\x01\"}",
		`{"a":tru}`, `{"a":[1,2,]}`, `{"a":[1,{"b":null}]}`, `{"a":1,}`, `{"a" 1}`, `{"a":1}}`, `{"a":1`, `{`, ``, ` `, `{"a":"\`, `{"a":"\u12`, `{"a":[}`, `{,}`,
		`{"a":{"b":[[[]]]}}`, `{"a":"}"}`, `{"a":"\""}`, `{"a":1e}`, `{"a":nul}`, `{"a":}`, `[]`, `[1,]`, `7`, `"x"`, `null`, `nullx`, `[true false]`, "\ufeff{}",
		"{\"a\":\"ä☃😀\"}", "{\"a\":\"\xff\"}", "{\"\xc3\":1}", "{\"a\":\"aaaaaaaaaaaaaaaa\xc3\"}", `{"a":"12345678\"","b":"1234567\\"}`, "{\"a\":\"1234567\x1f8\"}", "{\"a\":\"\x7f\"}",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"x\"y"}}}`,
		`{"id":"a\\","result":[{"id":7}],"jsonrpc":"2.0"}`, `{"id":1,"Id":2,"method":"m"}`, `{"\u0069d":1,"id":2,"method":"m"}`, `{"\u0069d":1}`, `{"id":1,"id":1}`, `{"ıd":1,"ſ":2}`,
		"{ \"id\" :\t-1 ,\r\n\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1e3}}", `{"":{},"id":`,
		`{"id":1,"result":{"a":["}",{"b":"\\\""}]}}`, `{"a":` + deep + `}`, `{"a":[` + deep + `]}`,
	}
}

// depth is how deep a valid text is nested.
func depth(b []byte) (deepest int) {
	d := json.NewDecoder(bytes.NewReader(b))
	for now := 0; ; {
		t, err := d.Token()
		if err != nil {
			return deepest
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			now++
			deepest = max(deepest, now)
		case json.Delim('}'), json.Delim(']'):
			now--
		}
	}
}

// agree fails when a text is judged, or taken apart, unlike encoding/json does it.
func agree(t interface {
	Helper()
	Errorf(string, ...any)
}, b []byte) {
	t.Helper()
	was := bytes.Clone(b)
	want := json.Valid(b) && utf8.Valid(b) && depth(b) <= 512
	if got := jsonscan.Valid(b); got != want {
		t.Errorf("Valid(%q) = %v, encoding/json says %v", b, got, want)
	}
	object := want && bytes.TrimSpace(b)[0] == '{'
	if got := jsonscan.Object(b); got != object {
		t.Errorf("Object(%q) = %v, encoding/json says %v", b, got, object)
	}
	e, err := jsonscan.Message(b)
	if got := err != jsonscan.ErrSyntax; got != object {
		t.Errorf("Message(%q): %v, encoding/json says %v", b, err, object)
	}
	if object {
		parts(t, b, e, err)
	}
	_, _ = jsonscan.Find(b, jsonscan.All(b), "params", "_meta") // whatever b is: no panic
	if !bytes.Equal(b, was) {
		t.Errorf("%q became %q", was, b)
	}
}

// parts compares what is found in an object. Where a name comes in two ways, encoding/json sees one of them and we refuse.
func parts(t interface {
	Helper()
	Errorf(string, ...any)
}, b []byte, e jsonscan.Envelope, err error) {
	t.Helper()
	var exact map[string]json.RawMessage
	if err := json.Unmarshal(b, &exact); err != nil {
		t.Errorf("%q: %v", b, err)
	}
	names := map[string]jsonscan.Span{"jsonrpc": e.Version, "id": e.ID, "method": e.Method, "params": e.Params, "result": e.Result, "error": e.Error}
	seen := map[string]int{}
	_ = jsonscan.Members(b, jsonscan.All(b), func(key []byte, _ jsonscan.Span) {
		text, ok := jsonscan.Text(slices.Concat([]byte{'"'}, key, []byte{'"'}))
		if !ok {
			t.Errorf("key %q of %q", key, b)
		}
		for name := range names {
			if strings.EqualFold(name, text) {
				seen[name]++
			}
			if strings.EqualFold(name, text) && name != text {
				seen[name]++ // alone it is refused as well
			}
		}
	})
	twice := slices.ContainsFunc(slices.Collect(maps.Values(seen)), func(n int) bool { return n > 1 })
	if twice != (err == jsonscan.ErrTwice) {
		t.Errorf("Message(%q): %v, twice = %v", b, err, twice)
	}
	for name, at := range names {
		if err == nil && !bytes.Equal(at.Of(b), exact[name]) {
			t.Errorf("%s of %q: %q, want %q", name, b, at.Of(b), exact[name])
		}
		found, ferr := jsonscan.Find(b, jsonscan.All(b), name)
		if err == nil && (ferr != nil || found != at) {
			t.Errorf("Find %s in %q: %v %v, want %v", name, b, found, ferr, at)
		}
	}
}

func TestAgreesWithEncodingJSON(t *testing.T) {
	for _, in := range corpus() {
		agree(t, []byte(in))
	}
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOf(rapid.SampledFrom([]string{
			`{`, `}`, `[`, `]`, `,`, `:`, `"a"`, `"id":`, `"ID":`, `"\u0069d":`, `"\n"`, `"\u00e4"`, `"ſ"`, `1`, `-0.1e5`, `true`, `null`, ` `, `\`, `"`, "\x00", "\xff", `12345678`,
		})).Draw(t, "tokens")
		agree(t, []byte(`{"k":`+strings.Join(tokens, "")+`}`))
	})
	rapid.Check(t, func(t *rapid.T) { // every place of a special byte within a word of eight
		text := rapid.SliceOfN(rapid.SampledFrom([]byte("aaaaaaaaaaaa\"\\\x1f\x7f\x80\xff\xc3\xa4nu0")), 0, 40).Draw(t, "text")
		agree(t, slices.Concat([]byte(`{"a":"`), text, []byte(`"}`)))
	})
}

func FuzzMessage(f *testing.F) {
	for _, in := range corpus() {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, b []byte) { agree(t, b) })
}

// Whatever a text is, looking into it without a check finds nothing outside of it.
func FuzzPick(f *testing.F) {
	for _, in := range corpus() {
		f.Add([]byte(in), 0, len(in))
	}
	f.Fuzz(func(t *testing.T, b []byte, from, to int) {
		if from < 0 || to < from {
			return
		}
		var id, params jsonscan.Span
		_ = jsonscan.Pick(b, jsonscan.Span{From: from, To: to}, jsonscan.Want{Name: "id", At: &id}, jsonscan.Want{Name: "params", At: &params})
		_, _ = id.Of(b), params.Of(b)
		if at, err := jsonscan.Find(b, params, "_meta", "x"); err == nil {
			_ = at.Of(b)
		}
	})
}

func TestDepthIsBounded(t *testing.T) {
	deep := []byte(`{"a":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`)
	if jsonscan.Valid(deep) || jsonscan.Object(deep) {
		t.Fatal("accepted a million levels")
	}
	if at, err := jsonscan.Find(deep, jsonscan.All(deep), "a"); err != nil || at.To != len(deep)-1 {
		t.Fatalf("passed over them: %v, %v", at, err)
	}
}

func TestPick(t *testing.T) {
	b := []byte(`{"params": {"name":"x","_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","a":1},"arguments":{"name":2,"Name":3}}}`)
	e, err := jsonscan.Message(b)
	if err != nil {
		t.Fatal(err)
	}
	var name, args, meta, version, none jsonscan.Span
	err = jsonscan.Pick(b, e.Params, jsonscan.Want{Name: "name", At: &name}, jsonscan.Want{Name: "arguments", At: &args}, jsonscan.Want{Name: "_meta", At: &meta}, jsonscan.Want{Name: "uri", At: &none})
	if err != nil || string(name.Of(b)) != `"x"` || string(args.Of(b)) != `{"name":2,"Name":3}` || !none.Absent() || none.Of(b) != nil {
		t.Fatalf("%q %q %v, %v", name.Of(b), args.Of(b), none, err)
	}
	// PHP escapes slashes.
	if err := jsonscan.Pick(b, meta, jsonscan.Want{Name: "io.modelcontextprotocol/protocolVersion", At: &version}); err != nil || string(version.Of(b)) != `"2026-07-28"` {
		t.Fatalf("%q, %v", version.Of(b), err)
	}
	if err := jsonscan.Pick(b, args, jsonscan.Want{Name: "name", At: &name}); err != jsonscan.ErrTwice {
		t.Fatalf("name beside Name: %v", err)
	}
	for _, in := range []jsonscan.Span{{}, version} {
		if err := jsonscan.Pick(b, in, jsonscan.Want{Name: "name", At: &name}); err != nil || !name.Absent() {
			t.Fatalf("in %q: %v, %v", in.Of(b), name, err)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{`"a"`: "a", `""`: "", `"\u0061\/"`: "a/", `"ä"`: "ä"} {
		if got, ok := jsonscan.Text([]byte(in)); !ok || got != want {
			t.Errorf("%s: %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", `"`, "1", "null", `{"a":"b"}`, `"a\"`} {
		if got, ok := jsonscan.Text([]byte(in)); ok {
			t.Errorf("%s: %q", in, got)
		}
	}
}

func TestID(t *testing.T) {
	for in, want := range map[string]bool{`1`: true, `-1`: true, `"a"`: true, `1.5`: true, ``: false, `null`: false, `true`: false, `{}`: false, `[]`: false, `"` + strings.Repeat("a", 255) + `"`: false} {
		if got := jsonscan.ID([]byte(in)); got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

func TestInt(t *testing.T) {
	for in, want := range map[string]int64{`1`: 1, `"17"`: 17, `0`: 0, `999999999999999999`: 999999999999999999, `-1`: -1, `1.0`: -1, `""`: -1, ``: -1, `null`: -1, `1000000000000000000`: -1, `"a"`: -1} {
		if got, ok := jsonscan.Int([]byte(in)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %v", in, got, ok)
		}
	}
}

func TestMended(t *testing.T) {
	for in, want := range map[string]string{"{\"id\":1,\"result\":{\"a\":\"\xe4\"}}": "{\"a\":\"\ufffd\"}", `{"id":1,"result":{"a":"ä"}}`: `{"a":"ä"}`} {
		if e, text, err := jsonscan.Mended([]byte(in)); err != nil || string(e.Result.Of(text)) != want || !jsonscan.Valid(text) {
			t.Errorf("%q: %q, %v", in, text, err)
		}
	}
	if _, _, err := jsonscan.Mended([]byte("{\"\xe4\":")); err != jsonscan.ErrSyntax {
		t.Error(err)
	}
}

func TestSplice(t *testing.T) {
	b := []byte("{\"id\":1,\r\n\"params\":{\"_meta\":{\"progressToken\":\"t\"}}}")
	e, err := jsonscan.Message(b)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jsonscan.Find(b, e.Params, "_meta", "progressToken")
	if err != nil {
		t.Fatal(err)
	}
	got := jsonscan.Splice([]byte("> "), jsonscan.OneLine(b), token.As([]byte("77")), e.Result.As([]byte("x")), e.ID.As([]byte("66")))
	if want := `> {"id":66,  "params":{"_meta":{"progressToken":77}}}`; string(got) != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

func TestNothingAllocates(t *testing.T) {
	b := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("a line of text\\n", 1000) + `"}],"isError":false}}`)
	if n := testing.AllocsPerRun(100, func() {
		e, err := jsonscan.Message(b)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := jsonscan.Find(b, e.Result, "isError"); err != nil || at.Absent() {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMessage(b *testing.B) {
	for name, text := range map[string]string{"echo": "hello", "16KiB": strings.Repeat("x", 16<<10), "16KiBlines": strings.Repeat("a line of text\\n", 1<<10)} {
		line := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `"}],"isError":false}}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				_, _ = jsonscan.Message(line)
			}
		})
		b.Run(name+"/pick", func(b *testing.B) {
			for b.Loop() {
				_, _ = jsonscan.Find(line, jsonscan.All(line), "result", "isError")
			}
		})
	}
}
