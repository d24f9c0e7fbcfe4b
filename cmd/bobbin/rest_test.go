package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestGiveBack has memory that nobody holds any more go back to the system, though the collector has no reason of its own to look.
func TestGiveBack(t *testing.T) {
	const size = 64 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	released := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	work := make([]byte, size)
	for i := range work {
		work[i] = 1
	}
	runtime.KeepAlive(work)
	before := released()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- giveBack(ctx, 10*time.Millisecond) }()
	for deadline := time.Now().Add(patience); released() < before+size/2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d MiB were in use, only %d went back", size>>20, (released()-before)>>20)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
