package bot

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/form"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// call runs a tool by hand. A person's own call is its own yes; the policy still denies what it denies.
func (b *Bot) call(ctx context.Context, t desk.Turn) (Reply, error) {
	name := t.Arg("tool")
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		return b.readResource(ctx, t, rest)
	}
	raw := words.Unfence(t.Arg("json"))
	ts, err := b.opt.Tools.Tools(ctx, t.Caller)
	if err != nil {
		return Reply{}, err
	}
	i := slices.IndexFunc(ts, func(x schemas.Tool) bool { return x.Full() == name || x.Model == name })
	if i < 0 {
		return b.unlisted(ctx, t, name, ts)
	}
	if raw != "" {
		if !json.Valid([]byte(raw)) || raw[0] != '{' {
			return Reply{}, words.Invalid("the arguments are no JSON object", "`/mcp call "+words.Clean(name)+" {\"key\": \"value\"}`, or without JSON to be asked")
		}
		return b.calls(ctx, t, ts[i], json.RawMessage(raw))
	}
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	fields := form.Of(ts[i].Input)
	denied := cfg.Policy.Decide(ts[i], t.Caller.Member, b.opt.Now()).Verb == schemas.Deny // said before anybody fills a form in vain
	if len(fields) == 0 || denied {
		return b.calls(ctx, t, ts[i], nil)
	}
	return b.callForm(t, ts[i], fields), nil
}

// noTool says why there is no such tool: how its server is, or the name.
func (b *Bot) noTool(ctx context.Context, t desk.Turn, name string, ts []schemas.Tool) error {
	ss, err := b.opt.Tools.Status(ctx, t.Caller.Thread)
	if err != nil {
		return err
	}
	for _, s := range b.viewed(ctx, t.Caller, ss) {
		able := s.State == schemas.Ready || s.State == schemas.Idle || s.State == schemas.Held || s.State == schemas.ShadowedState
		tool, its := strings.CutPrefix(name, s.Name+".")
		switch {
		case its && s.State == schemas.NeedsConnect:
			return &schemas.Error{Code: schemas.CodeNeeds, Text: words.Clean(s.Name) + " needs you to sign in", Hint: view.ConnectHint(s.Name)}
		case its && !able:
			return &schemas.Error{Code: schemas.CodeNotReady, Text: view.Became(t.Caller, s)}
		case its && slices.Contains(s.HeldTools, tool):
			return &schemas.Error{Code: schemas.CodeHeld, Text: words.Clean(name) + " is held, since its definition changed after it was approved",
				Hint: "`/mcp enable " + words.Clean(name) + "` shows the change"}
		}
	}
	return words.NotFound("tool", name, view.Fulls(ts), "`/mcp tools` lists them")
}

func (b *Bot) callForm(t desk.Turn, x schemas.Tool, fields []form.Argument) Reply {
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		args, problems := form.Read(fields, a.Values)
		if len(problems) > 0 {
			return view.Mistakes("the form", problems, ""), nil
		}
		return b.calls(ctx, t, x, args)
	}
	return b.desk.Deal(c, Reply{Private: true, Form: &Form{Title: words.Clean(x.Full()), Submit: "Call", Fields: form.Fields(fields)}})
}

func (b *Bot) calls(ctx context.Context, t desk.Turn, x schemas.Tool, args json.RawMessage) (Reply, error) {
	res, err := b.opt.Tools.Call(ctx, schemas.Call{Caller: t.Caller, Origin: schemas.ByPerson, Tool: x.Full(), Args: args})
	if ps, ok := errors.AsType[schemas.Problems](err); ok {
		return form.Wrong(x.Full(), ps), nil
	}
	if err != nil {
		return b.orSignIn(ctx, t, x.Server, err, func(ctx context.Context, t desk.Turn) (Reply, error) { return b.calls(ctx, t, x, args) })
	}
	return b.result(ctx, t, x.Full(), res), nil
}

// unlisted answers for a tool that nobody knows. What a connector offers may be known only to who signed in to it.
func (b *Bot) unlisted(ctx context.Context, t desk.Turn, name string, ts []schemas.Tool) (Reply, error) {
	err := b.noTool(ctx, t, name, ts)
	cfg, cannot := b.opt.Config.Load(ctx, t.Caller.Thread)
	if cannot != nil {
		return Reply{}, err
	}
	for _, e := range cfg.Entries {
		if strings.HasPrefix(name, e.Name+".") && !e.Shadowed {
			return b.orSignIn(ctx, t, e.Name, err, func(ctx context.Context, now desk.Turn) (Reply, error) {
				now.Args = t.Args
				return b.call(ctx, now)
			})
		}
	}
	return Reply{}, err
}

