package config

import (
	"encoding/base64"
	"net/url"
	"strings"

	"bobbin/internal/lazy"
)

// Install links, as the buttons of manuals have them. Sources: the documentation of Cursor ("MCP install links"), VS Code
// ("MCP installation URL") and LM Studio ("Add to LM Studio").
var (
	installLink = lazy.Regexp(`(?:cursor://anysphere\.cursor-deeplink/mcp/install|https://(?:www\.)?cursor\.com/(?:[a-z-]+/)?install-mcp|https://cursor\.directory/mcp/install` +
		`|vscode(?:-insiders)?:(?://)?mcp/install|https://(?:insiders\.)?vscode\.dev/redirect(?:/mcp/install)?|lmstudio://add_mcp)\?[^\s)"'<>\]\x60]+`)
	webAddress = lazy.Regexp(`^<?(https?://[^\s<>"'\x60]+)>?$`)
	aPage      = lazy.Regexp(`^https?://(?:www\.)?(?:github\.com|gist\.github\.com|gitlab\.com|npmjs\.com|www\.npmjs\.com|pypi\.org|hub\.docker\.com)/|\.(?:json|md|toml|ya?ml|html?)(?:[?#]|$)`)
)

// fromLink reads the first install link of a text, or a text that is one address of a server; nil if there is neither.
func fromLink(text []byte) *node {
	if m := installLink().FindIndex(text); m != nil {
		if n := linkNode(string(text[m[0]:m[1]]), m[0], 0); n != nil {
			return n
		}
	}
	m := webAddress().FindSubmatchIndex([]byte(strings.TrimSpace(string(text))))
	if m == nil {
		return nil
	}
	at := strings.Index(string(text), "http")
	l := &lineReader{at: at, root: &node{kind: objectNode, at: at}}
	address := string(text[at : at+m[3]-m[2]])
	if aPage().MatchString(address) {
		return nil
	}
	l.set("url", l.text(address))
	return l.root
}

// linkNode gives the server of an install link as {"mcpServers": {name: …}, "inputs": …}.
func linkNode(link string, at, depth int) *node {
	_, query, _ := strings.Cut(link, "?")
	if strings.HasPrefix(query, "%7B") || strings.HasPrefix(query, "{") {
		return linkServer(unescaped(query), "", "", at)
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil
	}
	if inner := q.Get("url"); inner != "" && depth == 0 {
		return linkNode(inner, at, 1)
	}
	config := q.Get("config")
	if config == "" {
		return nil
	}
	if !strings.HasPrefix(strings.TrimSpace(config), "{") {
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("-", "+", "_", "/", " ", "+").Replace(unescaped(config)), "="))
		if err != nil {
			return nil
		}
		config = unescaped(string(b))
	}
	return linkServer(config, q.Get("name"), q.Get("inputs"), at)
}

func unescaped(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// linkServer parses the JSON of a link; every node has the place of the link.
func linkServer(config, name, inputs string, at int) *node {
	server := strictNode(config)
	if !server.is(objectNode) {
		return nil
	}
	l := &lineReader{at: at, root: &node{kind: objectNode, at: at}}
	l.moved(server)
	if in := strictNode(inputs); in.is(listNode) {
		l.set("inputs", l.moved(in))
	} else if in := server.get("inputs"); in.is(listNode) {
		l.set("inputs", in)
	}
	if name == "" {
		name = server.get("name").str()
	}
	if !serverLike(server) || name == "" {
		return server
	}
	servers := &node{kind: objectNode, at: at, members: []member{{name, at, server}}}
	l.set("mcpServers", servers)
	return l.root
}

// strictNode parses JSON that nobody typed; nil if it is none.
func strictNode(text string) *node {
	if m := mend([]byte(text)); m.stuck != nil || len(m.edits) > 0 || text == "" {
		return nil
	}
	n, err := parseJSON([]byte(text))
	if err != nil {
		return nil
	}
	return n
}
