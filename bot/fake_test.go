package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"bobbin/schemas"
)

func (w *world) fail(what string) error {
	return w.failWith[what]
}

func (w *world) Load(_ context.Context, id schemas.ThreadID) (schemas.Config, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id != thread {
		return schemas.Config{Thread: id}, nil
	}
	c := w.cfg
	c.Entries = slices.Clone(c.Entries)
	return c, w.fail("Load")
}

func (w *world) Propose(_ context.Context, c schemas.Caller, e schemas.Edit) (schemas.Proposal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := schemas.Proposal{Thread: c.Thread, Base: w.cfg.Base, By: c, Edit: e, Notes: e.Notes, Needs: map[string][]string{}}
	if err := w.fail("Propose"); err != nil {
		return p, err
	}
	var named []string
	for _, d := range e.Put {
		named = append(named, d.Server.Name)
		if d.Server.Remote() && e.Source != "connect" {
			p.Remote = append(p.Remote, d)
			continue
		}
		s := d.Server
		ch := schemas.Change{Server: s.Name, Kind: schemas.Added, After: &s, Remote: s.Remote()}
		if old, ok := w.cfg.Find(s.Name); ok {
			ch.Kind, ch.Before, ch.Owner, ch.Fields = schemas.Changed, &old.Server, old.Owner, fieldsOf(old.Server, s)
			if old.Server.Equal(s) && (len(d.Found) == 0 || !w.secretIsChange) {
				ch.Kind = schemas.Unchanged
			} else if old.Server.Equal(s) {
				ch.Fields = []string{"secret"}
			}
		}
		p.Changes = append(p.Changes, ch)
		p.Found = append(p.Found, d.Found...)
		for _, id := range s.Inputs() {
			if !slices.ContainsFunc(d.Found, func(f schemas.Found) bool { return f.Input == id }) {
				p.Needs[s.Name] = append(p.Needs[s.Name], id)
			}
		}
		js, _ := json.MarshalIndent(s, "+ ", "  ")
		if ch.Kind != schemas.Unchanged {
			p.Diff += "+ \"" + s.Name + "\": " + string(js) + "\n"
		}
	}
	for _, l := range []struct {
		names []string
		kind  schemas.ChangeKind
	}{{e.Remove, schemas.Removed}, {e.Approve, schemas.Approved}, {e.Enable, schemas.Enabled}, {e.Disable, schemas.Disabled}} {
		for _, n := range l.names {
			old, ok := w.cfg.Find(n)
			if !ok {
				return p, &schemas.Error{Code: schemas.CodeNotFound, Text: "there is no server " + n}
			}
			named = append(named, n)
			s := old.Server
			ch := schemas.Change{Server: n, Kind: l.kind, Before: &s, After: &s, Owner: old.Owner, Remote: s.Remote()}
			if l.kind == schemas.Approved {
				p.Found = append(p.Found, w.handFound...)
			}
			if l.kind == schemas.Removed {
				ch.After = nil
			}
			i := slices.IndexFunc(p.Changes, func(c schemas.Change) bool { return c.Server == n })
			if i >= 0 && p.Changes[i].Kind == schemas.Unchanged {
				p.Changes[i] = ch
			} else if i < 0 {
				p.Changes = append(p.Changes, ch)
			}
		}
	}
	if e.Undo != "" {
		p.Changes = append(p.Changes, schemas.Change{Server: w.cfg.Entries[len(w.cfg.Entries)-1].Name, Kind: schemas.Removed})
	}
	for _, old := range w.cfg.Entries {
		if !slices.Contains(named, old.Name) && len(e.Put) > 0 {
			p.Kept = append(p.Kept, old.Name)
		}
	}
	return p, nil
}

func fieldsOf(a, b schemas.Server) (fs []string) {
	if a.Command != b.Command {
		fs = append(fs, "command")
	}
	if !slices.Equal(a.Args, b.Args) {
		fs = append(fs, "args")
	}
	if fmt.Sprint(a.Env) != fmt.Sprint(b.Env) {
		fs = append(fs, "env")
	}
	return fs
}

