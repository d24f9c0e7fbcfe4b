package mcpstore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

func TestDrop_RemovesOneThreadAndNothingElse(t *testing.T) {
	root := t.TempDir()
	dir, err := durable.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcpstore.Open(dir, mcpstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, id := range []schemas.ThreadID{"123456789012345678", "other"} {
		who := schemas.Caller{Thread: id, Member: "ann", Role: schemas.Owner, Door: schemas.DoorDiscord}
		p, err := s.Propose(ctx, who, schemas.Edit{Put: mcpstore.Import("", []byte(`{"mcpServers":{"demo":{"command":"node"}}}`), "").Servers})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(ctx, who, p); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, string(id), "audit.jsonl"), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // again after a crash, or by mistake
		if err := s.Drop(ctx, "123456789012345678"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Drop(ctx, "never-was"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "never-was")); err == nil {
		t.Error("a folder was made for a thread that never was")
	}
	left, err := os.ReadDir(filepath.Join(root, "123456789012345678"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if n := f.Name(); n != "audit.jsonl" && n[0] != '.' {
			t.Errorf("%s is left", n)
		}
	}
	for id, want := range map[schemas.ThreadID]int{"123456789012345678": 0, "other": 1} {
		cfg, err := s.Load(ctx, id)
		if err != nil || len(cfg.Entries) != want || len(cfg.Problems) > 0 {
			t.Errorf("%s has %d entries, %v, %v", id, len(cfg.Entries), cfg.Problems, err)
		}
	}
}
