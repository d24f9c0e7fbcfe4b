package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"bobbin/schemas"
)

const (
	paramHead = "Mcp-Param-"
	safeWhole = 1<<53 - 1 // beyond it two programs may mean different numbers by the same digits
)

// mirror is an argument that clients repeat in a header, for what stands between them and the server (SEP-2243).
type mirror struct {
	header string // without Mcp-Param-
	path   []string
}

// mirrors gives those that an input schema declares in properties that lead from its root. Clients drop a tool with declarations
// that are not valid, so those bind nobody.
func mirrors(schema json.RawMessage) []mirror {
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return nil
	}
	type property struct {
		Type       string
		Header     string `json:"x-mcp-header"`
		Properties map[string]json.RawMessage
	}
	var list []mirror
	var walk func(raw json.RawMessage, path []string)
	walk = func(raw json.RawMessage, path []string) {
		var p property
		_ = json.Unmarshal(raw, &p) // what is of another type than it should be declares nothing
		if p.Header != "" && slices.Contains([]string{"string", "integer", "boolean"}, p.Type) {
			list = append(list, mirror{p.Header, path})
		}
		for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
			walk(p.Properties[name], append(slices.Clip(path), name))
		}
	}
	walk(schema, nil)
	return list
}

// unlike is the fault of a call whose headers do not repeat the arguments that the tool's schema says. Over stdio nothing does, so
// what comes from there by way of our own bridge is not held to it.
func (g *Gateway) unlike(r *http.Request, who identity, m *message) *fault {
	if m.Method != "tools/call" || who.local() {
		return nil
	}
	all, err := g.opt.Tools.Tools(r.Context(), who.caller)
	if err != nil {
		return nil // the call says so itself
	}
	i := slices.IndexFunc(all, func(t schemas.Tool) bool {
		if who.server != "" {
			return t.Server == who.server && t.Name == m.params.Name
		}
		return t.Model == m.params.Name || t.Full() == m.params.Name
	})
	if i < 0 {
		return nil
	}
	for _, p := range mirrors(all[i].Input) {
		if !p.holds(r.Header.Values(paramHead+p.header), m.params.Arguments) {
			return &fault{code: codeHeader, text: "the header " + paramHead + p.header + " is not the argument " + strings.Join(p.path, ".")}
		}
	}
	return nil
}

// holds reports whether the headers of this name are what they have to be for the arguments: none, where there is no such argument.
func (p mirror) holds(given []string, args json.RawMessage) bool {
	for _, name := range p.path {
		var o map[string]json.RawMessage
		_ = json.Unmarshal(args, &o)
		args = o[name]
	}
	if len(args) == 0 || args[0] == 'n' {
		return len(given) == 0
	}
	if len(given) != 1 {
		return false
	}
	text, ok := plain(given[0])
	switch {
	case !ok:
		return false
	case args[0] == '"':
		var s string
		return json.Unmarshal(args, &s) == nil && s == text
	case args[0] == 't' || args[0] == 'f':
		return string(args) == text
	case args[0] == '{' || args[0] == '[':
		return true // that does not fit the schema, which the call says with better words
	}
	a, err1 := strconv.ParseFloat(string(args), 64)
	b, err2 := strconv.ParseFloat(text, 64)
	if err1 != nil || err2 != nil || a > safeWhole || a < -safeWhole {
		return string(args) == text
	}
	return a == b
}

// plain reads a header's value, which may be in the form for what headers cannot hold.
func plain(value string) (text string, ok bool) {
	coded, marked := strings.CutPrefix(value, "=?base64?")
	coded, whole := strings.CutSuffix(coded, "?=")
	if !marked || !whole {
		return value, true
	}
	b, err := base64.StdEncoding.DecodeString(coded)
	return string(b), err == nil
}
