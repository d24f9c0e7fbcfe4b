package bot_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

func TestAddJSON_CardThenReady(t *testing.T) {
	w := newWorld(t)
	w.toolsOf["github"] = []schemas.Tool{{Server: "github", Name: "create_issue", Writes: true}, {Server: "github", Name: "read"}}
	card := w.say(alice(), "/mcp add-json "+github())
	want(t, card, "1 added: github · asked by you", "runs: npx -y @modelcontextprotocol/server-github", "NOT isolated",
		"GITHUB_TOKEN (moved to your vault; the config keeps ${input:GITHUB_TOKEN})", "whatever this machine can reach",
		"everyone in this thread can use its tools; calls run as you",
		"This runs a program that somebody else wrote. Confirm only if you trust @modelcontextprotocol/server-github.",
		"1) Confirm\n2) Cancel\n3) Show everything")
	if got := card.Expires.Sub(w.now); got != 10*time.Minute || len(card.ID) != 32 {
		t.Errorf("expires in %v, nonce %q", got, card.ID)
	}
	if w.touched != 0 || len(w.vault) != 0 || len(w.cfg.Entries) != 0 {
		t.Fatalf("before Confirm: touched %d, vault %v, entries %v", w.touched, w.vault, w.cfg.Entries)
	}
	all := w.press(alice(), card, "Show everything")
	want(t, all, "arg 1     -y", "arg 2     @modelcontextprotocol/server-github", "approval  ", "1) Confirm")
	if all.ID != card.ID || !all.Expires.Equal(card.Expires) {
		t.Error("Show everything must leave the same card open")
	}
	done := w.press(alice(), all, "Confirm")
	want(t, done, "github is ready in 1.2 s · 2 tools, about 5,100 tokens · 1 of them writes: I ask before each")
	if done.Replace != card.ID {
		t.Errorf("Replace %q", done.Replace)
	}
	key := schemas.SecretKey{Member: "alice", Thread: thread, Server: "github", Name: "GITHUB_TOKEN", Origin: "local"}
	if w.vault[key].Reveal() != canary {
		t.Error("the secret is not in the vault")
	}
	if es := w.events(); !slices.Equal(es, []schemas.Event{schemas.EventAsked, schemas.EventApprove, schemas.EventSecret, schemas.EventCommit}) {
		t.Errorf("audit %v", es)
	}
	wantCode(t, w.press(alice(), card, "Confirm"), schemas.CodeExpired)
}

