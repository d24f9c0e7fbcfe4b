package mcpstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bobbin/mcpstore"
	"bobbin/schemas"
)

func kinds(p schemas.Proposal) string {
	var all []string
	for _, c := range p.Changes {
		text := string(c.Kind) + " " + c.Server
		if len(c.Fields) > 0 {
			text += " " + strings.Join(c.Fields, ",")
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestPropose_Kinds(t *testing.T) {
	r := open(t, mcpstore.Options{})
	p := r.propose(alice, put(draft("b", "echo"), draft("a", "echo")))
	if kinds(p) != "added b; added a" || p.Diff == "" || p.Base == "" || p.Empty() {
		t.Errorf("%s\n%s", kinds(p), p.Diff)
	}
	if got := r.load().Entries; len(got) != 0 {
		t.Fatal("a proposal wrote")
	}
	r.commit(alice, put(draft("b", "echo"), draft("a", "echo"), draft("c", "echo")))

	changed := draft("a", "echo", "1")
	changed.Server.Env = map[string]string{"K": "v"}
	e := schemas.Edit{Put: []schemas.Draft{changed, draft("b", "echo"), draft("n", "echo")}, Source: "upload mcp.json"}
	p = r.propose(alice, e)
	if kinds(p) != "unchanged b; changed a args,env; added n" || !slices.Equal(p.Kept, []string{"c"}) {
		t.Errorf("%s, kept %v", kinds(p), p.Kept)
	}
	p = r.propose(alice, put(draft("a", "echo"), draft("b", "echo")))
	if !p.Empty() || p.Diff != "" || kinds(p) != "unchanged b; unchanged a" {
		t.Errorf("%s\n%s", kinds(p), p.Diff)
	}
	p = r.propose(alice, schemas.Edit{Disable: []string{"b"}, Remove: []string{"a"}})
	if kinds(p) != "disabled b; removed a" {
		t.Error(kinds(p))
	}
	r.commit(alice, schemas.Edit{Disable: []string{"b"}})
	if x := r.entry("b"); x.Enabled || running(t, x) != "-" {
		t.Errorf("%+v", x)
	}
	if p = r.propose(alice, put(draft("b", "echo"))); !p.Empty() {
		t.Error("adding what is there switches it on")
	}
	if p = r.propose(alice, schemas.Edit{Enable: []string{"b"}}); kinds(p) != "enabled b" || p.Diff != "" {
		t.Error(kinds(p), p.Diff)
	}
	off := draft("c", "echo")
	off.Disabled = true
	if p = r.propose(alice, put(off)); kinds(p) != "disabled c" {
		t.Error(kinds(p))
	}
}

func TestPropose_AbsentKeysStay(t *testing.T) {
	r := open(t, mcpstore.Options{})
	full := draft("a", "echo")
	full.Server.Timeout, full.Server.Tools = 5000, &schemas.ToolFilter{Include: []string{"x"}}
	r.commit(alice, put(full))
	if p := r.propose(alice, put(draft("a", "echo"))); !p.Empty() {
		t.Error(kinds(p))
	}
	longer := full
	longer.Server.Timeout = 6000
	r.commit(alice, put(longer))
	if e := r.entry("a"); e.Timeout != 6000 || e.Tools == nil || e.Pending() {
		t.Errorf("%+v", e)
	}
}

func TestPropose_Roles(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("hers", "echo")))
	r.hand("mcp.json", `{"mcpServers": {"hers": {"command": "echo"}, "nobodys": {"command": "echo"}}}`)
	edits := map[string]func(string) schemas.Edit{
		"change":  func(n string) schemas.Edit { return put(draft(n, "echo", "evil")) },
		"remove":  func(n string) schemas.Edit { return schemas.Edit{Remove: []string{n}} },
		"disable": func(n string) schemas.Edit { return schemas.Edit{Disable: []string{n}} },
	}
	for what, edit := range edits {
		for _, n := range []string{"hers", "nobodys"} {
			if e := r.refused(bob, edit(n), schemas.CodeDenied); e.Hint == "" {
				t.Error(what, e)
			}
			r.propose(chief, edit(n))
			r.refused(guest, edit(n), schemas.CodeDenied)
		}
		r.propose(alice, edit("hers"))
		r.refused(alice, edit("nobodys"), schemas.CodeDenied)
	}
	r.refused(bob, schemas.Edit{Approve: []string{"nobodys"}}, schemas.CodeDenied)
	r.refused(guest, put(draft("new", "echo")), schemas.CodeDenied)
	nobody := bob
	nobody.Member = ""
	r.refused(nobody, schemas.Edit{Remove: []string{"nobodys"}}, schemas.CodeDenied)
	if p := r.propose(bob, put(draft("hers", "echo"), draft("his", "echo"))); kinds(p) != "unchanged hers; added his" {
		t.Error(kinds(p))
	}
	operator := bob
	operator.Operator, operator.Role = true, schemas.Guest
	r.commit(operator, schemas.Edit{Approve: []string{"nobodys"}})
	if e := r.entry("nobodys"); e.Owner != "u2" || e.Pending() || running(t, e) != "echo" {
		t.Errorf("%+v", e)
	}
	r.commit(chief, put(draft("hers", "echo", "changed")))
	if e := r.entry("hers"); e.Owner != "u1" || e.Approval.By != "u3" {
		t.Errorf("%+v", e)
	}
}

func TestCommit_WhoConfirms(t *testing.T) {
	r := open(t, mcpstore.Options{})
	p := r.propose(alice, put(draft("a", "echo")))
	for _, by := range []schemas.Caller{bob, guest, {Thread: "T2", Member: "u1", Role: schemas.Owner}} {
		if _, err := r.Commit(t.Context(), by, p); schemas.CodeOf(err) != schemas.CodeDenied {
			t.Errorf("%s: %v", by.Member, err)
		}
	}
	demoted := alice
	demoted.Role = schemas.Guest
	if _, err := r.Commit(t.Context(), demoted, p); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Error(err)
	}
	if _, err := r.Commit(t.Context(), chief, p); err != nil {
		t.Fatal(err)
	}
	if e := r.entry("a"); e.Owner != "u1" || e.Approval.By != "u3" {
		t.Errorf("%+v", e)
	}
	if _, err := r.Commit(t.Context(), alice, r.propose(alice, put(draft("a", "echo")))); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error("an empty commit:", err)
	}
}

