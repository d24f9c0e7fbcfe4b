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
	"time"

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

func TestConnectOwn(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.offers("my-tools", "search", "fetch")
		theirs, stop := w.bot.Subscribe(thread, "mallory")
		defer stop()
		x := w.own(t.Context(), alice(), "connect_external_mcp", mine)
		r := card(t, ch)
		w.replies = append(w.replies, r)
		want(t, r, "the assistant wants to connect my-tools, for @alice", "1 added: my-tools", "runs: node /workspace/my-mcp-server/index.js",
			"GITHUB_TOKEN (held in memory until bobbin ends", "env: API_BASE_URL="+address, "1) Confirm\n2) Cancel\n3) Show everything")
		if len(w.cfg.Entries) != 0 || w.touched != 0 {
			t.Fatal("something was done before the yes")
		}
		other := hear(t, theirs)
		want(t, other.Reply, "waiting for @alice to let the assistant connect my-tools")
		wantNot(t, other.Reply, address)
		want(t, w.press(mallory(), r, "Confirm"), "only @alice can confirm this change")
		w.press(alice(), r, "Show everything")
		want(t, w.press(alice(), r, "Confirm"), "my-tools is ready")
		got := x.ok(false)
		if got["id"] != "my-tools" || got["state"] != "connected" || fmt.Sprint(got["tools"]) != "[ext_my-tools_search ext_my-tools_fetch]" || got["message"] != "connected: 2 tools" {
			t.Errorf("%v", got)
		}
		if x.res.Tool != "connect_external_mcp" || x.res.RunsAs != "alice" {
			t.Errorf("%+v", x.res)
		}
		e := w.cfg.Entries[0]
		if e.Owner != "alice" || e.Env["API_BASE_URL"] != "${input:API_BASE_URL}" || e.Env["GITHUB_TOKEN"] != "${input:GITHUB_TOKEN}" {
			t.Errorf("%+v", e)
		}
		if len(w.vault) != 2 || len(w.held) != 2 {
			t.Errorf("%d values, %d held", len(w.vault), len(w.held))
		}
		for k, v := range w.vault {
			if k.Member != "alice" || k.Server != "my-tools" || v.Reveal() != map[string]string{"API_BASE_URL": address, "GITHUB_TOKEN": secret}[k.Name] {
				t.Errorf("%+v", k)
			}
		}
		details := ""
		for _, rec := range w.records {
			details += rec.Detail + "\n"
		}
		if !strings.Contains(details, "held until bobbin ends: GITHUB_TOKEN") || w.records[0].Origin != schemas.ByAssistant {
			t.Errorf("%s", details)
		}
		list := w.own(t.Context(), alice(), "list_external_mcp", "").ok(false)
		if s := fmt.Sprint(list); !strings.Contains(s, "API_BASE_URL (not stored)") || !strings.Contains(s, "state:connected") || !strings.Contains(s, "ext_my-tools_fetch") {
			t.Error(s)
		}
		want(t, w.say(alice(), "/mcp secrets list"), "GITHUB_TOKEN | my-tools | its program, until bobbin ends")
		w.restart()
		list = w.own(t.Context(), alice(), "list_external_mcp", "{}").ok(false)
		if s := fmt.Sprint(list); !strings.Contains(s, "API_BASE_URL (not stored)") || !strings.Contains(s, "needs:[API_BASE_URL GITHUB_TOKEN]") || !strings.Contains(s, "state:needs") {
			t.Error(s)
		}
		want(t, w.say(alice(), "/mcp list"), "Give API_BASE_URL, GITHUB_TOKEN")
	})
}

// The same name again is a change of the same server, with one card; values alone are a change, too.
func TestConnectOwn_Again(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.secretIsChange = true
		x := w.own(t.Context(), alice(), "connect_external_mcp", mine)
		w.press(alice(), card(t, ch), "Confirm")
		id := x.ok(false)["id"]
		w.restart()
		x = w.own(t.Context(), alice(), "connect_external_mcp", mine)
		w.press(alice(), card(t, ch), "Confirm")
		if got := x.ok(false); got["id"] != id || got["state"] != "connected" || len(w.cfg.Entries) != 1 || len(w.held) != 2 {
			t.Errorf("%v, %d entries", got, len(w.cfg.Entries))
		}
		x = w.own(t.Context(), alice(), "connect_external_mcp", strings.Replace(mine, "index.js", "other.js", 1))
		r := card(t, ch)
		want(t, r, "1 changed: my-tools", "other.js")
		w.press(alice(), r, "Confirm")
		x.ok(false)
		plain := `{"name":"plain","command":"x"}`
		x = w.own(t.Context(), alice(), "connect_external_mcp", plain)
		w.press(alice(), card(t, ch), "Confirm")
		x.ok(false)
		for len(ch) > 0 {
			<-ch
		}
		if got := w.own(t.Context(), alice(), "connect_external_mcp", plain).ok(false); got["state"] != "connected" || len(ch) != 0 {
			t.Errorf("%v, %d notices", got, len(ch))
		}
	})
}

