package mcpstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"bobbin/internal/durable"
	"bobbin/mcpstore/internal/config"
	"bobbin/schemas"
)

// The largest policy.
const (
	maxPatterns = 256 // in one list
	maxPattern  = 200 // bytes of one pattern
	maxGrants   = 2000
)

// Rule changes the thread's rules: change gets a copy of what is on disk and may refuse. Grants whose time is over are
// dropped. A policy.json that cannot be read is never replaced.
func (s *Store) Rule(ctx context.Context, id schemas.ThreadID, change func(*schemas.Policy) error) error {
	var wrote bool
	err := s.locked(ctx, id, func(dir *durable.Dir, snap *snapshot) error {
		if snap.broken[filePolicy] {
			return &schemas.Error{
				Code: schemas.CodeUnreadable, Text: "policy.json cannot be read, so its rules cannot be changed",
				Hint: "the operator can fix the file or delete it",
			}
		}
		p := clonePolicy(snap.cfg.Policy)
		if err := change(&p); err != nil {
			return &refusal{err}
		}
		now := s.opt.Now()
		p.Grants = slices.DeleteFunc(p.Grants, func(g schemas.Grant) bool { return g.Until != nil && !now.Before(*g.Until) })
		maps.DeleteFunc(p.Members, func(_ schemas.MemberID, r schemas.Rules) bool {
			return len(r.Allow)+len(r.Ask)+len(r.Deny) == 0
		})
		if p.Egress.Empty() {
			p.Egress = nil
		}
		if problems := checkPolicy(p); len(problems) > 0 {
			return &schemas.Error{Code: schemas.CodeInvalid, Text: problems[0].Text, Hint: problems[0].Hint}
		}
		data, err := encodeJSON(p)
		if err != nil {
			return fmt.Errorf("mcpstore: policy: %w", err)
		}
		if len(data) > config.MaxText {
			return &schemas.Error{Code: schemas.CodeTooLarge, Text: "the thread has too many rules", Hint: "remove some first"}
		}
		wrote = true
		return dir.Write(fileName(filePolicy), data)
	})
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.cause
	}
	if err == nil && wrote {
		s.news.add(schemas.Edited{Thread: id, Policy: true})
	}
	return err
}

// forgetGrants drops the yes that members gave to tools of an earlier server with the name of one that is added now: it was to
// another program. It comes before the files, so that a crash leaves more questions, never fewer.
func (s *Store) forgetGrants(dir *durable.Dir, p *plan) error {
	policy := clonePolicy(p.snap.cfg.Policy)
	stale := func(g schemas.Grant) bool {
		return slices.ContainsFunc(p.out.Changes, func(c schemas.Change) bool {
			return c.Kind == schemas.Added && strings.HasPrefix(g.Tool, c.Server+".")
		})
	}
	if p.snap.broken[filePolicy] || !slices.ContainsFunc(policy.Grants, stale) {
		return nil
	}
	policy.Grants = slices.DeleteFunc(policy.Grants, stale)
	data, err := encodeJSON(policy)
	if err != nil {
		return fmt.Errorf("mcpstore: policy: %w", err)
	}
	return dir.Write(fileName(filePolicy), data)
}

// refusal carries the caller's own error out of the lock unchanged.
type refusal struct{ cause error }

func (r *refusal) Error() string { return r.cause.Error() }

func clonePolicy(p schemas.Policy) schemas.Policy {
	p.Thread = cloneRules(p.Thread)
	members := make(map[schemas.MemberID]schemas.Rules, len(p.Members))
	for m, r := range p.Members {
		members[m] = cloneRules(r)
	}
	p.Members = members
	if e := p.Egress; e != nil {
		p.Egress = &schemas.EgressRules{Allow: slices.Clone(e.Allow), Ask: slices.Clone(e.Ask), Deny: slices.Clone(e.Deny)}
	}
	p.Grants, p.Permissions = slices.Clone(p.Grants), slices.Clone(p.Permissions)
	return p
}

func cloneRules(r schemas.Rules) schemas.Rules {
	return schemas.Rules{Allow: slices.Clone(r.Allow), Ask: slices.Clone(r.Ask), Deny: slices.Clone(r.Deny)}
}

// decodePolicy reads policy.json strictly: an unknown or doubled key could hide a rule.
func decodePolicy(data []byte) (schemas.Policy, schemas.Problems) {
	fail := func(offset int64, text, hint string) (schemas.Policy, schemas.Problems) {
		p := schemas.Problem{File: fileName(filePolicy), Text: text, Hint: hint}
		p.Line, p.Col = place(data, offset)
		return schemas.Policy{}, schemas.Problems{p}
	}
	if !utf8.Valid(data) {
		return fail(0, "is not UTF-8 text", "save it as UTF-8")
	}
	if key, offset := doubledKey(data); key != "" {
		return fail(offset, fmt.Sprintf("%q is given twice; only the last would be used", key), "delete one of them")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var p *schemas.Policy
	if err := dec.Decode(&p); err != nil {
		offset := offsetOf(err)
		if offset == 0 {
			offset = dec.InputOffset()
		}
		return fail(offset, policyWords(err), `rules look like {"thread":{"allow":["github.*"],"ask":[],"deny":[]}}`)
	}
	if p == nil {
		return fail(0, "holds no rules", "write {} for none, or delete the file")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fail(dec.InputOffset(), "has text after its end", "delete what follows the last }")
	}
	return *p, checkPolicy(*p)
}

func policyWords(err error) string {
	if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return "unknown key " + key
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%q has the wrong type, %s", wrong.Field, wrong.Value)
	}
	return "is not complete JSON"
}

