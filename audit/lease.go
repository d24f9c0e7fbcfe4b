package audit

import (
	"context"
	"time"
)

// While records keep coming, the lock is kept from one to the next: two flock(2) and a look at the file's name cost more than
// the write(2) itself. A lease is short and followed by a time in which every group locks for itself, and whoever waits for
// the lock asks for it more often than that. Once another process is seen to write, there are none for a while.
const (
	leaseTime = 2 * time.Millisecond
	restTime  = leaseTime / 4
	askTime   = restTime / 2
	shareTime = 100 * time.Millisecond
	busy      = 4 // groups that each came within leaseTime of the one before
)

// release ends leases in time. There are leases only while it runs.
func (l *Log) release(ctx context.Context) {
	held := map[*thread]bool{}
	expire := func() {
		for t := range held {
			if t.expire() {
				delete(held, t)
			}
		}
	}
	tick := time.NewTimer(leaseTime)
	defer tick.Stop()
	for {
		select {
		case t := <-l.leases:
			if held[t] = true; len(held) == 1 {
				tick.Reset(leaseTime)
			}
		case <-tick.C:
			if expire(); len(held) > 0 {
				tick.Reset(restTime)
			}
		case <-ctx.Done():
			<-time.After(leaseTime) // then all are over: a thread whose turn is taken now sees to it itself
			expire()
			return
		}
	}
}

// expire reports whether t has no lease any more. It waits for nothing.
func (t *thread) expire() bool {
	select {
	case t.turn <- struct{}{}:
		defer t.give()
		return !t.leased(time.Now())
	default:
		return false
	}
}

// leased reports whether the lock is held by a lease, and ends one that is over. The caller has the turn.
func (t *thread) leased(now time.Time) bool {
	if t.lease.IsZero() {
		return false
	}
	if now.Before(t.lease) {
		return true
	}
	t.unlock()
	return false
}

// unlock ends the lease, too.
func (t *thread) unlock() {
	t.lease = time.Time{}
	unlock(t.file)
}

// keepLock keeps the lock or gives it back, after a group that was begun at now.
func (l *Log) keepLock(t *thread, now time.Time) {
	if t.streak++; now.Sub(t.last) > leaseTime {
		t.streak = 0
	}
	t.last = now
	switch {
	case t.size < 0: // the next one has to look at the file
	case !t.lease.IsZero():
		return
	case t.streak >= busy && now.After(t.rest):
		t.lease = now.Add(leaseTime)
		t.rest = t.lease.Add(restTime)
		select {
		case l.leases <- t:
			return
		default: // nobody is there to end it in time
		}
	}
	t.unlock()
}
