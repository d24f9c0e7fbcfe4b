package mcpstore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

const (
	historyDir  = "history"
	maxHistory  = 50
	maxRevision = 8 << 20 // bytes of one stored revision
	idDigits    = 6
)

// pair is a thread's configuration at one moment, in canonical form and without any secret value.
type pair struct {
	Local  string            `json:"local,omitempty"`  // mcp.json, "" when it had no servers
	Remote string            `json:"remote,omitempty"` // mcp_remote.json
	State  map[string]record `json:"state,omitempty"`  // without approvals and pins
}

func (p pair) text(i int) string { return [...]string{p.Local, p.Remote}[i] }

func (p pair) enabled(server string) bool {
	rec, known := p.State[server]
	return rec.Enabled || !known
}

type revisionFile struct {
	Version  int              `json:"version"`
	Revision schemas.Revision `json:"revision"`
	Before   pair             `json:"before"`
	After    pair             `json:"after"`
}

func pairOf(docs [2]config.Stored, state map[string]record) pair {
	p := pair{State: map[string]record{}}
	texts := [2]*string{&p.Local, &p.Remote}
	for i, doc := range docs {
		if len(doc.Servers) > 0 {
			*texts[i] = string(encode(i, doc))
		}
	}
	for name, rec := range state {
		p.State[name] = record{Owner: rec.Owner, OwnerName: rec.OwnerName, Title: rec.Title, Enabled: rec.Enabled}
	}
	return p
}

// remember writes the revision of a plan and forgets those that are too old. The caller holds the lock.
func (s *Store) remember(p *plan, after map[string]record, now time.Time) (schemas.Revision, error) {
	dir, err := s.folder(string(p.snap.cfg.Thread), historyDir)
	if err != nil {
		return schemas.Revision{}, err
	}
	defer dir.Close()
	ids, err := revisionIDs(dir)
	if err != nil {
		return schemas.Revision{}, err
	}
	next := 1
	if len(ids) > 0 {
		newest, _ := strconv.Atoi(ids[0])
		next = newest + 1
	}
	before := map[string]record{}
	for _, e := range p.snap.cfg.Entries {
		if !e.Shadowed {
			before[e.Name] = record{Owner: e.Owner, OwnerName: e.OwnerName, Title: e.Title, Enabled: e.Enabled}
		}
	}
	file := revisionFile{
		Version: stateVersion, Before: pairOf(p.snap.docs, before), After: pairOf(p.read, after),
		Revision: schemas.Revision{
			ID: fmt.Sprintf("%0*d", idDigits, next), At: now, By: p.by.Member, ByName: p.by.Name, Door: p.by.Door, Source: p.edit.Source,
			Summary: summary(p.out.Changes), Diff: p.proposal(s.tags).Diff,
		},
	}
	data, err := encodeJSON(file)
	if err != nil {
		return schemas.Revision{}, fmt.Errorf("mcpstore: revision: %w", err)
	}
	if err := dir.Write(file.Revision.ID+".json", data); err != nil {
		return schemas.Revision{}, err
	}
	for _, old := range ids[min(len(ids), maxHistory-1):] {
		if err := dir.Remove(old + ".json"); err != nil {
			s.opt.Log.Warn("an old revision stays", "thread", p.snap.cfg.Thread, "revision", old, "err", err)
		}
	}
	return file.Revision, nil
}

// revisionIDs lists the stored revisions, newest first.
func revisionIDs(dir *durable.Dir) ([]string, error) {
	entries, err := dir.List()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		id, isJSON := strings.CutSuffix(e.Name(), ".json")
		if _, err := strconv.ParseUint(id, 10, 31); err == nil && isJSON && len(id) >= idDigits {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(b, a)
	})
	return ids, nil
}

// revisions reads up to n revisions, newest first, and passes over damaged ones.
func (s *Store) revisions(id schemas.ThreadID, n int) ([]revisionFile, error) {
	if !s.users.Has(string(id)) {
		return nil, nil
	}
	thread, err := s.folder(string(id))
	if err != nil {
		return nil, err
	}
	defer thread.Close()
	if !thread.Has(historyDir) {
		return nil, nil
	}
	dir, err := thread.Sub(historyDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	ids, err := revisionIDs(dir)
	if err != nil {
		return nil, err
	}
	var all []revisionFile
	for _, rev := range ids {
		if len(all) == n {
			break
		}
		if file, err := readRevision(dir, rev); err == nil {
			all = append(all, file)
		} else {
			s.opt.Log.Warn("a revision cannot be read", "thread", id, "revision", rev, "err", err)
		}
	}
	return all, nil
}

func readRevision(dir *durable.Dir, id string) (revisionFile, error) {
	var file revisionFile
	data, err := dir.Read(id+".json", maxRevision)
	if err != nil {
		return file, err
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return file, err
	}
	if file.Version > stateVersion || file.Revision.ID != id {
		return file, fmt.Errorf("mcpstore: revision %s is of another kind", id)
	}
	return file, nil
}

// author gives the newest revision if the watcher does not know it and the files are as it left them. The caller holds t.mu.
func (s *Store) author(t *thread, snap *snapshot) *schemas.Revision {
	files, err := s.revisions(t.id, 1)
	if err != nil || len(files) == 0 {
		return nil // who did it stays unknown
	}
	rev := files[0].Revision
	known := rev.ID == t.newest || t.newest == "" && rev.At.Before(s.news.since())
	t.newest = rev.ID
	if known || snap.broken != [fileCount]bool{} || !files[0].After.same(pairOf(snap.docs, snap.state)) {
		return nil
	}
	return &rev
}

func (p pair) same(q pair) bool {
	return p.Local == q.Local && p.Remote == q.Remote && maps.EqualFunc(p.State, q.State, func(a, b record) bool {
		return a.Owner == b.Owner && a.OwnerName == b.OwnerName && a.Title == b.Title && a.Enabled == b.Enabled
	})
}

// revision finds one by its id; leading zeros may be left out.
func (s *Store) revision(id schemas.ThreadID, rev string) (revisionFile, error) {
	all, err := s.revisions(id, maxHistory)
	if err != nil {
		return revisionFile{}, failure("the history cannot be read", err)
	}
	for _, file := range all {
		if strings.TrimLeft(file.Revision.ID, "0") == strings.TrimLeft(rev, "0") {
			return file, nil
		}
	}
	return revisionFile{}, &schemas.Error{
		Code: schemas.CodeNotFound, Text: fmt.Sprintf("no revision is called %.20q", rev), Hint: "`/mcp history` shows the last 50",
	}
}

// History gives the thread's commits, newest first, at most 50.
func (s *Store) History(ctx context.Context, id schemas.ThreadID) ([]schemas.Revision, error) {
	if err := checkThread(ctx, id); err != nil {
		return nil, err
	}
	files, err := s.revisions(id, maxHistory)
	if err != nil {
		return nil, failure("the history cannot be read", err)
	}
	revs := make([]schemas.Revision, len(files))
	for i, f := range files {
		revs[i] = f.Revision
	}
	return revs, nil
}