// result draws what a tool gave: text, files, and one line about the call.
func (b *Bot) result(ctx context.Context, t desk.Turn, name string, res schemas.Result) Reply {
	blocks, whole := view.Cut(view.Content(name, res.Raw))
	r := Reply{Blocks: blocks}
	if res.IsError {
		r.Bad, r.Code = true, schemas.CodeFailed
		r.Blocks = append([]Block{{Text: words.Clean(name) + " says that it failed"}}, r.Blocks...)
	}
	line := []string{words.Took(res.Took)}
	switch {
	case res.RunsAs == t.Caller.Member:
		line = append(line, "as you")
	case res.RunsAs != "":
		line = append(line, "as "+b.called(ctx, t, res.RunsAs))
	}
	if res.Receipt != "" {
		line = append(line, "receipt "+words.Clean(res.Receipt))
	}
	if res.Spilled != "" || whole != "" {
		r.Blocks = append(r.Blocks, Block{Text: "cut: the whole result is " + words.Size(max(res.Size, len(whole)))})
		r.Choices = []Choice{{Key: "whole", Label: "Download the whole"}}
		c := &desk.Card{By: t.Caller, Role: schemas.Member, May: desk.RequesterOnly(t.Caller), Look: []string{"whole"}}
		c.Act = func(ctx context.Context, t desk.Turn, _ Action) (Reply, error) {
			if res.Spilled == "" {
				f := schemas.File{Name: view.FileName(name) + ".txt", MIME: "text/plain; charset=utf-8", Data: []byte(whole)}
				return Reply{Private: true, Blocks: []Block{{Text: "the whole result, " + words.Size(len(f.Data))}, {File: &f}}}, nil
			}
			f, err := b.opt.Resources.Result(ctx, t.Caller.Thread, res.Spilled)
			if err != nil {
				return Reply{}, err
			}
			return Reply{Private: true, Blocks: []Block{{Text: "the whole result, " + words.Size(len(f.Data))}, {File: &f}}}, nil
		}
		r = b.desk.Deal(c, r)
	}
	if text := view.OneLine(r.Blocks); text != "" && !res.IsError && r.ID == "" {
		r.Blocks, line = nil, append([]string{text}, line...)
	}
	return view.With(r, Block{Text: strings.Join(line, " · ")})
}

// called gives the name of a member who owns a server here, or lends their sign-in to one.
func (b *Bot) called(ctx context.Context, t desk.Turn, id schemas.MemberID) string {
	if cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread); err == nil {
		for _, e := range cfg.Entries {
			switch {
			case e.Owner == id:
				return words.At(id, e.OwnerName)
			case e.Loan != nil && e.Loan.Member == id:
				return words.At(id, e.Loan.Name)
			}
		}
	}
	return words.At(id, "")
}

func (b *Bot) readResource(ctx context.Context, t desk.Turn, ref string) (Reply, error) {
	server, uri, ok := strings.Cut(ref, ":")
	if !ok || uri == "" {
		return Reply{}, words.Invalid("a resource is written @server:uri", "`/mcp show SERVER` lists them")
	}
	if _, _, err := b.entry(ctx, t, server); err != nil {
		return Reply{}, err
	}
	res, err := b.opt.Resources.ReadResource(ctx, t.Caller, server, uri)
	if err != nil {
		return b.orSignIn(ctx, t, server, err, func(ctx context.Context, t desk.Turn) (Reply, error) { return b.readResource(ctx, t, ref) })
	}
	return b.result(ctx, t, server+":"+uri, res), nil
}

// prompt lists the servers' prompts, or asks for one's arguments and shows what it says.
func (b *Bot) prompt(ctx context.Context, t desk.Turn) (Reply, error) {
	ps, err := b.opt.Prompts.Prompts(ctx, t.Caller)
	if err != nil {
		return Reply{}, err
	}
	name := t.Arg("name")
	if name == "" {
		return view.PromptList(ps), nil
	}
	known := make([]string, len(ps))
	for i, p := range ps {
		known[i] = p.Server + "." + p.Name
	}
	i := slices.Index(known, name)
	if i < 0 {
		return Reply{}, words.NotFound("prompt", name, known, "`/mcp prompt` lists them")
	}
	p := ps[i]
	if len(p.Arguments) == 0 {
		return b.prompted(ctx, t, p, nil)
	}
	form := &Form{Title: words.Clean(name), Submit: "Fill in"}
	for _, a := range p.Arguments {
		form.Fields = append(form.Fields, Field{Name: a.Name, Label: words.Short(words.Clean(a.Name), 60), Hint: words.FirstLine(a.Description, 90), Required: a.Required})
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		args := map[string]string{}
		for _, arg := range p.Arguments {
			v := a.Values[arg.Name]
			if v == "" && arg.Required {
				return Reply{}, words.Invalid(words.Clean(arg.Name)+" is needed", "`/mcp prompt "+words.Clean(name)+"` asks again")
			}
			if v != "" {
				args[arg.Name] = v
			}
		}
		return b.prompted(ctx, t, p, args)
	}
	return b.desk.Deal(c, Reply{Private: true, Form: form}), nil
}

func (b *Bot) prompted(ctx context.Context, t desk.Turn, p schemas.Prompt, args map[string]string) (Reply, error) {
	res, err := b.opt.Prompts.Prompt(ctx, t.Caller, p.Server, p.Name, args)
	if err != nil {
		return b.orSignIn(ctx, t, p.Server, err, func(ctx context.Context, t desk.Turn) (Reply, error) { return b.prompted(ctx, t, p, args) })
	}
	var got struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(res.Raw, &got); err != nil || len(got.Messages) == 0 {
		return b.result(ctx, t, p.Server+"."+p.Name, res), nil
	}
	r := Reply{Blocks: []Block{{Text: words.Clean(p.Server + "." + p.Name)}}}
	for _, m := range got.Messages {
		r.Blocks = append(r.Blocks, Block{Text: words.Clean(m.Role)})
		r.Blocks = append(r.Blocks, view.Content(p.Name, json.RawMessage(`{"content":[`+string(m.Content)+`]}`))...)
	}
	return r, nil
}
