package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// upload takes a config file. It is a merge: servers that the file does not name stay.
func (b *Bot) upload(ctx context.Context, t desk.Turn) (Reply, error) {
	if t.File == nil {
		return Reply{}, words.Invalid("no file came with that", "at the terminal `/mcp upload PATH`; elsewhere attach the file, or paste it with `/mcp add-json`")
	}
	name := t.File.Name
	if name == "" {
		name = "the file"
	}
	if isBundle(t.File.Data) {
		return b.bundle(ctx, t, schemas.File{Name: name, Data: t.File.Data})
	}
	if len(t.File.Data) > desk.MaxText {
		return Reply{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: name + " is " + words.Size(len(t.File.Data)) + "; at most " + words.Size(desk.MaxText),
			Hint: "a config holds servers only; is it the right file?"}
	}
	return b.imported(ctx, t, name, t.File.Data, "", "upload "+name)
}

func (b *Bot) addJSON(ctx context.Context, t desk.Turn) (Reply, error) {
	if len(t.Args["json"]) > desk.MaxText {
		return Reply{}, &schemas.Error{Code: schemas.CodeTooLarge, Text: "that text is " + words.Size(len(t.Args["json"])) + "; at most " + words.Size(desk.MaxText)}
	}
	return b.imported(ctx, t, "", []byte(t.Args["json"]), t.Arg("name"), "add-json")
}

// imported reads a config text and proposes its servers.
func (b *Bot) imported(ctx context.Context, t desk.Turn, file string, data []byte, hint, source string) (Reply, error) {
	in := b.opt.Import(file, data, hint)
	if len(in.Problems) > 0 {
		name, again := file, "fix "+map[bool]string{true: "it", false: "them"}[len(in.Problems) == 1]+" and run `/mcp upload "+words.Clean(file)+"` again"
		if file == "" {
			name, again = "the text", "fix it and paste it again"
		}
		return view.Mistakes(name, in.Problems, again), nil
	}
	if r, ok, err := b.suggested(ctx, t, in, hint); ok || err != nil {
		return r, err
	}
	if len(in.Servers) == 0 {
		return Reply{}, words.Invalid("there is no server in that", "a server has a \"command\", or a \"url\" for `/mcp connect`; see `/mcp help add`")
	}
	notes := in.Notes
	if in.Repaired != "" && !slices.ContainsFunc(notes, func(n schemas.Note) bool { return n.Kind == schemas.NoteRepair }) {
		notes = append([]schemas.Note{{Kind: schemas.NoteRepair, Text: "the text was broken; the diff shows how I read it, so compare the two"}}, notes...)
	}
	return b.propose(ctx, t, schemas.Edit{Put: in.Servers, Inputs: in.Inputs, Notes: notes, Source: source})
}

// add opens the form for a local server, or takes a typed line.
func (b *Bot) add(ctx context.Context, t desk.Turn) (Reply, error) {
	values := map[string]string{"name": t.Arg("name"), "command": t.Arg("command"), "args": t.Args["args"], "env": t.Args["env"], "cwd": t.Arg("cwd")}
	for _, w := range []string{"--base-image", "--proxy-image", "--sse-port", "--sse-host", "--allow-origin"} {
		if strings.Contains(" "+values["command"], " "+w) {
			return Reply{}, words.Invalid("that is the operator's form of add", "run `bobbin mcp add …` at the machine; here a server is a name and a command")
		}
	}
	if strings.Contains(values["name"], "://") || strings.HasPrefix(values["command"], "http") {
		return Reply{}, words.Invalid("that is an address; remote servers are added with `/mcp connect`", "`/mcp connect URL`")
	}
	if values["name"] == "" || values["command"] == "" {
		return b.serverForm(t, "add a local server", values, true, func(ctx context.Context, t desk.Turn, v map[string]string) (Reply, error) {
			return b.formed(ctx, t, v, nil)
		}), nil
	}
	return b.formed(ctx, t, values, nil)
}

// serverForm asks for the five things that make a local server.
func (b *Bot) serverForm(t desk.Turn, title string, values map[string]string, named bool, then func(context.Context, desk.Turn, map[string]string) (Reply, error)) Reply {
	fields := []Field{
		{Name: "name", Label: "name", Hint: "letters, digits, . _ -", Required: true},
		{Name: "command", Label: "command", Hint: "a program, such as npx or node", Required: true},
		{Name: "args", Label: "arguments", Hint: "as in a shell: -y some-package 'two words'"},
		{Name: "env", Label: "env", Hint: "KEY=VALUE, one a line; secrets go to your vault", Kind: "multiline"},
		{Name: "cwd", Label: "folder", Hint: "empty: your workspace"},
	}
	if !named {
		fields = fields[1:]
	}
	for i := range fields {
		fields[i].Default = values[fields[i].Name]
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		got := map[string]string{"name": values["name"]}
		maps.Copy(got, a.Values)
		return then(ctx, t, got)
	}
	return b.desk.Deal(c, Reply{Private: true, Form: &Form{Title: title, Fields: fields, Submit: "Show what it would do"}})
}