func checkPolicy(p schemas.Policy) (problems schemas.Problems) {
	bad := func(text, hint string) {
		problems = append(problems, schemas.Problem{File: fileName(filePolicy), Text: text, Hint: hint})
	}
	rules := []schemas.Rules{p.Thread}
	for _, m := range slices.Sorted(maps.Keys(p.Members)) {
		if !m.Valid() {
			bad(fmt.Sprintf("%.40q is no member id", string(m)), "use the platform's id, not a display name")
		}
		rules = append(rules, p.Members[m])
	}
	for _, r := range rules {
		for _, list := range [][]string{r.Allow, r.Ask, r.Deny} {
			if len(list) > maxPatterns {
				bad(fmt.Sprintf("a list has %d patterns, at most %d are allowed", len(list), maxPatterns), "use * to cover several tools")
			}
			for _, pattern := range list {
				if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > maxPattern {
					bad(fmt.Sprintf("%.40q is no pattern", pattern), `use server.tool, with * for any text, such as "github.*"`)
				}
			}
		}
	}
	if p.Egress != nil {
		for _, list := range [][]string{p.Egress.Allow, p.Egress.Ask, p.Egress.Deny} {
			if len(list) > maxPatterns {
				bad(fmt.Sprintf("a list has %d hosts, at most %d are allowed", len(list), maxPatterns), "use *.example.com to cover several")
			}
			for _, host := range list {
				if !schemas.ValidHost(host) {
					bad(fmt.Sprintf("%.40q is no host", host), "write api.example.com, *.example.com or api.example.com:8443")
				}
			}
		}
	}
	if len(p.Grants) > maxGrants {
		bad(fmt.Sprintf("%d grants, at most %d are allowed", len(p.Grants), maxGrants), "take some back")
	}
	if len(p.Permissions) > maxGrants {
		bad(fmt.Sprintf("%d permissions, at most %d are allowed", len(p.Permissions), maxGrants), "take some back")
	}
	for _, one := range p.Permissions {
		if !one.Member.Valid() || one.Resource != schemas.Shell || one.Action != schemas.Execute {
			bad("a permission names no member, or nothing that can be permitted", `write {"member": "ID", "resource": "shell", "action": "execute", "by": "ID", "until": "2026-01-31T12:00:00Z"}`)
		}
	}
	return problems
}

func (s *Store) buildPolicy(prev, next *snapshot, f content) {
	if f.missing {
		return
	}
	if prev != nil && prev.sums[filePolicy] == f.sum && !prev.broken[filePolicy] {
		next.cfg.Policy = prev.cfg.Policy
		return
	}
	problems := schemas.Problems{unreadable(fileName(filePolicy), f.err)}
	if f.err == nil {
		if next.cfg.Policy, problems = decodePolicy(f.data); len(problems) == 0 {
			return
		}
	}
	next.broken[filePolicy] = true
	if prev != nil {
		next.cfg.Policy = prev.cfg.Policy
	} else {
		// The denials that stood there are unknown.
		next.cfg.Policy = schemas.Policy{Thread: schemas.Rules{Deny: []string{"*"}}, Egress: &schemas.EgressRules{Deny: []string{"*"}}}
		problems[0].Hint = strings.TrimPrefix(problems[0].Hint+"; until then every tool and host is denied", "; ")
	}
	next.cfg.Problems = append(next.cfg.Problems, problems...)
}

// doubledKey finds a name that an object has twice. Case is ignored as encoding/json does, except for the ids of members.
func doubledKey(data []byte) (key string, offset int64) {
	type frame struct {
		keys  map[string]bool // nil in a list
		last  string          // the newest of keys
		want  bool            // a key comes next
		exact bool            // case counts
	}
	var stack []frame
	dec := json.NewDecoder(bytes.NewReader(data))
	for len(stack) <= config.MaxDepth {
		at := dec.InputOffset()
		tok, err := dec.Token()
		if err != nil {
			return "", 0
		}
		top := len(stack) - 1
		if name, ok := tok.(string); ok && top >= 0 && stack[top].want {
			fold := strings.ToLower(name)
			if stack[top].exact {
				fold = name
			}
			if stack[top].keys[fold] {
				return name, at
			}
			stack[top].keys[fold], stack[top].want, stack[top].last = true, false, fold
			continue
		}
		switch tok {
		case json.Delim('{'):
			ids := top == 0 && stack[top].last == "members"
			stack = append(stack, frame{keys: map[string]bool{}, want: true, exact: ids})
			continue
		case json.Delim('['):
			stack = append(stack, frame{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack, top = stack[:top], top-1
		}
		if top >= 0 && stack[top].keys != nil {
			stack[top].want = true
		}
	}
	return "", 0
}

func offsetOf(err error) int64 {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return e.Offset
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return e.Offset
	}
	return 0
}

// place gives line and column, from 1 and in characters, of a byte offset.
func place(data []byte, offset int64) (line, col int) {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}
