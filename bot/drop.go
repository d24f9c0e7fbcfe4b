package bot

import (
	"context"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// dropper removes all that a thread wants and ends its servers. Drop may be called again for the same thread; Has reports whether
// there is anything to remove.
type dropper interface {
	Has(context.Context, schemas.ThreadID) (bool, error)
	Drop(context.Context, schemas.ThreadID) error
}

// Drop ends a thread that its platform deleted: everybody's values for it and its configuration are removed, its servers stop. The
// audit log stays, and says so. It may be called again, and for a thread that never had anything. Values go first: what a kill in
// between leaves wants values that are gone, and is found by its configuration.
func (b *Bot) Drop(ctx context.Context, thread schemas.ThreadID) error {
	if !thread.Valid() {
		return words.Invalid("this thread has no usable id", "")
	}
	has, err := b.opt.Drop.Has(ctx, thread)
	if err != nil {
		return err
	}
	if has {
		if err := b.desk.Record(ctx, schemas.Caller{Thread: thread}, schemas.Record{Event: schemas.EventDropped, Detail: "the thread was deleted; its configuration and values are dropped"}); err != nil {
			return err
		}
	}
	b.revokeAll(ctx, thread, "")
	b.signs.forget(thread, "")
	if err := b.opt.Forget.Forget(ctx, thread, ""); err != nil {
		return err
	}
	b.desk.Forget(thread, "")
	b.shown.mu.Lock()
	delete(b.shown.edits, thread)
	b.shown.mu.Unlock()
	return b.opt.Drop.Drop(ctx, thread)
}
