package bot_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

func TestShellOwn(t *testing.T) {
	box := &boxes{result: schemas.Executed{Code: 3, Stdout: "out\n" + strings.Repeat("x", 40<<10), Stderr: "bad\x1b[31m"}}
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		run := `{"command":"echo \u202ehi && pwd","cwd":"external-mcp/notes"}`
		w.own(t.Context(), alice(), "sandbox_shell_exec", run).fails(schemas.CodeDenied, "SHELL_PERMISSION_DENIED", "/mcp sandbox grant alice 1h")
		if len(ch) != 0 {
			t.Error("a card without the permission")
		}
		w.say(boss(), "/mcp sandbox grant alice 30m")
		w.own(t.Context(), alice(), "sandbox_shell_exec", `{"command":"ls","cwd":"../etc"}`).fails(schemas.CodeInvalid, "under /workspace")
		x := w.own(t.Context(), alice(), "sandbox_shell_exec", run)
		r := card(t, ch)
		want(t, r, "the assistant wants to run a command in your sandbox", `echo \u{202e}hi && pwd`, "folder: /workspace/external-mcp/notes", "1) Once")
		want(t, w.press(boss(), r, "Once"), "only @alice can answer this")
		want(t, w.press(mallory(), r, "Once"), "only @alice can answer this")
		if len(box.ran) != 0 {
			t.Fatal("it ran before the yes")
		}
		w.press(alice(), r, "Once")
		got := x.ok(true)
		if got["exitCode"] != 3.0 || got["truncated"] != true || got["timedOut"] != false || got["cwd"] != "/workspace/external-mcp/notes" || strings.Contains(fmt.Sprint(got["stderr"]), "\x1b") || len(x.res.Raw) > 80<<10 {
			t.Errorf("%d %.300s", len(x.res.Raw), x.res.Raw)
		}
		if e := box.ran[0]; e.Member != "alice" || e.Thread != thread || e.Dir != "/workspace/external-mcp/notes" || e.Args[2] != "echo \u202ehi && pwd" {
			t.Errorf("%+v", e)
		}
		x = w.own(t.Context(), alice(), "sandbox_shell_exec", `{"command":"rm -rf /"}`)
		w.press(alice(), card(t, ch), "Deny")
		x.fails(schemas.CodeDenied, "did not run")
		x = w.own(t.Context(), alice(), "sandbox_shell_exec", `{"command":"slow to answer"}`)
		r = card(t, ch)
		w.now = w.now.Add(9 * time.Minute)
		w.say(boss(), "/mcp sandbox revoke alice")
		w.press(alice(), r, "Once")
		x.fails(schemas.CodeDenied, "SHELL_PERMISSION_DENIED")
		if len(box.ran) != 1 {
			t.Errorf("%d commands ran", len(box.ran))
		}
	}, func(o *bot.Options) { o.Sandboxes = box })
}

// A rule lets commands run without a card, and denies them with one.
func TestShellOwn_Rules(t *testing.T) {
	box := &boxes{}
	assisted(t, func(t *testing.T, w *world, ch <-chan bot.Notice) {
		w.say(boss(), "/mcp sandbox grant alice")
		w.cfg.Policy.Thread.Allow = []string{"bobbin.sandbox_shell_exec"}
		if got := w.own(t.Context(), alice(), "sandbox_shell_exec", `{"command":"pwd"}`).ok(false); got["cwd"] != "/workspace" || len(box.ran) != 1 {
			t.Errorf("%v", got)
		}
		w.cfg.Policy.Thread.Deny = []string{"bobbin.*"}
		w.own(t.Context(), alice(), "sandbox_shell_exec", `{"command":"pwd"}`).fails(schemas.CodeDenied, "a rule of this thread denies it")
		w.own(t.Context(), mallory(), "sandbox_shell_exec", `{"command":"pwd"}`).fails(schemas.CodeDenied, "SHELL_PERMISSION_DENIED")
		if len(box.ran) != 1 {
			t.Errorf("%d commands ran", len(box.ran))
		}
	}, func(o *bot.Options) { o.Sandboxes = box })
}
