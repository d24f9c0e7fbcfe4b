package mcpstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

const tid schemas.ThreadID = "T1"

var (
	alice = schemas.Caller{Thread: tid, Member: "u1", Name: "alice", Door: schemas.DoorTerminal, Role: schemas.Member}
	bob   = schemas.Caller{Thread: tid, Member: "u2", Name: "bob", Role: schemas.Member}
	chief = schemas.Caller{Thread: tid, Member: "u3", Name: "chief", Role: schemas.Manager}
	guest = schemas.Caller{Thread: tid, Member: "u4", Name: "guest", Role: schemas.Guest}
)

// room is a store with its folder.
type room struct {
	*mcpstore.Store
	t    testing.TB
	path string
}

func open(t testing.TB, opt mcpstore.Options) *room {
	t.Helper()
	return openAt(t, t.TempDir(), opt)
}

func openAt(t testing.TB, path string, opt mcpstore.Options) *room {
	t.Helper()
	users, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = users.Close() })
	s, err := mcpstore.Open(users, opt)
	if err != nil {
		t.Fatal(err)
	}
	return &room{Store: s, t: t, path: path}
}

func (r *room) file(name string) string { return filepath.Join(r.path, string(tid), name) }

func (r *room) hand(name, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.file(name)), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.file(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) text(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(r.file(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r *room) load() schemas.Config {
	r.t.Helper()
	cfg, err := r.Load(r.t.Context(), tid)
	if err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

func (r *room) entry(name string) schemas.Entry {
	r.t.Helper()
	e, ok := r.load().Find(name)
	if !ok {
		r.t.Fatalf("no entry %q", name)
	}
	return e
}

func (r *room) propose(by schemas.Caller, e schemas.Edit) schemas.Proposal {
	r.t.Helper()
	p, err := r.Propose(r.t.Context(), by, e)
	if err != nil {
		r.t.Fatalf("propose: %v", err)
	}
	return p
}

func (r *room) commit(by schemas.Caller, e schemas.Edit) schemas.Revision {
	r.t.Helper()
	rev, err := r.Commit(r.t.Context(), by, r.propose(by, e))
	if err != nil {
		r.t.Fatalf("commit: %v", err)
	}
	return rev
}

func (r *room) refused(by schemas.Caller, e schemas.Edit, code schemas.Code) *schemas.Error {
	r.t.Helper()
	_, err := r.Propose(r.t.Context(), by, e)
	refusal, _ := errors.AsType[*schemas.Error](err)
	if schemas.CodeOf(err) != code || refusal == nil {
		r.t.Fatalf("got %v, want %s", err, code)
	}
	return refusal
}

func draft(name, command string, args ...string) schemas.Draft {
	return schemas.Draft{Server: schemas.Server{Name: name, Type: schemas.Stdio, Command: command, Args: args}}
}

func put(drafts ...schemas.Draft) schemas.Edit { return schemas.Edit{Put: drafts, Source: "add-json"} }

func local(name, args string) string {
	return fmt.Sprintf(`{"mcpServers": {%q: {"command": "echo", "args": [%s]}}}`, name, args)
}

func running(t testing.TB, e schemas.Entry) string {
	t.Helper()
	s, ok := e.Running()
	if !ok {
		return "-"
	}
	return strings.TrimSpace(s.Command + " " + strings.Join(s.Args, " "))
}

func TestLoad_Empty(t *testing.T) {
	r := open(t, mcpstore.Options{})
	cfg := r.load()
	if len(cfg.Entries) != 0 || len(cfg.Problems) != 0 || cfg.Base == "" || cfg.Thread != tid {
		t.Fatalf("%+v", cfg)
	}
	if left, _ := os.ReadDir(r.path); len(left) != 0 {
		t.Fatalf("reading made %v", left)
	}
}

func TestThreadIDs_RefusedBeforeAnyFile(t *testing.T) {
	r := open(t, mcpstore.Options{})
	for _, id := range []schemas.ThreadID{"", "../1", "1/../../x", "1%2f..", "１２３", "123\n", "-1", ".", "..", "a b", `a\b`, schemas.ThreadID(strings.Repeat("1", 65))} {
		by := chief
		by.Thread = id
		errs := map[string]error{
			"pin":  r.Pin(t.Context(), id, "a", nil),
			"rule": r.Rule(t.Context(), id, func(*schemas.Policy) error { t.Error("called"); return nil }),
		}
		_, errs["load"] = r.Load(t.Context(), id)
		_, errs["history"] = r.History(t.Context(), id)
		_, errs["export"] = r.Export(t.Context(), id, "")
		_, errs["propose"] = r.Propose(t.Context(), by, put(draft("a", "echo")))
		_, errs["commit"] = r.Commit(t.Context(), by, schemas.Proposal{Thread: id, By: by, Changes: []schemas.Change{{Kind: schemas.Added}}})
		for what, err := range errs {
			if schemas.CodeOf(err) != schemas.CodeInvalid {
				t.Errorf("%s of %q: %v", what, id, err)
			}
		}
	}
	if left, _ := os.ReadDir(r.path); len(left) != 0 {
		t.Fatalf("made %v", left)
	}
}

func TestCommit_Stored(t *testing.T) {
	r := open(t, mcpstore.Options{})
	d := draft("github", "npx", "-y", "server")
	d.Title = "GitHub!"
	rev := r.commit(alice, put(d))
	if rev.Summary != "1 added: github" || rev.By != "u1" || rev.Source != "add-json" || !strings.Contains(rev.Diff, `+`) {
		t.Errorf("%+v", rev)
	}
	for _, again := range []*room{r, openAt(t, r.path, mcpstore.Options{})} {
		e := again.entry("github")
		if e.Pending() || e.Owner != "u1" || e.OwnerName != "alice" || e.Title != "GitHub!" || !e.Enabled || running(t, e) != "npx -y server" {
			t.Errorf("%+v", e)
		}
	}
	if runtime.GOOS != "windows" {
		for _, name := range []string{"mcp.json", "state.json", "history/000001.json"} {
			if info, err := os.Stat(r.file(name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v", name, info, err)
			}
		}
	}
}

func TestLoad_SwapAfterApprove(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo", "good")))
	for _, again := range []*room{r, openAt(t, r.path, mcpstore.Options{})} {
		r.hand("mcp.json", local("x", `"evil"`))
		e := again.entry("x")
		if !e.Pending() || running(t, e) != "echo good" {
			t.Errorf("pending %v, runs %q", e.Pending(), running(t, e))
		}
	}
	r.hand("mcp.json", local("y", `"evil"`))
	if e := r.entry("y"); !e.Pending() || running(t, e) != "-" || e.Owner != "" {
		t.Errorf("%+v", e)
	}
	// An approval for a definition says nothing about it under the same name with another kind.
	r.hand("mcp.json", `{"mcpServers": {}}`)
	r.hand("mcp_remote.json", `{"mcpServers": {"x": {"type": "http", "url": "https://evil.example/mcp"}}}`)
	if e := r.entry("x"); !e.Pending() || running(t, e) != "-" {
		t.Errorf("%+v", e)
	}
}

func TestLoad_LastGood(t *testing.T) {
	for _, text := range []string{"", " \n", "null", "[]", `""`, `{"mcpServers": {"x": {"command": "ec`} {
		r := open(t, mcpstore.Options{})
		r.commit(alice, put(draft("x", "echo", "good")))
		base := r.load().Base
		r.hand("mcp.json", text)
		for _, again := range []*room{r, openAt(t, r.path, mcpstore.Options{})} {
			cfg := again.load()
			e, ok := cfg.Find("x")
			if !ok || running(t, e) != "echo good" || cfg.Base == base {
				t.Errorf("%q: %+v", text, cfg)
			}
			if len(cfg.Problems) != 1 || cfg.Problems[0].File != "mcp.json" || (cfg.Problems[0].Line == 0) != (strings.TrimSpace(text) == "") {
				t.Errorf("%q: %v", text, cfg.Problems)
			}
		}
		r.refused(alice, put(draft("z", "echo")), schemas.CodeUnreadable)
		p := r.propose(chief, put(draft("z", "echo")))
		if len(p.Notes) != 1 || p.Notes[0].Kind != schemas.NoteRepair {
			t.Errorf("%q: %v", text, p.Notes)
		}
		r.commit(chief, put(draft("z", "echo")))
		if r.text("mcp.json.broken") != text || len(r.load().Entries) != 2 || len(r.load().Problems) != 0 {
			t.Errorf("%q: %+v", text, r.load())
		}
	}
}

func TestLoad_OddFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links")
	}
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo", "good")))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(local("evil", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := map[string]func(string) error{
		"link":   func(p string) error { return os.Symlink(secret, p) },
		"folder": func(p string) error { return os.Mkdir(p, 0o700) },
		"large":  func(p string) error { return os.WriteFile(p, make([]byte, 257<<10), 0o600) },
	}
	for what, make := range odd {
		if err := errors.Join(os.RemoveAll(r.file("mcp.json")), make(r.file("mcp.json"))); err != nil {
			t.Fatal(err)
		}
		cfg := r.load()
		if len(cfg.Entries) != 1 || cfg.Entries[0].Name != "x" || len(cfg.Problems) != 1 || cfg.Problems[0].Hint == "" {
			t.Errorf("%s: %+v", what, cfg)
		}
		if _, err := r.Propose(t.Context(), chief, put(draft("y", "echo"))); err == nil {
			t.Errorf("%s: would be replaced", what)
		}
	}
}

func TestLoad_Order(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.hand("mcp.json", `{"mcpServers": {"b": {"command": "b"}, "a": {"command": "a"}, "off": {"command": "c", "disabled": true}}}`)
	r.hand("mcp_remote.json", `{"mcpServers": {"c": {"type": "http", "url": "https://c.example/mcp"}, "a": {"type": "sse", "url": "https://a.example/sse"}}}`)
	var got []string
	for _, e := range r.load().Entries {
		got = append(got, fmt.Sprintf("%s %s %v %v", e.Name, e.Kind, e.Shadowed, e.Enabled))
	}
	want := []string{"b local false true", "a local false true", "off local false false", "c connector false true", "a connector true true"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestLoad_HotAndFresh(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo", "aaaa")))
	// In place, same size, at once: only the content tells.
	for i := range 20 {
		args := fmt.Sprintf("%04d", i)
		r.hand("mcp.json", local("x", `"`+args+`"`))
		if got := r.entry("x").Args[0]; got != args {
			t.Fatalf("stale: %s, want %s", got, args)
		}
	}
}

func TestThreads(t *testing.T) {
	r := open(t, mcpstore.Options{})
	for _, name := range []string{"b", "a", "bad name", "ok-1"} {
		if err := os.Mkdir(filepath.Join(r.path, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.path, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := r.Threads(t.Context())
	if err != nil || !slices.Equal(got, []schemas.ThreadID{"a", "b", "ok-1"}) {
		t.Fatal(got, err)
	}
}

func TestOpen_Sweeps(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo")))
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{".mcp.json.tmp-AAAA", "history/.000009.json.tmp-BBBB", ".state.json.tmp-NEW"} {
		r.hand(name, "{")
		if !strings.HasSuffix(name, "NEW") {
			if err := os.Chtimes(r.file(name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	openAt(t, r.path, mcpstore.Options{})
	left, _ := filepath.Glob(r.file(".*.tmp-*"))
	inner, _ := filepath.Glob(r.file("history/.*.tmp-*"))
	if len(left) != 1 || len(inner) != 0 {
		t.Errorf("%v %v", left, inner)
	}
}

func TestOpen_Nil(t *testing.T) {
	if _, err := mcpstore.Open(nil, mcpstore.Options{}); err == nil {
		t.Error("no error")
	}
}

// A crash between any two writes of a commit is played by putting the older files back.
func TestCommit_CrashBetweenWrites(t *testing.T) {
	type files = map[string]string
	take := func(r *room) files {
		f := files{}
		for _, n := range []string{"mcp.json", "state.json"} {
			f[n] = r.text(n)
		}
		return f
	}
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("x", "echo", "old"), draft("keep", "echo"), draft("off", "echo")))
	r.commit(alice, schemas.Edit{Disable: []string{"off"}})
	if err := r.Pin(t.Context(), tid, "x", map[string]string{"tool": "1"}); err != nil {
		t.Fatal(err)
	}
	old := take(r)
	// The history cannot be written, which stops the commit behind the rename of mcp.json.
	if err := errors.Join(os.RemoveAll(r.file("history")), os.WriteFile(r.file("history"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	edit := schemas.Edit{Put: []schemas.Draft{draft("x", "echo", "new"), draft("y", "echo")}, Remove: []string{"keep"}, Enable: []string{"off"}}
	if _, err := r.Commit(t.Context(), alice, r.propose(alice, edit)); err == nil {
		t.Fatal("no error")
	}
	half := take(r)
	during, half2 := half["state.json"], half["mcp.json"]
	if !strings.Contains(during, "tentative") || half2 == old["mcp.json"] {
		t.Fatal(during, half2)
	}

	crashed := func(mcp, st string) *room {
		c := open(t, mcpstore.Options{})
		c.hand("mcp.json", mcp)
		c.hand("state.json", st)
		return c
	}
	before := crashed(old["mcp.json"], during)
	if got := runs(t, before.load()); got != "keep=echo x=echo old" {
		t.Errorf("before the rename: %s", got)
	}
	if p := before.entry("x").Pins["tool"]; p != "1" {
		t.Error("pins lost before the rename")
	}
	before.hand("mcp.json", strings.Replace(old["mcp.json"], "old", "hand", 1))
	if got := runs(t, before.load()); got != "keep=echo x=echo old" {
		t.Errorf("hand edit after a crash: %s", got)
	}
	before.hand("mcp.json", local("y", `"evil"`))
	if got := runs(t, before.load()); got != "" {
		t.Errorf("hand-made y after a crash: %s", got)
	}
	after := crashed(half2, during)
	if got := runs(t, after.load()); got != "x=echo new y=echo" {
		t.Errorf("after the rename: %s", got)
	}
	after.commit(alice, put(draft("z", "echo")))
	if n := len(decodeState(t, after.text("state.json")).Servers["x"].Approvals); n != 1 {
		t.Errorf("%d approvals after the next commit", n)
	}
}

type stateText struct {
	Version int `json:"version"`
	Servers map[string]struct {
		Owner     string            `json:"owner"`
		Enabled   bool              `json:"enabled"`
		Approvals []map[string]any  `json:"approvals"`
		Pins      map[string]string `json:"pins"`
	} `json:"servers"`
}

func decodeState(t *testing.T, text string) (s stateText) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func runs(t *testing.T, cfg schemas.Config) string {
	t.Helper()
	var all []string
	for _, e := range cfg.Entries {
		if got := running(t, e); got != "-" {
			all = append(all, e.Name+"="+got)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestLoad_Ended(t *testing.T) {
	r := open(t, mcpstore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Load(ctx, tid); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
