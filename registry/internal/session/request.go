package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

const (
	maxErrorText = 4 << 10
	maxErrorData = 64 << 10
)

// link carries messages to one server and brings the answers back. Its
// methods may be called concurrently.
type link interface {
	// roundTrip sends r and waits for the answer. The result is one valid
	// JSON object on memory of its own. It returns soon after ctx ends.
	roundTrip(ctx context.Context, r *request) (json.RawMessage, error)
	// notify sends one notification or answer. It waits for its acceptance at most until ctx ends.
	notify(ctx context.Context, message []byte, h *handshake) error
	// close ends the connection and fails what is pending. It is called once.
	close(ctx context.Context) error
}

// request is a JSON-RPC request that has no id yet: each attempt gets a new one.
type request struct {
	method   string
	params   []byte            // one JSON object on one line, or nil
	name     string            // the tool, prompt or resource, for the Mcp-Name header
	headers  map[string]string // Mcp-Param-* headers (SEP-2243)
	progress func(json.RawMessage)
	log      func(json.RawMessage) // gets log messages that came with this request, as progress does
	caps     string                // the open _meta object in place of the session's; "" = the session's
	trace    string                // of the caller, as W3C's traceparent; "" = none
	stream   bool                  // lives until its context ends; its total size has no limit
	hand     *handshake            // set while the protocol version is being agreed
}

// handshake is the state of an agreement that has not been adopted yet.
type handshake struct {
	version, session string
}

// encode writes the request as one line. meta is the open "_meta" object that
// the protocol version asks for, or empty. A handshake request has its own.
func (r *request) encode(id int64, meta string) []byte {
	if r.caps != "" {
		meta = r.caps
	}
	b := make([]byte, 0, 128+len(r.method)+len(r.params)+len(meta))
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":"`...)
	b = append(b, r.method...)
	b = append(b, '"')
	if r.trace != "" { // SEP-414
		if meta != "" {
			meta += ","
		}
		meta += `"traceparent":"` + r.trace + `"`
	}
	if r.hand != nil || meta == "" && r.progress == nil {
		if r.params != nil {
			b = append(b, `,"params":`...)
			b = append(b, r.params...)
		}
		return append(b, "}\n"...)
	}
	b = append(b, `,"params":{"_meta":{`...)
	b = append(b, meta...)
	if r.progress != nil {
		if meta != "" {
			b = append(b, ',')
		}
		b = append(b, `"progressToken":`...)
		b = strconv.AppendInt(b, id, 10)
	}
	b = append(b, '}')
	if len(r.params) > 2 {
		b = append(b, ',')
		b = append(b, r.params[1:]...)
	} else {
		b = append(b, '}')
	}
	return append(b, "}\n"...)
}

// answerOf turns the message into a result on memory of its own, or an error.
func answerOf(e envelope) (json.RawMessage, error) {
	switch {
	case e.err != nil:
		return nil, rpcError(e.err)
	case len(e.result) > 0 && e.result[0] == '{':
		return append(make(json.RawMessage, 0, len(e.result)), e.result...), nil
	}
	return nil, lost(fmt.Errorf("%w: no result object", ErrGarbage))
}

// rpcError reads an error member; some servers send a bare string.
func rpcError(raw []byte) *RPCError {
	var e RPCError
	if json.Unmarshal(raw, &e) != nil {
		e = RPCError{Code: -32603, Message: excerpt(raw)}
	}
	if len(e.Message) > maxErrorText {
		e.Message = strings.ToValidUTF8(e.Message[:maxErrorText], "")
	}
	if len(e.Data) > maxErrorData {
		e.Data = nil
	}
	return &e
}

func cancelMessage(id int64) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"the caller stopped waiting"}}`+"\n", id)
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}
