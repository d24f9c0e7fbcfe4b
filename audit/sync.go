package audit

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"bobbin/schemas"
)

const (
	syncers   = 4                // threads synced at a time
	lastSync  = 10 * time.Second // for the final sync
	headWaits = 2 * time.Second  // for another process that writes the head
)

// Run brings what was appended to the disk, once an interval, and after that notes the last synced record in audit.head. It
// returns nil when ctx ends, after a last sync, and closes the files; Append works on, slower and without syncs. Start it once.
func (l *Log) Run(ctx context.Context) error {
	var leases sync.WaitGroup
	leases.Go(func() { l.release(ctx) })
	defer leases.Wait()
	tick := time.NewTicker(l.opt.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.sync(ctx)
		case <-ctx.Done():
			final, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSync)
			defer cancel()
			l.sync(final)
			l.closeAll(final)
			return nil
		}
	}
}

func (l *Log) sync(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(syncers)
	l.threads.Range(func(_, value any) bool {
		t := value.(*thread)
		if t.dirty.Load() {
			group.Go(func() error {
				if err := l.syncThread(ctx, t); err != nil {
					l.opt.Log.Error("audit log not synced", "thread", t.id, "err", err)
				}
				return nil
			})
		}
		return ctx.Err() == nil
	})
	_ = group.Wait() // every error is logged where it happens
}

func (l *Log) syncThread(ctx context.Context, t *thread) error {
	if err := t.take(ctx); err != nil {
		return err
	}
	t.dirty.Store(false)
	file, path, h := t.file, t.path, head{Seq: t.tip.seq, Hash: t.tip.hash}
	t.give()
	// Without the turn: writers do not wait for the disk. A file that is closed meanwhile is synced through a new handle.
	err := os.ErrClosed
	if file != nil {
		err = file.Sync()
	}
	if errors.Is(err, os.ErrClosed) {
		err = syncPath(path)
	}
	if err != nil {
		l.distrust(ctx, t)
		return err
	}
	return l.writeHead(ctx, t.id, h)
}

func syncPath(path string) error {
	f, _, err := openPath(path, os.O_RDWR)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// distrust drops the handle: after a failed sync nothing is known about what it wrote, so the next record looks at the file.
func (l *Log) distrust(ctx context.Context, t *thread) {
	if t.take(ctx) == nil {
		l.closeLog(t)
		t.give()
	}
}

// writeHead never takes the head back: another process may be further.
func (l *Log) writeHead(ctx context.Context, id schemas.ThreadID, h head) error {
	if !l.users.Has(string(id)) {
		return nil // the thread was deleted
	}
	ctx, cancel := context.WithTimeout(ctx, headWaits)
	defer cancel()
	dir, err := l.users.Sub(string(id))
	if err != nil {
		return err
	}
	defer dir.Close()
	release, err := dir.Lock(ctx, headName)
	if err != nil {
		return err
	}
	defer release()
	now, err := readHead(dir)
	if err == nil && now.Seq >= h.Seq {
		return nil
	}
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return dir.Write(headName, append(data, '\n'))
}

func (l *Log) closeAll(ctx context.Context) {
	l.threads.Range(func(_, value any) bool {
		l.distrust(ctx, value.(*thread))
		return ctx.Err() == nil
	})
}
