package bot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

const (
	thread = schemas.ThreadID("T1")
	canary = "ghp_canary0123456789abcdefghijklmnop"
)

// world is every dependency of a Bot in memory, strict about what may be done before a yes. It counts what is started,
// contacted or called.
type world struct {
	t   *testing.T
	bot *bot.Bot
	log bytes.Buffer
	now time.Time

	mu       sync.Mutex
	cfg      schemas.Config
	base     int
	revs     []schemas.Revision
	vault    map[schemas.SecretKey]schemas.Secret
	records  []schemas.Record
	toolsOf  map[string][]schemas.Tool
	state    map[string]schemas.Status // overrides by name
	heldOf   map[string][]schemas.HeldTool
	calls    []schemas.Call
	accepted []string
	forgot   []string
	result   schemas.Result

	touched   int // Apply, Restart, Tools, Call, Accept, ReadResource, Prompt: what may reach a server
	failWith  map[string]error
	place     schemas.Place
	prompts   []schemas.Prompt
	resources []schemas.Resource
	replies   []bot.Reply
}

func newWorld(t *testing.T, change ...func(*bot.Options)) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), vault: map[schemas.SecretKey]schemas.Secret{},
		toolsOf: map[string][]schemas.Tool{}, state: map[string]schemas.Status{}, heldOf: map[string][]schemas.HeldTool{}, failWith: map[string]error{},
		place: schemas.Place{Available: true, Where: "this machine, as you. NOT isolated", Reach: "whatever this machine can reach"}}
	w.cfg = schemas.Config{Thread: thread, Base: "0"}
	opt := bot.Options{Config: w, Past: w, Rules: w, Tools: w, Live: w, Held: w, Resources: w, Prompts: w, Secrets: w, Forget: w, Journal: w,
		Import: fakeImport, Place: func(schemas.Door) schemas.Place { return w.place }, Now: func() time.Time { return w.now },
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), Version: "test"}
	for _, c := range change {
		c(&opt)
	}
	w.bot = bot.New(opt)
	return w
}

func caller(id schemas.MemberID, role schemas.Role) schemas.Caller {
	return schemas.Caller{Thread: thread, Member: id, Name: string(id), Door: schemas.DoorTerminal, Role: role, Operator: role == schemas.Owner}
}

func alice() schemas.Caller { return caller("alice", schemas.Member) }
func mallory() schemas.Caller {
	return caller("mallory", schemas.Member)
}
func boss() schemas.Caller  { return caller("boss", schemas.Owner) }
func guest() schemas.Caller { return caller("gus", schemas.Guest) }

func (w *world) do(r bot.Request) bot.Reply {
	w.t.Helper()
	reply := w.bot.Handle(w.t.Context(), r)
	w.replies = append(w.replies, reply)
	return reply
}

// say types a line.
func (w *world) say(c schemas.Caller, line string) bot.Reply {
	w.t.Helper()
	return w.do(bot.Request{Caller: c, Text: line})
}

// press answers a card by the label's start.
func (w *world) press(c schemas.Caller, r bot.Reply, label string) bot.Reply {
	w.t.Helper()
	for _, ch := range r.Choices {
		if strings.HasPrefix(ch.Label, label) {
			return w.do(bot.Request{Caller: c, Action: &bot.Action{ID: r.ID, Choice: ch.Key}})
		}
	}
	w.t.Fatalf("no choice %q in:\n%s", label, flat(r))
	return bot.Reply{}
}

// fill answers a form; values must name its fields.
func (w *world) fill(c schemas.Caller, r bot.Reply, values map[string]string) bot.Reply {
	w.t.Helper()
	if r.Form == nil {
		w.t.Fatalf("no form in:\n%s", flat(r))
	}
	for k := range values {
		if !slices.ContainsFunc(r.Form.Fields, func(f bot.Field) bool { return f.Name == k }) {
			w.t.Fatalf("the form has no field %q", k)
		}
	}
	return w.do(bot.Request{Caller: c, Action: &bot.Action{ID: r.ID, Values: values}})
}

