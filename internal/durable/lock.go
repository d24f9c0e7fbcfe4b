package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a lock that another process holds is tried again.
const lockPoll = 3 * time.Millisecond

// Lock waits for the exclusive lock of name, between goroutines and between
// processes, until ctx is done; give ctx a deadline, another process may hold
// it for ever. The file called name need not exist. The lock ends with unlock,
// which may be called more than once, or with the process.
//
// The lock is flock(2) or LockFileEx on a file beside name, never on name,
// because Write puts a new file in its place. That file is never deleted: two
// processes could then lock different ones.
func (d *Dir) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	sidecar := lockName(name)
	path := filepath.Join(d.path, sidecar)
	release, err := d.locks.acquire(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("durable: lock of %q: %w", name, err)
	}
	file := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDONLY|flagNoWait|flagNoFollow), flock.SetPermissions(0o600))
	if _, err := file.TryLockContext(ctx, lockPoll); err != nil {
		release()
		return nil, fmt.Errorf("durable: lock of %q: %w", name, err)
	}
	free := sync.OnceFunc(func() {
		_ = file.Unlock() // it can only fail on a closed handle, which holds no lock
		release()
	})
	if err := d.checkSidecar(file, sidecar); err != nil {
		free()
		return nil, err
	}
	return free, nil
}

// checkSidecar refuses a lock file that is not the one in this folder: the
// library opens it by path, and the folder may have been moved or replaced.
func (d *Dir) checkSidecar(file *flock.Flock, sidecar string) error {
	locked, err := file.Stat()
	if err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	inRoot, err := d.root.Lstat(sidecar)
	if err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	if !inRoot.Mode().IsRegular() {
		return &IrregularError{Name: sidecar, Mode: inRoot.Mode().Type()}
	}
	if !os.SameFile(locked, inRoot) {
		return errors.New("durable: the folder was moved or replaced")
	}
	return nil
}

// lockTable holds the in-process half of the locks, by path. It is shared by
// the sub-folders of one Open, so that goroutines queue here instead of polling.
type lockTable struct {
	mu    sync.Mutex
	slots map[string]*lockSlot
}

type lockSlot struct {
	held  chan struct{} // capacity 1: full while held
	users int           // holder and waiters; guarded by lockTable.mu
}

func newLockTable() *lockTable { return &lockTable{slots: map[string]*lockSlot{}} }

func (t *lockTable) acquire(ctx context.Context, key string) (release func(), err error) {
	t.mu.Lock()
	slot := t.slots[key]
	if slot == nil {
		slot = &lockSlot{held: make(chan struct{}, 1)}
		t.slots[key] = slot
	}
	slot.users++
	t.mu.Unlock()

	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if slot.users--; slot.users == 0 {
			delete(t.slots, key)
		}
	}
	select {
	case slot.held <- struct{}{}:
		return func() { <-slot.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
