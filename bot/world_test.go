package bot_test

import (
	"bytes"
	"encoding/json"
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
	t       *testing.T
	bot     *bot.Bot
	log     bytes.Buffer
	now     time.Time
	dropped []schemas.ThreadID

	mu       sync.Mutex
	cfg      schemas.Config
	base     int
	revs     []schemas.Revision
	vault    map[schemas.SecretKey]schemas.Secret
	held     map[schemas.SecretKey]bool // of vault: in memory alone
	records  []schemas.Record
	toolsOf  map[string][]schemas.Tool
	state    map[string]schemas.Status // overrides by name
	heldOf   map[string][]schemas.HeldTool
	calls    []schemas.Call
	accepted []string
	forgot   []string
	result   schemas.Result

	secretIsChange bool // as the store does: a new value alone is a change of field "secret"
	restarts       int
	slow           time.Duration   // of Apply; what state says is over then
	handFound      []schemas.Found // literal secrets in entries made by hand

	touched   int // Apply, Restart, Tools, Call, Accept, ReadResource, Prompt: what may reach a server
	failWith  map[string]error
	place     schemas.Place
	prompts   []schemas.Prompt
	resources []schemas.Resource
	replies   []bot.Reply
	waiting   func(string) // of calls of own tools; may be nil
}

func newWorld(t *testing.T, change ...func(*bot.Options)) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), vault: map[schemas.SecretKey]schemas.Secret{}, held: map[schemas.SecretKey]bool{},
		toolsOf: map[string][]schemas.Tool{}, state: map[string]schemas.Status{}, heldOf: map[string][]schemas.HeldTool{}, failWith: map[string]error{},
		place: schemas.Place{Available: true, Where: "this machine, as you. NOT isolated", Reach: "whatever this machine can reach"}}
	w.cfg = schemas.Config{Thread: thread, Base: "0"}
	opt := bot.Options{Config: w, Past: w, Rules: w, Tools: w, Live: w, Held: w, Resources: w, Prompts: w, Secrets: w, Forget: w, Memory: w, Drop: w, Journal: w,
		Import: fakeImport, Place: func(schemas.ThreadID) schemas.Place { return w.place }, Now: func() time.Time { return w.now },
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
		if v == "" {
			v, d.Needs = "${input:"+k+"}", append(d.Needs, k)
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
