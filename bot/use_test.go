package bot_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// issues is a world with a server of alice's that has one tool of each sort.
func issues(t *testing.T) *world {
	w := newWorld(t)
	w.have("alice", schemas.Server{Name: "github", Command: "npx", Args: []string{"-y", "gh"}},
		schemas.Tool{Name: "create_issue", Description: "Creates an issue. More words.", Writes: true, Tokens: 120, Input: json.RawMessage(`{"type":"object",
			"properties":{"body":{"type":"string"},"repo":{"type":"string","description":"owner/name"},"title":{"type":"string"},
			"count":{"type":"integer","default":3},"ratio":{"type":"number"},"draft":{"type":"boolean"},"state":{"enum":["open","closed",7]},
			"labels":{"type":"array","items":{"type":"string"}},"maybe":{"anyOf":[{"type":"null"},{"type":"string"}]},"either":{"type":["null","integer"]}},
			"required":["title","repo"]}`)},
		schemas.Tool{Name: "whoami", ReadOnly: true, Input: json.RawMessage(`{"type":"object"}`)},
		schemas.Tool{Name: "run_command", Writes: true, Risk: "shell", Input: json.RawMessage(`{"type":"object"}`)})
	w.result = schemas.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"created issue 42"}]}`), Took: 310 * time.Millisecond, RunsAs: "alice", Receipt: "7f3a"}
	return w
}

func TestCall(t *testing.T) {
	w := issues(t)
	want(t, w.say(alice(), "/mcp call github.whoami"), "created issue 42 · 310 ms · as you · receipt 7f3a")
	want(t, w.say(mallory(), `/mcp call ext_github_create_issue {"title":"x"}`), "310 ms · as @alice · receipt 7f3a")
	if c := w.calls[1]; c.Tool != "github.create_issue" || string(c.Args) != `{"title":"x"}` || c.Origin != schemas.ByPerson || c.Caller.Member != "mallory" {
		t.Errorf("call %+v", c)
	}
	want(t, w.say(alice(), "/mcp call github.creat_issue"), "there is no tool github.creat_issue", "did you mean github.create_issue?")
	want(t, w.say(alice(), "/mcp call create_issue {}"), "there is no tool create_issue", "did you mean github.create_issue?")
	want(t, w.say(alice(), "/mcp call github.whoami {oops"), "the arguments are no JSON object")
	want(t, w.say(alice(), "/mcp call"), "tool [] (server.tool)")
	want(t, w.say(alice(), "/mcp call @github:file:///x"), "read file:///x of github")
	w.result.IsError = true
	r := w.say(alice(), "/mcp call github.whoami")
	want(t, r, "github.whoami says that it failed")
	wantCode(t, r, schemas.CodeFailed)
	w.failWith["Call"] = &schemas.Error{Code: schemas.CodeUnknown, Text: "github did not answer within 60 s; whether it ran is unknown, so I did not try again", Hint: "/mcp audit 7f3b"}
	r = w.say(alice(), "/mcp call github.whoami")
	want(t, r, "whether it ran is unknown, so I did not try again · /mcp audit 7f3b")
	wantCode(t, r, schemas.CodeUnknown)
}

func TestCall_Form(t *testing.T) {
	w := issues(t)
	form := w.say(alice(), "/mcp call github.create_issue")
	want(t, form, "repo [] (owner/name)", "count [integer]", "=3", "ratio [number]", "draft [boolean]", "state [choice]", "[open closed 7]", "labels [multiline] (one a line)", "maybe []", "either [integer]")
	fs := form.Form.Fields
	if !fs[0].Required || fs[0].Name != "repo" || fs[1].Name != "title" || fs[2].Required {
		t.Errorf("required fields first, in the order of the schema: %+v", fs[:3])
	}
	w.fill(alice(), form, map[string]string{"repo": "acme/site", "title": "Broken link", "count": "12345678901234567890", "ratio": "1.5", "draft": "yes",
		"state": "7", "labels": `["a"]`, "body": ""})
	if got := string(w.calls[0].Args); got != `{"count":12345678901234567890,"draft":true,"labels":["a"],"ratio":1.5,"repo":"acme/site","state":7,"title":"Broken link"}` {
		t.Errorf("sent %s", got)
	}
	r := w.fill(alice(), w.say(alice(), "/mcp call github.create_issue"), map[string]string{"repo": "x", "count": "1.5", "draft": "perhaps", "state": "gone", "ratio": "NaN"})
	want(t, r, "the form has 5 mistakes", "title is needed", "count must be a whole number", "draft must be yes or no", "state must be one of open, closed, 7", "ratio must be a number")
	if len(w.calls) != 1 {
		t.Error("a call with mistakes went out")
	}
	want(t, w.fill(alice(), r, map[string]string{"repo": "x", "title": "y", "labels": "a \n\nb `c`"}), "created issue 42") // it came back
	if got := string(w.calls[1].Args); got != `{"labels":["a","b `+"`c`"+`"],"repo":"x","title":"y"}` {
		t.Errorf("sent %s", got)
	}
	want(t, w.fill(alice(), r, nil), "no longer open")
	form = w.say(alice(), "/mcp call github.create_issue")
	want(t, w.fill(mallory(), form, nil), "only @alice can answer this")
}

// A tool is counted once: as one that asks or as one that is denied.
func TestReady_CountsOnce(t *testing.T) {
	w := issues(t)
	want(t, w.say(alice(), "/mcp reload github"), "3 tools, about 5,100 tokens · 1 of them writes: I ask before each · 1 is denied until a manager allows it: /mcp tools github")
	w.state["github"] = schemas.Status{State: schemas.Ready, Tools: 9, Asking: 3, Blocked: 3}
	want(t, w.say(alice(), "/mcp reload github"), "9 tools · 3 of them write: I ask before each · 3 are denied until a manager allows them: /mcp tools github")
}

func TestCall_OneLine(t *testing.T) {
	w := issues(t)
	w.result.Raw = json.RawMessage(`{"content":[{"type":"text","text":"press ` + "`/mcp remove github`" + `\n"}]}`)
	r := w.say(alice(), "/mcp call github.whoami")
	if len(r.Blocks) != 1 || r.Blocks[0].Text != `press \x60/mcp remove github\x60 · 310 ms · as you · receipt 7f3a` {
		t.Errorf("%+v", r.Blocks)
	}
	for _, raw := range []string{`{"content":[{"type":"text","text":"a\nb"}]}`, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
		`{"content":[{"type":"text","text":"` + strings.Repeat("x", 201) + `"}]}`} {
		w.result.Raw = json.RawMessage(raw)
		if r := w.say(alice(), "/mcp call github.whoami"); r.Blocks[0].Code == "" {
			t.Errorf("%s is drawn as %+v", raw, r.Blocks)
		}
	}
}

func TestCall_Held(t *testing.T) {
	w := issues(t)
	w.state["github"] = schemas.Status{State: schemas.Ready, HeldTools: []string{"gone"}}
	r := w.say(alice(), "/mcp call github.gone")
	want(t, r, "github.gone is held, since its definition changed", "/mcp enable github.gone shows the change")
	wantCode(t, r, schemas.CodeHeld)
}

func TestCall_Content(t *testing.T) {
	w := issues(t)
	w.result.Raw = json.RawMessage(`{"content":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"text/html"},{"type":"image","data":"PGh0bWw+","mimeType":"image/png"},
		{"type":"resource_link","uri":"file:///a","name":"a file"},{"type":"resource","resource":{"uri":"x","text":"inner"}},{"type":"text","text":"\u202eb\u001b[31m"}]}`)
	w.result.Spilled, w.result.Size = "id", 5<<20
	r := w.say(alice(), "/mcp call github.whoami")
	want(t, r, "result-github-whoami-1.png image/png", "result-github-whoami-2.bin application/octet-stream", "resource file:///a a file", "inner", `\u{202e}b\x1b[31m`, "cut: the whole result is 5.0 MiB", "1) Download the whole")
	want(t, w.press(alice(), r, "Download"), "the whole of it")
	w.result = schemas.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":{"a":1}}`)}
	want(t, w.say(alice(), "/mcp call github.whoami"), "{\n  \"a\": 1\n}")
}

