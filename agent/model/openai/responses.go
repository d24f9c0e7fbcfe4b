package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
)

// thinkers are OpenAI's models that reason, and give what they thought encrypted, to be sent back.
var thinkers = regexp.MustCompile(`\A(gpt-([5-9]|\d\d)|o\d)`)

func (p *Provider) responses(r agent.Request) responses.ResponseNewParams {
	params := responses.ResponseNewParams{Model: r.Model, Store: sdk.Bool(false)}
	params.Input.OfInputItemList = p.items(r)
	if !link.Blank(r.System) {
		params.Instructions = sdk.String(r.System)
	}
	if r.MaxTokens > 0 {
		params.MaxOutputTokens = sdk.Int(int64(max(r.MaxTokens, 16))) // fewer are refused
	}
	if thinkers.MatchString(r.Model) && !strings.Contains(r.Model, "chat") {
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	for _, t := range r.Tools {
		schema, words := link.Schema(t.Input)
		f := responses.FunctionToolParam{Name: t.Name, Parameters: schema, Strict: sdk.Bool(false)}
		if d := strings.TrimSpace(t.Description + "\n" + words); d != "" {
			f.Description = sdk.String(d)
		}
		params.Tools = append(params.Tools, responses.ToolUnionParam{OfFunction: &f})
	}
	return params
}

// items are the conversation as the API's items.
func (p *Provider) items(r agent.Request) (items responses.ResponseInputParam) {
	for _, t := range link.Turns(r.Messages, shortID) {
		if t.Role == agent.Assistant {
			items = append(items, p.answered(t.Parts, r.Model)...)
			continue
		}
		var said responses.ResponseInputMessageContentListParam
		for _, part := range t.Parts {
			switch {
			case part.Result != nil:
				items = append(items, output(*part.Result))
			case part.Image != nil:
				url := dataURL(*part.Image)
				said = append(said, responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{ImageURL: sdk.String(url), Detail: "auto"}})
			case !link.Blank(part.Text):
				said = append(said, responses.ResponseInputContentParamOfInputText(part.Text))
			}
		}
		if len(said) > 0 {
			items = append(items, responses.ResponseInputItemParamOfMessage(said, responses.EasyInputMessageRoleUser))
		}
	}
	return items
}

func dataURL(i agent.Image) string {
	return "data:" + i.MIME + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

func output(r agent.Result) responses.ResponseInputItemUnionParam {
	var list responses.ResponseFunctionCallOutputItemListParam
	if !link.Blank(r.Text) {
		list = append(list, responses.ResponseFunctionCallOutputItemParamOfInputText(resultText(r)))
	}
	for _, i := range r.Images {
		list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: sdk.String(dataURL(i))}})
	}
	out := responses.ResponseInputItemParamOfFunctionCallOutput(list)
	if len(r.Images) == 0 {
		out = responses.ResponseInputItemParamOfFunctionCallOutput(resultText(r))
	}
	out.OfFunctionCallOutput.CallID = sdk.String(r.ID)
	return out
}

// answered are an answer's items. Reasoning that nothing followed is left out: it would be refused.
func (p *Provider) answered(parts []agent.Part, model string) (items responses.ResponseInputParam) {
	var thought responses.ResponseInputParam
	for _, part := range parts {
		mine := p.link.Mine(part, model)
		switch {
		case part.Call != nil:
			items, thought = append(items, thought...), nil
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(string(part.Call.Args), part.Call.ID, part.Call.Name))
		case !link.Blank(part.Text):
			items, thought = append(items, thought...), nil
			m := responses.ResponseInputItemParamOfMessage(part.Text, responses.EasyInputMessageRoleAssistant)
			var phase struct{ Phase string }
			if mine != nil && json.Unmarshal(mine, &phase) == nil {
				m.OfMessage.Phase = responses.EasyInputMessagePhase(phase.Phase)
			}
			items = append(items, m)
		case mine != nil:
			thought = append(thought, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(mine)))
		}
	}
	return items
}

func (p *Provider) respond(ctx context.Context, params responses.ResponseNewParams, t *link.Try, a *link.Answer) (link.End, error) {
	service := responses.NewResponseService(p.options(t)...)
	stream := service.NewStreaming(ctx, params)
	defer stream.Close()
	s := response{link: p.link, model: params.Model, answer: a, items: map[int64]*item{}}
	for stream.Next() {
		over, err := s.take(stream.Current())
		if err != nil || over {
			return s.end, err
		}
	}
	var said *ssestream.StreamError
	switch err := stream.Err(); {
	case errors.As(err, &said):
		return s.end, &link.Refusal{Body: said.Event.Data}
	case err != nil:
		return s.end, link.ErrGarbled
	}
	return s.end, link.ErrCut
}

