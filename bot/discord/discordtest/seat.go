package discordtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Seat is a member who looks at a channel. It is used by one goroutine at a time; several seats may be busy at once.
type Seat struct {
	f     *Fake
	user  *User
	at    *Channel
	heard int // the change that was looked at last
}

// As puts a member into a channel.
func (f *Fake) As(u *User, c *Channel) *Seat {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &Seat{f: f, user: u, at: c, heard: f.change}
}

// Message is what a member sees of a message.
type Message struct {
	ID, Author, Text string
	Ephemeral, V2    bool
	Thinking         bool // "is thinking …"
	Buttons          []Button
	Selects          []Select
	Files            []File
	Raw              string
	Pings            []string

	seq int
	m   *message
}

// Button is one that a member may press.
type Button struct {
	Label, CustomID, URL string
	Disabled             bool
	Style                int
}

// Select is a select menu; a Modal's, too.
type Select struct {
	CustomID string
	Labels   []string
	Values   []string
}

// Modal is a form as a member sees it.
type Modal struct {
	Title, CustomID string
	Fields          []ModalField

	turn *Turn
}

// ModalField is one field; Kind is 4 for a text, 3 for a select menu.
type ModalField struct {
	CustomID, Label, Description, Value string
	Kind, Style                         int
	Options                             []string
	values                              []string
	Required                            bool
	max                                 int
}

func (f *Fake) see(u *User, m *message) *Message {
	out := &Message{ID: m.id, Author: m.author, Ephemeral: m.for_ != "", V2: m.flags&(1<<15) != 0, Thinking: m.thinking, Files: m.files, seq: m.seq, m: m}
	var text []string
	if m.content != "" {
		text = append(text, m.content)
	}
	var walk func(v any)
	walk = func(v any) {
		c, _ := v.(map[string]any)
		str := func(k string) string { s, _ := c[k].(string); return s }
		switch number(c["type"]) {
		case 2:
			b := Button{Label: str("label"), CustomID: str("custom_id"), URL: str("url"), Disabled: c["disabled"] == true, Style: number(c["style"])}
			out.Buttons = append(out.Buttons, b)
			text = append(text, "["+b.Label+"]")
		case 3:
			s := Select{CustomID: str("custom_id")}
			for _, o := range list(c["options"]) {
				l, _ := o["label"].(string)
				v, _ := o["value"].(string)
				s.Labels, s.Values = append(s.Labels, l), append(s.Values, v)
			}
			out.Selects = append(out.Selects, s)
			text = append(text, "["+strings.Join(s.Labels, "|")+"]")
		case 10:
			text = append(text, str("content"))
		}
		inner, _ := c["components"].([]any)
		for _, x := range inner {
			walk(x)
		}
	}
	for _, c := range m.components {
		walk(c)
	}
	for _, x := range m.files {
		text = append(text, "("+x.Name+")")
	}
	if m.thinking {
		text = append(text, "is thinking …")
	}
	out.Text = strings.Join(text, "\n")
	raw, _ := json.Marshal(m.raw)
	out.Raw = string(raw)
	if mentions, ok := m.raw["allowed_mentions"].(map[string]any); ok {
		users, _ := mentions["users"].([]any)
		for _, id := range users {
			out.Pings = append(out.Pings, fmt.Sprint(id))
		}
	}
	return out
}

// visible lists what the member sees. The caller holds mu.
func (s *Seat) visible() []*Message {
	var all []*Message
	for _, m := range s.f.messages {
		if m.channel == s.at && !m.gone && (m.for_ == "" || m.for_ == s.user.ID) {
			all = append(all, s.f.see(s.user, m))
		}
	}
	return all
}

// Messages gives what the member sees now, oldest first.
func (s *Seat) Messages() []*Message {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.visible()
}

// Transcript is everything that the member sees, for failures.
func (s *Seat) Transcript() string {
	var b strings.Builder
	for _, m := range s.Messages() {
		who := m.Author
		if who == s.f.BotID {
			who = "bobbin"
		} else if u := s.f.users[who]; u != nil {
			who = u.Name
		}
		if m.Ephemeral {
			who += " (only " + s.user.Name + " sees this)"
		}
		fmt.Fprintf(&b, "── %s\n%s\n", who, m.Text)
	}
	return b.String()
}

