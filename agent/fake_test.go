package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/agent"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

const thread = schemas.ThreadID("web-1")

var now = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func by(name string, role schemas.Role) schemas.Caller {
	return schemas.Caller{Thread: thread, Member: schemas.MemberID("id-" + name), Name: name, Door: schemas.DoorWeb, Role: role}
}

func alice() schemas.Caller { return by("alice", schemas.Member) }
func boss() schemas.Caller  { return by("boss", schemas.Owner) }

// reply is how the model answers one request.
type reply func(ctx context.Context, r agent.Request, yield func(agent.Event, error) bool)

// model is a provider that answers by a script, and refuses what no real one would take.
type model struct {
	t  *testing.T
	mu sync.Mutex
	// script holds the replies that are left.
	script   []reply
	requests []agent.Request
}

func (m *model) Stream(ctx context.Context, r agent.Request) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		m.mu.Lock()
		if why := wrong(r); why != "" {
			m.t.Errorf("request %d: %s\n%s", len(m.requests)+1, why, dump(r.Messages))
		}
		m.requests = append(m.requests, r)
		if len(m.script) == 0 {
			m.mu.Unlock()
			m.t.Errorf("request %d was not expected", len(m.requests))
			yield(agent.Event{}, &agent.Failure{Text: "the script is over"})
			return
		}
		next := m.script[0]
		m.script = m.script[1:]
		m.mu.Unlock()
		next(ctx, r, yield)
	}
}

func (m *model) seen() []agent.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

func (m *model) last() agent.Request {
	all := m.seen()
	return all[len(all)-1]
}

