package registry

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bobbin/schemas"
)

func newKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails since Go 1.24
	return key
}

// wanted looks up the inputs of an entry's running definition. The values are returned apart: want is compared and shown.
func (r *Registry) wanted(ctx context.Context, thread schemas.ThreadID, e schemas.Entry, inputs []schemas.Input) (want, map[string]schemas.Secret) {
	w := want{Entry: e}
	w.def, w.runs = e.Running()
	if !w.runs {
		return w, nil
	}
	w.id.fingerprint = w.def.Fingerprint()
	if strings.Contains(w.def.Command, "${input:") {
		w.fault = "the command itself must not hold ${input:…}"
		return w, nil
	}
	values := map[string]schemas.Secret{}
	for _, id := range w.def.Inputs() {
		v, ok, err := r.value(ctx, schemas.SecretKey{Member: e.Owner, Thread: thread, Server: e.Name, Name: id, Origin: w.def.Origin()}, inputs)
		switch {
		case err != nil:
			r.opt.Log.Error("cannot read a secret", "thread", thread, "server", e.Name, "input", id, "err", err)
			w.fault = "the secret " + schemas.Clean(id, true) + " cannot be read"
			if said, ok := errors.AsType[*schemas.Error](err); ok && said.Code != schemas.CodeInternal {
				w.fault += ": " + said.Text + "; " + said.Hint
			}
		case !ok:
			w.needs = append(w.needs, id)
		default:
			values[id] = v
		}
	}
	if r.opt.Hidden != nil {
		maps.Copy(values, r.opt.Hidden(ctx, thread, e))
	}
	w.id.values = r.digest(values)
	return w, values
}

// value of one input: the owner's sealed one, else the declared default.
func (r *Registry) value(ctx context.Context, key schemas.SecretKey, inputs []schemas.Input) (schemas.Secret, bool, error) {
	if !schemas.ValidInput(key.Name) {
		return schemas.Secret{}, false, nil
	}
	v, err := r.opt.Secrets.Reveal(ctx, key)
	if err == nil {
		return v, true, nil
	}
	if schemas.CodeOf(err) != schemas.CodeNeeds {
		return schemas.Secret{}, false, err
	}
	for _, in := range inputs {
		if in.ID == key.Name && in.Default != "" {
			return schemas.NewSecret(in.Default), true, nil
		}
	}
	return schemas.Secret{}, false, nil
}

// digest tells whether values changed without keeping them: HMAC-SHA256 under a key that lives as long as the process.
func (r *Registry) digest(values map[string]schemas.Secret) string {
	if len(values) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, r.key)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name].Reveal()
		fmt.Fprintf(mac, "%d:%s%d:%s", len(name), name, len(v), v)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// substitute replaces every ${input:ID} once; what a value holds is not looked at again.
func substitute(text string, values map[string]schemas.Secret) string {
	if !strings.Contains(text, "${input:") {
		return text
	}
	return schemas.InputRef.ReplaceAllStringFunc(text, func(ref string) string {
		if v, ok := values[ref[len("${input:"):len(ref)-1]]; ok {
			return v.Reveal()
		}
		return ref
	})
}
