//lint:file-ignore ST1005 the words are the provider's own

package modeltest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Responses plays OpenAI's Responses API for conversations that it does not store; its URL ends in /v1. Its Thinking comes as a
// summary beside encrypted reasoning, which has to come back before the calls that it led to.
func Responses(t testing.TB, script ...Answer) *Server { return start(t, response{}, "/v1", script) }

type response struct{ openAI }

var _ api = response{}

type responseRequest struct {
	Model           string            `json:"model"`
	Input           []json.RawMessage `json:"input"`
	Instructions    string            `json:"instructions"`
	Store           *bool             `json:"store"`
	Stream          bool              `json:"stream"`
	Include         []string          `json:"include"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Tools           []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"tools"`
}

type responseItem struct {
	Type      string              `json:"type"`
	Role      string              `json:"role"`
	Content   json.RawMessage     `json:"content"`
	Phase     string              `json:"phase"`
	ID        string              `json:"id"`
	CallID    string              `json:"call_id"`
	Name      string              `json:"name"`
	Arguments *string             `json:"arguments"`
	Output    json.RawMessage     `json:"output"`
	Encrypted string              `json:"encrypted_content"`
	Summary   []map[string]string `json:"summary"`
}

func (a response) check(r *http.Request, body []byte, m *memo) (asked Asked, err error) {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/responses":
		return asked, &wrong{"", fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path)}
	case r.Header.Get("Authorization") != "Bearer "+Key:
		return asked, &wrong{BadKey, "Incorrect API key provided"}
	}
	var q responseRequest
	if err := strict("body", body, &q); err != nil {
		return asked, fmt.Errorf("Unknown parameter: %w", err)
	}
	asked.Model, asked.System = q.Model, q.Instructions
	encrypted := slices.Contains(q.Include, "reasoning.encrypted_content")
	switch {
	case q.Model == "" || len(q.Input) == 0 || !q.Stream || q.Store == nil || *q.Store:
		return asked, fmt.Errorf("Missing required parameter: model, input, stream or store")
	case encrypted && strings.HasPrefix(q.Model, "gpt-4"):
		return asked, fmt.Errorf("Encrypted content is not supported with this model.")
	case q.MaxOutputTokens != nil && *q.MaxOutputTokens < 16:
		return asked, fmt.Errorf("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16")
	}
	for i, t := range q.Tools {
		var top map[string]json.RawMessage
		if t.Type != "function" || !openAIName.MatchString(t.Name) || slices.Contains(asked.Tools, t.Name) || t.Strict == nil || *t.Strict {
			return asked, fmt.Errorf("Invalid 'tools[%d].name': string does not match pattern '^[a-zA-Z0-9_-]+$'.", i)
		}
		if json.Unmarshal(t.Parameters, &top) != nil || string(top["type"]) != `"object"` || top["oneOf"] != nil || top["anyOf"] != nil || top["allOf"] != nil || validSchema(t.Parameters) != nil {
			return asked, fmt.Errorf("Invalid schema for function '%s'", t.Name)
		}
		asked.Tools = append(asked.Tools, t.Name)
	}
	return asked, a.items(q, &asked, m)
}

func (a response) items(q responseRequest, asked *Asked, m *memo) error {
	var open []string
	var thought string // encrypted reasoning that something has to follow
	last := ""
	for i, raw := range q.Input {
		var it responseItem
		where := fmt.Sprintf("input[%d]", i)
		if err := strict(where, raw, &it); err != nil {
			return err
		}
		kind := it.Type + it.Role
		if it.Role == "user" && (thought != "" || len(open) > 0) || it.Type == "function_call_output" && thought != "" {
			return fmt.Errorf("%s: Item of type 'reasoning' was provided without its required following item, or no tool output found for function call %s.", where, strings.Join(open, ", "))
		}
		switch kind {
		case "user", "messageuser":
			text, err := a.parts(where, it.Content, asked)
			if err != nil {
				return err
			}
			if last == "user" {
				return fmt.Errorf("%s: two messages of the user after each other", where)
			}
			asked.Text = text
		case "assistant", "messageassistant":
			var text string
			if json.Unmarshal(it.Content, &text) != nil || text == "" {
				return fmt.Errorf("Invalid type for '%s.content'", where)
			}
			if sig := m.ofCall("text " + text); sig != "" && thought != sig {
				return fmt.Errorf("Item 'msg' of type 'message' was provided without its required 'reasoning' item")
			}
			thought = ""
		case "reasoning":
			if m.signed(it.Encrypted) != q.Model+"\n"+it.ID+"\n"+fmt.Sprint(it.Summary) {
				return fmt.Errorf("The encrypted content for item %s could not be verified.", it.ID)
			}
			thought = it.Encrypted
		case "function_call":
			if it.Arguments == nil || !strings.HasPrefix(*it.Arguments, "{") || !json.Valid([]byte(*it.Arguments)) || it.CallID == "" || slices.Contains(open, it.CallID) || !openAIName.MatchString(it.Name) {
				return fmt.Errorf("Invalid '%s'", where)
			}
			if sig := m.ofCall(it.CallID); sig != "" && last != "function_call" && thought != sig {
				return fmt.Errorf("Item 'fc' of type 'function_call' was provided without its required 'reasoning' item")
			}
			thought = ""
			open = append(open, it.CallID)
		case "function_call_output":
			if last != "function_call" && last != "function_call_output" {
				return fmt.Errorf("%s: the output does not follow its call", where)
			}
			if last == "function_call" {
				asked.Results = nil
			}
			n := slices.Index(open, it.CallID)
			if n < 0 {
				return fmt.Errorf("No tool call found for function call output with call_id %s.", it.CallID)
			}
			open = slices.Delete(open, n, n+1)
			text, err := a.parts(where, it.Output, asked)
			if err != nil {
				return err
			}
			asked.Results = append(asked.Results, text)
		default:
			return fmt.Errorf("Invalid value: '%s' of %s.type", kind, where)
		}
		last = strings.TrimPrefix(kind, "message")
	}
	if len(open) > 0 || thought != "" || last != "user" && last != "function_call_output" {
		return fmt.Errorf("No tool output found for function call %s.", strings.Join(open, ", "))
	}
	return nil
}

