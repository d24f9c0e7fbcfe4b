package main

import (
	"regexp"
	"strings"
	"testing"

	"bobbin/bot/discord/discordtest"
)

// serveDiscord starts `bobbin serve` with a bot on the fake Discord, and waits until its commands are there.
func serveDiscord(t testing.TB, f *discordtest.Fake, data string, args ...string) *process {
	t.Helper()
	p := bobbinWith(t, []string{"DISCORD_TOKEN= Bot " + f.Token + "\n", "BOBBIN_LISTEN=127.0.0.1:0"}, data,
		append([]string{"serve", "--discord-api-base", f.URL}, args...)...)
	p.hear(`bobbin is ready`)
	if !eventually(patience, func() bool { return registered(f) }) {
		t.Fatalf("no commands were registered\n%s", clip(p.all()))
	}
	t.Cleanup(func() {
		if strings.Contains(p.all(), f.Token) {
			t.Error("bobbin printed its token")
		}
	})
	return p
}

func registered(f *discordtest.Fake) bool {
	for _, r := range f.Requests() {
		if r.Method == "PUT" && strings.HasSuffix(r.Path, "/commands") && r.Status == 200 {
			return true
		}
	}
	return false
}

// seat drives the door to Discord: a member who looks at one thread and uses commands, buttons and forms as a client offers them.
type seat struct {
	*discordtest.Seat
	t      testing.TB
	f      *discordtest.Fake
	user   *discordtest.User
	thread string
	modal  *discordtest.Modal
}

func newSeat(t testing.TB, f *discordtest.Fake, u *discordtest.User, c *discordtest.Channel) *seat {
	return &seat{Seat: f.As(u, c), t: t, f: f, user: u, thread: c.ID}
}

// command reads a typed line as the slash command that somebody would pick for it; ok is false when there is none.
func command(line string) (name string, options map[string]any, ok bool) {
	verb, rest, _ := strings.Cut(strings.TrimPrefix(line, "/mcp "), " ")
	named := map[string][]string{ // options in the order in which they are typed; the last takes the rest
		"list": nil, "add": nil, "add-json": {"json"}, "show": {"name"}, "edit": {"name"}, "remove": {"name"}, "enable": {"name"}, "disable": {"name"},
		"tools": {"name"}, "call": {"tool", "json"}, "audit": {"which"}, "download": {"format"}, "doctor": {"name"}, "reload": {"name"}, "help": {"topic"},
		"secrets": nil, "history": nil, "undo": nil, "policy": {"pattern"},
	}
	names, ok := named[verb]
	switch verb {
	case "secrets":
		verb = "secrets list"
	case "history":
		verb = "history show"
	case "undo":
		verb = "history undo"
	case "policy":
		sub, more, _ := strings.Cut(rest, " ")
		verb, rest = "policy "+sub, more
	}
	options = map[string]any{}
	if verb == "add-json" && !strings.HasPrefix(rest, "{") {
		options["name"], rest, _ = strings.Cut(rest, " ")
	}
	for i, n := range names {
		value := rest
		if i < len(names)-1 {
			value, rest, _ = strings.Cut(rest, " ")
		}
		if value != "" {
			options[n] = value
		}
	}
	return "mcp " + verb, options, ok
}

func (s *seat) run(line string) *discordtest.Turn {
	s.t.Helper()
	name, options, ok := command(line)
	if !ok {
		s.t.Fatalf("Discord offers no command for %q", line)
	}
	return s.Slash(name, options)
}

// say uses the command; a line for which Discord offers none is written as a message that mentions the bot.
func (s *seat) say(line string) string {
	s.t.Helper()
	if _, _, ok := command(line); ok {
		return plain(s.run(line).Done())
	}
	answer := s.answerTo(s.Say("@bot " + line))
	if len(answer.Buttons) == 1 && answer.Buttons[0].Label == "Show it to me" {
		return s.choose("Show it to me")
	}
	return plain(answer.Text)
}

// answerTo waits for the bot's first visible message after one.
func (s *seat) answerTo(id string) *discordtest.Message {
	s.t.Helper()
	var found *discordtest.Message
	eventually(patience, func() bool {
		after := false
		for _, m := range s.Messages() {
			if after && m.Author == s.f.BotID {
				found = m
				return true
			}
			after = after || m.ID == id
		}
		return false
	})
	if found == nil {
		s.t.Fatalf("no answer\n%s", clip(s.Transcript()))
	}
	return found
}

func (s *seat) form(line string) string {
	s.t.Helper()
	turn := s.run(line)
	turn.Done()
	return s.opened(turn)
}

func (s *seat) opened(turn *discordtest.Turn) string {
	s.t.Helper()
	if s.modal = turn.Modal; s.modal == nil {
		s.t.Fatalf("no form opened\n%s", clip(s.Transcript()))
	}
	text := s.modal.Title
	for _, f := range s.modal.Fields {
		text += "\n" + f.Label + " " + f.Description
	}
	return text
}

func (s *seat) choose(label string) string { s.t.Helper(); return plain(s.Press(label).Done()) }

// fill answers the open form, page by page.
func (s *seat) fill(answers ...string) string {
	s.t.Helper()
	for {
		if s.modal == nil {
			s.t.Fatal("no form is open")
		}
		page := answers[:min(len(s.modal.Fields), len(answers))]
		answers = answers[len(page):]
		for i := range page {
			page[i] = strings.ReplaceAll(page[i], `\n`, "\n")
		}
		turn := s.Submit(s.modal, page...)
		text := turn.Done()
		if len(answers) == 0 {
			return plain(text)
		}
		turn = s.Press("Next")
		turn.Done()
		s.opened(turn)
	}
}

func (s *seat) upload(name, content string) string {
	s.t.Helper()
	return plain(s.Slash("mcp upload", map[string]any{"file": discordtest.File{Name: name, Data: []byte(content)}}).Done())
}

func (s *seat) notice(pattern string) string {
	s.t.Helper()
	return plain(s.Wait(pattern, patience).Text)
}

var (
	escaped = regexp.MustCompile(`\\([[:punct:]])`)
	markup  = regexp.MustCompile("(?m)^```[a-z]*$|^-# |^#+ |\\*\\*|`|\u200b")
)

// plain is what somebody reads of a message: without marks, and with what was escaped.
func plain(text string) string {
	return escaped.ReplaceAllString(markup.ReplaceAllString(text, ""), "$1")
}
