package registry_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/registry"
	"bobbin/schemas"
)

// script says what a fake MCP server does; it travels to a child process as JSON.
type script struct {
	Tools     []json.RawMessage
	Later     []json.RawMessage // appear after initialized, with one list_changed each
	Rug       []json.RawMessage // the list from the third listing on
	Slow      time.Duration     // before initialize is answered
	Mute      bool              // never answers
	Crash     string            // last words on stderr before the exit at start
	Garbage   int               // lines of it at start
	Gigabyte  bool              // without a newline
	Flood     int               // bytes on stderr at start
	Grandson  bool              // leaves a sleeping child behind
	Stubborn  bool              // ignores SIGTERM and the end of its input
	Refuse    string            // words of the error that answers initialize
	Abilities string            // more capabilities, as JSON members
	Lean      int               // answers tools/call without decoding, with a text of so many bytes
}

func toolJSON(name string, more ...string) json.RawMessage {
	members := []string{fmt.Sprintf(`"name":%q`, name)}
	text := strings.Join(more, ",")
	if !strings.Contains(text, `"inputSchema"`) {
		members = append(members, `"inputSchema":{"type":"object"}`)
	}
	if !strings.Contains(text, `"description"`) {
		members = append(members, fmt.Sprintf(`"description":"does %s"`, name))
	}
	return json.RawMessage("{" + strings.Join(append(members, more...), ",") + "}")
}

const readOnly = `"annotations":{"readOnlyHint":true}`

func echoTool() json.RawMessage {
	return toolJSON("echo", readOnly, `"inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}`)
}

type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// speaker is one running fake server.
type speaker struct {
	script
	tag  string // who it is, for whoami
	exit func()

	calls sync.WaitGroup

	mu    sync.Mutex
	w     io.Writer
	lists int
	seen  []string // methods, and "tools/call NAME ARGS"
}

func (s *speaker) send(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.w, format+"\n", args...)
}

func (s *speaker) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, text)
}

func (s *speaker) saw(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.seen {
		if strings.HasPrefix(m, prefix) {
			n++
		}
	}
	return n
}

func (s *speaker) serve(r io.Reader) {
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if s.Lean > 0 && bytes.Contains(line, []byte(`"tools/call"`)) {
			s.send("%s", lean(line, s.Lean))
			continue
		}
		var m message
		if json.Unmarshal(line, &m) != nil || s.Mute {
			continue
		}
		s.note(m.Method + " " + string(m.Params))
		switch m.Method {
		case "initialize":
			time.Sleep(s.Slow)
			if s.Refuse != "" {
				s.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%s}}`, m.ID, quote(s.Refuse))
				continue
			}
			s.send(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}%s},"serverInfo":{"name":"fake","version":"1"}}}`, m.ID, s.Abilities)
		case "notifications/initialized":
			for range s.Later {
				s.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}
		case "tools/list":
			s.send(`{"jsonrpc":"2.0","id":%s,"result":{"tools":%s}}`, m.ID, s.list())
		case "tools/call":
			s.calls.Go(func() { s.call(m) })
		case "resources/list":
			s.send(`{"jsonrpc":"2.0","id":%s,"result":{"resources":[{"uri":"file:///a","name":"a"}]}}`, m.ID)
		case "resources/templates/list":
			s.send(`{"jsonrpc":"2.0","id":%s,"result":{"resourceTemplates":[{"uriTemplate":"file:///{x}","name":"x"}]}}`, m.ID)
		case "resources/read":
			s.send(`{"jsonrpc":"2.0","id":%s,"result":{"contents":[{"uri":"file:///a","text":"hello"}]}}`, m.ID)
		case "prompts/list":
			s.send(`{"jsonrpc":"2.0","id":%s,"result":{"prompts":[{"name":"hi","arguments":[{"name":"who","required":true}]}]}}`, m.ID)
		case "prompts/get":
			s.send(`{"jsonrpc":"2.0","id":%s,"result":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}}`, m.ID)
		case "ping":
			s.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		default:
			if m.ID != nil {
				s.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
			}
		}
	}
}

// lean answers a request with a text of size bytes by its id alone.
func lean(line []byte, size int) string {
	_, id, _ := bytes.Cut(line, []byte(`"id":`))
	n := bytes.IndexFunc(id, func(r rune) bool { return r < '0' || r > '9' })
	return `{"jsonrpc":"2.0","id":` + string(id[:n]) + `,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}}`
}

func (s *speaker) list() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	list := slices.Clone(s.Tools)
	if s.lists > 1 {
		list = append(list, s.Later...)
	}
	if s.lists >= 3 && s.Rug != nil {
		list = s.Rug
	}
	if list == nil {
		list = []json.RawMessage{}
	}
	b, _ := json.Marshal(list)
	return b
}

