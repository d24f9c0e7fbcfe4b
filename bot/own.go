package bot

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/own"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// OwnTools are the tools that bobbin itself offers to the assistant of a member: to connect, install, list and disconnect servers
// and, where there are sandboxes, to run a command in theirs. Guests have none. They are called by CallOwn alone; their names
// never begin with ext_.
func (b *Bot) OwnTools(_ context.Context, c schemas.Caller) []schemas.Tool {
	if c.Role < schemas.Member {
		return nil
	}
	var all []schemas.Tool
	for _, t := range b.own {
		if t.Name != own.Shell || b.opt.Sandboxes != nil {
			all = append(all, t.Tool)
		}
	}
	return all
}

// CallOwn calls one of OwnTools on a member's wish. What it does is done as the caller, whom arguments cannot name. What a person
// confirms on a card is put on the same card, to the caller, and waited for until they answer, the card's time is over or ctx
// ends; Waiting of the call is told so. After words of servers in Wary that are not believed, everything that does something is asked
// on a card, whatever a rule allows. Of the call, Caller, Tool, Args, Wary and Waiting count. What ran and failed is a Result with
// IsError; every error is a *schemas.Error, and then nothing was done, unless its code is CodeUnknown.
func (b *Bot) CallOwn(ctx context.Context, call schemas.Call) (schemas.Result, error) {
	began := b.opt.Now()
	res, err := b.callOwn(ctx, call)
	if err != nil {
		return schemas.Result{}, b.worded(call.Caller, err)
	}
	res.Server, res.Tool, res.RunsAs, res.Took, res.Size = own.Server, call.Tool, call.Caller.Member, b.opt.Now().Sub(began), len(res.Raw)
	return res, nil
}

func (b *Bot) callOwn(ctx context.Context, call schemas.Call) (schemas.Result, error) {
	c, name := call.Caller, call.Tool
	if !c.Thread.Valid() || !c.Member.Valid() || c.Role < schemas.Guest || c.Role > schemas.Owner {
		return schemas.Result{}, words.Invalid("this thread or member has no usable id", "")
	}
	if c.Role < schemas.Member {
		return schemas.Result{}, desk.Guest()
	}
	i := slices.IndexFunc(b.own, func(t own.Tool) bool { return t.Name == name && (name != own.Shell || b.opt.Sandboxes != nil) })
	if i < 0 {
		var known []string
		for _, t := range b.OwnTools(ctx, c) {
			known = append(known, t.Name)
		}
		return schemas.Result{}, words.NotFound("tool", name, known, "")
	}
	if err := b.own[i].Check(call.Args); err != nil {
		return schemas.Result{}, err
	}
	asked := schemas.Record{Thread: c.Thread, Member: c.Member, Name: c.Name, Door: c.Door, Event: schemas.EventAsked, Origin: schemas.ByAssistant,
		Tool: name, Detail: "the assistant: " + name}
	if _, err := b.opt.Journal.Append(ctx, asked); err != nil {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeInternal, Text: "the audit log cannot be written", Err: err}
	}
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		return schemas.Result{}, err
	}
	why := own.Wary(cfg.Policy, call.Wary)
	switch name {
	case own.Connect:
		return b.ownConnect(ctx, call, why)
	case own.List:
		return b.ownList(ctx, c)
	case own.Disconnect:
		return b.ownDisconnect(ctx, call, why)
	case own.Shell:
		return b.ownShell(ctx, call, b.own[i].Tool, why)
	}
	return b.ownInstall(ctx, call, why)
}

// worded makes every error one with words; what is nobody's business but the operator's becomes a reference number.
func (b *Bot) worded(c schemas.Caller, err error) error {
	if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code != schemas.CodeInternal {
		if e.Code == schemas.CodeUnknown && e.Hint == "" {
			e.Hint = own.List + " shows it"
		}
		return e
	}
	r := b.desk.Refusal(c, err)
	code := r.Code
	if code == "" {
		code = schemas.CodeInternal
	}
	return &schemas.Error{Code: code, Text: r.Blocks[0].Text, Err: err}
}

// Masked gives the arguments of a call as they may be shown and written down: of a server's tool as they are, of anything else, which
// may be one of OwnTools with its name misspelt, without the values of env.
func (*Bot) Masked(name string, args json.RawMessage) json.RawMessage {
	if strings.HasPrefix(name, "ext_") || !bytes.Contains(bytes.ToLower(args), []byte("env")) && !bytes.Contains(args, []byte(`\u`)) {
		return args
	}
	return own.Hidden(args)
}
