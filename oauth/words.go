package oauth

import (
	"errors"
	"net/url"

	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

// wrongMetadata refuses what a server says about signing in. text never repeats more of it than a host.
func wrongMetadata(text string, err error) error {
	return &schemas.Error{Code: schemas.CodeFailed, Text: text, Hint: "nothing was sent; tell whoever runs the server", Err: err}
}

func unreachable(host string, err error) error {
	if _, ok := errors.AsType[*safehttp.RedirectError](err); ok || errors.Is(err, errMoved) {
		return &schemas.Error{Code: schemas.CodeFailed, Text: host + " sends me on to another address, which I do not follow", Hint: "tell whoever runs the server", Err: err}
	}
	if _, ok := errors.AsType[*safehttp.BlockedError](err); ok {
		return &schemas.Error{Code: schemas.CodeFailed, Text: host + " is at an address of a private network, which I do not contact", Hint: "tell whoever runs the server, or the operator of bobbin", Err: err}
	}
	return &schemas.Error{Code: schemas.CodeNotReady, Text: host + " could not be reached", Hint: "try again in a while", Err: err}
}

// needs says that a member must sign in first.
func needs(server, text string) error {
	return &schemas.Error{Code: schemas.CodeNeeds, Text: server + " " + text, Hint: "`/mcp connect " + server + "`"}
}

// hostOf names whose address it is, for people; never more than the host.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "the server"
	}
	return short(schemas.Clean(u.Host, true), 100)
}

// shown is an address that somebody else claims, as text.
func shown(raw string) string {
	if raw == "" {
		return "nothing"
	}
	return short(schemas.Clean(raw, true), 100)
}

func short(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}
