package web_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/bot/web"
	"bobbin/schemas"
)

const token = "0123456789abcdef0123456789abcdef"

// fake is a bot that answers from a script and notes what it was asked.
type fake struct {
	mu      sync.Mutex
	asked   []bot.Request
	subs    map[schemas.ThreadID]chan bot.Notice
	servers []schemas.Status
	tools   []schemas.Tool
	reply   func(context.Context, bot.Request) bot.Reply // instead of the script, if set
	tick    chan struct{}
}

func (f *fake) Handle(ctx context.Context, req bot.Request) bot.Reply {
	f.mu.Lock()
	f.asked = append(f.asked, req)
	reply := f.reply
	f.mu.Unlock()
	if reply != nil {
		return reply(ctx, req)
	}
	return f.script(req)
}

func (f *fake) last() bot.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return bot.Request{}
	}
	return f.asked[len(f.asked)-1]
}

func (f *fake) script(req bot.Request) bot.Reply {
	switch {
	case req.File != nil:
		return mistakes()
	case req.Action != nil && req.Action.ID == "card-1":
		if req.Action.Choice == "confirm" {
			if req.Progress != nil {
				req.Progress("`github` is starting …")
			}
			f.set([]schemas.Status{github()}, githubTools())
			return bot.Reply{Replace: "card-1", Blocks: []bot.Block{{Text: "`github` is ready in 1.2 s · 26 tools, about 5,100 tokens · 9 of them write: I ask before each"}}}
		}
		return bot.Reply{Replace: "card-1", Blocks: []bot.Block{{Text: "cancelled; nothing was changed"}}}
	case req.Action != nil && req.Action.ID == "form-1":
		return bot.Reply{Replace: "form-1", Blocks: []bot.Block{
			{Text: "created issue 42 · 310 ms · as you · receipt 7f3a"},
			{Code: "{\n  \"number\": 42,\n  \"title\": \"Broken link\",\n  \"state\": \"open\"\n}"},
		}}
	case strings.HasPrefix(req.Text, "/mcp list"):
		return list()
	case strings.HasPrefix(req.Text, "/mcp call"):
		return callForm()
	case strings.HasPrefix(req.Text, "/mcp audit"):
		return auditReply()
	case strings.HasPrefix(req.Text, "/mcp download"):
		return bot.Reply{Blocks: []bot.Block{{Text: "1 server; no secret is in it"}, {File: &schemas.File{Name: "mcp.json", MIME: "application/json", Data: []byte(`{"mcpServers":{}}`)}}}}
	case strings.HasPrefix(req.Text, "/mcp remove"):
		return bot.Reply{Bad: true, Private: true, Code: schemas.CodeDenied, Blocks: []bot.Block{{Text: "only @member can confirm this change, or a manager of the thread"}}}
	case strings.Contains(req.Text, "{"):
		return card(time.Now().Add(10 * time.Minute))
	}
	return bot.Reply{Blocks: []bot.Block{{Text: "no model is set, so I cannot chat yet; tools work by hand with `/mcp call`"}}}
}

func (f *fake) Welcome(context.Context, schemas.Caller) bot.Reply {
	return bot.Reply{Blocks: []bot.Block{{Text: "No model is set, so I cannot chat yet; tools work by hand with `/mcp call`.."}}}
}

func (f *fake) Subscribe(t schemas.ThreadID, _ schemas.MemberID) (<-chan bot.Notice, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subs[t] != nil {
		panic("subscribed twice to " + string(t))
	}
	ch := make(chan bot.Notice, 16)
	f.subs[t] = ch
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.subs, t)
	}
}

func (f *fake) notify(t *testing.T, n bot.Notice) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.subs[n.Thread]
	if ch == nil {
		t.Fatalf("nobody listens to %s", n.Thread)
	}
	ch <- n
}

func (f *fake) set(s []schemas.Status, t []schemas.Tool) {
	f.mu.Lock()
	f.servers, f.tools = s, t
	for id, ch := range f.subs {
		select {
		case ch <- bot.Notice{Thread: id, Changed: true}:
		default:
		}
	}
	f.mu.Unlock()
}

func (f *fake) Board(_ context.Context, c schemas.Caller) (bot.Board, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := bot.Board{Thread: c.Thread}
	for _, s := range f.servers {
		one := bot.BoardServer{Status: s, Mine: s.Owner == c.Member}
		for _, t := range f.tools {
			mark := "runs"
			switch {
			case t.Held != "":
				mark = "held: " + t.Held
			case t.Risk != "":
				mark = "blocked: " + t.Risk
			case t.Writes:
				mark = "asks"
			}
			if t.Server == s.Name {
				one.Tools = append(one.Tools, bot.BoardTool{Tool: t, Mark: mark})
			}
		}
		b.Servers = append(b.Servers, one)
	}
	return b, nil
}

