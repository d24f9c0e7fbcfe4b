package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/gateway"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

// thread is a registry with one thread, as the gateway sees it.
type thread struct {
	mu    sync.Mutex
	tools []schemas.Tool
	calls []schemas.Call
	watch map[chan struct{}]bool
	gone  map[schemas.MemberID]bool

	guests map[schemas.MemberID]bool

	answer     string // of "raw"
	follows    []chan struct{}
	unfollowed int

	res   []schemas.Resource
	pro   []schemas.Prompt
	hold  chan struct{} // "wait" returns when it is closed
	began chan struct{} // "wait" tells that it runs
	ended chan error    // how "wait" ended
}

func tool(server, name string) schemas.Tool {
	return schemas.Tool{
		Server: server, Name: name, Model: "ext_" + server + "_" + name, Title: strings.ToUpper(name), Description: "does " + name, Pin: "p1",
		Input: json.RawMessage(`{"type":"object"}`), Raw: json.RawMessage(`{"name":"` + name + `","annotations":{"readOnlyHint":true,"title":"evil"}}`),
	}
}

func newThread() *thread {
	return &thread{
		tools: []schemas.Tool{tool("s", "echo"), tool("s", "big"), tool("s", "ask"), tool("s", "wait"), tool("s", "deny"), tool("z", "echo")},
		watch: map[chan struct{}]bool{}, gone: map[schemas.MemberID]bool{}, guests: map[schemas.MemberID]bool{}, hold: make(chan struct{}), began: make(chan struct{}, 8), ended: make(chan error, 8),
		res: []schemas.Resource{
			{Server: "s", URI: "test://a", Name: "a", Raw: json.RawMessage(`{"uri":"test://a","name":"a"}`)},
			{Server: "z", URI: "test://a", Name: "a", Raw: json.RawMessage(`{"uri":"test://a","name":"z"}`)},
			{Server: "z", URI: "test://t/{id}/data", Template: true, Raw: json.RawMessage(`{"uriTemplate":"test://t/{id}/data","name":"t"}`)},
		},
		pro: []schemas.Prompt{{Server: "s", Name: "hello", Raw: json.RawMessage(`{"name":"hello","arguments":[{"name":"who","required":true}]}`)}, {Server: "s", Name: "both"}, {Server: "z", Name: "both"}},
	}
}

func (t *thread) Tools(context.Context, schemas.Caller) ([]schemas.Tool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tools, nil
}

func (t *thread) Status(context.Context, schemas.ThreadID) ([]schemas.Status, error) {
	return []schemas.Status{{Name: "s", State: schemas.Ready, Resources: true, Prompts: true}, {Name: "z", State: schemas.Ready, Resources: true}}, nil
}

const big = 200_000

func text(s string) json.RawMessage {
	b, _ := json.Marshal(s)
	return json.RawMessage(`{"content":[{"type":"text","text":` + string(b) + `}]}`)
}

func (t *thread) Call(ctx context.Context, in schemas.Call) (schemas.Result, error) {
	t.mu.Lock()
	t.calls = append(t.calls, in)
	t.mu.Unlock()
	name := strings.TrimPrefix(strings.TrimPrefix(in.Tool, "ext_s_"), "s.")
	switch name {
	case "raw":
		t.mu.Lock()
		defer t.mu.Unlock()
		return schemas.Result{Raw: json.RawMessage(t.answer)}, nil
	case "echo":
		if in.Progress != nil {
			in.Progress(json.RawMessage(`{"progressToken":7,"progress":1,"total":2}`))
		}
		if in.Log != nil {
			in.Log(json.RawMessage(`{"level":"debug","data":"quiet"}`))
			in.Log(json.RawMessage(`{"level":"error","data":"loud"}`))
		}
		return schemas.Result{Raw: text(string(in.Args))}, nil
	case "big":
		return schemas.Result{Raw: text(strings.Repeat("x", big) + "\n")}, nil
	case "ask":
		if in.Elicit == nil {
			return schemas.Result{Raw: text("nobody")}, nil
		}
		e, err := in.Elicit(ctx, schemas.Elicit{Caller: in.Caller, Server: "s", Message: "who?", Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		return schemas.Result{Raw: text(fmt.Sprintf("%s %s %v", e.Action, e.Content, err))}, nil
	case "slow": // says something, is held, says something
		in.Progress(json.RawMessage(`{"progressToken":7,"progress":1}`))
		<-t.hold
		in.Progress(json.RawMessage(`{"progressToken":7,"progress":2}`))
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended <- nil
		return schemas.Result{Raw: json.RawMessage(cmp.Or(t.answer, `{"content":[]}`))}, nil
	case "wait":
		t.began <- struct{}{}
		select {
		case <-t.hold:
			t.ended <- nil
			return schemas.Result{Raw: text("waited")}, nil
		case <-ctx.Done():
			t.ended <- ctx.Err()
			return schemas.Result{}, &schemas.Error{Code: schemas.CodeUnknown, Text: "broken off", Err: ctx.Err()}
		}
	case "permit":
		if in.Ask == nil {
			return schemas.Result{Raw: text("nobody")}, nil
		}
		a, err := in.Ask(ctx, schemas.Ask{Caller: in.Caller, Tool: tool("s", "permit"), Args: in.Args, Why: "it writes"})
		return schemas.Result{Raw: text(fmt.Sprintf("%s %v", a, err))}, nil
	case "deny":
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeDenied, Text: "denied: s.deny", Hint: "ask a manager"}
	case "args":
		return schemas.Result{}, schemas.Problems{{Pointer: "/a", Text: "must be a number"}}
	case "crash":
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written", Ref: "7f3c"}
	}
	return schemas.Result{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "no tool is called that"}
}

func (t *thread) Resources(context.Context, schemas.Caller) ([]schemas.Resource, error) {
	return t.res, nil
}

func (t *thread) ReadResource(_ context.Context, _ schemas.Caller, server, uri string) (schemas.Result, error) {
	return schemas.Result{Raw: json.RawMessage(`{"contents":[{"uri":"` + uri + `","text":"of ` + server + `"}]}`)}, nil
}

func (t *thread) Follow(_ context.Context, _ schemas.Caller, server, uri string) (<-chan struct{}, func(), error) {
	if server == "z" {
		return nil, nil, &schemas.Error{Code: schemas.CodeMissing, Text: "z does not say when its resources change"}
	}
	ch := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follows = append(t.follows, ch)
	return ch, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.unfollowed++
	}, nil
}