// formed turns a filled form into a proposal. was is the entry that is edited, nil for a new one.
func (b *Bot) formed(ctx context.Context, t desk.Turn, v map[string]string, was *schemas.Server) (Reply, error) {
	name := strings.TrimSpace(v["name"])
	s, problems := formServer(v)
	if name == "" {
		problems = append(schemas.Problems{{Text: "name is needed"}}, problems...)
	}
	if len(problems) > 0 {
		return view.Mistakes("the form", problems, ""), nil
	}
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]schemas.Server{name: s}})
	if err != nil {
		return Reply{}, err
	}
	in := b.opt.Import("", data, name)
	if len(in.Problems) > 0 {
		return view.Mistakes("the form", view.Placeless(in.Problems), ""), nil
	}
	keepEmpty(&in, s.Env)
	source := "add"
	if was != nil {
		source = "edit"
		for i := range in.Servers {
			in.Servers[i].Server.Timeout, in.Servers[i].Server.Tools = was.Timeout, was.Tools
		}
	}
	return b.propose(ctx, t, schemas.Edit{Put: in.Servers, Inputs: in.Inputs, Notes: in.Notes, Source: source})
}

// keepEmpty takes KEY= of the form for an empty value given on purpose. In a pasted config, where an empty value stands for one to
// fill in, it is a value to ask for.
func keepEmpty(in *schemas.Import, env map[string]string) {
	var gone []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		for i := range in.Servers {
			if d := &in.Servers[i]; env[k] == "" && d.Server.Env[k] == "${input:"+k+"}" {
				d.Server.Env[k] = ""
				gone = append(gone, k)
			}
		}
	}
	unused := func(id string) bool {
		return slices.Contains(gone, id) && !slices.ContainsFunc(in.Servers, func(d schemas.Draft) bool { return slices.Contains(d.Server.Inputs(), id) })
	}
	for i := range in.Servers {
		in.Servers[i].Needs = slices.DeleteFunc(in.Servers[i].Needs, unused)
	}
	in.Inputs = slices.DeleteFunc(in.Inputs, func(x schemas.Input) bool { return unused(x.ID) })
}

// formServer reads the form's fields; all mistakes at once.
func formServer(v map[string]string) (schemas.Server, schemas.Problems) {
	s := schemas.Server{Type: schemas.Stdio, Cwd: strings.TrimSpace(v["cwd"])}
	var problems schemas.Problems
	line, err := words.Split(v["command"])
	if err != nil {
		problems = append(problems, schemas.Problem{Text: "command: a quote is not closed"})
	} else if len(line) > 0 && line[0] == "--" {
		line = line[1:]
	}
	if err == nil && len(line) == 0 {
		problems = append(problems, schemas.Problem{Text: "command is needed", Hint: "such as npx"})
	}
	args, err := words.Split(v["args"])
	if err != nil {
		problems = append(problems, schemas.Problem{Text: "arguments: a quote is not closed"})
	}
	if len(line) > 0 {
		s.Command, s.Args = line[0], append(line[1:], args...)
	}
	env, more := envLines(v["env"])
	s.Env = env
	return s, append(problems, more...)
}

