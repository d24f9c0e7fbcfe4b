package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"bobbin/bot"
	"bobbin/schemas"
)

// secret is a value that looks like one; address one that does not.
const (
	secret  = "ghp_owncanary0123456789abcdefghijkl"
	address = "https://canary.example/base"
)

// call is a tool's call while it waits.
type call struct {
	t   *testing.T
	res schemas.Result
	err error
	wg  sync.WaitGroup
}

// own lets the assistant call one of its own tools for a member.
func (w *world) own(ctx context.Context, c schemas.Caller, name, args string) *call {
	return w.ownAfter(ctx, c, name, args)
}

// ownAfter is own after words of servers.
func (w *world) ownAfter(ctx context.Context, c schemas.Caller, name, args string, wary ...string) *call {
	x := &call{t: w.t}
	x.wg.Go(func() {
		x.res, x.err = w.bot.CallOwn(ctx, schemas.Call{Caller: c, Tool: name, Args: json.RawMessage(args), Wary: wary, Waiting: w.waiting})
	})
	synctest.Wait()
	return x
}

// ok waits for the result and reads it.
func (x *call) ok(failed bool) map[string]any {
	x.t.Helper()
	x.wg.Wait()
	if x.err != nil || x.res.IsError != failed {
		x.t.Fatalf("%v, IsError %v: %s", x.err, x.res.IsError, x.res.Raw)
	}
	var raw struct {
		Content           []struct{ Type, Text string }
		StructuredContent map[string]any
		IsError           bool
	}
	if err := json.Unmarshal(x.res.Raw, &raw); err != nil || raw.IsError != failed || len(raw.Content) != 1 || raw.Content[0].Type != "text" {
		x.t.Fatalf("%v: %s", err, x.res.Raw)
	}
	return raw.StructuredContent
}

func (x *call) fails(code schemas.Code, words ...string) {
	x.t.Helper()
	x.wg.Wait()
	e, is := errors.AsType[*schemas.Error](x.err)
	if !is || e.Code != code {
		x.t.Fatalf("%v %s, want %s", x.err, x.res.Raw, code)
	}
	for _, s := range words {
		if !strings.Contains(e.Text+" · "+e.Hint, s) {
			x.t.Errorf("lacks %q: %s · %s", s, e.Text, e.Hint)
		}
	}
}

// assisted runs a story with the caller's own ear, and looks at its end for values where none may be.
func assisted(t *testing.T, story func(t *testing.T, w *world, ch <-chan bot.Notice), change ...func(*bot.Options)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change...)
		w.t = t
		ch, stop := w.bot.Subscribe(thread, "alice")
		defer stop()
		story(t, w, ch)
		w.clean()
	})
}

// clean looks through all that is written anywhere for values.
func (w *world) clean() {
	w.t.Helper()
	files, err := json.Marshal([]any{w.cfg, w.revs, w.records})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range []string{secret, address} {
		if strings.Contains(string(files)+w.log.String(), v) {
			w.t.Errorf("%s is written down:\n%s\n%s", v, files, w.log.String())
		}
	}
	for _, r := range w.replies {
		if js, _ := json.Marshal(r); strings.Contains(string(js), secret) {
			w.t.Errorf("a secret is in a reply:\n%s", flat(r))
		}
	}
}

// card is the newest card of a channel; what is no card is passed over.
func card(t *testing.T, ch <-chan bot.Notice) bot.Reply {
	t.Helper()
	for {
		if n := hear(t, ch); len(n.Reply.Choices) > 0 {
			return n.Reply
		}
	}
}

func (w *world) offers(server string, names ...string) {
	for _, n := range names {
		w.toolsOf[server] = append(w.toolsOf[server], schemas.Tool{Server: server, Name: n, Kind: schemas.Local, Model: "ext_" + server + "_" + n, Pin: n})
	}
}

const mine = `{"name":"my-tools","command":"node","args":["/workspace/my-mcp-server/index.js"],"env":{"API_BASE_URL":"` + address + `","GITHUB_TOKEN":"` + secret + `"}}`

