package discord

import "time"

// Shorten makes interactions run out sooner than Discord's 15 minutes.
func (opt *Options) Shorten(d time.Duration) { opt.life = d }
