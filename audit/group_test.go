//go:build unix

package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/audit"
	"bobbin/schemas"
)

// queued is how long a goroutine gets to stand in the queue.
const queued = 30 * time.Millisecond

func details(t *testing.T, log *audit.Log) (all []string) {
	t.Helper()
	recs, err := log.Tail(t.Context(), "a", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		all = append(all, rec.Detail)
	}
	slices.Sort(all)
	return all
}

// appending starts to append a record with that detail.
func appending(ctx context.Context, log *audit.Log, detail string) <-chan error {
	done := make(chan error, 1)
	go func() {
		rec := sample("a")
		rec.Detail = detail
		_, err := log.Append(ctx, rec)
		done <- err
	}()
	time.Sleep(queued)
	return done
}

func TestAppend_EndedWhileQueued(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{})
	add(t, log, sample("a"))
	release := hold(t, root)
	first := appending(t.Context(), log, "first")
	ctx, cancel := context.WithCancel(t.Context())
	gone := appending(ctx, log, "gone")
	second := appending(t.Context(), log, "second")
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	release()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	if got := details(t, log); !slices.Equal(got, []string{"1 issue", "first", "second"}) {
		t.Error(got)
	}
	if v := verify(t, log, "a"); !v.OK || v.Records != 3 {
		t.Errorf("%+v", v)
	}
}

// The one who writes for all gives up: the others go on, each until its own end.
func TestAppend_FirstInQueueEnds(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{})
	add(t, log, sample("a"))
	release := hold(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	first := appending(ctx, log, "first")
	second := appending(t.Context(), log, "second")
	third := appending(t.Context(), log, "third")
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	release()
	if err := errors.Join(<-second, <-third); err != nil {
		t.Error(err)
	}
	if got := details(t, log); !slices.Equal(got, []string{"1 issue", "second", "third"}) {
		t.Error(got)
	}
}

// Whenever callers give up: what was told as recorded is in the log, and nothing else is.
func TestAppend_EveryoneIsToldTheTruth(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := t.TempDir()
	var logs [2]*audit.Log // two handles are as two processes
	for i := range logs {
		logs[i] = open(t, root, audit.Options{})
		defer running(t, logs[i])()
	}
	var mu sync.Mutex
	told, refused := map[string]bool{}, 0
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*w%50)*20*time.Microsecond)
				rec := sample("a")
				rec.Detail = fmt.Sprint(w, " ", i)
				_, err := logs[w%2].Append(ctx, rec)
				cancel()
				mu.Lock()
				switch {
				case err == nil:
					told[rec.Detail] = true
				case errors.Is(err, context.DeadlineExceeded):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Log(len(told), "recorded,", refused, "refused")
	if len(told) == 0 || refused == 0 {
		t.Fatal("everything went one way")
	}
	data, err := os.ReadFile(logFile(root, "a"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var rec schemas.Record
		if err := json.Unmarshal(line, &rec); err != nil || !told[rec.Detail] {
			t.Fatalf("%q, %v", line, err)
		}
		delete(told, rec.Detail)
	}
	if v := verify(t, logs[0], "a"); len(told) > 0 || !v.OK {
		t.Errorf("lost: %v, %+v", told, v)
	}
}

func TestAppend_TooLongAmongOthers(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{})
	add(t, log, sample("a"))
	release := hold(t, root)
	var others []<-chan error
	for i := range 20 { // more than one write(2) takes
		others = append(others, appending(t.Context(), log, fmt.Sprint(i, string(bytes.Repeat([]byte("x"), 12<<10)))))
		if i == 10 {
			rec := sample("a")
			rec.Name = string(bytes.Repeat([]byte("n"), 20<<10))
			long := make(chan error, 1)
			go func() { _, err := log.Append(t.Context(), rec); long <- err }()
			defer func() {
				if err := <-long; schemas.CodeOf(err) != schemas.CodeTooLarge {
					t.Error(err)
				}
			}()
		}
	}
	release()
	for _, done := range others {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if v := verify(t, log, "a"); !v.OK || v.Records != 21 {
		t.Errorf("%+v", v)
	}
}

// Whoever waits for a writer that breaks is told, and the log works on.
func TestAppend_WriterPanics(t *testing.T) {
	root := t.TempDir()
	var breaks bool
	log := open(t, root, audit.Options{Now: func() time.Time {
		if breaks {
			panic("broken clock")
		}
		return time.Now()
	}})
	add(t, log, sample("a"))
	breaks = true
	release := hold(t, root)
	broken := make(chan any, 1)
	go func() {
		defer func() { broken <- recover() }()
		_, _ = log.Append(t.Context(), sample("a"))
	}()
	time.Sleep(queued)
	other := appending(t.Context(), log, "other")
	release()
	if got := <-broken; got != "broken clock" {
		t.Error(got)
	}
	if err := <-other; schemas.CodeOf(err) != schemas.CodeMissing {
		t.Error(err)
	}
	breaks = false
	if rec := add(t, log, sample("a")); rec.Seq != 2 {
		t.Error(rec)
	}
}

// fullGroup appends eight records at once where there is room for three, then again with room for all, and tells each one's fate.
func fullGroup(log *audit.Log, root string) {
	append8 := func(try string) {
		release, err := lockAs(root)
		if err != nil {
			panic(err)
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				rec := sample("a")
				rec.Detail = fmt.Sprint(try, i)
				_, err := log.Append(context.Background(), rec)
				fmt.Println(rec.Detail, schemas.CodeOf(err))
			})
		}
		time.Sleep(queued)
		release()
		wg.Wait()
	}
	_, _ = log.Append(context.Background(), sample("a"))
	info, _ := os.Stat(logFile(root, "a"))
	limit(uint64(info.Size()) * 4)
	append8("small")
	limit(1 << 30)
	append8("large")
}

