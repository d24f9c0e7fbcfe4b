package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	logName  = "audit.jsonl"
	headName = "audit.head"
	maxWait  = 5 * time.Second // for another process that holds the lock
)

// Options of a Log. The zero value is usable.
type Options struct {
	Now      func() time.Time // time.Now
	Log      *slog.Logger     // discarded
	Handles  int              // open files at most, 256
	Interval time.Duration    // between two syncs, 1 s
}

// Log is the audit logs of all threads. It is safe for concurrent use; threads share no lock while they append.
type Log struct {
	users   *durable.Dir
	opt     Options
	threads sync.Map // schemas.ThreadID → *thread
	clock   atomic.Int64
	lines   sync.Pool    // *[]byte
	entries sync.Pool    // *entry
	leases  chan *thread // to whom ends them

	mu   sync.Mutex // taken only when a file is opened or closed
	open []*thread
}

// Open gives the logs inside data/users. It touches no file.
func Open(users *durable.Dir, opt Options) (*Log, error) {
	if users == nil {
		return nil, errors.New("audit: no folder")
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Handles <= 0 {
		opt.Handles = 256
	}
	if opt.Interval <= 0 {
		opt.Interval = time.Second
	}
	return &Log{
		users: users, opt: opt,
		lines:   sync.Pool{New: func() any { return new([]byte) }},
		entries: sync.Pool{New: newEntry},
		leases:  make(chan *thread),
	}, nil
}

// Append adds one record and returns it with Seq, Prev and Hash set, and At if it was zero. When it returns without an
// error the record is in the kernel. After an error nothing was recorded, and what was to be recorded must not happen: the
// error is a *schemas.Error with words. A record of more than 16 KiB is cut in Detail, then in Args.
//
// It waits for other writers of the thread until ctx ends, at most 5 s; a record that is being written by then is waited for.
func (l *Log) Append(ctx context.Context, rec schemas.Record) (schemas.Record, error) {
	t := l.thread(rec.Thread)
	if t == nil {
		return schemas.Record{}, badThread()
	}
	alone := t.arrive(rec.Event)
	e := l.entries.Get().(*entry)
	e.rec, e.err = rec, nil
	t.join(e)
	l.settle(ctx, t, e, alone)
	rec, err := e.rec, e.err
	t.depart(rec.Event, err)
	e.rec = schemas.Record{}
	l.entries.Put(e) // only now: after a panic somebody may still settle it
	if err != nil {
		return schemas.Record{}, err
	}
	return rec, nil
}

// encode adds the line of rec to b and moves tip on. After an error both are as before.
func (l *Log) encode(b []byte, tip *tip, rec *schemas.Record) ([]byte, error) {
	if rec.At.IsZero() {
		rec.At = l.opt.Now()
	}
	rec.At = rec.At.UTC().Round(0)
	rec.Seq, rec.Prev, rec.Torn = tip.seq+1, tip.hash, int(tip.torn)
	before := len(b)
	if tip.cut {
		b = append(b, '\n')
	}
	start := len(b)
	b = appendLine(b, rec)
	for _, field := range []*string{&rec.Detail, &rec.Args} {
		if over := len(b) - start - maxLine; over > 0 {
			*field = shorten(*field, over)
			b = appendLine(b[:start], rec)
		}
	}
	if len(b)-start > maxLine {
		return b[:before], &schemas.Error{Code: schemas.CodeTooLarge, Text: "the audit record is too long", Hint: "use shorter names"}
	}
	*tip = after(rec)
	return b, nil
}

// shorten takes at least over encoded bytes away, at the end.
func shorten(text string, over int) string {
	const mark = "…"
	room := max(0, len(appendEscaped(nil, text))-over-len(mark))
	text = text[:min(len(text), room)]
	for len(appendEscaped(nil, text)) > room { // a byte of text may be six on the line
		text = text[:len(text)*7/8]
	}
	for text != "" {
		if r, n := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || n > 1 {
			return text + mark
		}
		text = text[:len(text)-1]
	}
	return ""
}

// thread gives nil for what is no thread's id.
func (l *Log) thread(id schemas.ThreadID) *thread {
	if t, ok := l.threads.Load(id); ok {
		return t.(*thread)
	}
	if !id.Valid() {
		return nil
	}
	t, _ := l.threads.LoadOrStore(id, &thread{id: id, turn: make(chan struct{}, 1)})
	return t.(*thread)
}

func badThread() error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: "this is not a thread", Hint: "thread ids have letters, digits, - and _"}
}

// unwritable gives an error words. CodeMissing: the machine lacks what the log needs.
func unwritable(err error) error {
	e := &schemas.Error{Code: schemas.CodeMissing, Text: "the audit log cannot be written, so nothing was done", Hint: "ask the operator to look at the data folder", Err: err}
	switch {
	case isFull(err):
		e.Text, e.Hint = "the audit log cannot be written because the disk is full, so nothing was done", "free some space, then try again"
	case errors.Is(err, context.DeadlineExceeded):
		e.Text, e.Hint = "the audit log is busy, so nothing was done", "try again; if it stays so, another bobbin on this machine hangs"
	case errors.Is(err, context.Canceled):
		e.Text, e.Hint = "stopped before it was recorded, so nothing was done", ""
	}
	e.Err = fmt.Errorf("audit: %w", err)
	return e
}