func TestList(t *testing.T) {
	w := newWorld(t)
	want(t, w.say(alice(), "/mcp list"), "No MCP servers configured", "/mcp add-json", "/mcp add")
	w = issues(t)
	w.have("boss", schemas.Server{Name: "weather", Command: "x"})
	w.state["weather"] = schemas.Status{State: schemas.Failed, Why: "exited with 1: Error: Cannot find module 'undici'"}
	w.cfg.Problems = schemas.Problems{{File: "mcp.json", Line: 4, Col: 11, Text: `unknown key "comand"`}}
	want(t, w.say(alice(), "/mcp list"), "local\n", "github | ready | 3 tools | yours | up 2 h, 14 calls", "weather | failed | 0 tools | @boss | exited with 1: Error: Cannot find module 'undici' · /mcp doctor weather",
		"mcp.json cannot be read; the last good state runs on", `mcp.json:4:11: unknown key "comand"`)
	want(t, w.say(alice(), "/mcp call weather.today {}"), "weather failed: exited with 1", "/mcp doctor weather")
	w.failWith["Call"] = schemas.Problems{{Pointer: "/title", Text: "must be string, not number"}, {Text: `"repo" is missing`}}
	want(t, w.say(alice(), "/mcp call github.create_issue {\"title\":1}"), "the arguments of github.create_issue have 2 mistakes; it was not called", "title: must be string", `"repo" is missing`)
	delete(w.failWith, "Call")
	want(t, w.say(alice(), "/mcp show github"), "github is ready", "runs: npx -y gh", "arg 2     gh", "approved: by @alice")
	want(t, w.say(alice(), "/mcp show githup"), "there is no server githup · did you mean github?")
	want(t, w.say(alice(), "/mcp tools"), "github.create_issue | asks | Creates an issue", "github.whoami | runs", "github.run_command | blocked: shell")
	want(t, w.say(alice(), "/mcp tools github.create_issue"), "ext_github_create_issue", `"required"`)
	w.resources = []schemas.Resource{{Server: "github", URI: "repo://x", Name: "X"}}
	want(t, w.say(alice(), "/mcp show github"), "@github:repo://x | X", "/mcp prompt lists them")
}

