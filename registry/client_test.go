package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"bobbin/schemas"
)

// A client that can be asked is asked in place of the chat, and the log says that; what it cannot be asked goes to the chat.
func TestElicit_ByTheClient(t *testing.T) {
	chat := 0
	h := asked(t, func(context.Context, schemas.Elicit) (schemas.Elicited, error) {
		chat++
		return schemas.Elicited{Action: "accept", Content: json.RawMessage(`{"name":"chat"}`)}, nil
	})
	for _, c := range []struct {
		name, want string
		answer     error
		chat       int
	}{
		{"asked", `"name":"client"`, nil, 0},
		{"cannot", `"name":"chat"`, &schemas.Error{Code: schemas.CodeAsk}, 1},
		{"fails", `"action":"cancel"`, errors.New("gone"), 0},
	} {
		chat = 0
		in := by(one, "s.ask", askName)
		in.Elicit = func(_ context.Context, q schemas.Elicit) (schemas.Elicited, error) {
			if q.Caller.Member != "ann" || q.Message != "Who?" || q.Check == nil {
				t.Errorf("asked %+v", q)
			}
			return schemas.Elicited{Action: "accept", Content: json.RawMessage(`{"name":"client"}`)}, c.answer
		}
		res, err := h.call(in)
		if err != nil || !strings.Contains(text(t, res), c.want) || chat != c.chat {
			t.Errorf("%s: %v %v, %d times in the chat", c.name, res, err, chat)
		}
	}
	if got := strings.Join(h.questions(), "\n"); !strings.Contains(got, "ann: asked by way of the client: accept") || !strings.Contains(got, "ann: asked by way of the client: no answer") {
		t.Errorf("%s", got)
	}
}

// A caller that speaks MCP gets the server's own error, and results of any length.
func TestCall_ForClients(t *testing.T) {
	h := newHouse(t, map[string]script{"a": plainScript("rpc"), "lean": {Tools: tools(toolJSON("big", readOnly)), Lean: 100_000}})
	h.set(one, entry("s", "a"), entry("l", "lean"))
	h.apply(one)
	_, err := h.call(by(one, "s.rpc", ""))
	r, ok := errors.AsType[*schemas.Refusal](err)
	if !ok || r.Message != "quota exceeded" || r.Code == 0 {
		t.Errorf("%v %+v", err, r)
	}
	in := by(one, "l.big", "")
	if res, err := h.call(in); err != nil || len(res.Raw) > 50_000 || res.Spilled == "" {
		t.Errorf("%d bytes, %v", len(res.Raw), err)
	}
	in.Whole = true
	if res, err := h.call(in); err != nil || len(res.Raw) < 100_000 || res.Spilled != "" {
		t.Errorf("%d bytes, %v", len(res.Raw), err)
	}
}
