package bot

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/own"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// ownLog is how much of an installation's log a model gets, in characters.
const ownLog = 4000

// ownInstall is auto_install_and_connect_mcp.
func (b *Bot) ownInstall(ctx context.Context, call schemas.Call, wary string) (schemas.Result, error) {
	c := call.Caller
	in, err := own.Read[struct {
		Name    string
		Install struct{ Type, Spec string }
		Start   *struct {
			Command string
			Args    []string
		}
		Env      map[string]string
		Remember bool
	}](call.Args)
	if err != nil {
		return schemas.Result{}, err
	}
	if !schemas.ValidName(in.Name) {
		return schemas.Result{}, words.Invalid("name: that is no name for a server", "letters, digits, dot, - and _, at most 48, a letter or digit first")
	}
	pkg := schemas.Package{Kind: schemas.PackageKind(in.Install.Type), Spec: in.Install.Spec, Name: in.Name}
	if in.Start != nil {
		pkg.Start = append([]string{in.Start.Command}, in.Start.Args...)
	}
	g := &preset{env: map[string]string{}, hold: !in.Remember}
	for k, v := range in.Env {
		if strings.Contains(v, "${input:") {
			return schemas.Result{}, words.Invalid("env "+k+": a value is given whole; leave it empty, and the member is asked for it", "")
		}
		if v == own.Mask {
			return schemas.Result{}, own.Taken(k)
		}
		if v != "" {
			g.env[k] = v
		}
	}
	if len(g.env) > 0 && g.hold && b.opt.Memory == nil {
		return schemas.Result{}, noMemory()
	}
	if g.hide, err = b.secretsIn(in.Name, g.env); err != nil {
		return schemas.Result{}, err
	}
	r, err := b.install(ctx, desk.Turn{Caller: c, Tell: func(string) {}}, pkg, g)
	if err != nil {
		return schemas.Result{}, err
	}
	r.Private = len(g.env) > 0
	end, err := b.desk.Wished(ctx, desk.Wish{Call: call, What: "install " + words.Clean(in.Name), Wary: wary}, r)
	if err != nil {
		return schemas.Result{}, err
	}
	log := logOf(end.Reply)
	rest, cancel := desk.After(ctx)
	defer cancel()
	cfg, err := b.opt.Config.Load(rest, c.Thread)
	if err != nil {
		return schemas.Result{}, err
	}
	e, ok := cfg.Find(in.Name)
	if !ok {
		return own.Result(connection{ID: schemas.Slug(in.Name), Name: in.Name, State: "not installed", Message: "NOT connected, nothing stored", Why: plain(end.Reply), Tools: []string{}, Log: log}, true)
	}
	return b.ownConnected(ctx, c, e.Server, true, log)
}

// logOf is the end of the log that a reply about an installation carries.
func logOf(r Reply) string {
	i := slices.IndexFunc(r.Blocks, func(x Block) bool { return x.File != nil })
	if i < 0 {
		return ""
	}
	return tailText(string(r.Blocks[i].File.Data), ownLog)
}

func noMemory() error {
	return &schemas.Error{Code: schemas.CodeMissing, Text: "values cannot be held in memory here", Hint: "leave them empty, and the member is asked for them"}
}

// secretsIn names the variables whose values look like secrets, as in any text that is imported.
func (b *Bot) secretsIn(name string, env map[string]string) ([]string, error) {
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]schemas.Server{name: {Type: schemas.Stdio, Command: "x", Env: env}}})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, d := range b.opt.Import("", data, name).Servers {
		for _, k := range slices.Sorted(maps.Keys(env)) {
			if d.Server.Env[k] != env[k] {
				all = append(all, k)
			}
		}
	}
	return all, nil
}
