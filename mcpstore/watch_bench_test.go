package mcpstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

// BenchmarkRun_RenameToNotify is goal G6's first part: a whole file put in place until the watcher has told of it.
func BenchmarkRun_RenameToNotify(b *testing.B) {
	r := open(b, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo")))
	l := watch(b, r)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		r.replace("mcp.json", local("a", fmt.Sprint(`"`, i, `"`)))
		l.next()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkOpen_10000Threads is a start with many configured threads, until the watcher sees changes.
func BenchmarkOpen_10000Threads(b *testing.B) {
	path := b.TempDir()
	text := []byte(local("a", ""))
	for i := range 10_000 {
		dir := filepath.Join(path, fmt.Sprintf("T%05d", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"mcp.json", "state.json"} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		r := openAt(b, path, mcpstore.Options{})
		opened := time.Since(start)
		ctx, cancel := context.WithCancel(b.Context())
		told := make(chan schemas.Edited, 10)
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx, func(_ context.Context, e schemas.Edited) { told <- e }) }()
		by := chief
		by.Thread = "T00000"
		for ready := false; !ready; {
			if err := r.Rule(ctx, by.Thread, func(*schemas.Policy) error { return nil }); err != nil {
				b.Fatal(err)
			}
			select {
			case <-told:
				ready = true
			case <-time.After(time.Millisecond):
			}
		}
		b.ReportMetric(float64(opened.Milliseconds()), "open-ms")
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ready-ms")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		cancel()
		<-done
	}
}
