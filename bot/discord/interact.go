package discord

import (
	"context"
	"strconv"
	"strings"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// Times of an interaction. Discord wants the first answer within 3 s.
const (
	ackWait      = time.Second // for the bot's reply, before the answer is put off
	completeWait = 1500 * time.Millisecond
	restWait     = time.Minute // for what is sent after the first answer
	progressWait = 5 * time.Second
)

// interaction answers one interaction. It runs in a goroutine of its own.
func (d *Door) interaction(ctx context.Context, i wire.Interaction) {
	t := &turn{d: d, i: i, caller: d.caller(i), began: time.Now()}
	defer func() {
		if p := recover(); p != nil {
			ref := reference()
			d.opt.Log.Error("discord: an interaction broke", "ref", ref, "panic", d.rest.Redact(sprint(p)), "stack", d.rest.Redact(stack()))
			if i.Type == wire.Typing { // it takes suggestions and no words
				t.suggest(ctx, nil)
				return
			}
			t.answer(ctx, bot.Reply{Bad: true, Private: true, Code: schemas.CodeInternal,
				Blocks: []bot.Block{{Text: "something went wrong on my side, reference " + ref + "; the operator can find it in the log. Your config is unchanged"}}})
		}
	}()
	switch i.Type {
	case wire.Pinged:
		t.ack(ctx, wire.Callback{Type: wire.CallbackPong})
	case wire.Typing:
		t.complete(ctx)
	case wire.Commanded:
		t.command(ctx)
	case wire.Pressed:
		t.press(ctx)
	case wire.Submitted:
		t.submit(ctx)
	default:
		d.opt.Log.Debug("discord: an interaction of a kind that is not known", "type", int(i.Type))
	}
}

// given reads a command's path and options: "history show" with {"id": …}.
func given(options []wire.Option) (verb string, args []wire.Option) {
	var words []string
	for len(options) == 1 && (options[0].Type == wire.SubCommand || options[0].Type == wire.SubCommandGroup) {
		words = append(words, options[0].Name)
		options = options[0].Options
	}
	return strings.Join(words, " "), options
}

func (t *turn) command(ctx context.Context) {
	verb, options := given(t.i.Data.Options)
	if t.i.Data.Name == "chat" {
		verb = "chat " + verb
	}
	r := bot.Request{Caller: t.caller, Verb: verb, Args: map[string]string{}}
	t.private = t.help() || verb == "chat usage" || strings.HasPrefix(verb, "secrets")
	for _, o := range options {
		if o.Type != wire.AttachmentOption {
			r.Args[o.Name] = o.Text()
			continue
		}
		a, ok := t.i.Data.Resolved.Attachments[o.Text()]
		if !ok {
			t.answer(ctx, no("the file did not come along · attach it again"))
			return
		}
		t.later(ctx, false) // a file may take its time
		file, refusal := t.d.config(ctx, wire.Message{ChannelID: t.i.ChannelID, Attachments: []wire.Attachment{a}}, "/mcp upload")
		if refusal != nil {
			t.answer(ctx, *refusal)
			return
		}
		r.File = file
	}
	t.ask(ctx, r)
}

// complete suggests values for the option that is being typed.
func (t *turn) complete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	verb, options := given(t.i.Data.Options)
	typed, name := "", ""
	values := map[string]string{}
	for _, o := range options {
		values[o.Name] = o.Text()
		if o.Focused {
			typed, name = o.Text(), o.Name
		}
	}
	line, verbs := "/mcp "+verb+" ", t.d.opt.Bot.Verbs
	if t.i.Data.Name == "chat" {
		line, verbs = "/chat "+verb+" ", t.d.opt.Bot.ChatVerbs
	}
	for _, v := range verbs() {
		if v.Name != verb {
			continue
		}
		for _, a := range v.Args { // the bot completes typed lines, in which arguments have an order
			if a.Name == name {
				break
			}
			word := values[a.Name]
			if word == "" || strings.ContainsAny(word, " \t\n\"") {
				word = "-"
			}
			line += word + " "
		}
	}
	var found []wire.Choice
	if name != "" && !strings.ContainsAny(typed, " \t\n") {
		for _, l := range t.d.opt.Bot.Complete(ctx, t.caller, line+typed) {
			word, ok := strings.CutPrefix(l, line)
			if word = schemas.Clean(word, true); ok && word != "" && len([]rune(word)) <= wire.MaxOptionText && len(found) < wire.MaxOptions {
				found = append(found, wire.Choice{Name: word, Value: word})
			}
		}
	}
	t.suggest(ctx, found)
}

func (t *turn) suggest(ctx context.Context, found []wire.Choice) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), completeWait)
	defer cancel()
	t.ack(ctx, wire.Callback{Type: wire.CallbackAutocomplete, Choices: found})
}

