package bot

import (
	"context"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// assistant answers messages with a model and the thread's tools. It is called concurrently, also for one thread. It checks who may stop, reset, choose and set what; its errors are for people.
type assistant interface {
	talker
	chooser
	setting
}

// talker has the conversation, in each thread one turn after the other. show is called from one goroutine at a time, never after Say returned, with the whole state; Say ends
// with ctx, with Stop, or with the answer. Stop ends the thread's turn with its tool calls; false: there was none.
type talker interface {
	Say(ctx context.Context, said schemas.Said, show func(schemas.Answering)) (schemas.Answering, error)
	Stop(context.Context, schemas.Caller) (stopped bool, err error)
	Reset(context.Context, schemas.Caller) error
}

// chooser knows the models that the operator allows; none: nothing is set up, and nothing of the rest is called.
type chooser interface {
	Models(context.Context, schemas.ThreadID) ([]schemas.Model, error)
	Choose(ctx context.Context, caller schemas.Caller, name string) error
}

// setting is when the assistant answers, "" as long as nobody chose, and what it spent.
type setting interface {
	Mode(context.Context, schemas.ThreadID) (schemas.ChatMode, error)
	SetMode(context.Context, schemas.Caller, schemas.ChatMode) error
	Usage(context.Context, schemas.Caller) (own, thread schemas.Usage, err error)
}

// models gives what there is to choose from; none also without an assistant.
func (b *Bot) models(ctx context.Context, thread schemas.ThreadID) ([]schemas.Model, error) {
	if b.opt.Assistant == nil {
		return nil, nil
	}
	return b.opt.Assistant.Models(ctx, thread)
}

// modeOf gives when the assistant answers: as the thread chose, else as is usual at its door.
func (b *Bot) modeOf(ctx context.Context, thread schemas.ThreadID) (schemas.ChatMode, error) {
	mode, err := b.opt.Assistant.Mode(ctx, thread)
	if err == nil && mode == "" {
		mode = schemas.ChatAlways
		if thread.IsSnowflake() {
			mode = schemas.ChatMentioned
		}
	}
	return mode, err
}

// Overhears reports whether messages of a thread are answered that mention nobody: a door need not hand over others where it is false.
func (b *Bot) Overhears(ctx context.Context, thread schemas.ThreadID) bool {
	if !thread.Valid() {
		return false
	}
	ms, err := b.models(ctx, thread)
	if err != nil || len(ms) == 0 {
		return false
	}
	mode, err := b.modeOf(ctx, thread)
	return err == nil && mode == schemas.ChatAlways
}

// unset answers where there is no model.
func unset() error {
	return &schemas.Error{Code: schemas.CodeMissing, Text: "no model is set, so there is nothing to change here",
		Hint: "`/mcp help model` says how to set one"}
}

func (b *Bot) chatModel(ctx context.Context, t desk.Turn) (Reply, error) {
	ms, err := b.models(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(ms) == 0 {
		return Reply{}, unset()
	}
	if name := t.Arg("name"); name != "" {
		return b.choose(ctx, t, name, ms)
	}
	tab := &Table{Columns: []string{"model", "reads at most", ""}}
	r := Reply{Blocks: []Block{{Text: words.Count(len(ms), "model", "models") + " to choose from; `/chat model NAME` chooses for this thread"}, {Table: tab}}}
	for _, m := range ms {
		window, chosen := "", ""
		if m.Window > 0 {
			window = words.Thousands(m.Window) + " tokens"
		}
		if m.Chosen {
			chosen = "answers here"
		}
		tab.Rows = append(tab.Rows, Row{Cells: []string{"`" + words.Clean(m.Name) + "`", window, chosen}})
	}
	return r, nil
}

func (b *Bot) choose(ctx context.Context, t desk.Turn, name string, ms []schemas.Model) (Reply, error) {
	known := make([]string, len(ms))
	for i, m := range ms {
		known[i] = m.Name
	}
	if !t.Caller.Manages() {
		return Reply{}, desk.ManagersOnly("choose the model")
	}
	if !slices.Contains(known, name) {
		return Reply{}, words.NotFound("model", name, known, "`/chat model` lists those that the operator allows")
	}
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventAsked, Detail: "/chat model " + words.Short(words.Clean(name), 100)}); err != nil {
		return Reply{}, err
	}
	if err := b.opt.Assistant.Choose(ctx, t.Caller, name); err != nil {
		return Reply{}, err
	}
	return Reply{Blocks: []Block{{Text: "`" + words.Clean(name) + "` answers here from the next message on"}}}, nil
}

// modeWords says what a mode does.
func modeWords(m schemas.ChatMode) string {
	return map[schemas.ChatMode]string{
		schemas.ChatMentioned: "the assistant answers messages that mention it or reply to it",
		schemas.ChatAlways:    "the assistant answers every message of members",
		schemas.ChatOff:       "the assistant is off here; tools work by hand with `/mcp call`",
	}[m]
}

func (b *Bot) chatMode(ctx context.Context, t desk.Turn) (Reply, error) {
	ms, err := b.models(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(ms) == 0 {
		return Reply{}, unset()
	}
	want := schemas.ChatMode(strings.ToLower(t.Arg("mode")))
	if want == "" {
		mode, err := b.modeOf(ctx, t.Caller.Thread)
		if err != nil {
			return Reply{}, err
		}
		return Reply{Blocks: []Block{{Text: string(mode) + ": " + modeWords(mode)}, {Text: "`/chat mode mentioned`, `/chat mode always` or `/chat mode off` changes it"}}}, nil
	}
	switch {
	case modeWords(want) == "":
		return Reply{}, words.Invalid("there is no such mode", "`/chat mode mentioned`, `/chat mode always` or `/chat mode off`")
	case !t.Caller.Manages():
		return Reply{}, desk.ManagersOnly("change when the assistant answers")
	}
	if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventAsked, Detail: "/chat mode " + string(want)}); err != nil {
		return Reply{}, err
	}
	if err := b.opt.Assistant.SetMode(ctx, t.Caller, want); err != nil {
		return Reply{}, err
	}
	return Reply{Blocks: []Block{{Text: string(want) + ": " + modeWords(want)}}}, nil
}

