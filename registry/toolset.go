package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"bobbin/registry/internal/session"
	"bobbin/schemas"

	"github.com/gowebpki/jcs"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

const (
	maxServerTools = 512
	maxThreadTools = 1000
	maxDescription = 2 << 10 // bytes
	maxToolName    = 128     // bytes (MCP 2025-11-25, server/tools)
)

// toolset is what one server offers, parsed; it never changes. What depends on the thread (filter, pins, names for
// models) is not in it.
type toolset struct {
	list      []*definition
	refused   []session.Refusal
	era       string
	resources bool
	prompts   bool
}

// definition is one parsed tool.
type definition struct {
	schemas.Tool // without Kind, Model and Held
	compile      func() (*jsonschema.Schema, error)
	plain        *plain // nil: only compile can tell
}

// newToolset parses raw tool definitions; those that prev has as well, byte for byte, are taken from there.
func newToolset(server string, raw []json.RawMessage, refused []session.Refusal, prev *toolset) *toolset {
	known := map[string]*definition{}
	if prev != nil {
		for _, d := range prev.list {
			known[string(d.Raw)] = d
		}
	}
	ts := &toolset{refused: slices.Clone(refused)}
	seen := map[string]bool{}
	for n, item := range raw {
		if n == maxServerTools {
			ts.refuse("", fmt.Sprintf("more than %d tools; the rest is left out", maxServerTools))
			break
		}
		d := known[string(item)]
		if d == nil || d.Server != server {
			var reason string
			var name string
			if d, name, reason = define(server, item); reason != "" {
				ts.refuse(name, reason)
				continue
			}
		}
		if seen[d.Name] {
			ts.refuse(d.Name, "listed twice")
			continue
		}
		seen[d.Name] = true
		ts.list = append(ts.list, d)
	}
	return ts
}

func (ts *toolset) refuse(name, reason string) {
	ts.refused = append(ts.refused, session.Refusal{Name: short(schemas.Clean(name, true), 64), Reason: reason})
}

// of notes what the server said about itself.
func (ts *toolset) of(info session.Info) *toolset {
	ts.era, ts.resources, ts.prompts = info.Protocol, info.Resources, info.Prompts
	return ts
}

// same reports whether two listings hold the same definitions in the same order.
func (ts *toolset) same(o *toolset) bool {
	return slices.EqualFunc(ts.list, o.list, func(a, b *definition) bool { return bytes.Equal(a.Raw, b.Raw) })
}

// wire is the part of a tool's definition that has a meaning here (MCP, schema Tool).
type wire struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"inputSchema,omitempty"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

// hints are untrusted: they may make a tool look worse, never better than its name.
type hints struct {
	Title       string `json:"title"`
	ReadOnly    bool   `json:"readOnlyHint"`
	Destructive *bool  `json:"destructiveHint"`
}

// define parses one tool, or says why it is refused.
func define(server string, raw json.RawMessage) (d *definition, name, reason string) {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, w.Name, "its definition cannot be read"
	}
	switch {
	case w.Name == "":
		return nil, "", "it has no name"
	case len(w.Name) > maxToolName:
		return nil, w.Name, fmt.Sprintf("its name is longer than %d bytes", maxToolName)
	case schemas.Clean(w.Name, true) != w.Name || strings.TrimSpace(w.Name) != w.Name:
		return nil, w.Name, "its name holds invisible characters"
	case strings.Contains(w.Name, "`"): // it could pass for a command to press in what people read
		return nil, w.Name, "its name holds a backtick"
	case len(w.Input)+len(w.Output) > session.MaxSchema:
		return nil, w.Name, fmt.Sprintf("its schemas are larger than %d KiB", session.MaxSchema>>10)
	}
	pin, err := pinOf(w)
	if err != nil {
		return nil, w.Name, "its definition has no canonical form"
	}
	input, err := cleanSchema(w.Input)
	if err != nil {
		return nil, w.Name, "its schema " + err.Error()
	}
	var output json.RawMessage
	if len(w.Output) > 0 {
		if output, err = cleanSchema(w.Output); err != nil {
			output = nil // only a promise about results
		}
	}
	var h hints
	_ = json.Unmarshal(w.Annotations, &h) // a wrong type is as good as none
	if w.Title == "" {
		w.Title = h.Title
	}
	d = &definition{Tool: schemas.Tool{
		Server: server, Name: w.Name, Title: short(schemas.Clean(w.Title, true), 128), Input: input, Output: output,
		Description: cut(schemas.Clean(w.Description, false), maxDescription), Raw: raw, Pin: pin,
		ReadOnly: h.ReadOnly && !speaksAgainst(w.Name),
	}}
	d.Writes = !d.ReadOnly
	d.Risk = risk(w.Name, h)
	d.Tokens = (len(d.Name) + len(d.Description) + len(d.Input) + len(server) + 3) / 4
	if _, err := compile(input, false); err != nil {
		return nil, w.Name, "its schema " + err.Error()
	}
	d.compile = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(input, false) }) // again: it is many times the text, and few tools are called
	v, err := decode(input)
	if err != nil || costly(v) {
		return nil, w.Name, "its schema " + errCostly.Error()
	}
	if object, ok := v.(map[string]any); ok {
		d.plain = plainOf(object)
	}
	return d, w.Name, ""
}

// cut shortens a text to at most limit bytes, at a character's edge.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// pinOf is the SHA-256, in hex, of what a person approves of a tool, in canonical JSON (RFC 8785).
func pinOf(w wire) (string, error) {
	b, err := json.Marshal(w)
	if err != nil {
		return "", err
	}
	canonical, err := jcs.Transform(b)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
