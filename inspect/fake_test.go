package inspect_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/inspect"
	"bobbin/schemas"
)

// source plays the registry with two servers; a call writes both of its messages.
type source struct {
	mu       sync.Mutex
	callers  []schemas.Caller
	calls    []schemas.Call
	messages []schemas.Message
	ticks    map[chan struct{}]bool
	watches  map[chan struct{}]bool
	state    schemas.State // of notes
	hold     chan struct{} // calls of "slow" wait for it
}

func newSource() *source {
	return &source{ticks: map[chan struct{}]bool{}, watches: map[chan struct{}]bool{}, state: schemas.Ready, hold: make(chan struct{})}
}

const stderrText = "listening\n\u202eevil"

func (s *source) Status(_ context.Context, t schemas.ThreadID) ([]schemas.Status, error) {
	if t == "broken" {
		return nil, fmt.Errorf("open /secret/path: no such file")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return []schemas.Status{
		{Name: "notes", Kind: schemas.Local, Transport: schemas.Stdio, OwnerName: "Ann", State: s.state, Tools: 3, Tokens: 420, Calls: len(s.calls), PID: 4711, Protocol: "2025-11-25",
			Since: time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC), Took: 812 * time.Millisecond, Resources: true, Prompts: true, Stderr: stderrText},
		{Name: "weather", Kind: schemas.Connector, Transport: schemas.HTTP, State: schemas.Failed, Why: "cannot be reached"},
	}, nil
}

func (s *source) Watch(schemas.ThreadID) (<-chan struct{}, func()) { return s.listen(s.ticks) }

func (s *source) listen(all map[chan struct{}]bool) (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	all[c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(all, c)
	}
}

func tick(all map[chan struct{}]bool) {
	for c := range all {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (s *source) Restart(_ context.Context, _ schemas.ThreadID, server string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = schemas.Starting
	tick(s.ticks)
	return nil
}

const searchSchema = `{"type":"object","properties":{"query":{"type":"string","description":"words to look for"},"limit":{"type":"integer","minimum":1,"maximum":50,"default":10},` +
	`"kind":{"enum":["note","task",7]},"deep":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}}},"required":["query"]}`

const shapesSchema = `{"type":"object","required":["address","tags"],"$defs":{"round":{"type":"object","title":"Round","properties":{"radius":{"type":"number"}},"required":["radius"]},
	"self":{"type":"object","properties":{"again":{"$ref":"#/$defs/self"}}}},"properties":{
	"address":{"type":"object","properties":{"street":{"type":"string"}},"required":["street"]},"tags":{"type":"array","items":{"type":"string"},"minItems":1},
	"picks":{"type":"array","uniqueItems":true,"items":{"enum":["a","b"]}},"area":{"oneOf":[{"$ref":"#/$defs/round"},{"type":"string"}]},"again":{"$ref":"#/$defs/self"},
	"ratio":{"type":["number","null"],"exclusiveMinimum":0}}}`

// media is a result with a picture of 10 × 10, a tenth of a second of sound, a file and a link.
func media() string {
	sound := make([]byte, 844)
	copy(sound, "RIFF\x44\x03\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x20\x03\x00\x00")
	return fmt.Sprintf(`{"content":[{"type":"image","mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGP8z4APMOGVHbHSAEEsARM2UbRoAAAAAElFTkSuQmCC"},
		{"type":"audio","mimeType":"audio/wav","data":%q},{"type":"resource","resource":{"uri":"file:///x.bin","mimeType":"application/octet-stream","blob":"YmluYXJ5AGRhdGEh"}},
		{"type":"resource_link","uri":"note:///1","name":"Shopping"}]}`, base64.StdEncoding.EncodeToString(sound))
}

func (s *source) Tools(_ context.Context, c schemas.Caller) ([]schemas.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callers = append(s.callers, c)
	if s.state == schemas.Failed {
		return nil, nil
	}
	tools := []schemas.Tool{
		{Server: "notes", Name: "search", Description: "Finds notes by their words, newest first. Gives at most as many as the limit says, with the folder that each is in.", Input: json.RawMessage(searchSchema), Tokens: 200},
		{Server: "notes", Name: "delete", Description: "Deletes a note.", Writes: true, Risk: "destructive", Input: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)},
		{Server: "notes", Name: "slow", Description: "Takes its time.", Input: json.RawMessage(`{"type":"object"}`)},
		{Server: "notes", Name: "shapes", Description: "Takes arguments of every kind.", Input: json.RawMessage(shapesSchema)},
		{Server: "notes", Name: "media", Description: "Gives what is not text.", Input: json.RawMessage(`{"type":"object"}`), Output: json.RawMessage(`{"type":"object"}`)},
	}
	for i := range 20 {
		tools = append(tools, schemas.Tool{Server: "notes", Name: fmt.Sprintf("bulk_%02d", i), Description: "One of many.", Input: json.RawMessage(`{"type":"object"}`)})
	}
	return tools, nil
}

func (s *source) Resources(context.Context, schemas.Caller) ([]schemas.Resource, error) {
	return []schemas.Resource{{Server: "notes", URI: "note:///1", Name: "Shopping", MIME: "text/plain"}, {Server: "notes", URI: "note:///{id}", Name: "A note", Template: true}}, nil
}

func (s *source) Prompts(context.Context, schemas.Caller) ([]schemas.Prompt, error) {
	return []schemas.Prompt{{Server: "notes", Name: "summary", Description: "Sums up a folder.", Arguments: []schemas.PromptArgument{{Name: "folder", Required: true}}}}, nil
}

func (s *source) Call(ctx context.Context, c schemas.Call) (schemas.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	if c.Tool == "notes.delete" {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeDenied, Text: "destructive tools are denied here: notes.delete", Hint: "a manager can `/mcp policy allow notes.delete`"}
	}
	if c.Tool == "notes.slow" {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return schemas.Result{}, &schemas.Error{Code: schemas.CodeUnknown, Text: "cancelled"}
		}
	}
	if c.Tool == "notes.media" {
		return schemas.Result{Raw: json.RawMessage(media()), Receipt: "7f3a0004"}, nil
	}
	if strings.Contains(string(c.Args), `"street": "wrong"`) {
		return schemas.Result{}, schemas.Problems{{Pointer: "/tags/1", Text: "is not a colour"}}
	}
	if strings.Contains(string(c.Args), `"limit": 50`) {
		return schemas.Result{}, schemas.Problems{{Pointer: "/limit", Text: "must be at most 20"}}
	}
	raw := `{"content":[{"type":"text","text":"3 notes: <b>milk</b>, bread, 12345678901234567890"}],"structuredContent":{"count":3}}`
	s.say(true, schemas.MessageRequest, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, strings.TrimPrefix(c.Tool, "notes."), c.Args), 0)
	s.say(false, schemas.MessageNotification, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`, 0)
	s.say(false, schemas.MessageAnswer, `{"jsonrpc":"2.0","id":7,"result":`+raw+`}`, 12300*time.Microsecond)
	return schemas.Result{Raw: json.RawMessage(raw), Took: 14 * time.Millisecond, Receipt: "7f3a0001", RunsAs: "ann", Size: len(raw)}, nil
}

func (s *source) say(sent bool, kind schemas.MessageKind, text string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	method, id := "tools/call", "7"
	if kind == schemas.MessageNotification {
		method, id = "notifications/progress", ""
	}
	s.messages = append(s.messages, schemas.Message{N: len(s.messages) + 1, At: time.Now(), Sent: sent, Kind: kind, Method: method, ID: id, Took: took, As: "ann", Text: text, Size: len(text)})
	tick(s.watches)
}

func (s *source) ReadResource(_ context.Context, _ schemas.Caller, server, uri string) (schemas.Result, error) {
	return schemas.Result{Raw: json.RawMessage(fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"text/plain","text":"milk"}]}`, uri)), Receipt: "7f3a0002"}, nil
}

