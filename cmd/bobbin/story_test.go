package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bobbin/bot/discord/discordtest"
)

// step is one thing that a person does, and what every door must then show.
type step struct {
	say    string   // types a line
	choose string   // presses what the newest card offers under this label
	fill   []string // answers the newest form, field by field; "" keeps what stands there
	upload string   // gives a file of this content, named mcp.json
	edit   string   // another program renames this content into the place of mcp.json
	form   bool     // what is typed opens a form

	shows  []string // patterns, in any order
	hides  []string
	notice string // comes by itself
}

// story is told in words that a user types. It holds for every door; a new door needs only a driver.
func story(t *testing.T, pids string) []step {
	demo := config(t, map[string]any{"demo": fake(pids)})
	secret := "ghp_1234567890abcdefghij1234567890abcdef"
	return []step{
		{say: "/mcp list", shows: []string{"No MCP servers configured", "/mcp add"}},
		{say: "/mcp nonsense", shows: []string{"no such verb", "/mcp help"}},
		{say: "/mcp add-json {\"mcpServers\":{\"x\":{\"comand\":\"node\"}}}", shows: []string{`unknown key "comand"`, `did you mean "command"`, "nothing was changed"}},

		{say: "/mcp add-json " + demo, shows: []string{"1 added: demo", "runs fakemcp", "NOT isolated", "everyone in this thread", `\+.*"command": "fakemcp"`, "Confirm only if you trust", "Cancel"}},
		{choose: "Cancel", shows: []string{"cancelled|left as it was|nothing was changed"}},
		{say: "/mcp list", shows: []string{"No MCP servers configured"}},

		{say: "/mcp add", form: true, shows: []string{"add a local server"}},
		{
			fill:  []string{"demo", "fakemcp", `slow '1'`, `GITHUB_TOKEN=` + secret + `\nNOTE=two words`, ""},
			shows: []string{"1 added: demo", "runs fakemcp slow 1", "GITHUB_TOKEN", "vault", `\$\{input:GITHUB_TOKEN\}`}, hides: []string{secret},
		},
		{choose: "Confirm", shows: []string{"demo is ready", "9 tools"}, hides: []string{secret}},
		{say: "/mcp list", shows: []string{"local", "demo (· )?ready (· )?9 tools (· )?yours"}},
		{say: "/mcp show demo", shows: []string{"fakemcp slow 1", "GITHUB_TOKEN"}, hides: []string{secret}},
		{say: "/mcp secrets", shows: []string{"GITHUB_TOKEN", "demo"}, hides: []string{secret}},
		{say: "/mcp tools demo", shows: []string{"demo.echo.*runs", "demo.add.*asks", "demo.execute_command.*(blocked|denied)"}},
		{say: `/mcp call demo.echo {"message":"hi"}`, shows: []string{"Echo: hi", "as you", "receipt [0-9a-f]+"}},
		{say: `/mcp call demo.add {"a":"one"}`, shows: []string{"2 mistakes", `"?b"? is (missing|needed)`, "must be"}},
		{say: "/mcp call demo.add", form: true, shows: []string{"demo.add"}},
		{fill: []string{"20", "22"}, shows: []string{`\b42\b`}},
		{say: `/mcp call demo.execute_command {"command":"ls"}`, shows: []string{"denied", "/mcp policy allow demo.execute_command"}},
		{say: "/mcp call demo.ecko {}", shows: []string{"no tool", "did you mean demo.echo"}},
		{say: `/mcp call demo.fail {}`, shows: []string{"demo.fail says that it failed", "it always fails"}},

		{upload: `{"mcpServers": {"web": {"url": "https://mcp.example.com/mcp"}}}`, shows: []string{"remote servers are added with .?/mcp connect", "Leave it"}},
		{choose: "Leave it", shows: []string{"nothing was added"}},
		{upload: config(t, map[string]any{"second": fake(pids)}), shows: []string{"1 added: second"}},
		{choose: "Confirm", shows: []string{"second is ready"}},
		{edit: demo, notice: `edited outside of chat.*second`},
		{choose: "Put back", shows: []string{"demo"}},

		{say: "/mcp policy deny demo.*", shows: []string{"demo.* is on the deny list"}},
		{say: `/mcp call demo.echo {"message":"hi"}`, shows: []string{"denies", `/mcp policy forget demo\.\*`}, hides: []string{"Echo: hi"}},
		{say: "/mcp policy forget demo.*", shows: []string{"taken back"}},
		{say: "/mcp policy allow demo.execute_command", shows: []string{"demo.execute_command", "shell", "Confirm"}},
		{choose: "Confirm", shows: []string{"on the allow list"}},
		{say: `/mcp call demo.execute_command {"command":"ls"}`, shows: []string{`\bdone\b`}},

		{say: "/mcp disable demo", shows: []string{"demo is off"}},
		{say: `/mcp call demo.echo {"message":"hi"}`, shows: []string{"/mcp enable demo|no tool|off"}, hides: []string{"Echo: hi"}},
		{say: "/mcp remove dem", shows: []string{"no server dem", "did you mean demo"}},
		{say: "/mcp remove demo", shows: []string{"1 removed: demo", `-.*"command": "fakemcp"`}},
		{choose: "Confirm", shows: []string{"demo is removed"}},
		{say: "/mcp list", hides: []string{`demo\s+(ready|off)`}},
		{say: "/mcp history", shows: []string{"removed: demo", "@operator", "/mcp (history )?undo"}},
		{say: "/mcp audit 60", shows: []string{"demo.echo", "refused", "demo.execute_command", "as you|@operator"}, hides: []string{secret, `"message"`}},
	}
}

