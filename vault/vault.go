package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	version   = 1
	maxSecret = 64 << 10
	maxValues = 500
	maxOrigin = 512
	maxWait   = 10 * time.Second // for another process that writes
)

// Vault is all members' secrets. It is safe for concurrent use by goroutines and processes. It holds the master key in
// memory, but no value except those that Hold is given. Errors of its methods are *schemas.Error with words and never hold a value.
type Vault struct {
	dir   *durable.Dir
	cache cache
	held  held

	mu     sync.Mutex
	key    []byte         // set once, by unlock
	locked *schemas.Error // set once; why there is no key
}

// Open opens the vault in dir (data/vault). The key of a new one is made with the first use. A missing or wrong key is no
// error: see Locked.
func Open(dir *durable.Dir) (*Vault, error) {
	if dir == nil {
		return nil, errors.New("vault: no folder")
	}
	v := &Vault{dir: dir}
	if err := v.findKey(false); err != nil {
		return nil, &schemas.Error{Code: schemas.CodeMissing, Text: "the vault cannot be opened", Hint: "look at the permissions and the free space of the data folder", Err: err}
	}
	return v, nil
}

// Locked says why nothing can be sealed or revealed: a *schemas.Error, or nil. Names still works then.
func (v *Vault) Locked() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.locked == nil {
		return nil
	}
	return v.locked
}

// Put seals one value, in place of the one it may have had. The sealed bytes of other values stay as they are. Limits:
// 64 KiB a value, 500 values a member.
func (v *Vault) Put(ctx context.Context, k schemas.SecretKey, value schemas.Secret) error {
	if err := checkKey(k); err != nil {
		return err
	}
	plain := []byte(value.Reveal())
	defer clear(plain)
	if len(plain) > maxSecret {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("the value of %q is too long", k.Name), Hint: "64 KiB at most"}
	}
	err := v.change(ctx, k.Member, func(key []byte, s *sealed) error {
		nonce, bytes, err := seal(key, k, plain)
		if err != nil {
			return broken(err)
		}
		raw, err := json.Marshal(entry{Thread: k.Thread, Server: k.Server, Name: k.Name, Origin: k.Origin, Nonce: nonce, Sealed: bytes, At: time.Now().UTC().Truncate(time.Second)})
		if err != nil {
			return broken(err)
		}
		if !s.replace(k, raw) {
			if len(s.raw) >= maxValues {
				return &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("there are %d values already", maxValues), Hint: "delete some with `/mcp secrets`"}
			}
			s.raw = append(s.raw, raw)
		}
		return nil
	})
	if err == nil {
		v.held.drop(func(h schemas.SecretKey) bool { return h == k })
	}
	return err
}

// Reveal opens one value: CodeNeeds when there is none for exactly this key, CodeUnreadable when it is damaged.
func (v *Vault) Reveal(ctx context.Context, k schemas.SecretKey) (schemas.Secret, error) {
	if s, ok := v.held.get(k); ok {
		return s, nil
	}
	key, err := v.master(ctx)
	if err != nil {
		return schemas.Secret{}, err
	}
	if err := checkKey(k); err != nil {
		return schemas.Secret{}, err
	}
	s, err := v.load(k.Member)
	if err != nil {
		return schemas.Secret{}, err
	}
	i := s.find(k)
	if i < 0 {
		return schemas.Secret{}, &schemas.Error{Code: schemas.CodeNeeds, Text: fmt.Sprintf("%q has no value yet", k.Name), Hint: "enter it with `/mcp secrets`"}
	}
	plain, err := open(key, k, s.entries[i].Nonce, s.entries[i].Sealed)
	if err != nil {
		return schemas.Secret{}, &schemas.Error{Code: schemas.CodeUnreadable, Text: fmt.Sprintf("the sealed value of %q is damaged", k.Name), Hint: "enter it again with `/mcp secrets`", Err: err}
	}
	defer clear(plain)
	return schemas.NewSecret(string(plain)), nil
}

// Delete forgets one value; a missing one is no error.
func (v *Vault) Delete(ctx context.Context, k schemas.SecretKey) error {
	if err := checkKey(k); err != nil {
		return err
	}
	if v.held.drop(func(h schemas.SecretKey) bool { return h == k }) {
		if s, err := v.load(k.Member); err == nil && s.find(k) < 0 {
			return nil // nothing of it was sealed, so no key is needed
		}
	}
	return v.change(ctx, k.Member, func(_ []byte, s *sealed) error {
		s.remove(func(e entry) bool { return e.key(k.Member) == k })
		return nil
	})
}