func (f *fake) Complete(_ context.Context, _ schemas.Caller, line string) []string {
	var out []string
	for _, l := range []string{"/mcp add", "/mcp add-json ", "/mcp list", "/mcp tools", "/mcp show ", "/mcp remove "} {
		if strings.HasPrefix(l, line) {
			out = append(out, l)
		}
	}
	return out
}

type site struct {
	*fake
	door *web.Door
	addr string
	stop func() // may be called twice
}

func (s *site) url(path string) string { return "http://" + s.addr + path }

// start serves a door with a fake bot on a loopback port until the test ends.
func start(t *testing.T, change ...func(*web.Options)) *site {
	t.Helper()
	f := &fake{subs: map[schemas.ThreadID]chan bot.Notice{}, tick: make(chan struct{}, 1)}
	opt := web.Options{
		Bot: f, Token: token,
		Watch: func(schemas.ThreadID) (<-chan struct{}, func()) { return f.tick, func() {} },
		Threads: func(context.Context) ([]schemas.ThreadID, error) {
			return []schemas.ThreadID{"web-team", "../evil"}, nil
		},
		Member: schemas.Caller{Member: "alice", Name: "Alice", Role: schemas.Owner, Operator: true},
		Log:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, c := range change {
		c(&opt)
	}
	d, err := web.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := d.Server()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.Run(ctx) })
	wg.Go(func() {
		if err := srv.Serve(l); err != http.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
	})
	end := sync.OnceFunc(func() {
		cancel()
		stop, done := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer done()
		if err := srv.Shutdown(stop); err != nil {
			t.Errorf("shutdown: %v", err)
			_ = srv.Close()
		}
		wg.Wait()
	})
	t.Cleanup(end)
	return &site{f, d, l.Addr().String(), end}
}

func card(expires time.Time) bot.Reply {
	return bot.Reply{
		ID: "card-1", Expires: expires,
		Choices: []bot.Choice{{Key: "confirm", Label: "Confirm", Style: "primary"}, {Key: "cancel", Label: "Cancel"}, {Key: "all", Label: "Show everything"}},
		Blocks: []bot.Block{
			{Text: "1 added, 1 changed: `github`, `notes`"},
			{Facts: []bot.Fact{
				{Label: "runs", Value: "`npx -y @modelcontextprotocol/server-github@2026.8.31`"},
				{Label: "where", Value: "your sandbox", Note: "container, no access to this machine"},
				{Label: "secrets", Value: "`GITHUB_TOKEN` is moved to your vault", Note: "the config keeps `${input:GITHUB_TOKEN}`"},
				{Label: "reach", Value: "the public internet, by way of the egress proxy"},
				{Label: "shared", Value: "everyone in this thread can use its tools; calls run as you"},
			}},
			{Diff: diffText},
			{Warning: "This runs a program that somebody else wrote. Confirm only if you trust `@modelcontextprotocol/server-github`."},
		},
	}
}

const diffText = `@@ -2,8 +2,13 @@
   "mcpServers": {
+    "github": {
+      "command": "npx",
+      "args": ["-y", "@modelcontextprotocol/server-github@2026.8.31"],
+      "env": { "GITHUB_TOKEN": "${input:GITHUB_TOKEN}" }
+    },
     "notes": {
       "command": "node",
-      "args": ["notes.js"]
+      "args": ["notes.js", "--readonly"]
     }
   }
`

func callForm() bot.Reply {
	return bot.Reply{
		ID: "form-1", Expires: time.Now().Add(10 * time.Minute),
		Blocks:  []bot.Block{{Text: "`github.create_issue`"}, {Text: "Create a new issue in a GitHub repository"}},
		Choices: []bot.Choice{{Key: "cancel", Label: "Cancel"}},
		Form: &bot.Form{Submit: "Call", Fields: []bot.Field{
			{Name: "repo", Label: "repo", Hint: "owner/name", Required: true},
			{Name: "title", Label: "title", Required: true},
			{Name: "body", Label: "body", Kind: "multiline"},
			{Name: "priority", Label: "priority", Kind: "choice", Options: []string{"low", "normal", "high"}, Default: "normal"},
			{Name: "assignees", Label: "assignees", Kind: "integer"},
			{Name: "draft", Label: "draft", Kind: "boolean", Hint: "not shown to watchers yet"},
			{Name: "key", Label: "API key", Kind: "secret"},
			{Name: "labels", Label: "labels", Kind: "json", Hint: "a list, such as `[\"bug\"]`"},
		}},
	}
}

