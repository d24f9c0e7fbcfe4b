package mcpstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// The files of a thread that the store reads, in the order of its arrays.
const (
	fileLocal = iota
	fileRemote
	filePolicy
	fileState
	fileCount
)

const (
	maxState   = 8 << 20 // bytes of state.json: pins of every tool of 32 servers fit many times
	maxReads   = 5       // readings of one thread until none of its files changed meanwhile
	settleTime = 100 * time.Millisecond
)

func fileName(i int) string {
	return [fileCount]string{"mcp.json", "mcp_remote.json", "policy.json", "state.json"}[i]
}

func fileIndex(name string) (int, bool) {
	for i := range fileCount {
		if fileName(i) == name {
			return i, true
		}
	}
	return 0, false
}

// stamps tell files apart without reading them; a missing file has none.
type stamps [fileCount]os.FileInfo

func (a stamps) equal(b stamps) bool {
	for i := range a {
		if (a[i] == nil) != (b[i] == nil) {
			return false
		}
		if a[i] != nil && (a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) || !os.SameFile(a[i], b[i])) {
			return false
		}
	}
	return true
}

// settled reports whether a write after now must change a stamp: file systems keep time in ticks of some milliseconds.
func (a stamps) settled(now time.Time) bool {
	for _, info := range a {
		if info != nil && now.Sub(info.ModTime()) < settleTime {
			return false
		}
	}
	return true
}

// newest is the time of the last write.
func (a stamps) newest() (t time.Time) {
	for _, info := range a {
		if info != nil && info.ModTime().After(t) {
			t = info.ModTime()
		}
	}
	return t
}

func (s *Store) stamps(id schemas.ThreadID) (st stamps) {
	for i := range st {
		// Lstat opens nothing, so the path is enough here; content is read through durable alone.
		if info, err := os.Lstat(filepath.Join(s.users.Path(), string(id), fileName(i))); err == nil {
			st[i] = info
		}
	}
	return st
}

// content of one file as it was read.
type content struct {
	data    []byte
	missing bool
	err     error
	sum     string // of data, "" when missing, of the error's text when unreadable
}

// snapshot is one consistent reading of a thread. It is never changed.
type snapshot struct {
	sums   [fileCount]string
	raw    [2][]byte        // the texts of large files, to read only what changes in them
	docs   [2]config.Stored // the same, last good when broken
	broken [fileCount]bool
	refuse error // why nothing may be written here: a newer format, an irregular file
	state  map[string]record
	admin  map[string]attachment
	cfg    schemas.Config
}

// refresh gives the snapshot of now. The caller holds t.mu. With force the files are read whatever their stamps say.
func (s *Store) refresh(t *thread, force bool) (*snapshot, error) {
	now, st := time.Now(), s.stamps(t.id)
	if !force && t.snap != nil && t.settled && st.equal(t.stamps) {
		return t.snap, nil
	}
	var files [fileCount]content
	for try := 0; ; try++ {
		var err error
		if files, err = s.readFiles(t.id); err != nil {
			return nil, err
		}
		now2, again := time.Now(), s.stamps(t.id)
		if again.equal(st) || try == maxReads {
			break
		}
		now, st = now2, again
	}
	t.stamps, t.settled = st, st.settled(now)
	if t.snap != nil && sumsOf(files) == t.snap.sums {
		return t.snap, nil
	}
	t.snap = s.build(t.id, t.snap, files)
	return t.snap, nil
}

func sumsOf(files [fileCount]content) (sums [fileCount]string) {
	for i, f := range files {
		sums[i] = f.sum
	}
	return sums
}

func (s *Store) readFiles(id schemas.ThreadID) (files [fileCount]content, err error) {
	for i := range files {
		files[i].missing = true
	}
	if !s.users.Has(string(id)) { // Sub would make the folder
		return files, nil
	}
	dir, err := s.folder(string(id))
	if err != nil {
		return files, failure("the thread's folder cannot be read", err)
	}
	defer dir.Close()
	for i := range files {
		limit := int64(config.MaxText)
		if i == fileState {
			limit = maxState
		}
		files[i] = readContent(dir, fileName(i), limit)
	}
	return files, nil
}

func readContent(dir *durable.Dir, name string, limit int64) content {
	data, err := dir.Read(name, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{missing: true}
	case err != nil:
		return content{err: err, sum: durable.Sum([]byte(err.Error()))}
	}
	return content{data: data, sum: durable.Sum(data)}
}

// build decodes what changed since prev, which may be nil.
func (s *Store) build(id schemas.ThreadID, prev *snapshot, files [fileCount]content) *snapshot {
	next := &snapshot{sums: sumsOf(files)}
	next.cfg.Thread = id
	next.cfg.Base = baseOf(next.sums)
	for i := range next.docs {
		s.buildDoc(id, prev, next, i, files[i])
	}
	s.buildState(prev, next, files[fileState])
	s.buildPolicy(prev, next, files[filePolicy])
	next.cfg.Entries = entries(next)
	next.cfg.Inputs = mergeInputs(next.docs[0].Inputs, next.docs[1].Inputs)
	next.cfg.Remote = next.docs[fileLocal].Remote
	return next
}

