package vault

import (
	"context"
	"fmt"
	"sync"

	"bobbin/schemas"
)

// Limits of what is held.
const (
	maxHeld      = 100      // values of a member
	maxHeldBytes = 16 << 20 // of everybody
)

// held is values that are in memory alone.
type held struct {
	mu     sync.Mutex
	values map[schemas.SecretKey]schemas.Secret
	bytes  int
}

// Hold keeps a value in memory alone, in front of a sealed one of the same key, until the value is put, deleted or forgotten, or
// the process ends. It needs no master key, and writes nothing. Limits: 64 KiB a value, 100 values a member, 16 MiB in all.
func (v *Vault) Hold(ctx context.Context, k schemas.SecretKey, value schemas.Secret) error {
	if err := checkKey(k); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return unusable(err)
	}
	n := len(value.Reveal())
	if n > maxSecret {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: fmt.Sprintf("the value of %q is too long", k.Name), Hint: "64 KiB at most"}
	}
	h := &v.held
	h.mu.Lock()
	defer h.mu.Unlock()
	was, there := h.values[k]
	mine := 0
	for other := range h.values {
		if other.Member == k.Member {
			mine++
		}
	}
	if total := h.bytes - len(was.Reveal()) + n; !there && mine >= maxHeld || total > maxHeldBytes {
		return &schemas.Error{Code: schemas.CodeTooLarge, Text: "too many values are held in memory already", Hint: "delete some with `/mcp secrets`, or let the vault keep them"}
	}
	if h.values == nil {
		h.values = map[schemas.SecretKey]schemas.Secret{}
	}
	h.values[k] = value
	h.bytes += n - len(was.Reveal())
	return nil
}

// Holds reports whether the value that Reveal gives is in memory alone.
func (v *Vault) Holds(k schemas.SecretKey) bool {
	_, ok := v.held.get(k)
	return ok
}

func (h *held) get(k schemas.SecretKey) (schemas.Secret, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.values[k]
	return s, ok
}

// drop forgets what matches and reports whether there was any.
func (h *held) drop(match func(schemas.SecretKey) bool) (any bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, s := range h.values {
		if match(k) {
			h.bytes -= len(s.Reveal())
			delete(h.values, k)
			any = true
		}
	}
	return any
}

// keys lists what matches.
func (h *held) keys(match func(schemas.SecretKey) bool) (all []schemas.SecretKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range h.values {
		if match(k) {
			all = append(all, k)
		}
	}
	return all
}
