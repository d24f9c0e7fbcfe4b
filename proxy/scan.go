package proxy

import (
	"errors"

	"bobbin/internal/jsonscan"
)

var errSyntax = errors.New("not a JSON-RPC message")

// message is what a client sent, checked and on one line.
type message struct {
	jsonscan.Envelope
	raw    []byte
	verb   string        // the method; "" for an answer
	token  jsonscan.Span // of a progress token in a request
	target jsonscan.Span // requestId of notifications/cancelled
	era    jsonscan.Span // the protocol version in _meta, since 2026-07-28
	name   jsonscan.Span // params.name or params.uri
}

// readMessage checks a client's message: other clients' answers depend on both ends reading it alike.
func readMessage(b []byte) (message, error) {
	m := message{raw: b}
	var err error
	if m.Envelope, err = jsonscan.Message(b); err != nil {
		return m, errSyntax
	}
	m.raw = jsonscan.OneLine(b)
	if !m.ID.Absent() && !jsonscan.ID(m.ID.Of(b)) {
		return m, errSyntax
	}
	if m.Method.Absent() {
		if m.ID.Absent() || m.Result.Absent() == m.Error.Absent() {
			return m, errSyntax
		}
		return m, nil
	}
	if m.verb, _ = jsonscan.Text(m.Method.Of(b)); m.verb == "" || !m.Result.Absent() || !m.Error.Absent() {
		return m, errSyntax
	}
	return m, m.readParams()
}

func (m *message) readParams() error {
	var meta, name, uri jsonscan.Span
	err := jsonscan.Pick(m.raw, m.Params, jsonscan.Want{Name: "_meta", At: &meta}, jsonscan.Want{Name: "requestId", At: &m.target},
		jsonscan.Want{Name: "name", At: &name}, jsonscan.Want{Name: "uri", At: &uri})
	if m.name = name; name.Absent() {
		m.name = uri
	}
	if err == nil {
		err = jsonscan.Pick(m.raw, meta, jsonscan.Want{Name: "progressToken", At: &m.token},
			jsonscan.Want{Name: "io.modelcontextprotocol/protocolVersion", At: &m.era})
	}
	for _, object := range []jsonscan.Span{m.Params, meta} {
		if err != nil || !object.Absent() && m.raw[object.From] != '{' {
			return errSyntax
		}
	}
	return nil
}
