package bot

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// remoteOnly answers a config of which only addresses would be new: they are not added this way.
func (b *Bot) remoteOnly(t desk.Turn, p schemas.Proposal) Reply {
	var r Reply
	c := desk.Personal(t.Caller)
	for i, d := range p.Remote {
		r.Blocks = append(r.Blocks, Block{Text: view.RemoteText(d.Server.Name)})
		key := "connect:" + strconv.Itoa(i)
		if i < 20 {
			r.Choices = append(r.Choices, Choice{Key: key, Label: "Connect " + words.HostOf(d.Server.URL)})
			c.Look = append(c.Look, key)
		}
	}
	r.Choices = append(r.Choices, Choice{Key: "leave", Label: "Leave it"})
	c.Act = func(_ context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice == "leave" {
			return Reply{Blocks: []Block{{Text: "left as it was; nothing was added"}}}, nil
		}
		return b.connectDraft(t, p, a.Choice)
	}
	return b.desk.Deal(c, r)
}

// connectDraft goes on with an address that an upload named. Header values found in the text go along in memory.
func (b *Bot) connectDraft(t desk.Turn, p schemas.Proposal, choice string) (Reply, error) {
	i, err := strconv.Atoi(strings.TrimPrefix(choice, "connect:"))
	if err != nil || i < 0 || i >= len(p.Remote) {
		return Reply{}, desk.Gone()
	}
	d := p.Remote[i]
	if _, err := b.checkURL(d.Server.URL, t.Caller.Operator); err != nil {
		return Reply{}, err
	}
	r := remote{draft: d, inputs: usedInputs(d.Server, p.Edit.Inputs)}
	if d.Server.Auth != nil {
		r.client = d.Server.Auth.ClientID
	}
	return b.firstYes(t, r), nil
}

// usedInputs leaves out what a definition does not refer to.
func usedInputs(s schemas.Server, inputs []schemas.Input) []schemas.Input {
	used := s.Inputs()
	return slices.DeleteFunc(slices.Clone(inputs), func(in schemas.Input) bool { return !slices.Contains(used, in.ID) })
}

// connect asks for the address, then for the first yes, then looks at the server and shows the card. With the name of a server it
// shows how the caller stands with it.
func (b *Bot) connect(ctx context.Context, t desk.Turn) (Reply, error) {
	if name := t.Arg("url"); schemas.ValidName(name) {
		cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
		if err != nil {
			return Reply{}, err
		}
		if e, ok := cfg.Find(name); ok {
			return b.account(ctx, t, e)
		}
		if !strings.Contains(name, ".") && len(names(cfg)) > 0 {
			return Reply{}, words.NotFound("server", name, names(cfg), "`/mcp connect https://…` adds one")
		}
	}
	if t.Arg("url") == "" {
		c := desk.Personal(t.Caller)
		c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
			return b.address(ctx, t, a.Values["url"], a.Values["name"])
		}
		return b.desk.Deal(c, Reply{Private: true, Form: &Form{Title: "connect a remote server", Submit: "Next", Fields: []Field{
			{Name: "url", Label: "address", Hint: "https://mcp.example.com/mcp", Required: true},
			{Name: "name", Label: "name", Hint: "what to call it here"},
		}}}), nil
	}
	return b.address(ctx, t, t.Arg("url"), t.Arg("name"))
}

func (b *Bot) address(ctx context.Context, t desk.Turn, raw, name string) (Reply, error) {
	u, err := b.checkURL(raw, t.Caller.Operator)
	if err != nil {
		return Reply{}, err
	}
	cfg, err := b.opt.Config.Load(ctx, t.Caller.Thread)
	if err != nil {
		return Reply{}, err
	}
	if name = strings.TrimSpace(name); name == "" {
		name = freeName(hostName(u), cfg)
	}
	if e, ok := cfg.Find(name); ok {
		if err := mayChange(t.Caller, e); err != nil {
			return Reply{}, err
		}
		if view.SignsIn(e.Server) && e.URL == strings.TrimSpace(raw) {
			return b.account(ctx, t, e)
		}
	}
	d, inputs, err := b.remoteDraft(name, strings.TrimSpace(raw), transport(u))
	if err != nil {
		return Reply{}, err
	}
	return b.firstYes(t, remote{draft: d, inputs: inputs}), nil
}

