package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/audit"
	"bobbin/schemas"
)

// built gives a log of n records whose head was written.
func built(t testing.TB, n int) (root string, lines [][]byte) {
	t.Helper()
	root = t.TempDir()
	log := open(t, root, audit.Options{Interval: time.Hour})
	stop := running(t, log)
	for range n {
		add(t, log, sample("a"))
	}
	stop()
	data, err := os.ReadFile(logFile(root, "a"))
	if err != nil {
		t.Fatal(err)
	}
	return root, slices.Collect(bytes.Lines(data))
}

func put(t testing.TB, root string, data []byte) {
	t.Helper()
	if err := os.WriteFile(logFile(root, "a"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVerify_Tampering(t *testing.T) {
	type lines = [][]byte
	flip := func(l []byte, at int) []byte {
		l = bytes.Clone(l)
		l[at] ^= 1
		return l
	}
	for _, c := range []struct {
		name   string
		change func(lines) lines
		line   int
		why    string
	}{
		{"nothing", func(l lines) lines { return l }, 0, ""},
		{"a byte", func(l lines) lines { l[4] = flip(l[4], 60); return l }, 5, "changed"},
		{"a byte of the last line", func(l lines) lines { l[9] = flip(l[9], 60); return l }, 10, "changed"},
		{"a byte of the hash", func(l lines) lines { l[4] = flip(l[4], len(l[4])-9); return l }, 5, "changed"},
		{"a space", func(l lines) lines { l[4] = bytes.Replace(l[4], []byte(`,"at`), []byte(`, "at`), 1); return l }, 5, "changed"},
		{"a newline", func(l lines) lines { l[4] = l[4][:len(l[4])-1]; return l }, 5, "changed"},
		{"delete the first", func(l lines) lines { return l[1:] }, 1, "begins with record 2"},
		{"delete one", func(l lines) lines { return slices.Delete(l, 4, 5) }, 5, "record 5 before it is missing: a line was removed"},
		{"delete three", func(l lines) lines { return slices.Delete(l, 4, 7) }, 5, "records 5 to 7"},
		{"cut the end", func(l lines) lines { return l[:6] }, 7, "ends at 6, but 10 was seen"},
		{"cut all", func(lines) lines { return nil }, 1, "ends at 0, but 10 was seen"},
		{"cut inside the last", func(l lines) lines { l[9] = l[9][:50]; return l }, 11, "ends at 9, but 10 was seen"},
		{"swap", func(l lines) lines { l[4], l[5] = l[5], l[4]; return l }, 5, "reordered"},
		{"move the first to the end", func(l lines) lines { return append(l[1:], l[0]) }, 1, "reordered"},
		{"repeat", func(l lines) lines { return slices.Insert(l, 5, l[4]) }, 6, "inserted"},
		{"insert words", func(l lines) lines { return slices.Insert(l, 5, []byte("hello\n")) }, 6, "inserted"},
		{"insert a fragment", func(l lines) lines { return slices.Insert(l, 5, []byte("{\"seq\":6,\"at\n")) }, 6, "inserted"},
		{"insert an empty line", func(l lines) lines { return slices.Insert(l, 5, []byte("\n")) }, 6, "inserted"},
		{"insert a long line", func(l lines) lines {
			return slices.Insert(l, 5, append(bytes.Repeat([]byte("x"), 300<<10), '\n'))
		}, 6, "inserted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, all := built(t, 10)
			put(t, root, bytes.Join(c.change(all), nil))
			log := open(t, root, audit.Options{})
			check := func() {
				t.Helper()
				v := verify(t, log, "a")
				if v.OK != (c.line == 0) || v.Line != c.line || !strings.Contains(v.Why, c.why) {
					t.Errorf("%+v", v)
				}
			}
			check()
			// It stays seen, and it never stops a record.
			add(t, log, sample("a"))
			add(t, log, sample("a"))
			if v := verify(t, log, "a"); v.OK != (c.line == 0) {
				t.Errorf("forgotten after the next record: %+v", v)
			}
		})
	}
}

func TestVerify_OtherThread(t *testing.T) {
	root, lines := built(t, 3)
	log := open(t, root, audit.Options{})
	add(t, log, sample("b"))
	if err := os.WriteFile(logFile(root, "b"), bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := verify(t, log, "b"); v.OK || v.Line != 1 || !strings.Contains(v.Why, "another thread") {
		t.Errorf("%+v", v)
	}
}

func TestVerify_RewrittenChain(t *testing.T) {
	root, _ := built(t, 5)
	forged := t.TempDir()
	other := open(t, forged, audit.Options{})
	for range 8 {
		rec := sample("a")
		rec.Detail = "nothing happened"
		add(t, other, rec)
	}
	data, _ := os.ReadFile(logFile(forged, "a"))
	put(t, root, data)
	if v := verify(t, open(t, root, audit.Options{}), "a"); v.OK || v.Line != 5 || !strings.Contains(v.Why, "rewritten") {
		t.Errorf("%+v", v)
	}
}

func TestVerify_DamagedHead(t *testing.T) {
	root, _ := built(t, 5)
	if err := os.WriteFile(root+"/a/audit.head", []byte(`{"seq":`), 0o600); err != nil {
		t.Fatal(err)
	}
	log := open(t, root, audit.Options{})
	if v := verify(t, log, "a"); v.OK || !strings.Contains(v.Why, "damaged") {
		t.Errorf("%+v", v)
	}
	if rec := add(t, log, sample("a")); rec.Seq != 6 {
		t.Error(rec)
	}
}

func TestVerify_Stops(t *testing.T) {
	for name, data := range map[string][]byte{"records": nil, "one line": bytes.Repeat([]byte("j"), 3<<20)} {
		root, _ := built(t, 10)
		if data != nil {
			put(t, root, data)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := open(t, root, audit.Options{}).Verify(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Error(name, err)
		}
	}
}

func TestTornLine(t *testing.T) {
	whole := []byte(`{"seq":6,"at":"2026-11-20T22:00:00Z","thread":"a","event":"asked","detail":"x`)
	for _, c := range []struct {
		name string
		tail []byte
		ok   bool
	}{
		{"one byte", whole[:1], true},
		{"half", whole[:40], true},
		{"zeros", make([]byte, 100), true},
		{"half and zeros", append(bytes.Clone(whole), 0, 0, 0), true},
		{"twice", append(append(bytes.Clone(whole[:30]), '\n'), whole[:20]...), true},
		{"only ended", append(bytes.Clone(whole[:30]), '\n'), true},
		{"words", []byte("hello"), false},
		{"whole but wrong", []byte(`{"seq":6,"hash":"00"}`), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, lines := built(t, 5)
			put(t, root, append(bytes.Join(lines, nil), c.tail...))
			log := open(t, root, audit.Options{})
			v := verify(t, log, "a")
			if v.OK != c.ok || v.Records != 5 {
				t.Fatalf("%+v", v)
			}
			rec := add(t, log, sample("a"))
			if rec.Seq != 6 || (rec.Torn > 0) != c.ok {
				t.Errorf("%+v", rec)
			}
			add(t, log, sample("a"))
			if v = verify(t, log, "a"); v.OK != c.ok || v.Records != 7 || v.OK && !strings.Contains(v.Why, "crash") {
				t.Errorf("%+v", v)
			}
			if !c.ok {
				return
			}
			// Who removes the unfinished line later, or writes another one there, is found.
			data, _ := os.ReadFile(logFile(root, "a"))
			at := len(bytes.Join(lines, nil))
			put(t, root, slices.Delete(bytes.Clone(data), at, at+rec.Torn))
			if v := verify(t, log, "a"); v.OK || v.Line != 6 {
				t.Errorf("%+v", v)
			}
			data[at] = 'X'
			put(t, root, data)
			if v := verify(t, log, "a"); v.OK || v.Line != 6 {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestLastNewlineMissing(t *testing.T) {
	root, lines := built(t, 5)
	put(t, root, bytes.TrimSuffix(bytes.Join(lines, nil), []byte("\n")))
	log := open(t, root, audit.Options{})
	if rec := add(t, log, sample("a")); rec.Seq != 6 || rec.Torn != 0 {
		t.Errorf("%+v", rec)
	}
	if v := verify(t, log, "a"); !v.OK || v.Records != 6 || v.Why != "" {
		t.Errorf("%+v", v)
	}
}

func FuzzVerify(f *testing.F) {
	root, lines := built(f, 3)
	f.Add([]byte{})
	f.Add(bytes.Join(lines, nil))
	f.Add(append(bytes.Join(lines, nil), `{"seq":4,`...))
	f.Add([]byte("{\"seq\":\n\n\x00\x00"))
	f.Add([]byte(`{"seq":1,"prev":"","hash":"` + strings.Repeat("0", 64) + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		put(t, root, data)
		log := open(t, root, audit.Options{})
		before := verify(t, log, "a")
		if _, err := log.Tail(t.Context(), "a", 10); err != nil {
			t.Fatal(err)
		}
		rec, err := log.Append(t.Context(), schemas.Record{Thread: "a", Event: schemas.EventAsked})
		if err != nil {
			t.Fatal(err)
		}
		tail, err := log.Tail(t.Context(), "a", 1)
		if err != nil || len(tail) != 1 || tail[0].Hash != rec.Hash {
			t.Fatal(tail, err)
		}
		// Adding a record heals nothing and breaks nothing.
		if after := verify(t, log, "a"); after.Records != before.Records+1 || before.OK && !after.OK {
			t.Fatalf("%+v, before %+v", after, before)
		}
	})
}