// Forget deletes what all members entered for a server of a thread; with an empty server, for all of them. When a
// member's file cannot be changed it goes on with the others and returns the first error.
func (v *Vault) Forget(ctx context.Context, thread schemas.ThreadID, server string) error {
	v.held.drop(func(k schemas.SecretKey) bool { return k.Thread == thread && (server == "" || k.Server == server) })
	if _, err := v.master(ctx); err != nil {
		return err
	}
	members, err := v.members()
	if err != nil {
		return unusable(err)
	}
	mine := func(e entry) bool { return e.Thread == thread && (server == "" || e.Server == server) }
	var first error
	for _, m := range members {
		s, err := v.load(m)
		if err == nil && !slices.ContainsFunc(s.entries, mine) {
			continue
		}
		if err == nil {
			err = v.change(ctx, m, func(_ []byte, s *sealed) error { s.remove(mine); return nil })
		}
		first = cmp.Or(first, err)
	}
	return first
}

// Names lists a member's values in a thread, sorted by server, name and origin. It needs no key.
func (v *Vault) Names(ctx context.Context, m schemas.MemberID, thread schemas.ThreadID) ([]schemas.SecretKey, error) {
	if !m.Valid() || !thread.Valid() {
		return nil, badKey()
	}
	if err := ctx.Err(); err != nil {
		return nil, unusable(err)
	}
	s, err := v.load(m)
	if err != nil {
		return nil, err
	}
	keys := v.held.keys(func(k schemas.SecretKey) bool { return k.Member == m && k.Thread == thread })
	for _, e := range s.entries {
		if k := e.key(m); e.Thread == thread && checkKey(k) == nil {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b schemas.SecretKey) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Origin, b.Origin))
	})
	return slices.Compact(keys), nil
}

// Holders lists the values that all members have for a server of a thread; with an empty server, for all of them. It needs no
// key. A member's file that cannot be read is an error, after the others were read.
func (v *Vault) Holders(ctx context.Context, thread schemas.ThreadID, server string) ([]schemas.SecretKey, error) {
	members, err := v.members()
	if err != nil {
		return nil, unusable(err)
	}
	for _, k := range v.held.keys(func(k schemas.SecretKey) bool { return k.Thread == thread }) {
		if !slices.Contains(members, k.Member) {
			members = append(members, k.Member)
		}
	}
	var all []schemas.SecretKey
	var first error
	for _, m := range members {
		keys, err := v.Names(ctx, m, thread)
		first = cmp.Or(first, err)
		for _, k := range keys {
			if server == "" || k.Server == server {
				all = append(all, k)
			}
		}
	}
	return all, first
}

// master gives the key, or says with words why there is none.
func (v *Vault) master(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, unusable(err)
	}
	if err := v.unlock(ctx); err != nil {
		return nil, unusable(err)
	}
	if err := v.Locked(); err != nil {
		return nil, err
	}
	return v.key, nil
}

func checkKey(k schemas.SecretKey) error {
	printable := func(r rune) bool { return !unicode.IsPrint(r) }
	if !k.Member.Valid() || !k.Thread.Valid() || !schemas.ValidName(k.Server) || !schemas.ValidInput(k.Name) ||
		k.Origin == "" || len(k.Origin) > maxOrigin || slices.ContainsFunc([]rune(k.Origin), printable) {
		return badKey()
	}
	return nil
}

func badKey() error {
	return &schemas.Error{Code: schemas.CodeInvalid, Text: "this cannot be the name of a value", Hint: "use letters, digits and _"}
}

func unusable(err error) error {
	e := &schemas.Error{Code: schemas.CodeMissing, Text: "the vault cannot be used at the moment", Hint: "try again; if it stays so, ask the operator to look at the data folder", Err: err}
	if errors.Is(err, durable.ErrUnsynced) {
		e.Text, e.Hint = "the value was written, but may not survive a power cut", "ask the operator to look at the disk"
	}
	return e
}

func broken(err error) error {
	return &schemas.Error{Code: schemas.CodeInternal, Text: "the value could not be sealed", Err: err}
}