func (w *world) Commit(_ context.Context, c schemas.Caller, p schemas.Proposal) (schemas.Revision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Commit"); err != nil {
		return schemas.Revision{}, err
	}
	if p.Base != w.cfg.Base {
		return schemas.Revision{}, &schemas.Error{Code: schemas.CodeConflict, Text: "the config changed"}
	}
	for _, ch := range p.Changes {
		i := slices.IndexFunc(w.cfg.Entries, func(e schemas.Entry) bool { return e.Name == ch.Server })
		if ch.Kind == schemas.Removed {
			w.cfg.Entries = slices.Delete(w.cfg.Entries, i, i+1)
			continue
		}
		if i < 0 {
			w.cfg.Entries, i = append(w.cfg.Entries, schemas.Entry{Owner: p.By.Member, OwnerName: p.By.Name, Enabled: true}), len(w.cfg.Entries)
		}
		e := &w.cfg.Entries[i]
		e.Server, e.Kind = *ch.After, schemas.Local
		if ch.Remote {
			e.Kind = schemas.Connector
		}
		if ch.Kind == schemas.Enabled || ch.Kind == schemas.Disabled {
			e.Enabled = ch.Kind == schemas.Enabled
			continue
		}
		e.Approval = &schemas.Approval{Fingerprint: ch.After.Fingerprint(), By: c.Member, Definition: *ch.After}
	}
	w.cfg.Inputs = append(w.cfg.Inputs, p.Edit.Inputs...)
	w.bump()
	r := schemas.Revision{ID: fmt.Sprintf("r%d", w.base), By: c.Member, ByName: c.Name, Source: p.Edit.Source, Summary: "1 added: x", At: w.now, Diff: p.Diff}
	w.revs = append([]schemas.Revision{r}, w.revs...)
	return r, nil
}

func (w *world) bump() {
	w.base++
	w.cfg.Base = fmt.Sprint(w.base)
}

func (w *world) History(context.Context, schemas.ThreadID) ([]schemas.Revision, error) {
	return w.revs, w.fail("History")
}

func (w *world) Export(_ context.Context, _ schemas.ThreadID, format string) (schemas.File, error) {
	servers := map[string]schemas.Server{}
	for _, e := range w.cfg.Entries {
		servers[e.Name] = e.Server
	}
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	return schemas.File{Name: "mcp.json", MIME: "application/json", Data: data}, errors.Join(err, w.fail("Export"))
}

func (w *world) Rule(_ context.Context, _ schemas.ThreadID, f func(*schemas.Policy) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Rule"); err != nil {
		return err
	}
	return f(&w.cfg.Policy)
}

func (w *world) Tools(context.Context, schemas.Caller) ([]schemas.Tool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched++
	var all []schemas.Tool
	for _, e := range w.cfg.Entries {
		all = append(all, w.toolsOf[e.Name]...)
	}
	return all, w.fail("Tools")
}

func (w *world) Call(_ context.Context, c schemas.Call) (schemas.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched++
	w.calls = append(w.calls, c)
	return w.result, w.fail("Call")
}

func (w *world) Status(_ context.Context, id schemas.ThreadID) ([]schemas.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ss []schemas.Status
	if id != thread {
		return nil, nil
	}
	for _, e := range w.cfg.Entries {
		s := schemas.Status{Name: e.Name, Kind: e.Kind, Owner: e.Owner, OwnerName: e.OwnerName, State: schemas.Ready, Tools: len(w.toolsOf[e.Name]),
			Tokens: 5134, Took: 1200 * time.Millisecond, Since: w.now.Add(-2 * time.Hour), Calls: 14, Resources: true, Prompts: true}
		for _, id := range e.Server.Inputs() {
			if _, ok := w.vault[schemas.SecretKey{Member: e.Owner, Thread: thread, Server: e.Name, Name: id, Origin: e.Origin()}]; !ok {
				s.Needs, s.State = append(s.Needs, id), schemas.Needs
			}
		}
		switch {
		case !e.Enabled:
			s.State = schemas.Off
		case e.Approval == nil:
			s.State = schemas.PendingState
		}
		for _, x := range w.toolsOf[e.Name] {
			switch {
			case x.Risk != "":
				s.Blocked++
			case x.Writes:
				s.Asking++
			}
		}
		if o, ok := w.state[e.Name]; ok {
			o.Name, o.Kind, o.Owner, o.OwnerName = s.Name, s.Kind, s.Owner, s.OwnerName
			s = o
		}
		ss = append(ss, s)
	}
	return ss, w.fail("Status")
}

func (w *world) touch(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched++
	return w.fail(what)
}

