package discord

import (
	"context"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// post puts a reply into a channel without an interaction to answer. What is for one member alone goes to that member's last
// interaction here, as long as it can be followed up; else a line for all has a button that only that member can use.
func (d *Door) post(ctx context.Context, channel string, r bot.Reply, to schemas.MemberID, name string) error {
	if to != "" && (r.Private || r.Form != nil) {
		if at, ok := d.seats.of(channel, to); ok {
			i, all := at.i, draw.Reply(r, d.pen(r, true))
			var err error
			if at.thinking.Swap(false) {
				_, err = d.rest.EditOriginal(ctx, i, draw.Line("waiting for an answer; the question is below, for you alone", draw.Pen{}))
			}
			for n, m := range all {
				if err != nil {
					break
				}
				var s wire.Sent
				if s, err = d.rest.Followup(ctx, i, m); err != nil {
					break
				}
				if n == len(all)-1 {
					d.deck.posted(card{reply: r, channel: channel, message: s.ID, via: &i, at: time.Now(), hidden: true})
				}
			}
			if err == nil {
				return nil
			}
			d.opt.Log.Debug("discord: a member's interaction cannot be followed up", "channel", channel, "err", err)
		}
	}
	return d.postFresh(ctx, channel, r, to, name)
}

// postFresh is post where no interaction is of use.
func (d *Door) postFresh(ctx context.Context, channel string, r bot.Reply, to schemas.MemberID, name string) error {
	if to != "" && (r.Private || r.Form != nil) {
		_, err := d.rest.Send(ctx, channel, d.forOne(r, to, name))
		return err
	}
	all := draw.Reply(r, d.pen(r, false))
	for n, m := range all {
		s, err := d.rest.Send(ctx, channel, m)
		if err != nil {
			return err
		}
		if n == len(all)-1 {
			d.deck.posted(card{reply: r, channel: channel, message: s.ID, at: time.Now()})
		}
	}
	return nil
}

// forOne is the line that all see of what is for one member alone. It pings that member, and nobody else.
func (d *Door) forOne(r bot.Reply, to schemas.MemberID, name string) wire.Outgoing {
	line := bot.Reply{ID: "show", Blocks: []bot.Block{{Text: "this is for one of you alone"}}, Choices: []bot.Choice{{Label: "Show it to me", Style: "primary"}}}
	if name == "" {
		name = "another member"
	}
	id := d.deck.deal(slot{does: show, reply: r, member: to, name: name, expires: r.Expires})
	out := draw.Reply(line, draw.Pen{V2: true, Mint: func(draw.Kind, bot.Choice) string { return id }})[0]
	text := &out.Components[0].Components[0]
	text.Content = "<@" + string(to) + "> this is for you alone"
	out.Mentions.Users = []string{string(to)}
	return out
}

// settle takes the buttons off an earlier card, which says how it ended.
func (d *Door) settle(ctx context.Context, id, how string) {
	for _, c := range d.deck.settled(id) {
		d.rewrite(ctx, c, draw.Settled(c.reply, how, bot.Reply{}, draw.Pen{})[0])
	}
}

// rewrite changes a message of ours that holds a card, if that is still possible.
func (d *Door) rewrite(ctx context.Context, c card, out wire.Outgoing) bool {
	var err error
	switch {
	case c.via != nil && time.Since(c.at) > tokenLife:
		return false
	case c.via != nil && c.message == "":
		_, err = d.rest.EditOriginal(ctx, *c.via, out)
	case c.via != nil:
		_, err = d.rest.EditFollowup(ctx, *c.via, c.message, out)
	default:
		err = d.rest.Edit(ctx, c.channel, c.message, out)
	}
	if err != nil {
		d.opt.Log.Debug("discord: a card cannot be changed", "channel", c.channel, "err", err)
	}
	return err == nil
}
