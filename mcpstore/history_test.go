package mcpstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

func TestUndo(t *testing.T) {
	r := open(t, mcpstore.Options{})
	first := r.commit(alice, put(draft("a", "echo", "1"), draft("b", "echo")))
	r.commit(alice, schemas.Edit{Disable: []string{"b"}})
	third := r.commit(alice, schemas.Edit{Put: []schemas.Draft{draft("a", "echo", "2"), draft("c", "echo")}, Remove: []string{"b"}})
	r.refused(bob, schemas.Edit{Undo: third.ID}, schemas.CodeDenied)
	r.refused(alice, schemas.Edit{Undo: "999"}, schemas.CodeNotFound)
	r.refused(alice, schemas.Edit{Undo: third.ID, Remove: []string{"a"}}, schemas.CodeInvalid)
	p := r.propose(alice, schemas.Edit{Undo: third.ID})
	if kinds(p) != "changed a args; removed c; added b" {
		t.Error(kinds(p))
	}
	r.commit(chief, schemas.Edit{Undo: third.ID, Source: "undo"})
	a, b := r.entry("a"), r.entry("b")
	if a.Args[0] != "1" || a.Pending() || b.Pending() || b.Enabled || b.Owner != "u1" || b.Approval.By != "u3" || len(r.load().Entries) != 2 {
		t.Errorf("%+v\n%+v", a, b)
	}
	revs, err := r.History(t.Context(), tid)
	if err != nil || len(revs) != 4 || revs[0].Summary != "1 added: b; 1 changed: a; 1 removed: c" || revs[3].ID != first.ID {
		t.Errorf("%v %+v", err, revs)
	}
	r.commit(alice, schemas.Edit{Undo: strings.TrimLeft(first.ID, "0")})
	if len(r.load().Entries) != 0 {
		t.Errorf("%+v", r.load().Entries)
	}
}

func TestHistory_Fifty(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo")))
	for i := range 27 {
		r.commit(alice, schemas.Edit{Disable: []string{"a"}, Source: fmt.Sprint(i)})
		r.commit(alice, schemas.Edit{Enable: []string{"a"}})
	}
	revs, err := r.History(t.Context(), tid)
	if err != nil || len(revs) != 50 || revs[0].ID != "000055" || !slices.IsSortedFunc(revs, func(x, y schemas.Revision) int { return strings.Compare(y.ID, x.ID) }) {
		t.Errorf("%v %d", err, len(revs))
	}
	r.hand("history/000055.json", "{")
	if revs, err = r.History(t.Context(), tid); err != nil || len(revs) != 49 {
		t.Errorf("a damaged revision: %v %d", err, len(revs))
	}
}
