package bot

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// maxText bounds a typed line and an uploaded config, in bytes.
const maxText = 256 << 10

// turn is one request on its way through a verb.
type turn struct {
	caller schemas.Caller
	args   map[string]string
	file   *schemas.File
	tell   func(string) // never nil

	files     []schemas.File
	mentioned bool
	stream    func(Reply) // may be nil
}

func (t turn) arg(name string) string { return strings.TrimSpace(t.args[name]) }

// Handle answers one request. It never returns a raw error: what goes wrong is a Reply with Bad set and a Code. Waiting for
// servers, tools and people ends with ctx.
func (b *Bot) Handle(ctx context.Context, r Request) Reply {
	t := turn{caller: r.Caller, args: r.Args, file: r.File, tell: r.Progress, files: r.Files, mentioned: r.Mentioned, stream: r.Stream}
	if t.tell == nil {
		t.tell = func(string) {}
	}
	end := func(schemas.Code) {}
	if b.opt.Observe != nil {
		ctx, end = b.opt.Observe(ctx, t.caller.Door, b.command(r))
	}
	reply, err := b.route(ctx, t, r)
	if err != nil {
		reply = b.refusal(t.caller, err)
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
	case r.Verb == "" && len(text) > 0 && text[0] == "/mcp":
		typed = text[1:]
	case r.Verb == "" && len(text) > 0 && text[0] == "/chat":
		return "chat"
	case r.Verb == "":
		return "message"
	}
	if v, _ := b.find(typed); v != nil {
		return "mcp " + v.Name
	}
	return "mcp"
}

func (b *Bot) route(ctx context.Context, t turn, r Request) (Reply, error) {
	if !t.caller.Thread.Valid() || !t.caller.Member.Valid() || t.caller.Role < schemas.Guest || t.caller.Role > schemas.Owner {
		return Reply{}, words.Invalid("this thread or member has no usable id", "letters, digits, _ and - only, at most 64")
	}
	switch {
	case r.Action != nil:
		return b.press(ctx, t, *r.Action)
	case r.Verb != "":
		v, rest := b.find(strings.Fields(r.Verb))
		if v == nil || len(rest) > 0 {
			return Reply{}, b.unknownVerb(r.Verb)
		}
		return b.invoke(ctx, t, v)
	}
	return b.text(ctx, t, r.Text)
}

