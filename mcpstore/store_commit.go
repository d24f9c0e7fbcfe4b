package mcpstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// Commit carries a confirmed proposal out. The caller, who confirms, is the requester or somebody who may change what belongs
// to others. When the files, or what the proposal would do to them, are no longer what the person saw, nothing happens and
// the error's code is CodeConflict.
//
// Order of writes: state.json with the new approvals beside the old ones, then the files, the history, and state.json without
// what is over. A crash between any two leaves nothing running that did not run before or was not confirmed.
func (s *Store) Commit(ctx context.Context, by schemas.Caller, p schemas.Proposal) (schemas.Revision, error) {
	var rev schemas.Revision
	if by.Thread != p.Thread || by.Member == "" || (by.Member != p.By.Member && !rules(by)) {
		return rev, &schemas.Error{Code: schemas.CodeDenied, Text: "only the one who asked can confirm this change, or a manager of the thread"}
	}
	if p.Empty() {
		return rev, invalid("no changes", "")
	}
	var removed []string
	err := s.locked(ctx, p.Thread, func(dir *durable.Dir, snap *snapshot) error {
		if snap.cfg.Base != p.Base {
			return conflict()
		}
		plan, err := s.plan(snap, by, p.By, p.Edit)
		if err != nil {
			return err
		}
		if !sameChanges(plan.out.Changes, p.Changes) {
			return conflict()
		}
		removed = plan.removed()
		if rev, err = s.write(dir, plan, p.By); err == nil {
			s.thread(p.Thread).newest = rev.ID
		}
		return err
	})
	if err != nil {
		return schemas.Revision{}, err
	}
	s.news.add(schemas.Edited{Thread: p.Thread, Removed: removed})
	return rev, nil
}

func conflict() error {
	return &schemas.Error{Code: schemas.CodeConflict, Text: "config changed, please review again", Hint: "somebody else changed this thread's servers meanwhile"}
}

func sameChanges(a, b []schemas.Change) bool {
	same := func(x, y *schemas.Server) bool { return x == y || x != nil && y != nil && x.Equal(*y) }
	return slices.EqualFunc(a, b, func(x, y schemas.Change) bool {
		return x.Server == y.Server && x.Kind == y.Kind && x.Remote == y.Remote && slices.Equal(x.Fields, y.Fields) &&
			same(x.Before, y.Before) && same(x.After, y.After)
	})
}

func (p *plan) removed() (names []string) {
	for _, c := range p.out.Changes {
		if c.Kind == schemas.Removed {
			names = append(names, c.Server)
		}
	}
	return names
}

// write does the disk's part of a commit, under the lock.
func (s *Store) write(dir *durable.Dir, p *plan, requester schemas.Caller) (schemas.Revision, error) {
	if err := s.forgetGrants(dir, p); err != nil {
		return schemas.Revision{}, err
	}
	now := s.opt.Now().UTC()
	during, after := p.records(requester, now)
	rewritten := [2]bool{p.rewrites(0), p.rewrites(1)}
	if (rewritten[0] || rewritten[1]) && !sameRecords(during, p.snap.state) {
		if err := s.writeState(dir, p.snap, during); err != nil {
			return schemas.Revision{}, err
		}
	}
	for i := range rewritten {
		if !rewritten[i] {
			continue
		}
		if p.snap.broken[i] {
			if err := keepBroken(dir, i, config.MaxText); err != nil {
				return schemas.Revision{}, err
			}
		}
		if err := dir.Write(fileName(i), p.text(i)); err != nil {
			return schemas.Revision{}, err
		}
	}
	rev, err := s.remember(p, after, now)
	if err != nil {
		return schemas.Revision{}, err
	}
	return rev, s.writeState(dir, p.snap, after)
}

func sameRecords(a, b map[string]record) bool {
	x, errX := encodeState(a, nil)
	y, errY := encodeState(b, nil)
	return errX == nil && errY == nil && string(x) == string(y)
}

// records gives state.json ahead of the files and after them. Ahead, it only adds approvals and switches off: it holds for the
// old files as well as for the new ones.
func (p *plan) records(requester schemas.Caller, now time.Time) (during, after map[string]record) {
	during, after = maps.Clone(p.snap.state), map[string]record{}
	if during == nil {
		during = map[string]record{}
	}
	for _, x := range p.moves {
		name := x.name()
		if _, done := after[name]; done || x.after == nil {
			continue // the other one is shadowed by the first
		}
		old, known := p.snap.state[name]
		if !known && !x.approved && x.enabled {
			continue // added by hand and waiting
		}
		ahead, rec := old, old
		if !known {
			ahead.Enabled = true
		}
		ahead.Enabled, rec.Enabled, rec.Title = ahead.Enabled && x.enabled, x.enabled, x.title
		def := p.definition(x)
		rec = rec.tidy(def)
		if x.approved {
			if rec.Owner == "" {
				rec.Owner, rec.OwnerName = p.owner(x, requester)
				ahead.Owner, ahead.OwnerName = rec.Owner, rec.OwnerName
			}
			yes := consent{Approval: schemas.Approval{
				Fingerprint: def.Fingerprint(), By: p.by.Member, ByName: p.by.Name, At: now, Definition: def,
			}}
			if was := x.entry.Approval; was == nil || was.Fingerprint != yes.Fingerprint {
				rec.Pins, rec.Loan = nil, nil
			}
			rec.Approvals = []consent{yes}
			ahead.Title = x.title
			ahead.Approvals = ahead.withTentative(x, yes)
		}
		during[name], after[name] = ahead, rec
	}
	return during, after
}

// withTentative adds a yes beside the one that counts now.
func (r record) withTentative(x *transition, yes consent) []consent {
	if x.before != nil {
		r = r.tidy(*x.before)
	} else {
		r.Approvals = nil
	}
	if len(r.Approvals) > 0 && r.Approvals[0].Fingerprint == yes.Fingerprint {
		return r.Approvals
	}
	yes.Tentative = true
	return append(r.Approvals, yes)
}

// owner of a server that has none: who had it before it is restored, else who asked for it.
func (p *plan) owner(x *transition, requester schemas.Caller) (schemas.MemberID, string) {
	switch {
	case x.owner != "":
		return x.owner, x.ownerIs
	case x.before == nil && requester.Thread == p.by.Thread && requester.Member != "":
		return requester.Member, requester.Name
	}
	return p.by.Member, p.by.Name
}

// definition of a transition as the next Load reads it, which is what an approval is bound to.
func (p *plan) definition(x *transition) schemas.Server {
	for _, srv := range p.read[order(x)].Servers {
		if srv.Name == x.after.Name {
			return srv
		}
	}
	return *x.after
}

// summary says in a few words what a commit did: "1 added: github; 2 changed: a, b".
func summary(changes []schemas.Change) string {
	var parts []string
	for _, kind := range []schemas.ChangeKind{
		schemas.Added, schemas.Changed, schemas.Removed, schemas.Enabled, schemas.Disabled, schemas.Approved,
	} {
		var names []string
		for _, c := range changes {
			if c.Kind == kind {
				names = append(names, c.Server)
			}
		}
		if len(names) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s: %s", len(names), kind, strings.Join(names, ", ")))
		}
	}
	return strings.Join(parts, "; ")
}
