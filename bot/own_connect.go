package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/own"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// memory holds values until bobbin ends, in front of those in the vault. Holds reports whether it does for a key. What it holds is
// dropped as the vault's values are. Nothing of it is ever written.
type memory interface {
	Hold(context.Context, schemas.SecretKey, schemas.Secret) error
	Holds(schemas.SecretKey) bool
}

const (
	ownTail = 2000 // characters of stderr that a model gets
)

// connection is one server as the assistant sees it.
type connection struct {
	Message string   `json:"message,omitempty"`
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Why     string   `json:"why,omitempty"`
	Owner   string   `json:"owner,omitempty"`
	Env     []string `json:"env,omitempty"` // names, and where their values are
	Needs   []string `json:"needs,omitempty"`
	Tools   []string `json:"tools"`
	Stderr  string   `json:"stderr,omitempty"`
	Log     string   `json:"log,omitempty"` // the end of an installation's
}

// ownConnect is connect_external_mcp.
func (b *Bot) ownConnect(ctx context.Context, call schemas.Call, wary string) (schemas.Result, error) {
	c := call.Caller
	in, err := own.Read[struct {
		Name, Command string
		Args          []string
		Env           map[string]string
		Remember      bool
	}](call.Args)
	if err != nil {
		return schemas.Result{}, err
	}
	edit, facts, err := b.ownDraft(in.Name, schemas.Server{Type: schemas.Stdio, Command: in.Command, Args: in.Args, Env: in.Env}, in.Remember)
	if err != nil {
		return schemas.Result{}, err
	}
	edit.Source = own.Connect
	s := edit.Put[0].Server
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		return schemas.Result{}, err
	}
	e, was := cfg.Find(s.Name)
	if was && !e.Enabled {
		edit.Enable = []string{s.Name}
	}
	if was && e.Pending() && e.Server.Fingerprint() == s.Fingerprint() && len(edit.Put[0].Found) == 0 { // what an edit by hand left waiting is what is wished for
		edit.Put, edit.Approve = nil, []string{s.Name}
	}
	t := desk.Turn{Caller: c, Tell: func(string) {}}
	r, err := b.propose(ctx, t, edit)
	if err != nil {
		return schemas.Result{}, err
	}
	if r.ID == "" { // it is there already, as wished
		return b.ownConnected(ctx, c, s, false, "")
	}
	if len(facts) > 0 {
		r.Private = true
		r.Blocks = append(r.Blocks, Block{Facts: facts})
	}
	end, err := b.desk.Wished(ctx, desk.Wish{Call: call, What: "connect " + words.Clean(s.Name), Wary: wary}, r)
	if err != nil {
		return schemas.Result{}, err
	}
	return b.ownConnected(ctx, c, s, !was && !end.Again, "")
}

// ownDraft reads a definition as a paste is read. No value of env stays in it: what looks like a secret is found anyway, the rest
// goes the same way, and stands on the card, since it may say where the program sends what it knows.
func (b *Bot) ownDraft(name string, s schemas.Server, remember bool) (schemas.Edit, []Fact, error) {
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]schemas.Server{name: s}})
	if err != nil {
		return schemas.Edit{}, nil, err
	}
	im := b.opt.Import("", data, name)
	if len(im.Problems) > 0 {
		var said []string
		for _, p := range view.Placeless(im.Problems) {
			said = append(said, words.Text(p.String()))
		}
		return schemas.Edit{}, nil, words.Invalid(strings.Join(said, "; "), "")
	}
	if len(im.Servers) != 1 || im.Servers[0].Server.Remote() {
		return schemas.Edit{}, nil, words.Invalid("that is no program to start", "remote servers are added by the member, with `/mcp connect URL`")
	}
	d := im.Servers[0]
	env, taken := maps.Clone(d.Server.Env), d.Server.Inputs()
	var facts []Fact
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if s.Env[k] == own.Mask {
			return schemas.Edit{}, nil, own.Taken(k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		ref := schemas.InputRef.FindString(env[k])
		switch {
		case ref != "" && ref == env[k]:
			continue
		case ref != "":
			return schemas.Edit{}, nil, words.Invalid("env "+k+": a value is given whole, or is ${input:NAME} and nothing else", "")
		}
		id := k
		for n := 2; slices.Contains(taken, id); n++ {
			id = fmt.Sprintf("%.60s_%d", k, n)
		}
		taken = append(taken, id)
		d.Found = append(d.Found, schemas.Found{Server: d.Server.Name, Input: id, Value: schemas.NewSecret(env[k]), Where: "env " + k})
		im.Inputs = append(im.Inputs, schemas.Input{Type: "promptString", ID: id, Password: true})
		line := k + "=" + words.Arg(env[k])
		facts = append(facts, Fact{Label: map[bool]string{true: "env"}[len(facts) == 0], Value: words.Short(line, view.MaxShown), Note: view.CutNote(line)})
		env[k] = "${input:" + id + "}"
	}
	d.Server.Env = env
	if len(d.Found) > 0 && !remember && b.opt.Memory == nil {
		return schemas.Edit{}, nil, noMemory()
	}
	notes := im.Notes
	if !remember {
		notes = slices.DeleteFunc(notes, func(n schemas.Note) bool { return n.Kind == schemas.NoteSecret }) // they say "vault"
	}
	return schemas.Edit{Put: []schemas.Draft{d}, Inputs: im.Inputs, Notes: notes, Hold: !remember}, facts, nil
}

