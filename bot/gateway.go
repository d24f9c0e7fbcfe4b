package bot

import (
	"context"
	"strconv"
	"strings"
	"time"

	"bobbin/bot/internal/desk"
	"bobbin/bot/internal/view"
	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// lender keeps the tokens by which MCP clients outside of chat use a thread's tools as a member. The secret is given by Make alone, once.
// Revoke and List know the caller's own, and everybody's in the thread for a manager.
type lender interface {
	Make(ctx context.Context, caller schemas.Caller, name string, ttl time.Duration) (token schemas.GatewayToken, secret string, err error)
	Revoke(ctx context.Context, caller schemas.Caller, id string) error
	List(context.Context, schemas.Caller) ([]schemas.GatewayToken, error)
}

// entries writes what plugs a thread into a client, by the client's name ("claude-desktop", "claude-code", "vscode", "cursor"). Entry holds no
// token. Remote is for whoever brings one: it stands in the entry only where that client has no other place for it. URL is "" when
// nothing serves the thread over HTTP.
type entries interface {
	URL(schemas.ThreadID) string
	Entry(caller schemas.Caller, client string) (schemas.File, error)
	Remote(thread schemas.ThreadID, client, secret string) (schemas.File, error)
}

const tokenMost = 365 * 24 * time.Hour

func (b *Bot) noGateway() error {
	return &schemas.Error{Code: schemas.CodeMissing, Text: "this bobbin lends no tools to other clients"}
}

// labels of the clients, in the order in which they are shown.
func clientLabels() [][2]string {
	return [][2]string{{"claude-code", "Claude Code, `.mcp.json`"}, {"claude-desktop", "Claude Desktop, `claude_desktop_config.json`"}, {"vscode", "VS Code, `.vscode/mcp.json`"}, {"cursor", "Cursor, `.cursor/mcp.json`"}}
}

func (b *Bot) gatewayToken(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Gateway == nil || b.opt.Clients == nil {
		return Reply{}, b.noGateway()
	}
	name, length := t.Arg("name"), t.Arg("time")
	if d, err := lasting(name); err == nil && length == "" && d > 0 { // a time alone
		name, length = "", name
	}
	ttl, err := lasting(length)
	if err != nil {
		return Reply{}, err
	}
	if b.opt.Clients.URL(t.Caller.Thread) == "" {
		hint := "`bobbin serve` serves it; a client on this machine needs no token: `/mcp download format:client`"
		if !t.Caller.Operator {
			hint = "the operator starts bobbin serve with --public-url"
		}
		return Reply{}, &schemas.Error{Code: schemas.CodeMissing, Text: "nothing serves this thread over HTTP here, so a token opens nothing", Hint: hint}
	}
	token, secret, err := b.opt.Gateway.Make(ctx, t.Caller, name, ttl)
	if err != nil {
		return Reply{}, err
	}
	b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventSecret, Detail: "gateway token " + token.ID + " made"})
	r := Reply{Private: true, Blocks: []Block{{Text: "token `" + words.Clean(token.ID) + "` for this thread, " + view.TokenEnd(token, b.opt.Now()) + "; it is shown this once"}, {Code: secret},
		{Text: "whoever has it uses this thread's tools as you · `/mcp gateway revoke " + words.Clean(token.ID) + "` ends it"}}}
	r.Blocks = append(r.Blocks, Block{Facts: []Fact{{Label: "address", Value: words.Clean(b.opt.Clients.URL(t.Caller.Thread)), Note: "streamable HTTP"}, {Label: "variable", Value: "BOBBIN_GATEWAY_TOKEN", Note: "where Claude Code and Cursor look for the token"}}})
	return b.withEntries(r, func(client string) (schemas.File, error) {
		return b.opt.Clients.Remote(t.Caller.Thread, client, secret)
	})
}

// withEntries adds what to paste into each client; clients that take the same share a block.
func (b *Bot) withEntries(r Reply, entry func(client string) (schemas.File, error)) (Reply, error) {
	at := map[string]int{}
	for _, c := range clientLabels() {
		f, err := entry(c[0])
		if err != nil {
			return Reply{}, err
		}
		text := strings.TrimSpace(string(f.Data))
		if i, ok := at[text]; ok {
			r.Blocks[i].Text += "; " + c[1]
			continue
		}
		at[text] = len(r.Blocks)
		r.Blocks = append(r.Blocks, Block{Text: c[1]}, Block{Code: text})
	}
	return r, nil
}

