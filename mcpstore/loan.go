package mcpstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// loan is a loan for one definition: an edit of the connector ends it.
type loan struct {
	schemas.Loan
	Fingerprint string `json:"fingerprint"`
}

// lent gives the loan that holds for the file's definition.
func (r record) lent(srv schemas.Server) *schemas.Loan {
	if r.Loan == nil || r.Loan.Fingerprint != srv.Fingerprint() {
		return nil
	}
	l := r.Loan.Loan
	return &l
}

// endLoans drops the loans for definitions that the files no longer have, and reports whether there were any: what comes back later
// has to be lent anew. What a file says that cannot be read is not known, and nothing of it is dropped.
func endLoans(snap *snapshot, records map[string]record) (some bool) {
	if snap.broken[fileRemote] {
		return false
	}
	for name, rec := range records {
		holds := func(srv schemas.Server) bool { return srv.Name == name && rec.lent(srv) != nil }
		if rec.Loan != nil && !slices.ContainsFunc(snap.docs[fileRemote].Servers, holds) {
			rec.Loan, some = nil, true
			records[name] = rec
		}
	}
	return some
}

// endLoansOf writes down which loans a change by hand has ended, before a hand can take it back.
func (s *Store) endLoansOf(ctx context.Context, t *thread) {
	t.mu.Lock()
	ended := t.snap != nil && endLoans(t.snap, maps.Clone(t.snap.state))
	t.mu.Unlock()
	if !ended {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second) // others wait for the watcher
	defer cancel()
	err := s.locked(ctx, t.id, func(dir *durable.Dir, snap *snapshot) error {
		if records := maps.Clone(snap.state); endLoans(snap, records) {
			return s.writeState(dir, snap, records)
		}
		return nil
	})
	if err != nil {
		s.opt.Log.Warn("an ended loan is not written down; it does not hold while its connector is another one", "thread", t.id, "err", err)
	}
}

// Lend lets the thread use a connector with the caller's own sign-in; with a nil loan it ends the one there is. Nothing but a
// call of Lend makes a loan: no file that people share, no undo.
func (s *Store) Lend(ctx context.Context, by schemas.Caller, server string, l *schemas.Loan) error {
	if l != nil && (by.Role < schemas.Member || l.Member != by.Member || by.Member == "") {
		return &schemas.Error{Code: schemas.CodeDenied, Text: "only a member can lend their own sign-in"}
	}
	return s.locked(ctx, by.Thread, func(dir *durable.Dir, snap *snapshot) error {
		rec, known := snap.state[server]
		e, listed := snap.cfg.Find(server)
		switch {
		case !known || !listed:
			return unknownServer(snap.cfg, server)
		case l == nil && rec.Loan == nil:
			return nil
		case l == nil && rec.Loan.Member != by.Member && !by.Manages():
			return &schemas.Error{Code: schemas.CodeDenied, Text: "only the one who lent it or a manager of the thread can withdraw it"}
		case l != nil && (e.Auth == nil || e.Auth.Type != "oauth"):
			return &schemas.Error{Code: schemas.CodeInvalid, Text: server + " has no sign-in to lend"}
		case l != nil && e.Pending():
			return &schemas.Error{Code: schemas.CodePending, Text: server + " waits for approval, so its sign-in cannot be lent", Hint: "`/mcp enable " + server + "`"}
		}
		rec.Loan = nil
		if l != nil {
			rec.Loan = &loan{*l, e.Fingerprint()}
		}
		records := maps.Clone(snap.state)
		records[server] = rec
		return s.writeState(dir, snap, records)
	})
}

// Detach ends all loans of a member and gives the names of the connectors they were for.
func (s *Store) Detach(ctx context.Context, id schemas.ThreadID, member schemas.MemberID) ([]string, error) {
	var ended []string
	err := s.locked(ctx, id, func(dir *durable.Dir, snap *snapshot) error {
		records := maps.Clone(snap.state)
		for _, name := range slices.Sorted(maps.Keys(records)) {
			if rec := records[name]; rec.Loan != nil && rec.Loan.Member == member {
				rec.Loan, ended = nil, append(ended, name)
				records[name] = rec
			}
		}
		if len(ended) == 0 {
			return nil
		}
		return s.writeState(dir, snap, records)
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}
