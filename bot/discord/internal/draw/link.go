package draw

import (
	"cmp"
	"net/url"
	"strings"

	"bobbin/bot"
	"bobbin/bot/discord/internal/wire"
)

// links are the buttons of the pages that a reply offers to open, one row of them at most. They are the only live addresses that are
// ever sent: https, and short enough for Discord. Any other page is its address as text alone, such as one on this machine, which a
// reader's browser would look for on their own.
func links(blocks []bot.Block) (buttons []wire.Component) {
	for _, b := range blocks {
		if b.Open == nil || len(buttons) == wire.MaxButtons {
			continue
		}
		to := address(b.Open.URL)
		u, err := url.Parse(to)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || units(to) > wire.MaxLink ||
			strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
			continue
		}
		buttons = append(buttons, wire.Component{Type: wire.Button, Style: wire.Link, Label: cmp.Or(label(b.Open.Label), "Open"), URL: to})
	}
	return buttons
}

// address is a page's address as it is shown and pressed: nothing in it is hidden or ends a code span.
func address(s string) string { return strings.ReplaceAll(visible(s, true), "`", "%60") }
