package discord

import (
	"context"
	"slices"
	"sync"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/link"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

const (
	streamWait   = 5 * time.Second // for one edit of an answer that goes on
	thinkWait    = 2 * time.Second // for the first words, before there is a message
	finishTries  = 4               // to post how it ended
	unknownThing = 10008           // the message is no more (Discord, JSON Error Codes)
)

// live is an answer of the assistant while it comes: one message that is edited, and more below it as it gets long. There is one
// request at a time and a pause after each round; what came meanwhile goes with the next.
type live struct {
	d      *Door
	m      wire.Message // that is answered
	caller schemas.Caller
	begin  func() // called once, when the assistant takes the message
	wake   chan struct{}
	ended  chan struct{}
	once   sync.Once
	all    sync.WaitGroup

	mu     sync.Mutex
	newest *bot.Reply
	kept   map[string]string // custom ids by choice, so that an edit changes no button

	posts []posted // of run, and of finish after it
}

// posted is one of an answer's messages, as it stands there.
type posted struct {
	id      string
	content string
	buttons int
}

// live begins. Nothing is posted before the assistant says something.
func (d *Door) live(ctx context.Context, m wire.Message, begin func()) *live {
	l := &live{d: d, m: m, begin: begin, wake: make(chan struct{}, 1), ended: make(chan struct{}), kept: map[string]string{}}
	l.all.Go(func() { d.safely(func() { l.run(ctx) }) })
	return l
}

// stream takes a state in; it never blocks.
func (l *live) stream(r bot.Reply) {
	l.once.Do(l.begin)
	l.mu.Lock()
	l.newest = &r
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end stops drawing. A request under way is waited for, not long.
func (l *live) end() {
	close(l.ended)
	l.all.Wait()
}

func (l *live) run(ctx context.Context) {
	for {
		select {
		case <-l.ended:
			return
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		r := l.state()
		if a := answerIn(r); a.Joined {
			continue // shown where the answer is
		} else if begun := a.Text != "" || len(a.Steps) > 0 || a.Status != ""; !begun && len(l.posts) == 0 {
			if !l.patient() {
				return
			}
			if r = l.state(); answerIn(r).Joined {
				continue
			}
		}
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamWait)
		if err := l.draw(once, r); err != nil {
			l.d.opt.Log.Debug("discord: how far an answer is, is not shown", "channel", l.m.ChannelID, "err", err)
		}
		cancel()
		pace := time.NewTimer(progressEvery)
		select {
		case <-l.ended:
		case <-ctx.Done():
		case <-pace.C:
		}
		pace.Stop()
	}
}

func (l *live) state() bot.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.newest
}

// patient waits a little for the first words, while typing is shown anyway; false: the answer is over.
func (l *live) patient() bool {
	soon := time.NewTimer(thinkWait)
	defer soon.Stop()
	select {
	case <-l.ended:
		return false
	case <-soon.C:
	case <-l.wake:
	}
	return true
}

// pen draws with the same custom ids each time.
func (l *live) pen(r bot.Reply) draw.Pen {
	p := l.d.pen(r, false)
	p.Asker, p.AskerName = l.caller.Member, l.caller.Name
	mint := p.Mint
	p.Mint = func(k draw.Kind, c bot.Choice) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.kept[c.Key] == "" {
			l.kept[c.Key] = mint(k, c)
		}
		return l.kept[c.Key]
	}
	return p
}

// draw brings the messages to a state. A failure leaves the rest to the next round.
func (l *live) draw(ctx context.Context, r bot.Reply) error {
	for i, out := range draw.Reply(r, l.pen(r)) {
		now := posted{content: out.Content, buttons: len(out.Components)}
		if i == len(l.posts) {
			if i == 0 {
				out.Reference = &wire.Reference{MessageID: l.m.ID}
			}
			s, err := l.d.rest.Send(ctx, l.m.ChannelID, out)
			if err != nil {
				return err
			}
			now.id = s.ID
			l.posts = append(l.posts, now)
			continue
		}
		now.id = l.posts[i].id
		if now == l.posts[i] && len(out.Files) == 0 {
			continue
		}
		err := l.d.rest.Edit(ctx, l.m.ChannelID, now.id, out)
		if link.CodeOf(err) == unknownThing { // somebody deleted it: what is left of the answer comes anew
			var s wire.Sent
			if s, err = l.d.rest.Send(ctx, l.m.ChannelID, out); err == nil {
				now.id = s.ID
			}
		}
		if err != nil {
			return err
		}
		l.posts[i] = now
	}
	return nil
}

// finish posts how the answer ended, and tries again where that may help: a message with a button to stop must not stay.
func (l *live) finish(ctx context.Context, r bot.Reply) (err error) {
	wait := time.Second
	for range finishTries {
		if err = l.draw(ctx, r); err == nil || !temporary(err) || !pause(ctx, wait) {
			return err
		}
		wait *= 2
	}
	return err
}

// answerIn is the assistant's answer in a reply; its zero value if there is none.
func answerIn(r bot.Reply) schemas.Answering {
	for _, b := range r.Blocks {
		if b.Answer != nil {
			return *b.Answer
		}
	}
	return schemas.Answering{}
}

func isAnswer(r bot.Reply) bool {
	return slices.ContainsFunc(r.Blocks, func(b bot.Block) bool { return b.Answer != nil })
}

// silent reports whether there is nothing to say.
func silent(r bot.Reply) bool {
	return len(r.Blocks) == 0 && r.Form == nil && len(r.Choices) == 0 && !r.Bad
}
