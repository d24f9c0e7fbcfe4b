package sandbox

import (
	"context"
	"sync"
)

// marks ends what carries the mark of a child that is gone. One look at all processes serves every child that asked before
// it began, so that many ends cost few looks.
type marks struct {
	mu     sync.Mutex // held during a look
	wanted sync.Map   // id → struct{}
}

func (m *marks) end(id string) {
	m.wanted.Store(id, struct{}{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.wanted.Load(id); !ok {
		return // the look that we waited for was for us, too
	}
	ids := map[string]bool{}
	m.wanted.Range(func(id, _ any) bool {
		ids[id.(string)] = true
		m.wanted.Delete(id)
		return true
	})
	endMarked(nil, func(id string) bool { return ids[id] })
}

// Sweep ends what a killed bobbin left running: processes of this user whose mark names a bobbin that no longer lives. It
// returns how many it ended. Call it once at start. Only Linux has marks; elsewhere it does nothing.
func (p *Process) Sweep(ctx context.Context) int {
	n := endMarked(ctx.Done(), abandoned)
	if n > 0 {
		p.log.Warn("ended servers of a bobbin that was killed", "processes", n)
	}
	return n
}
