package operator

import (
	"context"

	"bobbin/schemas"
)

// Stop stops a server and removes its container; the entry stays. One that does not run is no error.
func (o *Operator) Stop(ctx context.Context, name string) error {
	f, err := o.Load(ctx)
	if err != nil {
		return err
	}
	s, ok := f.Find(name)
	if !ok {
		return notFound(name)
	}
	if s.Type == Remote {
		return nil
	}
	unlock, err := o.hold(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := o.shed(ctx, s, names(f.Prefix)); err != nil {
		return err
	}
	for _, r := range s.replicas() {
		o.forget(r.unit())
	}
	all, err := o.found(ctx, labelServer+"="+name)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := o.discard(ctx, c.ID); err != nil {
			return err
		}
	}
	o.forsake(ctx, names(f.Prefix).network(name))
	for _, r := range s.replicas() {
		if !o.servers.Has(r.unit()) {
			continue
		}
		dir, err := o.servers.Sub(r.unit())
		if err != nil {
			return failed("what is kept of "+name+" cannot be removed", err)
		}
		err = dir.Remove(memoryFile)
		_ = dir.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// hold keeps other bobbins from starting and stopping a server until unlock.
func (o *Operator) hold(ctx context.Context, name string) (unlock func(), err error) {
	if unlock, err = o.servers.Lock(ctx, name); err != nil {
		return nil, &schemas.Error{Code: schemas.CodeConflict, Text: name + " is being started or stopped by another bobbin", Hint: "try again in a moment", Err: err}
	}
	return unlock, nil
}

// forget drops what is known of a replica's way and health.
func (o *Operator) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.ways[name]; w != nil {
		w.http.CloseIdleConnections()
	}
	delete(o.ways, name)
	delete(o.health, name)
}
