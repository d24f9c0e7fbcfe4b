package discordtest

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Turn is one interaction from the member's side.
type Turn struct {
	Ack      time.Duration // until the first answer
	Deferred bool
	Modal    *Modal
	Choices  []string

	s *Seat
	x *ix
}

// interact sends an interaction.
func (s *Seat) interact(kind int, data map[string]any, on *message) *Turn {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	x := &ix{id: f.id(), kind: kind, user: s.user, channel: s.at, on: on, born: time.Now(), from: f.change}
	x.token = "aW50ZXJhY3Rpb246" + x.id + "tok" + x.id
	f.turns[x.token] = x
	p := map[string]any{"id": x.id, "application_id": f.AppID, "type": kind, "token": x.token, "version": 1, "channel_id": s.at.ID, "data": data, "locale": "en-US",
		"app_permissions": strconv.FormatUint(Default, 10), "entitlements": []any{}, "attachment_size_limit": 10 << 20, "authorizing_integration_owners": map[string]any{"0": "0"}}
	ch := s.at.json()
	p["channel"] = ch
	if g := s.at.guild; g != nil {
		ch["permissions"] = strconv.FormatUint(g.members[s.user.ID], 10)
		p["guild_id"], p["guild_locale"], p["context"] = g.ID, "en-US", 0
		p["guild"] = map[string]any{"id": g.ID, "locale": "en-US", "features": []any{}}
		p["member"] = f.memberJSON(g, s.user.ID, true)
	} else {
		p["user"], p["context"] = f.userJSON(s.user.ID), 1
	}
	if on != nil {
		p["message"] = f.messageJSON(on, true)
	}
	f.dispatch(s.at.guild, "INTERACTION_CREATE", p)
	return &Turn{s: s, x: x}
}

// Wait waits for the first answer.
func (t *Turn) Wait() *Turn {
	f := t.s.f
	f.t.Helper()
	f.until(t.s.f.opt.AckWait+2*time.Second, "the first answer to an interaction", func() bool { return t.x.first != 0 })
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Ack, t.Choices = t.x.acked.Sub(t.x.born), t.x.choices
	t.Deferred = t.x.first == 5 || t.x.first == 6
	if t.x.modal != nil && t.Modal == nil {
		t.Modal = t.read(t.x.modal)
	}
	return t
}

func (t *Turn) read(data map[string]any) *Modal {
	m := &Modal{turn: t}
	m.Title, _ = data["title"].(string)
	m.CustomID, _ = data["custom_id"].(string)
	for _, p := range list(data["components"]) {
		var x ModalField
		x.Label, _ = p["label"].(string)
		x.Description, _ = p["description"].(string)
		c, _ := p["component"].(map[string]any)
		x.Kind, x.Style, x.max = number(c["type"]), number(c["style"]), 4000
		x.CustomID, _ = c["custom_id"].(string)
		x.Value, _ = c["value"].(string)
		x.Required = c["required"] != false
		if n := number(c["max_length"]); n > 0 {
			x.max = n
		}
		for _, o := range list(c["options"]) {
			l, _ := o["label"].(string)
			v, _ := o["value"].(string)
			x.Options, x.values = append(x.Options, l), append(x.values, v)
			if o["default"] == true {
				x.Value = l
			}
		}
		m.Fields = append(m.Fields, x)
	}
	return m
}

// Done waits until the answer is there and rests, and gives the text that this member sees through it.
func (t *Turn) Done() string {
	f := t.s.f
	f.t.Helper()
	t.Wait()
	if t.Modal != nil {
		text := []string{t.Modal.Title}
		for _, x := range t.Modal.Fields {
			text = append(text, x.Label+" "+x.Description+" "+x.Value)
		}
		return strings.Join(text, "\n")
	}
	f.until(time.Minute, "the answer to an interaction, which was put off", func() bool {
		return !(t.x.original != nil && t.x.original.thinking) && (t.x.first != 6 || len(t.news()) > 0)
	})
	for {
		f.mu.Lock()
		at := f.change
		f.mu.Unlock()
		time.Sleep(150 * time.Millisecond)
		f.mu.Lock()
		news := t.news()
		still := f.change == at || len(news) > 0 && news[len(news)-1].seq <= at
		f.mu.Unlock()
		if still {
			var text []string
			for _, m := range news {
				text = append(text, m.Text)
				t.s.heard = max(t.s.heard, m.seq)
			}
			return strings.Join(text, "\n")
		}
	}
}

// news is what changed for this member since the interaction. The caller holds mu.
func (t *Turn) news() []*Message {
	return slices.DeleteFunc(t.s.visible(), func(m *Message) bool { return m.seq <= t.x.from || m.Author != t.s.f.BotID || m.Thinking })
}
