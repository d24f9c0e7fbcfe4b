package mcpstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	stateVersion = 1
	maxApprovals = 3
	lockWait     = 10 * time.Second
)

// record is what state.json keeps of one server.
type record struct {
	Owner     schemas.MemberID  `json:"owner,omitempty"`
	OwnerName string            `json:"ownerName,omitempty"`
	Title     string            `json:"title,omitempty"`
	Enabled   bool              `json:"enabled"`
	Approvals []consent         `json:"approvals,omitempty"` // oldest first
	Pins      map[string]string `json:"pins,omitempty"`
	Loan      *loan             `json:"loan,omitempty"`
}

// consent is an approval. A tentative one was written ahead of the file it belongs to: it counts when the file has that
// definition, and never stands in for another one, because the commit may have died before it.
type consent struct {
	schemas.Approval
	Tentative bool `json:"tentative,omitempty"`
}

// approval finds the yes that holds for the file's definition, else the last one given for a server of that kind.
func (r record) approval(srv schemas.Server) *schemas.Approval {
	sum := srv.Fingerprint()
	var last *schemas.Approval
	for _, c := range r.Approvals {
		if c.Definition.Remote() != srv.Remote() {
			continue
		}
		if c.Fingerprint == sum {
			return &c.Approval
		}
		if !c.Tentative && last == nil {
			last = &c.Approval
		}
	}
	return last
}

// tidy leaves the one approval that counts for the file's definition.
func (r record) tidy(srv schemas.Server) record {
	a := r.approval(srv)
	r.Approvals = nil
	if a != nil {
		r.Approvals = []consent{{Approval: *a}}
	}
	return r
}

type stateFile struct {
	Version int                        `json:"version"`
	Servers map[string]json.RawMessage `json:"servers"`
	Admin   map[string]json.RawMessage `json:"admin"`
}

// decodeState reads state.json record by record: a damaged one is left out, so its server is pending, and the others hold.
func decodeState(data []byte) (map[string]record, map[string]attachment, schemas.Problems, error) {
	name := fileName(fileState)
	var file stateFile
	err := json.Unmarshal(data, &file)
	if err == nil && file.Version < stateVersion {
		err = errors.New("no version")
	}
	if err != nil {
		p := schemas.Problem{File: name, Text: "is damaged, so nobody's approval is known", Hint: "approve the servers again"}
		p.Line, p.Col = place(data, offsetOf(err))
		return nil, nil, schemas.Problems{p}, nil
	}
	if file.Version > stateVersion {
		text := fmt.Sprintf("was written by a newer bobbin (format %d, this one knows %d)", file.Version, stateVersion)
		const hint = "run the newer bobbin again; until then nothing is changed or started here"
		return nil, nil, schemas.Problems{{File: name, Text: text, Hint: hint}},
			&schemas.Error{Code: schemas.CodeUnreadable, Text: name + " " + text, Hint: hint}
	}
	records := make(map[string]record, len(file.Servers))
	var problems schemas.Problems
	for _, server := range slices.Sorted(maps.Keys(file.Servers)) {
		rec, ok := decodeRecord(server, file.Servers[server])
		if !ok {
			problems = append(problems, schemas.Problem{
				File: name, Server: server, Text: "its approval is damaged and does not count", Hint: "approve it again",
			})
		}
		records[server] = rec
	}
	return records, decodeAttachments(file.Admin), problems, nil
}

// decodeRecord reports whether the record is whole. Of a damaged one nothing is kept.
func decodeRecord(server string, data []byte) (record, bool) {
	var rec record
	if json.Unmarshal(data, &rec) != nil || !schemas.ValidName(server) {
		return record{}, false
	}
	for _, c := range rec.Approvals {
		def := c.Definition
		def.Name = server
		if def.Fingerprint() != c.Fingerprint {
			return record{}, false
		}
	}
	return rec, true
}

func encodeState(records map[string]record, admin map[string]attachment) ([]byte, error) {
	file := struct {
		Version int                   `json:"version"`
		Servers map[string]record     `json:"servers"`
		Admin   map[string]attachment `json:"admin,omitempty"`
	}{stateVersion, records, admin}
	return encodeJSON(file)
}

// encodeJSON writes two spaces deep with & < > as they are.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