func (s *speaker) call(m message) {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(m.Params, &p)
	text := func(t string) {
		s.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, m.ID, quote(t))
	}
	switch p.Name {
	case "whoami":
		text(s.tag)
	case "big":
		var a struct{ Size int }
		_ = json.Unmarshal(p.Arguments, &a)
		text(strings.Repeat("x", a.Size))
	case "fail":
		s.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"no"}],"isError": true}}`, m.ID)
	case "rpc":
		s.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"quota \u001b[31mexceeded"}}`, m.ID)
	case "hang":
	case "die":
		s.exit()
	case "wait":
		time.Sleep(300 * time.Millisecond)
		text("waited")
	case "change":
		s.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		text("changed")
	default:
		text(string(p.Arguments))
	}
}

func quote(s string) []byte { b, _ := json.Marshal(s); return b }

// conn is the bot's side of an in-process fake server.
type conn struct {
	net.Conn
	pid    int
	once   sync.Once
	closed chan struct{}
	said   string
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed); c.Conn.Close() })
	return nil
}
func (c *conn) PID() int         { return c.pid }
func (c *conn) Diagnose() string { return c.said }
func (c *conn) Stderr() string   { return "" }

// launcher runs fake servers in this process, by command.
type launcher struct {
	mu       sync.Mutex
	scripts  map[string]script
	launches []schemas.Launch
	speakers []*speaker
	open     atomic.Int64
}

func (l *launcher) Launch(ctx context.Context, in schemas.Launch) (io.ReadWriteCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.launches = append(l.launches, in)
	sc, ok := l.scripts[in.Command]
	if !ok {
		return nil, &schemas.Error{Code: schemas.CodeMissing, Text: in.Command + " is not installed here"}
	}
	here, there := net.Pipe()
	c := &conn{Conn: here, pid: 1000 + len(l.launches), closed: make(chan struct{}), said: "exited with 1: " + sc.Crash}
	s := &speaker{script: sc, w: there, tag: fmt.Sprintf("%s/%s/%s/%s", in.Thread, in.Server, in.Command, in.Env["TOKEN"].Reveal()), exit: func() { there.Close() }}
	l.speakers = append(l.speakers, s)
	if sc.Crash != "" {
		there.Close()
		return c, nil
	}
	l.open.Add(1)
	go func() {
		defer l.open.Add(-1)
		defer there.Close()
		s.serve(there)
	}()
	return c, nil
}

func (l *launcher) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.launches)
}

// saw counts messages that all servers together got.
func (l *launcher) saw(prefix string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.speakers {
		n += s.saw(prefix)
	}
	return n
}

// wishes is a thread's configuration in memory.
type wishes struct {
	mu    sync.Mutex
	cfg   map[schemas.ThreadID]schemas.Config
	loads atomic.Int64
	bad   error
}

func (w *wishes) Load(_ context.Context, id schemas.ThreadID) (schemas.Config, error) {
	w.loads.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cfg[id]
	c.Thread, c.Entries = id, slices.Clone(c.Entries)
	for n := range c.Entries {
		c.Entries[n].Pins = maps.Clone(c.Entries[n].Pins)
	}
	return c, w.bad
}

func (w *wishes) Pin(_ context.Context, id schemas.ThreadID, server string, pins map[string]string) error {
	w.edit(id, func(c *schemas.Config) {
		for n := range c.Entries {
			if c.Entries[n].Name == server {
				c.Entries[n].Pins = maps.Clone(pins)
			}
		}
	})
	return nil
}

func (w *wishes) edit(id schemas.ThreadID, change func(*schemas.Config)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cfg[id]
	c.Entries = slices.Clone(c.Entries)
	change(&c)
	w.cfg[id] = c
}

// entry is an approved, enabled server of member "ann".
func entry(name, command string, more ...func(*schemas.Entry)) schemas.Entry {
	e := schemas.Entry{Server: schemas.Server{Name: name, Type: schemas.Stdio, Command: command}, Kind: schemas.Local, Owner: "ann", OwnerName: "ann", Enabled: true}
	for _, m := range more {
		m(&e)
	}
	return approved(e)
}

var clock atomic.Int64

func approved(e schemas.Entry) schemas.Entry {
	e.Pins = nil
	e.Approval = &schemas.Approval{Fingerprint: e.Fingerprint(), By: "ann", At: time.Unix(clock.Add(1), 0), Definition: e.Server}
	return e
}

type vault struct {
	mu     sync.Mutex
	values map[schemas.SecretKey]string
}

