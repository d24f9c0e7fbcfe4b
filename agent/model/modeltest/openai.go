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
	"testing"
)

// OpenAI plays the Chat Completions API; its URL ends in /v1. Its Thinking comes as DeepSeek and others send it, as
// reasoning_content, and has to come back with the calls that it led to.
func OpenAI(t testing.TB, script ...Answer) *Server { return start(t, openAI{}, "/v1", script) }

type openAI struct{}

var _ api = openAI{}

type openAIRequest struct {
	Model    string            `json:"model"`
	Messages []json.RawMessage `json:"messages"`
	Stream   bool              `json:"stream"`
	Options  *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxCompletionTokens *int   `json:"max_completion_tokens"`
	MaxTokens           *int   `json:"max_tokens"`
	ReasoningEffort     string `json:"reasoning_effort"`
	Tools               []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type openAIMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	ToolCallID       string  `json:"tool_call_id"`
	ReasoningContent *string `json:"reasoning_content"`
}

func (openAI) kind() string { return "text/event-stream; charset=utf-8" }

var (
	openAIName    = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)
	openAIThinker = regexp.MustCompile(`\Agpt-(5\.[4-9]|6)`)
)

func (a openAI) check(r *http.Request, body []byte, m *memo) (asked Asked, err error) {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions":
		return asked, &wrong{"", fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path)}
	case r.Header.Get("Authorization") != "Bearer "+Key:
		return asked, &wrong{BadKey, "Incorrect API key provided"}
	}
	var q openAIRequest
	if err := strict("body", body, &q); err != nil {
		return asked, fmt.Errorf("Unrecognized request argument supplied: %w", err)
	}
	asked.Model = q.Model
	switch {
	case q.Model == "" || len(q.Messages) == 0 || !q.Stream || q.Options == nil || !q.Options.IncludeUsage:
		return asked, fmt.Errorf("you must provide a model, messages, stream and stream_options parameter")
	case q.MaxTokens != nil:
		return asked, fmt.Errorf("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
	case len(q.Tools) > 128:
		return asked, fmt.Errorf("Invalid 'tools': array too long. Expected an array with maximum length 128")
	case len(q.Tools) > 0 && openAIThinker.MatchString(q.Model) && q.ReasoningEffort != "none":
		return asked, fmt.Errorf("Function tools with reasoning_effort are not supported for %s in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.", q.Model)
	}
	for i, t := range q.Tools {
		var top map[string]json.RawMessage
		switch f := t.Function; {
		case t.Type != "function" || !openAIName.MatchString(f.Name) || slices.Contains(asked.Tools, f.Name):
			return asked, fmt.Errorf("Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", i)
		case len(f.Description) > 1<<20 || json.Unmarshal(f.Parameters, &top) != nil || string(top["type"]) != `"object"` || top["properties"] == nil || validSchema(f.Parameters) != nil:
			return asked, fmt.Errorf("Invalid schema for function '%s': object schema missing properties", f.Name)
		case top["oneOf"] != nil || top["anyOf"] != nil || top["allOf"] != nil || top["not"] != nil || top["enum"] != nil:
			return asked, fmt.Errorf("Invalid schema for function '%s': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.", f.Name)
		}
		asked.Tools = append(asked.Tools, t.Function.Name)
	}
	return asked, a.conversation(q, &asked, m)
}

