package proxy

import "encoding/json"

// Codes of JSON-RPC 2.0 and of MCP (2026-07-28, basic).
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeNoMethod = -32601
	codeServer   = -32000
	codeHeader   = -32020
)

// rpcError is one line; id nil becomes null.
func rpcError(id []byte, code int, text string) []byte {
	if id == nil {
		id = []byte("null")
	}
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}{Version: "2.0", ID: id, Error: struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{code, text}})
	if err != nil { // an id that is no JSON; a server's own, unchecked
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the id is no JSON"}}`)
	}
	return b
}

func rpcResult(id, result []byte) []byte {
	b := make([]byte, 0, len(id)+len(result)+32)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = append(append(b, `,"result":`...), result...)
	return append(b, '}')
}
