package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bobbin/schemas"
)

const (
	suffix    = ".json"
	maxFile   = 8 << 20   // bytes of one member's file
	maxCached = 256 << 10 // larger files are read each time
	maxFiles  = 512       // in the cache
	settled   = 100 * time.Millisecond
)

// entry is one sealed value in a member's file.
type entry struct {
	Thread schemas.ThreadID `json:"thread"`
	Server string           `json:"server"`
	Name   string           `json:"name"`
	Origin string           `json:"origin"`
	Nonce  []byte           `json:"nonce"`
	Sealed []byte           `json:"sealed"`
	At     time.Time        `json:"at"`
}

func (e entry) key(m schemas.MemberID) schemas.SecretKey {
	return schemas.SecretKey{Member: m, Thread: e.Thread, Server: e.Server, Name: e.Name, Origin: e.Origin}
}

// sealed is a member's file. raw and entries go together; a value that cannot be read is a zero entry, and its bytes stay.
type sealed struct {
	member  schemas.MemberID
	raw     []json.RawMessage
	entries []entry
}

// find gives the last one: an older bobbin or a hand may have left two.
func (s *sealed) find(k schemas.SecretKey) int {
	for i, e := range slices.Backward(s.entries) {
		if e.key(s.member) == k {
			return i
		}
	}
	return -1
}

func (s *sealed) replace(k schemas.SecretKey, raw json.RawMessage) bool {
	i := s.find(k)
	if i >= 0 {
		s.raw[i] = raw
	}
	return i >= 0
}

func (s *sealed) remove(gone func(entry) bool) {
	kept := s.raw[:0:0]
	for i, e := range s.entries {
		if !gone(e) {
			kept = append(kept, s.raw[i])
		}
	}
	s.raw = kept
}

func (s *sealed) encode() ([]byte, error) {
	var b bytes.Buffer
	head, err := json.Marshal(s.member)
	if err != nil {
		return nil, err
	}
	b.WriteString(`{"version":1,"member":` + string(head) + `,"values":[`)
	for i, raw := range s.raw { // as they were: json.Marshal would write them anew
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(raw)
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}

func decode(m schemas.MemberID, data []byte) (*sealed, error) {
	var file struct {
		Version int               `json:"version"`
		Member  schemas.MemberID  `json:"member"`
		Values  []json.RawMessage `json:"values"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	switch {
	case file.Version != version:
		return nil, errors.New("vault: the file is of another version")
	case file.Member != m: // a file system that does not tell a from A, or a file that was renamed
		return nil, errors.New("vault: the file is another member's")
	}
	s := &sealed{member: m, raw: file.Values, entries: make([]entry, len(file.Values))}
	for i, raw := range file.Values {
		if json.Unmarshal(raw, &s.entries[i]) != nil {
			s.entries[i] = entry{}
		}
	}
	return s, nil
}

// read gives an empty file when there is none.
func (v *Vault) read(m schemas.MemberID) (*sealed, error) {
	data, err := v.dir.Read(string(m)+suffix, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &sealed{member: m}, nil
	}
	if err == nil {
		var s *sealed
		if s, err = decode(m, data); err == nil {
			return s, nil
		}
	}
	return nil, &schemas.Error{Code: schemas.CodeUnreadable, Text: "the sealed values of this member cannot be read", Hint: "the operator looks at the file in the vault; nothing in it was changed", Err: err}
}

// change reads, changes and writes a member's file under its lock.
func (v *Vault) change(ctx context.Context, m schemas.MemberID, f func(key []byte, s *sealed) error) error {
	key, err := v.master(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	name := string(m) + suffix
	release, err := v.dir.Lock(ctx, name)
	if err != nil {
		return unusable(err)
	}
	defer release()
	s, err := v.read(m)
	if err != nil {
		return err
	}
	had := len(s.raw)
	if err := f(key, s); err != nil {
		return err
	}
	defer v.cache.drop(m)
	if len(s.raw) == 0 {
		if had == 0 {
			return nil
		}
		err = v.dir.Remove(name)
	} else {
		var data []byte
		if data, err = s.encode(); err == nil && len(data) > maxFile {
			return &schemas.Error{Code: schemas.CodeTooLarge, Text: "the values of this member are too long together", Hint: "delete some with `/mcp secrets`"}
		}
		if err == nil {
			err = v.dir.Write(name, data)
		}
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}

// load is read through the cache. The result is shared and must not be changed.
func (v *Vault) load(m schemas.MemberID) (*sealed, error) {
	info, err := os.Lstat(filepath.Join(v.dir.Path(), string(m)+suffix))
	if err != nil {
		return v.read(m)
	}
	if s := v.cache.get(m, info); s != nil {
		return s, nil
	}
	s, err := v.read(m)
	// A file that changed this very moment may change again without a change of its time stamp.
	if err == nil && info.Size() <= maxCached && time.Since(info.ModTime()) > settled {
		v.cache.put(m, info, s)
	}
	return s, err
}

// members lists whose files there are.
func (v *Vault) members() ([]schemas.MemberID, error) {
	files, err := v.dir.List()
	if err != nil {
		return nil, err
	}
	var members []schemas.MemberID
	for _, f := range files {
		if m, ok := strings.CutSuffix(f.Name(), suffix); ok && schemas.MemberID(m).Valid() {
			members = append(members, schemas.MemberID(m))
		}
	}
	return members, nil
}

// cache keeps parsed files, values sealed, for as long as the file is the same.
type cache struct {
	mu    sync.Mutex
	files map[schemas.MemberID]cached
}

type cached struct {
	info fs.FileInfo
	s    *sealed
}

func (c *cache) get(m schemas.MemberID, now fs.FileInfo) *sealed {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.files[m]; ok && os.SameFile(f.info, now) && f.info.Size() == now.Size() && f.info.ModTime().Equal(now.ModTime()) {
		return f.s
	}
	return nil
}

func (c *cache) put(m schemas.MemberID, info fs.FileInfo, s *sealed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil || len(c.files) >= maxFiles {
		c.files = map[schemas.MemberID]cached{}
	}
	c.files[m] = cached{info, s}
}

func (c *cache) drop(m schemas.MemberID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.files, m)
}
