package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/operator"
	"bobbin/schemas"
)

func (m *Main) store() (*mcpstore.Store, error) {
	data, err := durable.Open(m.Data)
	if err != nil {
		return nil, err
	}
	users, err := data.Sub("users")
	if err != nil {
		return nil, err
	}
	return mcpstore.Open(users, mcpstore.Options{})
}

// createThread makes a session that is a thread: the servers are attached to it, in the name of the operator.
func (m *Main) createThread(ctx context.Context, o *operator.Operator, w operator.Wanted, tell func(string)) (s operator.Session, err error) {
	if len(w.Command) > 0 || w.TTY {
		return s, usagef("a command and --tty are for a driver: name its image with --image")
	}
	if w.Name == "" {
		w.Name = "terminal-" + strings.ToLower(rand.Text()[:8])
	}
	by := schemas.Caller{Thread: schemas.ThreadID(w.Name), Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	if !by.Thread.Valid() {
		return s, &schemas.Error{Code: schemas.CodeInvalid, Text: "a session's name has letters, digits, - and _, at most 64"}
	}
	f, err := o.Load(ctx)
	if err != nil {
		return s, err
	}
	store, err := m.store()
	if err != nil {
		return s, err
	}
	s = operator.Session{Name: w.Name, State: "thread", Servers: []string{}, Created: time.Now().UTC()}
	for _, name := range w.Servers {
		d, ok := f.Find(name)
		switch {
		case slices.Contains(s.Servers, name):
			continue
		case !ok:
			s.Notes = append(s.Notes, fmt.Sprintf("MCP server '%s' not found, skipped", schemas.Clean(name, true)))
			continue
		case !d.Allows(by):
			s.Notes = append(s.Notes, fmt.Sprintf("MCP server '%s' does not allow this session, skipped", name))
			continue
		}
		if d.Type == operator.Proxied {
			tell(fmt.Sprintf("Ensuring MCP server '%s' is running...", name))
		}
		_, err := o.Start(ctx, name, func(step string) { tell(name + ": " + step) })
		if err != nil {
			s.Notes = append(s.Notes, fmt.Sprintf("MCP server '%s' does not start, skipped: %s", name, inWords(err)))
			continue
		}
		_ = o.Probe(ctx, name) // one that does not answer now is tried by what its URL says
		if err := store.Attach(ctx, by, name); err != nil {
			return s, err
		}
		s.Servers = append(s.Servers, name)
	}
	return s, nil
}

// threadSessions are the threads that use servers of the operator.
func (m *Main) threadSessions(ctx context.Context) (all []operator.Session, err error) {
	store, err := m.store()
	if err != nil {
		return nil, err
	}
	threads, err := store.Threads(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range threads {
		attached, err := store.Attached(ctx, t)
		if err != nil || len(attached) == 0 {
			continue // files that cannot be read are their own story
		}
		s := operator.Session{Name: string(t), State: "thread", Servers: slices.Sorted(maps.Keys(attached))}
		for _, a := range attached {
			if s.Created.IsZero() || a.At.Before(s.Created) {
				s.Created = a.At
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// endThread detaches all servers of a thread; false: it had none.
func (m *Main) endThread(ctx context.Context, name string) (was bool, err error) {
	store, err := m.store()
	if err != nil || !schemas.ThreadID(name).Valid() {
		return false, err
	}
	attached, err := store.Attached(ctx, schemas.ThreadID(name))
	if err != nil {
		return false, err
	}
	for server := range attached {
		if _, err := store.Release(ctx, schemas.ThreadID(name), server); err != nil {
			return true, err
		}
	}
	return len(attached) > 0, nil
}