// remoteDraft reads an address as a config would, so that a secret in it is found and the name is checked.
func (b *Bot) remoteDraft(name, raw string, kind schemas.Transport) (schemas.Draft, []schemas.Input, error) {
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: map[string]string{"url": raw, "type": string(kind)}}})
	if err != nil {
		return schemas.Draft{}, nil, err
	}
	in := b.opt.Import("", data, name)
	if len(in.Problems) > 0 {
		return schemas.Draft{}, nil, view.Placeless(in.Problems)
	}
	if len(in.Servers) != 1 {
		return schemas.Draft{}, nil, words.Invalid("that address cannot be used", "it looks like https://mcp.example.com/mcp")
	}
	return in.Servers[0], in.Inputs, nil
}

// checkURL decides on the parsed host, never on how the text begins. Only the operator reaches this machine itself.
func (b *Bot) checkURL(raw string, operator bool) (*url.URL, error) {
	u, err := safehttp.Rules{Loopback: operator, Allow: b.opt.Allow}.Check(strings.TrimSpace(raw))
	if wrong, ok := errors.AsType[*safehttp.URLError](err); ok {
		return nil, words.Invalid(wrong.Problem, wrong.Hint)
	}
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeDenied, Text: err.Error(), Hint: "use the server's public address", Err: err}
	}
	return u, nil
}

// transport is read from the path, as servers name it; the legacy one ends in /sse.
func transport(u *url.URL) schemas.Transport {
	if strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
		return schemas.SSE
	}
	return schemas.HTTP
}

// hostName makes a server's name of a host: mcp.linear.app → linear.
func hostName(u *url.URL) string {
	host := u.Hostname()
	if net.ParseIP(host) != nil || host == "localhost" {
		return "local"
	}
	labels := strings.Split(host, ".")
	for len(labels) > 2 && slices.Contains([]string{"mcp", "api", "www", "server", "remote"}, labels[0]) {
		labels = labels[1:]
	}
	name := regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(labels[0], "")
	if !schemas.ValidName(name) {
		return "remote"
	}
	return name
}

func freeName(name string, cfg schemas.Config) string {
	free := name
	for i := 2; slices.Contains(names(cfg), free); i++ {
		free = name + "-" + strconv.Itoa(i)
	}
	return free
}

// firstYes names the host. Nothing has been sent to it, and nothing is before an answer.
func (b *Bot) firstYes(t desk.Turn, r remote) Reply {
	s := r.draft.Server
	next := "this host is asked what it is and offers and, if it wants a sign-in, the host that it names for that; then a card shows it before it is added"
	if b.opt.Probe == nil {
		next = "a card, before it is added; this setup does not look at servers before that"
	}
	reply := Reply{
		Blocks: []Block{
			{Text: "connect " + words.Clean(words.HostOf(s.URL)) + "? Nothing has been sent to it yet"},
			{Facts: []Fact{{Label: "name", Value: words.Clean(s.Name)}, {Label: "address", Value: words.Short(words.Clean(words.SafeURL(s.URL)), view.MaxShown)},
				{Label: "next", Value: next}}},
		},
		Choices: []Choice{{Key: "connect", Label: "Connect"}, {Key: "key", Label: "With an API key"}, {Key: "leave", Label: "Leave it"}},
	}
	if len(s.Headers) > 0 {
		reply.Choices = []Choice{{Key: "given", Label: "Connect with the headers given"}, {Key: "connect", Label: "Connect without them"}, {Key: "leave", Label: "Leave it"}}
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		switch a.Choice {
		case "connect":
			r.draft.Server.Auth, r.draft.Server.Headers = &schemas.Auth{Type: "none"}, nil
			r.draft.Found, r.inputs = noHeaders(r.draft.Found), usedInputs(r.draft.Server, r.inputs)
			return b.contact(ctx, t, r)
		case "given":
			r.draft.Server.Auth = &schemas.Auth{Type: "header", Identity: "thread"}
			return b.contact(ctx, t, r)
		case "key":
			return b.keyForm(t, r, ""), nil
		}
		return b.leave(ctx, t, r)
	}
	return b.desk.Deal(c, reply)
}

