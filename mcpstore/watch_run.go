package mcpstore

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"bobbin/schemas"

	"github.com/fsnotify/fsnotify"
)

// How long a thread's files must be quiet before they are read.
const (
	quietRename = 7 * time.Millisecond   // a whole file was put in place
	quietWrite  = 20 * time.Millisecond  // somebody writes
	quietBroken = 300 * time.Millisecond // what is there cannot be read: perhaps the rest is still to come
	quietGone   = 100 * time.Millisecond // a file is gone: some editors delete before they write
	longest     = 500 * time.Millisecond // from the first event, however busy the writer
	pause       = 2 * time.Millisecond   // after an event of neighbour
	neighbour   = "audit.jsonl"          // lies beside our files and is written at every call
	longBroken  = 2 * time.Second
)

// eventSource tells about changes in folders.
type eventSource struct {
	add, remove func(path string) error
	close       func() error
	events      <-chan fsnotify.Event
	errors      <-chan error
}

func openEvents() (eventSource, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return eventSource{}, err
	}
	return eventSource{add: w.Add, remove: w.Remove, close: w.Close, events: w.Events, errors: w.Errors}, nil
}

// Run watches the files of all threads until ctx ends and then returns nil. notify is called from this goroutine, one call at
// a time: after every commit and rule of this process at once, and after a change by another hand within milliseconds, or,
// where the system gives no events, within Options.Rescan. A second Run at the same time is an error.
func (s *Store) Run(ctx context.Context, notify func(context.Context, schemas.Edited)) error {
	if notify == nil {
		return errors.New("mcpstore: nobody to notify")
	}
	if !s.news.start(s.opt.Now()) {
		return errors.New("mcpstore: the watcher runs already")
	}
	defer s.news.stop()
	w := &watch{store: s, watched: map[schemas.ThreadID]bool{}, due: map[schemas.ThreadID]due{}}
	w.open()
	defer w.shut()
	w.scan(ctx)
	s.news.setScanned()
	rescan := time.NewTicker(s.opt.Rescan)
	defer rescan.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for _, e := range s.news.take() {
			notify(ctx, e)
		}
		events, wait := w.source.events, w.next()
		if rest := time.Until(w.deaf); rest > 0 {
			events, wait = nil, min(wait, rest)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-s.news.signal:
		case e, ok := <-events:
			if !ok {
				w.degrade(errors.New("the event source closed"))
				continue
			}
			w.see(e)
		case err := <-w.source.errors:
			w.fail(ctx, err)
		case <-rescan.C:
			w.scan(ctx)
		case <-timer.C:
			w.drain()
			w.act(ctx, time.Now())
		}
	}
}

// watch is the state of one Run.
type watch struct {
	store   *Store
	source  eventSource // zero without events: its channels are nil and never ready
	watched map[schemas.ThreadID]bool
	due     map[schemas.ThreadID]due
	limited bool // the system gives no more watches; said once
	// deaf is until when no event is taken. Were each write of the audit log heard at once, every call would wake this goroutine
	// twice. Unheard, the kernel folds them into one.
	deaf time.Time
}

// due is when a thread's files are read.
type due struct{ first, last, at time.Time }

func (w *watch) open() {
	source, err := w.store.opt.events()
	if err != nil {
		w.degrade(err)
		return
	}
	w.source = source
	if err := source.add(w.store.users.Path()); err != nil {
		w.degrade(err)
	}
}

func (w *watch) shut() {
	if w.source.close != nil {
		_ = w.source.close() // nothing is read from it any more
	}
	w.source = eventSource{}
}

// degrade goes on with the slow comparison alone.
func (w *watch) degrade(err error) {
	w.shut()
	w.store.opt.Log.Warn("no file events: changes by hand are seen more slowly", "every", w.store.opt.Rescan, "err", err)
}

func (w *watch) fail(ctx context.Context, err error) {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		w.scan(ctx)
		return
	}
	if err != nil {
		w.store.opt.Log.Warn("file events", "err", err)
	}
}

// scan watches new folders and looks for changes that no event told of. A folder is watched before it is looked at.
func (w *watch) scan(ctx context.Context) {
	s := w.store
	ids, err := s.list()
	if err != nil {
		s.opt.Log.Warn("the threads cannot be listed", "err", err)
	}
	present := make(map[schemas.ThreadID]bool, len(ids))
	retry := true
	for _, id := range ids {
		if ctx.Err() != nil {
			return
		}
		present[id] = true
		if !w.watched[id] && retry {
			retry = w.add(id)
		}
		w.compare(id)
	}
	s.mu.Lock()
	var gone []schemas.ThreadID
	for id := range s.threads {
		if !present[id] {
			gone = append(gone, id)
		}
	}
	s.mu.Unlock()
	for _, id := range gone {
		w.compare(id)
	}
}

// add reports whether the system watches the thread's folder.
func (w *watch) add(id schemas.ThreadID) bool {
	if w.source.add == nil {
		return false
	}
	if err := w.source.add(filepath.Join(w.store.users.Path(), string(id))); err != nil {
		if !w.limited {
			w.limited = true
			w.store.opt.Log.Warn("no file events for some threads: changes by hand are seen more slowly",
				"every", w.store.opt.Rescan, "thread", id, "err", err)
		}
		return false
	}
	w.watched[id] = true
	return true
}

