package session

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// However the bytes arrive, the lines are the same.
func TestLineReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(4000, 9000), rapid.IntRange(60000, 90000)), 0, 8).Draw(t, "lengths")
		var want []string
		var in bytes.Buffer
		for i, n := range lengths {
			want = append(want, strings.Repeat(string(rune('a'+i)), n))
			in.WriteString(want[i] + rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end"))
		}
		r := io.Reader(&in)
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			r = iotest.OneByteReader(r)
		case 1:
			r = iotest.HalfReader(r)
		case 2:
			r = iotest.DataErrReader(r)
		}
		lines := newLineReader(r, 100000)
		for i, w := range want {
			if got, err := lines.next(); err != nil || string(got) != w {
				t.Fatalf("line %d: %d bytes, %v, want %d bytes", i, len(got), err, len(w))
			}
		}
		if _, err := lines.next(); err != io.EOF {
			t.Fatalf("after the last line: %v", err)
		}
		if len(lines.buf) > 100000+idleBuffer {
			t.Fatalf("a buffer of %d bytes", len(lines.buf))
		}
	})
}

func TestLineReader_Limit(t *testing.T) {
	lines := newLineReader(strings.NewReader(strings.Repeat("x", 20000)), 10000)
	if _, err := lines.next(); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
}

func TestEventReader(t *testing.T) {
	const in = ": hello\n\nevent: endpoint\ndata: /x\n\nid: 5\nretry: 250\ndata:{\"a\":\ndata: 1}\n\nid: 6\ndata\n\nevent: lost\n\nretry: -1\nid: 7\ndata: last"
	r := newEventReader(iotest.OneByteReader(strings.NewReader(in)), 1<<20)
	for i, want := range []struct{ name, data, id string }{{"endpoint", "/x", ""}, {"", "{\"a\":\n1}", "5"}, {"", "", "6"}, {"", "last", "6"}} {
		e, err := r.next()
		if err != nil || e.name != want.name || string(e.data) != want.data || r.lastID != want.id {
			t.Errorf("event %d: %q %q id %q, %v", i, e.name, e.data, r.lastID, err)
		}
	}
	if _, err := r.next(); err != io.EOF || r.retry.Milliseconds() != 250 {
		t.Errorf("at the end: %v, retry %v", err, r.retry)
	}
}

func TestEventReader_Limit(t *testing.T) {
	for _, in := range []string{"data: " + strings.Repeat("x", 20000), strings.Repeat("data: "+strings.Repeat("x", 100)+"\n", 200)} {
		if _, err := newEventReader(strings.NewReader(in), 10000).next(); !errors.Is(err, ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	}
}