func TestDoctor(t *testing.T) {
	w := issues(t)
	want(t, w.say(alice(), "/mcp doctor github"), "definition: approved", "handshake: 1,200 ms", "tools: 3 tools", "next: nothing")
	if w.touched != 0 {
		t.Error("a healthy server was started again")
	}
	w.state["github"] = schemas.Status{State: schemas.Failed, Why: "exited with 1", Stderr: "Error: Cannot find module"}
	want(t, w.say(mallory(), "/mcp doctor github"), "github failed: exited with 1", "Error: Cannot find module", "next: put right what its last lines say")
	if w.touched != 0 {
		t.Error("somebody else's server was started")
	}
	w.say(alice(), "/mcp doctor github")
	if w.touched != 1 {
		t.Errorf("restarts %d", w.touched)
	}
	want(t, w.say(alice(), "/mcp doctor"), "1 server wants something", "github | failed")
}

func TestEditRemoveEnable(t *testing.T) {
	w := issues(t)
	form := w.say(alice(), "/mcp edit github")
	want(t, form, "command [] (a program, such as npx or node) =npx", "=-y gh")
	card := w.fill(alice(), form, map[string]string{"command": "npx", "args": "-y gh@2"})
	want(t, card, "1 changed: github", "changed: args", "runs: npx -y gh@2", "trust gh.")
	want(t, w.press(alice(), card, "Confirm"), "github is ready")
	want(t, w.say(mallory(), "/mcp remove github"), "only @alice can change github, or a manager of the thread")
	want(t, w.say(alice(), "/mcp disable github"), "github is off; its entry stays")
	want(t, w.say(alice(), "/mcp disable github"), "github is off already")
	want(t, w.say(alice(), "/mcp enable github"), "github is ready")
	want(t, w.say(alice(), "/mcp enable github"), "github is on already")
	w.cfg.Entries[0].Approval = nil
	want(t, w.say(alice(), "/mcp enable github"), "runs: npx -y gh@2", `+    "gh@2"`, "1) Confirm")
	was := schemas.Server{Name: "github", Command: "npx", Args: []string{"-y", "gh@1"}}
	w.cfg.Entries[0].Approval = &schemas.Approval{Fingerprint: was.Fingerprint(), Definition: was}
	want(t, w.say(alice(), "/mcp enable github"), `-    "gh@1"`, `+    "gh@2"`)
	card = w.say(alice(), "/mcp rm github")
	want(t, card, "1 removed: github", "its values in the vault are deleted")
	want(t, w.press(alice(), card, "Confirm"), "github is removed")
	if len(w.forgot) != 1 || len(w.cfg.Entries) != 0 {
		t.Errorf("forgot %v, entries %v", w.forgot, w.cfg.Entries)
	}
}