func TestAppend_DiskFullInAGroup(t *testing.T) {
	root := t.TempDir()
	out, err := child(t, root, "full group").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	told, lines := map[string]bool{"1 issue": true}, 0
	for line := range bytes.Lines(out) {
		var detail, code string
		if n, _ := fmt.Sscan(string(line), &detail, &code); n == 1 {
			told[detail] = true
		} else if code != string(schemas.CodeMissing) {
			t.Errorf("%q", line)
		}
		lines++
	}
	t.Logf("%s", out)
	log := open(t, root, audit.Options{})
	for _, detail := range details(t, log) {
		if !told[detail] {
			t.Errorf("%q is in the log, though its writer was told that it is not", detail)
		}
		delete(told, detail)
	}
	if len(told) > 0 || lines != 16 {
		t.Errorf("%d lines, told but not in the log: %v\n%s", lines, told, out)
	}
	if v := verify(t, log, "a"); !v.OK || v.Why != "" {
		t.Errorf("%+v", v)
	}
}

// share appends from eight goroutines for a while and tells how many records that were and how long the slowest took.
func share(log *audit.Log) {
	ctx, cancel := context.WithCancel(context.Background())
	var run, writers sync.WaitGroup
	run.Go(func() { _ = log.Run(ctx) })
	var mu sync.Mutex
	n, slowest := 0, time.Duration(0)
	end := time.Now().Add(2 * time.Second)
	for range 8 {
		writers.Go(func() {
			for time.Now().Before(end) {
				from := time.Now()
				if _, err := log.Append(ctx, sample("a")); err != nil {
					panic(err)
				}
				mu.Lock()
				n, slowest = n+1, max(slowest, time.Since(from))
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	cancel()
	run.Wait()
	fmt.Println(n, slowest.Milliseconds())
}

func TestAppend_ProcessesShare(t *testing.T) {
	root := t.TempDir()
	var wg sync.WaitGroup
	var counts, slowest [4]int
	for i := range counts {
		wg.Go(func() {
			out, err := child(t, root, "share").CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if _, err := fmt.Sscan(string(out), &counts[i], &slowest[i]); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	t.Log("records", counts, "slowest in ms", slowest)
	sum := 0
	for i, n := range counts {
		sum += n
		if n < slices.Max(counts[:])/20 || slowest[i] > 2000 {
			t.Errorf("process %d starves: records %v, slowest in ms %v", i, counts, slowest)
		}
	}
	if v := verify(t, open(t, root, audit.Options{}), "a"); !v.OK || v.Records != int64(sum) {
		t.Errorf("%+v, but %d records were told", v, sum)
	}
}

// Another process does not wait for long while one writes all the time, nor after it has stopped.
func TestLease_OthersGetTheirTurn(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := t.TempDir()
	log, other := open(t, root, audit.Options{}), open(t, root, audit.Options{}) // a handle of its own is as another process
	stop := running(t, log)
	defer stop()
	for range 3 {
		for range 100 {
			add(t, log, sample("a"))
		}
		from := time.Now()
		add(t, other, sample("a"))
		if took := time.Since(from); took > time.Second {
			t.Error("after the last record of the one, the other waited", took)
		}
		time.Sleep(120 * time.Millisecond) // the other is forgotten
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for ctx.Err() == nil {
				add(t, log, sample("a"))
			}
		})
	}
	var took time.Duration
	for range 10 {
		time.Sleep(120 * time.Millisecond)
		from := time.Now()
		add(t, other, sample("a"))
		took += time.Since(from)
	}
	cancel()
	writers.Wait()
	if took > 500*time.Millisecond { // starved, one of them waits 5 s
		t.Error("while one wrote all the time, the other waited for its ten records", took)
	}
	stop()
	for range 100 {
		add(t, log, sample("a"))
	}
	add(t, other, sample("a"))
	if v := verify(t, log, "a"); !v.OK {
		t.Errorf("%+v", v)
	}
}
