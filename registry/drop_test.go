package registry_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"bobbin/schemas"
)

// A dropped thread leaves no program, no tool list and no kept result; its neighbour with the same server notices nothing.
func TestDrop(t *testing.T) {
	h := newHouse(t, map[string]script{"fake": {Tools: tools(echoTool(), toolJSON("big", readOnly))}})
	for _, id := range []schemas.ThreadID{one, "other"} {
		h.set(id, entry("s", "fake"))
		h.apply(id)
	}
	if res, err := h.call(by(one, "s.big", `{"size":400000}`)); err != nil || res.Spilled == "" {
		t.Fatalf("%+v %v", res, err)
	}
	cache := func(id schemas.ThreadID) bool {
		_, err := os.Stat(filepath.Join(h.opt.Cache.Path(), string(id)))
		return err == nil
	}
	for end := time.Now().Add(5 * time.Second); !cache(one) || !cache("other"); {
		if time.Now().After(end) {
			t.Fatal("no tool lists are kept")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := h.Drop(t.Context(), one); schemas.CodeOf(err) != schemas.CodeConflict || !cache(one) {
		t.Errorf("a thread that still wants servers: %v", err)
	}
	h.wishes.edit(one, func(c *schemas.Config) { *c = schemas.Config{} })
	for range 2 {
		if err := h.Drop(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if cache(one) || !cache("other") {
		t.Errorf("kept: %t, of the other %t", cache(one), cache("other"))
	}
	if n := h.servers.open.Load(); n != 1 {
		t.Errorf("%d servers run", n)
	}
	if _, err := h.call(by("other", "s.echo", `{}`)); err != nil {
		t.Error(err)
	}
	h.stop()
	h.boot() // a thread that is not live keeps its tool lists on disk alone
	h.wishes.edit("other", func(c *schemas.Config) { *c = schemas.Config{} })
	if err := h.Drop(t.Context(), "other"); err != nil || cache("other") {
		t.Errorf("%v, kept %t", err, cache("other"))
	}
	if err := h.Drop(t.Context(), "never-was"); err != nil || cache("never-was") {
		t.Error(err)
	}
}
