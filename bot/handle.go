package bot

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/line"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// Handle answers one request. It never returns a raw error: what goes wrong is a Reply with Bad set and a Code. Waiting for
// servers, tools and people ends with ctx.
func (b *Bot) Handle(ctx context.Context, r Request) Reply {
	t := desk.Turn{Caller: r.Caller, Args: r.Args, File: r.File, Tell: r.Progress, Files: r.Files, Mentioned: r.Mentioned, Stream: r.Stream}
	if t.Tell == nil {
		t.Tell = func(string) {}
	}
	end := func(schemas.Code) {}
	if b.opt.Observe != nil {
		ctx, end = b.opt.Observe(ctx, t.Caller.Door, b.command(r))
	}
	reply, err := b.route(ctx, t, r)
	if err != nil {
		reply = b.desk.Refusal(t.Caller, err)
	}
	end(reply.Code)
	return reply
}

// command names what a request is about without a word of the member's.
func (b *Bot) command(r Request) string {
	typed := strings.Fields(r.Verb)
	switch text := strings.Fields(r.Text); {
	case r.Action != nil:
		return "press"
	case r.Verb == "" && len(text) > 0 && strings.EqualFold(text[0], "/mcp"):
		typed = text[1:]
	case r.Verb == "" && len(text) > 0 && strings.EqualFold(text[0], "/chat"):
		return "chat"
	case r.Verb == "":
		return "message"
	}
	if v, _ := b.lines.Find(typed); v != nil {
		return "mcp " + v.Name
	}
	return "mcp"
}

func (b *Bot) route(ctx context.Context, t desk.Turn, r Request) (Reply, error) {
	if !t.Caller.Thread.Valid() || !t.Caller.Member.Valid() || t.Caller.Role < schemas.Guest || t.Caller.Role > schemas.Owner {
		return Reply{}, words.Invalid("this thread or member has no usable id", "letters, digits, _ and - only, at most 64")
	}
	switch {
	case r.Action != nil:
		return b.desk.Press(ctx, t, *r.Action)
	case r.Verb != "":
		v, rest := b.lines.Find(strings.Fields(r.Verb))
		if v == nil || len(rest) > 0 {
			return Reply{}, b.lines.Unknown(r.Verb)
		}
		return b.invoke(ctx, t, v)
	}
	return b.text(ctx, t, r.Text)
}

// text routes a typed line: a command, a pasted or dropped config, or a message to the assistant.
func (b *Bot) text(ctx context.Context, t desk.Turn, text string) (Reply, error) {
	if len(text) > desk.MaxText {
		return Reply{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: "that text is " + words.Size(len(text)) + "; at most " + words.Size(desk.MaxText)}
	}
	text = strings.TrimSpace(text)
	command, rest := words.CutSpace(text)
	switch {
	case strings.EqualFold(command, "/mcp"): // phones begin a line with a capital
		v, args, err := b.lines.Parse(rest)
		if err != nil {
			return Reply{}, err
		}
		t.Args = args
		return b.invoke(ctx, t, v)
	case strings.EqualFold(command, "/chat"):
		v, args, err := b.lines.Parse("chat " + cmp.Or(rest, "help"))
		if err != nil {
			return Reply{}, err
		}
		t.Args = args
		return b.invoke(ctx, t, v)
	case strings.EqualFold(command, "/help"):
		return b.line(ctx, t, "help", map[string]string{"topic": rest})
	case strings.HasPrefix(text, "/"):
		return Reply{}, b.lines.NoCommand(text)
	case b.brought(ctx, t, text) != nil:
		t.File = b.brought(ctx, t, text)
		return b.line(ctx, t, "upload", nil)
	case line.Config(text):
		return b.line(ctx, t, "add-json", map[string]string{"json": text})
	case text == "" && len(t.Files) == 0:
		return b.Welcome(ctx, t.Caller), nil
	}
	if r, ok := b.stray(ctx, t.Caller, text); ok {
		return r, nil
	}
	return b.message(ctx, t, text)
}

// stray answers what looks like the answer to a card, at a door that had none for it. Where an assistant listens and no card is open,
// it may be the answer to what that asked.
func (b *Bot) stray(ctx context.Context, c schemas.Caller, text string) (Reply, bool) {
	labels := []string{"confirm", "cancel", "approve", "put back", "keep held", "show the change", "show everything", "once", "1 hour", "always here", "always", "deny", "yes", "no"}
	n, err := strconv.Atoi(strings.TrimSuffix(text, ")"))
	if number := err == nil && n > 0 && n < 100; !number && !slices.Contains(labels, strings.ToLower(strings.Trim(text, "`.! "))) {
		return Reply{}, false
	}
	if b.desk.Waits(c) {
		return view.Refused(schemas.CodeInvalid, "that is no choice of an open card · press or type one of its choices, or give the command again"), true
	}
	if ms, err := b.models(ctx, c.Thread); err == nil && len(ms) > 0 {
		return Reply{}, false
	}
	return view.Refused(schemas.CodeExpired, "nothing waits for an answer here · `/mcp list` shows how things are, `/mcp help` what there is"), true
}

// line runs a verb by its name, as if it had been typed.
func (b *Bot) line(ctx context.Context, t desk.Turn, name string, args map[string]string) (Reply, error) {
	v, _ := b.lines.Find(strings.Fields(name))
	t.Args = args
	return b.invoke(ctx, t, v)
}

// invoke checks the role, asks for what is missing, writes down what was asked for, and runs the verb.
func (b *Bot) invoke(ctx context.Context, t desk.Turn, v *line.Verb) (Reply, error) {
	if t.Caller.Role < v.Role {
		return Reply{}, desk.Guest()
	}
	for _, a := range v.Args {
		if a.Required && t.Arg(a.Name) == "" {
			return b.askArgs(ctx, t, v), nil
		}
	}
	run := b.verbs[v.Name]
	if run.audited {
		if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventAsked, Detail: line.Slash(v.Name)}); err != nil {
			return Reply{}, err
		}
	}
	return run.run(ctx, t)
}

// askArgs turns a command's missing arguments into a form.
func (b *Bot) askArgs(ctx context.Context, t desk.Turn, v *line.Verb) Reply {
	form := &Form{Title: line.Slash(v.Name)}
	for _, a := range v.Args {
		if t.Arg(a.Name) == "" && a.Required {
			f := Field{Name: a.Name, Label: a.Name, Hint: a.Hint, Kind: a.Field(), Required: true}
			if a.Kind == "server" {
				f.Hint = b.serverHint(ctx, t, a.Hint)
			}
			form.Fields = append(form.Fields, f)
		}
	}
	c := &desk.Card{By: t.Caller, Role: v.Role, May: desk.RequesterOnly(t.Caller)}
	c.Act = func(ctx context.Context, t2 desk.Turn, a Action) (Reply, error) {
		t2.Args, t2.File = map[string]string{}, t.File
		for k, s := range t.Args {
			t2.Args[k] = s
		}
		for _, f := range form.Fields {
			if strings.TrimSpace(a.Values[f.Name]) == "" {
				return Reply{}, words.Invalid(f.Name+" is needed", "`"+v.Line()+"`")
			}
			t2.Args[f.Name] = a.Values[f.Name]
		}
		return b.invoke(ctx, t2, v)
	}
	return b.desk.Deal(c, Reply{Private: true, Form: form})
}

func (b *Bot) serverHint(ctx context.Context, t desk.Turn, otherwise string) string {
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil || len(cfg.Entries) == 0 || len(cfg.Entries) > 12 {
		return otherwise
	}
	return "one of " + strings.Join(names(cfg), ", ")
}
