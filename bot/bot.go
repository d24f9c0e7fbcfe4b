package bot

import (
	"context"
	"io"
	"log/slog"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/line"
	"bobbin/bot/internal/own"
	"bobbin/bot/internal/rule"
	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// config is what a thread wants. Called once or twice for a request, concurrently for many threads. Propose writes nothing and
// checks roles; Commit answers CodeConflict when the proposal's base is stale.
type config interface {
	Load(context.Context, schemas.ThreadID) (schemas.Config, error)
	Propose(context.Context, schemas.Caller, schemas.Edit) (schemas.Proposal, error)
	Commit(context.Context, schemas.Caller, schemas.Proposal) (schemas.Revision, error)
}

// past gives revisions, newest first, and downloads. What it gives holds no secret value.
type past interface {
	History(context.Context, schemas.ThreadID) ([]schemas.Revision, error)
	Export(ctx context.Context, thread schemas.ThreadID, format string) (schemas.File, error)
}

// rules changes a thread's policy: read, change, write under one lock. The function may be called more than once.
type rules interface {
	Rule(context.Context, schemas.ThreadID, func(*schemas.Policy) error) error
}

// tools is what a thread has. Tools may start approved servers whose tools are unknown; Status starts nothing. Call checks
// policy and writes the audit records of the call.
type tools interface {
	Tools(context.Context, schemas.Caller) ([]schemas.Tool, error)
	Call(context.Context, schemas.Call) (schemas.Result, error)
	Status(context.Context, schemas.ThreadID) ([]schemas.Status, error)
}

// live brings servers in line with the approved config. Only ever called after a person's yes; Poke never blocks.
type live interface {
	Apply(context.Context, schemas.ThreadID) error
	Poke(schemas.ThreadID)
	Restart(ctx context.Context, thread schemas.ThreadID, server string) error
}

// held is the tools whose definition changed after approval.
type held interface {
	Held(ctx context.Context, thread schemas.ThreadID, server string) ([]schemas.HeldTool, error)
	Accept(ctx context.Context, caller schemas.Caller, server string, seen map[string]string) error // name → pin as it was shown
}

// resources reads what servers offer besides tools, and results that were too long to show.
type resources interface {
	Resources(context.Context, schemas.Caller) ([]schemas.Resource, error)
	ReadResource(ctx context.Context, caller schemas.Caller, server, uri string) (schemas.Result, error)
	Result(ctx context.Context, thread schemas.ThreadID, id string) (schemas.File, error)
}

// prompts lists and fills the servers' prompts.
type prompts interface {
	Prompts(context.Context, schemas.Caller) ([]schemas.Prompt, error)
	Prompt(ctx context.Context, caller schemas.Caller, server, name string, args map[string]string) (schemas.Result, error)
}

// secrets takes values in and never gives one out.
type secrets interface {
	Put(context.Context, schemas.SecretKey, schemas.Secret) error
	Delete(context.Context, schemas.SecretKey) error
	Names(context.Context, schemas.MemberID, schemas.ThreadID) ([]schemas.SecretKey, error)
}

// forgetter drops all values of a server in a thread, of all members; of all servers if none is named. Called after the server,
// or the thread, was removed.
type forgetter interface {
	Forget(ctx context.Context, thread schemas.ThreadID, server string) error
}

// journal is the audit log. A change that cannot be written down is not made.
type journal interface {
	Append(context.Context, schemas.Record) (schemas.Record, error)
	Tail(ctx context.Context, thread schemas.ThreadID, n int) ([]schemas.Record, error)
}

// Options are the dependencies of a Bot, all required up to Place, and its settings.
type Options struct {
	Config    config
	Past      past
	Rules     rules
	Tools     tools
	Live      live
	Held      held
	Resources resources
	Prompts   prompts
	Secrets   secrets
	Forget    forgetter
	Drop      dropper
	Journal   journal
	// Import reads a text of unknown kind. name is the shown name of the file, "" for pasted text; hint the server's name when
	// the text is a single definition.
	Import func(name string, data []byte, hint string) schemas.Import
	// Place says where programs of a thread's members run.
	Place func(schemas.ThreadID) schemas.Place

	// How connectors are looked at and signed in to. What is nil is answered as no part of this setup; SignIns and Accounts come
	// together.
	Probe    prober
	SignIns  signIns
	Accounts accounts
	Revoke   revoker
	Loans    loans

	// Sandboxes are the members' own containers; nil: there are none here.
	Sandboxes sandboxes
	// Install brings packages into them; nil: not here.
	Install installer

	// Assistant answers messages; nil, or one without models: nobody does, and the first answer says how to set one up.
	Assistant assistant

	// Operator knows the operator's servers; nil: there are none.
	Operator operators

	// Gateway makes tokens for MCP clients outside of chat, Clients writes their entries; nil: nothing is lent.
	Gateway lender
	Clients entries

	// Memory holds values that are not to be kept; nil: nothing can.
	Memory memory

	// Allow opens hosts of private networks.
	Allow safehttp.Allow

	// Observe, if not nil, is told of each request when it begins, and by what it gives back when it ends: with "" or the code of
	// the refusal. command is one of few words.
	Observe func(ctx context.Context, door schemas.Door, command string) (context.Context, func(schemas.Code))

	CardTTL   time.Duration    // how long a card waits for its answer; 0 = 10 min
	StartWait time.Duration    // how long servers that start are waited for; 0 = 35 s, more than they get to connect
	Now       func() time.Time // nil = time.Now
	Log       *slog.Logger     // nil = discard
	Version   string
}

// Bot answers requests of all threads. It is safe for concurrent use; what goes on after a reply runs inside Run.
type Bot struct {
	opt   Options
	lines line.Table
	verbs map[string]verb // by name
	desk  *desk.Desk
	rules *rule.Rules
	shown newest
	signs signing
	here  presence
	works works
	own   []own.Tool
}

// New returns a Bot. It panics when a dependency is missing, since that is a mistake in the wiring.
func New(opt Options) *Bot {
	missing := map[string]bool{
		"Config": opt.Config == nil, "Past": opt.Past == nil, "Rules": opt.Rules == nil, "Tools": opt.Tools == nil,
		"Live": opt.Live == nil, "Held": opt.Held == nil, "Resources": opt.Resources == nil, "Prompts": opt.Prompts == nil,
		"Secrets": opt.Secrets == nil, "Forget": opt.Forget == nil, "Drop": opt.Drop == nil, "Journal": opt.Journal == nil,
		"Import": opt.Import == nil, "Place": opt.Place == nil,
	}
	for name, is := range missing {
		if is {
			panic("bot: Options." + name + " is required")
		}
	}
	if (opt.SignIns == nil) != (opt.Accounts == nil) {
		panic("bot: Options.SignIns and Options.Accounts come together")
	}
	if opt.CardTTL <= 0 {
		opt.CardTTL = 10 * time.Minute
	}
	if opt.StartWait <= 0 {
		opt.StartWait = 35 * time.Second
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	b := &Bot{opt: opt, own: own.Tools(), lines: line.New(),
		desk: desk.New(desk.Options{Journal: opt.Journal, CardTTL: opt.CardTTL, Now: opt.Now, Log: opt.Log})}
	b.rules = rule.New(b.desk, rule.Options{Config: opt.Config, Rules: opt.Rules, Tools: opt.Tools, Live: opt.Live,
		CardTTL: opt.CardTTL, StartWait: opt.StartWait, Now: opt.Now})
	b.verbs = b.runs()
	match(b.lines, b.verbs)
	b.signs.links, b.signs.calls, b.signs.loose = map[string]*errand{}, map[holder]waiting{}, map[holder]loose{}
	b.here.rosters, b.here.seen = map[*roster]struct{}{}, map[holder]sight{}
	b.shown.edits, b.shown.held = map[schemas.ThreadID]lastEdit{}, map[string]string{}
	return b
}
