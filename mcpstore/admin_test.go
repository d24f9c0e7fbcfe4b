package mcpstore_test

import (
	"testing"

	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

func TestAttach(t *testing.T) {
	users, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defs := map[string]schemas.Server{"search": {Type: schemas.HTTP, URL: "http://search:8080/mcp", Auth: &schemas.Auth{Type: schemas.Operated}}}
	opt := mcpstore.Options{Admin: func(id schemas.ThreadID, name string, a schemas.Attachment) (schemas.Server, bool) {
		if id != "T1" || a.By != "U1" || !a.Operator {
			t.Errorf("asked for %s %s %+v", id, name, a)
		}
		s, ok := defs[name]
		return s, ok
	}}
	s, err := mcpstore.Open(users, opt)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	by := schemas.Caller{Thread: "T1", Member: "U1", Name: "Una", Role: schemas.Owner, Operator: true}
	must(s.Attach(t.Context(), by, "search"))
	must(s.Attach(t.Context(), by, "gone"))
	load := func() []schemas.Entry {
		t.Helper()
		other, err := mcpstore.Open(users, opt) // nothing of it is in memory alone
		must(err)
		cfg, err := other.Load(t.Context(), "T1")
		must(err)
		if len(cfg.Problems) > 0 {
			t.Error(cfg.Problems)
		}
		return cfg.Entries
	}
	es := load()
	if len(es) != 1 || es[0].Kind != schemas.Admin || es[0].Owner != "operator" || es[0].Pending() || es[0].Shadowed || es[0].Approval.By != "U1" {
		t.Fatalf("%+v", es)
	}
	must(s.Pin(t.Context(), "T1", "search", map[string]string{"find": "p1"}))
	if es := load(); es[0].Pins["find"] != "p1" {
		t.Errorf("pins %v", es[0].Pins)
	}
	if cfg, err := s.Load(t.Context(), "T2"); err != nil || len(cfg.Entries) != 0 {
		t.Errorf("T2 has %+v %v", cfg.Entries, err)
	}
	was, err := s.Release(t.Context(), "T1", "search")
	if err != nil || !was || len(load()) != 0 {
		t.Errorf("%v %v %+v", was, err, load())
	}
	if was, err := s.Release(t.Context(), "T1", "search"); err != nil || was {
		t.Errorf("again: %v %v", was, err)
	}
}

func TestAttach_LastInTheLoadOrder(t *testing.T) { // local → remote → admin
	users, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcpstore.Open(users, mcpstore.Options{Admin: func(schemas.ThreadID, string, schemas.Attachment) (schemas.Server, bool) {
		return schemas.Server{Type: schemas.HTTP, URL: "http://a:8080/mcp"}, true
	}})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := users.Sub("T1")
	if err == nil {
		err = dir.Write("mcp.json", []byte(`{"mcpServers":{"a":{"command":"x"}}}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	by := schemas.Caller{Thread: "T1", Member: "U1", Role: schemas.Owner}
	for _, name := range []string{"a", "b"} {
		if err := s.Attach(t.Context(), by, name); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := s.Load(t.Context(), "T1")
	if err != nil || len(cfg.Entries) != 3 || cfg.Entries[0].Kind != schemas.Local || !cfg.Entries[1].Shadowed || cfg.Entries[2].Shadowed {
		t.Errorf("%+v %v", cfg.Entries, err)
	}
}
