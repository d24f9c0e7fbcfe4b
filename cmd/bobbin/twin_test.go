package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// twin is discord-digital-twin: Discord as other people understood it.
type twin struct {
	t          testing.TB
	in         io.Writer
	out        *bufio.Scanner
	base, auth string
}

// twinMessage is a message as the twin keeps it.
type twinMessage struct {
	ID         string
	Content    string
	Author     struct{ Bot bool }
	Components json.RawMessage
}

func openTwin(t testing.TB) *twin {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", "testdata", "twin"))
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(folder, "node_modules", "discord-digital-twin")) {
		if os.Getenv("CI") != "" {
			t.Fatal("the twin is missing; scripts/tools installs it")
		}
		t.Skip("the twin is not installed; scripts/tools installs it")
	}
	node := exec.Command("node", "twin.mjs")
	node.Dir, node.Stderr = folder, os.Stderr
	in, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		kill := time.AfterFunc(5*time.Second, func() { _ = node.Process.Kill() })
		defer kill.Stop()
		_ = node.Wait()
	})
	w := &twin{t: t, in: in, out: bufio.NewScanner(out)}
	w.out.Buffer(nil, 16<<20)
	var hello struct{ Base, Token string }
	w.hear(&hello)
	w.base, w.auth = hello.Base, hello.Token
	return w
}

// ask has the twin do something, and gives what it answers.
func (w *twin) ask(into any, what map[string]any) {
	w.t.Helper()
	line, err := json.Marshal(what)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.in.Write(append(line, '\n')); err != nil {
		w.t.Fatal(err)
	}
	w.hear(into)
}

func (w *twin) hear(into any) {
	w.t.Helper()
	if !w.out.Scan() {
		w.t.Fatalf("the twin ended: %v", w.out.Err())
	}
	var a struct {
		OK    json.RawMessage
		Error string
	}
	if err := json.Unmarshal(w.out.Bytes(), &a); err != nil || a.Error != "" {
		w.t.Fatalf("the twin: %v %s", err, clip(w.out.Text()))
	}
	if into != nil {
		if err := json.Unmarshal(a.OK, into); err != nil {
			w.t.Fatal(err)
		}
	}
}

// shown waits until a message of the bot matches, and gives the newest that does with its text.
func (w *twin) shown(pattern string) (m twinMessage, text string) {
	w.t.Helper()
	var all []twinMessage
	if !eventually(patience, func() bool {
		w.ask(&all, map[string]any{"do": "messages"})
		for _, one := range all {
			if s := plain(one.Content + words(one.Components)); one.Author.Bot && matches(pattern, s) {
				m, text = one, s
			}
		}
		return m.ID != ""
	}) {
		var said strings.Builder
		for _, one := range all {
			said.WriteString(one.Content + words(one.Components) + "\n--\n")
		}
		w.t.Fatalf("no message %q in\n%s", pattern, clip(said.String()))
	}
	return m, text
}

// node is a component of any type.
type node struct {
	Content, Label string
	CustomID       string `json:"custom_id"`
	Component      *node
	Components     []node
}

func (n node) walk(visit func(node)) {
	visit(n)
	if n.Component != nil {
		n.Component.walk(visit)
	}
	for _, c := range n.Components {
		c.walk(visit)
	}
}

func nodes(raw json.RawMessage, visit func(node)) {
	var all []node
	_ = json.Unmarshal(raw, &all)
	node{Components: all}.walk(visit)
}

func words(raw json.RawMessage) string {
	var b strings.Builder
	nodes(raw, func(n node) { b.WriteString(n.Content + "\n" + n.Label + "\n") })
	return b.String()
}

// press presses the button of that label.
func (w *twin) press(m twinMessage, label string) {
	w.t.Helper()
	id := ""
	nodes(m.Components, func(n node) {
		if n.Label == label {
			id = n.CustomID
		}
	})
	if id == "" {
		w.t.Fatalf("no button %q on\n%s", label, words(m.Components))
	}
	w.ask(nil, map[string]any{"do": "press", "user": "ann", "message": m.ID, "custom": id})
}