func TestConnectOwn_Remember(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		x := w.own(t.Context(), alice(), "connect_external_mcp", strings.Replace(mine, `"name"`, `"remember":true,"name"`, 1))
		r := card(t, ch)
		want(t, r, "moved to your vault")
		w.press(alice(), r, "Confirm")
		x.ok(false)
		if len(w.vault) != 2 || len(w.held) != 0 {
			t.Errorf("%d values, %d held", len(w.vault), len(w.held))
		}
		if s := fmt.Sprint(w.own(t.Context(), alice(), "list_external_mcp", "").ok(false)); !strings.Contains(s, "API_BASE_URL (in the vault)") {
			t.Error(s)
		}
	})
}

func TestConnectOwn_EmptyIsAsked(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		x := w.own(t.Context(), alice(), "connect_external_mcp", `{"name":"gh","command":"gh","env":{"GITHUB_TOKEN":"","REF":"${input:OTHER}"}}`)
		w.press(alice(), card(t, ch), "Confirm")
		got := x.ok(false)
		if got["state"] != "needs" || fmt.Sprint(got["needs"]) != "[GITHUB_TOKEN OTHER]" || !strings.Contains(fmt.Sprint(got["message"]), "NOT connected yet") {
			t.Errorf("%v", got)
		}
	})
}

func TestConnectOwn_No(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		x := w.own(t.Context(), alice(), "connect_external_mcp", mine)
		want(t, w.press(alice(), card(t, ch), "Cancel"), "cancelled; nothing was changed")
		x.fails(schemas.CodeDenied, "the member cancelled it")

		x = w.own(t.Context(), alice(), "connect_external_mcp", mine)
		r := card(t, ch)
		began := time.Now()
		x.fails(schemas.CodeExpired, "nobody answered")
		if time.Since(began) != 10*time.Minute {
			t.Error("waited", time.Since(began))
		}
		end := hear(t, ch)
		if end.Reply.Replace != r.ID {
			t.Error("the card is not settled")
		}
		want(t, end.Reply, "nobody answered whether the assistant may connect my-tools")
		wantCode(t, w.press(alice(), r, "Confirm"), schemas.CodeExpired)

		ctx, cancel := context.WithCancel(t.Context())
		x = w.own(ctx, alice(), "connect_external_mcp", mine)
		r = card(t, ch)
		cancel()
		x.fails(schemas.CodeExpired)
		wantCode(t, w.press(alice(), r, "Confirm"), schemas.CodeExpired)
		w.failWith["Commit"] = errors.New("disk full")
		x = w.own(t.Context(), alice(), "connect_external_mcp", mine)
		for len(ch) > 1 {
			<-ch
		}
		w.press(alice(), card(t, ch), "Confirm")
		x.fails(schemas.CodeInternal, "reference")
		w.own(t.Context(), mallory(), "connect_external_mcp", mine).fails(schemas.CodeAsk, "nobody could be asked")
		if len(w.cfg.Entries) != 0 || len(w.vault) != 0 {
			t.Errorf("%+v %v", w.cfg.Entries, w.vault)
		}
	})
}

// A card that is shown anew after a conflict is still the assistant's.
func TestConnectOwn_Conflict(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		x := w.own(t.Context(), alice(), "connect_external_mcp", mine)
		r := card(t, ch)
		w.bump()
		again := w.press(alice(), r, "Confirm")
		wantCode(t, again, schemas.CodeConflict)
		want(t, again, "held in memory until bobbin ends")
		w.press(alice(), again, "Confirm")
		if got := x.ok(false); got["state"] != "connected" {
			t.Errorf("%v", got)
		}
		x = w.own(t.Context(), alice(), "connect_external_mcp", strings.Replace(mine, "node", "bun", 1))
		r = card(t, ch)
		w.bump()
		again = w.press(alice(), r, "Confirm")
		x.fails(schemas.CodeExpired)
		wantCode(t, w.press(alice(), again, "Confirm"), schemas.CodeExpired)
	})
}