func TestOwnTools(t *testing.T) {
	w := newWorld(t)
	var names []string
	for _, x := range w.bot.OwnTools(t.Context(), alice()) {
		names = append(names, x.Name)
		var schema, whole struct {
			Type, Name, Title    string
			AdditionalProperties *bool
			Properties           map[string]any
			Annotations          struct{ ReadOnlyHint *bool }
		}
		if json.Unmarshal(x.Input, &schema) != nil || json.Unmarshal(x.Raw, &whole) != nil || schema.Type != "object" || schema.AdditionalProperties == nil || *schema.AdditionalProperties {
			t.Errorf("%s: %s", x.Name, x.Input)
		}
		if whole.Name != x.Name || whole.Title == "" || whole.Annotations.ReadOnlyHint == nil || *whole.Annotations.ReadOnlyHint != x.ReadOnly || x.Model != x.Name || x.Description == "" || x.Tokens == 0 {
			t.Errorf("%+v", x)
		}
		for _, who := range []string{"member", "thread", "caller", "user", "owner"} {
			if schema.Properties[who] != nil {
				t.Errorf("%s can name a %s", x.Name, who)
			}
		}
	}
	if want := []string{"connect_external_mcp", "list_external_mcp", "disconnect_external_mcp", "auto_install_and_connect_mcp"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	w = newWorld(t, func(o *bot.Options) { o.Sandboxes = &boxes{} })
	if all := w.bot.OwnTools(t.Context(), alice()); len(all) != 5 || all[4].Name != "sandbox_shell_exec" {
		t.Error("no shell where there are sandboxes")
	}
	if len(w.bot.OwnTools(t.Context(), guest())) != 0 {
		t.Error("a guest has tools")
	}
}

// The examples of the guide validate as they stand: what refuses them comes after the schema.
func TestCallOwn_Examples(t *testing.T) {
	for name, args := range map[string]string{
		"auto_install_and_connect_mcp": `{"name": "my-tools", "install": { "type": "npm", "spec": "@acme/my-mcp-server" }, "start": { "command": "node", "args": ["/workspace/external-mcp/my-tools/server.js"] }, "env": { "API_BASE_URL": "https://example.com" }}`,
		"sandbox_shell_exec":           `{"command": "pwd && ls -la", "cwd": "/workspace"}`,
		"connect_external_mcp":         `{"name": "my-tools", "command": "node", "args": ["/workspace/my-mcp-server/index.js"], "env": {}}`,
		"list_external_mcp":            ``,
		"disconnect_external_mcp":      `{"name":"nobody"}`,
	} {
		t.Run(name, func(t *testing.T) {
			assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				x := w.own(ctx, alice(), name, args)
				cancel()
				x.wg.Wait()
				if schemas.CodeOf(x.err) == schemas.CodeInvalid {
					t.Error(x.err)
				}
			}, func(o *bot.Options) { o.Sandboxes = &boxes{} })
		})
	}
}

