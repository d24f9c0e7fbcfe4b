package discord

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/link"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// Discord's error codes that say that an interaction can no longer be answered, or was (Discord, JSON Error Codes).
const (
	unknownWebhook     = 10015
	unknownInteraction = 10062
	answeredAlready    = 40060
	badToken           = 50027
)

// turn is one interaction on its way to its answer. Its methods are called from one goroutine; the mutex is for progress.
type turn struct {
	d      *Door
	i      wire.Interaction
	caller schemas.Caller
	began  time.Time

	thinking atomic.Bool // the answer was put off and nothing has taken its place yet

	first   int       // type of the first answer; 0 = none yet
	private bool      // the first answer is, or will be, for this member alone
	id      string    // of the reply that is answered
	on      bot.Reply // what stands on the message whose component was used
	sharp   bool      // a component of a message was used, which can be edited
	how     string    // what to say of a card that this settles
	typed   *draft    // what was sent with a form
}

// work is what goes on longer than an interaction can be answered.
type work struct {
	mu    sync.Mutex
	reply *bot.Reply
}

func reference() string       { return strings.ToLower(rand.Text()[:6]) }
func sprint(p any) string     { return fmt.Sprint(p) }
func stack() string           { return string(debug.Stack()) }
func (t *turn) message() bool { return t.sharp && t.i.Message != nil }

// alone reports whether the message whose component was used is seen by this member alone.
func (t *turn) alone() bool { return t.message() && t.i.Message.Flags&wire.Ephemeral != 0 }

// ack gives the first answer.
func (t *turn) ack(ctx context.Context, c wire.Callback) bool {
	t.first = c.Type
	err := t.d.rest.Callback(ctx, t.i, c)
	if err != nil {
		if code := link.CodeOf(err); code == answeredAlready {
			return true
		}
		t.d.opt.Log.Warn("discord: an interaction was not answered", "channel", t.i.ChannelID, "after", time.Since(t.began).Round(time.Millisecond), "err", err)
		t.first = -1
		return false
	}
	if t.i.Type == wire.Commanded || t.i.Type == wire.Pressed || t.i.Type == wire.Submitted {
		t.d.seats.sit(t.i, t.caller.Member, t.began, &t.thinking)
	}
	return true
}

// later puts the answer off: "is thinking", or nothing to see on a message that stays.
func (t *turn) later(ctx context.Context, private bool) {
	if t.first != 0 {
		return
	}
	if t.message() {
		t.ack(ctx, wire.Callback{Type: wire.CallbackDeferUpdate})
		return
	}
	t.private = t.private || private
	flags := 0
	if t.private {
		flags = wire.Ephemeral
	}
	t.thinking.Store(true)
	t.ack(ctx, wire.Callback{Type: wire.CallbackDefer, Flags: flags})
}

// ask hands a request to the bot and answers with what it says, at once or later.
func (t *turn) ask(ctx context.Context, r bot.Request) {
	ctx, cancel := context.WithTimeout(ctx, 2*longest)
	defer cancel()
	lines := make(chan string, 1)
	r.Progress = func(line string) { // the newest line is the one to show
		select {
		case <-lines:
		default:
		}
		select {
		case lines <- line:
		default:
		}
	}
	replies := make(chan bot.Reply, 1)
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				ref := reference()
				t.d.opt.Log.Error("discord: the bot broke", "ref", ref, "panic", t.d.rest.Redact(sprint(p)), "stack", t.d.rest.Redact(stack()))
				replies <- bot.Reply{Bad: true, Private: true, Code: schemas.CodeInternal, Blocks: []bot.Block{{Text: "something went wrong on my side, reference " + ref + "; the operator can find it in the log"}}}
			}
		}()
		replies <- t.d.opt.Bot.Handle(ctx, r)
	})
	soon := time.NewTimer(ackWait - min(time.Since(t.began), ackWait))
	defer soon.Stop()
	select {
	case reply := <-replies:
		t.answer(ctx, reply)
		return
	case <-soon.C:
	}
	t.later(ctx, false)
	t.wait(ctx, replies, lines)
}

// wait shows progress until the reply is there. Before the interaction runs out, it leaves another way to the answer.
func (t *turn) wait(ctx context.Context, replies <-chan bot.Reply, lines <-chan string) {
	expires := time.NewTimer(t.d.opt.life - time.Since(t.began))
	defer expires.Stop()
	var pace <-chan time.Time
	show := lines
	for {
		select {
		case reply := <-replies:
			t.answer(ctx, reply)
			return
		case line := <-show:
			t.progress(ctx, line)
			show, pace = nil, time.After(progressEvery)
		case <-pace:
			show, pace = lines, nil
		case <-expires.C:
			w := &work{}
			t.outlive(ctx, w)
			reply := <-replies
			w.mu.Lock()
			w.reply = &reply
			w.mu.Unlock()
			if !t.hidden(reply) || !t.private && !t.alone() { // else it waits behind Refresh
				t.post(ctx, reply)
			}
			return
		}
	}
}

