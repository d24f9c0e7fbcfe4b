package discord

import (
	"context"
	"sync"
	"time"

	"bobbin/bot/discord/internal/draw"
	"bobbin/bot/discord/internal/wire"
)

// progressEvery is how often the one message that shows progress is edited: Discord allows about five in five seconds.
const progressEvery = 1500 * time.Millisecond

// progress shows how long work goes on, in one message that is edited; quick work shows none.
type progress struct {
	d     *Door
	m     wire.Message
	ended chan struct{}
	all   sync.WaitGroup

	mu   sync.Mutex
	line string // the newest

	sent shown // run's
}

// shown is the message that shows progress.
type shown struct {
	id string // "" = none
	v2 bool   // it has Components V2, which cannot be taken back
}

// show begins. tell takes a line and never blocks; end waits, and gives the message.
func (d *Door) show(ctx context.Context, m wire.Message) (tell func(string), end func() shown) {
	p := &progress{d: d, m: m, ended: make(chan struct{})}
	p.all.Go(func() { d.safely(func() { p.run(ctx) }) })
	tell = func(line string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.line = line
	}
	return tell, func() shown {
		close(p.ended)
		p.all.Wait()
		return p.sent
	}
}

func (p *progress) run(ctx context.Context) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for shown := ""; ; {
		select {
		case <-p.ended:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		line := p.line
		p.mu.Unlock()
		if line != shown && p.put(ctx, line) {
			shown = line
		}
	}
}

// put posts or edits. A failure costs a line, never the answer.
func (p *progress) put(ctx context.Context, line string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	out := draw.Line(line, draw.Pen{})
	var err error
	if p.sent.id == "" {
		out.Reference = &wire.Reference{MessageID: p.m.ID}
		var s wire.Sent
		s, err = p.d.rest.Send(ctx, p.m.ChannelID, out)
		p.sent = shown{s.ID, out.Flags&wire.ComponentsV2 != 0}
	} else {
		err = p.d.rest.Edit(ctx, p.m.ChannelID, p.sent.id, out)
	}
	if err != nil {
		p.d.opt.Log.Debug("discord: progress is not shown", "channel", p.m.ChannelID, "err", err)
	}
	return err == nil
}
