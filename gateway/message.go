package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
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

// message is one that a client sent.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
	params  params
}

// params are the members that requests share.
type params struct {
	Name      string          `json:"name"`
	URI       string          `json:"uri"`
	Arguments json.RawMessage `json:"arguments"`
	Cursor    string          `json:"cursor"`
	Responses json.RawMessage `json:"inputResponses"`
	State     *string         `json:"requestState"`
	Meta      struct {
		Progress     json.RawMessage `json:"progressToken"`
		Version      *string         `json:"io.modelcontextprotocol/protocolVersion"`
		Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		Level        string          `json:"io.modelcontextprotocol/logLevel"`
	} `json:"_meta"`
}

func (m *message) request() bool { return m.Method != "" && m.ID != nil }
func (m *message) answer() bool  { return m.Method == "" }

// read checks one message of a client.
func read(b []byte) (*message, error) {
	m := &message{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, errShape
	}
	if bytes.Equal(m.ID, []byte("null")) {
		m.ID = nil
		if m.Method != "" {
			return nil, errShape // never null (2025-11-25, Basic Protocol)
		}
	}
	switch {
	case m.Version != "2.0", m.ID != nil && !goodID(m.ID):
		return nil, errShape
	case m.Method == "":
		if m.ID == nil || (m.Result == nil) == (m.Error == nil) {
			return nil, errShape
		}
		return m, nil
	case len(m.Params) > 0 && m.Params[0] != '{' && !bytes.Equal(m.Params, []byte("null")):
		return nil, errShape
	}
	if len(m.Params) > 0 {
		_ = json.Unmarshal(m.Params, &m.params) // what is of another type than it should be is missed where it is needed
	}
	if !goodID(m.params.Meta.Progress) {
		m.params.Meta.Progress = nil
	}
	return m, nil
}

// goodID holds for a string or a number of sensible length.
func goodID(id []byte) bool {
	return len(id) > 0 && len(id) <= 256 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
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

// oneLine takes the line breaks between the tokens of valid JSON away, in place: inside of strings there are none.
func oneLine(b []byte) {
	for _, c := range []byte("\n\r") {
		for i := bytes.IndexByte(b, c); i >= 0; i = bytes.IndexByte(b, c) {
			b[i] = ' '
		}
	}
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
	oneLine(b[from:])
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
