package audit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// thread is what we know of one log. The fields below turn belong to whoever holds it.
type thread struct {
	id     schemas.ThreadID
	dirty  atomic.Bool  // written since the last sync
	used   atomic.Int64 // Log.clock of the last use, to close the oldest
	calls  atomic.Int64 // that have begun and not ended
	inside atomic.Int64 // who append

	mu    sync.Mutex
	queue []*entry // oldest first

	turn  chan struct{} // a mutex that can be waited for with a context
	file  *os.File      // nil while closed
	path  string
	info  fs.FileInfo // which file it is
	size  int64       // of the file when we last looked, under the lock
	tip   tip
	spare []*entry // an empty queue

	lease  time.Time // until when the lock is kept between groups; zero if it is not
	rest   time.Time // until when there is no new lease
	last   time.Time // of the last group
	streak int       // groups before it that each came soon after another
}

// tip is what the next line follows.
type tip struct {
	seq  int64 // of the last record
	hash string
	torn int64 // bytes after it that a crash left
	cut  bool  // the last byte is no newline
}

func after(rec *schemas.Record) tip { return tip{seq: rec.Seq, hash: rec.Hash} }

func (t *thread) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *thread) give() { <-t.turn }

func (t *thread) close() {
	if t.file != nil {
		t.unlock()         // closing would leave it to a child process that is just being started
		_ = t.file.Close() // what was written is in the kernel already; Run reports a failing disk
		t.file, t.info = nil, nil
	}
}

// write adds lines and says how many of their bytes are in the file. What a full disk took of them is taken back, so that an
// error means "not recorded".
func (t *thread) write(lines []byte) (stays int, err error) {
	n, err := t.file.Write(lines)
	if err != nil && n > 0 {
		if cutErr := t.file.Truncate(t.size); cutErr != nil {
			t.size = -1 // look again
			return n, errors.Join(err, cutErr)
		}
		n = 0
	}
	t.size += int64(n)
	if n > 0 {
		t.dirty.Store(true)
	}
	return n, err
}

// enter opens the thread's log if need be, locks it against other processes and brings seq and hash up to date. After nil
// the caller holds the lock of t.file.
func (l *Log) enter(ctx context.Context, t *thread, now, until time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.used.Store(l.clock.Add(1))
	if t.leased(now) {
		return nil
	}
	for range 8 { // each round after the first means that somebody replaced the file just now
		if t.file == nil {
			if err := l.openLog(t); err != nil {
				return err
			}
		}
		if err := lock(ctx, t.file, until); err != nil {
			return err
		}
		if size, same := look(t.path, t.info); same {
			if size != t.size {
				t.rest = now.Add(shareTime)
				if err := t.reload(size); err != nil {
					unlock(t.file)
					return err
				}
			}
			return nil
		}
		l.closeLog(t)
	}
	return errors.New("the file is replaced again and again")
}

func lock(ctx context.Context, f *os.File, until time.Time) error {
	ok, err := tryLock(f)
	if ok || err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	// A writer holds it for some 10 µs.
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, askTime) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		if ok, err := tryLock(f); ok || err != nil {
			return err
		}
	}
}

// openLog opens the file and forgets what was known of another one at its place.
func (l *Log) openLog(t *thread) error {
	dir, err := l.users.Sub(string(t.id))
	if err != nil {
		return err
	}
	defer dir.Close()
	// Append makes a missing file durably, and refuses links and loose modes.
	made, err := dir.Append(logName)
	if err != nil {
		return err
	}
	_ = made.Close()
	path := filepath.Join(dir.Path(), logName)
	f, info, err := openPath(path, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	head, _ := readHead(dir) // a bad one is Verify's to tell
	t.file, t.path, t.info = f, path, info
	t.size, t.tip = 0, tip{seq: head.Seq, hash: head.Hash}
	l.keep(t)
	return nil
}

// openPath opens an existing regular file.
func openPath(path string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flag|noFollow, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &durable.IrregularError{Name: logName, Mode: info.Mode().Type()}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// keep enters t into the list of open files and closes the one that was not used for longest, if there are too many.
func (l *Log) keep(t *thread) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, t)
	for tries := len(l.open); len(l.open) > l.opt.Handles && tries > 0; tries-- {
		oldest := slices.MinFunc(l.open, func(a, b *thread) int { return int(a.used.Load() - b.used.Load()) })
		if oldest == t {
			return
		}
		select {
		case oldest.turn <- struct{}{}:
			oldest.close()
			oldest.give()
			l.open = slices.DeleteFunc(l.open, func(o *thread) bool { return o == oldest })
		default:
			oldest.used.Store(l.clock.Add(1)) // in use this moment
		}
	}
}

// closeLog closes t's file; the caller holds t's turn.
func (l *Log) closeLog(t *thread) {
	t.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(o *thread) bool { return o == t })
}

// reload reads the end of the file, which has size bytes. What is known only moves forward: when records were cut off, the
// next one keeps counting, so that Verify sees the hole.
func (t *thread) reload(size int64) error {
	end, err := readEnd(t.file, size)
	if err != nil {
		return err
	}
	if end.last.Seq >= t.tip.seq {
		t.tip.seq, t.tip.hash = end.last.Seq, end.last.Hash
	}
	t.size, t.tip.torn, t.tip.cut = size, end.torn, end.cut
	return nil
}

func lstat(path string, info fs.FileInfo) (size int64, same bool) {
	now, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	return now.Size(), os.SameFile(now, info)
}
