package mcpstore_test

import (
	"strings"
	"testing"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

// TestPropose_ManagerTakesNoValues: a manager rules over a member's server, but cannot have the member's sealed values given to a
// program that the member never saw.
func TestPropose_ManagerTakesNoValues(t *testing.T) {
	r := open(t, mcpstore.Options{})
	secret := func(args ...string) schemas.Draft {
		d := draft("s", "echo", args...)
		d.Server.Env = map[string]string{"TOKEN": "${input:TOKEN}"}
		return d
	}
	r.commit(alice, put(secret("a")))
	if e := r.refused(chief, put(secret("a", "steal")), schemas.CodeDenied); !strings.Contains(e.Text, "runs with the values of") || e.Hint == "" {
		t.Error(e)
	}
	moved := draft("s", "echo", "${input:TOKEN}")
	r.refused(chief, put(moved), schemas.CodeDenied)

	// What takes no value, or none that is new, stays a manager's right.
	timeout := secret("a")
	timeout.Server.Timeout = 5000
	r.commit(chief, put(timeout))
	r.commit(chief, schemas.Edit{Disable: []string{"s"}})
	r.commit(chief, schemas.Edit{Enable: []string{"s"}})
	r.propose(chief, put(draft("s", "echo", "harmless")))
	r.propose(chief, schemas.Edit{Remove: []string{"s"}})

	// A hand edit is a change like any other; putting back what the owner approved is not.
	r.hand("mcp.json", `{"mcpServers": {"s": {"command": "curl", "args": ["evil"], "env": {"TOKEN": "${input:TOKEN}"}}}}`)
	r.refused(chief, schemas.Edit{Approve: []string{"s"}}, schemas.CodeDenied)
	r.propose(chief, schemas.Edit{PutBack: []string{"s"}})
	r.propose(alice, schemas.Edit{Approve: []string{"s"}})
	operator := chief
	operator.Operator = true
	r.propose(operator, schemas.Edit{Approve: []string{"s"}})
	r.commit(alice, schemas.Edit{PutBack: []string{"s"}})

	// What the owner asked for a manager may confirm, not the other way round.
	asked := r.propose(alice, put(secret("b")))
	forged := asked
	forged.By = chief
	if _, err := r.Commit(t.Context(), chief, forged); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Error(err)
	}
	if _, err := r.Commit(t.Context(), chief, asked); err != nil {
		t.Error(err)
	}
	r.commit(alice, put(secret("c")))
	r.refused(chief, schemas.Edit{Undo: r.latest()}, schemas.CodeDenied)
	if e := r.entry("s"); e.Owner != "u1" || running(t, e) != "echo c" {
		t.Errorf("%+v", e)
	}
}

func (r *room) latest() string {
	r.t.Helper()
	revs, err := r.History(r.t.Context(), tid)
	if err != nil || len(revs) == 0 {
		r.t.Fatal(err)
	}
	return revs[0].ID
}

// TestCommit_GrantsEndWithTheirServer: "always" was said to a program, not to a name.
func TestCommit_GrantsEndWithTheirServer(t *testing.T) {
	for how, remove := range map[string]func(*room){
		"in chat": func(r *room) { r.commit(alice, schemas.Edit{Remove: []string{"s"}}) },
		"by hand": func(r *room) { r.hand("mcp.json", `{"mcpServers": {}}`) },
	} {
		r := open(t, mcpstore.Options{})
		r.commit(alice, put(draft("s", "echo"), draft("other", "echo")))
		if err := r.Rule(t.Context(), tid, func(p *schemas.Policy) error {
			p.Thread.Deny = []string{"s.x"}
			p.Grants = []schemas.Grant{{Tool: "s.put", Pin: "p", Member: "u2"}, {Tool: "other.put", Pin: "p", Member: "u2"}}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		r.commit(alice, put(draft("s", "echo", "changed"))) // the same server
		if got := r.load().Policy.Grants; len(got) != 2 {
			t.Errorf("%s: a change ended grants: %+v", how, got)
		}
		remove(r)
		r.commit(bob, put(draft("s", "evil")))
		p := openAt(t, r.path, mcpstore.Options{}).load().Policy
		if len(p.Grants) != 1 || p.Grants[0].Tool != "other.put" {
			t.Errorf("%s: %+v", how, p.Grants)
		}
		if len(p.Thread.Deny) != 1 {
			t.Errorf("%s: a denial went as well", how)
		}
	}
}

// TestLoad_PolicyKeysAreNoPolicy: what other clients obey in their files is refused or left without effect here, and nothing of
// a file weakens the thread's rules.
func TestLoad_PolicyKeysAreNoPolicy(t *testing.T) {
	for key, value := range map[string]string{
		"volumes": `["/:/h"]`, "network": `"host"`, "privileged": "true", "image": `"x"`, "user": `"root"`, "devices": `["/dev/mem"]`, "cap_add": `["ALL"]`,
	} {
		r := open(t, mcpstore.Options{})
		r.hand("mcp.json", `{"mcpServers": {"s": {"command": "echo", "`+key+`": `+value+`}}}`)
		if cfg := r.load(); len(cfg.Problems) == 0 || len(cfg.Entries) != 0 || !strings.Contains(cfg.Problems.Error(), key) {
			t.Errorf("%s: %+v", key, cfg.Problems)
		}
	}
	for key, value := range map[string]string{
		"autoApprove": `["*"]`, "alwaysAllow": `["*"]`, "trust": "true",
	} {
		r := open(t, mcpstore.Options{})
		r.hand("mcp.json", `{"mcpServers": {"s": {"command": "echo", "`+key+`": `+value+`}}}`)
		cfg := r.load()
		if p := cfg.Policy; len(p.Thread.Allow)+len(p.Grants)+len(p.Members) != 0 {
			t.Errorf("%s: %+v", key, p)
		}
		for _, e := range cfg.Entries {
			if _, ok := e.Running(); ok || e.Approval != nil {
				t.Errorf("%s: runs without a yes", key)
			}
		}
		im := mcpstore.Import("mcp.json", []byte(r.text("mcp.json")), "")
		if len(im.Notes) == 0 || im.Notes[0].Kind != schemas.NoteNotObeyed {
			t.Errorf("%s: %+v %v", key, im.Notes, im.Problems)
		}
	}
}

func TestLoad_HeadersThatBelongToTheProtocol(t *testing.T) {
	for _, header := range []string{
		`"Host": "evil"`, `"Content-Length": "1"`, `"Transfer-Encoding": "chunked"`, `"Mcp-Session-Id": "x"`,
		`"X": "a\r\nHost: b"`, `"X\r\nY": "b"`, `"X": "` + strings.Repeat("v", 64<<10) + `"`, `"Connection": "x"`, `"": "x"`,
	} {
		r := open(t, mcpstore.Options{})
		r.hand("mcp_remote.json", `{"mcpServers": {"s": {"url": "https://a.example", "headers": {`+header+`}}}}`)
		if cfg := r.load(); len(cfg.Problems) == 0 || len(cfg.Entries) != 0 {
			t.Errorf("%.40s is taken", header)
		}
	}
}