// progress shows a line in the place of the answer to come, or on the card that was answered.
func (t *turn) progress(ctx context.Context, line string) {
	var out wire.Outgoing
	switch {
	case t.first == wire.CallbackDefer:
		out = draw.Line(line, draw.Pen{})
	case t.first == wire.CallbackDeferUpdate && len(t.on.Blocks) > 0:
		out = draw.Settled(t.on, t.how, bot.Reply{Blocks: []bot.Block{{Text: line}}}, draw.Pen{})[0]
	default:
		return
	}
	t.thinking.Store(false)
	ctx, cancel := context.WithTimeout(ctx, progressWait) // the answer waits for it
	defer cancel()
	if _, err := t.d.rest.EditOriginal(ctx, t.i, out); err != nil {
		t.d.opt.Log.Debug("discord: progress is not shown", "channel", t.i.ChannelID, "err", err)
	}
}

// outlive says, while that is still possible, how the answer will come.
func (t *turn) outlive(ctx context.Context, w *work) {
	r := bot.Reply{Blocks: []bot.Block{{Text: "still working; the answer comes as a message of its own"}}}
	out := draw.Line(r.Blocks[0].Text, draw.Pen{V2: true})
	if t.private || t.alone() {
		out = t.waiting(w)
	}
	if _, err := t.d.rest.EditOriginal(ctx, t.i, out); err != nil {
		t.d.opt.Log.Debug("discord: the end of an interaction is not shown", "channel", t.i.ChannelID, "err", err)
	}
}

func (t *turn) waiting(w *work) wire.Outgoing {
	id := t.d.deck.deal(slot{does: refresh, work: w, member: t.caller.Member, name: t.caller.Name})
	r := bot.Reply{ID: "refresh", Blocks: []bot.Block{{Text: "still working; Discord keeps a private answer open for 15 minutes only. Refresh shows it when it is there"}},
		Choices: []bot.Choice{{Label: "Refresh", Style: "primary"}}}
	return draw.Reply(r, draw.Pen{V2: true, Private: true, Mint: func(draw.Kind, bot.Choice) string { return id }})[0]
}

// again answers a press on Refresh.
func (t *turn) again(ctx context.Context, w *work) {
	w.mu.Lock()
	reply := w.reply
	w.mu.Unlock()
	if reply == nil {
		out := t.waiting(w)
		t.ack(ctx, wire.Callback{Type: wire.CallbackUpdate, Message: &out})
		return
	}
	t.answer(ctx, *reply)
}

// stays reports whether a card can still be answered after that: what was refused without using it up. One that is over is not shown on.
func stays(r bot.Reply) bool { return r.Bad && r.Replace == "" && r.Code != schemas.CodeExpired }

// hidden reports whether a reply is for the one who asked alone: what the bot says is private, and refusals, which concern nobody else.
func (t *turn) hidden(r bot.Reply) bool {
	return r.Private || r.Bad && r.ID == "" && r.Code != schemas.CodeFailed && r.Code != schemas.CodeNotReady && r.Code != schemas.CodeUnknown || t.help()
}

func (t *turn) help() bool {
	verb, _ := given(t.i.Data.Options)
	return t.i.Type == wire.Commanded && verb == "help"
}

// answer gives the bot's reply, wherever it belongs by now.
func (t *turn) answer(ctx context.Context, r bot.Reply) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restWait)
	defer cancel()
	if silent(r) && r.Replace == "" && t.message() { // what the button did shows by itself
		t.later(ctx, false)
		return
	}
	if t.first == 0 && formOnly(r) && t.i.Type != wire.Submitted {
		f := &draft{reply: r, on: t.on, member: t.caller.Member, values: map[string]string{}}
		if t.message() && r.Replace != "" && r.Replace == t.id { // Discord does not tell that a modal was closed
			t.d.deck.turn(t.i.Data.CustomID, slot{does: next, draft: f, reply: r, member: t.caller.Member, name: t.caller.Name, expires: r.Expires})
		}
		t.form(ctx, f, 0)
		return
	}
	private := t.hidden(r)
	pen := t.pen(r, private)
	var err error
	switch {
	case t.message() && t.alone() && !private: // what was private is done with, the outcome is for all
		err = t.outcome(ctx, r, pen)
	case t.message() && t.alone() && !(t.id != "" && stays(r)):
		pen.V2 = true
		err = t.inPlace(ctx, r, draw.Reply(r, pen), private)
	case t.message() && !t.alone() && !private && r.Replace != "" && r.Replace == t.id:
		others := t.others(r.Replace)
		err = t.inPlace(ctx, r, draw.Settled(t.on, t.how, r, pen), private)
		t.tidy(ctx, others)
	default:
		if r.Replace != "" {
			defer t.d.settle(ctx, r.Replace, t.how)
		}
		err = t.apart(ctx, r, draw.Reply(r, pen), private)
	}
	if err != nil {
		t.lost(ctx, r, err)
	}
}