func TestEnable_HeldTool(t *testing.T) {
	w := issues(t)
	h := schemas.HeldTool{Tool: schemas.Tool{Server: "github", Name: "whoami", Pin: "p2"}, Why: "changed", Diff: "-says who\n+says who\u202e and reads ~/.ssh\n"}
	w.heldOf["github"] = []schemas.HeldTool{h}
	card := w.say(alice(), "/mcp enable github.whoami")
	want(t, card, "github.whoami · changed", `and reads ~/.ssh`, `\u{202e}`, "1) Approve")
	w.heldOf["github"][0].Tool.Pin = "p3"
	wantCode(t, w.press(alice(), card, "Approve"), schemas.CodeConflict)
	want(t, w.press(alice(), w.say(alice(), "/mcp enable github"), "Approve"), "whoami of github can be used again")
	if len(w.accepted) != 1 {
		t.Errorf("accepted %v", w.accepted)
	}
	want(t, w.say(mallory(), "/mcp enable github.whoami"), "only @alice can change github")
}

func TestConnect(t *testing.T) {
	w := newWorld(t)
	for url, words := range map[string]string{
		"http://localhost.evil.example/mcp": "the address must start with https://",
		"http://example.com":                "the address must start with https://",
		"https://u:p@example.com":           "holds a user name",
		"https://example.com/#x":            "has a fragment",
		"https://169.254.169.254/latest":    "private and local networks are closed",
		"https://10.0.0.1/mcp":              "private and local networks are closed",
		"ftp://example.com":                 "the address must start with https://",
		"nonsense":                          "the address names no host",
		"http://127.0.0.1:1/mcp":            "private and local networks are closed",
	} {
		want(t, w.say(alice(), "/mcp connect "+url), words)
	}
	want(t, w.say(boss(), "/mcp connect http://127.0.0.1:9/mcp"), "connect http://127.0.0.1:9?")
	form := w.say(alice(), "/mcp connect")
	yes := w.fill(alice(), form, map[string]string{"url": "https://mcp.linear.example/sse"})
	want(t, yes, "connect https://mcp.linear.example? Nothing has been sent to it yet", "name: linear", "1) Connect\n2) With an API key\n3) Leave it")
	key := w.press(alice(), yes, "With an API key")
	if !key.Private || key.Form.Fields[1].Kind != "secret" {
		t.Errorf("form %+v", key.Form)
	}
	card := w.fill(alice(), key, map[string]string{"header": "Authorization", "key": canary})
	want(t, card, "1 added: linear", "sends to: https://mcp.linear.example/sse (sse)", "LINEAR_KEY", "This sends what its tools are called with to https://mcp.linear.example")
	if w.touched+len(w.vault) != 0 {
		t.Error("contacted or sealed before Confirm")
	}
	want(t, w.press(alice(), card, "Confirm"), "linear is ready")
	e, _ := w.cfg.Find("linear")
	if e.Headers["Authorization"] != "Bearer ${input:LINEAR_KEY}" || e.Type != schemas.SSE || e.Auth.Type != "header" {
		t.Errorf("entry %+v", e)
	}
	if v := w.vault[schemas.SecretKey{Member: "alice", Thread: thread, Server: "linear", Name: "LINEAR_KEY", Origin: "https://mcp.linear.example:443"}]; v.Reveal() != canary {
		t.Error("the key is not sealed for its origin")
	}
	edited := w.fill(alice(), w.say(alice(), "/mcp edit linear"), map[string]string{"url": "https://mcp.linear.example/mcp", "key": ""})
	want(t, edited, "1 changed: linear")
	w.press(alice(), edited, "Confirm")
	if e, _ := w.cfg.Find("linear"); e.Type != schemas.HTTP || len(e.Headers) != 1 {
		t.Errorf("entry %+v", e)
	}
}