// Wait waits for a message of the bot that is new or edited since the last Wait, and matches.
func (s *Seat) Wait(pattern string, d time.Duration) *Message {
	s.f.t.Helper()
	re := regexp.MustCompile("(?s)" + pattern)
	var found *Message
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		s.f.mu.Lock()
		for _, m := range s.visible() {
			if m.Author == s.f.BotID && m.seq > s.heard && re.MatchString(m.Text) && (found == nil || m.seq < found.seq) {
				found = m
			}
		}
		wake := s.f.changed
		s.f.mu.Unlock()
		if found != nil {
			s.heard = found.seq
			return found
		}
		select {
		case <-wake:
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.f.t.Fatalf("%s waited %s for %q; sees\n%s", s.user.Name, d, pattern, s.Transcript())
	return nil
}

// Say writes a message. "@bot" becomes a mention of the bot.
func (s *Seat) Say(text string, files ...File) string { return s.say(text, "", files) }

// Reply writes in reply to a message.
func (s *Seat) Reply(id, text string) string { return s.say(text, id, nil) }

func (s *Seat) say(text, reply string, files []File) string {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &message{id: f.id(), channel: s.at, author: s.user.ID, files: files, reply: reply, at: time.Now(), seq: f.touch()}
	m.content = strings.ReplaceAll(text, "@bot", "<@"+f.BotID+">")
	if m.content != text {
		m.mentions = []string{f.BotID}
	}
	s.at.last = m.id
	s.at.archived = false
	f.messages = append(f.messages, m)
	for k := range f.sockets {
		if k.ready && k.of(s.at.guild) {
			full := k.content || s.at.guild == nil || len(m.mentions) > 0
			k.event("MESSAGE_CREATE", f.messageJSON(m, full))
		}
	}
	return m.id
}

// Slash uses a command: "mcp add-json" with options by name; a File is an attachment.
func (s *Seat) Slash(line string, options map[string]any) *Turn {
	s.f.t.Helper()
	if s.at.archived {
		s.f.t.Fatal("Discord's client offers no commands in an archived thread")
	}
	data, problem := s.invocation(line, options, "")
	if problem != "" {
		s.f.t.Fatalf("/%s: %s", line, problem)
	}
	return s.interact(2, data, nil)
}

// Complete asks for suggestions while an option is typed.
func (s *Seat) Complete(line, option, typed string) []string {
	s.f.t.Helper()
	data, problem := s.invocation(line, map[string]any{option: typed}, option)
	if problem != "" {
		s.f.t.Fatalf("/%s: %s", line, problem)
	}
	t := s.interact(4, data, nil).Wait()
	return t.Choices
}

// invocation builds a command's payload as Discord's client would, which knows only what was registered.
func (s *Seat) invocation(line string, given map[string]any, focus string) (map[string]any, string) {
	f := s.f
	f.until(10*time.Second, "a registered command", func() bool { return len(f.commands) > 0 })
	f.mu.Lock()
	defer f.mu.Unlock()
	words := strings.Fields(strings.TrimPrefix(line, "/"))
	var at map[string]any
	level := f.commands
	var path []map[string]any
	for _, w := range words {
		i := slices.IndexFunc(level, func(c map[string]any) bool { return c["name"] == w })
		if i < 0 {
			return nil, "there is no such command"
		}
		at = level[i]
		level = list(at["options"])
		path = append(path, at)
	}
	if at == nil || len(level) > 0 && number(level[0]["type"]) <= 2 {
		return nil, "that is a group, it cannot be used"
	}
	resolved := map[string]any{}
	options := []any{}
	used := map[string]bool{}
	for _, o := range level {
		name, _ := o["name"].(string)
		v, ok := given[name]
		used[name] = true
		if !ok {
			if o["required"] == true && focus == "" {
				return nil, "option " + name + " is required"
			}
			continue
		}
		one := map[string]any{"name": name, "type": number(o["type"]), "value": v}
		if x, is := v.(File); is {
			if number(o["type"]) != 11 {
				return nil, "option " + name + " takes no file"
			}
			a := f.host(s.at, x)
			id, _ := a["id"].(string)
			resolved[id] = a
			one["value"] = id
		} else if text, is := v.(string); is {
			if number(o["type"]) == 3 {
				text = strings.ReplaceAll(text, "\n", " ") // the client's box has one line
				one["value"] = text
			}
			limit := 6000
			if n := number(o["max_length"]); n > 0 {
				limit = n
			}
			if units(text) > limit {
				return nil, fmt.Sprintf("option %s takes %d characters", name, limit)
			}
			if choices := list(o["choices"]); len(choices) > 0 && !slices.ContainsFunc(choices, func(c map[string]any) bool { return c["value"] == text }) {
				return nil, "option " + name + " has no choice " + text
			}
		}
		if name == focus {
			one["focused"] = true
			if o["autocomplete"] != true {
				return nil, "option " + name + " has no autocompletion"
			}
		}
		options = append(options, one)
	}
	for name := range given {
		if !used[name] {
			return nil, "there is no option " + name
		}
	}
	for i := len(path) - 1; i > 0; i-- {
		options = []any{map[string]any{"name": path[i]["name"], "type": number(path[i]["type"]), "options": options}}
	}
	data := map[string]any{"id": "1", "type": 1, "name": words[0], "options": options}
	if len(resolved) > 0 {
		data["resolved"] = map[string]any{"attachments": resolved}
	}
	return data, ""
}

// Press presses a button of the newest message that has one with that label, or one that begins so.
func (s *Seat) Press(label string) *Turn {
	s.f.t.Helper()
	all := s.Messages()
	for _, exact := range []bool{true, false} {
		for _, m := range slices.Backward(all) {
			for _, b := range m.Buttons {
				if !b.Disabled && b.URL == "" && (b.Label == label || !exact && strings.HasPrefix(b.Label, label)) {
					return s.interact(3, map[string]any{"custom_id": b.CustomID, "component_type": 2, "id": 1}, m.m)
				}
			}
		}
	}
	s.f.t.Fatalf("%s sees no button %q:\n%s", s.user.Name, label, s.Transcript())
	return nil
}

// PressOn presses a button of one message.
func (s *Seat) PressOn(id, label string) *Turn {
	s.f.t.Helper()
	for _, m := range s.Messages() {
		for _, b := range m.Buttons {
			if m.ID == id && b.Label == label && b.URL == "" {
				return s.PressID(m, b.CustomID)
			}
		}
	}
	s.f.t.Fatalf("message %s has no button %q:\n%s", id, label, s.Transcript())
	return nil
}

// PressID presses a button by its custom id, also one that a client no longer shows.
func (s *Seat) PressID(m *Message, id string) *Turn {
	return s.interact(3, map[string]any{"custom_id": id, "component_type": 2, "id": 1}, m.m)
}

// Choose picks an option of the newest select menu that has it.
func (s *Seat) Choose(label string) *Turn {
	s.f.t.Helper()
	for _, m := range slices.Backward(s.Messages()) {
		for _, c := range m.Selects {
			if i := slices.Index(c.Labels, label); i >= 0 {
				return s.interact(3, map[string]any{"custom_id": c.CustomID, "component_type": 3, "id": 1, "values": []string{c.Values[i]}}, m.m)
			}
		}
	}
	s.f.t.Fatalf("%s sees no option %q:\n%s", s.user.Name, label, s.Transcript())
	return nil
}

// Submit sends a modal, values by the order of its fields: "" keeps what stands there, "-" empties it.
func (s *Seat) Submit(m *Modal, values ...string) *Turn {
	s.f.t.Helper()
	if m == nil {
		s.f.t.Fatalf("there is no modal; %s sees\n%s", s.user.Name, s.Transcript())
	}
	parts := []any{}
	for i, field := range m.Fields {
		v := field.Value
		if i < len(values) && values[i] != "" {
			v = values[i]
		}
		if v == "-" {
			v = ""
		}
		if v == "" && field.Required {
			s.f.t.Fatalf("Discord's client wants a value for %q", field.Label)
		}
		inner := map[string]any{"type": field.Kind, "id": i + 10, "custom_id": field.CustomID}
		if field.Kind == 3 {
			chosen := []string{}
			if k := slices.Index(field.Options, v); k >= 0 {
				chosen = []string{field.values[k]}
			} else if v != "" {
				s.f.t.Fatalf("%q has no option %q, but %q", field.Label, v, field.Options)
			}
			inner["values"] = chosen
		} else {
			if units(v) > field.max {
				s.f.t.Fatalf("%q takes %d characters", field.Label, field.max)
			}
			inner["value"] = v
		}
		parts = append(parts, map[string]any{"type": 18, "id": i + 1, "component": inner})
	}
	if len(values) > len(m.Fields) {
		s.f.t.Fatalf("the modal %q has %d fields, not %d", m.Title, len(m.Fields), len(values))
	}
	return s.interact(5, map[string]any{"custom_id": m.CustomID, "components": parts}, m.turn.x.on)
}