// parts are a text, or a list of texts and images.
func (response) parts(where string, raw json.RawMessage, asked *Asked) (text string, err error) {
	if json.Unmarshal(raw, &text) == nil && text != "" {
		return text, nil
	}
	var parts []struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		URL    string `json:"image_url"`
		Detail string `json:"detail"`
	}
	if err := strict(where, raw, &parts); err != nil || len(parts) == 0 {
		return "", fmt.Errorf("Invalid '%s': %w", where, err)
	}
	for _, p := range parts {
		kind, data, _ := strings.Cut(p.URL, ";base64,")
		_, err := base64.StdEncoding.DecodeString(data)
		switch {
		case p.Type == "input_text" && p.Text != "":
			text = p.Text
		case p.Type == "input_image" && err == nil && data != "" && strings.HasPrefix(kind, "data:image/"):
			asked.Images++
		default:
			return "", fmt.Errorf("Invalid part in '%s'", where)
		}
	}
	return text, nil
}

func (response) stream(w *wire, a Answer, asked Asked, m *memo) {
	type obj = map[string]any
	seq := 0
	event := func(kind string, data obj) {
		data["type"], data["sequence_number"] = kind, seq
		seq++
		w.event(kind, data)
	}
	event("response.created", obj{"response": obj{"id": "resp_1", "object": "response", "status": "in_progress", "model": asked.Model, "output": []any{}, "error": nil}})
	n := 0
	add := func(item obj, delta func(index int), done obj) {
		event("response.output_item.added", obj{"output_index": n, "item": item})
		delta(n)
		event("response.output_item.done", obj{"output_index": n, "item": done})
		n++
	}
	if a.Thinking != "" {
		id := fmt.Sprintf("rs_%d", asked.N)
		secret := base64.StdEncoding.EncodeToString([]byte("secret " + id))
		summary := []map[string]string{{"type": "summary_text", "text": a.Thinking}}
		var calls []string
		for _, c := range a.Calls {
			calls = append(calls, c.ID)
		}
		if a.Text != "" {
			calls = []string{"text " + a.Text} // that follows it
		}
		m.sign(secret, asked.Model+"\n"+id+"\n"+fmt.Sprint(summary), calls...)
		add(obj{"type": "reasoning", "id": id, "summary": []any{}}, func(index int) {
			for _, p := range pieces(a.Thinking, a.Piece) {
				event("response.reasoning_summary_text.delta", obj{"item_id": id, "output_index": index, "summary_index": 0, "delta": p})
			}
		}, obj{"type": "reasoning", "id": id, "summary": summary, "encrypted_content": secret})
	}
	if a.Text != "" {
		item := obj{"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []any{}}
		add(item, func(index int) {
			for _, p := range pieces(a.Text, a.Piece) {
				event("response.output_text.delta", obj{"item_id": "msg_1", "output_index": index, "content_index": 0, "delta": p, "logprobs": []any{}})
			}
		}, obj{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []obj{{"type": "output_text", "text": a.Text, "annotations": []any{}}}})
	}
	for _, c := range a.Calls {
		add(obj{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Name, "arguments": "", "status": "in_progress"}, func(index int) {
			for _, p := range pieces(c.Args, a.Piece) {
				event("response.function_call_arguments.delta", obj{"item_id": "fc_" + c.ID, "output_index": index, "delta": p})
			}
		}, obj{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Name, "arguments": c.Args, "status": "completed"})
	}
	done := obj{"id": "resp_1", "object": "response", "status": "completed", "model": asked.Model, "output": []any{}, "error": nil,
		"usage": obj{"input_tokens": a.In, "input_tokens_details": obj{"cached_tokens": a.Cached}, "output_tokens": a.Out, "output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": a.In + a.Out}}
	kind := "response.completed"
	if a.Stop != "" {
		kind, done["status"], done["incomplete_details"] = "response.incomplete", "incomplete", obj{"reason": a.Stop}
	}
	event(kind, obj{"response": done})
}

func (a response) broken(f Fail) string {
	_, body := a.words(f, "")
	var e struct {
		Error struct{ Code, Message, Type string }
	}
	_ = json.Unmarshal([]byte(body), &e)
	if e.Error.Code == "" {
		e.Error.Code = e.Error.Type
	}
	data, _ := json.Marshal(map[string]any{"type": "response.failed", "response": map[string]any{"status": "failed", "error": map[string]string{"code": e.Error.Code, "message": e.Error.Message}}})
	return "event: response.failed\ndata: " + string(data) + "\n\n"
}
