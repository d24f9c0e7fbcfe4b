package registry

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"bobbin/internal/durable"
	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

const maxCached = 32 << 20 // bytes of one cache file

// cached is what data/cache/<thread>/<server>.json holds: the tools of one definition, so that they are known without
// starting it. Fingerprint and Server decide whether it may be served.
type cached struct {
	Server      string                     `json:"server"`
	Fingerprint string                     `json:"fingerprint"`
	Protocol    string                     `json:"protocol"`
	Resources   bool                       `json:"resources,omitempty"`
	Prompts     bool                       `json:"prompts,omitempty"`
	Tools       []json.RawMessage          `json:"tools"`
	Refused     []session.Refusal          `json:"refused,omitempty"`
	Approved    map[string]json.RawMessage `json:"approved,omitempty"` // approved definitions that the server changed since
}

func cacheName(server string) string { return schemas.Slug(server) + ".json" }

// recall fills a slot's tools from the cache, if they are those of the wanted definition and were approved.
func (t *thread) recall(s *slot, w want) {
	if !w.runs || w.Pins == nil || s.tools != nil && s.toolsFor == w.id.fingerprint || s.inst != nil || s.next != nil {
		return
	}
	s.tools, s.toolsFor, s.approved = nil, "", nil
	dir, err := t.folder()
	if err != nil {
		return
	}
	defer dir.Close()
	data, err := dir.Read(cacheName(w.Name), maxCached)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.r.opt.Log.Warn("cannot read cached tools", "thread", t.id, "server", w.Name, "err", err)
		}
		return
	}
	var c cached
	if json.Unmarshal(data, &c) != nil || c.Server != w.Name || c.Fingerprint != w.id.fingerprint {
		return
	}
	s.tools = newToolset(w.Name, c.Tools, nil, nil)
	s.tools.refused = c.Refused
	s.tools.era, s.tools.resources, s.tools.prompts = c.Protocol, c.Resources, c.Prompts
	s.toolsFor, s.approved = c.Fingerprint, c.Approved
	s.pins = maps.Clone(w.Pins)
	s.remember()
}

// remember keeps the approved definition of each tool that has one, for a readable difference later.
func (s *slot) remember() {
	approved := map[string]json.RawMessage{}
	for name, raw := range s.approved {
		if s.pins[name] != "" {
			approved[name] = raw
		}
	}
	for _, d := range s.tools.list {
		if s.pins[d.Name] == d.Pin {
			approved[d.Name] = d.Raw
		}
	}
	s.approved = approved
}

// saveOne writes the pins and the cache of one server that changed. A failure costs a start later, no safety: pins stay
// in memory and are written again with the next change.
func (t *thread) saveOne() {
	if len(t.unsaved) == 0 {
		return
	}
	name := slices.Min(slices.Collect(maps.Keys(t.unsaved)))
	delete(t.unsaved, name)
	s := t.slots[name]
	if s == nil || s.tools == nil || s.toolsFor != s.id.fingerprint {
		return
	}
	if s.pins != nil && !maps.Equal(s.pins, s.entry.Pins) {
		ctx, cancel := t.disk()
		err := t.r.opt.Wishes.Pin(ctx, t.id, name, maps.Clone(s.pins))
		cancel()
		if err != nil {
			t.r.opt.Log.Error("cannot keep the pins of a server's tools", "thread", t.id, "server", name, "err", err)
		} else {
			s.entry.Pins = maps.Clone(s.pins)
		}
	}
	c := cached{
		Server: name, Fingerprint: s.toolsFor, Protocol: s.tools.era, Resources: s.tools.resources, Prompts: s.tools.prompts,
		Refused: s.tools.refused, Approved: map[string]json.RawMessage{}, Tools: []json.RawMessage{},
	}
	now := map[string]string{}
	for _, d := range s.tools.list {
		c.Tools = append(c.Tools, d.Raw)
		now[d.Name] = d.Pin
	}
	for tool, raw := range s.approved {
		if now[tool] != s.pins[tool] {
			c.Approved[tool] = raw
		}
	}
	if err := t.store(cacheName(name), c); err != nil {
		t.r.opt.Log.Warn("cannot cache the tools of a server", "thread", t.id, "server", name, "err", err)
	}
}

func (t *thread) store(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	dir, err := t.folder()
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Write(name, data)
}

// forget removes a server's cache.
func (t *thread) forget(server string) {
	dir, err := t.folder()
	if err != nil {
		return
	}
	defer dir.Close()
	if err := dir.Remove(cacheName(server)); err != nil {
		t.r.opt.Log.Warn("cannot remove cached tools", "thread", t.id, "server", server, "err", err)
	}
}

func (t *thread) folder() (*durable.Dir, error) { return t.r.opt.Cache.Sub(string(t.id)) }