func TestAdd_PastedAndDropped(t *testing.T) {
	for name, req := range map[string]bot.Request{
		"pasted":           {Text: github()},
		"fence":            {Text: "```json\n" + github() + "\n```"},
		"mcp without verb": {Text: "/mcp " + github()},
		"several lines":    {Text: "/mcp add-json\n" + strings.ReplaceAll(github(), ",", ",\n")},
		"dropped":          {File: &schemas.File{Name: "claude_desktop_config.json", Data: []byte(github())}},
		"slash command":    {Verb: "add-json", Args: map[string]string{"json": github()}},
		"single with name": {Text: `/mcp add-json github {"command":"npx","env":{"GITHUB_TOKEN":"` + canary + `"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			req.Caller = alice()
			want(t, w.do(req), "1 added: github", "runs: npx")
		})
	}
}

func TestAdd_Form(t *testing.T) {
	w := newWorld(t)
	form := w.say(alice(), "/mcp add")
	if n := len(form.Form.Fields); n != 5 || !form.Private {
		t.Fatalf("%d fields, private %v", n, form.Private)
	}
	card := w.fill(alice(), form, map[string]string{"name": "files", "command": "npx -y", "args": `pkg "two words" a,b 'it''s' C:\Users\x`,
		"env": "A=1=2\n\nexport B=\"x y\"\nGITHUB_TOKEN=" + canary, "cwd": "sub"})
	want(t, card, "1 added: files", `runs: npx -y pkg 'two words' a,b its 'C:\Users\x'`, "folder: sub")
	w.press(alice(), card, "Confirm")
	e, _ := w.cfg.Find("files")
	if !slices.Equal(e.Args, []string{"-y", "pkg", "two words", "a,b", "its", `C:\Users\x`}) {
		t.Errorf("args %q", e.Args)
	}
	if e.Env["A"] != "1=2" || e.Env["B"] != "x y" || e.Env["GITHUB_TOKEN"] != "${input:GITHUB_TOKEN}" {
		t.Errorf("env %q", e.Env)
	}
	bad := w.fill(alice(), w.say(alice(), "/mcp add"), map[string]string{"name": "x", "command": `"open`, "env": "A=1\n" + canary + "\nA=2"})
	want(t, bad, "the form has 3 mistakes; nothing was changed", "env line 2 must be KEY=VALUE", "env line 3 names A a second time", "command: a quote is not closed")
	wantNot(t, bad, canary)
	want(t, w.say(alice(), "/mcp add x uvx some-pkg --flag 'a b'"), "runs: uvx some-pkg --flag 'a b'", "trust some-pkg")
	want(t, w.say(alice(), "/mcp add x https://example.com/mcp"), "remote servers are added with /mcp connect")
	want(t, w.say(alice(), "/mcp add x ghcr.io/x --sse-port 8080"), "the operator's form of add")
}

func TestUpload_Refusals(t *testing.T) {
	w := newWorld(t)
	want(t, w.say(alice(), "/mcp upload"), "no file came with that", "/mcp upload PATH")
	big := w.do(bot.Request{Caller: alice(), File: &schemas.File{Name: "big.json", Data: make([]byte, 300<<10)}})
	want(t, big, "big.json is 300 KiB; at most 256 KiB")
	wantCode(t, big, schemas.CodeTooLarge)
	broken := w.do(bot.Request{Caller: alice(), Text: "/mcp upload mcp.json", File: &schemas.File{Name: "mcp.json", Data: []byte("{")}})
	want(t, broken, "mcp.json has a mistake; nothing was changed", "mcp.json:1:2", "fix it and run /mcp upload mcp.json again")
	want(t, w.say(alice(), `/mcp add-json {"mcpServers":{}}`), "there is no server in that")
}

func TestUpload_MergeAndUnchanged(t *testing.T) {
	w := newWorld(t)
	w.have("alice", schemas.Server{Name: "old", Command: "old"})
	w.have("alice", schemas.Server{Name: "same", Command: "same"})
	card := w.do(bot.Request{Caller: alice(), File: &schemas.File{Name: "mcp.json", Data: []byte(`{"mcpServers":{"same":{"command":"same"},"new":{"command":"new"}}}`)}})
	want(t, card, "1 added: new · 1 unchanged: same", "1 other server stays as it is: old")
	down := w.say(alice(), "/mcp download")
	if !down.Private {
		t.Error("a download is for the requester alone")
	}
	want(t, w.do(bot.Request{Caller: alice(), File: down.Blocks[1].File}), "No changes")
}

func TestUpload_Remote(t *testing.T) {
	w := newWorld(t)
	r := w.say(alice(), `/mcp add-json {"mcpServers":{"linear":{"url":"https://mcp.linear.example/sse"}}}`)
	want(t, r, "linear is remote; remote servers are added with /mcp connect, so that you see who you sign in to",
		"1) Connect https://mcp.linear.example\n2) Leave it")
	want(t, w.press(alice(), r, "Connect"), "connect https://mcp.linear.example? Nothing has been sent to it yet")
	r = w.say(alice(), `/mcp add-json {"mcpServers":{"linear":{"url":"https://mcp.linear.example/sse"},"x":{"command":"x"}}}`)
	want(t, r, "1 added: x", "linear is remote", "4) Connect https://mcp.linear.example")
	w.press(alice(), r, "Connect")
	want(t, w.press(alice(), r, "Cancel"), "cancelled; nothing was changed")
	if w.touched != 0 {
		t.Error("something was contacted")
	}
	r = w.say(alice(), `/mcp add-json {"mcpServers":{"linear":{"url":"https://mcp.linear.example/sse"},"x":{"command":"x"},"y":{"command":"y"}}}`)
	want(t, w.press(alice(), r, "Confirm"), "2 servers: 2 ready", "x is ready", "y is ready",
		"linear is remote, so it is not added yet · /mcp connect https://mcp.linear.example/sse linear")
}

func TestCard_WhoAndWhen(t *testing.T) {
	w := newWorld(t)
	card := w.say(alice(), "/mcp add-json "+github())
	other := w.press(mallory(), card, "Confirm")
	want(t, other, "only @alice can confirm this change, or a manager of the thread")
	wantCode(t, other, schemas.CodeDenied)
	if !other.Private {
		t.Error("a refusal is for the presser alone")
	}
	demoted := alice()
	demoted.Role = schemas.Guest
	wantCode(t, w.press(demoted, card, "Confirm"), schemas.CodeDenied)
	elsewhere := alice()
	elsewhere.Thread = "T2"
	wantCode(t, w.press(elsewhere, card, "Confirm"), schemas.CodeExpired)
	want(t, w.press(boss(), card, "Confirm"), "github is ready")
	if e, _ := w.cfg.Find("github"); e.Owner != "alice" {
		t.Errorf("owner %q: a manager's yes must not take the server over", e.Owner)
	}
	for k := range w.vault {
		if k.Member != "alice" {
			t.Errorf("sealed for %q", k.Member)
		}
	}
	card = w.say(alice(), `/mcp add-json {"mcpServers":{"x":{"command":"x"}}}`)
	w.now = w.now.Add(10 * time.Minute)
	late := w.press(alice(), card, "Confirm")
	wantCode(t, late, schemas.CodeExpired)
	want(t, late, "this card is no longer open", "run the command again")
	if _, ok := w.cfg.Find("x"); ok {
		t.Error("an expired card was confirmed")
	}
}

func TestConfirm_Conflict(t *testing.T) {
	w := newWorld(t)
	card := w.say(alice(), "/mcp add-json "+github())
	w.have("boss", schemas.Server{Name: "other", Command: "o"})
	again := w.press(alice(), card, "Confirm")
	wantCode(t, again, schemas.CodeConflict)
	want(t, again, "this is the change as it would be now", "1 added: github", "1 other server stays as it is: other")
	if len(w.vault) != 0 || w.touched != 0 {
		t.Errorf("vault %v, touched %d after a conflict", w.vault, w.touched)
	}
	// The race inside of Commit takes back what was sealed for it.
	w.failWith["Commit"] = &schemas.Error{Code: schemas.CodeConflict, Text: "stale"}
	third := w.press(alice(), again, "Confirm")
	wantCode(t, third, schemas.CodeConflict)
	if len(w.vault) != 0 {
		t.Errorf("vault %v", w.vault)
	}
	delete(w.failWith, "Commit")
	want(t, w.press(alice(), third, "Confirm"), "github is ready")
}

func TestConfirm_AuditUnwritable(t *testing.T) {
	w := newWorld(t)
	card := w.say(alice(), "/mcp add-json "+github())
	w.failWith["Append"] = schemas.Problems{{Text: "disk full"}}
	r := w.press(alice(), card, "Confirm")
	wantCode(t, r, schemas.CodeInternal)
	want(t, r, "something went wrong on my side, reference ", "the operator can find it in the log. Your config is unchanged")
	wantCode(t, w.say(alice(), "/mcp remove x"), schemas.CodeInternal)
	if len(w.cfg.Entries)+len(w.vault)+w.touched != 0 {
		t.Error("a change without its audit record")
	}
	if !strings.Contains(w.log.String(), "disk full") {
		t.Error("the operator's log lacks the reason")
	}
}

func TestConfirm_NeedsFailedStarting(t *testing.T) {
	w := newWorld(t)
	w.have("boss", schemas.Server{Name: "theirs", Command: "x", Env: map[string]string{"K": "${input:K}"}})
	done := w.press(alice(), w.say(alice(), `/mcp add-json {"mcpServers":{"a":{"command":"a","env":{"K":"${input:K}"}},"b":{"command":"b","env":{"K":"${input:K}"}}}}`), "Confirm")
	want(t, done, "a needs K", "b needs K", "1) Give K")
	wantCode(t, w.press(boss(), done, "Give"), schemas.CodeDenied)
	form := w.press(alice(), done, "Give")
	if f := form.Form.Fields; len(f) != 1 || f[0].Kind != "secret" || f[0].Hint != "for a, b" || !form.Private {
		t.Fatalf("form %+v", form.Form)
	}
	want(t, w.fill(alice(), form, map[string]string{"K": canary}), "K is in your vault", "a is ready", "b is ready")
	if len(w.vault) != 2 {
		t.Errorf("sealed for %d servers: %v", len(w.vault), w.vault)
	}
	want(t, w.say(alice(), "/mcp list"), "theirs | needs K |  | @boss | ask @boss to give it")
	w.state["a"] = schemas.Status{State: schemas.Failed, Why: "exited with 1: Error: Cannot find module 'undici'"}
	want(t, w.say(alice(), "/mcp reload a"), "a failed: exited with 1: Error: Cannot find module 'undici' · /mcp doctor a")
	// What refused the start names the next step; the command is not to blame.
	w.state["a"] = schemas.Status{State: schemas.Failed, Why: "the container engine has no image x; build it", Fix: "build it: bobbin sandbox build"}
	r := w.say(alice(), "/mcp doctor a")
	want(t, r, "a failed: the container engine has no image x", "next: build it: bobbin sandbox build, then /mcp reload a")
	wantNot(t, r, "standard input", "/mcp edit a")
	w.state["a"] = schemas.Status{State: schemas.Starting}
	want(t, w.say(alice(), "/mcp reload a"), "a is still starting")
}

func TestCard_UntrustedText(t *testing.T) {
	w := newWorld(t)
	args := `["-c","a` + "`" + `b","x\u202ey","line1\nline2","` + strings.Repeat("z", 900) + `TAIL"]`
	card := w.say(alice(), `/mcp add-json {"mcpServers":{"evil":{"command":"sh","args":`+args+`}}}`)
	for _, b := range card.Blocks {
		if b.Text+b.Warning != "" && strings.Contains(b.Text+b.Warning, "a`b") {
			t.Error("a backtick of a server breaks a span")
		}
	}
	want(t, card, `\x60`, `\u202e`, `line1\nline2`, "more characters", "cut here; Show everything has it whole")
	wantNot(t, card, "\u202e", "line1\nline2")
	want(t, w.press(alice(), card, "Show everything"), "zzTAIL", "arg 5     zzz", `arg 3     "x\u202ey"`)
}

func TestPlace_Unavailable(t *testing.T) {
	w := newWorld(t)
	w.place = schemas.Place{Why: "no container engine answers", Hint: "the operator can start Docker"}
	r := w.say(alice(), "/mcp add-json "+github())
	want(t, r, "local servers cannot run here: no container engine answers", "the operator can start Docker")
	wantCode(t, r, schemas.CodeMissing)
}

// A value that is replaced while the definition stays needs a new process: Apply alone would leave the old value running.
func TestConfirm_RotatedValueRestarts(t *testing.T) {
	w := newWorld(t)
	w.press(alice(), w.say(alice(), "/mcp add-json "+github()), "Confirm")
	w.secretIsChange = true
	card := w.say(alice(), "/mcp add-json "+strings.Replace(github(), canary, "ghp_new", 1))
	want(t, card, "1 changed: github", "changed: secret")
	want(t, w.press(alice(), card, "Confirm"), "github is ready")
	if w.restarts != 1 {
		t.Errorf("restarts %d", w.restarts)
	}
}

func TestProposal_NeedsInVault(t *testing.T) {
	w := newWorld(t)
	w.press(alice(), w.say(alice(), "/mcp add-json "+github()), "Confirm")
	same := strings.Replace(github(), canary, "${input:GITHUB_TOKEN}", 1)
	wantNot(t, w.say(alice(), "/mcp add-json "+strings.Replace(same, "-y", "-q", 1)), "needs")
	want(t, w.say(alice(), "/mcp add-json "+strings.Replace(same, `"github"`, `"gh2"`, 1)), "needs: GITHUB_TOKEN (asked for after Confirm)")
}

func TestCard_UnknownChoice(t *testing.T) {
	w := newWorld(t)
	card := w.say(alice(), "/mcp add-json "+github())
	r := w.do(bot.Request{Caller: alice(), Action: &bot.Action{ID: card.ID, Choice: "nonsense"}})
	want(t, r, "that is no choice of this card")
	want(t, w.press(alice(), card, "Confirm"), "github is ready")
}

// Of many who press at once, one confirms.
func TestCard_PressedAtOnce(t *testing.T) {
	w := newWorld(t)
	card := w.say(alice(), "/mcp add-json "+github())
	var wg sync.WaitGroup
	replies := make([]bot.Reply, 16)
	for i := range replies {
		wg.Go(func() {
			replies[i] = w.bot.Handle(t.Context(), bot.Request{Caller: alice(), Action: &bot.Action{ID: card.ID, Choice: "confirm"}})
		})
	}
	wg.Wait()
	n := 0
	for _, r := range replies {
		if !r.Bad {
			n++
		}
	}
	if n != 1 || len(w.revs) != 1 {
		t.Errorf("%d confirmed, %d revisions", n, len(w.revs))
	}
}

// A conflict that can be seen beforehand must not cost the value that is in the vault.
func TestConfirm_ConflictKeepsOldValue(t *testing.T) {
	w := newWorld(t)
	w.press(alice(), w.say(alice(), "/mcp add-json "+github()), "Confirm")
	card := w.say(alice(), "/mcp add-json "+strings.Replace(strings.Replace(github(), canary, "ghp_new", 1), "-y", "-q", 1))
	w.have("boss", schemas.Server{Name: "other", Command: "o"})
	wantCode(t, w.press(alice(), card, "Confirm"), schemas.CodeConflict)
	for _, v := range w.vault {
		if v.Reveal() != canary {
			t.Error("the old value is gone")
		}
	}
}

// KEY= of the form is an empty value given on purpose; in a pasted config it is a value to fill in.
func TestAdd_EmptyValue(t *testing.T) {
	w := newWorld(t)
	form := w.say(alice(), "/mcp add")
	card := w.fill(alice(), form, map[string]string{"name": "x", "command": "npx", "args": "thing", "env": "EMPTY=\nA=b"})
	wantNot(t, card, "${input:EMPTY}", "needs")
	want(t, w.press(alice(), card, "Confirm"), "x is ready")
	e, _ := w.cfg.Find("x")
	if v, ok := e.Env["EMPTY"]; !ok || v != "" || e.Env["A"] != "b" || len(w.cfg.Inputs) != 0 {
		t.Errorf("%+v %+v", e.Env, w.cfg.Inputs)
	}
	want(t, w.press(alice(), w.say(alice(), `/mcp add-json {"mcpServers":{"y":{"command":"npx","env":{"EMPTY":""}}}}`), "Confirm"), "y needs EMPTY")
}

func TestWords_OfMistakes(t *testing.T) {
	w := newWorld(t)
	r := w.do(bot.Request{Caller: alice(), Verb: "upload", File: &schemas.File{Name: "mcp.json", Data: []byte("{")}})
	want(t, r, "mcp.json has a mistake", "fix it and run /mcp upload mcp.json again")
	r = w.say(alice(), "/mcp secrets set NOTHING_USES")
	want(t, r, "there is no server of yours that uses that name · /mcp list")
	wantNot(t, r, "  ")
	w.place = schemas.Place{Why: "local servers are switched off here", Hint: "start bobbin with --sandbox process"}
	for _, r := range []bot.Reply{w.say(alice(), "/mcp add x npx thing"), w.say(alice(), "/mcp doctor")} {
		want(t, r, "local servers are switched off here · start bobbin with --sandbox process")
		wantNot(t, r, "cannot run here")
	}
}