func TestHistoryAuditDownload(t *testing.T) {
	w := newWorld(t)
	want(t, w.say(alice(), "/mcp history"), "no changes yet")
	want(t, w.say(alice(), "/mcp undo"), "there is no change to take back")
	w.press(alice(), w.say(alice(), "/mcp add-json "+github()), "Confirm")
	want(t, w.say(alice(), "/mcp history show"), "r1 | 2026-11-20 12:00 | @alice")
	want(t, w.say(alice(), "/mcp history show r1"), "+ \"github\"", "/mcp history undo r1")
	card := w.say(alice(), "/mcp undo")
	want(t, card, "1 removed: github", "1) Confirm")
	a := w.say(guest(), "/mcp audit")
	want(t, a, "2026-11-20 12:00:00 | @alice | changed", "r1 1 added: github")
	if !a.Private {
		t.Error("audit details are for the requester")
	}
	w.records = append(w.records, schemas.Record{At: w.now, Event: schemas.EventCallEnd, Server: "github", Tool: "x", Receipt: "7f3a", Ms: 310, Bytes: 43, Outcome: schemas.OutcomeOK, Args: "title:11"})
	w.records[len(w.records)-1].Receipt = "7f3a99c0"
	want(t, w.say(alice(), "/mcp audit 7f3a"), "called github.x", "outcome: ok", "310 ms · 43 bytes · args title:11 · receipt 7f3a99c0")
	want(t, w.say(alice(), "/mcp audit 9999"), "have no such receipt")
	want(t, w.say(alice(), "/mcp audit 1"), "1 record, newest first")
	want(t, w.say(alice(), "/mcp download format:vscode ./out.json"), "mcp.json")
	want(t, w.say(alice(), "/mcp download vscod"), "there is no format vscod · did you mean vscode?")
	wantCode(t, w.say(alice(), "/mcp download client"), schemas.CodeMissing)
}

// A call is one line, whatever the log writes about it.
func TestAudit_Calls(t *testing.T) {
	w := newWorld(t)
	rec := func(e schemas.Event, receipt string, o schemas.Outcome) schemas.Record {
		return schemas.Record{At: w.now, Member: "alice", Name: "alice", Event: e, Server: "github", Tool: "x", Receipt: receipt, Outcome: o, RunsAs: "bob", Origin: schemas.ByPerson}
	}
	begin := rec(schemas.EventCallBegin, "aaaa0001", "")
	begin.Args = "title 11"
	w.records = []schemas.Record{begin, {At: w.now, Event: schemas.EventServer, Server: "github", Detail: "start"}, rec(schemas.EventCallEnd, "aaaa0001", schemas.OutcomeOK),
		rec(schemas.EventRefused, "bbbb0002", schemas.OutcomeRefused), rec(schemas.EventCallBegin, "cccc0003", "")}
	r := w.say(alice(), "/mcp audit")
	want(t, r, "4 records, newest first", "called github.x | no end yet", "refused github.x | refused", "called github.x | ok | args title 11 · receipt aaaa0001", "server github")
	wantNot(t, r, "call.")
	want(t, w.say(alice(), "/mcp audit calls"), "3 records")
	wantNot(t, w.say(alice(), "/mcp audit calls"), "server github")
	want(t, w.say(alice(), "/mcp audit aaaa"), "ran as: @bob", "wish of: the person", "args title 11")
	w.records = nil
	want(t, w.say(alice(), "/mcp audit calls"), "nothing has been called here lately")
}

// What was asked for is written down for what changes something or leaves the thread, not for looking.
func TestAudit_Asked(t *testing.T) {
	w := issues(t)
	for _, v := range []string{"list", "show github", "tools", "help", "audit", "history show", "doctor", "policy show", "secrets list"} {
		w.say(alice(), "/mcp "+v)
	}
	if len(w.records) != 0 {
		t.Errorf("%+v", w.records)
	}
	w.say(alice(), "/mcp download")
	if len(w.records) != 1 || w.records[0].Event != schemas.EventAsked || w.records[0].Detail != "/mcp download" {
		t.Errorf("%+v", w.records)
	}
}

