package mcpstore

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"

	"github.com/fsnotify/fsnotify"
)

// Lifted gives options without the limit of 32 servers.
func Lifted(opt Options, servers int) Options {
	opt.servers = servers
	return opt
}

// Eventless gives options for a system without file events.
func Eventless(opt Options) Options {
	opt.events = func() (eventSource, error) { return eventSource{}, errors.New("too many open files") }
	return opt
}

// Unwatchable gives options for a system that has no watch left for folders below the first.
func Unwatchable(opt Options) Options {
	opt.events = func() (eventSource, error) {
		src, err := openEvents()
		add, first := src.add, true
		src.add = func(path string) error {
			if !first {
				return errors.New("no space left on device")
			}
			first = false
			return add(path)
		}
		return src, err
	}
	return opt
}

// Overflowing gives options for an event source that tells nothing but that it lost events.
func Overflowing(opt Options, lost <-chan error) Options {
	opt.events = func() (eventSource, error) {
		nop := func(string) error { return nil }
		return eventSource{add: nop, remove: nop, close: func() error { return nil }, events: make(chan fsnotify.Event), errors: lost}, nil
	}
	return opt
}

// Busy reports whether a thread's files have settled, so that Load goes by their stamps.
func (s *Store) Settled(id schemas.ThreadID) bool {
	t := s.thread(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stamps.settled(time.Now())
}

// Known is how many threads the process keeps something of.
func (s *Store) Known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.threads)
}

// DiffOf is the masked diff of two local configurations, and the fields that change in the server "x".
func DiffOf(before, after schemas.Server) (string, []string) {
	tags := tagger{key: []byte("key")}
	docs := func(srv schemas.Server) (d [2]config.Stored) {
		d[fileLocal].Servers = []schemas.Server{srv}
		return d
	}
	return tags.diff(docs(before), docs(after), [2]bool{true, false}), fields(canonical(before), canonical(after))
}

// Splice reads now in part, after was, and reports whether that is possible and gives what reading the whole does.
func Splice(was, now string, servers int) (spliced, same bool, got, want string) {
	s := &Store{opt: Options{servers: servers}}
	doc, ok := s.redecode(fileLocal, []byte(was), s.decode(fileLocal, []byte(was)), []byte(now))
	if !ok {
		return false, true, "", ""
	}
	got, want = fmt.Sprintf("%+v", doc), fmt.Sprintf("%+v", s.decode(fileLocal, []byte(now)))
	return true, reflect.DeepEqual(doc.Servers, s.decode(fileLocal, []byte(now)).Servers) && got == want, got, want
}