// keyForm asks for the header and its secret; why, if there is any, stands above it.
func (b *Bot) keyForm(t desk.Turn, r remote, why string) Reply {
	host := words.Clean(words.HostOf(r.draft.Server.URL))
	reply := Reply{Private: true, Choices: []Choice{{Key: "leave", Label: "Leave it"}},
		Form: &Form{Title: "API key for " + host, Submit: "Look what it offers", Fields: []Field{
			{Name: "header", Label: "header", Default: "Authorization", Required: true},
			{Name: "key", Label: "key", Hint: "goes to your vault; after Authorization, Bearer is put in front", Kind: "secret", Required: true},
		}}}
	if why != "" {
		reply.Blocks = []Block{{Text: why}}
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		if a.Choice == "leave" {
			return b.leave(ctx, t, r)
		}
		if err := addKey(&r.draft, &r.inputs, a.Values["header"], a.Values["key"]); err != nil {
			return Reply{}, err
		}
		return b.contact(ctx, t, r)
	}
	return b.desk.Deal(c, reply)
}

// addKey puts a reference to the key into the draft and the key itself among its found secrets.
func addKey(d *schemas.Draft, inputs *[]schemas.Input, header, key string) error {
	header, key = strings.TrimSpace(header), strings.TrimSpace(key)
	if header == "" {
		header = "Authorization"
	}
	if !regexp.MustCompile(`\A[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}\z`).MatchString(header) { // RFC 9110 section 5.6.2, without the backtick
		return words.Invalid("that is no name of a header", "such as Authorization or X-API-Key")
	}
	if key == "" || strings.ContainsAny(key, "\r\n\x00") {
		return words.Invalid("the key is needed, on one line", "")
	}
	id := strings.ToUpper(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(d.Server.Name+"_KEY", "_"))
	if id[0] >= '0' && id[0] <= '9' {
		id = "_" + id
	}
	value := "${input:" + id + "}"
	if strings.EqualFold(header, "Authorization") {
		if scheme, token, two := strings.Cut(key, " "); two {
			value, key = scheme+" "+value, strings.TrimSpace(token)
		} else {
			value = "Bearer " + value
		}
	}
	d.Server.Headers = map[string]string{header: value}
	d.Server.Auth = &schemas.Auth{Type: "header", Identity: "thread"}
	d.Found = append(noHeaders(d.Found), schemas.Found{Server: d.Server.Name, Input: id, Value: schemas.NewSecret(key), Where: "header " + header})
	*inputs = append(slices.DeleteFunc(slices.Clone(*inputs), func(i schemas.Input) bool { return i.ID == id }),
		schemas.Input{Type: "promptString", ID: id, Description: "key for " + words.HostOf(d.Server.URL), Password: true})
	return nil
}

func noHeaders(fs []schemas.Found) []schemas.Found {
	return slices.DeleteFunc(slices.Clone(fs), func(f schemas.Found) bool { return strings.HasPrefix(f.Where, "header") })
}

// editRemote changes a connector's address or key. A new address needs the key again: the old one is bound to the old host.
func (b *Bot) editRemote(t desk.Turn, e schemas.Entry) Reply {
	header := "Authorization"
	for _, k := range slices.Sorted(maps.Keys(e.Headers)) {
		header = k
	}
	c := desk.Personal(t.Caller)
	c.Act = func(ctx context.Context, t desk.Turn, a Action) (Reply, error) {
		u, err := b.checkURL(a.Values["url"], t.Caller.Operator)
		if err != nil {
			return Reply{}, err
		}
		d, inputs, err := b.remoteDraft(e.Name, strings.TrimSpace(a.Values["url"]), transport(u))
		if err != nil {
			return Reply{}, err
		}
		was := e.Server
		was.URL, was.Type = d.Server.URL, d.Server.Type
		d.Server = was
		if strings.TrimSpace(a.Values["key"]) != "" {
			if err := addKey(&d, &inputs, a.Values["header"], a.Values["key"]); err != nil {
				return Reply{}, err
			}
		}
		return b.propose(ctx, t, schemas.Edit{Put: []schemas.Draft{d}, Inputs: inputs, Source: "connect"})
	}
	form := &Form{Title: "edit " + words.Clean(e.Name), Submit: "Show what it would do", Fields: []Field{
		{Name: "url", Label: "address", Default: e.URL, Required: true},
		{Name: "header", Label: "header of the key", Default: header},
		{Name: "key", Label: "new key", Hint: "empty: the key stays", Kind: "secret"},
	}}
	if view.SignsIn(e.Server) {
		form.Fields = form.Fields[:1]
		form.Fields[0].Hint = "after another one everybody must sign in again"
	}
	return b.desk.Deal(c, Reply{Private: true, Form: form})
}
