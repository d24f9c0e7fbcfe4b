package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/host"
	"bobbin/schemas"
)

// canary is what may stand in no file.
const canary = "canary-value-of-env-4711"

func TestMain(m *testing.M) {
	if os.Getenv("HOST_TEST_SERVER") != "" {
		serve()
		return
	}
	os.Exit(m.Run())
}

// serve is an MCP server with two tools: one says what its environment holds, one has the thread's model sum something up.
func serve() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var q struct {
			ID     json.RawMessage
			Method string
			Params struct{ ProtocolVersion, Name string }
		}
		if json.Unmarshal(in.Bytes(), &q) != nil || q.ID == nil {
			continue
		}
		result := "{}"
		switch q.Method {
		case "initialize":
			result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"demo","version":"1"}}`, q.Params.ProtocolVersion)
		case "tools/list":
			result = `{"tools":[{"name":"size","description":"Says how long the value is.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
				{"name":"words","description":"Sums up.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
			result = strings.Join(strings.Fields(result), " ")
		case "tools/call":
			if q.Params.Name == "words" {
				fmt.Println(`{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"sum this up"}}],"maxTokens":20}}`)
				if !in.Scan() {
					return
				}
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`+"\n", q.ID, in.Text())
				continue
			}
			result = fmt.Sprintf(`{"content":[{"type":"text","text":"%d characters"}]}`, len(os.Getenv("API_BASE_URL")))
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", q.ID, result)
	}
}

// An assistant's value reaches the program and no file; after a restart the server says what it needs, and disconnected it stays off.
func TestOwnTools_ValuesAreInMemoryAlone(t *testing.T) {
	data := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(story func(ctx context.Context, h *host.Host, own func(name, args string) string)) {
		t.Helper()
		h, err := host.Open(t.Context(), host.Options{Data: data, Sandbox: "process"})
		if err != nil {
			t.Fatal(err)
		}
		err = h.Run(t.Context(), func(ctx context.Context) error {
			story(ctx, h, func(name, args string) string {
				t.Helper()
				res, err := h.Bot.CallOwn(ctx, schemas.Call{Caller: alice, Tool: name, Args: json.RawMessage(args)})
				if err != nil || res.IsError {
					t.Fatalf("%v %s", err, res.Raw)
				}
				return string(res.Raw)
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	has := func(text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("lacks %q: %s", w, text)
			}
		}
	}
	args, err := json.Marshal(map[string]any{"name": "demo", "command": exe, "env": map[string]string{"API_BASE_URL": canary, "HOST_TEST_SERVER": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	run(func(ctx context.Context, h *host.Host, own func(name, args string) string) {
		has(confirmed(ctx, t, h, func() string { return own("connect_external_mcp", string(args)) }), `\"state\":\"connected\"`, "ext_demo_size")
		res, err := h.Registry.Call(ctx, schemas.Call{Caller: alice, Origin: schemas.ByAssistant, Tool: "ext_demo_size"})
		if err != nil || !strings.Contains(string(res.Raw), fmt.Sprint(len(canary), " characters")) {
			t.Errorf("%v %s", err, res.Raw)
		}
		has(own("list_external_mcp", ""), "API_BASE_URL (not stored)")
	})
	run(func(_ context.Context, _ *host.Host, own func(name, args string) string) {
		has(own("list_external_mcp", ""), `\"state\":\"needs\"`, "API_BASE_URL (not stored)", `\"needs\":[\"API_BASE_URL\"`)
		has(own("disconnect_external_mcp", `{"id":"demo"}`), "disconnected")
	})
	run(func(ctx context.Context, h *host.Host, own func(name, args string) string) {
		has(own("list_external_mcp", ""), "disconnected")
		has(confirmed(ctx, t, h, func() string { return own("connect_external_mcp", string(args)) }), `\"state\":\"connected\"`)
		has(confirmed(ctx, t, h, func() string { return own("disconnect_external_mcp", `{"name":"demo","delete":true}`) }), "deleted")
		has(own("list_external_mcp", ""), `\"connections\":[]`)
	})
	files := 0
	err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), canary) {
			t.Errorf("%s holds the value", path)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
}

// confirmed calls a tool and says yes to its card.
func confirmed(ctx context.Context, t *testing.T, h *host.Host, call func() string) string {
	t.Helper()
	ch, stop := h.Bot.Subscribe(alice.Thread, alice.Member)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() {
		late := time.After(20 * time.Second)
		for {
			select {
			case n, ok := <-ch:
				if !ok {
					return
				}
				if len(n.Reply.Choices) > 0 && n.Reply.Choices[0].Key == "confirm" {
					h.Bot.Handle(ctx, bot.Request{Caller: alice, Action: &bot.Action{ID: n.Reply.ID, Choice: n.Reply.Choices[0].Key}})
				}
			case <-late:
				return
			}
		}
	})
	return call()
}
