package bot

import (
	"context"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// noModel is said where an assistant would answer.
const noModel = "No model is set, so I cannot chat yet; tools work by hand with `/mcp call`. To chat: set ANTHROPIC_API_KEY, or --model (see `/mcp help model`)."

// Welcome greets a member who opens a door: where they are, what is here, what to do first.
func (b *Bot) Welcome(ctx context.Context, c schemas.Caller) Reply {
	if !c.Thread.Valid() {
		return b.desk.Refusal(c, words.Invalid("this thread has no usable id", ""))
	}
	head := "bobbin · thread " + string(c.Thread) + " · "
	ss, err := b.opt.Tools.Status(ctx, c.Thread)
	if err != nil {
		return b.desk.Refusal(c, err)
	}
	ss = b.viewed(ctx, c, ss)
	if len(ss) == 0 {
		upload := "give me a file with `/mcp upload`"
		if c.Door == schemas.DoorTerminal {
			upload = "give me a file with `/mcp upload PATH`"
		}
		return Reply{Blocks: []Block{{Text: head + "no tools yet"},
			{Text: "Paste an MCP config with `/mcp add-json {…}`, " + upload + ", or answer questions with `/mcp add`."}, {Text: b.answers(ctx, c)}}}
	}
	n, needs := 0, 0
	for _, s := range ss {
		n += s.Tools
		if wantsOf(c, s) || s.Pending || s.State == schemas.PendingState {
			needs++
		}
	}
	text := head + words.Count(len(ss), "server", "servers") + ", " + words.Count(n, "tool", "tools")
	if needs > 0 {
		text += " · " + words.Count(needs, "waits", "wait") + " for you"
	}
	return Reply{Blocks: []Block{{Text: text}, {Text: "`/mcp list` shows how they are, `/mcp help` what there is."}, {Text: b.answers(ctx, c)}}}
}

// help is /mcp help.
func (b *Bot) help(_ context.Context, t desk.Turn) (Reply, error) {
	topic := t.Arg("topic")
	r, err := b.lines.Help(topic)
	if topic == "" {
		r = view.With(r, Block{Text: "bobbin " + b.opt.Version})
	}
	return r, err
}

// answers says who answers messages here.
func (b *Bot) answers(ctx context.Context, c schemas.Caller) string {
	ms, err := b.models(ctx, c.Thread)
	if err != nil || len(ms) == 0 {
		return noModel
	}
	model := "`" + words.Clean(chosen(ms).Name) + "`"
	switch mode, err := b.modeOf(ctx, c.Thread); {
	case err != nil:
		return "`/chat help` says what the assistant can do."
	case mode == schemas.ChatOff:
		return "The assistant is off here; `/chat mode` turns it on."
	case mode == schemas.ChatMentioned:
		return "Mention me and say what you want done: " + model + " answers, and uses the tools here. `/chat help` says more."
	default:
		return "Say what you want done: " + model + " answers, and uses the tools here. `/chat help` says more."
	}
}