// response is how far an answer is.
type response struct {
	link   *link.Link
	model  string
	answer *link.Answer
	end    link.End
	items  map[int64]*item // by their place
	given  int64           // of items, as parts
	calls  bool
	no     bool // a refusal came
}

type item struct {
	text  strings.Builder
	args  link.Args // only counted: the whole comes at the end
	whole *responses.ResponseOutputItemUnion
}

func (s *response) take(e responses.ResponseStreamEventUnion) (over bool, err error) {
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		s.no = s.no || e.Type == "response.refusal.delta"
		i := s.items[e.OutputIndex]
		if i == nil {
			return false, link.ErrGarbled
		}
		i.text.WriteString(e.Delta)
		return false, s.answer.Text(e.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return false, s.answer.Reasoning(e.Delta)
	case "response.output_item.added":
		if e.OutputIndex < 0 || e.OutputIndex > 4*link.MaxCalls {
			return false, link.ErrGarbled
		}
		s.items[e.OutputIndex] = &item{}
		if e.Item.Type == "function_call" {
			s.calls = true
			return false, s.answer.Call(e.Item.CallID, e.Item.Name)
		}
	case "response.function_call_arguments.delta":
		if i := s.items[e.OutputIndex]; i != nil {
			return false, i.args.Add(e.Delta)
		}
		return false, link.ErrGarbled
	case "response.output_item.done":
		i := s.items[e.OutputIndex]
		if i == nil {
			return false, link.ErrGarbled
		}
		whole := e.Item
		i.whole = &whole
		return false, s.give()
	case "response.completed", "response.incomplete":
		return true, s.finish(e.Response)
	case "response.failed":
		return false, &link.Refusal{Body: failed(string(e.Response.Error.Code), e.Response.Error.Message)}
	case "error":
		return false, &link.Refusal{Body: failed(e.Code, e.Message)}
	}
	return false, nil
}

func failed(code, message string) []byte {
	body, err := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message, "type": code}})
	if err != nil {
		return nil
	}
	return body
}

// give gives the parts of the items that are whole and whose turn it is.
func (s *response) give() error {
	for ; s.items[s.given] != nil && s.items[s.given].whole != nil; s.given++ {
		w := s.items[s.given].whole
		switch w.Type {
		case "function_call":
			var args link.Args
			if err := args.Add(w.Arguments.OfString); err != nil {
				return err
			}
			if w.Name == "" || w.CallID == "" {
				return link.ErrGarbled
			}
			if err := s.answer.Part(agent.Part{Call: args.Call(w.CallID, w.Name)}); err != nil {
				return err
			}
		case "message", "reasoning":
			p := s.part(w)
			if p.Text == "" && p.Reasoning == "" && p.Opaque == nil {
				continue
			}
			if err := s.answer.Part(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *response) part(w *responses.ResponseOutputItemUnion) (p agent.Part) {
	opaque := map[string]any{}
	if w.Type == "message" {
		for _, c := range w.Content {
			p.Text += c.Text + c.Refusal
		}
		if w.Phase != "" {
			opaque["phase"] = w.Phase
		}
	} else {
		var summary []map[string]string
		for _, t := range w.Summary {
			p.Reasoning += t.Text
			summary = append(summary, map[string]string{"type": "summary_text", "text": t.Text})
		}
		if w.EncryptedContent != "" {
			opaque = map[string]any{"type": "reasoning", "id": w.ID, "encrypted_content": w.EncryptedContent, "summary": append([]map[string]string{}, summary...)}
		}
	}
	if data, err := json.Marshal(opaque); err == nil && len(opaque) > 0 {
		p.Opaque = &agent.Opaque{Model: s.link.Model(s.model), Data: data}
	}
	return p
}

func (s *response) finish(r responses.Response) error {
	s.end.Tokens.In, s.end.Tokens.Out = int(r.Usage.InputTokens), int(r.Usage.OutputTokens)
	s.end.Tokens.Cached = int(r.Usage.InputTokensDetails.CachedTokens)
	switch {
	case r.IncompleteDetails.Reason == "content_filter", s.no:
		s.end.Stop = agent.StopRefused
	case r.IncompleteDetails.Reason != "":
		s.end.Stop = agent.StopLength
	case s.calls:
		s.end.Stop = agent.StopCalls
	default:
		s.end.Stop = agent.StopDone
	}
	// What was begun and not ended keeps its text; a call of which a part is missing is none.
	for _, i := range s.items {
		if i.whole == nil {
			i.whole = &responses.ResponseOutputItemUnion{Type: "message", Content: []responses.ResponseOutputMessageContentUnion{{Text: i.text.String()}}}
		}
	}
	return s.give()
}