// outcome shows all what a private press came to: on the card that all see, if there is one.
func (t *turn) outcome(ctx context.Context, r bot.Reply, pen draw.Pen) error {
	all := t.others(r.Replace)
	at := slices.IndexFunc(all, func(c card) bool { return !c.hidden })
	if err := t.edit(ctx, draw.Line("done", draw.Pen{V2: true})); err != nil {
		return err
	}
	if at < 0 || r.Replace == "" {
		return t.follow(ctx, r, draw.Reply(r, pen), false)
	}
	open := all[at]
	out := draw.Settled(open.reply, t.how, r, pen)
	if !t.d.rewrite(ctx, open, out[0]) {
		return t.follow(ctx, r, draw.Reply(r, pen), false)
	}
	open.reply = r
	t.d.deck.posted(open)
	t.tidy(ctx, slices.Delete(all, at, at+1))
	return t.follow(ctx, bot.Reply{}, out[1:], false)
}

// others are the places of a card beside the message whose component was used. Of a message that came as the first answer Discord
// does not tell the id; there is one that all see.
func (t *turn) others(id string) []card {
	return slices.DeleteFunc(t.d.deck.settled(id), func(c card) bool {
		return c.message == t.i.Message.ID || c.hidden == t.alone() && c.message == ""
	})
}

// tidy takes the buttons off other copies of a card.
func (t *turn) tidy(ctx context.Context, others []card) {
	for _, c := range others {
		t.d.rewrite(ctx, c, draw.Settled(c.reply, t.how, bot.Reply{}, draw.Pen{})[0])
	}
}

// pen draws a reply to this turn. A form that was refused keeps what was typed, but for secrets.
func (t *turn) pen(r bot.Reply, private bool) draw.Pen {
	pen := t.d.pen(r, private)
	pen.Upload = t.i.AttachmentSize
	if t.typed == nil || !r.Bad || r.Form == nil {
		return pen
	}
	again := &draft{reply: r, on: t.on, member: t.caller.Member, values: map[string]string{}}
	t.typed.mu.Lock()
	for _, f := range r.Form.Fields {
		if v, ok := t.typed.values[f.Name]; ok && f.Kind != "secret" {
			again.values[f.Name] = v
		}
	}
	t.typed.mu.Unlock()
	mint := pen.Mint
	pen.Mint = func(kind draw.Kind, c bot.Choice) string {
		if kind != draw.Open {
			return mint(kind, c)
		}
		return t.d.deck.deal(slot{does: next, draft: again, reply: r, member: t.caller.Member, name: t.caller.Name, expires: r.Expires})
	}
	return pen
}

// answerPage keeps a page of a form and offers the next; a modal cannot follow a modal.
func (t *turn) answerPage(ctx context.Context, f *draft, page, pages int) {
	r := bot.Reply{Private: true, ID: f.reply.ID, Expires: f.reply.Expires, Choices: []bot.Choice{{Label: fmt.Sprintf("Go on to page %d of %d", page+1, pages), Style: "primary"}},
		Blocks: []bot.Block{{Text: fmt.Sprintf("page %d of %d is kept; nothing is sent before the last one", page, pages)}}}
	id := t.d.deck.deal(slot{does: next, draft: f, page: page, reply: f.reply, member: f.member, name: t.caller.Name, expires: f.reply.Expires})
	out := draw.Reply(r, draw.Pen{V2: true, Private: true, Mint: func(draw.Kind, bot.Choice) string { return id }})[0]
	if t.alone() {
		t.ack(ctx, wire.Callback{Type: wire.CallbackUpdate, Message: &out})
		return
	}
	t.ack(ctx, wire.Callback{Type: wire.CallbackMessage, Message: &out})
}

// edit changes the message whose component was used.
func (t *turn) edit(ctx context.Context, out wire.Outgoing) error {
	out.Flags &^= wire.Ephemeral // cannot be changed
	if t.first == 0 {
		t.first = wire.CallbackUpdate
		return t.acked(t.d.rest.Callback(ctx, t.i, wire.Callback{Type: wire.CallbackUpdate, Message: &out}))
	}
	_, err := t.d.rest.EditOriginal(ctx, t.i, out)
	return err
}

