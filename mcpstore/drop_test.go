package mcpstore_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

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
	if ids, err := s.Stored(ctx); err != nil || !slices.Equal(ids, []schemas.ThreadID{"other"}) {
		t.Errorf("stored %v, %v", ids, err)
	}
	for id, want := range map[schemas.ThreadID]int{"123456789012345678": 0, "other": 1} {
		cfg, err := s.Load(ctx, id)
		if err != nil || len(cfg.Entries) != want || len(cfg.Problems) > 0 {
			t.Errorf("%s has %d entries, %v, %v", id, len(cfg.Entries), cfg.Problems, err)
		}
	}
}

// A drop that a kill cut short leaves nothing that may start; the thread counts as stored until the next try drops the rest.
func TestDrop_AfterAKill(t *testing.T) {
	names := []string{"mcp.json", "mcp_remote.json", "policy.json", "state.json", "history"}
	for n := range len(names) + 1 {
		r := open(t, mcpstore.Options{})
		r.commit(alice, put(draft("a", "echo")))
		r.commit(alice, put(draft("a", "echo", "2")))
		if err := r.Rule(t.Context(), tid, func(p *schemas.Policy) error { p.Thread.Deny = []string{"*"}; return nil }); err != nil {
			t.Fatal(err)
		}
		for _, name := range names[:n] {
			if err := os.RemoveAll(r.file(name)); err != nil {
				t.Fatal(err)
			}
		}
		again := openAt(t, r.path, mcpstore.Options{})
		if cfg, err := again.Load(t.Context(), tid); err != nil || n > 0 && len(cfg.Entries) > 0 {
			t.Errorf("cut after %d: %d servers, %v", n, len(cfg.Entries), err)
		}
		if has, err := again.Has(t.Context(), tid); err != nil || has != (n < len(names)) {
			t.Errorf("cut after %d: stored %t, %v", n, has, err)
		}
		if err := again.Drop(t.Context(), tid); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := os.Lstat(r.file(name)); err == nil {
				t.Errorf("cut after %d: %s is left", n, name)
			}
		}
		if cfg, err := again.Load(t.Context(), tid); err != nil || len(cfg.Entries) > 0 || len(cfg.Problems) > 0 || len(cfg.Policy.Thread.Deny) > 0 {
			t.Errorf("cut after %d: %+v, %v", n, cfg, err)
		}
	}
}

// Nobody edited anything outside of chat when a thread is dropped, and one that comes back begins anew.
func TestDrop_IsNoEdit(t *testing.T) {
	noLeak(t)
	r := open(t, mcpstore.Options{Rescan: 30 * time.Millisecond})
	l := watch(t, r)
	r.commit(alice, put(draft("a", "echo")))
	l.next()
	if err := r.Drop(t.Context(), tid); err != nil {
		t.Fatal(err)
	}
	l.silent(quiet)
	r.commit(alice, put(draft("b", "echo")))
	if e := l.next(); e.Outside {
		t.Errorf("%+v", e)
	}
	if revs, err := r.History(t.Context(), tid); err != nil || len(revs) != 1 {
		t.Errorf("history %+v, %v", revs, err)
	}
}
