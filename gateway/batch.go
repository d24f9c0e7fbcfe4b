package gateway

import (
	"encoding/json"
	"net/http"
)

const maxBatch = 32

// postBatch takes several messages at once, which 2025-03-26 alone allows. They are answered one after the other.
func (g *Gateway) postBatch(w http.ResponseWriter, r *http.Request, who identity, body []byte) {
	var all []json.RawMessage
	n := g.session(r.Context(), r.Header.Get("Mcp-Session-Id"), who)
	if n == nil || n.version != "2025-03-26" || json.Unmarshal(body, &all) != nil || len(all) == 0 || len(all) > maxBatch {
		refuse(w, http.StatusBadRequest, nil, codeInvalid, "one message at a time; only a session of 2025-03-26 may send up to 32")
		return
	}
	answers := []byte{'['}
	answer := func(o outcome, id []byte) {
		if o.none() {
			return
		}
		if len(answers) > 1 {
			answers = append(answers, ',')
		}
		answers = o.frame(answers, id)
	}
	for _, raw := range all {
		m, err := read(raw)
		switch {
		case err != nil:
			answer(wrong(codeInvalid, "this is not one JSON-RPC message"), nil)
		case m.Method == "initialize":
			answer(wrong(codeInvalid, "initialize comes alone"), m.ID)
		case !m.request():
			n.aside(m)
		default:
			answer(g.single(n, m), m.ID)
		}
	}
	if len(answers) == 1 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	writeJSON(w, http.StatusOK, append(answers, ']'))
}

// single answers one request of a batch, without a stream.
func (g *Gateway) single(n *session, m *message) outcome {
	x := &exchange{identity: n.identity, g: g, m: m, n: n, version: n.version, able: n.able, level: &n.level}
	ctx, end, ok := g.begin(x)
	if !ok {
		return wrong(codeServer, "too many requests are under way; it did not run")
	}
	defer end()
	if !n.enlist(m.ID, x.cancel) {
		return wrong(codeInvalid, "a request with this id is under way already")
	}
	defer n.delist(m.ID)
	return x.answer(ctx)
}
