package view

import (
	"strings"
	"time"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// ConnectHint names the verb that signs in to a connector.
func ConnectHint(name string) string { return "`/mcp connect " + words.Clean(name) + "`" }

// Until says in words how long something given for a time lasts.
func Until(end, now time.Time) string {
	switch now := now.UTC(); {
	case end.IsZero():
		return "until it is withdrawn"
	case end.UTC().Format(time.DateOnly) == now.Format(time.DateOnly):
		return "until " + end.UTC().Format("15:04 UTC")
	}
	return "until " + end.UTC().Format("2006-01-02 15:04 UTC")
}

// Spent words a usage: "12 turns, 30 calls · 48,300 tokens of 500,000 · since 2 Nov 08:00 UTC".
func Spent(label string, u schemas.Usage) Fact {
	total := u.Tokens.In + u.Tokens.Out
	value := words.Count(u.Turns, "turn", "turns") + ", " + words.Count(u.Calls, "call", "calls") + " of tools · " + words.Count(total, "token", "tokens")
	if u.Limit > 0 {
		value += " of " + words.Thousands(u.Limit)
	}
	note := words.Thousands(u.Tokens.In) + " in, " + words.Thousands(u.Tokens.Out) + " out"
	if u.Tokens.Cached > 0 {
		note = words.Thousands(u.Tokens.In) + " in (" + words.Thousands(u.Tokens.Cached) + " of them from the cache), " + words.Thousands(u.Tokens.Out) + " out"
	}
	if !u.Since.IsZero() {
		note += " · since " + u.Since.UTC().Format("2 Jan 15:04") + " UTC"
	}
	return Fact{Label: label, Value: value, Note: note}
}

// TokenEnd says in words how long a token for a client holds.
func TokenEnd(t schemas.GatewayToken, now time.Time) string {
	switch {
	case t.Until.IsZero():
		return "until it is revoked"
	case !t.Holds(now):
		return "ran out"
	}
	return Until(t.Until, now)
}

// SignsIn reports whether members sign in to a server by OAuth.
func SignsIn(s schemas.Server) bool { return s.Remote() && s.Auth != nil && s.Auth.Type == "oauth" }

// OfferBlocks names whom a member signs in to, and says aloud when that is another host than the server's.
func OfferBlocks(s schemas.Server, o schemas.Offer, shared string) []Block {
	server, at := words.Clean(words.BareHost(s.URL)), words.Clean(words.BareHost(o.Issuer))
	blocks := []Block{{Facts: []Fact{{Label: "server", Value: server}, {Label: "sign in at", Value: at},
		{Label: "asks for", Value: ScopeWords(o.Scopes)}, {Label: "used by", Value: shared}}}}
	if server != at {
		blocks = append(blocks, Block{Warning: "You would sign in at `" + at + "`, which is not `" + server + "`. Go on only if you know that they belong together."})
	}
	return blocks
}

// ScopeWords names what a sign-in asks for.
func ScopeWords(scopes []string) string {
	var ws []string
	for _, s := range scopes[:min(len(scopes), 20)] {
		ws = append(ws, words.Short(words.Clean(s), 80))
	}
	if more := len(scopes) - len(ws); more > 0 {
		ws = append(ws, "and "+words.Thousands(more)+" more")
	}
	if len(ws) == 0 {
		return "nothing by name; the page says what you agree to"
	}
	return strings.Join(ws, ", ")
}