func (a openAI) conversation(q openAIRequest, asked *Asked, m *memo) error {
	var open []string
	last := ""
	for i, raw := range q.Messages {
		var msg openAIMessage
		where := fmt.Sprintf("messages[%d]", i)
		if err := strict(where, raw, &msg); err != nil {
			return err
		}
		if msg.Role != "tool" && len(open) > 0 {
			return fmt.Errorf("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
		}
		if msg.Role == last && last != "tool" {
			return fmt.Errorf("%s: Conversation roles must alternate user/assistant/user/assistant/...", where)
		}
		text, images, err := a.content(where, msg.Content)
		if err != nil {
			return err
		}
		asked.Images += images
		switch msg.Role {
		case "system":
			if i != 0 || text == "" {
				return fmt.Errorf("%s: the system message must be at the beginning", where)
			}
			asked.System = text
		case "user":
			asked.Text = text
			if last != "tool" {
				asked.Results = nil
			}
		case "tool":
			if last != "tool" {
				asked.Results = nil
			}
			n := slices.Index(open, msg.ToolCallID)
			if n < 0 || msg.Content == nil {
				return fmt.Errorf("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
			}
			open = slices.Delete(open, n, n+1)
			asked.Results = append(asked.Results, text)
		case "assistant":
			if open, err = a.assistant(where, msg, text, m); err != nil {
				return err
			}
		default:
			return fmt.Errorf("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user' and 'tool'.", msg.Role)
		}
		last = msg.Role
	}
	if len(open) > 0 || last == "assistant" || last == "system" {
		return fmt.Errorf("the conversation must end with a message of the user or of tools; open: %v", open)
	}
	return nil
}

func (openAI) assistant(where string, msg openAIMessage, text string, m *memo) (open []string, err error) {
	if text == "" && len(msg.ToolCalls) == 0 {
		return nil, fmt.Errorf("Invalid value for '%s.content': expected a string, got null.", where)
	}
	for j, c := range msg.ToolCalls {
		switch {
		case c.Type != "function" || c.ID == "" || len(c.ID) > 40 || slices.Contains(open, c.ID) || !openAIName.MatchString(c.Function.Name):
			return nil, fmt.Errorf("Invalid '%s.tool_calls[%d]'", where, j)
		case c.Function.Arguments == nil || !strings.HasPrefix(*c.Function.Arguments, "{") || !json.Valid([]byte(*c.Function.Arguments)):
			return nil, fmt.Errorf("Invalid '%s.tool_calls[%d].function.arguments': not JSON", where, j)
		}
		if sig := m.ofCall(c.ID); sig != "" && (msg.ReasoningContent == nil || *msg.ReasoningContent != m.signed(sig)) {
			return nil, fmt.Errorf("The `reasoning_content` in the thinking mode must be passed back to the API.")
		}
		open = append(open, c.ID)
	}
	return open, nil
}

// content is a text, or parts.
func (openAI) content(where string, raw json.RawMessage) (text string, images int, err error) {
	var parts []struct {
		Type  string  `json:"type"`
		Text  *string `json:"text"`
		Image *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if raw == nil || string(raw) == "null" || json.Unmarshal(raw, &text) == nil {
		return text, 0, nil
	}
	if err := strict(where+".content", raw, &parts); err != nil {
		return "", 0, err
	}
	for _, p := range parts {
		switch {
		case p.Type == "text" && p.Text != nil && *p.Text != "":
			text = *p.Text
		case p.Type == "image_url" && p.Image != nil:
			kind, data, _ := strings.Cut(p.Image.URL, ";base64,")
			if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" || !strings.HasPrefix(kind, "data:image/") {
				return "", 0, fmt.Errorf("%s: Invalid image_url", where)
			}
			images++
		default:
			return "", 0, fmt.Errorf("%s: Invalid content part", where)
		}
	}
	return text, images, nil
}

func (openAI) stream(w *wire, a Answer, asked Asked, m *memo) {
	type obj = map[string]any
	chunk := func(delta obj, finish any) {
		w.event("", obj{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked.Model, "usage": nil,
			"choices": []obj{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}})
	}
	chunk(obj{"role": "assistant", "content": ""}, nil)
	for _, p := range pieces(a.Thinking, a.Piece) {
		chunk(obj{"reasoning_content": p, "content": nil}, nil)
	}
	for _, p := range pieces(a.Text, a.Piece) {
		chunk(obj{"content": p}, nil)
	}
	var ids []string
	for i, c := range a.Calls {
		chunk(obj{"tool_calls": []obj{{"index": i, "id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": ""}}}}, nil)
		ids = append(ids, c.ID)
	}
	// The arguments of parallel calls come interleaved.
	rest := make([][]string, len(a.Calls))
	for i, c := range a.Calls {
		rest[i] = pieces(c.Args, a.Piece)
	}
	for more := true; more; {
		more = false
		for i := range rest {
			if len(rest[i]) > 0 {
				chunk(obj{"tool_calls": []obj{{"index": i, "function": obj{"arguments": rest[i][0]}}}}, nil)
				rest[i], more = rest[i][1:], true
			}
		}
	}
	if a.Thinking != "" {
		m.sign(fmt.Sprintf("thought-%d", asked.N), a.Thinking, ids...)
	}
	stop := a.Stop
	if stop == "" {
		stop = "stop"
		if len(a.Calls) > 0 {
			stop = "tool_calls"
		}
	}
	chunk(obj{}, stop)
	w.event("", obj{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked.Model, "choices": []obj{},
		"usage": obj{"prompt_tokens": a.In, "completion_tokens": a.Out, "total_tokens": a.In + a.Out, "prompt_tokens_details": obj{"cached_tokens": a.Cached}}})
	w.raw("data: [DONE]\n\n")
}

func (openAI) words(f Fail, text string) (status int, body string) {
	var kind string
	var code any
	status, kind = 400, "invalid_request_error"
	switch f {
	case Overloaded:
		status, kind, text = 503, "server_error", "The server is currently overloaded with other requests. Sorry about that!"
	case RateLimited:
		status, kind, code, text = 429, "requests", "rate_limit_exceeded", "Rate limit reached for gpt-6.1-terra in organization org-x on requests per min (RPM): Limit 3, Used 3"
	case BadKey:
		status, code, text = 401, "invalid_api_key", "Incorrect API key provided: "+Key+". You can find your API key at https://platform.openai.com/account/api-keys."
	case NoCredit:
		status, kind, code, text = 429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."
	case NoModel:
		status, code, text = 404, "model_not_found", "The model `gpt-nothing` does not exist or you do not have access to it."
	case TooLong:
		code, text = "context_length_exceeded", "Your input exceeds the context window of this model. Please adjust your input and try again."
	case Internal:
		status, kind = 500, "server_error"
	case Filtered:
		code, text = "content_policy_violation", "Your request was rejected as a result of our safety system."
	}
	data, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text, "type": kind, "param": nil, "code": code}})
	return status, string(data)
}

func (a openAI) fail(w http.ResponseWriter, f Fail, text string) {
	status, body := a.words(f, text)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintln(w, body)
}

func (a openAI) broken(f Fail) string {
	_, body := a.words(f, "")
	return "data: " + body + "\n\n"
}
