package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"bobbin/internal/jsonscan"
)

// FuzzReadMessage compares what is seen of a message with what encoding/json sees.
func FuzzReadMessage(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"x\"y"}}}`,
		`{"id":"a\\","result":[{"id":7}],"jsonrpc":"2.0"}`, `{"id":1,"Id":2,"method":"m"}`, `{"\u0069d":1,"id":2,"method":"m"}`,
		"{ \"id\" :\t-1 ,\r\n\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1e3}}", `{"id":1,"method":"m","params":{}}}`, `{"id":"\\\"","method":"m"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		was := bytes.Clone(b)
		m, err := readMessage(b)
		if err != nil {
			return
		}
		var want struct {
			ID     json.RawMessage
			Method *string
			Result json.RawMessage
			Params struct {
				RequestID json.RawMessage `json:"requestId"`
				Meta      struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
		}
		if err := json.Unmarshal(was, &want); err != nil {
			t.Skip() // a field of another type
		}
		same := func(what string, got jsonscan.Span, want json.RawMessage) {
			if text := jsonscan.OneLine(bytes.Clone(want)); !bytes.Equal(got.Of(m.raw), text) {
				t.Errorf("%s of %q: %q, want %q", what, was, got.Of(m.raw), text)
			}
		}
		same("id", m.ID, want.ID)
		same("result", m.Result, want.Result)
		same("requestId", m.target, want.Params.RequestID)
		same("token", m.token, want.Params.Meta.Token)
		if want.Method != nil && *want.Method != m.verb {
			t.Errorf("method of %q: %q", was, m.verb)
		}
		out := jsonscan.Splice(nil, m.raw, m.token.As([]byte("77")), m.ID.As([]byte("66")))
		if !json.Valid(out) || bytes.ContainsAny(out, "\n\r") {
			t.Errorf("%q became %q", was, out)
		}
	})
}

func TestLineReader(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	text := "a\r\n\n" + large + "\n" + strings.Repeat("y", idleBuffer) + "\n"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)), "halves": iotest.HalfReader(strings.NewReader(text))} {
		lines := lineReader{r: r, max: 1 << 20}
		for _, want := range []string{"a", "", large, strings.Repeat("y", idleBuffer)} {
			if got, err := lines.next(); err != nil || string(got) != want {
				t.Fatalf("%s: %.20q %v, want %.20q", name, got, err, want)
			}
		}
		if got, err := lines.next(); err != io.EOF {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if len(lines.buf) > keepBuffer {
			t.Errorf("%s: %d bytes are kept", name, len(lines.buf))
		}
	}
	lines := lineReader{r: strings.NewReader(large), max: 1 << 10}
	if _, err := lines.next(); err != errLongLine {
		t.Errorf("a line above the limit: %v", err)
	}
}

func TestCharacters(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 1, "é": 2, "a\xc3": 1, "☃": 3, "\xe2\x98": 0, "\xff": 1, "a\x80\x80\x80\x80": 5, "😀": 4, "b\xf0\x9f\x98": 1} {
		if got := characters([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