// compare looks at the stamps of a thread and reads it only when they changed.
func (w *watch) compare(id schemas.ThreadID) {
	t := w.store.thread(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	marks := w.store.stamps(id).marks()
	if _, scanned := w.store.news.state(); !t.isSeen && !scanned {
		t.isSeen, t.watched = true, marks
		if t.snap == nil {
			return
		}
		t.told, t.watched = t.snap, t.stamps.marks() // what was loaded before the watcher began
	}
	if marks != t.watched {
		w.schedule(id, quietRename)
	}
}

// see sorts an event. Only the store's own files count: editors make others beside them.
func (w *watch) see(e fsnotify.Event) {
	folder, name := filepath.Split(e.Name)
	folder = filepath.Clean(folder)
	if folder == w.store.users.Path() {
		w.seeFolder(schemas.ThreadID(name), e)
		return
	}
	id := schemas.ThreadID(filepath.Base(folder))
	if _, ours := fileIndex(name); !ours || !id.Valid() || filepath.Dir(folder) != w.store.users.Path() {
		if name == neighbour {
			w.deaf = time.Now().Add(pause)
		}
		return
	}
	if e.Has(fsnotify.Create) {
		w.schedule(id, quietRename)
		return
	}
	w.schedule(id, quietWrite)
}

func (w *watch) seeFolder(id schemas.ThreadID, e fsnotify.Event) {
	switch {
	case !id.Valid():
	case e.Has(fsnotify.Create):
		w.add(id)
		w.schedule(id, quietWrite)
	case e.Has(fsnotify.Remove), e.Has(fsnotify.Rename):
		if w.watched[id] {
			delete(w.watched, id)
			_ = w.source.remove(e.Name) // a removed folder has lost its watch already
		}
		w.schedule(id, quietWrite)
	}
}

// schedule plans to read a thread when it has been quiet. The first event sets the wait, later ones start it again.
func (w *watch) schedule(id schemas.ThreadID, quiet time.Duration) {
	now := time.Now()
	d, waits := w.due[id]
	if !waits {
		w.due[id] = due{first: now, last: now, at: now.Add(quiet)}
		return
	}
	d.last = now
	d.at = now.Add(quietWrite)
	if end := d.first.Add(longest); d.at.After(end) {
		d.at = end
	}
	w.due[id] = d
}

// drain takes in the events that wait already: they may put off what seems due.
func (w *watch) drain() {
	for range 1000 {
		select {
		case e, ok := <-w.source.events:
			if !ok {
				return
			}
			w.see(e)
		default:
			return
		}
	}
}

// next is the time until the earliest thread is due.
func (w *watch) next() time.Duration {
	wait := time.Hour
	for _, d := range w.due {
		wait = min(wait, time.Until(d.at))
	}
	return max(wait, 0)
}

func (w *watch) act(ctx context.Context, now time.Time) {
	for id, d := range w.due {
		if d.at.After(now) {
			continue
		}
		if later, wait := w.check(ctx, id, d, now); wait {
			w.due[id] = later
		} else {
			delete(w.due, id)
			w.store.endLoansOf(ctx, w.store.thread(id))
		}
	}
}

// check reads a thread and queues what changed. A file that has just become unreadable or vanished gets more time first.
func (w *watch) check(ctx context.Context, id schemas.ThreadID, d due, now time.Time) (due, bool) {
	t := w.store.thread(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	snap, err := w.store.refresh(t, false)
	if err != nil {
		w.store.opt.Log.Warn("a thread cannot be read", "thread", id, "err", err)
		return due{}, false
	}
	if newest := t.stamps.newest(); newest.After(d.last) && now.After(newest) && now.Sub(newest) < quietWrite && now.Sub(d.first) < longest {
		d.last, d.at = newest, newest.Add(quietWrite) // its event is still on the way
		return d, true
	}
	if quiet := patience(t.told, snap); now.Sub(d.last) < quiet && now.Sub(d.first) < longBroken {
		d.at = d.last.Add(quiet)
		return d, true
	}
	if t.told == nil || t.told.sums != snap.sums {
		free, busy := w.store.hold(ctx, id)
		defer free()
		again, err := w.store.refresh(t, false)
		half, limit := busy || err != nil || again.sums != snap.sums, longest
		if busy {
			limit = longBroken // it goes on and on
		}
		if half && now.Sub(d.first) < limit {
			d.at = now.Add(quietWrite) // another bobbin is at it: what stands there is half of it
			return d, true
		}
		if !busy && err == nil {
			snap = again
		}
	}
	w.store.seeOutside(t, snap)
	return due{}, false
}

// hold keeps other bobbins from writing a thread's files; busy: one of them is just writing. The caller holds t.mu, which
// writers of this process take second: the wait is short enough to be no lock.
func (s *Store) hold(ctx context.Context, id schemas.ThreadID) (free func(), busy bool) {
	free = func() {}
	if !s.users.Has(string(id)) {
		return free, false
	}
	dir, err := s.users.Sub(string(id))
	if err != nil {
		return free, false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	unlock, err := dir.Lock(ctx, fileName(fileLocal))
	if err != nil {
		dir.Close()
		return free, errors.Is(err, context.DeadlineExceeded)
	}
	return func() { unlock(); dir.Close() }, false
}

// patience is how long the files must have been quiet to believe in what was read.
func patience(was, now *snapshot) time.Duration {
	if was != nil && was.sums == now.sums {
		return 0
	}
	if now.broken != [fileCount]bool{} {
		return quietBroken
	}
	for i, sum := range now.sums {
		if was != nil && sum == "" && was.sums[i] != "" {
			return quietGone
		}
	}
	return 0
}