func TestCallOwn_BadArguments(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		for _, c := range []struct{ name, args, want string }{
			{"connect_external_mcp", `{"name":"x"}`, "command is missing"},
			{"connect_external_mcp", `{"name":"x","command":"y","member":"boss"}`, "member"},
			{"connect_external_mcp", `{"name":"x","command":"y","thread":"T2"}`, "thread"},
			{"connect_external_mcp", `{"name":"x","command":"y","args":"z"}`, "args: "},
			{"connect_external_mcp", `{"name":"x","command":"y","env":{"A B":"` + secret + `"}}`, "letters, digits and _"},
			{"connect_external_mcp", `{"name":"x","command":"y","env":{"A":["` + secret + `"]}}`, "env.A: "},
			{"connect_external_mcp", `{"name":"x","command":"y","env":{"A":"` + address + ` ${input:B}"}}`, "env A: "},
			{"connect_external_mcp", `{"name":"x","command":"y","ENV":{"A":"` + secret + `"}}`, "ENV"},
			{"connect_external_mcp", `["x"]`, "object"},
			{"connect_external_mcp", `{"name":`, "no JSON object"},
			{"connect_external_mcp", `{"name":"x","command":"y"}{}`, "no JSON object"},
			{"auto_install_and_connect_mcp", `{"name":"x","install":{"type":"cargo","spec":"y"}}`, "install.type: must be npm, git or pip"},
			{"auto_install_and_connect_mcp", `{"name":"x","install":{"type":"npm"}}`, "install: spec is missing"},
			{"disconnect_external_mcp", `{}`, "id or name is missing"},
			{"list_external_mcp", `{"member":"boss"}`, "member"},
			{"sandbox_shell_exec", `{}`, "command is missing"},
		} {
			x := w.own(t.Context(), alice(), c.name, c.args)
			x.fails(schemas.CodeInvalid, c.want)
			if strings.Contains(x.err.Error(), secret) {
				t.Errorf("a value is in the error: %v", x.err)
			}
		}
		w.own(t.Context(), alice(), "conect_external_mcp", `{}`).fails(schemas.CodeNotFound, "did you mean connect_external_mcp?")
		w.own(t.Context(), guest(), "list_external_mcp", `{}`).fails(schemas.CodeDenied)
		w.own(t.Context(), alice(), "connect_external_mcp", `{"name":"x","command":"y","args":["`+strings.Repeat("x", 300<<10)+`"]}`).fails(schemas.CodeTooLarge)
		if len(ch) != 0 || w.touched != 0 || len(w.records) != 1 {
			t.Errorf("%d cards, %d touched, %v", len(ch), w.touched, w.events())
		}
	}, func(o *bot.Options) { o.Sandboxes = &boxes{} })
}

func TestMasked(t *testing.T) {
	got := string((*bot.Bot)(nil).Masked("connect_external_mcp", json.RawMessage(mine)))
	if strings.Contains(got, secret) || strings.Contains(got, address) || !strings.Contains(got, `"API_BASE_URL":"***"`) || !strings.Contains(got, "index.js") {
		t.Error(got)
	}
	for name, args := range map[string]string{"connect_external_mcp": mine, "conect_external_mcp": mine} {
		if s := string((*bot.Bot)(nil).Masked(name, json.RawMessage(args))); s != got {
			t.Errorf("%s: %s", name, s)
		}
	}
	if s := string((*bot.Bot)(nil).Masked("ext_notes_add", json.RawMessage(`{"env":"x", "b":1}`))); s != `{"env":"x", "b":1}` {
		t.Error(s)
	}
	for _, odd := range []string{`{"env":["` + secret + `"]}`, `["` + secret + `"]`, `{"env":"` + secret + `"}`, `{"env":{"A":{"b":"` + secret + `"}}}`, `{"ENV":{"A":"` + secret + `"}}`, `{"\u0065nv":{"A":"` + secret + `"}}`, ``} {
		if s := string((*bot.Bot)(nil).Masked("x", json.RawMessage(odd))); strings.Contains(s, secret) && odd[0] == '{' {
			t.Error(s)
		}
	}
}

// The step of an answer waits for as long as its card does, and runs again from the press on.
func TestCallOwn_TellsWhoIsWaitedFor(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.offers("my-tools", "search")
		var told []string
		w.waiting = func(why string) { told = append(told, fmt.Sprintf("%s|%d", why, w.touched)) }
		theirs, stop := w.bot.Subscribe(thread, "mallory")
		defer stop()
		x := w.own(t.Context(), alice(), "connect_external_mcp", mine)
		r := card(t, ch)
		w.replies = append(w.replies, r)
		w.press(alice(), r, "Show everything")
		const waits = "waits for @alice to let the assistant connect my-tools|0"
		if !slices.Equal(told, []string{waits}) {
			t.Errorf("while the card is open: %q", told)
		}
		if len(theirs) != 0 {
			t.Error("the others see it on the answer, and need no line besides")
		}
		w.press(alice(), r, "Confirm")
		x.ok(false)
		if len(told) < 2 || told[1] != "|0" || strings.Contains(strings.Join(told[1:], ""), "waits") {
			t.Errorf("after the press: %q", told)
		}
	})
}
