package own

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"bobbin/bot/internal/words"
	"bobbin/schemas"
)

// The names of the assistant's own tools.
const (
	Server     = "bobbin" // what their full names begin with
	Connect    = "connect_external_mcp"
	List       = "list_external_mcp"
	Disconnect = "disconnect_external_mcp"
	Install    = "auto_install_and_connect_mcp"
	Shell      = "sandbox_shell_exec"
)

// definitions is the definitions as MCP tools (specification, Tools).
//
//go:embed own.json
var definitions []byte

// Tool is one of the assistant's own tools, with what checks its arguments.
type Tool struct {
	schemas.Tool
	check *jsonschema.Schema
}

// Tools reads the definitions. It panics when they are broken, since they are part of the program.
func Tools() []Tool {
	var raws []json.RawMessage
	must(json.Unmarshal(definitions, &raws))
	var all []Tool
	for _, raw := range raws {
		var def struct {
			Name, Title, Description string
			InputSchema              json.RawMessage
			Annotations              struct{ ReadOnlyHint bool }
		}
		must(json.Unmarshal(raw, &def))
		var whole, input bytes.Buffer
		must(json.Compact(&whole, raw))
		must(json.Compact(&input, def.InputSchema))
		sum := sha256.Sum256(whole.Bytes())
		t := Tool{Tool: schemas.Tool{Server: Server, Name: def.Name, Model: def.Name, Title: def.Title, Description: def.Description,
			Input: input.Bytes(), Raw: whole.Bytes(), Pin: hex.EncodeToString(sum[:]), ReadOnly: def.Annotations.ReadOnlyHint,
			Writes: !def.Annotations.ReadOnlyHint, Tokens: whole.Len() / 4}}
		c := jsonschema.NewCompiler()
		c.Draft = jsonschema.Draft2020
		must(c.AddResource("tool:///"+def.Name, bytes.NewReader(t.Input)))
		var err error
		t.check, err = c.Compile("tool:///" + def.Name)
		must(err)
		all = append(all, t)
	}
	return all
}

func must(err error) {
	if err != nil {
		panic("own: own.json: " + err.Error())
	}
}

// Wary says whose words the model read before, of servers that are not believed; "" if there are none.
func Wary(p schemas.Policy, wary []string) string {
	var others []string
	for _, server := range wary {
		if server = words.Short(words.Clean(server), 60); server != Server && !p.Trusts(server) && !slices.Contains(others, server) {
			others = append(others, server)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return words.Short(strings.Join(others, ", "), 200) + " answered before it in this turn"
}

// Read takes the arguments of a tool, checked against its schema already.
func Read[T any](args json.RawMessage) (in T, err error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return in, words.Invalid("the arguments are no JSON object", "")
	}
	return in, nil
}

// Result makes a tool's answer (MCP specification, CallToolResult).
func Result(v any, failed bool) (schemas.Result, error) {
	js, err := json.Marshal(v)
	if err != nil {
		return schemas.Result{}, err
	}
	raw, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": string(js)}},
		"structuredContent": json.RawMessage(js), "isError": failed})
	return schemas.Result{Raw: raw, IsError: failed}, err
}
