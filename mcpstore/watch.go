package mcpstore

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"bobbin/schemas"
)

// news holds what the watcher has to tell until its one goroutine does. Without a watcher nothing is kept.
type news struct {
	signal chan struct{} // one token while something waits

	mu      sync.Mutex
	running bool
	began   time.Time
	scanned bool // the watcher has looked at every folder once
	order   []schemas.ThreadID
	waiting map[schemas.ThreadID]schemas.Edited
}

func (n *news) start(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running {
		return false
	}
	n.running, n.began = true, now
	return true
}

// since is when the watcher began.
func (n *news) since() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.began
}

func (n *news) setScanned() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.scanned = true
}

func (n *news) state() (running, scanned bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running, n.scanned
}

func (n *news) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running, n.scanned, n.order = false, false, nil
	clear(n.waiting)
}

// add keeps an edit to be told. Edits of one thread that were not told yet become one.
func (n *news) add(e schemas.Edited) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running {
		return
	}
	old, waits := n.waiting[e.Thread]
	if waits {
		switch { // what nobody is known for stays so
		case !e.Outside || e.By == nil && !speaks(e):
			e.By = old.By
		case old.Outside && old.By == nil && speaks(old):
			e.By = nil
		}
		e.Outside = e.Outside || old.Outside
		e.Policy = e.Policy || old.Policy
		e.Removed = union(old.Removed, e.Removed)
		if len(e.Waiting) == 0 {
			e.Waiting = old.Waiting
		}
		if len(e.Problems) == 0 {
			e.Problems = old.Problems
		}
	} else {
		n.order = append(n.order, e.Thread)
	}
	n.waiting[e.Thread] = e
	select {
	case n.signal <- struct{}{}:
	default:
	}
}

func speaks(e schemas.Edited) bool {
	return e.Policy || len(e.Removed)+len(e.Waiting)+len(e.Problems) > 0
}

func union(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(slices.Clone(a), x)
		}
	}
	return a
}

func (n *news) take() []schemas.Edited {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]schemas.Edited, len(n.order))
	for i, id := range n.order {
		all[i] = n.waiting[id]
	}
	n.order = nil
	clear(n.waiting)
	return all
}

// marks are stamps in 16 bytes, for threads of which nothing else is kept.
func (a stamps) marks() (m [fileCount]uint32) {
	for i, info := range a {
		if info == nil {
			continue
		}
		h := fnv.New32a()
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:8], uint64(info.Size()))
		binary.LittleEndian.PutUint64(b[8:], uint64(info.ModTime().UnixNano()))
		h.Write(b[:])
		m[i] = h.Sum32() | 1 // 0 is a missing file
	}
	return m
}

// seeOutside queues what others did to the thread since it was last told. The caller holds t.mu.
func (s *Store) seeOutside(t *thread, snap *snapshot) {
	if _, scanned := s.news.state(); !t.isSeen && !scanned {
		return
	}
	t.isSeen = true // with no marks: the folder is newer than the watcher
	was, marks := t.told, t.stamps.marks()
	policy := t.watched[filePolicy] != marks[filePolicy]
	changed := t.watched != marks
	if was != nil {
		changed, policy = was.sums != snap.sums, was.sums[filePolicy] != snap.sums[filePolicy]
	}
	t.watched, t.told = marks, snap
	if changed {
		by := s.author(t, snap)
		if by != nil && policy && was != nil && sameRules(was.cfg.Policy, snap.cfg.Policy) {
			policy = false // a commit takes back what was granted to an earlier server of that name
		}
		s.news.add(schemas.Edited{
			Thread: t.id, Outside: true, Policy: policy, By: by,
			Removed: removed(was, snap), Waiting: waiting(was, snap), Problems: newProblems(was, snap),
		})
	}
}

// sameRules reports whether two policies differ in grants at most.
func sameRules(a, b schemas.Policy) bool {
	same := func(x, y schemas.Rules) bool {
		return slices.Equal(x.Allow, y.Allow) && slices.Equal(x.Ask, y.Ask) && slices.Equal(x.Deny, y.Deny)
	}
	return same(a.Thread, b.Thread) && maps.EqualFunc(a.Members, b.Members, same)
}

// ownWrite makes this process's own change known, so that its echo is silent. The caller holds t.mu.
func (s *Store) ownWrite(t *thread, snap *snapshot) {
	if running, _ := s.news.state(); running || t.isSeen {
		t.isSeen, t.watched, t.told = true, t.stamps.marks(), snap
	}
}

// removed names servers that are gone. Of a thread that was never looked at, the approved ones are known from its state.
func removed(was, now *snapshot) []string {
	present := map[string]bool{}
	for _, e := range now.cfg.Entries {
		present[e.Name] = true
	}
	var gone []string
	if was == nil {
		for _, name := range slices.Sorted(maps.Keys(now.state)) {
			if !present[name] && len(now.state[name].Approvals) > 0 {
				gone = append(gone, name)
			}
		}
		return gone
	}
	for _, e := range was.cfg.Entries {
		if !present[e.Name] && !slices.Contains(gone, e.Name) {
			gone = append(gone, e.Name)
		}
	}
	return gone
}

// waiting lists definitions that wait for approval and did not wait in this form before.
func waiting(was, now *snapshot) []schemas.Change {
	known := map[string]bool{}
	key := func(e schemas.Entry) string { return string(e.Kind) + " " + e.Name + " " + e.Fingerprint() }
	if was != nil {
		for _, e := range was.cfg.Entries {
			if e.Pending() {
				known[key(e)] = true
			}
		}
	}
	var all []schemas.Change
	for _, e := range now.cfg.Entries {
		if !e.Pending() || e.Shadowed || known[key(e)] {
			continue
		}
		after := canonical(e.Server)
		c := schemas.Change{Server: e.Name, Kind: schemas.Added, After: &after, Owner: e.Owner, Remote: e.Kind == schemas.Connector}
		if e.Approval != nil {
			before := canonical(e.Approval.Definition)
			before.Name = e.Name
			c.Kind, c.Before, c.Fields = schemas.Changed, &before, fields(before, after)
		}
		all = append(all, c)
	}
	return all
}

func newProblems(was, now *snapshot) schemas.Problems {
	if was != nil && slices.Equal(was.cfg.Problems, now.cfg.Problems) && was.sums == now.sums {
		return nil
	}
	return now.cfg.Problems
}
