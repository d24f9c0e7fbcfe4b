package registry

import (
	"context"
	"sync"
	"sync/atomic"
)

// meter counts and bounds the calls of one server; it outlives restarts.
type meter struct {
	calls atomic.Int64
	// Changes that the server announced of its lists.
	resources, prompts atomic.Int64

	mu      sync.Mutex
	follows map[string]map[chan struct{}]struct{} // who wants to hear of a resource's updates, by its address
	slots   chan struct{}
}

func newMeter(limit int) *meter { return &meter{slots: make(chan struct{}, limit)} }

// take waits for a free slot, at most until ctx ends.
func take(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