// flat is all that a person can read of a reply.
func flat(r bot.Reply) string {
	var b strings.Builder
	for _, x := range r.Blocks {
		fmt.Fprintln(&b, x.Text+x.Code+x.Warning)
		b.WriteString(x.Diff)
		for _, f := range x.Facts {
			fmt.Fprintf(&b, "%s: %s (%s)\n", f.Label, f.Value, f.Note)
		}
		for _, p := range x.Problems {
			fmt.Fprintln(&b, p.String(), p.Excerpt)
		}
		if x.Table != nil {
			fmt.Fprintln(&b, strings.Join(x.Table.Columns, " | "))
			for _, row := range x.Table.Rows {
				fmt.Fprintln(&b, row.Head+strings.Join(row.Cells, " | "))
			}
		}
		if x.File != nil {
			fmt.Fprintf(&b, "file %s %s\n%s\n", x.File.Name, x.File.MIME, x.File.Data)
		}
	}
	if r.Form != nil {
		fmt.Fprintln(&b, "form:", r.Form.Title)
		for _, f := range r.Form.Fields {
			fmt.Fprintf(&b, "  %s [%s] (%s) =%s %v\n", f.Name, f.Kind, f.Hint, f.Default, f.Options)
		}
	}
	for i, c := range r.Choices {
		fmt.Fprintf(&b, "%d) %s\n", i+1, c.Label)
	}
	return strings.ReplaceAll(b.String(), "`", "")
}

// want fails unless the reply has all the words.
func want(t *testing.T, r bot.Reply, words ...string) {
	t.Helper()
	text := flat(r)
	for _, s := range words {
		if !strings.Contains(text, s) {
			t.Errorf("reply lacks %q:\n%s", s, text)
		}
	}
}

func wantNot(t *testing.T, r bot.Reply, words ...string) {
	t.Helper()
	text := flat(r)
	for _, s := range words {
		if strings.Contains(text, s) {
			t.Errorf("reply has %q:\n%s", s, text)
		}
	}
}

func wantCode(t *testing.T, r bot.Reply, code schemas.Code) {
	t.Helper()
	if !r.Bad || r.Code != code {
		t.Errorf("Bad %v, Code %q, want %q:\n%s", r.Bad, r.Code, code, flat(r))
	}
}

// fakeImport reads {"mcpServers": {name: server}}, {name: server} or one server, and takes ghp_ values out of env.
func fakeImport(file string, data []byte, hint string) schemas.Import {
	text := strings.Trim(strings.TrimSpace(string(data)), "`")
	text = strings.TrimPrefix(text, "json")
	var top struct {
		Servers map[string]schemas.Server `json:"mcpServers"`
	}
	in := schemas.Import{Format: "claude-desktop"}
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		in.Problems = schemas.Problems{{File: file, Line: 1, Col: 2, Text: "this is no JSON"}}
		return in
	}
	if top.Servers == nil && hint != "" {
		var s schemas.Server
		_ = json.Unmarshal([]byte(text), &s)
		top.Servers = map[string]schemas.Server{hint: s}
	}
	var names []string
	for n := range top.Servers {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		in.Servers = append(in.Servers, draft(&in, n, top.Servers[n]))
	}
	return in
}

func draft(in *schemas.Import, n string, s schemas.Server) schemas.Draft {
	s.Name = n
	if s.URL != "" && s.Type == "" {
		s.Type = schemas.HTTP
	} else if s.Type == "" {
		s.Type = schemas.Stdio
	}
	d := schemas.Draft{Server: s}
	env := map[string]string{}
	for k, v := range s.Env {
		if strings.HasPrefix(v, "ghp_") {
			d.Found = append(d.Found, schemas.Found{Server: n, Input: k, Value: schemas.NewSecret(v), Where: "env " + k})
			v = "${input:" + k + "}"
		}
		env[k] = v
	}
	if len(env) > 0 {
		d.Server.Env = env
	}
	for _, id := range d.Server.Inputs() {
		in.Inputs = append(in.Inputs, schemas.Input{Type: "promptString", ID: id, Password: true})
	}
	return d
}

func (w *world) fail(what string) error {
	return w.failWith[what]
}