// ownConnected waits until a server has started and says how it is. One that was new and failed is taken back.
func (b *Bot) ownConnected(ctx context.Context, c schemas.Caller, s schemas.Server, fresh bool, log string) (schemas.Result, error) {
	st, err := b.started(ctx, c, s.Name)
	if err != nil {
		return schemas.Result{}, err
	}
	all, err := b.connections(ctx, c, s.Name)
	if err != nil {
		return schemas.Result{}, err
	}
	if len(all) == 0 {
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeNotFound, Text: words.Clean(s.Name) + " is gone again", Hint: own.List + " shows what there is"}
	}
	one := all[0]
	one.Log = log
	switch st.State {
	case schemas.Failed:
		one.Message = "NOT connected; the entry is stored as changed, and `/mcp undo` takes that back"
		one.Stderr = tailText(words.Lines(st.Stderr), ownTail)
		if fresh {
			if one.Message = "NOT connected, nothing stored"; b.takeBack(ctx, c, s) != nil {
				one.Message = "NOT connected; the entry could not be taken back and is stored as failed"
			}
			one.Tools = []string{}
		}
	case schemas.Needs, schemas.NeedsConnect:
		one.Message = "stored, NOT connected yet: the member has to give " + words.Clean(strings.Join(st.Needs, ", ")) + ", for which they were asked where nobody else sees it"
	case schemas.Ready, schemas.Held:
		one.Message = "connected: " + words.Count(len(one.Tools), "tool", "tools")
	case schemas.Starting:
		one.Message = "stored, and still starting; " + own.List + " shows when it is connected"
	default:
		one.Message = "stored; " + view.Became(c, st)
	}
	return own.Result(one, st.State == schemas.Failed)
}

// started waits, for as long as a start may take, until a server is not starting any more.
func (b *Bot) started(ctx context.Context, c schemas.Caller, name string) (schemas.Status, error) {
	wait, cancel := context.WithTimeout(ctx, b.opt.StartWait)
	defer cancel()
	tick := time.NewTicker(desk.PollStep)
	defer tick.Stop()
	for {
		st, err := b.statusOf(context.WithoutCancel(ctx), c, name)
		if err != nil || st.State != schemas.Starting {
			return st, err
		}
		select {
		case <-tick.C:
		case <-wait.Done():
			return st, nil
		}
	}
}

func (b *Bot) statusOf(ctx context.Context, c schemas.Caller, name string) (schemas.Status, error) {
	ctx, cancel := desk.After(ctx)
	defer cancel()
	ss, err := b.opt.Tools.Status(ctx, c.Thread)
	if err != nil {
		return schemas.Status{}, err
	}
	for _, s := range b.viewed(ctx, c, ss) {
		if s.Name == name && s.State != schemas.ShadowedState {
			return s, nil
		}
	}
	return schemas.Status{Name: name, State: schemas.Starting}, nil // the registry has not seen it yet
}

