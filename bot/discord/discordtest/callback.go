package discordtest

import (
	"encoding/json"
	"time"
)

func number(v any) int {
	if n, ok := v.(json.Number); ok {
		i, _ := n.Int64()
		return int(i)
	}
	return 0
}

// callback takes the first answer to an interaction.
func (f *Fake) callback(c *call) (any, *refusal) {
	x := f.turns[c.r.PathValue("token")]
	if x == nil || x.id != c.r.PathValue("id") {
		return nil, f.broken(404, 10062, "answered an interaction that does not exist")
	}
	if x.first != 0 {
		return nil, f.broken(400, 40060, "answered an interaction twice")
	}
	if late := time.Since(x.born); late > f.opt.AckWait {
		x.first = -1
		f.touch()
		return nil, f.broken(404, 10062, "answered an interaction of type %d after %s", x.kind, late.Round(time.Millisecond))
	}
	kind := number(c.body["type"])
	data, _ := c.body["data"].(map[string]any)
	if no := f.answerable(c, x, kind, data); no != nil {
		return nil, no
	}
	x.first, x.acked = kind, time.Now()
	seen := func() string {
		if number(data["flags"])&(1<<6) != 0 {
			return x.user.ID
		}
		return ""
	}
	switch kind {
	case 4:
		x.original = f.put(&message{channel: x.channel, author: f.BotID, for_: seen()}, c)
	case 5:
		x.original = &message{id: f.id(), channel: x.channel, author: f.BotID, for_: seen(), thinking: true, at: time.Now(), flags: number(data["flags"]), seq: f.touch()}
		f.messages = append(f.messages, x.original)
	case 6:
		x.original = x.on
	case 7:
		x.original = x.on
		f.put(x.on, c)
	case 8:
		x.choices = []string{}
		for _, ch := range list(data["choices"]) {
			name, _ := ch["name"].(string)
			x.choices = append(x.choices, name)
		}
	case 9:
		x.modal = data
	}
	f.touch()
	return nil, nil
}

// answerable judges a first answer.
func (f *Fake) answerable(c *call, x *ix, kind int, data map[string]any) *refusal {
	bad := func(format string, a ...any) *refusal { return f.broken(400, 50035, format, a...) }
	if (kind == 8) != (x.kind == 4) {
		return bad("callback %d for an interaction of type %d", kind, x.kind)
	}
	if (kind == 6 || kind == 7) && x.on == nil {
		return bad("callback %d where there is no message", kind)
	}
	switch kind {
	case 4:
		return f.judge(c, "IncomingWebhookUpdateForInteractionCallbackRequestPartial", data, nil)
	case 7:
		return f.judge(c, "IncomingWebhookUpdateForInteractionCallbackRequestPartial", data, x.on)
	case 5:
		for k := range data {
			if k != "flags" || number(data[k]) != 1<<6 {
				return bad("a deferral with %s", k)
			}
		}
	case 6:
		if len(data) > 0 {
			return bad("a deferred update with data")
		}
	case 8:
		if data["choices"] == nil || len(list(data["choices"])) > 25 {
			return bad("an autocompletion with %d choices", len(list(data["choices"])))
		}
		for _, ch := range list(data["choices"]) {
			name, _ := ch["name"].(string)
			value, _ := ch["value"].(string)
			if n := units(name); n < 1 || n > 100 || units(value) > 100 || units(value) < 1 {
				return bad("a suggestion of %d characters", n)
			}
		}
	case 9:
		if x.kind == 5 || x.kind == 4 {
			return bad("a modal in answer to an interaction of type %d", x.kind)
		}
		if no := f.conforms("ModalInteractionCallbackRequest", c.body); no != nil {
			return no
		}
		return f.modal(data)
	default:
		return bad("callback of type %d", kind)
	}
	return nil
}

// hook finds the interaction of a webhook's token.
func (f *Fake) hook(c *call) (*ix, *refusal) {
	x := f.turns[c.r.PathValue("token")]
	switch {
	case x == nil || c.r.PathValue("app") != f.AppID:
		return nil, f.broken(404, 10015, "Unknown Webhook")
	case x.first <= 0:
		return nil, f.broken(404, 10015, "followed up an interaction before its first answer")
	case time.Since(x.born) > f.opt.TokenLife:
		return nil, f.refuse(401, 50027, "Invalid Webhook Token")
	}
	return x, nil
}

func (f *Fake) named(x *ix, id string) *message {
	if id == "@original" {
		if x.original != nil && !x.original.gone {
			return x.original
		}
		return nil
	}
	for _, m := range f.messages {
		if m.id == id && m.channel == x.channel && m.author == f.BotID && !m.gone {
			return m
		}
	}
	return nil
}

func (f *Fake) patchWebhook(c *call) (any, *refusal) {
	x, no := f.hook(c)
	if no != nil {
		return nil, no
	}
	m := f.named(x, c.r.PathValue("message"))
	if m == nil {
		return nil, f.refuse(404, 10008, "Unknown Message")
	}
	if no := f.judge(c, "IncomingWebhookUpdateRequestPartial", c.body, m); no != nil {
		return nil, no
	}
	f.put(m, c)
	return f.messageJSON(m, true), nil
}

func (f *Fake) deleteWebhook(c *call) (any, *refusal) {
	x, no := f.hook(c)
	if no != nil {
		return nil, no
	}
	m := f.named(x, c.r.PathValue("message"))
	if m == nil {
		return nil, f.refuse(404, 10008, "Unknown Message")
	}
	m.gone, m.thinking, m.seq = true, false, f.touch()
	return nil, nil
}

func (f *Fake) followup(c *call) (any, *refusal) {
	x, no := f.hook(c)
	if no != nil {
		return nil, no
	}
	if no := f.judge(c, "IncomingWebhookRequestPartial", c.body, nil); no != nil {
		return nil, no
	}
	if x.original != nil && x.original.thinking && !x.original.gone { // the first one fills in the deferred answer, and is seen by who saw that
		return f.messageJSON(f.put(x.original, c), true), nil
	}
	m := &message{channel: x.channel, author: f.BotID}
	if number(c.body["flags"])&(1<<6) != 0 {
		m.for_ = x.user.ID
	}
	return f.messageJSON(f.put(m, c), true), nil
}
