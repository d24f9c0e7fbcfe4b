package desk

import (
	"context"
	"log/slog"
	"time"

	"bobbin/schemas"
)

// journal is the audit log. A change that cannot be written down is not made.
type journal interface {
	Append(context.Context, schemas.Record) (schemas.Record, error)
}

// Options are what a Desk needs, all of it.
type Options struct {
	Journal journal
	CardTTL time.Duration // how long a card waits for its answer
	Now     func() time.Time
	Log     *slog.Logger
}

// Desk is safe for concurrent use. What it holds is in memory only.
type Desk struct {
	opt   Options
	cards deck
	ears  ears
	late  late
}

// New returns an empty Desk. It panics when an option is missing.
func New(opt Options) *Desk {
	if opt.Journal == nil || opt.CardTTL <= 0 || opt.Now == nil || opt.Log == nil {
		panic("desk: every option is required")
	}
	return &Desk{opt: opt, cards: deck{open: map[string]*Card{}}, ears: ears{subs: map[*ear]struct{}{}}}
}
