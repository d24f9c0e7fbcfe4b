package discord

import (
	"context"
	"strings"
	"sync"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// Times of an answer to a text.
const (
	typingEvery = 8 * time.Second // Discord shows it for about ten
	typingWait  = 3 * time.Second // for one request of it
	answerWait  = time.Minute     // to post what was answered, also while Run ends
	endWait     = 5 * time.Second
)

// Types of messages that people write (Discord, Message Types).
const (
	plainMessage = 0
	replyMessage = 19
)

// message takes up what was written where the door listens. It never blocks.
func (d *Door) message(shard int, m wire.Message) {
	d.grave.exists(m.ChannelID, place{Guild: m.GuildID})
	forUs := d.forUs(m) || overheard(m)
	h := &d.heard
	h.mu.Lock()
	defer h.mu.Unlock()
	h.init()
	h.note(m.ChannelID, spot{m.GuildID, shard, number(m.ID)})
	if !forUs {
		return
	}
	if g := h.gaps[m.ChannelID]; g != nil { // after the older ones; what does not fit is read again with them
		if len(g.held) < maxHeld {
			g.held = append(g.held, m)
		}
		return
	}
	d.take(m)
}

// take puts a message into its channel's queue, once. The caller holds heard.mu.
func (d *Door) take(m wire.Message) {
	if !d.heard.take(m.ID) {
		return
	}
	if !d.talks.add(&d.slow, m.ChannelID, maxLane, func(ctx context.Context) { d.inTurn(ctx, m) }) {
		d.opt.Log.Warn("discord: too much goes on, a message is not answered", "channel", m.ChannelID, "message", m.ID)
	}
}

// inTurn answers a message, and returns when it is answered or the assistant has taken it up: that keeps its messages in order by
// itself, and a command must not wait for it.
func (d *Door) inTurn(ctx context.Context, m wire.Message) {
	if !d.forUs(m) && !d.opt.Bot.Overhears(ctx, schemas.ThreadID(m.ChannelID)) {
		return
	}
	taken := make(chan struct{})
	take := sync.OnceFunc(func() { close(taken) })
	work := func(ctx context.Context) {
		defer take()
		d.safely(func() { d.respond(ctx, m, take) })
	}
	if !d.slow.spawn(work) {
		work(ctx)
	}
	<-taken
}

func (d *Door) me() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.self.User
}

// byPerson reports whether a member wrote a message, and not this or another bot, a webhook or Discord itself.
func byPerson(m wire.Message) bool {
	return m.Author.ID != "" && !m.Author.Bot && m.WebhookID == "" && (m.Type == plainMessage || m.Type == replyMessage)
}

// overheard reports whether a message may concern the assistant where it answers everything. Without the message-content intent
// Discord shows no such texts.
func overheard(m wire.Message) bool {
	return byPerson(m) && (m.Content != "" || len(m.Attachments) > 0)
}

// forUs reports whether a person speaks to the bot: with its mention, in reply to it, alone with it, or with a command.
func (d *Door) forUs(m wire.Message) bool {
	if !byPerson(m) {
		return false
	}
	me := d.me()
	command, _, _ := strings.Cut(strings.Join(strings.Fields(m.Content), " "), " ")
	return m.GuildID == "" || mentions(m, me) || (m.Referenced != nil && me != "" && m.Referenced.Author.ID == me) || command == "/mcp" || command == "/chat"
}

func mentions(m wire.Message, id string) bool {
	for _, u := range m.Mentions {
		if u.ID == id && id != "" {
			return true
		}
	}
	return false
}

// respond answers one message.
func (d *Door) respond(ctx context.Context, m wire.Message, taken func()) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	stop := d.typing(ctx, m.ChannelID)
	tell, end := d.show(ctx, m)
	l := d.live(ctx, m, taken)
	reply, caller := d.reply(ctx, m, tell, l)
	stop()
	over := end()
	l.end()
	to, done := lasting(ctx)
	defer done()
	var err error
	switch {
	case silent(reply): // also what went into another answer
	case isAnswer(reply):
		err = l.finish(to, reply)
	default:
		if len(l.posts) > 0 { // a refusal, where an answer had begun
			over = shown{id: l.posts[0].id}
		}
		err = d.answerText(to, m, reply, caller, over)
	}
	if err != nil {
		d.unsent(m.ChannelID, err)
	}
}

// answerText posts the reply to a message, in the place of what showed progress if there was that. What is for its author alone is
// behind a button, except where there is nobody else, and refusals.
func (d *Door) answerText(ctx context.Context, m wire.Message, r bot.Reply, c schemas.Caller, over shown) error {
	if r.Replace != "" {
		d.settle(ctx, r.Replace, "settled, see below")
	}
	pen := d.pen(r, false)
	pen.V2 = over.v2
	var all []wire.Outgoing
	if ch, ok := d.known.find(m.ChannelID); (ok && ch.Type == wire.DirectMessage) || refuses(r) {
		r.Private = false
	}
	if r.Private {
		all = append(all, d.forOne(r, c.Member, c.Name))
	} else {
		all = draw.Reply(r, pen)
	}
	for n, out := range all {
		id := over.id
		if n > 0 || id == "" || d.rest.Edit(ctx, m.ChannelID, id, out) != nil { // somebody may have deleted it
			if n == 0 {
				out.Reference = &wire.Reference{MessageID: m.ID}
			}
			s, err := d.rest.Send(ctx, m.ChannelID, out)
			if err != nil {
				return err
			}
			id = s.ID
		}
		if n == len(all)-1 && !r.Private { // what Show opens is noted then
			d.deck.posted(card{reply: r, channel: m.ChannelID, message: id, at: time.Now()})
		}
	}
	return nil
}