func (w *world) Load(_ context.Context, id schemas.ThreadID) (schemas.Config, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id != thread {
		return schemas.Config{Thread: id}, nil
	}
	c := w.cfg
	c.Entries = slices.Clone(c.Entries)
	return c, w.fail("Load")
}

func (w *world) Propose(_ context.Context, c schemas.Caller, e schemas.Edit) (schemas.Proposal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := schemas.Proposal{Thread: c.Thread, Base: w.cfg.Base, By: c, Edit: e, Notes: e.Notes, Needs: map[string][]string{}}
	if err := w.fail("Propose"); err != nil {
		return p, err
	}
	var named []string
	for _, d := range e.Put {
		named = append(named, d.Server.Name)
		if d.Server.Remote() && e.Source != "connect" {
			p.Remote = append(p.Remote, d)
			continue
		}
		s := d.Server
		ch := schemas.Change{Server: s.Name, Kind: schemas.Added, After: &s, Remote: s.Remote()}
		if old, ok := w.cfg.Find(s.Name); ok {
			ch.Kind, ch.Before, ch.Owner, ch.Fields = schemas.Changed, &old.Server, old.Owner, fieldsOf(old.Server, s)
			if old.Server.Equal(s) {
				ch.Kind = schemas.Unchanged
			}
		}
		p.Changes = append(p.Changes, ch)
		p.Found = append(p.Found, d.Found...)
		for _, id := range s.Inputs() {
			if !slices.ContainsFunc(d.Found, func(f schemas.Found) bool { return f.Input == id }) {
				p.Needs[s.Name] = append(p.Needs[s.Name], id)
			}
		}
		js, _ := json.MarshalIndent(s, "+ ", "  ")
		if ch.Kind != schemas.Unchanged {
			p.Diff += "+ \"" + s.Name + "\": " + string(js) + "\n"
		}
	}
	for _, l := range []struct {
		names []string
		kind  schemas.ChangeKind
	}{{e.Remove, schemas.Removed}, {e.Enable, schemas.Enabled}, {e.Disable, schemas.Disabled}, {e.Approve, schemas.Approved}} {
		for _, n := range l.names {
			old, ok := w.cfg.Find(n)
			if !ok {
				return p, &schemas.Error{Code: schemas.CodeNotFound, Text: "there is no server " + n}
			}
			named = append(named, n)
			s := old.Server
			ch := schemas.Change{Server: n, Kind: l.kind, Before: &s, After: &s, Owner: old.Owner, Remote: s.Remote()}
			if l.kind == schemas.Removed {
				ch.After = nil
			}
			if !slices.ContainsFunc(p.Changes, func(c schemas.Change) bool { return c.Server == n }) {
				p.Changes = append(p.Changes, ch)
			}
		}
	}
	if e.Undo != "" {
		p.Changes = append(p.Changes, schemas.Change{Server: w.cfg.Entries[len(w.cfg.Entries)-1].Name, Kind: schemas.Removed})
	}
	for _, old := range w.cfg.Entries {
		if !slices.Contains(named, old.Name) && len(e.Put) > 0 {
			p.Kept = append(p.Kept, old.Name)
		}
	}
	return p, nil
}

func fieldsOf(a, b schemas.Server) (fs []string) {
	if a.Command != b.Command {
		fs = append(fs, "command")
	}
	if !slices.Equal(a.Args, b.Args) {
		fs = append(fs, "args")
	}
	if fmt.Sprint(a.Env) != fmt.Sprint(b.Env) {
		fs = append(fs, "env")
	}
	return fs
}