// takeBack removes a server that was just added and did not start, as long as it is still what was confirmed.
func (b *Bot) takeBack(ctx context.Context, c schemas.Caller, s schemas.Server) error {
	ctx, cancel := desk.After(ctx)
	defer cancel()
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		return err
	}
	if e, ok := cfg.Find(s.Name); !ok || e.Server.Fingerprint() != s.Fingerprint() {
		return desk.Gone()
	}
	p, err := b.opt.Config.Propose(ctx, c, schemas.Edit{Remove: []string{s.Name}, Source: "taken back, since it did not start"})
	if err != nil {
		return err
	}
	p.By = c
	rev, err := b.opt.Config.Commit(ctx, c, p)
	if err != nil {
		return err
	}
	b.desk.Noted(ctx, c, schemas.Record{Event: schemas.EventCommit, Server: s.Name, Detail: strings.TrimSpace(rev.ID + " taken back, since it did not start")})
	if err := b.opt.Forget.Forget(ctx, c.Thread, s.Name); err != nil {
		b.opt.Log.Error("values of a server that was taken back stay", "thread", c.Thread, "server", s.Name, "err", err)
	}
	b.desk.Publish(Notice{Thread: c.Thread, Changed: true, Reply: Reply{Blocks: []Block{{Text: words.Clean(s.Name) + " did not start, so it was taken back; nothing of it is stored"}}}}, "")
	if err := b.opt.Live.Apply(ctx, c.Thread); err != nil {
		b.opt.Log.Warn("a server that was taken back may run on", "thread", c.Thread, "server", s.Name, "err", err)
	}
	b.uninstalled(ctx, p)
	return nil
}

// tailText keeps the last characters of a text, from the beginning of a line where there is one.
func tailText(s string, n int) string {
	r := []rune(strings.TrimSpace(s))
	if len(r) <= n {
		return string(r)
	}
	cut := string(r[len(r)-n:])
	if _, rest, ok := strings.Cut(cut, "\n"); ok && rest != "" {
		cut = rest
	}
	return "…\n" + cut
}