// door is what a driver offers: one thing done, all that is then shown to this person.
type door interface {
	say(line string) string
	form(line string) string // a line that opens a form
	choose(label string) string
	fill(answers ...string) string
	upload(name, content string) string
	notice(pattern string) string
}

// TestOneStory tells the same story at every door.
func TestOneStory(t *testing.T) {
	doors := []struct {
		name string
		open func(t *testing.T, data string) (at door, thread, who string)
	}{
		{"terminal", func(t *testing.T, data string) (door, string, string) {
			return &pipe{process: chat(t, data), folder: t.TempDir()}, "t1", "operator"
		}},
		{"page", func(t *testing.T, data string) (door, string, string) {
			return serve(t, data).open(t, "t1"), "t1", "operator"
		}},
		{"discord", func(t *testing.T, data string) (door, string, string) {
			f := discordtest.New(t, discordtest.Options{})
			g := f.Guild("Test")
			ann := f.User("ann")
			at := newSeat(t, f, ann, g.Channel("general").Thread(ann, "tools"))
			serveDiscord(t, f, data)
			return at, at.thread, "ann"
		}},
	}
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			data := t.TempDir()
			at, thread, who := d.open(t, data)
			for _, s := range story(t, filepath.Join(t.TempDir(), "pids")) {
				var what, text string
				switch {
				case s.form:
					what, text = s.say, at.form(s.say)
				case s.say != "":
					what, text = s.say, at.say(s.say)
				case s.choose != "":
					what, text = "choosing "+s.choose, at.choose(s.choose)
				case s.fill != nil:
					what, text = "filling "+strings.Join(s.fill, ", "), at.fill(s.fill...)
				case s.upload != "":
					what, text = "uploading "+s.upload, at.upload("mcp.json", s.upload)
				case s.edit != "":
					rename(t, filepath.Join(data, "users", thread, "mcp.json"), s.edit)
					what, text = "editing", at.notice(s.notice)
				}
				text = strings.Join(strings.Fields(text), " ")
				for _, p := range s.shows {
					if p = strings.ReplaceAll(p, "@operator", "@"+who); !matches(p, text) {
						t.Errorf("%s: no %q in\n%s", clip(what), p, clip(text))
					}
				}
				for _, p := range s.hides {
					if matches(p, text) {
						t.Errorf("%s: %q in\n%s", clip(what), p, clip(text))
					}
				}
			}
		})
	}
}

// pipe drives the terminal door on a pipe.
type pipe struct {
	*process
	folder string
}

func (p *pipe) say(line string) string { p.t.Helper(); return p.do(line) }

func (p *pipe) form(line string) string {
	p.t.Helper()
	p.process.say(line)
	return p.hear(`(.*) > $`)[1]
}

func (p *pipe) choose(label string) string { p.t.Helper(); return p.do(label) }

func (p *pipe) fill(answers ...string) string { p.t.Helper(); return p.do(strings.Join(answers, "\n")) }

func (p *pipe) upload(name, content string) string {
	p.t.Helper()
	file := filepath.Join(p.folder, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return p.do("/mcp upload " + file)
}

func (p *pipe) notice(pattern string) string {
	p.t.Helper()
	return p.hear(pattern + `.*?` + regexp.QuoteMeta("1) ") + `[^\n]*\n`)[0]
}
