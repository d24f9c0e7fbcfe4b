package mcpstore

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// operator is the owner of the operator's servers.
const operator = "operator"

// attachment is what state.json keeps of one of the operator's servers.
type attachment struct {
	schemas.Attachment
	Pins map[string]string `json:"pins,omitempty"`
}

// decodeAttachments reads them one by one: a damaged one is left out.
func decodeAttachments(raw map[string]json.RawMessage) map[string]attachment {
	all := map[string]attachment{}
	for name, text := range raw {
		var a attachment
		if schemas.ValidName(name) && json.Unmarshal(text, &a) == nil && a.By != "" {
			all[name] = a
		}
	}
	return all
}

// Attach lets the thread use one of the operator's servers, in the caller's name. Whether they may is the operator's to say.
func (s *Store) Attach(ctx context.Context, by schemas.Caller, name string) error {
	if !schemas.ValidName(name) {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "that is no name of a server"}
	}
	return s.attachments(ctx, by.Thread, func(all map[string]attachment) bool {
		a := schemas.Attachment{By: by.Member, ByName: by.Name, Role: by.Role, Operator: by.Operator, At: s.opt.Now().UTC()}
		all[name] = attachment{Attachment: a}
		return true
	})
}

// Release ends that; false: it was not attached.
func (s *Store) Release(ctx context.Context, id schemas.ThreadID, name string) (was bool, err error) {
	err = s.attachments(ctx, id, func(all map[string]attachment) bool {
		_, was = all[name]
		delete(all, name)
		return was
	})
	return was, err
}

// Attached gives the operator's servers that the thread wants to use, by name.
func (s *Store) Attached(ctx context.Context, id schemas.ThreadID) (map[string]schemas.Attachment, error) {
	snap, err := s.read(ctx, id)
	if err != nil {
		return nil, err
	}
	all := map[string]schemas.Attachment{}
	for name, a := range snap.admin {
		all[name] = a.Attachment
	}
	return all, nil
}

func (s *Store) attachments(ctx context.Context, id schemas.ThreadID, change func(map[string]attachment) bool) error {
	return s.locked(ctx, id, func(dir *durable.Dir, snap *snapshot) error {
		all := maps.Clone(snap.admin)
		if all == nil {
			all = map[string]attachment{}
		}
		if !change(all) {
			return nil
		}
		return s.writeWith(dir, snap, maps.Clone(snap.state), all)
	})
}

// withAdmin gives the configuration with the operator's servers at the end, as they are defined now. One that is gone, or that the
// thread may no longer use, is left out.
func (s *Store) withAdmin(snap *snapshot) schemas.Config {
	cfg := snap.cfg
	if len(snap.admin) == 0 || s.opt.Admin == nil {
		return cfg
	}
	cfg.Entries = slices.Clone(cfg.Entries)
	slugs := map[string]bool{}
	for _, e := range cfg.Entries {
		slugs[schemas.Slug(e.Name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(snap.admin)) {
		a := snap.admin[name]
		def, ok := s.opt.Admin(cfg.Thread, name, a.Attachment)
		if !ok {
			continue
		}
		def.Name = name
		cfg.Entries = append(cfg.Entries, schemas.Entry{
			Server: def, Kind: schemas.Admin, Owner: operator, OwnerName: operator, Enabled: true, Pins: a.Pins, Shadowed: slugs[schemas.Slug(name)],
			Approval: &schemas.Approval{Fingerprint: def.Fingerprint(), By: a.By, ByName: a.ByName, At: a.At, Definition: def},
		})
		slugs[schemas.Slug(name)] = true
	}
	return cfg
}
