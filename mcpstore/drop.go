package mcpstore

import (
	"context"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// Stored lists the threads that want something, or did: those that Drop has something to do for.
func (s *Store) Stored(ctx context.Context) ([]schemas.ThreadID, error) {
	all, err := s.Threads(ctx)
	if err != nil {
		return nil, err
	}
	var ids []schemas.ThreadID
	for _, id := range all {
		has, err := s.Has(ctx, id)
		if err != nil {
			return nil, err
		}
		if has {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Has reports whether anything of the store lies in the thread's folder.
func (s *Store) Has(ctx context.Context, id schemas.ThreadID) (bool, error) {
	if err := checkThread(ctx, id); err != nil || !s.users.Has(string(id)) {
		return false, err
	}
	dir, err := s.folder(string(id))
	if err != nil {
		return false, failure("the thread's folder cannot be read", err)
	}
	defer dir.Close()
	for _, name := range dropped() {
		if dir.Has(name) {
			return true, nil
		}
	}
	return false, nil
}

// dropped is what Drop removes, in order: servers go first, so that after a crash in the middle nothing starts any more, and the
// history last, so that Has still finds the rest.
func dropped() []string {
	var names []string
	for i := range fileCount {
		names = append(names, fileName(i), fileName(i)+".broken")
	}
	return append(names, historyDir)
}

// Drop removes all that a thread wants: its servers, rules, approvals and history. What another room keeps in the thread's
// folder stays, and no watcher tells of an edit. It may be called again, after a crash in the middle too.
func (s *Store) Drop(ctx context.Context, id schemas.ThreadID) error {
	if has, err := s.Has(ctx, id); err != nil || !has {
		return err
	}
	return s.locked(ctx, id, func(dir *durable.Dir, _ *snapshot) error {
		for _, name := range dropped() {
			if err := dir.RemoveAll(name); err != nil {
				return err
			}
		}
		s.thread(id).newest = ""
		return nil
	})
}