type option struct {
	Name    string   `json:"name"`
	Type    int      `json:"type"`
	Value   any      `json:"value,omitempty"`
	Focused bool     `json:"focused,omitempty"`
	Options []option `json:"options,omitempty"`
}

// callback is how the bot answered an interaction first.
type callback struct {
	Type int
	Data struct {
		CustomID   string `json:"custom_id"`
		Title      string
		Components json.RawMessage
		Choices    []struct{ Name, Value string }
	}
}

// slash uses a subcommand; its options are text.
func (w *twin) slash(verb string, options ...option) (c callback) {
	w.t.Helper()
	w.ask(&c, map[string]any{"do": "slash", "user": "ann", "options": []option{{Name: verb, Type: 1, Options: options}}})
	return c
}

func text(name, value string) option { return option{Name: name, Type: 3, Value: value} }

// TestTwin: a peer that shares no code and no author with bobbin understands it.
func TestTwin(t *testing.T) {
	long(t)
	linuxOnly(t)
	w := openTwin(t)
	pids := filepath.Join(t.TempDir(), "pids")
	p := bobbinWith(t, []string{"DISCORD_TOKEN=" + w.auth, "BOBBIN_LISTEN=127.0.0.1:0"}, t.TempDir(), "serve", "--discord-api-base", w.base)
	var commands []struct {
		Name    string
		Options []struct{ Name string }
	}
	if !eventually(patience, func() bool {
		w.ask(&commands, map[string]any{"do": "commands"})
		return len(commands) > 1
	}) {
		t.Fatalf("registered: %+v", commands)
	}
	names := map[string]int{}
	for _, c := range commands {
		names[c.Name] = len(c.Options)
	}
	if len(names) != 2 || names["mcp"] < 20 || names["chat"] < 5 {
		t.Errorf("registered: %+v", commands)
	}

	w.slash("list")
	w.shown(`No MCP servers configured`)

	w.slash("add-json", text("json", config(t, map[string]any{"demo": fake(pids)})))
	card, said := w.shown(`1 added: demo`)
	if !matches(`NOT isolated.*Confirm only if you trust`, said) {
		t.Errorf("the card:\n%s", said)
	}
	if exists(pids) {
		t.Error("started before Confirm")
	}
	w.press(card, "Confirm")
	w.shown(`demo is ready.*9 tools`)

	w.slash("call", text("tool", "demo.echo"), text("json", `{"message":"from the twin"}`))
	w.shown(`Echo: from the twin`)

	var c callback
	w.ask(&c, map[string]any{"do": "complete", "user": "ann", "options": []option{{Name: "show", Type: 1, Options: []option{{Name: "name", Type: 3, Value: "de", Focused: true}}}}})
	if c.Type != 8 || len(c.Data.Choices) != 1 || c.Data.Choices[0].Value != "demo" {
		t.Errorf("suggestions: %+v", c)
	}

	modal := w.slash("call", text("tool", "demo.add"))
	var fields []map[string]string
	nodes(modal.Data.Components, func(n node) {
		if n.CustomID != "" {
			fields = append(fields, map[string]string{"customId": n.CustomID, "value": "21"})
		}
	})
	if modal.Type != 9 || len(fields) != 2 {
		t.Fatalf("no form of two fields: %+v", modal)
	}
	w.ask(nil, map[string]any{"do": "submit", "user": "ann", "custom": modal.Data.CustomID, "fields": fields})
	w.shown(`\b42\b`)

	w.ask(nil, map[string]any{"do": "say", "user": "ann", "text": `@bot /mcp call demo.echo {"message":"by mention"}`})
	w.shown(`Echo: by mention`)
	w.ask(nil, map[string]any{"do": "say", "user": "ann", "text": `nobody is asked here`})

	w.slash("remove", text("name", "demo"))
	card, _ = w.shown(`1 removed: demo`)
	w.press(card, "Confirm")
	w.shown(`demo is removed`)
	gone(t, "after remove", 5*time.Second, started(t, pids)...)
	p.signal(os.Interrupt)
	p.wait()
	if p.err != nil {
		t.Errorf("exit: %v", p.err)
	}
	if strings.Contains(p.all(), w.auth) {
		t.Error("bobbin printed its token")
	}
}
