package registry

import (
	"context"
	"slices"

	"bobbin/schemas"
)

type dropEvent struct{ reply chan<- dropReply }

type dropReply struct {
	ended []*instance
	err   error
}

// Drop ends every server of a thread that wants nothing any more, and removes its tool lists and kept results. It returns when the
// programs are gone, or ctx ended. It may be called again, and for a thread that never had a server.
func (r *Registry) Drop(ctx context.Context, id schemas.ThreadID) error {
	reply := make(chan dropReply, 1)
	t, err := r.post(ctx, id, dropEvent{reply})
	if err != nil {
		return err
	}
	got, err := receive(ctx, t, reply)
	if err != nil {
		return err
	}
	for _, i := range got.ended {
		select {
		case <-i.gone:
		case <-ctx.Done():
			return gaveUp(ctx.Err())
		}
	}
	return got.err
}

func (e dropEvent) handle(t *thread) {
	var ended []*instance
	for _, s := range t.slots {
		ended = append(ended, s.live()...)
	}
	if _, err := t.reload(false); err != nil {
		e.reply <- dropReply{err: err}
		return
	}
	t.publish()
	if len(t.cfg.Entries) > 0 {
		e.reply <- dropReply{err: &schemas.Error{Code: schemas.CodeConflict, Text: "the thread has servers again"}}
		return
	}
	e.reply <- dropReply{ended, t.r.opt.Cache.RemoveAll(string(t.id))}
}

// live gives the instances of a slot, its guests' included.
func (s *slot) live() []*instance {
	all := []*instance{s.inst, s.next}
	for _, g := range s.guests {
		all = append(all, g.inst, g.next)
	}
	return slices.DeleteFunc(all, func(i *instance) bool { return i == nil })
}
