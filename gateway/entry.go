package gateway

import (
	"bytes"
	"encoding/json"
	"strings"

	"bobbin/schemas"
)

// variable is where clients that read their environment find the token.
const variable = "BOBBIN_GATEWAY_TOKEN"

// remoteProgram is the program by which clients that know only stdio reach a server over HTTP.
const remoteProgram = "mcp-remote@0.15.1"

// Entry is what plugs a thread into a client: "claude-desktop", "claude-code", "vscode" or "cursor". It holds no token: each client takes one
// in its own way. Who sits at this machine gets an entry that starts bobbin itself and needs none.
func (g *Gateway) Entry(c schemas.Caller, client string) (schemas.File, error) {
	name := client + ".json"
	var what any
	command := g.Command(c.Thread, c.Member)
	switch at := g.URL(c.Thread); {
	case c.Operator && command != nil:
		what = started(client, entryName(c.Thread), command)
	case at != "":
		what = remote(client, entryName(c.Thread), at)
	default:
		return schemas.File{}, &schemas.Error{Code: schemas.CodeMissing, Text: "no client can reach this bobbin from elsewhere", Hint: "the operator starts it with bobbin serve --public-url"}
	}
	if what == nil {
		return schemas.File{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "the clients are claude-desktop, claude-code, vscode and cursor"}
	}
	return schemas.File{Name: name, MIME: "application/json", Data: pretty(what)}, nil
}

// Remote is Entry for whoever brings a token, also at this machine. With a secret, it stands in the entry where the client has no other place
// for it, which is Claude Desktop.
func (g *Gateway) Remote(thread schemas.ThreadID, client, secret string) (schemas.File, error) {
	at := g.URL(thread)
	what := remote(client, entryName(thread), at)
	if at == "" || what == nil {
		return schemas.File{}, &schemas.Error{Code: schemas.CodeMissing, Text: "no client can reach this bobbin over HTTP", Hint: "start it with bobbin serve"}
	}
	data := pretty(what)
	if secret != "" {
		data = bytes.ReplaceAll(data, []byte(placeholder), []byte(secret))
	}
	return schemas.File{Name: client + ".json", MIME: "application/json", Data: data}, nil
}

const placeholder = "PASTE-THE-TOKEN"

// entryName is short, since some clients count it into the 60 characters that they leave a tool's name.
func entryName(thread schemas.ThreadID) string {
	if len(thread) > 20 {
		thread = thread[:20]
	}
	return "bobbin-" + strings.TrimRight(string(thread), "-_")
}

type (
	program struct {
		Type    string            `json:"type,omitempty"`
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env,omitempty"`
	}
	endpoint struct {
		Type    string            `json:"type,omitempty"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	}
	input struct {
		Type        string `json:"type"`
		ID          string `json:"id"`
		Description string `json:"description"`
		Password    bool   `json:"password"`
	}
)

// started is an entry that starts bobbin; nil for an unknown client.
func started(client, name string, command []string) any {
	p := program{Command: command[0], Args: command[1:]}
	switch client {
	case "claude-desktop", "claude-code", "cursor":
		return map[string]any{"mcpServers": map[string]any{name: p}}
	case "vscode":
		p.Type = "stdio"
		return map[string]any{"servers": map[string]any{name: p}}
	}
	return nil
}

// remote is an entry that connects over HTTP; nil for an unknown client.
func remote(client, name, at string) any {
	bearer := func(reference string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + reference}
	}
	switch client {
	case "claude-desktop": // no space in the argument: it would be split on Windows
		p := program{Command: "npx", Args: []string{"-y", remoteProgram, at, "--header", "Authorization:${BOBBIN_AUTH}"}, Env: map[string]string{"BOBBIN_AUTH": "Bearer " + placeholder}}
		return map[string]any{"mcpServers": map[string]any{name: p}}
	case "claude-code":
		return map[string]any{"mcpServers": map[string]any{name: endpoint{"http", at, bearer("${" + variable + "}")}}}
	case "cursor":
		return map[string]any{"mcpServers": map[string]any{name: endpoint{"", at, bearer("${env:" + variable + "}")}}}
	case "vscode":
		return struct {
			Inputs  []input        `json:"inputs"`
			Servers map[string]any `json:"servers"`
		}{[]input{{"promptString", "bobbin-token", "token from /mcp gateway token", true}}, map[string]any{name: endpoint{"http", at, bearer("${input:bobbin-token}")}}}
	}
	return nil
}

func pretty(v any) []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, encode(v), "", "  ")
	return append(b.Bytes(), '\n')
}

// Clients are those that Entry knows.
func Clients() []string { return []string{"claude-desktop", "claude-code", "vscode", "cursor"} }