// text routes a typed line: a command, a pasted or dropped config, or a message to the assistant.
func (b *Bot) text(ctx context.Context, t turn, text string) (Reply, error) {
	if len(text) > maxText {
		return Reply{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: "that text is " + words.Size(len(text)) + "; at most " + words.Size(maxText)}
	}
	text = strings.TrimSpace(text)
	command, rest := words.CutSpace(text)
	switch {
	case command == "/mcp":
		v, args, err := b.parse(rest)
		if err != nil {
			return Reply{}, err
		}
		t.args = args
		return b.invoke(ctx, t, v)
	case command == "/chat":
		v, args, err := b.parse("chat " + cmp.Or(rest, "help"))
		if err != nil {
			return Reply{}, err
		}
		t.args = args
		return b.invoke(ctx, t, v)
	case command == "/help":
		return b.line(ctx, t, "help", map[string]string{"topic": rest})
	case strings.HasPrefix(text, "/"):
		return Reply{}, words.Invalid("I know no such command", "`/mcp help` lists what there is")
	case b.brought(ctx, t, text) != nil:
		t.file = b.brought(ctx, t, text)
		return b.line(ctx, t, "upload", nil)
	case looksLikeConfig(text):
		return b.line(ctx, t, "add-json", map[string]string{"json": text})
	case text == "" && len(t.files) == 0:
		return b.Welcome(ctx, t.caller), nil
	}
	if r, ok := b.stray(ctx, t.caller, text); ok {
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
	if b.waits(c) {
		return view.Refused(schemas.CodeInvalid, "that is no choice of an open card · press one of its choices, or give the command again"), true
	}
	if ms, err := b.models(ctx, c.Thread); err == nil && len(ms) > 0 {
		return Reply{}, false
	}
	return view.Refused(schemas.CodeExpired, "nothing waits for an answer here · `/mcp list` shows how things are, `/mcp help` what there is"), true
}

// line runs a verb by its name, as if it had been typed.
func (b *Bot) line(ctx context.Context, t turn, name string, args map[string]string) (Reply, error) {
	v, _ := b.find(strings.Fields(name))
	t.args = args
	return b.invoke(ctx, t, v)
}

// invoke checks the role, asks for what is missing, writes down what was asked for, and runs the verb.
func (b *Bot) invoke(ctx context.Context, t turn, v *verb) (Reply, error) {
	if t.caller.Role < v.Role {
		return Reply{}, guestRefusal()
	}
	for _, a := range v.Args {
		if a.Required && t.arg(a.Name) == "" {
			return b.askArgs(ctx, t, v), nil
		}
	}
	if v.audited {
		if err := b.record(ctx, t.caller, schemas.Record{Event: schemas.EventAsked, Detail: slash(v.Name)}); err != nil {
			return Reply{}, err
		}
	}
	return v.run(ctx, t)
}

func guestRefusal() error {
	return &schemas.Error{Code: schemas.CodeDenied, Text: "guests may look here, not use or change servers",
		Hint: "ask a member of the thread"}
}

// record writes one audit record for the caller. Nothing may happen that it could not write down.
func (b *Bot) record(ctx context.Context, c schemas.Caller, r schemas.Record) error {
	r.Thread, r.Member, r.Name, r.Door, r.Origin = c.Thread, c.Member, c.Name, c.Door, schemas.ByPerson
	if _, err := b.opt.Journal.Append(ctx, r); err != nil {
		return &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written", Err: err}
	}
	return nil
}

// afterWait bounds what is finished although the one who asked may be gone.
const afterWait = 10 * time.Second

// after gives a context for what must follow a change that was made: the request's end does not stop it, time does.
func after(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), afterWait)
}

// noted writes a record about what has happened already; a failure can only be logged.
func (b *Bot) noted(ctx context.Context, c schemas.Caller, r schemas.Record) {
	ctx, cancel := after(ctx)
	defer cancel()
	if err := b.record(ctx, c, r); err != nil {
		b.opt.Log.Error("audit record lost", "thread", c.Thread, "event", r.Event, "err", err)
	}
}

// askArgs turns a command's missing arguments into a form.
func (b *Bot) askArgs(ctx context.Context, t turn, v *verb) Reply {
	form := &Form{Title: slash(v.Name)}
	for _, a := range v.Args {
		if t.arg(a.Name) == "" && a.Required {
			f := Field{Name: a.Name, Label: a.Name, Hint: a.Hint, Kind: a.field(), Required: true}
			if a.Kind == "server" {
				f.Hint = b.serverHint(ctx, t, a.Hint)
			}
			form.Fields = append(form.Fields, f)
		}
	}
	c := &card{by: t.caller, role: v.Role, may: requesterOnly(t.caller)}
	c.act = func(ctx context.Context, t2 turn, a Action) (Reply, error) {
		t2.args, t2.file = map[string]string{}, t.file
		for k, s := range t.args {
			t2.args[k] = s
		}
		for _, f := range form.Fields {
			if strings.TrimSpace(a.Values[f.Name]) == "" {
				return Reply{}, words.Invalid(f.Name+" is needed", "`"+v.line()+"`")
			}
			t2.args[f.Name] = a.Values[f.Name]
		}
		return b.invoke(ctx, t2, v)
	}
	return b.deal(c, Reply{Private: true, Form: form})
}

func (b *Bot) serverHint(ctx context.Context, t turn, otherwise string) string {
	cfg, err := b.opt.Config.Load(ctx, t.caller.Thread)
	if err != nil || len(cfg.Entries) == 0 || len(cfg.Entries) > 12 {
		return otherwise
	}
	return "one of " + strings.Join(names(cfg), ", ")
}
