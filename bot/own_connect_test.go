package bot_test

import (
	"context"
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