func TestConnectOwn_DoesNotStart(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.state["my-tools"] = schemas.Status{State: schemas.Failed, Why: "exited with 1: Error: Cannot find module 'undici'", Stderr: strings.Repeat("noise\n", 2000) + "Error: Cannot find module 'undici'\n"}
		x := w.own(t.Context(), alice(), "connect_external_mcp", mine)
		w.press(alice(), card(t, ch), "Confirm")
		got := x.ok(true)
		if got["message"] != "NOT connected, nothing stored" || !strings.Contains(fmt.Sprint(got["why"]), "exited with 1") || !strings.HasSuffix(fmt.Sprint(got["stderr"]), "'undici'") || len(fmt.Sprint(got["stderr"])) > 2100 {
			t.Errorf("%v", got)
		}
		if len(w.cfg.Entries) != 0 || len(w.vault) != 0 || !slices.Contains(w.forgot, "my-tools") {
			t.Errorf("%+v %v", w.cfg.Entries, w.vault)
		}
		w.have("alice", schemas.Server{Name: "my-tools", Command: "old"})
		x = w.own(t.Context(), alice(), "connect_external_mcp", mine)
		w.press(alice(), card(t, ch), "Confirm")
		if got := x.ok(true); !strings.Contains(fmt.Sprint(got["message"]), "NOT connected") || len(w.cfg.Entries) != 1 {
			t.Errorf("%v", got)
		}
	})
}

func TestConnectOwn_SlowStart(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = w.bot.Run(ctx) })
		defer run.Wait()
		defer cancel()
		synctest.Wait()
		w.slow = 20 * time.Second
		w.state["my-tools"] = schemas.Status{State: schemas.Starting}
		c := alice()
		c.Door = schemas.DoorWeb
		x := w.own(t.Context(), c, "connect_external_mcp", mine)
		want(t, w.press(c, card(t, ch), "Confirm"), "still starting")
		if got := x.ok(false); got["state"] != "connected" {
			t.Errorf("%v", got)
		}
	})
}

func TestConnectOwn_NotAProgram(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.place = schemas.Place{Why: "there is no container engine", Hint: "the operator installs Docker"}
		w.own(t.Context(), alice(), "connect_external_mcp", mine).fails(schemas.CodeMissing, "there is no container engine", "Docker")
	})
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.own(t.Context(), alice(), "connect_external_mcp", mine).fails(schemas.CodeMissing, "cannot be held in memory")
	}, func(o *bot.Options) { o.Memory = nil })
}

func TestDisconnectOwn(t *testing.T) {
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.have("alice", schemas.Server{Name: "my.tools", Command: "x"}, schemas.Tool{Name: "search"})
		w.have("bob", schemas.Server{Name: "bobs", Command: "x", Env: map[string]string{"K": "${input:K}", "MODE": "fast"}})
		w.own(t.Context(), alice(), "disconnect_external_mcp", `{"name":"mytools"}`).fails(schemas.CodeNotFound, "did you mean my.tools?")
		w.own(t.Context(), alice(), "disconnect_external_mcp", `{"name":"bobs"}`).fails(schemas.CodeDenied, "only @bob can change bobs")
		w.own(t.Context(), alice(), "disconnect_external_mcp", `{"name":"bobs","id":"my-tools"}`).fails(schemas.CodeNotFound)
		got := w.own(t.Context(), alice(), "disconnect_external_mcp", `{"id":"my-tools"}`).ok(false)
		if got["state"] != "disconnected" || w.cfg.Entries[0].Enabled || len(w.cfg.Entries) != 2 {
			t.Errorf("%v %+v", got, w.cfg.Entries)
		}
		said := ""
		for len(ch) > 0 {
			said += flat((<-ch).Reply)
		}
		if !strings.Contains(said, "my.tools was switched off by the assistant, for @alice") {
			t.Error(said)
		}
		if got := w.own(t.Context(), alice(), "disconnect_external_mcp", `{"name":"my.tools"}`).ok(false); !strings.Contains(fmt.Sprint(got["message"]), "already") {
			t.Errorf("%v", got)
		}
		if s := fmt.Sprint(w.own(t.Context(), alice(), "list_external_mcp", "").ok(false)); !strings.Contains(s, "state:disconnected") || !strings.Contains(s, "owner:@bob") || !strings.Contains(s, "[K (its owner's) MODE (in the config)]") {
			t.Error(s)
		}
		x := w.own(t.Context(), alice(), "connect_external_mcp", `{"name":"my.tools","command":"x"}`) // off by somebody's wish: it asks
		w.press(alice(), card(t, ch), "Confirm")
		if got := x.ok(false); got["state"] != "connected" || !w.cfg.Entries[0].Enabled {
			t.Errorf("%v", got)
		}
		x = w.own(t.Context(), alice(), "disconnect_external_mcp", `{"id":"my-tools","delete":true}`)
		r := card(t, ch)
		want(t, r, "the assistant wants to remove my.tools", "its values in the vault are deleted")
		if len(w.cfg.Entries) != 2 {
			t.Fatal("removed before the yes")
		}
		w.press(alice(), r, "Confirm")
		if got := x.ok(false); got["state"] != "deleted" || len(w.cfg.Entries) != 1 {
			t.Errorf("%v", got)
		}
	})
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