// envLines reads KEY=VALUE lines. A bad line is named by its number and never repeated: it may hold a secret.
func envLines(text string) (map[string]string, schemas.Problems) {
	form := regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]*\z`)
	env := map[string]string{}
	var problems schemas.Problems
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		k, val, ok := strings.Cut(strings.TrimPrefix(l, "export "), "=")
		k = strings.TrimSpace(k)
		_, twice := env[k]
		switch {
		case !ok || !form.MatchString(k):
			problems = append(problems, schemas.Problem{Text: fmt.Sprintf("env line %d must be KEY=VALUE", i+1)})
		case twice:
			problems = append(problems, schemas.Problem{Text: fmt.Sprintf("env line %d names %s a second time", i+1, k)})
		default:
			if n := len(val); n >= 2 && (val[0] == '"' || val[0] == '\'') && val[n-1] == val[0] {
				val = val[1 : n-1]
			}
			env[k] = val
		}
	}
	return env, problems
}

// edit opens the form with what the file says now.
func (b *Bot) edit(ctx context.Context, t desk.Turn) (Reply, error) {
	e, err := b.mine(ctx, t, t.Arg("name"))
	if err != nil {
		return Reply{}, err
	}
	if e.Remote() {
		return b.editRemote(t, e), nil
	}
	var env []string
	for _, k := range slices.Sorted(maps.Keys(e.Env)) {
		env = append(env, k+"="+e.Env[k])
	}
	values := map[string]string{"name": e.Name, "command": words.Quote(e.Command), "args": words.QuoteAll(e.Args), "env": strings.Join(env, "\n"), "cwd": e.Cwd}
	return b.serverForm(t, "edit "+words.Clean(e.Name), values, false, func(ctx context.Context, t desk.Turn, v map[string]string) (Reply, error) {
		v["name"] = e.Name
		return b.formed(ctx, t, v, &e.Server)
	}), nil
}

// mine gives the entry of that name if the caller may change it.
func (b *Bot) mine(ctx context.Context, t desk.Turn, name string) (schemas.Entry, error) {
	e, _, err := b.entry(ctx, t, name)
	if err != nil {
		return e, err
	}
	return e, mayChange(t.Caller, e)
}

func mayChange(c schemas.Caller, e schemas.Entry) error {
	switch {
	case e.Kind == schemas.Admin:
		return &schemas.Error{Code: schemas.CodeDenied, Text: words.Clean(e.Name) + " is the operator's; it cannot be changed from here", Hint: "`/mcp detach " + words.Clean(e.Name) + "` ends its use in this thread"}
	case c.Manages() || (e.Owner == c.Member && e.Owner != ""):
		return nil
	case e.Owner == "":
		return &schemas.Error{Code: schemas.CodeDenied, Text: "only a manager of the thread can change " + words.Clean(e.Name) + ", since nobody owns it yet"}
	}
	return &schemas.Error{Code: schemas.CodeDenied, Text: "only " + words.At(e.Owner, e.OwnerName) + " can change " + words.Clean(e.Name) + ", or a manager of the thread"}
}

// mayAccept is for what changes nothing but this thread's use of a server: of the operator's, that is a manager's to say.
func mayAccept(c schemas.Caller, e schemas.Entry) error {
	if e.Kind == schemas.Admin {
		return desk.ManagerOnly(c)
	}
	return mayChange(c, e)
}

func (b *Bot) entry(ctx context.Context, t desk.Turn, name string) (schemas.Entry, schemas.Config, error) {
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return schemas.Entry{}, cfg, err
	}
	e, ok := cfg.Find(name)
	if !ok {
		return e, cfg, words.NotFound("server", name, names(cfg), "`/mcp list` shows all")
	}
	return e, cfg, nil
}

func names(cfg schemas.Config) []string {
	var ns []string
	for _, e := range cfg.Entries {
		if !e.Shadowed {
			ns = append(ns, e.Name)
		}
	}
	return ns
}

func (b *Bot) remove(ctx context.Context, t desk.Turn) (Reply, error) {
	e, err := b.mine(ctx, t, t.Arg("name"))
	if err != nil {
		return Reply{}, err
	}
	return b.propose(ctx, t, schemas.Edit{Remove: []string{e.Name}, Source: "remove"})
}

func (b *Bot) disable(ctx context.Context, t desk.Turn) (Reply, error) {
	e, err := b.mine(ctx, t, t.Arg("name"))
	if err != nil {
		return Reply{}, err
	}
	if !e.Enabled {
		return Reply{Blocks: []Block{{Text: words.Clean(e.Name) + " is off already"}}}, nil
	}
	edit := schemas.Edit{Disable: []string{e.Name}, Source: "disable"}
	p, err := b.opt.Config.Propose(ctx, t.Caller, edit)
	if err != nil {
		return Reply{}, err
	}
	p.By = t.Caller
	return b.confirm(ctx, t, edit, p, nil)
}

// enable switches a server on. What was approved already starts at once; a definition that waits shows its card.
func (b *Bot) enable(ctx context.Context, t desk.Turn) (Reply, error) {
	name := t.Arg("name")
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if _, ok := cfg.Find(name); !ok {
		for _, e := range cfg.Entries {
			if tool, ok := strings.CutPrefix(name, e.Name+"."); ok && !e.Shadowed {
				return b.heldTool(ctx, t, e, tool)
			}
		}
	}
	if e, ok := cfg.Find(name); ok && e.Kind == schemas.Admin {
		return b.heldTool(ctx, t, e, "")
	}
	e, err := b.mine(ctx, t, name)
	if err != nil {
		return Reply{}, err
	}
	edit := schemas.Edit{Enable: []string{e.Name}, Source: "enable"}
	if e.Pending() {
		edit.Approve, edit.Source = []string{e.Name}, "approve"
		return b.propose(ctx, t, edit)
	}
	if e.Enabled {
		return b.heldTool(ctx, t, e, "")
	}
	p, err := b.opt.Config.Propose(ctx, t.Caller, edit)
	if err != nil {
		return Reply{}, err
	}
	p.By = t.Caller
	return b.confirm(ctx, t, edit, p, nil)
}