// lasting reads a time such as 12h or 30d; "" is none.
func lasting(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(max(n, 0), 1000)) * 24 * time.Hour
	}
	if err != nil || d < time.Minute || d > tokenMost {
		return 0, words.Invalid("that is no time between a minute and a year", "such as 12h or 30d")
	}
	return d, nil
}

func (b *Bot) gatewayShow(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Gateway == nil || b.opt.Clients == nil {
		return Reply{}, b.noGateway()
	}
	list, err := b.opt.Gateway.List(ctx, t.Caller)
	if err != nil {
		return Reply{}, err
	}
	r := Reply{Private: true}
	head := words.Count(len(list), "token", "tokens") + " of yours in this thread"
	if t.Caller.Manages() {
		head = words.Count(len(list), "token", "tokens") + " in this thread"
	}
	if len(list) == 0 {
		head = "no tokens for this thread yet · `/mcp gateway token NAME` makes one"
	}
	r.Blocks = append(r.Blocks, Block{Text: head})
	if len(list) > 0 {
		tab := &Table{Columns: []string{"id", "name", "whose", "made (UTC)", "last used (UTC)", "ends"}}
		for _, k := range list {
			used := "never"
			if !k.Used.IsZero() {
				used = k.Used.UTC().Format("2006-01-02 15:04")
			}
			tab.Rows = append(tab.Rows, Row{Cells: []string{words.Clean(k.ID), words.Clean(k.Name), words.At(k.Member, k.Person), k.Made.UTC().Format("2006-01-02 15:04"), used, view.TokenEnd(k, b.opt.Now())}})
		}
		r.Blocks = append(r.Blocks, Block{Table: tab})
	}
	if at := b.opt.Clients.URL(t.Caller.Thread); at != "" {
		r.Blocks = append(r.Blocks, Block{Facts: []Fact{{Label: "address", Value: words.Clean(at), Note: "streamable HTTP; …/sse for older clients"}}})
	}
	return r, nil
}

func (b *Bot) gatewayRevoke(ctx context.Context, t desk.Turn) (Reply, error) {
	if b.opt.Gateway == nil {
		return Reply{}, b.noGateway()
	}
	id := strings.ToLower(t.Arg("id"))
	if rest, ok := strings.CutPrefix(id, "bobbin_"); ok { // the secret itself was pasted
		id, _, _ = strings.Cut(rest, "_")
	}
	if err := b.opt.Gateway.Revoke(ctx, t.Caller, id); err != nil {
		return Reply{}, err
	}
	b.desk.Noted(ctx, t.Caller, schemas.Record{Event: schemas.EventSecret, Detail: "gateway token " + words.Short(words.Clean(id), 16) + " revoked"})
	return Reply{Private: true, Blocks: []Block{{Text: "token `" + words.Clean(id) + "` is revoked; clients that used it are cut off"}}}, nil
}

// clientEntry is /mcp download format:client.
func (b *Bot) clientEntry(t desk.Turn) (Reply, error) {
	if b.opt.Clients == nil {
		return Reply{}, b.noGateway()
	}
	f, err := b.opt.Clients.Entry(t.Caller, "claude-desktop")
	if err != nil {
		return Reply{}, err
	}
	head := "bobbin-client.json, " + words.Size(len(f.Data)) + ": paste it into your client; it starts bobbin itself and needs no token"
	if strings.Contains(string(f.Data), "PASTE-THE-TOKEN") {
		head = "bobbin-client.json, " + words.Size(len(f.Data)) + ": paste it into your client; it holds no token, `/mcp gateway token` makes one"
	}
	f.Name = "bobbin-client.json"
	r := Reply{Private: true, Blocks: []Block{{Text: head}, {File: &f}}}
	return b.withEntries(r, func(client string) (schemas.File, error) { return b.opt.Clients.Entry(t.Caller, client) })
}
