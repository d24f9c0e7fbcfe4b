package discord

import (
	"context"
	"sync"
)

// group runs a bounded number of goroutines between begin and end. It holds the context of its Run, since what starts them is an
// event, which has none.
type group struct {
	mu   sync.Mutex
	ctx  context.Context
	free int
	all  sync.WaitGroup
}

// begin opens the group; false when it was open before.
func (g *group) begin(ctx context.Context, limit int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx != nil {
		return false
	}
	g.ctx, g.free = ctx, limit
	return true
}

func (g *group) spawn(f func(context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil || g.ctx.Err() != nil || g.free == 0 {
		return false
	}
	ctx := g.ctx
	g.free--
	g.all.Go(func() {
		defer g.leave()
		f(ctx)
	})
	return true
}

func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free++
}

// end waits for all, once the context has ended. Nothing starts after it.
func (g *group) end() {
	g.mu.Lock() // who is past spawn's check is counted then
	ended := g.ctx != nil
	g.mu.Unlock()
	if ended {
		g.all.Wait()
	}
}

// lanes run work in order within a lane, and lanes beside each other. A lane holds a goroutine of the group as long as it has work.
type lanes struct {
	mu     sync.Mutex
	queues map[string][]func(context.Context) // in the map: has a goroutine
}

// add puts work at the end of a lane; false when limit waits there, or the group is full. The work must not panic.
func (l *lanes) add(g *group, key string, limit int, work func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, running := l.queues[key]
	if len(queue) >= limit {
		return false
	}
	if !running && !g.spawn(func(ctx context.Context) { l.drain(ctx, key) }) {
		return false
	}
	if l.queues == nil {
		l.queues = map[string][]func(context.Context){}
	}
	l.queues[key] = append(queue, work)
	return true
}

func (l *lanes) drain(ctx context.Context, key string) {
	for {
		l.mu.Lock()
		queue := l.queues[key]
		if len(queue) == 0 || ctx.Err() != nil {
			delete(l.queues, key)
			l.mu.Unlock()
			return
		}
		work := queue[0]
		l.queues[key] = queue[1:]
		l.mu.Unlock()
		work(ctx)
	}
}