func baseOf(sums [fileCount]string) string {
	return durable.Sum([]byte(sums[fileLocal] + "\n" + sums[fileRemote]))
}

func (s *Store) buildDoc(id schemas.ThreadID, prev, next *snapshot, i int, f content) {
	if f.missing {
		return
	}
	if prev != nil && prev.sums[i] == f.sum && !prev.broken[i] {
		next.docs[i], next.raw[i] = prev.docs[i], prev.raw[i]
		return
	}
	problems := schemas.Problems{unreadable(fileName(i), f.err)}
	if f.err == nil {
		var doc config.Stored
		spliced := false
		if prev != nil && !prev.broken[i] {
			doc, spliced = s.redecode(i, prev.raw[i], prev.docs[i], f.data)
		}
		if !spliced {
			doc = s.decode(i, f.data)
		}
		if len(doc.Problems) == 0 {
			next.docs[i] = doc
			if len(doc.Servers) >= spliceMin {
				next.raw[i] = f.data
			}
			return
		}
		problems = doc.Problems
	} else {
		next.refuse = failure("nothing can be changed here", f.err)
	}
	next.broken[i] = true
	next.cfg.Problems = append(next.cfg.Problems, problems...)
	if prev != nil {
		next.docs[i] = prev.docs[i]
	} else {
		next.docs[i] = s.lastGood(id, i)
	}
}

func (s *Store) decode(i int, data []byte) config.Stored {
	if i == fileLocal {
		return config.DecodeLocal(data, s.opt.servers)
	}
	return config.DecodeRemote(data, s.opt.servers)
}

func encode(i int, doc config.Stored) []byte {
	if i == fileLocal {
		return config.EncodeLocal(doc.Servers, doc.Inputs, doc.Schema)
	}
	return config.EncodeRemote(doc.Servers, doc.Inputs, doc.Schema)
}

// lastGood takes a document from the newest revision of the history, for a process that never saw the file whole.
func (s *Store) lastGood(id schemas.ThreadID, i int) config.Stored {
	revs, err := s.revisions(id, 1)
	if err != nil || len(revs) == 0 {
		return config.Stored{}
	}
	text := revs[0].After.text(i)
	if text == "" {
		return config.Stored{}
	}
	doc := s.decode(i, []byte(text))
	if len(doc.Problems) > 0 {
		return config.Stored{}
	}
	return doc
}

func unreadable(name string, err error) schemas.Problem {
	p := schemas.Problem{File: name, Text: "cannot be read", Hint: "the operator finds the reason in the log"}
	irregular, isIrregular := errors.AsType[*durable.IrregularError](err)
	large, isLarge := errors.AsType[*durable.TooLargeError](err)
	switch {
	case isIrregular && irregular.Mode&fs.ModeSymlink != 0:
		p.Text, p.Hint = "is a symbolic link, which is not followed", "put the file itself there"
	case isIrregular:
		p.Text, p.Hint = "is not a regular file", "put a regular file in its place"
	case isLarge:
		p.Text, p.Hint = fmt.Sprintf("is larger than %d KiB", large.Limit>>10), "make it smaller"
	case errors.Is(err, fs.ErrPermission):
		p.Text, p.Hint = "may not be read by bobbin", "the operator can check who owns it"
	}
	return p
}

// entries puts documents and records together, in load order.
func entries(snap *snapshot) []schemas.Entry {
	var all []schemas.Entry
	slugs := map[string]bool{}
	for i, kind := range []schemas.Kind{schemas.Local, schemas.Connector} {
		for _, srv := range snap.docs[i].Servers {
			rec, known := snap.state[srv.Name]
			slug := schemas.Slug(srv.Name)
			all = append(all, schemas.Entry{
				Server: srv, Kind: kind, Title: rec.Title, Owner: rec.Owner, OwnerName: rec.OwnerName,
				Enabled:  (rec.Enabled || !known) && !snap.docs[i].Disabled[srv.Name],
				Approval: rec.approval(srv), Pins: rec.Pins, Loan: rec.lent(srv), Shadowed: slugs[slug],
			})
			slugs[slug] = true
		}
	}
	return all
}

// mergeInputs joins declarations by id; the first one wins.
func mergeInputs(lists ...[]schemas.Input) []schemas.Input {
	var all []schemas.Input
	for _, list := range lists {
		for _, in := range list {
			if !slices.ContainsFunc(all, func(x schemas.Input) bool { return x.ID == in.ID }) {
				all = append(all, in)
			}
		}
	}
	return all
}
