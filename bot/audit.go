package bot

import (
	"context"
	"strconv"
	"strings"

	"bobbin/bot/internal/view"
)

// audit shows what happened, what was called only, or one receipt.
func (b *Bot) audit(ctx context.Context, t turn) (Reply, error) {
	which, n, calls := t.arg("which"), 20, false
	if v, err := strconv.Atoi(which); err == nil && v > 0 && len(which) < 4 {
		n, which = min(v, 200), ""
	} else if strings.EqualFold(which, "calls") {
		calls, which = true, ""
	}
	ask := min(4*n, view.MaxTail)
	if which != "" || calls {
		ask = view.MaxTail
	}
	rs, err := b.opt.Journal.Tail(ctx, t.caller.Thread, ask)
	if err != nil {
		return Reply{}, err
	}
	if which != "" {
		return view.Receipt(rs, which)
	}
	return view.Log(rs, n, calls), nil
}