func TestCommit_Conflict(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo")))
	p := r.propose(alice, put(draft("a", "echo", "mine")))
	again := openAt(t, r.path, mcpstore.Options{})
	again.commit(chief, put(draft("b", "echo")))
	before := r.text("mcp.json")
	if _, err := r.Commit(t.Context(), alice, p); schemas.CodeOf(err) != schemas.CodeConflict || r.text("mcp.json") != before {
		t.Error(err)
	}
	// What the proposal would do depends on approvals, which are not part of the base.
	r.hand("mcp.json", `{"mcpServers": {"a": {"command": "echo", "args": ["hand"]}}}`)
	back := r.propose(alice, schemas.Edit{PutBack: []string{"a"}})
	if kinds(back) != "changed a args" {
		t.Fatal(kinds(back))
	}
	again.commit(chief, schemas.Edit{Approve: []string{"a"}})
	if _, err := r.Commit(t.Context(), alice, back); schemas.CodeOf(err) != schemas.CodeConflict {
		t.Error(err)
	}
	forged := r.propose(alice, put(draft("a", "echo", "shown")))
	forged.Edit = put(draft("a", "echo", "other"))
	if _, err := r.Commit(t.Context(), alice, forged); schemas.CodeOf(err) != schemas.CodeConflict {
		t.Error(err)
	}
}

func TestPropose_HandEdit(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo", "1")))
	if err := r.Pin(t.Context(), tid, "a", map[string]string{"t": "1"}); err != nil {
		t.Fatal(err)
	}
	r.hand("mcp.json", local("a", `"2"`))
	if p := r.propose(alice, put(draft("a", "echo", "2"))); !p.Empty() {
		t.Error("an upload of a download approves:", kinds(p))
	}
	p := r.propose(alice, schemas.Edit{Approve: []string{"a"}})
	if kinds(p) != "approved a" || p.Diff != "" {
		t.Error(kinds(p), p.Diff)
	}
	r.commit(alice, schemas.Edit{PutBack: []string{"a"}})
	if e := r.entry("a"); e.Pending() || e.Args[0] != "1" || e.Pins["t"] != "1" {
		t.Errorf("%+v", e)
	}
	r.hand("mcp.json", local("a", `"2"`))
	r.commit(alice, schemas.Edit{Approve: []string{"a"}})
	if e := r.entry("a"); e.Pending() || running(t, e) != "echo 2" || e.Pins != nil {
		t.Errorf("%+v", e)
	}
	r.hand("mcp.json", local("fresh", ""))
	r.refused(chief, schemas.Edit{PutBack: []string{"fresh"}}, schemas.CodeNotFound)
	if p := r.propose(chief, schemas.Edit{Approve: []string{"fresh"}}); kinds(p) != "approved fresh" {
		t.Error(kinds(p))
	}
}

