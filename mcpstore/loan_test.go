package mcpstore_test

import (
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
