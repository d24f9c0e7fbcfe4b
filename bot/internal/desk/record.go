package desk

import (
	"context"
	"time"

	"bobbin/schemas"
)

// Record writes one audit record for the caller. Nothing may happen that it could not write down.
func (d *Desk) Record(ctx context.Context, c schemas.Caller, r schemas.Record) error {
	r.Thread, r.Member, r.Name, r.Door, r.Origin = c.Thread, c.Member, c.Name, c.Door, schemas.ByPerson
	if _, err := d.opt.Journal.Append(ctx, r); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written", Err: err}
	}
	return nil
}

// AfterWait bounds what is finished although the one who asked may be gone.
const AfterWait = 10 * time.Second

// After gives a context for what must follow a change that was made: the request's end does not stop it, time does.
func After(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), AfterWait)
}

// Noted writes a record about what has happened already; a failure can only be logged.
func (d *Desk) Noted(ctx context.Context, c schemas.Caller, r schemas.Record) {
	ctx, cancel := After(ctx)
	defer cancel()
	if err := d.Record(ctx, c, r); err != nil {
		d.opt.Log.Error("audit record lost", "thread", c.Thread, "event", r.Event, "err", err)
	}
}
