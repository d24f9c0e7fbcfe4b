package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"bobbin/audit"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

func open(t testing.TB, root string, opt audit.Options) *audit.Log {
	t.Helper()
	users, err := durable.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = users.Close() })
	log, err := audit.Open(users, opt)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// running starts Run and returns the function that ends it and waits.
func running(t testing.TB, log *audit.Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func add(t testing.TB, log *audit.Log, rec schemas.Record) schemas.Record {
	t.Helper()
	rec, err := log.Append(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func sample(thread schemas.ThreadID) schemas.Record {
	return schemas.Record{
		Thread: thread, Member: "42", Name: "alice", Door: schemas.DoorWeb, Event: schemas.EventCallEnd,
		Origin: schemas.ByAssistant, Server: "github", Tool: "create_issue", RunsAs: "42", Args: "title:12 body:340",
		Bytes: 4711, Ms: 12.5, Outcome: schemas.OutcomeOK, Receipt: "r7K3", Detail: "1 issue",
	}
}

func verify(t testing.TB, log *audit.Log, thread schemas.ThreadID) schemas.Verdict {
	t.Helper()
	v, err := log.Verify(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func logFile(root string, thread string) string { return filepath.Join(root, thread, "audit.jsonl") }

func TestAppend_RoundTrip(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{})
	texts := []string{"", "plain", "quote \" and \\", "line\nbreak\ttab\x00nul\x7f", "ümläut 漢字 😀", "bad \xff\xfe utf8",
		"bidi \u202e override", "tag \U000E0041", "\u2028\u2029", strings.Repeat("x", 300)}
	var want []schemas.Record
	for i, text := range texts {
		rec := sample("room-1")
		rec.Detail, rec.Name, rec.Bytes, rec.Ms = text, text, i, float64(i)
		rec = add(t, log, rec)
		rec.Detail = strings.ToValidUTF8(text, "\ufffd\ufffd") // two bad bytes
		rec.Name = rec.Detail
		want = append([]schemas.Record{rec}, want...)
	}
	got, err := log.Tail(t.Context(), "room-1", 100)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if v := verify(t, log, "room-1"); !v.OK || v.Records != int64(len(texts)) || v.Why != "" {
		t.Errorf("%+v", v)
	}
	data, _ := os.ReadFile(logFile(root, "room-1"))
	for _, bad := range []string{"\u202e", "\U000E0041", "\x7f", "\x00", "\u2028"} {
		if bytes.Contains(data, []byte(bad)) {
			t.Errorf("%q reached the file", bad)
		}
	}
	if info, _ := os.Stat(logFile(root, "room-1")); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
}

func TestAppend_Chain(t *testing.T) {
	log := open(t, t.TempDir(), audit.Options{})
	first, second := add(t, log, sample("a")), add(t, log, sample("a"))
	if first.Seq != 1 || first.Prev != "" || len(first.Hash) != 64 || first.At.IsZero() {
		t.Errorf("%+v", first)
	}
	if second.Seq != 2 || second.Prev != first.Hash {
		t.Errorf("%+v", second)
	}
	if other := add(t, log, sample("b")); other.Seq != 1 {
		t.Errorf("threads share a chain: %+v", other)
	}
}

func TestAppend_LongRecordIsCut(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{})
	for _, text := range []string{strings.Repeat("a", 1<<20), strings.Repeat("\x01", 1<<20), strings.Repeat("ä😀", 9000)} {
		rec := sample("a")
		rec.Detail, rec.Args = text, text
		rec = add(t, log, rec)
		line, err := json.Marshal(rec)
		if err != nil || len(rec.Detail) >= len(text) || len(line) > 20<<10 {
			t.Errorf("%d bytes of %q, %v", len(line), rec.Detail[:10], err)
		}
	}
	if v := verify(t, log, "a"); !v.OK || v.Records != 3 {
		t.Errorf("%+v", v)
	}
	data, _ := os.ReadFile(logFile(root, "a"))
	for line := range bytes.Lines(data) {
		if len(line) > 16<<10 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	rec := sample("a")
	rec.Name = strings.Repeat("n", 20<<10)
	if _, err := log.Append(t.Context(), rec); schemas.CodeOf(err) != schemas.CodeTooLarge {
		t.Error(err)
	}
}

func TestBadThreadTouchesNothing(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{})
	for _, id := range []schemas.ThreadID{"", "..", "a/b", "a\n", ".x", "-a"} {
		if _, err := log.Append(t.Context(), sample(id)); schemas.CodeOf(err) != schemas.CodeInvalid {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := log.Tail(t.Context(), id, 5); schemas.CodeOf(err) != schemas.CodeInvalid {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := log.Verify(t.Context(), id); schemas.CodeOf(err) != schemas.CodeInvalid {
			t.Errorf("%q: %v", id, err)
		}
	}
	if recs, err := log.Tail(t.Context(), "unknown", 5); recs != nil || err != nil {
		t.Error(recs, err)
	}
	if v := verify(t, log, "unknown"); !v.OK {
		t.Error(v)
	}
	if entries, _ := os.ReadDir(root); len(entries) != 0 {
		t.Error(entries)
	}
}

func TestAppend_Refuses(t *testing.T) {
	t.Run("link", func(t *testing.T) {
		root := t.TempDir()
		outside := filepath.Join(t.TempDir(), "x")
		_ = os.WriteFile(outside, nil, 0o600)
		_ = os.Mkdir(filepath.Join(root, "a"), 0o700)
		if err := os.Symlink(outside, logFile(root, "a")); err != nil {
			t.Skip(err)
		}
		_, err := open(t, root, audit.Options{}).Append(t.Context(), sample("a"))
		if schemas.CodeOf(err) != schemas.CodeMissing {
			t.Error(err)
		}
	})
	t.Run("ended context", func(t *testing.T) {
		log := open(t, t.TempDir(), audit.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := log.Append(ctx, sample("a")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestTail(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{})
	for i := range 2500 {
		rec := sample("a")
		rec.Detail = strings.Repeat("d", i%900)
		add(t, log, rec)
	}
	for _, n := range []int{-1, 0, 1, 7, 400, 1000, 5000} {
		got, err := log.Tail(t.Context(), "a", n)
		if err != nil || len(got) != max(0, min(n, 1000)) {
			t.Fatalf("%d: %d records, %v", n, len(got), err)
		}
		for i, rec := range got {
			if rec.Seq != int64(2500-i) {
				t.Fatalf("%d: place %d has record %d", n, i, rec.Seq)
			}
		}
	}
	// A flood of junk costs no memory and no records.
	f, _ := os.OpenFile(logFile(root, "a"), os.O_APPEND|os.O_WRONLY, 0)
	_, _ = f.Write(bytes.Repeat([]byte("j"), 3<<20))
	_, _ = f.WriteString("\n")
	_ = f.Close()
	got, err := log.Tail(t.Context(), "a", 3)
	if err != nil || len(got) != 3 || got[0].Seq != 2500 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestHandlesAreBounded(t *testing.T) {
	defer goleak.VerifyNone(t)
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		t.Skip(err)
	}
	log := open(t, t.TempDir(), audit.Options{Handles: 8})
	before, _ := os.ReadDir("/proc/self/fd")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				add(t, log, sample(schemas.ThreadID(fmt.Sprint("t", i%50))))
			}
		})
	}
	wg.Wait()
	after, _ := os.ReadDir("/proc/self/fd")
	if n := len(after) - len(before); n > 8 {
		t.Errorf("%d files are open", n)
	}
	for i := range 50 {
		if v := verify(t, log, schemas.ThreadID(fmt.Sprint("t", i))); !v.OK || v.Records != 32 {
			t.Errorf("%+v", v)
		}
	}
}

func TestRun_HeadAndEviction(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := t.TempDir()
	log := open(t, root, audit.Options{Handles: 1, Interval: time.Hour})
	stop := running(t, log)
	for range 3 {
		add(t, log, sample("a"))
		add(t, log, sample("b"))
	}
	stop()
	for _, id := range []string{"a", "b"} {
		data, err := os.ReadFile(filepath.Join(root, id, "audit.head"))
		if err != nil || !bytes.Contains(data, []byte(`"seq":3`)) {
			t.Errorf("%s: %s %v", id, data, err)
		}
	}
	if rec := add(t, log, sample("a")); rec.Seq != 4 {
		t.Error(rec)
	}
}

func TestLogIsReplacedOrRemoved(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{Interval: time.Hour})
	stop := running(t, log)
	for range 5 {
		add(t, log, sample("a"))
	}
	stop() // writes the head
	log = open(t, root, audit.Options{})
	add(t, log, sample("a"))
	if err := os.Remove(logFile(root, "a")); err != nil {
		t.Fatal(err)
	}
	rec := add(t, log, sample("a"))
	if rec.Seq != 6 || rec.Prev == "" {
		t.Errorf("a removed log begins anew: %+v", rec)
	}
	if v := verify(t, log, "a"); v.OK || v.Line != 1 || !strings.Contains(v.Why, "begins with record 6") {
		t.Errorf("%+v", v)
	}
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	if rec := add(t, log, sample("a")); rec.Seq != 1 || rec.Prev != "" {
		t.Errorf("a removed thread begins anew: %+v", rec)
	}
}
