package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
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
		same := func(what string, got span, want json.RawMessage) {
			if text := oneLine(bytes.Clone(want)); !bytes.Equal(got.of(m.raw), text) {
				t.Errorf("%s of %q: %q, want %q", what, was, got.of(m.raw), text)
			}
		}
		same("id", m.id, want.ID)
		same("result", m.result, want.Result)
		same("requestId", m.target, want.Params.RequestID)
		same("token", m.token, want.Params.Meta.Token)
		if want.Method != nil && *want.Method != m.verb {
			t.Errorf("method of %q: %q", was, m.verb)
		}
		out := splice(nil, m.raw, edit{m.token, []byte("77")}, edit{m.id, []byte("66")})
		if !json.Valid(out) || bytes.ContainsAny(out, "\n\r") {
			t.Errorf("%q became %q", was, out)
		}
	})
}

// FuzzScanEnvelope: whatever a server writes, nothing panics, and valid JSON is taken apart right.
func FuzzScanEnvelope(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":["}",{"b":"\\\""}]}}`))
	f.Add([]byte(`{"id":1,"method":"notifications/progress","params":{"progressToken":3,"_meta":{"x":1}}}`))
	f.Add([]byte(`{"":{},"id":`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := scanEnvelope(b)
		if err != nil {
			return
		}
		_, _ = find(b, e.params, "_meta", "io.modelcontextprotocol/subscriptionId")
		_, _ = find(b, e.params, "progressToken")
		_, _ = number(e.id.of(b))
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil {
			return
		}
		for name, got := range map[string]span{"id": e.id, "method": e.method, "params": e.params, "result": e.result, "error": e.err} {
			if !bytes.Equal(got.of(b), want[name]) {
				t.Errorf("%s of %q: %q, want %q", name, b, got.of(b), want[name])
			}
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