func (v *vault) Reveal(_ context.Context, k schemas.SecretKey) (schemas.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s, ok := v.values[k]; ok {
		return schemas.NewSecret(s), nil
	}
	return schemas.Secret{}, &schemas.Error{Code: schemas.CodeNeeds, Text: "no value"}
}

func (v *vault) put(thread schemas.ThreadID, server, name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[schemas.SecretKey{Member: "ann", Thread: thread, Server: server, Name: name, Origin: "local"}] = value
}

type journal struct {
	mu      sync.Mutex
	records []schemas.Record
	broken  bool
}

func (j *journal) Append(ctx context.Context, r schemas.Record) (schemas.Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken {
		return r, errors.New("no space left on device")
	}
	j.records = append(j.records, r)
	return r, nil
}

func (j *journal) last() schemas.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.records) == 0 {
		return schemas.Record{}
	}
	return j.records[len(j.records)-1]
}

type gateFunc func(context.Context, schemas.Ask) (schemas.Answer, error)

func (g gateFunc) Ask(ctx context.Context, a schemas.Ask) (schemas.Answer, error) { return g(ctx, a) }

// house is a registry with fakes all around.
type house struct {
	*registry.Registry
	t       testing.TB
	wishes  *wishes
	servers *launcher
	vault   *vault
	journal *journal
	opt     registry.Options
	stop    func()
}

const one schemas.ThreadID = "T1"

func newHouse(t testing.TB, scripts map[string]script, change ...func(*registry.Options)) *house {
	t.Helper()
	h := &house{
		t: t, wishes: &wishes{cfg: map[schemas.ThreadID]schemas.Config{}}, servers: &launcher{scripts: scripts},
		vault: &vault{values: map[schemas.SecretKey]string{}}, journal: &journal{},
	}
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	h.opt = registry.Options{Wishes: h.wishes, Launcher: h.servers, Secrets: h.vault, Journal: h.journal, Cache: dir, Settle: time.Nanosecond}
	if os.Getenv("BOBBIN_LOG") != "" {
		h.opt.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	for _, c := range change {
		c(&h.opt)
	}
	h.boot()
	return h
}

// boot starts a registry over the house's fakes, like a new process would.
func (h *house) boot() {
	h.t.Helper()
	r, err := registry.New(h.opt)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Registry = r
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				h.t.Error(err)
			}
		})
	}
	h.t.Cleanup(h.stop)
}

func (h *house) set(id schemas.ThreadID, entries ...schemas.Entry) {
	h.wishes.edit(id, func(c *schemas.Config) { c.Entries = entries })
}

func (h *house) policy(id schemas.ThreadID, p schemas.Policy) {
	h.wishes.edit(id, func(c *schemas.Config) { c.Policy = p })
}

// apply brings the thread up to date and fails the test if that takes long.
func (h *house) apply(id schemas.ThreadID) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Apply(ctx, id); err != nil {
		h.t.Fatalf("Apply: %v", err)
	}
}

func (h *house) status(id schemas.ThreadID, name string) schemas.Status {
	h.t.Helper()
	list, err := h.Status(context.Background(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	return schemas.Status{}
}

func (h *house) tools(id schemas.ThreadID) []string {
	h.t.Helper()
	list, err := h.Tools(context.Background(), ann(id))
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, t := range list {
		names = append(names, t.Full())
	}
	return names
}

func ann(id schemas.ThreadID) schemas.Caller {
	return schemas.Caller{Thread: id, Member: "ann", Name: "Ann", Door: schemas.DoorTerminal, Role: schemas.Member}
}

// by makes a person's call.
func by(id schemas.ThreadID, tool, args string) schemas.Call {
	return schemas.Call{Caller: ann(id), Origin: schemas.ByPerson, Tool: tool, Args: json.RawMessage(args)}
}

func (h *house) call(c schemas.Call) (schemas.Result, error) {
	return h.Call(context.Background(), c)
}

// text of a result's first block.
func text(t testing.TB, r schemas.Result) string {
	t.Helper()
	var res struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(r.Raw, &res); err != nil || len(res.Content) == 0 {
		t.Fatalf("result %s: %v", r.Raw, err)
	}
	return res.Content[0].Text
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

func wantCode(t testing.TB, err error, code schemas.Code, words ...string) {
	t.Helper()
	if schemas.CodeOf(err) != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	for _, w := range words {
		if !strings.Contains(describe(err), w) {
			t.Fatalf("%q does not say %q", describe(err), w)
		}
	}
}

func describe(err error) string {
	var e *schemas.Error
	if errors.As(err, &e) {
		return e.Text + " | " + e.Hint
	}
	return err.Error()
}