func TestPrompt(t *testing.T) {
	w := issues(t)
	want(t, w.say(alice(), "/mcp prompt"), "no server here offers prompts")
	w.prompts = []schemas.Prompt{{Server: "github", Name: "triage", Description: "Sorts", Arguments: []schemas.PromptArgument{{Name: "repo", Required: true}, {Name: "n"}}}}
	want(t, w.say(alice(), "/mcp prompt"), "github.triage | Sorts | repo, n")
	form := w.say(alice(), "/mcp prompt github.triage")
	want(t, w.fill(alice(), form, map[string]string{"repo": "a/b"}), "user", "map[repo:a/b]")
	want(t, w.fill(alice(), w.say(alice(), "/mcp prompt github.triage"), map[string]string{}), "repo is needed")
}

func TestSecrets(t *testing.T) {
	w := newWorld(t)
	w.have("alice", schemas.Server{Name: "notes", Command: "x", Env: map[string]string{"K": "${input:NOTES_KEY}"}})
	want(t, w.say(alice(), "/mcp secrets"), "your vault holds nothing")
	typed := w.say(alice(), "/mcp secrets set NOTES_KEY "+canary)
	want(t, typed, "values are never typed into a command")
	want(t, w.say(alice(), "/mcp secrets set NOTES_KEY="+canary), "values are never typed into a command")
	want(t, w.say(mallory(), "/mcp secrets set NOTES_KEY"), "NOTES_KEY is for notes, which runs with its owner's values · ask @alice to give it")
	want(t, w.say(alice(), "/mcp secrets set NOTES_KEYS"), "did you mean /mcp secrets set NOTES_KEY?")
	form := w.say(alice(), "/mcp secrets set NOTES_KEY")
	want(t, w.fill(alice(), form, map[string]string{"NOTES_KEY": canary}), "NOTES_KEY is in your vault", "notes is ready")
	want(t, w.say(alice(), "/mcp secrets list"), "NOTES_KEY | notes | its program")
	want(t, w.say(mallory(), "/mcp secrets list"), "your vault holds nothing")
	want(t, w.say(mallory(), "/mcp secrets delete NOTES_KEY"), "your vault holds no such value here")
	want(t, w.say(alice(), "/mcp secrets delete NOTES_KEY"), "NOTES_KEY is deleted from your vault, for notes")
	if len(w.vault) != 0 {
		t.Error("still there")
	}
}

// A member who uploads somebody else's server unchanged must not replace the owner's value.
func TestUpload_OthersSecret(t *testing.T) {
	w := newWorld(t)
	w.press(alice(), w.say(alice(), "/mcp add-json "+github()), "Confirm")
	want(t, w.say(mallory(), "/mcp add-json "+github()), "No changes")
	mine := w.say(alice(), "/mcp add-json "+strings.Replace(github(), canary, "ghp_other", 1))
	want(t, mine, "no server changes; 1 value to put into your vault")
	want(t, w.press(alice(), mine, "Confirm"), "github is ready")
	for _, v := range w.vault {
		if v.Reveal() != "ghp_other" {
			t.Error("not replaced")
		}
	}
}

func TestWordsOfTheDoor(t *testing.T) {
	w := newWorld(t)
	want(t, w.bot.Welcome(t.Context(), alice()), "bobbin · thread T1 · no tools yet", "/mcp add-json", "/mcp upload PATH", "/mcp add",
		"No model is set, so I cannot chat yet; tools work by hand with /mcp call. To chat: set ANTHROPIC_API_KEY, or --model (see /mcp help model).")
	want(t, w.say(alice(), "fix the broken link"), "No model is set, so I cannot chat yet")
	want(t, w.say(alice(), "/chat model x"), "no model is set, so there is nothing to change here")
	want(t, w.say(alice(), "/mcp lst"), "/mcp has no such verb", "did you mean /mcp list?", "/mcp help")
	wantNot(t, w.say(alice(), "/mcp "+canary), canary)
	want(t, w.say(alice(), "/nonsense"), "I know no such command", "/mcp help")
	want(t, w.say(alice(), "/mcp list extra"), "there is more in that line than /mcp list takes")
	want(t, w.say(alice(), "/mcp show"), "name [] (the server's name)")
	want(t, w.say(alice(), `/mcp show "open`), "is not closed")
	for _, topic := range []string{"", "add", "model", "install", "policy", "secrets", "verbs", "add-json", "history show"} {
		if r := w.say(alice(), "/mcp help "+topic); r.Bad {
			t.Errorf("help %q: %s", topic, flat(r))
		}
	}
	want(t, w.say(alice(), "/mcp help polcy"), "did you mean policy")
	for _, v := range []string{"install npm x", "sandbox status", "admin attach x", "attach x", "gateway token"} {
		wantCode(t, w.say(alice(), "/mcp "+v), schemas.CodeMissing)
	}
	wantCode(t, w.say(alice(), strings.Repeat("x", 300<<10)), schemas.CodeTooLarge)
	bad := alice()
	bad.Thread = "../x"
	wantCode(t, w.say(bad, "/mcp list"), schemas.CodeInvalid)
	wantCode(t, w.do(bot.Request{Caller: alice(), Action: &bot.Action{ID: "nonsense"}}), schemas.CodeExpired)
}