func (t *turn) press(ctx context.Context) {
	s, ok := t.d.deck.find(t.i.Data.CustomID)
	if !ok {
		t.answer(ctx, over())
		return
	}
	if s.member != "" && s.member != t.caller.Member {
		t.answer(ctx, bot.Reply{Bad: true, Private: true, Code: schemas.CodeDenied, Blocks: []bot.Block{{Text: "that is for " + s.name + " alone; nothing was done"}}})
		return
	}
	t.id, t.on, t.sharp = s.reply.ID, s.reply, true
	switch s.does {
	case choose:
		t.how = t.caller.Name + " chose " + s.choice.Label
		t.ask(ctx, bot.Request{Caller: t.caller, Action: &bot.Action{ID: s.reply.ID, Choice: s.choice.Key}})
	case pick:
		n := -1
		if len(t.i.Data.Values) == 1 {
			if v, err := strconv.Atoi(t.i.Data.Values[0]); err == nil {
				n = v
			}
		}
		if n < 0 || n >= len(s.reply.Choices) {
			t.answer(ctx, over())
			return
		}
		t.how = t.caller.Name + " chose " + s.reply.Choices[n].Label
		t.ask(ctx, bot.Request{Caller: t.caller, Action: &bot.Action{ID: s.reply.ID, Choice: s.reply.Choices[n].Key}})
	case open:
		t.form(ctx, &draft{reply: s.reply, on: s.reply, member: t.caller.Member, values: map[string]string{}}, 0)
	case next:
		t.form(ctx, s.draft, s.page)
	case show:
		t.sharp = false
		if formOnly(s.reply) {
			t.form(ctx, &draft{reply: s.reply, member: t.caller.Member, values: map[string]string{}}, 0)
			return
		}
		r := s.reply
		r.Private = true
		t.answer(ctx, r)
	case refresh:
		t.again(ctx, s.work)
	default:
		t.answer(ctx, over())
	}
}

func over() bot.Reply {
	return bot.Reply{Bad: true, Private: true, Code: schemas.CodeExpired, Blocks: []bot.Block{{
		Text: "this card is no longer open: it was answered, its time is over, or I was restarted since · run the command again, or see `/mcp list`"}}}
}

// formOnly reports whether a reply is nothing but a form, which can then be the first answer.
func formOnly(r bot.Reply) bool {
	return r.Form != nil && len(r.Form.Fields) > 0 && len(r.Blocks) == 0 && len(r.Choices) == 0
}

// form opens a page of a form; it has to be the first answer.
func (t *turn) form(ctx context.Context, f *draft, page int) {
	f.mu.Lock()
	m, fits := draw.Modal(*f.reply.Form, page, f.values, t.d.deck.deal(slot{does: fill, draft: f, page: page, reply: f.reply, member: f.member, expires: f.reply.Expires}))
	f.mu.Unlock()
	if !fits {
		t.answer(ctx, no("a value here is longer than the 4,000 characters that a form in Discord holds · `/mcp download`, change the file, then `/mcp upload`"))
		return
	}
	if !t.ack(ctx, wire.Callback{Type: wire.CallbackModal, Modal: &m}) {
		t.first = 0
		t.answer(ctx, bot.Reply{Bad: true, Private: true, Code: schemas.CodeInternal, Blocks: []bot.Block{{Text: "the form could not be opened; nothing was changed · give the command once more"}}})
	}
}

// submit takes a modal in: the next page, or all values to the bot.
func (t *turn) submit(ctx context.Context) {
	s, ok := t.d.deck.find(t.i.Data.CustomID)
	if !ok || s.does != fill || s.member != t.caller.Member {
		t.answer(ctx, over())
		return
	}
	f := s.draft
	t.id, t.on, t.sharp = s.reply.ID, f.on, t.i.Message != nil
	f.mu.Lock()
	for k, v := range draw.Values(*f.reply.Form, s.page, t.i.Data.Fields()) {
		f.values[k] = v
	}
	values := map[string]string{}
	for k, v := range f.values {
		values[k] = v
	}
	last := s.page+1 == draw.Pages(*f.reply.Form)
	for _, field := range f.reply.Form.Fields {
		if last && field.Kind == "secret" { // the bot has it, nobody else needs it any more
			delete(f.values, field.Name)
		}
	}
	f.mu.Unlock()
	if !last {
		t.answerPage(ctx, f, s.page+1, draw.Pages(*f.reply.Form))
		return
	}
	t.how = t.caller.Name + " answered"
	t.typed = f
	t.ask(ctx, bot.Request{Caller: t.caller, Action: &bot.Action{ID: f.reply.ID, Values: values}})
}
