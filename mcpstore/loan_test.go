package mcpstore_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

func signed(url string) schemas.Edit {
	d := remote("notes", url)
	d.Server.Auth = &schemas.Auth{Type: "oauth", Identity: "requester"}
	return schemas.Edit{Put: []schemas.Draft{d, remote("open", "https://open.example/mcp")}, Source: "connect"}
}

func TestLend(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, signed("https://notes.example/mcp"))
	base := r.load().Base
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	mine := &schemas.Loan{Member: alice.Member, Name: "alice", At: time.Now().Truncate(time.Second), Until: until}
	for name, c := range map[string]struct {
		by     schemas.Caller
		server string
		loan   *schemas.Loan
		want   schemas.Code
	}{
		"somebody else's":   {bob, "notes", mine, schemas.CodeDenied},
		"a manager for her": {chief, "notes", mine, schemas.CodeDenied},
		"a guest's":         {guest, "notes", &schemas.Loan{Member: guest.Member}, schemas.CodeDenied},
		"without a sign-in": {alice, "open", mine, schemas.CodeInvalid},
		"of nothing":        {alice, "nope", mine, schemas.CodeNotFound},
	} {
		if err := r.Lend(t.Context(), c.by, c.server, c.loan); schemas.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Lend(t.Context(), alice, "notes", mine); err != nil {
		t.Fatal(err)
	}
	e := r.entry("notes")
	if !e.Loan.Holds(time.Now()) || e.Loan.Holds(until) || e.Loan.Member != alice.Member || r.load().Base != base {
		t.Errorf("%+v", e.Loan)
	}
	if text, err := os.ReadFile(r.file("mcp_remote.json")); err != nil || strings.Contains(string(text), "loan") {
		t.Errorf("a shared file tells of the loan: %s %v", text, err)
	}
	if again := openAt(t, r.path, mcpstore.Options{}); again.entry("notes").Loan == nil {
		t.Error("the loan is not on disk")
	}
	if err := r.Lend(t.Context(), bob, "notes", nil); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Errorf("bob withdraws alice's: %v", err)
	}
	if err := r.Lend(t.Context(), chief, "notes", nil); err != nil || r.entry("notes").Loan != nil {
		t.Errorf("a manager withdraws: %v", err)
	}
}

func TestLend_EndsWithTheDefinition(t *testing.T) {
	for name, end := range map[string]func(*room){
		"edited": func(r *room) { r.commit(alice, signed("https://other.example/mcp")) },
		"edited by hand": func(r *room) {
			r.hand("mcp_remote.json", `{"mcpServers":{"notes":{"type":"http","url":"https://other.example/mcp","auth":{"type":"oauth"}}}}`)
		},
		"edited by hand and undone": func(r *room) {
			notes := r.text("mcp_remote.json")
			r.hand("mcp_remote.json", strings.Replace(notes, "notes.example", "other.example", 1))
			r.commit(alice, put(draft("else", "echo"))) // any commit
			r.hand("mcp_remote.json", notes)
		},
		"approved by hand and undone": func(r *room) {
			r.hand("mcp_remote.json", strings.Replace(r.text("mcp_remote.json"), "notes.example", "other.example", 1))
			r.commit(alice, schemas.Edit{Approve: []string{"notes"}})
			r.commit(alice, signed("https://notes.example/mcp"))
		},
		"edited by hand, then back after a pin": func(r *room) {
			notes := r.text("mcp_remote.json")
			r.hand("mcp_remote.json", strings.Replace(notes, "notes.example", "other.example", 1))
			if err := r.Pin(r.t.Context(), tid, "open", map[string]string{"x": "1"}); err != nil {
				r.t.Fatal(err)
			}
			r.hand("mcp_remote.json", notes)
		},
		"removed by hand and added": func(r *room) {
			notes := r.text("mcp_remote.json")
			r.hand("mcp_remote.json", `{"mcpServers":{}}`)
			r.commit(alice, put(draft("else", "echo")))
			r.hand("mcp_remote.json", notes)
		},
		"removed":         func(r *room) { r.commit(alice, schemas.Edit{Remove: []string{"notes"}}) },
		"its member left": func(r *room) { _, _ = r.Detach(r.t.Context(), tid, alice.Member) },
		"edited and undone": func(r *room) {
			rev := r.commit(alice, signed("https://other.example/mcp"))
			r.commit(alice, schemas.Edit{Undo: rev.ID})
		},
		"removed and undone": func(r *room) {
			rev := r.commit(alice, schemas.Edit{Remove: []string{"notes"}})
			r.commit(alice, schemas.Edit{Undo: rev.ID})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, mcpstore.Options{})
			r.commit(alice, signed("https://notes.example/mcp"))
			if err := r.Lend(t.Context(), alice, "notes", &schemas.Loan{Member: alice.Member}); err != nil {
				t.Fatal(err)
			}
			end(r)
			if e, _ := r.load().Find("notes"); e.Loan != nil {
				t.Errorf("still lent: %+v", e.Loan)
			}
		})
	}
}

