package anthropic_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"bobbin/agent"
	"bobbin/agent/model/anthropic"
	"bobbin/agent/model/modeltest"
	"bobbin/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask gives the parts of an answer, and how it ended.
func ask(t *testing.T, s *modeltest.Server, r agent.Request) (parts []agent.Part, end agent.Event) {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	p, err := anthropic.New(anthropic.Options{Key: schemas.NewSecret(modeltest.Key), BaseURL: s.URL, HTTP: &http.Client{Transport: tr}})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range p.Stream(t.Context(), r) {
		switch {
		case err != nil:
			t.Fatal(err, s.Refused())
		case e.Kind == agent.EventPart:
			parts = append(parts, *e.Part)
		case e.Kind == agent.EventEnd:
			end = e
		}
	}
	return parts, end
}

func user(text string) agent.Message {
	return agent.Message{Role: agent.User, Parts: []agent.Part{{Text: text}}}
}

// events are a stream's events, each named by its type.
func events(list ...string) string {
	var b strings.Builder
	for _, e := range list {
		var kind struct{ Type string }
		_ = json.Unmarshal([]byte(e), &kind)
		b.WriteString("event: " + kind.Type + "\ndata: " + e + "\n\n")
	}
	return b.String()
}

func TestBlocks(t *testing.T) {
	start := `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"x","usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":3,"output_tokens":1}}}`
	stop := `{"type":"message_stop"}`
	delta := func(reason string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"},"usage":{"output_tokens":7}}`
	}
	tokens := schemas.Tokens{In: 18, Cached: 5, Out: 7}
	for name, c := range map[string]struct {
		raw   string
		parts []agent.Part
		end   agent.Event
	}{
		"redacted thinking, and blocks that end in another order": {events(start,
			`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"zzz"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"a","input":{}}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t2","name":"b","input":{"k":1}}}`,
			`{"type":"content_block_stop","index":2}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"x\":12345678901234567890}"}}`,
			`{"type":"content_block_stop","index":1}`, delta("tool_use"), stop),
			[]agent.Part{
				{Opaque: &agent.Opaque{Model: "anthropic/claude-sonnet-5-5", Data: json.RawMessage(`{"type":"redacted_thinking","data":"zzz"}`)}},
				{Call: &agent.Call{ID: "t1", Name: "a", Args: json.RawMessage(`{"x":12345678901234567890}`)}},
				{Call: &agent.Call{ID: "t2", Name: "b", Args: json.RawMessage(`{"k":1}`)}},
			}, agent.Event{Kind: agent.EventEnd, Stop: agent.StopCalls, Tokens: tokens}},
		"thinking that was cut off is not sent back": {events(start,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_stop","index":0}`, delta("max_tokens"), stop),
			[]agent.Part{{Reasoning: "hm"}}, agent.Event{Kind: agent.EventEnd, Stop: agent.StopLength, Tokens: tokens}},
		"a refusal, and usage that is counted anew": {events(start, `{"type":"something_new"}`,
			`{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"input_tokens":20,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":9}}`, stop),
			nil, agent.Event{Kind: agent.EventEnd, Stop: agent.StopRefused, Tokens: schemas.Tokens{In: 20, Out: 9}}},
		"a block of a kind that is not known": {events(start,
			`{"type":"content_block_start","index":0,"content_block":{"type":"hologram","x":1}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"y"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"es"}}`,
			`{"type":"content_block_stop","index":1}`, delta("end_turn"), stop),
			[]agent.Part{{Text: "yes"}}, agent.Event{Kind: agent.EventEnd, Stop: agent.StopDone, Tokens: tokens}},
	} {
		t.Run(name, func(t *testing.T) {
			parts, end := ask(t, modeltest.Anthropic(t, modeltest.Answer{Raw: c.raw}), agent.Request{Model: "claude-sonnet-5-5", Messages: []agent.Message{user("hi")}})
			if diff := cmp.Diff(c.parts, parts) + cmp.Diff(c.end, end); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRequest checks what decides about money: the marks of the cache, and whether the model thinks.
func TestRequest(t *testing.T) {
	s := modeltest.Anthropic(t)
	s.By(func(modeltest.Asked) modeltest.Answer { return modeltest.Answer{Text: "yes"} })
	tool := func(name string) agent.Tool {
		return agent.Tool{Name: name, Input: json.RawMessage(`{"type":"object"}`)}
	}
	r := agent.Request{System: "s", Tools: []agent.Tool{tool("a"), tool("b")}, Messages: []agent.Message{user("1"), {Role: agent.Assistant, Parts: []agent.Part{{Text: "x"}}}, user("2"), {Role: agent.Assistant, Parts: []agent.Part{{Text: "y"}}}, user("3")}}
	for model, thinks := range map[string]bool{"claude-sonnet-5-5": true, "claude-opus-4-6": true, "claude-haiku-4-5": false, "claude-haiku-4-5-20251001": false, "claude-3-7-sonnet-20250219": false, "claude-opus-4-20250514": false, "other": false} {
		r.Model = model
		ask(t, s, r)
		asked := s.Asked()
		var body struct {
			Thinking *struct{ Type string }
			Max      int `json:"max_tokens"`
			System   []map[string]any
			Tools    []map[string]any
			Messages []struct{ Content []map[string]any }
		}
		if err := json.Unmarshal(asked[len(asked)-1].Body, &body); err != nil {
			t.Fatal(err)
		}
		if (body.Thinking != nil) != thinks || body.Max != 32000 {
			t.Errorf("%s: thinking %v, at most %d", model, body.Thinking, body.Max)
		}
		marked := []bool{body.System[0]["cache_control"] != nil, body.Tools[0]["cache_control"] != nil, body.Tools[1]["cache_control"] != nil}
		for _, m := range body.Messages {
			marked = append(marked, m.Content[0]["cache_control"] != nil)
		}
		if diff := cmp.Diff([]bool{true, false, true, false, false, true, false, true}, marked); diff != "" {
			t.Error(diff)
		}
	}
	// The same conversation is the same bytes: else no cache would know it.
	ask(t, s, r)
	asked := s.Asked()
	if a, b := asked[len(asked)-1].Body, asked[len(asked)-2].Body; string(a) != string(b) {
		t.Error("two requests differ")
	}
}
