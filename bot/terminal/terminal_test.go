package terminal_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/bot/terminal"
	"bobbin/schemas"
)

// script is a bot that answers by a function and remembers what it was asked.
type script struct {
	answer  func(bot.Request) bot.Reply
	asked   []bot.Request
	notices chan bot.Notice
	wait    func(context.Context)
}

func (s *script) Handle(ctx context.Context, r bot.Request) bot.Reply {
	s.asked = append(s.asked, r)
	if s.wait != nil {
		s.wait(ctx)
	}
	return s.answer(r)
}
func (s *script) Welcome(context.Context, schemas.Caller) bot.Reply {
	return bot.Reply{Blocks: []bot.Block{{Text: "welcome"}}}
}
func (s *script) Complete(context.Context, schemas.Caller, string) []string { return nil }
func (s *script) Subscribe(schemas.ThreadID, schemas.MemberID) (<-chan bot.Notice, func()) {
	s.notices = make(chan bot.Notice, 1)
	return s.notices, func() { close(s.notices) }
}

func talk(t *testing.T, s *script, opt terminal.Options, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	opt.Echo = true
	return run(t, s, opt, &out, lines)
}

func run(t *testing.T, s *script, opt terminal.Options, out *bytes.Buffer, lines []string) string {
	t.Helper()
	opt.Bot, opt.Notices, opt.Out = s, s, out
	opt.In = strings.NewReader(strings.Join(lines, "\n"))
	opt.Caller = schemas.Caller{Thread: "t1", Member: "alice", Role: schemas.Owner}
	if err := terminal.New(opt).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func say(text string) bot.Reply { return bot.Reply{Blocks: []bot.Block{{Text: text}}} }

func card() bot.Reply {
	r := say("1 added: demo")
	r.ID, r.Expires = "nonce", time.Now().Add(10*time.Minute)
	r.Choices = []bot.Choice{{Key: "confirm", Label: "Confirm"}, {Key: "cancel", Label: "Cancel"}}
	return r
}

func TestChoices_ByNumberAndLabel(t *testing.T) {
	for _, answer := range []string{"1", "Confirm", "confirm", "CONFIRM", "yes", "Y"} {
		s := &script{}
		s.answer = func(r bot.Request) bot.Reply {
			if r.Action == nil {
				return card()
			}
			return bot.Reply{Replace: "nonce", Blocks: []bot.Block{{Text: "done"}}}
		}
		out := talk(t, s, terminal.Options{}, "/mcp add-json {}", answer, answer)
		if a := s.asked[1].Action; a == nil || a.ID != "nonce" || a.Choice != "confirm" {
			t.Errorf("%q was read as %+v", answer, s.asked[1])
		}
		if s.asked[2].Action != nil {
			t.Errorf("%q answered a card that was settled", answer)
		}
		if !strings.Contains(out, "1) Confirm   2) Cancel") {
			t.Errorf("the choices are not numbered: %s", out)
		}
	}
}

func TestForm_OneFieldALine(t *testing.T) {
	s := &script{}
	s.answer = func(r bot.Request) bot.Reply {
		if r.Action != nil {
			return say("sent")
		}
		return bot.Reply{ID: "f", Form: &bot.Form{Title: "add", Fields: []bot.Field{
			{Name: "name", Label: "name", Required: true},
			{Name: "color", Label: "color", Kind: "choice", Options: []string{"red", "green"}},
			{Name: "env", Label: "env", Kind: "multiline"},
			{Name: "key", Label: "key", Kind: "secret"},
			{Name: "cwd", Label: "folder", Default: "/srv"},
			{Name: "args", Label: "arguments", Default: "-y pkg"},
		}}}
	}
	out := talk(t, s, terminal.Options{}, "/mcp add", "demo", "2", `A=1\nB=2`, "hunter2", "", "-")
	got := s.asked[1].Action.Values
	want := map[string]string{"name": "demo", "color": "green", "env": "A=1\nB=2", "key": "hunter2", "cwd": "/srv", "args": ""}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %q, want %q", k, got[k], v)
		}
	}
	if strings.Contains(out, "hunter2") {
		t.Error("a secret was echoed")
	}
}

func TestForm_CancelSendsNothing(t *testing.T) {
	s := &script{answer: func(bot.Request) bot.Reply {
		return bot.Reply{ID: "f", Form: &bot.Form{Fields: []bot.Field{{Name: "a"}, {Name: "b"}}}}
	}}
	out := talk(t, s, terminal.Options{}, "/mcp add", "x", "/cancel")
	if len(s.asked) != 1 || !strings.Contains(out, "nothing was sent") {
		t.Errorf("asked %d times: %s", len(s.asked), out)
	}
}