// refuses reports whether a reply is nothing but a refusal. It is private where that costs nothing, but tells nothing that was not
// written here for all.
func refuses(r bot.Reply) bool { return r.Bad && r.ID == "" && r.Form == nil }

// lasting gives a context for an answer that was found: the end of ctx leaves it a few seconds.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	to, done := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(endWait, done) })
	return to, func() { stop(); done() }
}

// reply asks the bot.
func (d *Door) reply(ctx context.Context, m wire.Message, tell func(string), l *live) (bot.Reply, schemas.Caller) {
	caller, err := d.speaker(ctx, m)
	l.caller = caller
	if err != nil {
		d.opt.Log.Debug("discord: a member's permissions are not known", "channel", m.ChannelID, "err", err)
		return no("Discord did not say what you may do here, so nothing was done · write it again in a minute"), caller
	}
	d.grave.alive(m.ChannelID, place{Guild: m.GuildID})
	r := bot.Request{Caller: caller, Text: withoutMention(m.Content, d.me()), Progress: tell, Stream: l.stream, Mentioned: d.forUs(m)}
	if r.Text == "" && len(m.Attachments) == 0 && m.GuildID != "" && !mentions(m, d.me()) {
		return no("I cannot read messages here that do not mention me · mention me, or use a command: `/mcp help`"), caller
	}
	var refusal *bot.Reply
	switch {
	case strings.HasPrefix(r.Text, "/"), bringsConfig(m, r.Text):
		r.File, refusal = d.config(ctx, m, r.Text)
	case caller.Role >= schemas.Member:
		r.Files, refusal = d.files(ctx, m)
	}
	if refusal != nil {
		return *refusal, caller
	}
	return d.opt.Bot.Handle(ctx, r), caller
}

func no(text string) bot.Reply {
	return bot.Reply{Bad: true, Code: schemas.CodeInvalid, Blocks: []bot.Block{{Text: text}}}
}

// speaker says who wrote a message and what they may do there. Events of messages do not say it, so Discord is asked.
func (d *Door) speaker(ctx context.Context, m wire.Message) (schemas.Caller, error) {
	c := schemas.Caller{Thread: schemas.ThreadID(m.ChannelID), Member: schemas.MemberID(m.Author.ID), Name: memberName(m.Member, m.Author),
		Door: schemas.DoorDiscord, Role: schemas.Guest}
	ch, err := d.channel(ctx, m.ChannelID)
	if err != nil {
		return c, err
	}
	if ch.Type == wire.DirectMessage {
		c.Role = schemas.Owner
		return c, nil
	}
	may, err := d.rest.Permissions(ctx, ch.GuildID, ch.ID, m.Author.ID)
	if err == nil {
		c.Role = roleOf(ch.IsThread() && ch.OwnerID == m.Author.ID, ch.IsThread(), may)
	}
	return c, err
}

// maxChannels bounds what is remembered of threads and channels.
const maxChannels = 10000

// channels remembers what a channel is. Its type, guild and maker never change.
type channels struct {
	mu  sync.Mutex
	all map[string]wire.Channel
}

func (c *channels) put(ch wire.Channel) {
	if ch.ID == "" || (ch.GuildID == "" && ch.Type != wire.DirectMessage) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxChannels {
		c.all = map[string]wire.Channel{} // what is needed is asked for again
	}
	c.all[ch.ID] = ch
}

func (c *channels) find(id string) (wire.Channel, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, ok := c.all[id]
	return ch, ok
}

func (c *channels) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, id)
}

func (d *Door) channel(ctx context.Context, id string) (wire.Channel, error) {
	if ch, ok := d.known.find(id); ok {
		return ch, nil
	}
	ch, err := d.rest.Channel(ctx, id)
	if err != nil {
		return wire.Channel{}, err
	}
	d.known.put(ch)
	return ch, nil
}

// withoutMention cuts the bot's mention out of a text.
func withoutMention(text, me string) string {
	if me != "" {
		for _, form := range []string{"<@" + me + ">", "<@!" + me + ">"} {
			text = strings.ReplaceAll(text, form+" ", "")
			text = strings.ReplaceAll(text, form, "")
		}
	}
	return strings.TrimSpace(text)
}

// typing shows that the bot is at work, until stop, which waits a little for a request under way and takes it back then: one that
// arrives after the answer would linger.
func (d *Door) typing(ctx context.Context, channel string) (stop func()) {
	ended := make(chan struct{})
	asking, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(typingEvery)
		defer tick.Stop()
		for {
			once, cancel := context.WithTimeout(asking, typingEvery)
			err := d.rest.Typing(once, channel)
			cancel()
			if err != nil {
				d.opt.Log.Debug("discord: typing is not shown", "channel", channel, "err", err)
			}
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		close(ended)
		late := time.AfterFunc(typingWait, giveUp)
		all.Wait()
		late.Stop()
		giveUp()
	}
}
