package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"bobbin/internal/jsonscan"
)

// The protocol versions. Those before modern begin with initialize and have sessions; modern is stateless.
const (
	modern = "2026-07-28"
	latest = "2025-11-25" // of the older ones
	oldest = "2024-11-05" // HTTP+SSE
)

// handshaken are the versions that begin with initialize, newest first; a session's id holds the index.
func handshaken() []string { return []string{latest, "2025-06-18", "2025-03-26", oldest} }

// Error codes of JSON-RPC 2.0 and MCP.
const (
	codeParse      = -32700
	codeInvalid    = -32600
	codeNoMethod   = -32601
	codeParams     = -32602
	codeInternal   = -32603
	codeServer     = -32000
	codeNoResource = -32002 // before 2026-07-28
	codeHeader     = -32020 // HeaderMismatch, SEP-2243
	codeAbility    = -32021 // MissingRequiredClientCapability
	codeVersion    = -32022 // UnsupportedProtocolVersion
)

var errShape = errors.New("not one JSON-RPC message")

// message is one that a client sent. Its parts are those of the text it was read from.
type message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	params params
}

// params are the members that requests share.
type params struct {
	Name      string
	URI       string
	Arguments json.RawMessage
	Cursor    string          // its bytes where it is no text, so that it is a wrong one
	Responses json.RawMessage // inputResponses
	State     *string         // requestState
	Meta      struct {
		Progress     json.RawMessage // progressToken
		Version      *string
		Capabilities json.RawMessage
		Level        string
	}
}

func (m *message) request() bool { return m.Method != "" && m.ID != nil }
func (m *message) answer() bool  { return m.Method == "" }

// read checks one message of a client.
func read(b []byte) (*message, error) {
	e, err := jsonscan.Message(b)
	if err != nil {
		return nil, errShape
	}
	m := &message{ID: e.ID.Of(b), Params: e.Params.Of(b), Result: e.Result.Of(b)}
	version, _ := jsonscan.Text(e.Version.Of(b))
	method, named := jsonscan.Text(e.Method.Of(b))
	m.Method = method
	if string(m.ID) == "null" {
		m.ID = nil
		if m.Method != "" {
			return nil, errShape // never null (2025-11-25, Basic Protocol)
		}
	}
	switch {
	case version != "2.0", m.ID != nil && !jsonscan.ID(m.ID), !named && !e.Method.Absent():
		return nil, errShape
	case m.Method == "":
		if m.ID == nil || e.Result.Absent() == e.Error.Absent() {
			return nil, errShape
		}
		return m, nil
	case len(m.Params) == 0, string(m.Params) == "null":
		return m, nil
	case m.Params[0] != '{' || m.params.read(b, e.Params) != nil:
		return nil, errShape
	}
	return m, nil
}

// read takes what is there; what is of another type than it should be is missed where it is needed.
func (p *params) read(b []byte, at jsonscan.Span) error {
	var name, uri, arguments, cursor, responses, state, meta, progress, version, capabilities, level jsonscan.Span
	err := jsonscan.Pick(b, at, jsonscan.Want{Name: "name", At: &name}, jsonscan.Want{Name: "uri", At: &uri}, jsonscan.Want{Name: "arguments", At: &arguments},
		jsonscan.Want{Name: "cursor", At: &cursor}, jsonscan.Want{Name: "inputResponses", At: &responses}, jsonscan.Want{Name: "requestState", At: &state}, jsonscan.Want{Name: "_meta", At: &meta})
	if err != nil {
		return err
	}
	text := func(at jsonscan.Span) string {
		t, _ := jsonscan.Text(at.Of(b))
		return t
	}
	given := func(at jsonscan.Span) *string {
		t, ok := jsonscan.Text(at.Of(b))
		if !ok {
			return nil
		}
		return new(t)
	}
	if p.Cursor = text(cursor); p.Cursor == "" && !cursor.Absent() && b[cursor.From] != '"' && b[cursor.From] != 'n' {
		p.Cursor = string(cursor.Of(b))
	}
	p.Name, p.URI, p.Arguments, p.Responses, p.State = text(name), text(uri), arguments.Of(b), responses.Of(b), given(state)
	if meta.Absent() {
		return nil
	}
	const ours = "io.modelcontextprotocol/"
	err = jsonscan.Pick(b, meta, jsonscan.Want{Name: "progressToken", At: &progress}, jsonscan.Want{Name: ours + "protocolVersion", At: &version},
		jsonscan.Want{Name: ours + "clientCapabilities", At: &capabilities}, jsonscan.Want{Name: ours + "logLevel", At: &level})
	p.Meta.Version, p.Meta.Capabilities, p.Meta.Level = given(version), capabilities.Of(b), text(level)
	if token := progress.Of(b); jsonscan.ID(token) {
		p.Meta.Progress = token
	}
	return err
}

// fault is a JSON-RPC error for a client.
type fault struct {
	code int
	text string
	data json.RawMessage
}

// outcome is the answer to a request: a result object, or a fault; neither when the client took the request back.
type outcome struct {
	result []byte
	fault  *fault
}

func (o outcome) none() bool { return o.result == nil && o.fault == nil }

func wrong(code int, text string) outcome { return outcome{fault: &fault{code: code, text: text}} }

// frame appends the whole answer to dst.
func (o outcome) frame(dst, id []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = slices.Grow(dst, len(o.result)+len(id)+64)
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), id...), ',')
	if o.fault == nil {
		dst = append(dst, `"result":`...)
		dst = append(dst, o.result...)
		return append(dst, '}')
	}
	dst = strconv.AppendInt(append(dst, `"error":{"code":`...), int64(o.fault.code), 10)
	dst = append(append(dst, `,"message":`...), quote(o.fault.text)...)
	if o.fault.data != nil {
		dst = append(append(dst, `,"data":`...), o.fault.data...)
	}
	return append(dst, "}}"...)
}

// notification gives a whole message without id.
func notification(method string, params []byte) []byte {
	b := append(append(make([]byte, 0, len(params)+len(method)+48), `{"jsonrpc":"2.0","method":"`...), method...)
	if params == nil {
		return append(b, `"}`...)
	}
	b = append(b, `","params":`...)
	from := len(b)
	b = append(b, params...)
	jsonscan.OneLine(b[from:])
	return append(b, '}')
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always can be
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// encode is for our own shapes, which always can be.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
