package mcpstore

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// Options of a Store. Zero values mean the defaults.
type Options struct {
	Now    func() time.Time // time.Now
	Rescan time.Duration    // how often files are compared without an event; 30 s
	Log    *slog.Logger     // slog.DiscardHandler
	// Admin gives the definition of an operator's server for a thread that attached it; false when there is none, or no more for
	// that thread. It is called for every Load of such a thread, and must be quick. nil: there are no operator's servers here.
	Admin func(schemas.ThreadID, string, schemas.Attachment) (schemas.Server, bool)

	servers int // servers a file may hold; config.MaxServers
	// events opens the source of file events; tests make it fail.
	events func() (eventSource, error)
}

// Store keeps what threads want: their servers, approvals, rules and history. It is safe for concurrent use by goroutines and,
// on one machine, by processes.
type Store struct {
	users *durable.Dir
	opt   Options
	tags  tagger
	news  news

	mu      sync.Mutex
	threads map[schemas.ThreadID]*thread
}

// Open takes the folder that holds one folder per thread. It removes what killed writers left behind and reads no
// configuration.
func Open(users *durable.Dir, opt Options) (*Store, error) {
	if users == nil {
		return nil, errors.New("mcpstore: no folder for the threads")
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Rescan <= 0 {
		opt.Rescan = 30 * time.Second
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.servers <= 0 {
		opt.servers = config.MaxServers
	}
	if opt.events == nil {
		opt.events = openEvents
	}
	s := &Store{
		users: users, opt: opt, threads: map[schemas.ThreadID]*thread{},
		tags: tagger{key: make([]byte, 32)}, news: news{signal: make(chan struct{}, 1), waiting: map[schemas.ThreadID]schemas.Edited{}},
	}
	rand.Read(s.tags.key) //nolint:errcheck // crypto/rand.Read never returns an error
	ids, err := s.list()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		s.sweep(id)
	}
	return s, nil
}

// sweep removes temporary files of killed writers. The folder is opened only when its names say that there are some, because
// most of thousands of folders have none.
func (s *Store) sweep(id schemas.ThreadID) {
	for _, parts := range [][]string{{string(id)}, {string(id), historyDir}} {
		if !hasOrphans(filepath.Join(append([]string{s.users.Path()}, parts...)...)) {
			continue
		}
		dir, err := s.folder(parts...)
		if err == nil {
			_, err = dir.Sweep(time.Minute)
			_ = dir.Close()
		}
		if err != nil {
			s.opt.Log.Warn("temporary files stay", "thread", id, "err", err)
		}
	}
}

func hasOrphans(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, n := range names {
		if strings.HasPrefix(n, ".") && strings.Contains(n, ".tmp-") {
			return true
		}
	}
	return false
}

// folder opens a folder below users; every part is one path element.
func (s *Store) folder(parts ...string) (*durable.Dir, error) {
	dir := s.users
	for _, p := range parts {
		next, err := dir.Sub(p)
		if dir != s.users {
			_ = dir.Close()
		}
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// Threads lists the threads that have a folder, in the order of their ids.
func (s *Store) Threads(ctx context.Context) ([]schemas.ThreadID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.list()
}

func (s *Store) list() ([]schemas.ThreadID, error) {
	entries, err := s.users.List()
	if err != nil {
		return nil, failure("the threads cannot be listed", err)
	}
	ids := make([]schemas.ThreadID, 0, len(entries))
	for _, e := range entries {
		if id := schemas.ThreadID(e.Name()); e.IsDir() && id.Valid() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Load gives what the thread wants now. Missing files are an empty configuration. When a file cannot be read, its last good
// content stands and Problems says why. An unchanged thread costs four lstat calls, and what Options.Admin costs.
func (s *Store) Load(ctx context.Context, id schemas.ThreadID) (schemas.Config, error) {
	snap, err := s.read(ctx, id)
	if err != nil {
		return schemas.Config{}, err
	}
	return s.withAdmin(snap), nil
}

func (s *Store) read(ctx context.Context, id schemas.ThreadID) (*snapshot, error) {
	if err := checkThread(ctx, id); err != nil {
		return nil, err
	}
	t := s.thread(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	snap, err := s.refresh(t, false)
	if err == nil && t.isSeen && t.told == nil && t.watched == t.stamps.marks() {
		t.told = snap // nothing happened since the watcher first looked
	}
	return snap, err
}

func checkThread(ctx context.Context, id schemas.ThreadID) error {
	if !id.Valid() {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "that is no thread id", Hint: "letters, digits, - and _, at most 64"}
	}
	return ctx.Err()
}

// thread is what the process knows of one thread. The folder is never held open.
type thread struct {
	id schemas.ThreadID

	mu      sync.Mutex
	snap    *snapshot // nil until the first read
	stamps  stamps    // of the files that snap was read from
	settled bool      // the files were old enough when they were read for stamps to tell a later write
	told    *snapshot // what the watcher last told or found known; nil: nothing yet
	watched [fileCount]uint32
	isSeen  bool   // watched holds stamps
	newest  string // id of the newest revision that the watcher knows; "": none yet
}

func (s *Store) thread(id schemas.ThreadID) *thread {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[id]
	if t == nil {
		t = &thread{id: id}
		s.threads[id] = t
	}
	return t
}

// failure puts words for people on an error of the file system.
func failure(text string, err error) *schemas.Error {
	e := &schemas.Error{Code: schemas.CodeFailed, Text: text, Err: err, Hint: "the operator finds the reason in the log"}
	irregular, isIrregular := errors.AsType[*durable.IrregularError](err)
	_, isCase := errors.AsType[*durable.CaseError](err)
	switch {
	case isCase:
		e.Text, e.Hint = "another thread here has this id in another spelling of upper and lower case, which this machine does not tell apart", "use an id that differs in more"
	case isDiskFull(err):
		e.Text, e.Hint = text+": the disk is full", "free some space and try again"
	case isReadOnly(err), errors.Is(err, fs.ErrPermission):
		e.Text, e.Hint = text+": bobbin may not write there", "the operator can check who owns the data folder"
	case isIrregular:
		e.Text, e.Hint = text+": "+irregular.Error(), "put a regular file or folder in its place"
	case errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Text, e.Hint = schemas.CodeConflict, text+": somebody else is writing", "try again in a moment"
	case errors.Is(err, durable.ErrUnsynced):
		e.Code, e.Text, e.Hint = schemas.CodeUnknown, text+": the disk did not confirm it", "look at `/mcp list` before you try again"
	}
	return e
}