func TestDetach_OnlyThatMember(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, signed("https://notes.example/mcp"))
	if err := r.Lend(t.Context(), alice, "notes", &schemas.Loan{Member: alice.Member}); err != nil {
		t.Fatal(err)
	}
	if names, err := r.Detach(t.Context(), tid, bob.Member); err != nil || len(names) != 0 || r.entry("notes").Loan == nil {
		t.Errorf("%v %v", names, err)
	}
	if names, err := r.Detach(t.Context(), tid, alice.Member); err != nil || len(names) != 1 || names[0] != "notes" {
		t.Errorf("%v %v", names, err)
	}
}

// A commit that dies behind the rename of the file, or ahead of it, lends nothing that was not lent.
func TestLend_CrashBetweenWrites(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, signed("https://notes.example/mcp"))
	if err := r.Lend(t.Context(), alice, "notes", &schemas.Loan{Member: alice.Member}); err != nil {
		t.Fatal(err)
	}
	old := r.text("mcp_remote.json")
	if err := errors.Join(os.RemoveAll(r.file("history")), os.WriteFile(r.file("history"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Commit(t.Context(), alice, r.propose(alice, signed("https://other.example/mcp"))); err == nil {
		t.Fatal("no error")
	}
	behind, during := r.text("mcp_remote.json"), r.text("state.json")
	if behind == old {
		t.Fatal("the file was not written")
	}
	crashed := func(text string) *room {
		c := open(t, mcpstore.Options{})
		c.hand("mcp_remote.json", text)
		c.hand("state.json", during)
		return c
	}
	if e := crashed(old).entry("notes"); e.Loan == nil || e.Pending() {
		t.Errorf("ahead of the rename nothing has changed: %+v", e)
	}
	c := crashed(behind)
	if e := c.entry("notes"); e.Loan != nil || e.Pending() {
		t.Errorf("behind it: %+v", e)
	}
	c.commit(alice, signed("https://notes.example/mcp"))
	if e := c.entry("notes"); e.Loan != nil || e.Pending() {
		t.Errorf("the old definition again: %+v", e)
	}
}

// A file that cannot be read ends no loan; it only lends nothing that is not there.
func TestLend_BrokenFile(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, signed("https://notes.example/mcp"))
	if err := r.Lend(t.Context(), alice, "notes", &schemas.Loan{Member: alice.Member}); err != nil {
		t.Fatal(err)
	}
	notes := r.text("mcp_remote.json")
	r.hand("mcp_remote.json", notes[:len(notes)/2])
	if err := r.Rule(t.Context(), tid, func(p *schemas.Policy) error { p.Thread.Deny = []string{"x"}; return nil }); err != nil {
		t.Fatal(err)
	}
	r.hand("mcp_remote.json", notes)
	if r.entry("notes").Loan == nil {
		t.Error("the loan ended with a slip of a hand")
	}
}
