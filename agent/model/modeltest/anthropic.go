//lint:file-ignore ST1005 the words are the provider's own

package modeltest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// anthropic is the Messages API, version 2023-06-01.
type anthropic struct{}

type anthropicRequest struct {
	Model     string            `json:"model"`
	MaxTokens int               `json:"max_tokens"`
	Stream    bool              `json:"stream"`
	System    []json.RawMessage `json:"system"`
	Messages  []struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl *cacheControl   `json:"cache_control"`
	} `json:"tools"`
	ToolChoice *struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
	Thinking *struct {
		Type    string `json:"type"`
		Display string `json:"display"`
	} `json:"thinking"`
}

type cacheControl struct {
	Type string `json:"type"`
}

// anthropicBlock is every kind of block that this server knows.
type anthropicBlock struct {
	Type         string        `json:"type"`
	Text         string        `json:"text"`
	CacheControl *cacheControl `json:"cache_control"`
	Source       *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Input     json.RawMessage   `json:"input"`
	ToolUseID string            `json:"tool_use_id"`
	IsError   bool              `json:"is_error"`
	Content   []json.RawMessage `json:"content"`
	Thinking  string            `json:"thinking"`
	Signature string            `json:"signature"`
	Data      string            `json:"data"`
}

var _ api = anthropic{}

func (anthropic) kind() string { return "text/event-stream; charset=utf-8" }

