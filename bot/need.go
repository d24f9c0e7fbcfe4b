package bot

import (
	"context"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// wantsOf reports whether a server waits for something that the caller alone can give: a value, or their sign-in.
func wantsOf(c schemas.Caller, s schemas.Status) bool {
	return s.State == schemas.Needs && s.Owner == c.Member || s.State == schemas.NeedsConnect
}

// maxOffers bounds the servers for which a list offers to sign in; a door draws few buttons.
const maxOffers = 8

// offerNeeds adds choices to give what servers of the caller need and to sign in. Equal inputs of several servers are asked once.
func (b *Bot) offerNeeds(t desk.Turn, r Reply, needy []schemas.Status) Reply {
	if r.ID != "" {
		return r
	}
	var ids, unsigned []string
	for _, s := range needy {
		if s.State == schemas.NeedsConnect && b.opt.SignIns != nil && len(unsigned) < maxOffers {
			unsigned = append(unsigned, s.Name)
		}
		for _, id := range s.Needs {
			if s.State == schemas.Needs && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) > 0 {
		r.Choices = []Choice{{Key: "give", Label: "Give " + words.Short(words.Clean(strings.Join(ids, ", ")), 60), Style: "primary"}}
	}
	for _, n := range unsigned {
		label := "Connect yours"
		if len(unsigned) > 1 {
			label += ": " + words.Clean(n)
		}
		r.Choices = append(r.Choices, Choice{Key: "connect:" + n, Label: label})
	}
	if len(r.Choices) == 0 {
		return r
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if name, ok := strings.CutPrefix(a.Choice, "connect:"); ok {
			return b.connectYours(ctx, t, name)
		}
		return b.giveForm(ctx, t, ids, "")
	}
	return b.desk.Deal(c, r)
}

// users is the servers of the caller that use an input, in load order; only names one of them, "" is all.
func users(cfg schemas.Config, c schemas.Caller, id, only string) []schemas.Entry {
	return slices.DeleteFunc(slices.Clone(cfg.Entries), func(e schemas.Entry) bool {
		return e.Shadowed || e.Owner != c.Member || (only != "" && e.Name != only) || !slices.Contains(wanted(e), id)
	})
}

// wanted is the inputs of what the entry's file says and of what runs.
func wanted(e schemas.Entry) []string {
	ids := e.Server.Inputs()
	if run, ok := e.Running(); ok {
		ids = append(ids, run.Inputs()...)
	}
	return ids
}

// giveForm asks for values where nobody else sees them.
func (b *Bot) giveForm(ctx context.Context, t desk.Turn, ids []string, only string) (Reply, error) {
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	form := &Form{Title: "values for your vault", Submit: "Put into the vault"}
	for _, id := range ids {
		f := Field{Name: id, Label: words.Clean(id), Kind: "secret", Required: true}
		var uses []string
		for _, e := range users(cfg, t.Caller, id, only) {
			uses = append(uses, e.Name)
		}
		f.Hint = "for " + words.Clean(strings.Join(uses, ", "))
		for _, in := range cfg.Inputs {
			if in.ID != id {
				continue
			}
			if in.Description != "" {
				f.Hint = words.Short(words.Clean(in.Description), 80) + ", " + f.Hint
			}
			if !in.Password && in.Default != "" { // a value with a public default is none to hide
				f.Kind, f.Default = "", in.Default
			}
			if len(in.Options) > 0 {
				f.Kind, f.Options, f.Default = "choice", in.Options, in.Default
			}
		}
		form.Fields = append(form.Fields, f)
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		return b.give(ctx, t, ids, only, a.Values)
	}
	return b.desk.Deal(c, Reply{Private: true, Form: form}), nil
}

// give seals values for exactly the servers of the caller that use them, and starts those.
func (b *Bot) give(ctx context.Context, t desk.Turn, ids []string, only string, values map[string]string) (Reply, error) {
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	var started []string
	for _, id := range ids {
		v := strings.TrimRight(values[id], "\r\n")
		if v == "" {
			return Reply{}, words.Invalid(words.Clean(id)+" is needed", "`/mcp secrets set "+words.Clean(id)+"` asks again")
		}
	}
	for _, id := range ids {
		es := users(cfg, t.Caller, id, only)
		if len(es) == 0 {
			return Reply{}, words.NotFound("server of yours that uses", id, nil, "`/mcp list` shows what is needed")
		}
		for _, e := range es {
			if err := b.desk.Record(ctx, t.Caller, schemas.Record{Event: schemas.EventSecret, Server: e.Name, Detail: "set " + id}); err != nil {
				return Reply{}, err
			}
			key := schemas.SecretKey{Member: e.Owner, Thread: t.Caller.Thread, Server: e.Name, Name: id, Origin: e.Origin()}
			if err := b.opt.Secrets.Put(ctx, key, schemas.NewSecret(strings.TrimRight(values[id], "\r\n"))); err != nil {
				return Reply{}, err
			}
			if !slices.Contains(started, e.Name) {
				started = append(started, e.Name)
			}
		}
	}
	text := words.Clean(strings.Join(ids, ", ")) + " is in your vault"
	if len(ids) > 1 {
		text = words.Clean(strings.Join(ids, ", ")) + " are in your vault"
	}
	return b.up(ctx, t, started, started, []Block{{Text: text}})
}

// up brings servers in line with the config and reports on the named ones. Those that got a new value, which the config does not
// show, are started again if they run.
func (b *Bot) up(ctx context.Context, t desk.Turn, names, fresh []string, blocks []Block) (Reply, error) {
	var before []schemas.Status
	if len(fresh) > 0 {
		var err error
		if before, err = b.opt.Tools.Status(ctx, t.Caller.Thread); err != nil {
			return b.desk.Saved(t, blocks, err), nil
		}
	}
	var again []string
	apply := len(fresh) < len(names) || len(names) == 0
	for _, n := range names {
		i := slices.IndexFunc(before, func(s schemas.Status) bool { return s.Name == n && s.State != schemas.ShadowedState })
		switch {
		case i < 0 || !slices.Contains(fresh, n):
		case before[i].State == schemas.Ready || before[i].State == schemas.Failed || before[i].State == schemas.Held || before[i].State == schemas.Idle:
			again = append(again, n)
		case before[i].State == schemas.Needs || before[i].State == schemas.Starting:
			apply = true
		default: // it is off or waits for approval
			continue
		}
		t.Tell(words.Clean(n) + " is starting …")
	}
	done, err := b.bring(ctx, t, func(ctx context.Context) error {
		if err := b.restart(ctx, t.Caller.Thread, again); err != nil || !apply {
			return err
		}
		return b.opt.Live.Apply(ctx, t.Caller.Thread)
	})
	if err != nil {
		return b.desk.Saved(t, blocks, err), nil
	}
	return b.told(ctx, t, names, blocks, done)
}

// startless reports whether an error is about more than the state of the server, which the report words better.
func startless(err error) bool {
	switch schemas.CodeOf(err) {
	case schemas.CodeNotReady, schemas.CodeFailed, schemas.CodeNeeds, schemas.CodePending, schemas.CodeNotFound:
		return false
	}
	return true
}