// wrong says what a strict provider would refuse.
func wrong(r agent.Request) string {
	names := map[string]bool{}
	for _, t := range r.Tools {
		if names[t.Name] || len(t.Name) > 64 || t.Name == "" || strings.Trim(t.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return fmt.Sprintf("bad tool name %q", t.Name)
		}
		names[t.Name] = true
		var o map[string]any
		if json.Unmarshal(t.Input, &o) != nil || o["type"] != "object" {
			return fmt.Sprintf("bad schema of %s", t.Name)
		}
	}
	if len(r.Messages) == 0 || r.Messages[0].Role != agent.User {
		return "does not begin with a member's message"
	}
	if r.Messages[len(r.Messages)-1].Role != agent.User {
		return "does not end with a member's message"
	}
	var open []string
	for n, m := range r.Messages {
		if len(m.Parts) == 0 {
			return fmt.Sprintf("message %d is empty", n)
		}
		results := 0
		for _, p := range m.Parts {
			set := 0
			for _, is := range []bool{p.Text != "", p.Reasoning != "", p.Image != nil, p.Call != nil, p.Result != nil} {
				if is {
					set++
				}
			}
			if set > 1 || set == 0 && p.Opaque == nil {
				return fmt.Sprintf("message %d has a part that is %d things", n, set)
			}
			if p.Result != nil {
				if results >= len(open) || open[results] != p.Result.ID {
					return fmt.Sprintf("message %d: result %s, but open are %v", n, p.Result.ID, open)
				}
				results++
			}
			if p.Call != nil && m.Role != agent.Assistant || p.Result != nil && m.Role != agent.User {
				return fmt.Sprintf("message %d has a part of the other role", n)
			}
		}
		if results != len(open) {
			return fmt.Sprintf("message %d answers %d of %d calls", n, results, len(open))
		}
		if results > 0 && results != len(m.Parts) {
			return fmt.Sprintf("message %d mixes results with other parts", n)
		}
		open = nil
		for _, p := range m.Parts {
			if p.Call != nil {
				if slices.Contains(open, p.Call.ID) || p.Call.ID == "" {
					return fmt.Sprintf("message %d: id %q twice", n, p.Call.ID)
				}
				var o map[string]any
				if json.Unmarshal(p.Call.Args, &o) != nil || o == nil {
					return fmt.Sprintf("message %d: arguments %s", n, p.Call.Args)
				}
				open = append(open, p.Call.ID)
			}
		}
		if n > 0 && r.Messages[n-1].Role == m.Role {
			after := r.Messages[n-1].Parts[0].Result != nil && m.Role == agent.User && results == 0
			if !after {
				return fmt.Sprintf("messages %d and %d are both of the %s", n-1, n, m.Role)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("no results for %v", open)
	}
	return ""
}

func dump(messages []agent.Message) string {
	var b strings.Builder
	for n, m := range messages {
		raw, _ := json.Marshal(m.Parts)
		fmt.Fprintf(&b, "%d %s %.300s\n", n, m.Role, raw)
	}
	return b.String()
}

// says answers with a text.
func says(text string) reply {
	return func(_ context.Context, _ agent.Request, yield func(agent.Event, error) bool) {
		half := len(text) / 2
		_ = yield(agent.Event{Kind: agent.EventText, Text: text[:half]}, nil) &&
			yield(agent.Event{Kind: agent.EventText, Text: text[half:]}, nil) &&
			yield(agent.Event{Kind: agent.EventPart, Part: &agent.Part{Text: text}}, nil) &&
			yield(agent.Event{Kind: agent.EventEnd, Stop: agent.StopDone, Tokens: schemas.Tokens{In: 100, Out: 10}}, nil)
	}
}

// uses calls tools.
func uses(calls ...agent.Call) reply {
	return func(_ context.Context, _ agent.Request, yield func(agent.Event, error) bool) {
		for _, c := range calls {
			if !yield(agent.Event{Kind: agent.EventCall, Call: &agent.Call{ID: c.ID, Name: c.Name}}, nil) || !yield(agent.Event{Kind: agent.EventPart, Part: &agent.Part{Call: &c}}, nil) {
				return
			}
		}
		yield(agent.Event{Kind: agent.EventEnd, Stop: agent.StopCalls, Tokens: schemas.Tokens{In: 100, Out: 10}}, nil)
	}
}

func call(id, name, args string) agent.Call {
	return agent.Call{ID: id, Name: name, Args: json.RawMessage(args)}
}

// fails ends the stream.
func fails(err error, pieces ...string) reply {
	return func(_ context.Context, _ agent.Request, yield func(agent.Event, error) bool) {
		for _, p := range pieces {
			if !yield(agent.Event{Kind: agent.EventText, Text: p}, nil) {
				return
			}
		}
		yield(agent.Event{}, err)
	}
}

// hangs says a text and then nothing, until it is stopped.
func hangs(pieces ...string) reply {
	return func(ctx context.Context, _ agent.Request, yield func(agent.Event, error) bool) {
		for _, p := range pieces {
			if !yield(agent.Event{Kind: agent.EventText, Text: p}, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(agent.Event{}, ctx.Err())
	}
}

// servers is a registry of tools that are functions.
type servers struct {
	mu    sync.Mutex
	tools []schemas.Tool
	fn    map[string]func(context.Context, schemas.Call) (schemas.Result, error) // by name for models
	calls []schemas.Call
}

func (s *servers) Tools(context.Context, schemas.Caller) ([]schemas.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tools), nil
}

func (s *servers) Call(ctx context.Context, c schemas.Call) (schemas.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, c)
	fn := s.fn[c.Tool]
	s.mu.Unlock()
	return fn(ctx, c)
}

func (s *servers) called() []schemas.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// add offers a tool that answers with text, or does fn.
func (s *servers) add(full string, readOnly bool, fn any) {
	server, name, _ := strings.Cut(full, ".")
	tool := schemas.Tool{Server: server, Name: name, Model: "ext_" + server + "_" + name, Kind: schemas.Local, Description: "does " + name, ReadOnly: readOnly, Writes: !readOnly,
		Input: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = append(s.tools, tool)
	if s.fn == nil {
		s.fn = map[string]func(context.Context, schemas.Call) (schemas.Result, error){}
	}
	switch fn := fn.(type) {
	case string:
		s.fn[tool.Model] = func(context.Context, schemas.Call) (schemas.Result, error) { return text(server, fn), nil }
	case error:
		s.fn[tool.Model] = func(context.Context, schemas.Call) (schemas.Result, error) { return schemas.Result{}, fn }
	default:
		s.fn[tool.Model] = fn.(func(context.Context, schemas.Call) (schemas.Result, error))
	}
}

func text(server, text string) schemas.Result {
	raw, _ := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": text}}})
	return schemas.Result{Raw: raw, Server: server, Size: len(raw), Receipt: "7f3a", RunsAs: "id-alice", Took: 3 * time.Millisecond}
}

type journal struct {
	mu      sync.Mutex
	records []schemas.Record
	err     error
}

func (j *journal) Append(_ context.Context, r schemas.Record) (schemas.Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.records = append(j.records, r)
	}
	return r, j.err
}

// world is an agent with all that it needs.
type world struct {
	*agent.Agent
	t       *testing.T
	model   *model
	servers *servers
	journal *journal
	folder  string
}

func newWorld(t *testing.T, script []reply, more ...func(*agent.Options)) *world {
	t.Helper()
	w := &world{t: t, model: &model{t: t, script: script}, servers: &servers{}, journal: &journal{}, folder: t.TempDir()}
	w.open(more...)
	return w
}

// open makes an agent on the same folder, as after a restart.
func (w *world) open(more ...func(*agent.Options)) {
	w.t.Helper()
	dir, err := durable.Open(w.folder)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = dir.Close() })
	spent, err := dir.Sub("spent")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = spent.Close() })
	opt := agent.Options{Tools: w.servers, Journal: w.journal, Chats: dir, Spent: spent, Models: []agent.Choice{{Name: "fake/one", Provider: w.model, Model: "one"}},
		Now: func() time.Time { return now }}
	for _, fn := range more {
		fn(&opt)
	}
	if w.Agent, err = agent.New(opt); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) say(text string) schemas.Answering {
	w.t.Helper()
	return w.sayAs(alice(), text)
}

func (w *world) sayAs(c schemas.Caller, text string) schemas.Answering {
	w.t.Helper()
	var last schemas.Answering
	got, err := w.Say(w.t.Context(), schemas.Said{Caller: c, Text: text}, func(s schemas.Answering) { last = s })
	if err != nil {
		w.t.Fatalf("%q: %v", text, err)
	}
	if !got.Done || !last.Done || last.Text != got.Text || last.Why != got.Why {
		w.t.Errorf("returned %+v, shown last %+v", got, last)
	}
	return got
}

// wrote is a member's text or a result's in a request.
func wrote(r agent.Request, n int) string {
	m := r.Messages[n]
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
		if p.Result != nil {
			b.WriteString(p.Result.Text)
		}
	}
	return b.String()
}