func TestPropose_Names(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("github", "echo"), draft("a.b", "echo")))
	for name, hint := range map[string]string{"githib": `did you mean "github"?`, "GITHUB": `did you mean "github"?`, "zzzzzz": "`/mcp list` shows all"} {
		for _, e := range []schemas.Edit{{Remove: []string{name}}, {Enable: []string{name}}, {Approve: []string{name}}, {PutBack: []string{name}}} {
			if got := r.refused(alice, e, schemas.CodeNotFound); got.Hint != hint {
				t.Errorf("%s: %q", name, got.Hint)
			}
		}
	}
	for _, name := range []string{"GitHub", "a-b", "A.B", "A-b", "", "../x", "a b", "__proto__", "constructor", strings.Repeat("a", 49), "a\n"} {
		r.refused(chief, put(draft(name, "echo")), schemas.CodeInvalid)
	}
	r.refused(chief, put(draft("n", "echo"), draft("N", "echo")), schemas.CodeInvalid)
	r.refused(chief, put(draft("n", "echo"), draft("n", "echo")), schemas.CodeInvalid)
	for _, e := range []schemas.Edit{
		{Put: []schemas.Draft{draft("github", "x")}, Remove: []string{"github"}},
		{Approve: []string{"github"}, PutBack: []string{"github"}},
		{Enable: []string{"github"}, Disable: []string{"github"}},
	} {
		r.refused(chief, e, schemas.CodeInvalid)
	}
	p := r.propose(alice, schemas.Edit{Remove: []string{"a.b"}, Put: []schemas.Draft{draft("a-b", "echo")}})
	if kinds(p) != "removed a.b; added a-b" {
		t.Error(kinds(p))
	}
}

func TestPropose_Limit(t *testing.T) {
	r := open(t, mcpstore.Options{})
	var many []schemas.Draft
	for i := range 33 {
		many = append(many, draft(fmt.Sprintf("s%d", i), "echo"))
	}
	r.commit(alice, put(many[:32]...))
	r.refused(alice, put(many[32]), schemas.CodeTooLarge)
	r.commit(alice, schemas.Edit{Remove: []string{"s0"}, Put: many[32:]})
}

func remote(name, url string) schemas.Draft {
	return schemas.Draft{Server: schemas.Server{Name: name, Type: schemas.HTTP, URL: url}}
}

func TestPropose_Remote(t *testing.T) {
	r := open(t, mcpstore.Options{})
	p := r.propose(alice, put(draft("a", "echo"), remote("linear", "https://linear.example/mcp")))
	if kinds(p) != "added a" || len(p.Remote) != 1 || len(p.Notes) != 1 || p.Notes[0].Kind != schemas.NoteRemote {
		t.Errorf("%s %+v", kinds(p), p)
	}
	connect := schemas.Edit{Put: []schemas.Draft{remote("linear", "https://linear.example/mcp")}, Source: "connect"}
	p = r.propose(alice, connect)
	if kinds(p) != "added linear" || !strings.HasPrefix(p.Diff, "# mcp_remote.json\n@@") {
		t.Errorf("%s\n%s", kinds(p), p.Diff)
	}
	r.commit(alice, connect)
	if e := r.entry("linear"); e.Kind != schemas.Connector || e.Owner != "u1" || e.Pending() {
		t.Errorf("%+v", e)
	}
	if strings.Contains(r.text("mcp_remote.json"), "linear") == false || len(r.load().Entries) != 1 {
		t.Error("not in its file only")
	}
	r.refused(alice, put(draft("linear", "echo")), schemas.CodeInvalid)
	r.hand("mcp_remote.json", `{"mcpServers": {"linear": {"type": "http", "url": "https://linear.example/mcp"}, "hand": {"type": "http", "url": "https://h.example/mcp"}}}`)
	byHand := put(remote("hand", "https://h.example/mcp"))
	if p = r.propose(chief, byHand); !p.Empty() || !r.entry("hand").Pending() {
		t.Error(kinds(p))
	}
	byHand.Source = "connect"
	if p = r.propose(chief, byHand); kinds(p) != "approved hand" {
		t.Error(kinds(p))
	}
	r.commit(chief, schemas.Edit{Remove: []string{"hand"}})
	if p = r.propose(alice, put(remote("linear", "https://linear.example/mcp"))); kinds(p) != "unchanged linear" || len(p.Remote) != 0 {
		t.Error(kinds(p), p.Remote)
	}
	if p = r.propose(alice, put(remote("linear", "https://evil.example/mcp"))); !p.Empty() || len(p.Remote) != 1 {
		t.Error(kinds(p), p.Remote)
	}
	r.commit(alice, put(draft("a", "echo")))
	r.refused(alice, schemas.Edit{Put: []schemas.Draft{remote("a", "https://a.example/mcp")}, Source: "connect"}, schemas.CodeInvalid)
	r.commit(alice, schemas.Edit{Remove: []string{"linear"}})
	if len(r.load().Entries) != 1 {
		t.Errorf("%+v", r.load().Entries)
	}
}