func TestGuest(t *testing.T) {
	w := issues(t)
	allowed := map[string]bool{"list": true, "show": true, "tools": true, "help": true, "audit": true}
	for _, v := range w.bot.Verbs() {
		args := map[string]string{}
		for _, a := range v.Args {
			args[a.Name] = "github"
		}
		r := w.do(bot.Request{Caller: guest(), Verb: v.Name, Args: args})
		if denied := r.Code == schemas.CodeDenied; denied == allowed[v.Name] {
			t.Errorf("%s: denied %v", v.Name, denied)
		}
	}
	w.state["github"] = schemas.Status{State: schemas.Failed, Why: "exited with 1", Stderr: "at /home/alice/x"}
	wantNot(t, w.say(guest(), "/mcp show github"), "/home/alice")
	want(t, w.say(alice(), "/mcp show github"), "/home/alice")
	want(t, w.say(guest(), "/mcp remove github"), "guests may look here, not use or change servers", "ask a member of the thread")
	if len(w.records) != 0 || len(w.calls) != 0 {
		t.Errorf("records %v, calls %v", w.records, w.calls)
	}
}

func TestVerbs_DiscordLimits(t *testing.T) {
	top, total := map[string]bool{}, 0
	for _, v := range newWorld(t).bot.Verbs() {
		name, _, _ := strings.Cut(v.Name, " ")
		top[name] = true
		if len(v.Summary) > 100 || v.Summary == "" || len(v.Args) > 25 {
			t.Errorf("%s: summary of %d characters", v.Name, len(v.Summary))
		}
		total += len(v.Name) + len(v.Summary)
		for _, a := range v.Args {
			total += len(a.Name) + len(a.Hint)
		}
	}
	if len(top) > 25 || total > 8000 {
		t.Errorf("%d verbs and groups (25 allowed), %d characters (8000 allowed)", len(top), total)
	}
}

func TestCompleteAndBoard(t *testing.T) {
	w := issues(t)
	for line, wants := range map[string]string{
		"/m": "/mcp ", "/mcp add": "/mcp add,/mcp add-json", "/mcp show g": "/mcp show github", "/mcp call github.w": "/mcp call github.whoami",
		"/mcp policy d": "/mcp policy deny", "/mcp download v": "/mcp download vscode", "/mcp help mo": "/mcp help model", "hello": "",
	} {
		if got := strings.Join(w.bot.Complete(t.Context(), alice(), line), ","); got != wants {
			t.Errorf("%q: %q, want %q", line, got, wants)
		}
	}
	if got := w.bot.Complete(t.Context(), guest(), "/mcp re"); len(got) != 0 {
		t.Errorf("a guest is offered %q", got)
	}
	b, err := w.bot.Board(t.Context(), alice())
	if err != nil || len(b.Servers) != 1 || len(b.Servers[0].Tools) != 3 || !b.Servers[0].Mine || b.Servers[0].Tools[2].Mark != "blocked: shell" {
		t.Errorf("%+v %v", b, err)
	}
}

func TestCall_LongText(t *testing.T) {
	w := issues(t)
	long, err := json.Marshal(strings.Repeat("é", 10000) + "END")
	if err != nil {
		t.Fatal(err)
	}
	w.result.Raw = json.RawMessage(`{"content":[{"type":"text","text":` + string(long) + `},{"type":"text","text":"second"}]}`)
	r := w.say(alice(), "/mcp call github.whoami")
	want(t, r, "cut: the whole result is 19 KiB", "1) Download the whole")
	wantNot(t, r, "END", "second", "\uFFFD")
	want(t, w.press(alice(), r, "Download"), "END\nsecond", "result-github-whoami.txt")
}
