//go:build unix

package audit_test

import (
	"bytes"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"bobbin/audit"
	"bobbin/schemas"
)

// BenchmarkAppend compares with its floor, write(2) of a line as long: "alone" is a single writer, "same" eight writers of
// one thread, "each" eight of a thread each. µs-cpu is the processor time of a record, syncs included; µs-p99 the time that
// all but one in a hundred take at most.
func BenchmarkAppend(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		f, err := os.OpenFile(b.TempDir()+"/x", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		line := make([]byte, 450)
		clocked(b, 1, func(int) error { _, err := f.Write(line); return err })
	})
	for _, c := range []struct {
		name    string
		writers int
		threads int
	}{{"alone", 1, 1}, {"same", 8, 1}, {"each", 8, 8}} {
		b.Run(c.name, func(b *testing.B) {
			log := open(b, b.TempDir(), audit.Options{})
			stop := running(b, log)
			defer stop()
			b.ReportAllocs()
			ctx := b.Context()
			clocked(b, c.writers, func(i int) error {
				_, err := log.Append(ctx, sample(schemas.ThreadID(rune('a'+i%c.threads))))
				return err
			})
		})
	}
}

// clocked shares b.N calls of do among writers.
func clocked(b *testing.B, writers int, do func(writer int) error) {
	took := make([]time.Duration, b.N)
	before := spent(b)
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < b.N; i += writers {
				from := time.Now()
				if err := do(w); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(from)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((spent(b)-before).Nanoseconds())/float64(b.N)/1000, "µs-cpu")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "µs-p99")
}

// spent is the processor time that this process took so far.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkVerify(b *testing.B) {
	root, lines := built(b, 1000)
	log := open(b, root, audit.Options{})
	b.SetBytes(int64(len(bytes.Join(lines, nil))))
	for b.Loop() {
		if v := verify(b, log, "a"); !v.OK {
			b.Fatal(v)
		}
	}
}
