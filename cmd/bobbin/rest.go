package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	restLook  = 5 * time.Second
	restNoise = 256 << 10 // bytes that are allocated between two looks while bobbin rests: signs of life, a scrape of its metrics
	restWorth = 2 << 20   // bytes allocated since memory was given back, below which it is not worth the work
)

// giveBack returns the memory that work has left behind to the system, whenever there is no more work: the start of many servers leaves
// ten times what they need, and without calls the collector, whose turn comes with allocations, does not look for minutes. A look costs
// microseconds, giving back a few milliseconds.
func giveBack(ctx context.Context, every time.Duration) error {
	look := time.NewTicker(every)
	defer look.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	var last, given uint64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		metrics.Read(sample)
		now := sample[0].Value.Uint64()
		if now-last <= restNoise && now-given >= restWorth {
			runtime.GC() // pools keep what they hold over one collection, and each halves the stacks that have become too large
			debug.FreeOSMemory()
			given = now
		}
		last = now
	}
}