// Somebody who types a command in place of an answer wants that command.
func TestForm_CommandLeavesIt(t *testing.T) {
	for _, kind := range []string{"", "secret", "multiline"} {
		s := &script{answer: func(r bot.Request) bot.Reply {
			if r.Text != "/mcp add" {
				return say("heard")
			}
			return bot.Reply{ID: "f", Form: &bot.Form{Fields: []bot.Field{{Name: "a", Kind: kind}, {Name: "b"}}}}
		}}
		out := talk(t, s, terminal.Options{}, "/mcp add", "/mcp list now", "hello")
		if len(s.asked) != 3 || s.asked[1].Text != "/mcp list now" || s.asked[2].Text != "hello" || !strings.Contains(out, "nothing was sent") {
			t.Errorf("%q: asked %+v: %s", kind, s.asked, out)
		}
	}
	s := &script{answer: func(bot.Request) bot.Reply {
		return bot.Reply{ID: "f", Form: &bot.Form{Fields: []bot.Field{{Name: "folder"}}}}
	}}
	talk(t, s, terminal.Options{}, "/mcp add", "/mcpdata/notes", "/quit")
	if len(s.asked) != 2 || s.asked[1].Action == nil || s.asked[1].Action.Values["folder"] != "/mcpdata/notes" {
		t.Errorf("a path was read as a command: %+v", s.asked)
	}
}

func TestForm_RefusedComesBackFilled(t *testing.T) {
	form := &bot.Form{Fields: []bot.Field{{Name: "a", Label: "a"}, {Name: "key", Label: "key", Kind: "secret"}}}
	answer := func(r bot.Request) bot.Reply {
		if r.Action != nil && r.Action.Values["key"] == "good" {
			return bot.Reply{Blocks: []bot.Block{{Text: "done"}}}
		}
		return bot.Reply{Bad: r.Action != nil, ID: "f", Form: form}
	}
	s := &script{answer: answer}
	out := run(t, s, terminal.Options{}, new(bytes.Buffer), []string{"/mcp add", "first", "hunter2", "", "good"})
	if len(s.asked) != 3 {
		t.Fatalf("%d requests:\n%s", len(s.asked), out)
	}
	if got := s.asked[2].Action.Values; got["a"] != "first" || got["key"] != "good" {
		t.Errorf("the second answer is %v", got)
	}
	if !strings.Contains(out, "now first") || strings.Contains(out, "now hunter2") {
		t.Errorf("asked again as\n%s", out)
	}
	s = &script{answer: answer}
	talk(t, s, terminal.Options{}, "/mcp add", "first", "bad", "/mcp list")
	if len(s.asked) < 3 || s.asked[2].Text != "/mcp list" {
		t.Errorf("on a pipe, what follows a refused form became its answer: %+v", s.asked)
	}
}

