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
	unlock, err := o.servers.Lock(ctx, name)
	if err != nil {
		return &schemas.Error{Code: schemas.CodeConflict, Text: name + " is being started or stopped by another bobbin", Hint: "try again in a moment", Err: err}
	}
	defer unlock()
	o.forget(name)
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
	if !o.servers.Has(name) {
		return nil
	}
	dir, err := o.servers.Sub(name)
	if err != nil {
		return failed("what is kept of "+name+" cannot be removed", err)
	}
	defer dir.Close()
	return dir.Remove(memoryFile)
}

// forget drops what is known of a server's way and health.
func (o *Operator) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.ways[name]; w != nil {
		w.http.CloseIdleConnections()
	}
	delete(o.ways, name)
	delete(o.health, name)
}