func (a anthropic) check(r *http.Request, body []byte, m *memo) (asked Asked, err error) {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/messages":
		return asked, &wrong{"", "no such endpoint: " + r.Method + " " + r.URL.Path}
	case r.Header.Get("X-Api-Key") != Key || r.Header.Get("Authorization") != "":
		return asked, &wrong{BadKey, "invalid x-api-key"}
	case r.Header.Get("Anthropic-Version") != "2023-06-01":
		return asked, fmt.Errorf("anthropic-version: header is required")
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return asked, fmt.Errorf("content-type must be application/json")
	}
	var q anthropicRequest
	if err := strict("body", body, &q); err != nil {
		return asked, err
	}
	asked.Model = q.Model
	switch {
	case q.Model == "" || q.MaxTokens < 1 || !q.Stream || len(q.Messages) == 0:
		return asked, fmt.Errorf("model, max_tokens, stream and messages: Field required")
	case q.Thinking != nil && (q.Thinking.Type != "adaptive" || !slices.Contains([]string{"", "summarized", "omitted"}, q.Thinking.Display)):
		return asked, fmt.Errorf("thinking: Input should be 'adaptive'")
	case q.Thinking != nil && strings.Contains(q.Model, "-4-5"):
		return asked, fmt.Errorf("adaptive thinking is not supported on this model")
	}
	if q.ToolChoice != nil && (q.ToolChoice.Type != "none" || len(q.Tools) == 0) {
		return asked, fmt.Errorf("tool_choice: may only be specified while providing tools")
	}
	marks, err := a.tools(q, &asked)
	if err != nil {
		return asked, err
	}
	for i, raw := range q.System {
		b, err := a.block(fmt.Sprintf("system.%d", i), raw, &marks, "text")
		if err != nil {
			return asked, err
		}
		asked.System += b.Text
	}
	if err := a.conversation(q, &asked, &marks, m); err != nil {
		return asked, err
	}
	if marks > 4 {
		return asked, fmt.Errorf("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	return asked, nil
}

var anthropicName = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,128}\z`)

func (anthropic) tools(q anthropicRequest, asked *Asked) (marks int, err error) {
	for i, t := range q.Tools {
		var schema struct {
			Type                string
			OneOf, AnyOf, AllOf json.RawMessage
		}
		switch {
		case !anthropicName.MatchString(t.Name):
			return 0, fmt.Errorf("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		case slices.Contains(asked.Tools, t.Name):
			return 0, fmt.Errorf("tools: Tool names must be unique.")
		case json.Unmarshal(t.InputSchema, &schema) != nil || schema.Type != "object":
			return 0, fmt.Errorf("tools.%d.custom.input_schema.type: Input should be 'object'", i)
		case schema.OneOf != nil || schema.AnyOf != nil || schema.AllOf != nil:
			return 0, fmt.Errorf("tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
		case t.CacheControl != nil:
			marks++
		}
		if err := validSchema(t.InputSchema); err != nil {
			return 0, fmt.Errorf("tools.%d.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12", i)
		}
		asked.Tools = append(asked.Tools, t.Name)
	}
	return marks, nil
}

func validSchema(schema []byte) error {
	c := jsonschema.NewCompiler()
	c.LoadURL = nil
	if err := c.AddResource("tool.json", strings.NewReader(string(schema))); err != nil {
		return err
	}
	_, err := c.Compile("tool.json")
	return err
}

// block reads a block of one of the kinds that may stand there.
func (anthropic) block(where string, raw json.RawMessage, marks *int, kinds ...string) (b anthropicBlock, err error) {
	if err := strict(where, raw, &b); err != nil {
		return b, err
	}
	if b.CacheControl != nil {
		if *marks++; b.CacheControl.Type != "ephemeral" || strings.Contains(b.Type, "thinking") {
			return b, fmt.Errorf("%s.cache_control: Extra inputs are not permitted", where)
		}
	}
	var only map[string]json.RawMessage
	_ = json.Unmarshal(raw, &only)
	allowed := map[string][]string{
		"text": {"text"}, "image": {"source"}, "tool_use": {"id", "name", "input"}, "tool_result": {"tool_use_id", "is_error", "content"},
		"thinking": {"thinking", "signature"}, "redacted_thinking": {"data"},
	}[b.Type]
	for k := range only {
		if k != "type" && k != "cache_control" && !slices.Contains(allowed, k) {
			return b, fmt.Errorf("%s.%s.%s: Extra inputs are not permitted", where, b.Type, k)
		}
	}
	switch {
	case !slices.Contains(kinds, b.Type):
		return b, fmt.Errorf("%s: Input tag '%s' found using 'type' does not match any of the expected tags: %v", where, b.Type, kinds)
	case b.Type == "text" && strings.TrimSpace(b.Text) == "":
		return b, fmt.Errorf("%s: text content blocks must contain non-whitespace text", where)
	case b.Type == "image":
		data, err := []byte(nil), error(nil)
		if b.Source != nil {
			data, err = base64.StdEncoding.DecodeString(b.Source.Data)
		}
		if err != nil || len(data) == 0 || b.Source.Type != "base64" || !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, b.Source.MediaType) {
			return b, fmt.Errorf("%s.image.source: invalid", where)
		}
	case b.Type == "tool_use" && (!anthropicName.MatchString(b.ID) || b.Name == "" || !strings.HasPrefix(string(b.Input), "{")):
		return b, fmt.Errorf("%s.tool_use: id, name and input: Field required", where)
	}
	return b, nil
}

func (a anthropic) conversation(q anthropicRequest, asked *Asked, marks *int, m *memo) error {
	open, ids := []string(nil), map[string]bool{}
	for i, msg := range q.Messages {
		where := fmt.Sprintf("messages.%d", i)
		switch {
		case msg.Role != [2]string{"user", "assistant"}[i%2]:
			return fmt.Errorf("%s: roles must alternate between \"user\" and \"assistant\"", where)
		case len(msg.Content) == 0:
			return fmt.Errorf("%s: all messages must have non-empty content", where)
		case i == len(q.Messages)-1 && msg.Role != "user":
			return fmt.Errorf("This model does not support assistant message prefill. The conversation must end with a user message.")
		}
		var err error
		if len(open) > 0 && len(q.Tools) == 0 {
			return fmt.Errorf("Requests which have `tool_use` or `tool_result` blocks in messages must define tools")
		}
		if msg.Role == "assistant" {
			open, err = a.assistant(where, q, msg.Content, marks, m, ids)
		} else {
			asked.Results = nil
			err = a.user(where, msg.Content, open, marks, asked)
			open = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a anthropic) user(where string, content []json.RawMessage, open []string, marks *int, asked *Asked) error {
	rest := slices.Clone(open)
	for i, raw := range content {
		at := fmt.Sprintf("%s.content.%d", where, i)
		b, err := a.block(at, raw, marks, "text", "image", "tool_result")
		if err != nil {
			return err
		}
		switch b.Type {
		case "text":
			asked.Text = b.Text
		case "image":
			asked.Images++
		case "tool_result":
			n := slices.Index(rest, b.ToolUseID)
			if n < 0 {
				return fmt.Errorf("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, b.ToolUseID)
			}
			rest = slices.Delete(rest, n, n+1)
			text := ""
			for j, raw := range b.Content {
				c, err := a.block(fmt.Sprintf("%s.tool_result.content.%d", at, j), raw, marks, "text", "image")
				if err != nil {
					return err
				}
				text += c.Text
				if c.Type == "image" {
					asked.Images++
				}
			}
			asked.Results = append(asked.Results, text)
		}
		if b.Type != "tool_result" && len(rest) > 0 {
			return fmt.Errorf("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s", where, strings.Join(rest, ", "))
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s", where, strings.Join(rest, ", "))
	}
	return nil
}

func (a anthropic) assistant(where string, q anthropicRequest, content []json.RawMessage, marks *int, m *memo, ids map[string]bool) (open []string, err error) {
	signed := map[string]bool{}
	for i, raw := range content {
		at := fmt.Sprintf("%s.content.%d", where, i)
		b, err := a.block(at, raw, marks, "text", "thinking", "redacted_thinking", "tool_use")
		if err != nil {
			return nil, err
		}
		switch b.Type {
		case "thinking":
			if m.signed(b.Signature) != q.Model+"\n"+b.Thinking {
				return nil, fmt.Errorf("%s: Invalid `signature` in `thinking` block", at)
			}
			signed[b.Signature] = true
		case "redacted_thinking":
			if m.signed(b.Data) != q.Model {
				return nil, fmt.Errorf("%s: Invalid `data` in `redacted_thinking` block", at)
			}
		case "tool_use":
			if ids[b.ID] {
				return nil, fmt.Errorf("%s: `tool_use` ids must be unique", at)
			}
			ids[b.ID] = true
			open = append(open, b.ID)
			if sig := m.ofCall(b.ID); sig != "" && strings.HasPrefix(m.signed(sig), q.Model+"\n") && !signed[sig] {
				return nil, fmt.Errorf("%s: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block", at)
			}
		}
	}
	return open, nil
}

func (anthropic) stream(w *wire, a Answer, asked Asked, m *memo) {
	type obj = map[string]any
	w.event("message_start", obj{"type": "message_start", "message": obj{
		"id": "msg_1", "type": "message", "role": "assistant", "content": []any{}, "model": asked.Model, "stop_reason": nil, "stop_sequence": nil,
		"usage": obj{"input_tokens": a.In - a.Cached, "cache_read_input_tokens": a.Cached, "cache_creation_input_tokens": 0, "output_tokens": 1},
	}})
	w.event("ping", obj{"type": "ping"})
	index := 0
	block := func(start obj, deltas ...obj) {
		w.event("content_block_start", obj{"type": "content_block_start", "index": index, "content_block": start})
		for _, d := range deltas {
			w.event("content_block_delta", obj{"type": "content_block_delta", "index": index, "delta": d})
		}
		w.event("content_block_stop", obj{"type": "content_block_stop", "index": index})
		index++
	}
	deltas := func(kind, key, text string) (list []obj) {
		for _, p := range pieces(text, a.Piece) {
			list = append(list, obj{"type": kind, key: p})
		}
		return list
	}
	if a.Thinking != "" {
		signature := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "signed/%d+%s", asked.N, a.Thinking))
		ids := make([]string, len(a.Calls))
		for i, c := range a.Calls {
			ids[i] = c.ID
		}
		m.sign(signature, asked.Model+"\n"+a.Thinking, ids...)
		block(obj{"type": "thinking", "thinking": "", "signature": ""},
			append(deltas("thinking_delta", "thinking", a.Thinking), obj{"type": "signature_delta", "signature": signature})...)
	}
	if a.Text != "" {
		block(obj{"type": "text", "text": ""}, deltas("text_delta", "text", a.Text)...)
	}
	for _, c := range a.Calls {
		block(obj{"type": "tool_use", "id": c.ID, "name": c.Name, "input": obj{}}, append([]obj{{"type": "input_json_delta", "partial_json": ""}}, deltas("input_json_delta", "partial_json", c.Args)...)...)
	}
	stop := a.Stop
	if stop == "" {
		stop = "end_turn"
		if len(a.Calls) > 0 {
			stop = "tool_use"
		}
	}
	w.event("message_delta", obj{"type": "message_delta", "delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": obj{"output_tokens": a.Out}})
	w.event("message_stop", obj{"type": "message_stop"})
}

func (anthropic) words(f Fail, text string) (status int, body string) {
	kind := ""
	switch f {
	case Overloaded:
		status, kind, text = 529, "overloaded_error", "Overloaded"
	case RateLimited:
		status, kind, text = 429, "rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute"
	case BadKey:
		status, kind, text = 401, "authentication_error", "invalid x-api-key"
	case NoCredit:
		status, kind, text = 400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."
	case NoModel:
		status, kind, text = 404, "not_found_error", "model: claude-nothing"
	case TooLong:
		status, kind, text = 400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
	case Internal:
		status, kind = 500, "api_error"
		if text == "" {
			text = "Internal server error"
		}
	case Filtered:
		status, kind, text = 400, "invalid_request_error", "Output blocked by content filtering policy"
	default:
		status, kind = 400, "invalid_request_error"
	}
	data, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": text}, "request_id": "req_1"})
	return status, string(data)
}

func (a anthropic) fail(w http.ResponseWriter, f Fail, text string) {
	status, body := a.words(f, text)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func (a anthropic) broken(f Fail) string {
	_, body := a.words(f, "")
	return "event: error\ndata: " + body + "\n\n"
}