func (w *world) Apply(ctx context.Context, _ schemas.ThreadID) error {
	if w.slow > 0 {
		select {
		case <-time.After(w.slow):
			w.mu.Lock()
			w.state = map[string]schemas.Status{}
			w.mu.Unlock()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return w.touch("Apply")
}

func (w *world) Restart(context.Context, schemas.ThreadID, string) error {
	w.mu.Lock()
	w.restarts++
	w.mu.Unlock()
	return w.touch("Restart")
}

func (w *world) Poke(schemas.ThreadID) {}

func (w *world) Held(_ context.Context, _ schemas.ThreadID, s string) ([]schemas.HeldTool, error) {
	return w.heldOf[s], w.fail("Held")
}

func (w *world) Accept(_ context.Context, _ schemas.Caller, s string, seen map[string]string) error {
	for x := range seen {
		w.accepted = append(w.accepted, s+"."+x)
	}
	return w.touch("Accept")
}

func (w *world) Resources(context.Context, schemas.Caller) ([]schemas.Resource, error) {
	return w.resources, w.fail("Resources")
}

func (w *world) ReadResource(_ context.Context, _ schemas.Caller, server, uri string) (schemas.Result, error) {
	raw := fmt.Sprintf(`{"contents":[{"uri":%q,"text":"read %s of %s"}]}`, uri, uri, server)
	return schemas.Result{Raw: json.RawMessage(raw), Took: time.Millisecond}, w.touch("ReadResource")
}

func (w *world) Result(context.Context, schemas.ThreadID, string) (schemas.File, error) {
	return schemas.File{Name: "whole.txt", Data: []byte("the whole of it")}, w.fail("Result")
}

func (w *world) Prompts(context.Context, schemas.Caller) ([]schemas.Prompt, error) {
	return w.prompts, w.fail("Prompts")
}

func (w *world) Prompt(_ context.Context, _ schemas.Caller, _, _ string, args map[string]string) (schemas.Result, error) {
	raw := fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, fmt.Sprint(args))
	return schemas.Result{Raw: json.RawMessage(raw)}, w.touch("Prompt")
}

func (w *world) Put(_ context.Context, k schemas.SecretKey, v schemas.Secret) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Put"); err != nil {
		return err
	}
	w.vault[k] = v
	delete(w.held, k)
	return nil
}

// Hold is as the vault's: in front of a sealed value, and told apart from it.
func (w *world) Hold(_ context.Context, k schemas.SecretKey, v schemas.Secret) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Hold"); err != nil {
		return err
	}
	w.vault[k], w.held[k] = v, true
	return nil
}

func (w *world) Holds(k schemas.SecretKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[k]
}

// restart ends and starts bobbin: what was held is gone.
func (w *world) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.held {
		delete(w.vault, k)
	}
	w.held = map[schemas.SecretKey]bool{}
}

func (w *world) Delete(_ context.Context, k schemas.SecretKey) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.vault, k)
	return w.fail("Delete")
}

func (w *world) Names(_ context.Context, m schemas.MemberID, id schemas.ThreadID) ([]schemas.SecretKey, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ks []schemas.SecretKey
	for k := range w.vault {
		if k.Member == m && k.Thread == id {
			ks = append(ks, k)
		}
	}
	return ks, w.fail("Names")
}

func (w *world) Forget(_ context.Context, id schemas.ThreadID, server string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgot = append(w.forgot, server)
	for k := range w.vault {
		if k.Server == server {
			delete(w.vault, k)
		}
	}
	return w.fail("Forget")
}

func (w *world) Append(_ context.Context, r schemas.Record) (schemas.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Append"); err != nil {
		return r, err
	}
	r.Seq, r.At = int64(len(w.records)+1), w.now
	w.records = append(w.records, r)
	return r, nil
}

func (w *world) Tail(_ context.Context, _ schemas.ThreadID, n int) ([]schemas.Record, error) {
	rs := slices.Clone(w.records)
	slices.Reverse(rs)
	return rs[:min(n, len(rs))], w.fail("Tail")
}

func (w *world) Has(context.Context, schemas.ThreadID) (bool, error) { return len(w.dropped) == 0, nil }

func (w *world) Drop(_ context.Context, id schemas.ThreadID) error {
	if err := w.fail("Drop"); err != nil {
		return err
	}
	w.dropped = append(w.dropped, id)
	return nil
}
