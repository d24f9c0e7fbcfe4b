package host

import (
	"context"
	"log/slog"
	"path/filepath"

	"bobbin/agent"
	"bobbin/audit"
	"bobbin/bot"
	"bobbin/install"
	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/oauth"
	"bobbin/registry"
	"bobbin/sandbox"
	"bobbin/schemas"
	"bobbin/vault"
)

// Open opens the data folder and wires the rooms. Nothing runs yet, but programs that a killed bobbin left behind are ended.
// A *schemas.Error says in words what is wrong with the folder or the sandbox.
func Open(ctx context.Context, opt Options) (*Host, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	o := &opening{opt: opt, h: &Host{admins: &admins{}}, folder: map[string]*durable.Dir{}, late: &gate{}}
	for _, step := range []func(context.Context) error{
		o.openFolders, o.openFiles, o.pickSandbox, o.wireSignIns, o.wireServers, o.wireAssistant, o.wireBot,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return o.h, nil
}

// opening is a Host that is put together; each step uses what the ones before it made.
type opening struct {
	opt Options
	h   *Host

	data    *durable.Dir
	folder  map[string]*durable.Dir
	secrets *vault.Vault
	late    *gate // what needs the bot or the assistant before they are made has this

	place     func(schemas.ThreadID) schemas.Place
	boxes     *sandbox.Docker // nil unless local servers run in containers
	calls     measured
	assistant *agent.Agent
}

func (o *opening) openFolders(context.Context) (err error) {
	if o.data, err = durable.Open(o.opt.Data); err != nil {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "the data folder " + o.opt.Data + " cannot be used", Hint: "name another one with --data", Err: err}
	}
	for _, name := range []string{"users", "vault", "cache", "work", "locks", "boxes", "chat", "spent", "gateway"} {
		if o.folder[name], err = o.data.Sub(name); err != nil {
			return &schemas.Error{Code: schemas.CodeInvalid, Text: filepath.Join(o.opt.Data, name) + " cannot be used", Hint: "check who owns it", Err: err}
		}
	}
	return nil
}

func (o *opening) openFiles(context.Context) (err error) {
	if o.h.Store, err = mcpstore.Open(o.folder["users"], mcpstore.Options{Log: o.opt.Log, Admin: o.h.admins.definition}); err != nil {
		return err
	}
	if o.h.journal, err = audit.Open(o.folder["users"], audit.Options{Log: o.opt.Log}); err != nil {
		return err
	}
	if o.secrets, err = vault.Open(o.folder["vault"]); err != nil {
		return err
	}
	o.h.admins.store = o.h.Store
	return o.h.admins.open(o.data, o.secrets, o.opt)
}

func (o *opening) pickSandbox(ctx context.Context) error {
	run, boxes, why, err := o.opt.launcher(ctx, o.folder["work"], func() (*sandbox.Docker, error) {
		return o.opt.containers(ctx, o.folder["boxes"], o.h.Store, o.h.journal, o.late)
	})
	if err != nil {
		return err
	}
	o.boxes, o.place = boxes, o.opt.place(run, why)
	o.h.launcher = local{run, o.place}
	return nil
}

func (o *opening) wireSignIns(context.Context) (err error) {
	c := o.opt.Connect
	o.h.SignIns, err = oauth.New(oauth.Options{
		Vault: o.secrets, Names: o.secrets, Journal: o.h.journal, Locks: o.folder["locks"], HTTP: o.opt.guarded(), Check: o.opt.check, Public: c.Public,
		Local: c.Local, Login: c.Login, Clients: c.Clients, Document: c.Document, Done: o.late.signedIn, Log: o.opt.Log,
	})
	return err
}

// wireServers makes the registry, and the gateway that lends its tools.
func (o *opening) wireServers(context.Context) (err error) {
	wires := registry.Options{
		Wishes: o.h.Store, Launcher: o.h.launcher, Secrets: o.secrets, Journal: o.h.journal, Gate: o.late, Ask: o.late, Tell: o.late,
		Cache: o.folder["cache"], Credentials: o.h.admins.credentials(o.h.SignIns.Client), Hidden: o.h.admins.hidden, Signed: o.h.SignIns.Signed,
		Here: o.late.here, Version: o.opt.Version, Log: o.opt.Log,
	}
	if len(o.opt.Assistant.Models) > 0 {
		wires.Sample = o.late
	}
	if o.h.Registry, err = registry.New(wires); err != nil {
		return err
	}
	o.calls = measured{o.h.Registry, o.opt.Observe}
	o.h.Gateway = o.opt.gateway(o.folder["gateway"], o.h, o.calls, o.late.standing)
	return nil
}

func (o *opening) wireAssistant(context.Context) (err error) {
	a := o.opt.Assistant
	var models []agent.Choice
	for _, m := range a.Models {
		models = append(models, o.opt.Observe.Model(m))
	}
	o.assistant, err = agent.New(agent.Options{
		Tools: o.calls, Own: o.late, Resources: o.h.Registry, Journal: o.h.journal, Chats: o.folder["chat"], Spent: o.folder["spent"], Models: models,
		Prompt: a.Prompt, MemberTokens: a.MemberTokens, ThreadTokens: a.ThreadTokens, Log: o.opt.Log,
	})
	return err
}

func (o *opening) wireBot(context.Context) error {
	h, live, secrets := o.h, o.h.Registry, o.secrets
	talk := bot.Options{
		Assistant: o.assistant,
		Config:    h.Store, Past: h.Store, Rules: h.Store,
		Tools: o.calls, Observe: o.opt.Observe.Request, Live: live, Held: live, Resources: live, Prompts: live,
		Secrets: secrets, Memory: secrets, Forget: secrets, Drop: drop{h.Store, live, h.Gateway, o.assistant}, Journal: h.journal,
		Probe: live, SignIns: h.SignIns, Accounts: accounts{h.SignIns, live, h.Gateway}, Revoke: h.SignIns, Loans: h.Store,
		Operator: desk{h.admins}, Gateway: h.Gateway, Clients: h.Gateway, Allow: o.opt.Allow, Import: mcpstore.Import, Place: o.place,
		Version: o.opt.Version, Log: o.opt.Log,
	}
	if o.boxes != nil {
		talk.Sandboxes, talk.Install = o.boxes, install.New(o.boxes, o.boxes, install.Options{})
	}
	h.Bot = bot.New(talk)
	o.late.bot, o.late.live, o.late.agent = h.Bot, live, o.assistant
	return nil
}
