package bot_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/bot"
	"bobbin/schemas"
)

// lends is a gateway in memory.
type lends struct {
	now    func() time.Time
	at     string
	tokens []schemas.GatewayToken
}

const bearer = "bobbin_abcd2345_SECRETSECRETSECRETSECRETSE"

func (l *lends) Make(_ context.Context, c schemas.Caller, name string, ttl time.Duration) (schemas.GatewayToken, string, error) {
	t := schemas.GatewayToken{ID: "abcd2345", Thread: c.Thread, Member: c.Member, Name: name, Made: l.now()}
	if ttl > 0 {
		t.Until = l.now().Add(ttl)
	}
	l.tokens = append(l.tokens, t)
	return t, bearer, nil
}

func (l *lends) Revoke(_ context.Context, c schemas.Caller, id string) error {
	n := len(l.tokens)
	l.tokens = slices.DeleteFunc(l.tokens, func(t schemas.GatewayToken) bool { return t.ID == id && t.Member == c.Member })
	if len(l.tokens) == n {
		return &schemas.Error{Code: schemas.CodeNotFound, Text: "you have no such token here"}
	}
	return nil
}

func (l *lends) List(context.Context, schemas.Caller) ([]schemas.GatewayToken, error) {
	return l.tokens, nil
}

func (l *lends) URL(schemas.ThreadID) string { return l.at }

func (l *lends) Entry(c schemas.Caller, client string) (schemas.File, error) {
	if c.Operator {
		return schemas.File{Data: []byte(map[bool]string{true: `{"servers":"starts bobbin"}`, false: `{"mcpServers":"starts bobbin"}`}[client == "vscode"])}, nil
	}
	return l.Remote(c.Thread, client, "")
}

func (l *lends) Remote(_ schemas.ThreadID, client, secret string) (schemas.File, error) {
	if client == "claude-desktop" && secret == "" {
		secret = "PASTE-THE-TOKEN"
	} else if client != "claude-desktop" {
		secret = "${env}"
	}
	return schemas.File{Data: []byte(client + " " + l.at + " " + secret)}, nil
}

func lending(t *testing.T, at string) (*world, *lends) {
	l := &lends{at: at}
	w := newWorld(t, func(o *bot.Options) { l.now = o.Now; o.Gateway, o.Clients = l, l })
	return w, l
}

func TestGateway_TokenIsShownOnceToItsOwner(t *testing.T) {
	w, l := lending(t, "http://127.0.0.1:8080/gateway/T1/mcp")
	r := w.say(alice(), "/mcp gateway token laptop 30d")
	text := flat(r)
	if !r.Private || strings.Count(text, bearer) != 2 { // by itself, and where Claude Desktop needs it
		t.Errorf("private %t, the secret %d times:\n%s", r.Private, strings.Count(text, bearer), text)
	}
	want(t, r, "abcd2345", "until 2026-12-20", "Claude Code", "Claude Desktop", "VS Code", "Cursor", "http://127.0.0.1:8080/gateway/T1/mcp", "/mcp gateway revoke abcd2345")
	if l.tokens[0].Name != "laptop" {
		t.Errorf("%+v", l.tokens[0])
	}
	for _, rec := range w.records {
		if strings.Contains(rec.Detail, "SECRET") {
			t.Errorf("the record holds the secret: %+v", rec)
		}
	}
	if !slices.ContainsFunc(w.records, func(r schemas.Record) bool {
		return r.Event == schemas.EventSecret && strings.Contains(r.Detail, "abcd2345")
	}) {
		t.Error("nothing says that a token was made")
	}
	r = w.say(alice(), "/mcp gateway show")
	want(t, r, "1 token of yours", "abcd2345", "laptop", "never", "@alice")
	if !r.Private || strings.Contains(flat(r), "SECRET") {
		t.Error("the list is not for everybody, and holds no secret")
	}
	want(t, w.say(mallory(), "/mcp gateway revoke abcd2345"), "you have no such token here")
	want(t, w.say(alice(), "/mcp gateway revoke "+bearer), "token abcd2345 is revoked")
	want(t, w.say(alice(), "/mcp gateway"), "no tokens for this thread yet")
}

func TestGateway_Refuses(t *testing.T) {
	w, l := lending(t, "http://127.0.0.1:8080/gateway/T1/mcp")
	want(t, w.say(guest(), "/mcp gateway token"), "guests may look")
	want(t, w.say(alice(), "/mcp gateway token laptop 3000h0m0x"), "no time between a minute and a year")
	l.at = ""
	want(t, w.say(alice(), "/mcp gateway token"), "nothing serves this thread over HTTP", "--public-url")
	want(t, w.say(boss(), "/mcp gateway token"), "download format:client")
	if len(l.tokens) > 0 {
		t.Errorf("%+v", l.tokens)
	}
	want(t, newWorld(t).say(alice(), "/mcp gateway show"), "lends no tools")
}

func TestGateway_EntryForAClient(t *testing.T) {
	w, _ := lending(t, "http://127.0.0.1:8080/gateway/T1/mcp")
	r := w.say(boss(), "/mcp download format:client")
	want(t, r, "needs no token", `{"mcpServers":"starts bobbin"}`, `{"servers":"starts bobbin"}`)
	if n := strings.Count(flat(r), "mcpServers"); n != 2 { // the file, and one block for three clients
		t.Errorf("%d times the same:\n%s", n, flat(r))
	}
	r = w.say(alice(), "/mcp download client")
	want(t, r, "it holds no token", "PASTE-THE-TOKEN", "bobbin-client.json")
	if !r.Private || strings.Contains(flat(r), "SECRET") {
		t.Error("it is for the one who asks, and holds no token")
	}
}