func (s *source) Prompt(_ context.Context, _ schemas.Caller, server, name string, args map[string]string) (schemas.Result, error) {
	return schemas.Result{Raw: json.RawMessage(fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":"Sum up %s"}}]}`, args["folder"])), Receipt: "7f3a0003"}, nil
}

func (s *source) Messages(_ context.Context, c schemas.Caller, server string) (func(int) []schemas.Message, <-chan struct{}, func(), error) {
	if server == "secret" {
		return nil, nil, nil, &schemas.Error{Code: schemas.CodeDenied, Text: "messages of servers are shown only at the machine that runs bobbin"}
	}
	changed, stop := s.listen(s.watches)
	return func(n int) []schemas.Message {
		s.mu.Lock()
		defer s.mu.Unlock()
		if server != "notes" || n >= len(s.messages) {
			return nil
		}
		return append([]schemas.Message(nil), s.messages[n:]...)
	}, changed, stop, nil
}

func (s *source) open() (ticks, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ticks), len(s.watches)
}

const token = "a-token-of-a-good-length"

// site is the page on a loopback port, alone and guarded.
type site struct {
	*source
	url string
}

func newSite(t *testing.T, change ...func(*inspect.Options)) *site {
	t.Helper()
	s := newSource()
	opt := inspect.Options{
		Live: s, Lists: s, Use: s, Wire: s, Thread: "operator",
		Member: schemas.Caller{Member: "ann", Name: "Ann", Door: schemas.DoorWeb, Role: schemas.Owner, Operator: true},
	}
	for _, c := range change {
		c(&opt)
	}
	p, err := inspect.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	g, err := inspect.NewGuard(token)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g.Wrap(p.Handler()))
	t.Cleanup(srv.Close)
	return &site{s, srv.URL}
}

// ask sends a request with the bearer token and gives status and body.
func (s *site) ask(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Del(header[i])
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