func mistakes() bot.Reply {
	return bot.Reply{Bad: true, Code: schemas.CodeInvalid, Blocks: []bot.Block{
		{Text: "mcp.json has 3 mistakes; nothing was changed"},
		{Problems: []schemas.Problem{
			{File: "mcp.json", Line: 3, Col: 41, Server: "a", Text: `"args" must be a list, not text`, Hint: `"args": ["server.js"]`},
			{File: "mcp.json", Line: 4, Col: 5, Server: "b", Text: `unknown key "comand"`, Hint: `did you mean "command"?`, Excerpt: `    "comand": "node",`},
			{File: "mcp.json", Line: 5, Col: 52, Server: "c", Text: `env has "K" twice`},
		}},
		{Text: "fix them and run `/mcp upload mcp.json` again"},
	}}
}

func list() bot.Reply {
	return bot.Reply{Blocks: []bot.Block{{Table: &bot.Table{
		Columns: []string{"Server", "State", "Tools", "Owner", ""},
		Rows: []bot.Row{
			{Head: "local"},
			{State: schemas.Ready, Cells: []string{"github", "ready", "26 tools", "yours", "up 2 h, 14 calls"}},
			{State: schemas.Needs, Cells: []string{"notes", "needs `NOTES_KEY`", "", "@other", "ask @other to give it"}},
			{State: schemas.Failed, Cells: []string{"weather", "failed", "0 tools", "yours", "exited with 1: Error: Cannot find module 'undici' · `/mcp doctor weather`"}},
			{Head: "connectors"},
			{State: schemas.NeedsConnect, Cells: []string{"linear", "needs connect", "", "", "runs as the one who asks"}},
		},
	}}}}
}

func auditReply() bot.Reply {
	rows := make([]bot.Row, 14)
	for i := range rows {
		rows[i] = bot.Row{Cells: []string{fmt.Sprintf("22:%02d:14", 59-i), "@Alice", "called github.create_issue", "ok", "310 ms", fmt.Sprintf("7f%02x", i)}}
	}
	return bot.Reply{Blocks: []bot.Block{{Text: "the last 14 records; the chain is whole"}, {Table: &bot.Table{Columns: []string{"Time", "Who", "What", "Outcome", "Took", "Receipt"}, Rows: rows}}}}
}

func github() schemas.Status {
	return schemas.Status{
		Name: "github", Kind: schemas.Local, Transport: schemas.Stdio, Owner: "alice", OwnerName: "Alice", State: schemas.Ready,
		Tools: 26, Writing: 9, Tokens: 5100, Since: time.Now().Add(-2 * time.Hour), Calls: 14, RunsAs: "@Alice",
	}
}

func githubTools() []schemas.Tool {
	return []schemas.Tool{
		{Server: "github", Name: "create_issue", Writes: true, Description: "Create a new issue in a GitHub repository"},
		{Server: "github", Name: "search_code", ReadOnly: true, Description: "Search for code across GitHub repositories, with the same syntax as on the site: language, path, repository and more"},
		{Server: "github", Name: "run_command", Writes: true, Risk: "shell", Description: "Run a command in a workspace"},
		{Server: "github", Name: "update_issue", Writes: true, Held: "changed", Description: "Update an issue"},
	}
}

func crowd() ([]schemas.Status, []schemas.Tool) {
	return []schemas.Status{
		github(),
		{Name: "notes", Kind: schemas.Local, Owner: "other", OwnerName: "other", State: schemas.Needs, Needs: []string{"NOTES_KEY"}},
		{Name: "weather", Kind: schemas.Local, Owner: "alice", State: schemas.Failed, Why: "exited with 1: Error: Cannot find module 'undici'"},
		{Name: "files", Kind: schemas.Local, Owner: "alice", State: schemas.Idle, Tools: 11, Tokens: 1900},
		{Name: "browser", Kind: schemas.Local, Owner: "alice", State: schemas.Starting},
		{Name: "old-thing", Kind: schemas.Local, Owner: "alice", State: schemas.Off},
		{Name: "linear", Kind: schemas.Connector, State: schemas.NeedsConnect, RunsAs: "the one who asks"},
		{Name: "search", Kind: schemas.Admin, State: schemas.Ready, Tools: 3, Tokens: 600},
	}, githubTools()
}
