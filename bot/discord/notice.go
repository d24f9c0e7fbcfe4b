package discord

import (
	"context"
	"errors"
	"time"

	"bobbin/bot"
	"bobbin/bot/discord/internal/link"
	"bobbin/schemas"
)

// Bounds of what threads are told.
const (
	maxTells = 64 // notices of a thread that wait
	tellWait = 2 * time.Minute
)

// pump carries what happens by itself to its threads until nothing is told any more. A slow thread has a queue of its own.
func (d *Door) pump(notices <-chan bot.Notice) {
	for n := range notices {
		if len(n.Reply.Blocks) == 0 && n.Reply.Form == nil && len(n.Reply.Choices) == 0 && n.Reply.Replace == "" {
			continue // the list changed, which nobody sees here
		}
		if n.Door == schemas.DoorDiscord || n.Door != "" && n.Reply.Replace == "" {
			continue // our own answer, or one that is not whole yet
		}
		if !d.tells.add(&d.slow, string(n.Thread), maxTells, func(ctx context.Context) { d.safely(func() { d.tell(ctx, n) }) }) {
			d.opt.Log.Warn("discord: too much goes on, a notice is not posted", "thread", n.Thread)
		}
	}
}

func (d *Door) tell(ctx context.Context, n bot.Notice) {
	ctx, cancel := context.WithTimeout(ctx, tellWait)
	defer cancel()
	if n.Reply.Replace != "" {
		how := "settled"
		if len(n.Reply.Blocks) > 0 {
			how = "settled, see below"
		}
		d.settle(ctx, n.Reply.Replace, how)
	}
	if len(n.Reply.Blocks) == 0 && n.Reply.Form == nil && len(n.Reply.Choices) == 0 {
		return
	}
	if err := d.post(ctx, string(n.Thread), n.Reply, n.To, ""); err != nil {
		d.unsent(string(n.Thread), err)
	}
}

// unsent notes that a channel did not take a message. One that is archived and locked (50083), or closed to the bot (50001, 50013),
// is let be; one that is no more (10003) is deleted.
func (d *Door) unsent(channel string, err error) {
	var refused *link.Error
	switch {
	case errors.Is(err, context.Canceled):
	case gone(err):
		d.grave.deleted(channel, time.Now())
	case errors.As(err, &refused) && (refused.Code == 50083 || refused.Code == 50001 || refused.Code == 50013):
	default:
		d.opt.Log.Warn("discord: a message is not posted", "channel", channel, "err", err)
		return
	}
	d.opt.Log.Debug("discord: the channel takes no message", "channel", channel, "err", err)
}