func TestUploadAndDownload(t *testing.T) {
	dir := t.TempDir()
	in, target := filepath.Join(dir, "my mcp.json"), filepath.Join(dir, "out.json")
	if err := os.WriteFile(in, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &script{answer: func(bot.Request) bot.Reply {
		return bot.Reply{Blocks: []bot.Block{{Text: "your config"}, {File: &schemas.File{Name: "mcp.json", Data: []byte("{}\n")}}}}
	}}
	out := talk(t, s, terminal.Options{}, "/mcp upload "+in, "/mcp download vscode "+target, "/mcp download "+target, "/mcp upload "+dir, "/mcp upload "+dir+"/none")
	if f := s.asked[0].File; f == nil || f.Name != "my mcp.json" || string(f.Data) != `{"mcpServers":{}}` {
		t.Errorf("uploaded %+v", f)
	}
	big := filepath.Join(dir, "tool.mcpb")
	if err := os.WriteFile(big, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	more := &script{answer: func(bot.Request) bot.Reply { return bot.Reply{} }}
	if talk(t, more, terminal.Options{}, "/mcp upload "+big); len(more.asked) != 1 || len(more.asked[0].File.Data) != 2<<20 {
		t.Error("a bundle does not come whole")
	}
	if s.asked[1].Text != "/mcp download vscode" {
		t.Errorf("asked %q", s.asked[1].Text)
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "{}\n" {
		t.Errorf("saved %q, %v", b, err)
	}
	for _, want := range []string{"there is a file of that name already", "that is not a file", "there is no such file"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if len(s.asked) != 3 {
		t.Errorf("a file that cannot be read was sent on: %d", len(s.asked))
	}
}

// TestClean proves that no byte of a server can steer the terminal.
func TestClean(t *testing.T) {
	s := &script{answer: func(bot.Request) bot.Reply {
		evil := "a\x1b]8;;http://evil\x07b\u202ec\u200bd\r"
		return bot.Reply{Blocks: []bot.Block{
			{Text: evil}, {Code: evil}, {Diff: "+" + evil}, {Warning: evil}, {Facts: []bot.Fact{{Label: evil, Value: evil, Note: evil}}},
			{Table: &bot.Table{Columns: []string{evil}, Rows: []bot.Row{{Head: evil}, {Cells: []string{evil, evil}}}}},
			{Problems: []schemas.Problem{{Line: 1, Col: 1, Server: evil, Text: evil, Hint: evil, Excerpt: evil}}},
			{File: &schemas.File{Name: evil, Data: []byte(evil)}},
		}, Choices: []bot.Choice{{Key: "k", Label: evil}}, ID: "x"}
	}}
	out := talk(t, s, terminal.Options{Width: 40}, "hello")
	if strings.ContainsAny(out, "\x1b\x07\r\u202e\u200b") {
		t.Errorf("control characters reached the terminal: %q", out)
	}
}

func TestWidth(t *testing.T) {
	s := &script{answer: func(bot.Request) bot.Reply {
		return bot.Reply{Blocks: []bot.Block{{Text: strings.Repeat("word ", 40)},
			{Table: &bot.Table{Rows: []bot.Row{{Cells: []string{"name", strings.Repeat("long ", 40)}}}}}}}
	}}
	for _, line := range strings.Split(talk(t, s, terminal.Options{Width: 40}, "hello"), "\n") {
		if n := len([]rune(line)); n > 40 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestStop proves that a signal ends the request under way and leaves the conversation open.
func TestStop(t *testing.T) {
	stop := make(chan os.Signal, 1)
	s := &script{}
	s.wait = func(ctx context.Context) { stop <- os.Interrupt; <-ctx.Done() }
	s.answer = func(r bot.Request) bot.Reply { s.wait = nil; return say("answered " + r.Text) }
	out := talk(t, s, terminal.Options{Stop: stop}, "long", "short")
	if !strings.Contains(out, "answered long") || !strings.Contains(out, "answered short") {
		t.Error(out)
	}
}

// A question in the middle of a request is answered there and then. On a pipe that ends, or with /cancel, its last choice is taken,
// so that nothing waits for ever.
func TestQuestion_InTheMiddleOfARequest(t *testing.T) {
	form := &bot.Form{Title: "answer demo", Fields: []bot.Field{{Name: "who", Label: "who", Required: true}}}
	choices := []bot.Choice{{Key: "accept", Label: "Accept"}, {Key: "decline", Label: "Decline"}}
	for name, c := range map[string]struct {
		form   *bot.Form
		lines  []string
		choice string
		who    string
	}{
		"form":             {form, []string{"call", "Ann"}, "", "Ann"},
		"form, cancelled":  {form, []string{"call", "/cancel"}, "decline", ""},
		"form, the end":    {form, []string{"call"}, "decline", ""},
		"choice":           {nil, []string{"call", "maybe", "Accept"}, "accept", ""},
		"choice, the end":  {nil, []string{"call"}, "decline", ""},
		"choice, nonsense": {nil, []string{"call", "maybe"}, "decline", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, answers := &script{}, make(chan bot.Action, 1)
			s.answer = func(r bot.Request) bot.Reply {
				if r.Action != nil {
					answers <- *r.Action
					return say("heard")
				}
				q := say("demo asks you")
				q.ID, q.Form, q.Choices, q.Expires = "nonce", c.form, choices, time.Now().Add(time.Minute)
				s.notices <- bot.Notice{Thread: "t1", To: "alice", Reply: q}
				a := <-answers
				return say("called with " + a.Choice + a.Values["who"])
			}
			out := talk(t, s, terminal.Options{}, c.lines...)
			if !strings.Contains(out, "demo asks you") || !strings.Contains(out, "called with "+c.choice+c.who) {
				t.Error(out)
			}
		})
	}
}

// A page to open is its label and its whole address, on a line of its own at any width.
func TestOpen(t *testing.T) {
	url := "https://auth.example.com/authorize?" + strings.Repeat("state=abc&", 40) + "end"
	out := talk(t, &script{answer: func(bot.Request) bot.Reply {
		return bot.Reply{Blocks: []bot.Block{{Text: "demo wants you to open a page"}, {Open: &bot.Open{Label: "Open auth\x1b[31m.example.com", URL: url + "\u202e"}}}}
	}}, terminal.Options{Width: 40}, "go")
	if !strings.Contains(out, "\n  Open auth") || !strings.Contains(out, ":\n  "+url) || strings.ContainsAny(out, "\x1b\u202e") {
		t.Errorf("%q", out)
	}
}

// Notes stand behind a line that has room for them, else below it; no word is broken at any width.
func TestWidth_Notes(t *testing.T) {
	r := card()
	r.Private = true
	r.Blocks = []bot.Block{{Text: "3 added: everything, filesystem, sequential-thinking · asked by you"}, {Facts: []bot.Fact{{Label: "secrets", Value: "API_TOKEN", Note: "moved to your vault; the config keeps ${input:API_TOKEN}"}}},
		{Problems: []schemas.Problem{{Line: 3, Col: 41, Server: "a", Text: `"args" must be a list, not text`, Hint: "each argument is a text of its own", Excerpt: `"args": ["server.js"]`}}}}
	words := strings.Fields("3 added: everything, filesystem, sequential-thinking · asked by you (seen by you alone) expires in 10 min secrets API_TOKEN moved to your vault; the config keeps ${input:API_TOKEN} " +
		`3:41 a: "args" must be a list, not text (each argument is a text of its own) "args": ["server.js"] 1) Confirm 2) Cancel`)
	for _, width := range []int{40, 60, 90, 140} {
		out := talk(t, &script{answer: func(bot.Request) bot.Reply { return r }}, terminal.Options{Width: width}, "hello")
		for line := range strings.Lines(out) {
			if n := len([]rune(strings.TrimRight(line, " \n"))); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
		if got := strings.Fields(strings.TrimPrefix(out, "welcome")); !slices.Equal(got, words) {
			t.Errorf("at %d: %q", width, got)
		}
	}
}

// A script may hold JSON over several lines. One that is never closed ends before what is a command or an answer, and is not repeated.
func TestPipe_JSONOverLines(t *testing.T) {
	s := &script{answer: func(bot.Request) bot.Reply { return say("heard") }}
	out := talk(t, s, terminal.Options{}, `/mcp add-json {`, `  "mcpServers": {`, ``, `"a": {"env": {"KEY": "hunter2"}}`, `}`, `}`, `Confirm`, "```json", `{"a":`, `{}}`, "```", `/mcp add-json {"a":`, `/mcp add-json {`, `}`, `{"b": {`)
	want := []string{"/mcp add-json {\n  \"mcpServers\": {\n\n\"a\": {\"env\": {\"KEY\": \"hunter2\"}}\n}\n}", "Confirm", "```json\n{\"a\":\n{}}\n```", `/mcp add-json {"a":`, "/mcp add-json {\n}", `{"b": {`}
	var got []string
	for _, r := range s.asked {
		got = append(got, r.Text)
	}
	if !slices.Equal(got, want) || strings.Contains(out, "hunter2") {
		t.Errorf("asked %q\n%s", got, out)
	}
}

// What a terminal cannot show can be kept; nothing that stands there already is replaced.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	s := &script{answer: func(bot.Request) bot.Reply {
		return bot.Reply{Blocks: []bot.Block{{Text: "a picture"}, {File: &schemas.File{Name: "../../a.png", Data: []byte("\x89PNG\xff")}}, {File: &schemas.File{Name: "b.bin", Data: []byte("\xff")}}}}
	}}
	out := talk(t, s, terminal.Options{}, "/save", "/mcp call x.y", "/save "+dir, "/save "+dir)
	for name, want := range map[string]string{"a.png": "\x89PNG\xff", "b.bin": "\xff"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	for _, want := range []string{"there is no file to save", "saved as `" + filepath.Join(dir, "a.png"), "there is a file of that name already"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q: %s", want, out)
		}
	}
	if len(s.asked) != 1 {
		t.Errorf("the bot was asked %d times", len(s.asked))
	}
}

// A long text is shown from both ends, by whole lines; what is no text is named.
func TestFile_Long(t *testing.T) {
	for name, c := range map[string]struct {
		data  string
		shows []string
		hides []string
	}{
		"lines": {"first\n" + strings.Repeat("0123456789\n", 10_000) + "last", []string{"first\n0123", "… 43 KiB left out; /save PATH keeps the whole …\n0123456789\n", "\nlast\n"}, nil},
		"one":   {"first" + strings.Repeat("0123456789", 10_000) + "last", []string{"first0123", " left out; /save", "last\n"}, nil},
		"image": {"\x89PNG\xff", []string{"f.txt · 5 bytes · `/save PATH` keeps it"}, []string{"PNG"}},
	} {
		s := &script{answer: func(bot.Request) bot.Reply {
			return bot.Reply{Blocks: []bot.Block{{File: &schemas.File{Name: "f.txt", Data: []byte(c.data)}}}}
		}}
		out := talk(t, s, terminal.Options{}, "hello")
		for _, want := range c.shows {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
		for _, no := range c.hides {
			if strings.Contains(out, no) {
				t.Errorf("%s: shows %q", name, no)
			}
		}
		if len(out) > 70<<10 {
			t.Errorf("%s: %d bytes", name, len(out))
		}
	}
}