func (b *Bot) chatUsage(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Assistant == nil {
		return Reply{}, unset()
	}
	own, thread, err := b.opt.Assistant.Usage(ctx, t.Caller)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Private: true, Blocks: []Block{{Text: "spent on the model"}, {Facts: []Fact{view.Spent("you, in all threads", own), view.Spent("this thread", thread)}}}}, nil
}

func (b *Bot) chatStop(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Assistant == nil {
		return Reply{}, unset()
	}
	stopped, err := b.opt.Assistant.Stop(ctx, t.Caller)
	if err != nil {
		return Reply{}, err
	}
	if stopped {
		return Reply{Blocks: []Block{{Text: "stopped"}}}, nil
	}
	return Reply{Private: true, Blocks: []Block{{Text: "nothing is being answered here"}}}, nil
}

func (b *Bot) chatReset(_ context.Context, t desk.Turn) (Reply, error) {
	switch {
	case b.opt.Assistant == nil:
		return Reply{}, unset()
	case !t.Caller.Manages():
		return Reply{}, desk.ManagersOnly("make the assistant forget the conversation")
	}
	c := &desk.Card{By: t.Caller, Role: schemas.Manager, May: desk.ManagerOnly}
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice != "confirm" {
			return Reply{Blocks: []Block{{Text: "left as it was; nothing was forgotten"}}}, nil
		}
		if err := b.opt.Assistant.Reset(ctx, t.Caller); err != nil {
			return Reply{}, err
		}
		return Reply{Blocks: []Block{{Text: "the conversation is forgotten; servers, rules and the audit log are as they were"}}}, nil
	}
	return b.desk.Deal(c, Reply{Blocks: []Block{{Text: "makes the assistant forget the conversation of this thread, for everybody in it"}},
		Choices: []Choice{{Key: "confirm", Label: "Forget it", Style: "danger"}, {Key: "cancel", Label: "Cancel"}}}), nil
}

func (b *Bot) chatHelp(ctx context.Context, t desk.Turn) (Reply, error) {
	ms, err := b.models(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	tab := &Table{}
	for _, v := range b.lines.Chat {
		tab.Rows = append(tab.Rows, Row{Cells: []string{"`/chat " + v.Usage + "`", v.Summary}})
	}
	first := noModel
	if len(ms) > 0 {
		mode, err := b.modeOf(ctx, t.Caller.Thread)
		if err != nil {
			return Reply{}, err
		}
		first = modeWords(mode) + " · `" + words.Clean(chosen(ms).Name) + "`"
	}
	r := Reply{Blocks: []Block{{Text: first}, {Table: tab}}}
	if how := map[schemas.Door]string{schemas.DoorTerminal: "A file goes along when its path stands in the message behind an @: `what is in @./plan.txt`",
		schemas.DoorWeb: "A file goes along when you drop it on the page.", schemas.DoorDiscord: "Files that you attach go along."}[t.Caller.Door]; how != "" && len(ms) > 0 {
		r = view.With(r, Block{Text: how})
	}
	return r, nil
}

// chosen is the model that answers; one of ms, which is not empty.
func chosen(ms []schemas.Model) schemas.Model {
	return ms[max(0, slices.IndexFunc(ms, func(m schemas.Model) bool { return m.Chosen }))]
}

// searched says that with these servers, of all, the assistant begins to search among tools; "" if it does not, or did before.
func (b *Bot) searched(ctx context.Context, thread schemas.ThreadID, all, these []schemas.Status) string {
	ms, err := b.models(ctx, thread)
	if err != nil || len(ms) == 0 {
		return ""
	}
	sum := func(ss []schemas.Status) (tools, tokens int) {
		for _, s := range ss {
			tools, tokens = tools+s.Tools, tokens+s.Tokens
		}
		return tools, tokens
	}
	m := chosen(ms)
	over := func(tools, tokens int) bool {
		return m.Tools > 0 && tools > m.Tools || m.ToolTokens > 0 && tokens > m.ToolTokens
	}
	tools, tokens := sum(all)
	news, cost := sum(these)
	if !over(tools, tokens) || over(tools-news, tokens-cost) {
		return ""
	}
	return words.Count(tools, "tool", "tools") + " here, " + words.About(tokens) + " tokens: the assistant searches among them from now on"
}

// searchFact says the same of a connector that was looked at, on its card.
func (b *Bot) searchFact(ctx context.Context, thread schemas.ThreadID, r *remote) []Fact {
	if r.probe == nil {
		return nil
	}
	all, err := b.opt.Tools.Status(ctx, thread)
	if err != nil {
		return nil
	}
	news := schemas.Status{Name: r.draft.Server.Name, Tools: len(r.probe.Tools), Tokens: r.probe.Tokens}
	all = append(slices.DeleteFunc(slices.Clone(all), func(s schemas.Status) bool { return s.Name == news.Name }), news)
	if text := b.searched(ctx, thread, all, []schemas.Status{news}); text != "" {
		return []Fact{{Label: "then", Value: text}}
	}
	return nil
}

// modelNames completes a model's name.
func (b *Bot) modelNames(ctx context.Context, thread schemas.ThreadID) (all []string) {
	ms, err := b.models(ctx, thread)
	if err != nil {
		return nil
	}
	for _, m := range ms {
		all = append(all, words.Clean(m.Name))
	}
	return all
}