func (t *thread) Prompts(context.Context, schemas.Caller) ([]schemas.Prompt, error) {
	return t.pro, nil
}

func (t *thread) Fill(_ context.Context, _ schemas.Call, server, name string, args map[string]string) (schemas.Result, error) {
	return schemas.Result{Raw: json.RawMessage(fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":"%s.%s %s"}}]}`, server, name, args["who"]))}, nil
}

func (t *thread) Complete(_ context.Context, _ schemas.Caller, in schemas.Completion) (schemas.Result, error) {
	if in.Server == "z" {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeMissing, Text: "z completes nothing"}
	}
	return schemas.Result{Raw: json.RawMessage(`{"completion":{"values":["` + in.Prompt + `"],"hasMore":false}}`)}, nil
}

func (t *thread) Watch(schemas.ThreadID) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch[ch] = true
	return ch, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watch, ch)
	}
}

// change gives the thread other tools, and tells.
func (t *thread) change(tools ...schemas.Tool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tools = tools
	for ch := range t.watch {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// raw is what the tool of this name answers from now on.
func (t *thread) raw(answer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer = answer
}

func (t *thread) watched() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.watch)
}

// house is a gateway that runs, on loopback.
type house struct {
	*gateway.Gateway
	t      *testing.T
	thread *thread
	url    string
	dir    string
}

var ann = schemas.Caller{Thread: "t1", Member: "ann", Name: "Ann", Door: schemas.DoorWeb, Role: schemas.Member}

func start(t *testing.T, change func(*gateway.Options)) *house {
	t.Helper()
	return startIn(t, filepath.Join(t.TempDir(), "gateway"), newThread(), change)
}

func startIn(t *testing.T, dir string, th *thread, change func(*gateway.Options)) *house {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	d, err := durable.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, thread: th, dir: dir}
	opt := gateway.Options{Tools: th, Resources: th, Prompts: th, States: th, Tokens: d, Watch: th.Watch, Version: "1", Origin: func() string { return h.url },
		Standing: func(_ context.Context, _ schemas.ThreadID, m schemas.MemberID) (schemas.Role, bool) {
			th.mu.Lock()
			defer th.mu.Unlock()
			if th.guests[m] {
				return schemas.Guest, true
			}
			return schemas.Owner, !th.gone[m]
		}}
	if change != nil {
		change(&opt)
	}
	h.Gateway = gateway.New(opt)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	srv := httptest.NewServer(h.Handler())
	h.url = srv.URL
	t.Cleanup(func() {
		cancel()
		<-ended
		srv.CloseClientConnections()
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	until(t, func() bool { return h.get("/api/mcp/none") == 404 })
	return h
}

func (h *house) token(c schemas.Caller) string {
	h.t.Helper()
	_, secret, err := h.Make(h.t.Context(), c, "laptop", 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return secret
}

func (h *house) get(path string) int {
	resp, err := http.Get(h.url + path)
	if err != nil {
		h.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to that")
		}
	}
}