func (t *turn) acked(err error) error {
	if err == nil {
		t.d.seats.sit(t.i, t.caller.Member, t.began, &t.thinking)
	}
	return err
}

// inPlace puts the reply where the component was used.
func (t *turn) inPlace(ctx context.Context, r bot.Reply, all []wire.Outgoing, private bool) error {
	if err := t.edit(ctx, all[0]); err != nil {
		return err
	}
	c := card{reply: r, channel: t.i.ChannelID, message: t.i.Message.ID, at: t.began}
	if t.alone() {
		c.via, c.hidden = &t.i, true
	}
	t.d.deck.posted(c)
	return t.follow(ctx, bot.Reply{}, all[1:], private)
}

// apart puts the reply into a message of its own.
func (t *turn) apart(ctx context.Context, r bot.Reply, all []wire.Outgoing, private bool) error {
	first := all[0]
	switch {
	case t.first < 0:
		return &link.Error{Code: unknownInteraction, Text: "the interaction was not acknowledged"}
	case t.first == 0:
		t.first = wire.CallbackMessage
		if err := t.acked(t.d.rest.Callback(ctx, t.i, wire.Callback{Type: wire.CallbackMessage, Message: &first})); err != nil {
			return err
		}
	case t.first == wire.CallbackDefer && t.private == private:
		t.thinking.Store(false)
		first.Flags &^= wire.Ephemeral
		if _, err := t.d.rest.EditOriginal(ctx, t.i, first); err != nil {
			return err
		}
	case t.first == wire.CallbackDefer: // who sees an answer is settled by the first one, so it is taken back
		if err := t.d.rest.DeleteOriginal(ctx, t.i); err != nil {
			return err
		}
		return t.follow(ctx, r, all, private)
	default:
		return t.follow(ctx, r, all, private)
	}
	if len(all) == 1 {
		t.d.deck.posted(card{reply: r, channel: t.i.ChannelID, via: &t.i, at: t.began, hidden: private})
	}
	return t.follow(ctx, r, all[1:], private)
}

// follow sends more messages of this interaction; the last one has the choices.
func (t *turn) follow(ctx context.Context, r bot.Reply, all []wire.Outgoing, private bool) error {
	for n, m := range all {
		s, err := t.d.rest.Followup(ctx, t.i, m)
		if err != nil {
			return err
		}
		if n == len(all)-1 {
			c := card{reply: r, channel: t.i.ChannelID, message: s.ID, at: t.began}
			if private {
				c.via, c.hidden = &t.i, true
			}
			t.d.deck.posted(c)
		}
	}
	return nil
}

// lost finds another way for an answer that Discord did not take.
func (t *turn) lost(ctx context.Context, r bot.Reply, err error) {
	switch link.CodeOf(err) {
	case answeredAlready:
		return
	case unknownInteraction, unknownWebhook, badToken, 10008:
		t.d.opt.Log.Info("discord: an interaction ended before its answer; it is posted", "channel", t.i.ChannelID, "err", err)
		if t.message() && !t.alone() && r.Replace != "" && r.Replace == t.id {
			t.d.rewrite(ctx, card{channel: t.i.ChannelID, message: t.i.Message.ID}, draw.Settled(t.on, t.how, bot.Reply{}, draw.Pen{})[0])
		}
		t.post(ctx, r)
		return
	}
	ref := reference()
	t.d.opt.Log.Error("discord: an answer was not taken", "ref", ref, "channel", t.i.ChannelID, "err", err)
	say := draw.Line("something went wrong on my side, reference "+ref+"; the operator can find it in the log · `/mcp list` shows how things are", draw.Pen{Private: true})
	acked := t.first == wire.CallbackDefer || t.first == wire.CallbackDeferUpdate
	if !acked { // as far as is known
		err = t.d.rest.Callback(ctx, t.i, wire.Callback{Type: wire.CallbackMessage, Message: &say})
		acked = link.CodeOf(err) == answeredAlready
	}
	if err != nil && acked {
		_, err = t.d.rest.Followup(ctx, t.i, say)
	}
	if err != nil {
		t.d.opt.Log.Error("discord: the interaction takes no words, the answer is posted", "ref", ref, "err", err)
		t.post(ctx, r)
	}
}

// post gives a reply without the interaction.
func (t *turn) post(ctx context.Context, r bot.Reply) {
	var to schemas.MemberID
	if t.hidden(r) {
		to, r.Private = t.caller.Member, true
	}
	if err := t.d.postFresh(ctx, t.i.ChannelID, r, to, t.caller.Name); err != nil {
		t.d.unsent(t.i.ChannelID, err)
	}
}
