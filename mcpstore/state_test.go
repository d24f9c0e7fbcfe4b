package mcpstore_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

func TestPin(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo"), draft("y", "echo")))
	base := r.load().Base
	pins := map[string]string{"tool": "abc"}
	if err := r.Pin(t.Context(), tid, "x", pins); err != nil {
		t.Fatal(err)
	}
	pins["tool"] = "changed later"
	if e := r.entry("x"); e.Pins["tool"] != "abc" || e.Pending() || r.load().Base != base {
		t.Errorf("%+v", e)
	}
	if err := r.Pin(t.Context(), tid, "z", nil); schemas.CodeOf(err) != schemas.CodeNotFound {
		t.Error(err)
	}
	r.commit(alice, put(draft("y", "echo", "2")))
	r.commit(alice, schemas.Edit{Disable: []string{"x"}})
	if e := r.entry("x"); e.Pins["tool"] != "abc" {
		t.Error("pins lost by a change of another server or a switch")
	}
	r.commit(alice, put(draft("x", "echo", "2")))
	if e := r.entry("x"); e.Pins != nil {
		t.Error("pins kept for a changed definition")
	}
}

func TestLoad_CorruptState(t *testing.T) {
	for _, text := range []string{"", "null", "{", `{"version":1,"servers":[]}`, "\x00\x00"} {
		r := open(t, mcpstore.Options{})
		r.commit(alice, put(draft("x", "echo", "good")))
		r.hand("state.json", text)
		if e := r.entry("x"); e.Pending() {
			t.Errorf("%q: the last good state is not kept", text)
		}
		again := openAt(t, r.path, mcpstore.Options{})
		e := again.entry("x")
		if !e.Pending() || running(t, e) != "-" {
			t.Errorf("%q: %+v", text, e)
		}
		if text != "null" && len(again.load().Problems) == 0 {
			t.Errorf("%q: no problem", text)
		}
		again.commit(chief, schemas.Edit{Approve: []string{"x"}})
		if e := again.entry("x"); e.Pending() || e.Owner != "u3" || len(again.load().Problems) != 0 {
			t.Errorf("%q: %+v", text, e)
		}
	}
}

// Whatever bit flips, nothing runs that nobody approved, and no denial is lost.
func TestLoad_BitFlips(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo", "one"), draft("y", "echo", "two"), draft("off", "echo", "three")))
	r.commit(alice, schemas.Edit{Disable: []string{"off"}})
	if err := r.Rule(t.Context(), tid, func(p *schemas.Policy) error { p.Thread.Deny = []string{"x.*", "y.*"}; return nil }); err != nil {
		t.Fatal(err)
	}
	approved := map[string]bool{"echo one": true, "echo two": true, "-": true}
	random := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"mcp.json", "state.json", "policy.json"} {
		whole := r.text(name)
		for range 300 {
			bytes := []byte(whole)
			at := random.IntN(len(bytes))
			bytes[at] ^= 1 << random.IntN(8)
			r.hand(name, string(bytes))
			cfg := openAt(t, r.path, mcpstore.Options{}).load()
			for _, e := range cfg.Entries {
				if got := running(t, e); !approved[got] {
					t.Fatalf("%s with %q at %d runs %q", name, bytes[at], at, got)
				}
			}
			if name == "policy.json" && len(cfg.Policy.Thread.Deny) == 0 {
				t.Fatalf("no denial left: %s", bytes)
			}
		}
		r.hand(name, whole)
	}
}

func TestNewerFormat_ReadOnly(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo")))
	r.hand("state.json", strings.Replace(r.text("state.json"), `"version": 1`, `"version": 2`, 1))
	before := r.text("state.json")
	e := r.refused(chief, put(draft("y", "echo")), schemas.CodeUnreadable)
	if !strings.Contains(e.Text, "newer") || e.Hint == "" {
		t.Errorf("%+v", e)
	}
	if err := r.Pin(t.Context(), tid, "x", nil); schemas.CodeOf(err) != schemas.CodeUnreadable {
		t.Errorf("pin: %v", err)
	}
	if x := r.entry("x"); running(t, x) != "-" {
		t.Errorf("%+v", x)
	}
	if r.text("state.json") != before {
		t.Error("written")
	}
}

func TestLoad_ApprovalsElsewhereDoNotCount(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo", "good")))
	state := r.text("state.json")
	// The fingerprint is that of the file, the definition is not: the record is rejected, others work.
	r.commit(alice, put(draft("y", "echo", "other")))
	tampered := strings.Replace(r.text("state.json"), "good", "evil", 1)
	if tampered == state {
		t.Fatal("nothing tampered")
	}
	r.hand("state.json", tampered)
	cfg := openAt(t, r.path, mcpstore.Options{}).load()
	x, _ := cfg.Find("x")
	y, _ := cfg.Find("y")
	if !x.Pending() || running(t, x) != "-" || y.Pending() || len(cfg.Problems) != 1 {
		t.Errorf("x %+v\ny %+v\n%v", x, y, cfg.Problems)
	}
}