func (w *world) Commit(_ context.Context, c schemas.Caller, p schemas.Proposal) (schemas.Revision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Commit"); err != nil {
		return schemas.Revision{}, err
	}
	if p.Base != w.cfg.Base {
		return schemas.Revision{}, &schemas.Error{Code: schemas.CodeConflict, Text: "the config changed"}
	}
	for _, ch := range p.Changes {
		i := slices.IndexFunc(w.cfg.Entries, func(e schemas.Entry) bool { return e.Name == ch.Server })
		if ch.Kind == schemas.Removed {
			w.cfg.Entries = slices.Delete(w.cfg.Entries, i, i+1)
			continue
		}
		if i < 0 {
			w.cfg.Entries, i = append(w.cfg.Entries, schemas.Entry{Owner: p.By.Member, OwnerName: p.By.Name, Enabled: true}), len(w.cfg.Entries)
		}
		e := &w.cfg.Entries[i]
		e.Server, e.Kind = *ch.After, schemas.Local
		if ch.Remote {
			e.Kind = schemas.Connector
		}
		if ch.Kind == schemas.Enabled || ch.Kind == schemas.Disabled {
			e.Enabled = ch.Kind == schemas.Enabled
			continue
		}
		e.Approval = &schemas.Approval{Fingerprint: ch.After.Fingerprint(), By: c.Member, Definition: *ch.After}
	}
	w.cfg.Inputs = append(w.cfg.Inputs, p.Edit.Inputs...)
	w.bump()
	r := schemas.Revision{ID: fmt.Sprintf("r%d", w.base), By: c.Member, ByName: c.Name, Source: p.Edit.Source, Summary: "1 added: x", At: w.now, Diff: p.Diff}
	w.revs = append([]schemas.Revision{r}, w.revs...)
	return r, nil
}

func (w *world) bump() {
	w.base++
	w.cfg.Base = fmt.Sprint(w.base)
}

func (w *world) History(context.Context, schemas.ThreadID) ([]schemas.Revision, error) {
	return w.revs, w.fail("History")
}

func (w *world) Export(_ context.Context, _ schemas.ThreadID, format string) (schemas.File, error) {
	servers := map[string]schemas.Server{}
	for _, e := range w.cfg.Entries {
		servers[e.Name] = e.Server
	}
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	return schemas.File{Name: "mcp.json", MIME: "application/json", Data: data}, errors.Join(err, w.fail("Export"))
}

func (w *world) Rule(_ context.Context, _ schemas.ThreadID, f func(*schemas.Policy) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Rule"); err != nil {
		return err
	}
	return f(&w.cfg.Policy)
}

func (w *world) Tools(context.Context, schemas.Caller) ([]schemas.Tool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched++
	var all []schemas.Tool
	for _, e := range w.cfg.Entries {
		all = append(all, w.toolsOf[e.Name]...)
	}
	return all, w.fail("Tools")
}

func (w *world) Call(_ context.Context, c schemas.Call) (schemas.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched++
	w.calls = append(w.calls, c)
	return w.result, w.fail("Call")
}

func (w *world) Status(_ context.Context, id schemas.ThreadID) ([]schemas.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ss []schemas.Status
	if id != thread {
		return nil, nil
	}
	for _, e := range w.cfg.Entries {
		s := schemas.Status{Name: e.Name, Kind: e.Kind, Owner: e.Owner, OwnerName: e.OwnerName, State: schemas.Ready, Tools: len(w.toolsOf[e.Name]),
			Tokens: 5134, Took: 1200 * time.Millisecond, Since: w.now.Add(-2 * time.Hour), Calls: 14, Resources: true, Prompts: true}
		for _, id := range e.Server.Inputs() {
			if _, ok := w.vault[schemas.SecretKey{Member: e.Owner, Thread: thread, Server: e.Name, Name: id, Origin: e.Origin()}]; !ok {
				s.Needs, s.State = append(s.Needs, id), schemas.Needs
			}
		}
		switch {
		case !e.Enabled:
			s.State = schemas.Off
		case e.Approval == nil:
			s.State = schemas.PendingState
		}
		for _, x := range w.toolsOf[e.Name] {
			if x.Writes {
				s.Writing++
			}
		}
		if o, ok := w.state[e.Name]; ok {
			o.Name, o.Kind, o.Owner, o.OwnerName = s.Name, s.Kind, s.Owner, s.OwnerName
			s = o
		}
		ss = append(ss, s)
	}
	return ss, w.fail("Status")
}

func (w *world) touch(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched++
	return w.fail(what)
}

func (w *world) Apply(context.Context, schemas.ThreadID) error           { return w.touch("Apply") }
func (w *world) Restart(context.Context, schemas.ThreadID, string) error { return w.touch("Restart") }
func (w *world) Poke(schemas.ThreadID)                                   {}

