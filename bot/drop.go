package bot

import (
	"context"

	"bobbin/schemas"
)

// dropper removes all that a thread wants. It may be called again for the same thread.
type dropper interface {
	Drop(context.Context, schemas.ThreadID) error
}

// Drop ends a thread that its platform deleted: its servers stop, its configuration and everybody's values for it are removed.
// The audit log stays, and says so. It may be called again, and for a thread that never had anything.
func (b *Bot) Drop(ctx context.Context, thread schemas.ThreadID) error {
	if !thread.Valid() {
		return invalid("this thread has no usable id", "")
	}
	if err := b.record(ctx, schemas.Caller{Thread: thread}, schemas.Record{Event: schemas.EventOutside, Detail: "the thread was deleted; its configuration and values are dropped"}); err != nil {
		return err
	}
	if err := b.opt.Drop.Drop(ctx, thread); err != nil {
		return err
	}
	b.opt.Live.Poke(thread)
	return b.opt.Forget.Forget(ctx, thread, "")
}