func TestPropose_URLInLocalFileIsKeptNotLoaded(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.hand("mcp.json", `{"mcpServers": {"far": {"url": "https://far.example/mcp"}}}`)
	cfg := r.load()
	if len(cfg.Entries) != 0 || len(cfg.Remote) != 1 || cfg.Remote[0].Server.Name != "far" {
		t.Fatalf("%+v", cfg)
	}
	r.commit(alice, put(draft("a", "echo")))
	if cfg = r.load(); len(cfg.Entries) != 1 || len(cfg.Remote) != 1 {
		t.Errorf("%+v\n%s", cfg, r.text("mcp.json"))
	}
}

func TestPropose_Inputs(t *testing.T) {
	r := open(t, mcpstore.Options{})
	in := func(id, text string) schemas.Input {
		return schemas.Input{Type: "promptString", ID: id, Description: text, Password: true}
	}
	with := func(name, id string) schemas.Draft {
		d := draft(name, "echo")
		d.Server.Env = map[string]string{"V": "${input:" + id + "}"}
		return d
	}
	d := with("a", "ONE")
	d.Needs = []string{"ONE"}
	e := put(d)
	e.Inputs = []schemas.Input{in("ONE", "the first"), in("UNUSED", "no")}
	if p := r.propose(alice, e); !slices.Equal(p.Needs["a"], []string{"ONE"}) {
		t.Error(p.Needs)
	}
	r.commit(alice, e)
	if got := r.load().Inputs; len(got) != 1 || got[0].Description != "the first" {
		t.Errorf("%+v", got)
	}
	again := put(with("a", "ONE"))
	again.Inputs = []schemas.Input{in("ONE", "")}
	if p := r.propose(alice, again); !p.Empty() {
		t.Error(kinds(p))
	}
	again.Inputs = []schemas.Input{in("ONE", "better")}
	if p := r.propose(alice, again); kinds(p) != "changed a inputs" || p.Diff == "" {
		t.Error(kinds(p), p.Diff)
	}
	// Another member's server cannot change what this one asks for.
	his := put(with("b", "ONE"))
	loose := in("ONE", "type your password here")
	loose.Password = false
	his.Inputs = []schemas.Input{loose}
	r.commit(bob, his)
	if got := r.load().Inputs; len(got) != 1 || !got[0].Password || got[0].Description != "the first" {
		t.Errorf("%+v", got)
	}
	r.commit(alice, schemas.Edit{Remove: []string{"a"}})
	r.commit(bob, schemas.Edit{Remove: []string{"b"}})
	if got := r.load().Inputs; len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestPropose_SecretGivenAgain(t *testing.T) {
	r := open(t, mcpstore.Options{})
	d := draft("a", "echo")
	d.Server.Env = map[string]string{"K": "${input:K}"}
	r.commit(alice, put(d))
	d.Found = []schemas.Found{{Server: "a", Input: "K", Value: schemas.NewSecret("canary")}}
	p := r.propose(alice, put(d))
	if kinds(p) != "changed a secret" || len(p.Found) != 1 || strings.Contains(fmt.Sprintf("%+v", p), "canary") {
		t.Errorf("%s %+v", kinds(p), p.Found)
	}
	r.refused(bob, put(d), schemas.CodeDenied)
}

// A door that forgets to take secrets out does not get them into a file.
func TestPropose_LiteralSecret(t *testing.T) {
	const canary = "ghp_CANARYcanaryCANARYcanary0123456789"
	r := open(t, mcpstore.Options{})
	d := draft("a", "echo", "--token="+canary)
	d.Server.Env = map[string]string{"GITHUB_TOKEN": canary, "HOME_DIR": "${HOME}"}
	p := r.propose(alice, put(d))
	if len(p.Found) == 0 || p.Found[0].Value.Reveal() != canary || len(p.Notes) == 0 || strings.Contains(p.Diff+fmt.Sprint(*p.Changes[0].After), canary) {
		t.Errorf("%+v", p)
	}
	if _, err := r.Commit(t.Context(), alice, p); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcp.json", "state.json", "history/000001.json"} {
		if strings.Contains(r.text(name), canary) {
			t.Errorf("%s:\n%s", name, r.text(name))
		}
	}
	if e := r.entry("a"); e.Pending() || len(e.Inputs()) == 0 {
		t.Errorf("%+v", e)
	}
}