// connections lists the thread's servers; only names one of them.
func (b *Bot) connections(ctx context.Context, c schemas.Caller, only string) ([]connection, error) {
	ctx, cancel := desk.After(ctx)
	defer cancel()
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		return nil, err
	}
	ss, err := b.opt.Tools.Status(ctx, c.Thread)
	if err != nil {
		return nil, err
	}
	ss = b.viewed(ctx, c, ss)
	var ts []schemas.Tool
	if slices.ContainsFunc(ss, func(s schemas.Status) bool { return s.Tools > 0 }) {
		wait, cancel := context.WithTimeout(ctx, boardWait)
		defer cancel()
		if ts, err = b.opt.Tools.Tools(wait, c); err != nil {
			b.opt.Log.Warn("connections without tools", "thread", c.Thread, "err", err)
		}
	}
	keys, err := b.opt.Secrets.Names(ctx, c.Member, c.Thread)
	if err != nil {
		return nil, err
	}
	all := []connection{}
	for _, e := range cfg.Entries {
		if e.Shadowed || only != "" && e.Name != only {
			continue
		}
		one := connection{ID: schemas.Slug(e.Name), Name: e.Name, State: "stopped", Tools: []string{}, Env: b.envNames(c, e, keys)}
		if e.Owner != c.Member {
			one.Owner = words.Clean(words.At(e.Owner, e.OwnerName))
		}
		if !e.Enabled {
			one.State = "disconnected"
		}
		if i := slices.IndexFunc(ss, func(s schemas.Status) bool { return s.Name == e.Name && s.State != schemas.ShadowedState }); i >= 0 {
			one.State, one.Why, one.Needs = connected(ss[i].State), tailText(words.Text(ss[i].Why), 400), ss[i].Needs
		}
		for _, x := range ts {
			if x.Server == e.Name && x.Held == "" {
				one.Tools = append(one.Tools, x.Model)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// connected words a state for the assistant.
func connected(s schemas.State) string {
	switch s {
	case schemas.Ready:
		return "connected"
	case schemas.Idle:
		return "stopped"
	case schemas.Off:
		return "disconnected"
	}
	return string(s)
}

// envNames names the variables of a server and says where their values are, as far as it is the caller's to know.
func (b *Bot) envNames(c schemas.Caller, e schemas.Entry, keys []schemas.SecretKey) []string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(e.Env)) {
		where := "in the config"
		if ref := schemas.InputRef.FindStringSubmatch(e.Env[k]); ref != nil {
			key := schemas.SecretKey{Member: c.Member, Thread: c.Thread, Server: e.Name, Name: ref[1], Origin: e.Origin()}
			switch held := b.opt.Memory != nil && b.opt.Memory.Holds(key); {
			case e.Owner != c.Member:
				where = "its owner's"
			case !held && slices.Contains(keys, key):
				where = "in the vault"
			default:
				where = "not stored"
			}
		}
		all = append(all, words.Clean(k)+" ("+where+")")
	}
	return all
}

// ownList is list_external_mcp.
func (b *Bot) ownList(ctx context.Context, c schemas.Caller) (schemas.Result, error) {
	all, err := b.connections(ctx, c, "")
	if err != nil {
		return schemas.Result{}, err
	}
	return own.Result(map[string]any{"connections": all}, false)
}

// ownDisconnect is disconnect_external_mcp.
func (b *Bot) ownDisconnect(ctx context.Context, call schemas.Call, wary string) (schemas.Result, error) {
	c := call.Caller
	in, err := own.Read[struct {
		ID, Name string
		Delete   bool
	}](call.Args)
	if err != nil {
		return schemas.Result{}, err
	}
	cfg, err := b.opt.Config.Load(ctx, c.Thread)
	if err != nil {
		return schemas.Result{}, err
	}
	i := slices.IndexFunc(cfg.Entries, func(e schemas.Entry) bool {
		return !e.Shadowed && (in.ID == "" || schemas.Slug(e.Name) == in.ID) && (in.Name == "" || e.Name == in.Name)
	})
	if i < 0 {
		word := in.ID
		if in.Name != "" {
			word = in.Name
		}
		return schemas.Result{}, words.NotFound("connection", word, names(cfg), own.List+" names them")
	}
	e, t := cfg.Entries[i], desk.Turn{Caller: c, Tell: func(string) {}}
	if err := mayChange(c, e); err != nil {
		return schemas.Result{}, err
	}
	one := connection{ID: schemas.Slug(e.Name), Name: e.Name, Tools: []string{}}
	if in.Delete {
		r, err := b.propose(ctx, t, schemas.Edit{Remove: []string{e.Name}, Source: own.Disconnect})
		if err != nil {
			return schemas.Result{}, err
		}
		if _, err := b.desk.Wished(ctx, desk.Wish{Call: call, What: "remove " + words.Clean(e.Name), Wary: wary}, r); err != nil {
			return schemas.Result{}, err
		}
		one.State, one.Message = "deleted", "the entry and its values are forgotten"
		return own.Result(one, false)
	}
	one.State, one.Message = "disconnected", "its entry is kept, off"
	if !e.Enabled {
		one.Message = "it was disconnected already; its entry is kept, off"
		return own.Result(one, false)
	}
	edit := schemas.Edit{Disable: []string{e.Name}, Source: own.Disconnect}
	if wary != "" {
		r, err := b.propose(ctx, t, edit)
		if err != nil {
			return schemas.Result{}, err
		}
		if _, err := b.desk.Wished(ctx, desk.Wish{Call: call, What: "switch off " + words.Clean(e.Name), Wary: wary}, r); err != nil {
			return schemas.Result{}, err
		}
		return own.Result(one, false)
	}
	p, err := b.opt.Config.Propose(ctx, c, edit)
	if err != nil {
		return schemas.Result{}, err
	}
	p.By = c
	r, err := b.confirm(ctx, t, edit, p, nil)
	switch {
	case err != nil:
		return schemas.Result{}, err
	case r.ID != "": // the config changed in this very moment
		b.desk.Drop(r.ID)
		return schemas.Result{}, &schemas.Error{Code: schemas.CodeConflict, Text: "the config changed meanwhile, so nothing was done", Hint: "try again"}
	case r.Bad:
		one.Message = plain(r)
	}
	b.desk.Publish(Notice{Thread: c.Thread, Reply: Reply{Blocks: []Block{{
		Text: words.Clean(e.Name) + " was switched off by the assistant, for " + words.At(c.Member, c.Name) + "; its entry stays · `/mcp enable " + words.Clean(e.Name) + "`"}}}}, "")
	return own.Result(one, false)
}
