package session

import (
	"bytes"
	"encoding/json"

	"bobbin/internal/jsonscan"
)

// envelope holds the members of a JSON-RPC message as slices of the scanned
// line. What is absent is nil. The method stands without needless escapes:
// PHP writes each slash with one.
type envelope struct {
	id, method, params, result, err []byte
}

// scanEnvelope checks that line is one JSON object and finds the members of a
// JSON-RPC message in it without decoding anything. It is the whole cost of
// passing a result through. Where line is not UTF-8 it is mended: who gets the
// result could not read it otherwise.
func scanEnvelope(line []byte) (envelope, error) {
	m, line, err := jsonscan.Mended(line)
	if err != nil {
		return envelope{}, err
	}
	e := envelope{m.ID.Of(line), m.Method.Of(line), m.Params.Of(line), m.Result.Of(line), m.Error.Of(line)}
	if bytes.IndexByte(e.method, '\\') >= 0 {
		text, _ := jsonscan.Text(e.method)
		e.method = quote(text)
	}
	return e, nil
}

// compactObject returns b as one JSON object on one line, or an error. An
// empty b is the empty object.
func compactObject(b []byte) ([]byte, error) {
	switch {
	case len(b) == 0:
		return []byte("{}"), nil
	case !jsonscan.Object(b):
		return nil, errNotObject
	case !bytes.ContainsAny(b, "\n\r"):
		return bytes.TrimSpace(b), nil
	}
	var out bytes.Buffer
	err := json.Compact(&out, b)
	return out.Bytes(), err
}
