package bot

import (
	"context"
	"strconv"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
)

// audit shows what happened, what was called only, or one receipt.
func (b *Bot) audit(ctx context.Context, t desk.Turn) (Reply, error) {
	which, n, calls := t.Arg("which"), 20, false
	if v, err := strconv.Atoi(which); err == nil && v > 0 && len(which) < 4 {
		n, which = min(v, 200), ""
	} else if strings.EqualFold(which, "calls") {
		calls, which = true, ""
	}
	ask := min(4*n, view.MaxTail)
	if which != "" || calls {
		ask = view.MaxTail
	}
	rs, err := b.opt.Journal.Tail(ctx, t.Caller.Thread, ask)
	if err != nil {
		return Reply{}, err
	}
	if which != "" {
		return view.Receipt(rs, which)
	}
	return view.Log(rs, n, calls), nil
}