func (s *Store) buildState(prev, next *snapshot, f content) {
	switch {
	case f.missing:
		return
	case prev != nil && prev.sums[fileState] == f.sum && !prev.broken[fileState]:
		next.state, next.admin = prev.state, prev.admin
		return
	case f.err != nil:
		next.cfg.Problems = append(next.cfg.Problems, unreadable(fileName(fileState), f.err))
		next.refuse = failure("nothing can be changed here", f.err)
	default:
		records, admin, problems, refuse := decodeState(f.data)
		next.cfg.Problems = append(next.cfg.Problems, problems...)
		if records != nil {
			next.state, next.admin = records, admin
			next.broken[fileState] = len(problems) > 0
			return
		}
		if refuse != nil {
			next.refuse = refuse
			next.broken[fileState] = true
			return // what a newer format means by an approval is unknown: none counts
		}
	}
	next.broken[fileState] = true
	if prev != nil {
		next.state, next.admin = prev.state, prev.admin
	}
}

// Pin replaces the pins of one server.
func (s *Store) Pin(ctx context.Context, id schemas.ThreadID, server string, pins map[string]string) error {
	return s.locked(ctx, id, func(dir *durable.Dir, snap *snapshot) error {
		rec, known := snap.state[server]
		if a, attached := snap.admin[server]; attached && !known {
			if maps.Equal(a.Pins, pins) && (a.Pins == nil) == (pins == nil) {
				return nil
			}
			all := maps.Clone(snap.admin)
			a.Pins = maps.Clone(pins)
			all[server] = a
			return s.writeWith(dir, snap, maps.Clone(snap.state), all)
		}
		if !known {
			return unknownServer(snap.cfg, server)
		}
		if maps.Equal(rec.Pins, pins) && (rec.Pins == nil) == (pins == nil) {
			return nil
		}
		records := maps.Clone(snap.state)
		rec.Pins = maps.Clone(pins)
		records[server] = rec
		return s.writeState(dir, snap, records)
	})
}

// writeState replaces state.json. What could not be understood of the old one is kept beside it. It takes out of records what snap
// says has ended.
func (s *Store) writeState(dir *durable.Dir, snap *snapshot, records map[string]record) error {
	return s.writeWith(dir, snap, records, snap.admin)
}

func (s *Store) writeWith(dir *durable.Dir, snap *snapshot, records map[string]record, admin map[string]attachment) error {
	if records == nil {
		records = map[string]record{}
	}
	endLoans(snap, records)
	data, err := encodeState(records, admin)
	if err != nil {
		return fmt.Errorf("mcpstore: state: %w", err)
	}
	if snap.broken[fileState] {
		if err := keepBroken(dir, fileState, maxState); err != nil {
			return err
		}
	}
	return dir.Write(fileName(fileState), data)
}

// keepBroken copies a file that cannot be understood to NAME.broken before it is replaced.
func keepBroken(dir *durable.Dir, i int, limit int64) error {
	data, err := dir.Read(fileName(i), limit)
	if err != nil {
		return err
	}
	return dir.Write(fileName(i)+".broken", data)
}

// locked runs change under the thread's lock, with what is on disk at that moment, and reads again what change wrote.
func (s *Store) locked(ctx context.Context, id schemas.ThreadID, change func(*durable.Dir, *snapshot) error) error {
	if err := checkThread(ctx, id); err != nil {
		return err
	}
	dir, err := s.folder(string(id))
	if err != nil {
		return failure("the thread's folder cannot be used", err)
	}
	defer dir.Close()
	wait, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := dir.Lock(wait, fileName(fileLocal))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return failure("the change cannot be made", err)
	}
	defer unlock()
	t := s.thread(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	snap, err := s.refresh(t, true)
	if err != nil {
		return err
	}
	if snap.refuse != nil {
		return snap.refuse
	}
	s.seeOutside(t, snap)
	err = change(dir, snap)
	after, readErr := s.refresh(t, true)
	switch {
	case readErr != nil:
	case err == nil:
		s.ownWrite(t, after)
	default: // a part may have been written, and nobody else tells of it
		s.seeOutside(t, after)
	}
	if err == nil {
		return readErr
	}
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return err
	}
	return failure("the change could not be saved", err)
}