func (w *world) Held(_ context.Context, _ schemas.ThreadID, s string) ([]schemas.HeldTool, error) {
	return w.heldOf[s], w.fail("Held")
}

func (w *world) Accept(_ context.Context, _ schemas.Caller, s string, tools []string) error {
	for _, x := range tools {
		w.accepted = append(w.accepted, s+"."+x)
	}
	return w.touch("Accept")
}

func (w *world) Resources(context.Context, schemas.Caller) ([]schemas.Resource, error) {
	return w.resources, w.fail("Resources")
}

func (w *world) ReadResource(_ context.Context, _ schemas.Caller, server, uri string) (schemas.Result, error) {
	raw := fmt.Sprintf(`{"contents":[{"uri":%q,"text":"read %s of %s"}]}`, uri, uri, server)
	return schemas.Result{Raw: json.RawMessage(raw), Took: time.Millisecond}, w.touch("ReadResource")
}

func (w *world) Result(context.Context, schemas.ThreadID, string) (schemas.File, error) {
	return schemas.File{Name: "whole.txt", Data: []byte("the whole of it")}, w.fail("Result")
}

func (w *world) Prompts(context.Context, schemas.Caller) ([]schemas.Prompt, error) {
	return w.prompts, w.fail("Prompts")
}

func (w *world) Prompt(_ context.Context, _ schemas.Caller, _, _ string, args map[string]string) (schemas.Result, error) {
	raw := fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, fmt.Sprint(args))
	return schemas.Result{Raw: json.RawMessage(raw)}, w.touch("Prompt")
}

func (w *world) Put(_ context.Context, k schemas.SecretKey, v schemas.Secret) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Put"); err != nil {
		return err
	}
	w.vault[k] = v
	return nil
}

func (w *world) Delete(_ context.Context, k schemas.SecretKey) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.vault, k)
	return w.fail("Delete")
}

func (w *world) Names(_ context.Context, m schemas.MemberID, id schemas.ThreadID) ([]schemas.SecretKey, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ks []schemas.SecretKey
	for k := range w.vault {
		if k.Member == m && k.Thread == id {
			ks = append(ks, k)
		}
	}
	return ks, w.fail("Names")
}

func (w *world) Forget(_ context.Context, id schemas.ThreadID, server string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgot = append(w.forgot, server)
	for k := range w.vault {
		if k.Server == server {
			delete(w.vault, k)
		}
	}
	return w.fail("Forget")
}

func (w *world) Append(_ context.Context, r schemas.Record) (schemas.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("Append"); err != nil {
		return r, err
	}
	r.Seq, r.At = int64(len(w.records)+1), w.now
	w.records = append(w.records, r)
	return r, nil
}

func (w *world) Tail(_ context.Context, _ schemas.ThreadID, n int) ([]schemas.Record, error) {
	rs := slices.Clone(w.records)
	slices.Reverse(rs)
	return rs[:min(n, len(rs))], w.fail("Tail")
}

func (w *world) events() (es []schemas.Event) {
	for _, r := range w.records {
		es = append(es, r.Event)
	}
	return es
}

// have adds an approved, running server of a member.
func (w *world) have(owner schemas.MemberID, s schemas.Server, tools ...schemas.Tool) {
	s.Type = schemas.Stdio
	w.cfg.Entries = append(w.cfg.Entries, schemas.Entry{Server: s, Kind: schemas.Local, Owner: owner, OwnerName: string(owner), Enabled: true,
		Approval: &schemas.Approval{Fingerprint: s.Fingerprint(), By: owner, Definition: s, At: w.now}})
	for i := range tools {
		tools[i].Server, tools[i].Kind = s.Name, schemas.Local
		tools[i].Model, tools[i].Pin = "ext_"+s.Name+"_"+tools[i].Name, "pin-"+tools[i].Name
	}
	w.toolsOf[s.Name] = tools
	w.bump()
}

func github() string {
	return `{"mcpServers":{"github":{"command":"npx","args":["-y","@modelcontextprotocol/server-github"],"env":{"GITHUB_TOKEN":"` + canary + `"}}}}`
}
