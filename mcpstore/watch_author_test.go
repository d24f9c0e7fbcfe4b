package mcpstore_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

func TestRun_AnotherBobbin(t *testing.T) {
	r := open(t, mcpstore.Options{})
	l := watch(t, r)
	two := openAt(t, r.path, mcpstore.Options{})
	mine := func(e schemas.Edited, summary string) {
		t.Helper()
		if !e.Outside || e.By == nil || e.By.By != chief.Member || e.By.Summary != summary || e.By.Door != chief.Door || e.Policy {
			t.Fatalf("%+v, by %+v", e, e.By)
		}
	}
	two.commit(chief, put(draft("demo", "npx", "demo")))
	mine(l.next(), "1 added: demo")
	l.silent(quiet)
	r.commit(chief, put(draft("here", "npx", "here")))
	if e := l.next(); e.Outside {
		t.Fatalf("%+v", e)
	}
	two.commit(chief, put(draft("demo", "npx", "demo@2")))
	mine(l.next(), "1 changed: demo")
	two.commit(chief, schemas.Edit{Remove: []string{"demo"}})
	mine(l.next(), "1 removed: demo")

	// What a hand does is nobody's, also when it leaves the files as the newest revision did.
	text, err := os.ReadFile(r.file("mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(quiet)
	r.replace("mcp.json", `{"mcpServers":{"evil":{"command":"sh"}}}`)
	if e := l.next(); e.By != nil || len(e.Waiting) != 1 || len(e.Removed) != 1 {
		t.Fatalf("%+v", e)
	}
	r.replace("mcp.json", string(text))
	if e := l.next(); e.By != nil || !e.Outside {
		t.Fatalf("%+v", e)
	}
	// A commit on top of a hand edit that waits is its author's; the edit was told before.
	r.replace("mcp.json", `{"mcpServers":{"evil":{"command":"sh"}}}`)
	l.next()
	two.commit(chief, put(draft("demo", "npx", "demo")))
	mine(l.next(), "1 added: demo")
}

// Many commits of another bobbin are never taken for a hand's.
func TestRun_AnotherBobbinIsBusy(t *testing.T) {
	r := open(t, mcpstore.Options{})
	l := watch(t, r)
	two := openAt(t, r.path, mcpstore.Options{})
	for i := range 20 {
		two.commit(chief, put(draft("demo", "npx", string(rune('a'+i)))))
		two.commit(chief, schemas.Edit{Remove: []string{"demo"}})
	}
	end := time.After(time.Second)
	for n := 0; ; {
		select {
		case e := <-l.told:
			if n++; e.Outside && e.By == nil && len(e.Removed)+len(e.Waiting) > 0 {
				t.Fatalf("%+v", e)
			}
		case <-end:
			if n == 0 {
				t.Fatal("nothing told")
			}
			return
		}
	}
}

// While another bobbin writes, what stands there is half of it: nothing is told before it is done.
func TestRun_WaitsForTheWriter(t *testing.T) {
	r := open(t, mcpstore.Options{})
	l := watch(t, r)
	r.commit(chief, put(draft("demo", "npx", "demo")))
	l.next()
	users, err := durable.Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	dir, err := users.Sub(string(tid))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	free, err := dir.Lock(t.Context(), "mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	r.replace("mcp.json", `{"mcpServers":{}}`)
	l.silent(quiet)
	free()
	if e := l.next(); len(e.Removed) != 1 {
		t.Errorf("%+v", e)
	}
}

// A loan of another bobbin is there at once, its end as well, and nobody is told of anything but that something changed.
func TestRun_LoanOfAnotherBobbin(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, signed("https://notes.example/mcp"))
	l := watch(t, r)
	two := openAt(t, r.path, mcpstore.Options{})
	for _, loan := range []*schemas.Loan{{Member: alice.Member}, nil} {
		if err := two.Lend(t.Context(), alice, "notes", loan); err != nil {
			t.Fatal(err)
		}
		e := l.next()
		if e.Policy || len(e.Removed)+len(e.Waiting)+len(e.Problems) > 0 || (r.entry("notes").Loan == nil) != (loan == nil) {
			t.Errorf("%+v, %+v", e, r.entry("notes").Loan)
		}
		l.silent(quiet)
		if err := r.Lend(t.Context(), alice, "notes", loan); err != nil { // its own is no news
			t.Fatal(err)
		}
		l.silent(quiet)
	}
}

// A loan ends with its definition, also when a hand puts the definition back and nothing else happened.
func TestRun_LoanEndsByHand(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, signed("https://notes.example/mcp"))
	if err := r.Lend(t.Context(), alice, "notes", &schemas.Loan{Member: alice.Member}); err != nil {
		t.Fatal(err)
	}
	l := watch(t, r)
	notes := r.text("mcp_remote.json")
	r.replace("mcp_remote.json", strings.Replace(notes, "notes.example", "other.example", 1))
	if e := l.next(); len(e.Waiting) != 1 {
		t.Errorf("%+v", e)
	}
	for end := time.Now().Add(5 * time.Second); strings.Contains(r.text("state.json"), `"loan"`); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the loan stays on disk")
		}
	}
	r.replace("mcp_remote.json", notes)
	l.next()
	if e := r.entry("notes"); e.Loan != nil || e.Pending() {
		t.Errorf("%+v", e)
	}
}
