package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/bot/discord/discordtest"
)

// town is a Discord server with a thread of ann's, bob who may write there, and moe who manages it.
type town struct {
	f             *discordtest.Fake
	guild         *discordtest.Guild
	thread        *discordtest.Channel
	ann, bob, moe *seat
}

func newTown(t testing.TB, opt discordtest.Options) town {
	t.Helper()
	f := discordtest.New(t, opt)
	g := f.Guild("Test")
	ann, bob, moe := f.User("ann"), f.User("bob"), f.User("moe")
	g.Allow(moe, discordtest.Default|1<<34)
	th := g.Channel("general").Thread(ann, "tools")
	return town{f, g, th, newSeat(t, f, ann, th), newSeat(t, f, bob, th), newSeat(t, f, moe, th)}
}

// shows fails the test unless a text has all patterns.
func shows(t testing.TB, what, text string, patterns ...string) {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ")
	for _, p := range patterns {
		if !matches(p, text) {
			t.Errorf("%s: no %q in\n%s", what, p, clip(text))
		}
	}
}

// TestDiscord_Use goes through everything that members do with a config, as Discord's client lets them.
func TestDiscord_Use(t *testing.T) {
	long(t)
	linuxOnly(t)
	w := newTown(t, discordtest.Options{})
	data, pids := t.TempDir(), filepath.Join(t.TempDir(), "pids")
	p := serveDiscord(t, w.f, data)
	ann := w.ann
	folder := filepath.Join(data, "users", w.thread.ID)

	ann.form("/mcp add")
	shows(t, "the form's card", ann.fill("demo", "fakemcp", "", "FAKEMCP_STARTS="+pids+"\nGORACE=atexit_sleep_ms=0", ""),
		"1 added: demo", "NOT isolated", `\+.*"command": "fakemcp"`)
	confirm(t, w, "demo is ready.*9 tools")

	shows(t, "add-json", ann.say(`/mcp add-json second {"command":"fakemcp","args":["slow","1"]}`), "1 added: second")
	confirm(t, w, "second is ready")

	before, err := os.ReadFile(filepath.Join(folder, "mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := "{\"mcpServers\": {\n  \"a\": {\"command\": \"node\",\n        \"args\": \"server.js\"},\n  \"b\": {\"comand\": \"node\"},\n  \"c\": {\"command\": \"node\", \"env\": {\"K\": \"1\", \"K\": \"2\"}}\n}}\n"
	shows(t, "three mistakes", ann.upload("wrong.json", wrong), "wrong.json has 3 mistakes", "nothing was changed",
		`3:17`, `"args" must be a list`, `4:9`, `unknown key "comand"`, `did you mean "command"`, `5:\d+`, `"K" twice`)
	if after, err := os.ReadFile(filepath.Join(folder, "mcp.json")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a file with mistakes changed something: %v", err)
	}

	shows(t, "tools", ann.say("/mcp tools demo"), "demo.echo", "demo.execute_command.*(denied|blocked)")
	ann.form("/mcp call demo.add")
	shows(t, "a call by form", ann.fill("20", "22"), `\b42\b`, "as you")
	if got := w.bob.say("/mcp call demo.env {}"); strings.Contains(got, "DISCORD_TOKEN") || strings.Contains(got, "CANARY") || !strings.Contains(got, "PATH=") {
		t.Errorf("a server's environment:\n%s", got)
	}

	form := ann.form("/mcp edit second")
	shows(t, "edit", form, "second")
	if got := ann.modal.Fields; len(got) < 2 {
		t.Errorf("the form of edit holds %+v", got)
	}
	args := make([]string, len(ann.modal.Fields))
	for i, f := range ann.modal.Fields {
		if strings.HasPrefix(f.Label, "arg") {
			args[i] = "slow 2"
		}
	}
	shows(t, "the edited card", ann.fill(args...), "1 changed: second", `-.*"1"`, `\+.*"2"`)
	confirm(t, w, "second")

	shows(t, "disable", ann.say("/mcp disable second"), "second is off")
	shows(t, "enable", ann.say("/mcp enable second"), "second")
	shows(t, "remove", ann.say("/mcp remove second"), "1 removed: second")
	confirm(t, w, "second is removed")
	shows(t, "undo", ann.say("/mcp undo"), "second")
	confirm(t, w, "second")
	shows(t, "list", ann.say("/mcp list"), "demo .*ready", "second")

	shows(t, "download", ann.say("/mcp download"), `\(mcp\.json\)`)
	stored, err := os.ReadFile(filepath.Join(folder, "mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got := newestFile(ann); !bytes.Equal(got, stored) {
		t.Errorf("downloaded:\n%s\nstored:\n%s", got, stored)
	}
	shows(t, "audit", w.bob.say("/mcp audit 80"), "demo.add", "demo.env", "@bob|as you")

	if got := ann.Complete("mcp show", "name", "sec"); len(got) != 1 || !strings.Contains(got[0], "second") {
		t.Errorf("suggestions: %q", got)
	}
	p.signal(os.Interrupt)
	p.wait()
	if p.err != nil {
		t.Errorf("exit: %v", p.err)
	}
	gone(t, "after Ctrl-C", time.Second, started(t, pids)...)
}

// confirm has bob try what is not his to confirm, and then ann.
func confirm(t testing.TB, w town, done string) {
	t.Helper()
	was, _ := card(w.ann)
	refusal := w.bob.choose("Confirm")
	shows(t, "a stranger's Confirm", refusal, "only @ann can confirm this|only .*ann|or a manager")
	now, _ := card(w.ann)
	if was.ID != now.ID || was.Text != now.Text {
		t.Errorf("a stranger's press changed the card:\n%s\nto\n%s", was.Text, now.Text)
	}
	for _, m := range w.ann.Messages() {
		if strings.Contains(plain(m.Text), strings.TrimSpace(refusal)) && !m.Ephemeral {
			t.Errorf("everybody sees bob's refusal: %s", m.Text)
		}
	}
	shows(t, "Confirm", w.ann.choose("Confirm"), done)
	if _, open := card(w.ann); open {
		t.Error("the card still has a Confirm")
	}
}

// card is the newest message with a Confirm to press.
func card(s *seat) (found discordtest.Message, open bool) {
	for _, m := range s.Messages() {
		for _, b := range m.Buttons {
			if b.Label == "Confirm" && !b.Disabled {
				found, open = *m, true
			}
		}
	}
	return found, open
}

func newestFile(s *seat) []byte {
	var data []byte
	for _, m := range s.Messages() {
		for _, f := range m.Files {
			data = f.Data
		}
	}
	return data
}

// hostile are texts that try to be more than text.
func hostile() []string {
	return []string{
		"@everyone @here <@&1> <@1> <#1>", "[a masked link](https://evil.example)", "![an image](https://evil.example/x.png)", "```\nout of the fence\n# a heading",
		"**bold** __under__ ~~gone~~ ||spoiler|| > quote", "\u202egnp.exe\u202c", "in\u200bvisible\u2066", "<https://evil.example> https://evil.example", "<t:1:R> <:x:1> </mcp list:1>", "discord.gg/evil",
	}
}

// TestDiscord_Hostile: names, descriptions, arguments, results and file names stay text.
func TestDiscord_Hostile(t *testing.T) {
	long(t)
	linuxOnly(t)
	t.Parallel()
	w := newTown(t, discordtest.Options{NoRateLimits: true})
	serveDiscord(t, w.f, t.TempDir())
	pids := filepath.Join(t.TempDir(), "pids")
	all := strings.Join(hostile(), " ")
	servers := map[string]any{"villain": fake(pids, "hostile", all)}
	for i, name := range hostile() {
		servers[name] = map[string]any{"command": "fakemcp", "args": []string{"slow", "1", hostile()[len(hostile())-1-i]}, "disabled": true}
	}
	file := "@everyone `x` [a](https://evil.example).json"
	shows(t, "names that cannot be", w.ann.upload(file, config(t, servers)), "mistakes", "invisible or forbidden")
	for name := range servers {
		if strings.ContainsAny(name, "\n\u202e\u200b") {
			delete(servers, name)
		}
	}
	w.ann.upload(file, config(t, servers))
	shows(t, "Confirm", w.ann.choose("Confirm"), "villain is ready")
	for _, line := range []string{
		"/mcp list", "/mcp show villain", "/mcp tools", "/mcp tools villain", "/mcp tools villain.echo", "/mcp audit 50", "/mcp history", "/mcp doctor",
		"/mcp doctor " + hostile()[0], "/mcp show " + hostile()[1], "/mcp call " + hostile()[2] + " {}", "/mcp policy deny " + hostile()[3],
		`/mcp call villain.fail {}`, "/mcp remove " + hostile()[1], "/mcp secrets", "/mcp download",
	} {
		w.ann.say(line)
	}
	for _, text := range hostile() {
		args := config(t, map[string]any{"message": text})
		args = strings.TrimSuffix(strings.TrimPrefix(args, `{"mcpServers":`), "}")
		w.ann.say("/mcp call villain.echo " + args)
		w.ann.say(text)
		w.ann.say("/mcp " + text)
	}
	shows(t, "what was sent", plain(w.ann.Transcript()), "Say it again|a masked link", `an image`, "out of the fence", "gnp.exe", "spoiler", "evil-2|evil.example", "villain.echo · .*@everyone")
	if bad := w.f.Inert(); len(bad) > 0 {
		t.Errorf("%d texts act:\n%s", len(bad), strings.Join(bad[:min(20, len(bad))], "\n"))
	}
	for _, m := range w.ann.Messages() {
		if m.Author == w.f.BotID && strings.ContainsAny(m.Text, "\u202e\u2066\u202c") {
			t.Errorf("a character that turns text around is sent:\n%s", clip(m.Text))
		}
		for _, id := range m.Pings {
			if id != w.ann.user.ID {
				t.Errorf("somebody is pinged: %s in %s", id, clip(m.Text))
			}
		}
	}
}
