package mcpstore

import (
	"context"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// Drop removes all that a thread wants: its servers, rules, approvals and history. What another room keeps in the thread's
// folder stays. It may be called again, after a crash in the middle too: servers go first, so that nothing starts any more.
func (s *Store) Drop(ctx context.Context, id schemas.ThreadID) error {
	if !id.Valid() || !s.users.Has(string(id)) {
		return checkThread(ctx, id)
	}
	return s.locked(ctx, id, func(dir *durable.Dir, _ *snapshot) error {
		for _, i := range []int{fileLocal, fileRemote, filePolicy, fileState} {
			for _, name := range []string{fileName(i), fileName(i) + ".broken"} {
				if !dir.Has(name) {
					continue
				}
				if err := dir.Remove(name); err != nil {
					return err
				}
			}
		}
		if !dir.Has(historyDir) {
			return nil
		}
		return dir.RemoveAll(historyDir)
	})
}
