package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
)

// shortID takes what servers call their calls as it is, because some models read meaning into it; OpenAI takes 40 characters.
func shortID(id string) bool { return id != "" && len(id) <= 40 }

func (p *Provider) messages(r agent.Request) []sdk.ChatCompletionMessageParamUnion {
	var messages []sdk.ChatCompletionMessageParamUnion
	if !link.Blank(r.System) {
		messages = append(messages, sdk.SystemMessage(r.System))
	}
	var user []agent.Part // that was not sent yet: chat templates want the sides to alternate
	flush := func() {
		if m, ok := fromUser(user); ok {
			messages = append(messages, m)
		}
		user = nil
	}
	for _, t := range link.Turns(r.Messages, shortID) {
		if t.Role == agent.Assistant {
			if m, ok := p.fromAssistant(t.Parts, r.Model); ok {
				flush()
				messages = append(messages, m)
			}
			continue
		}
		for _, part := range t.Parts {
			if part.Result == nil {
				user = append(user, part)
				continue
			}
			messages = append(messages, sdk.ToolMessage(resultText(*part.Result), part.Result.ID))
			// A result is text alone; its images come as the user's, after all results.
			for i, image := range part.Result.Images {
				if i == 0 {
					user = append(user, agent.Part{Text: "What " + part.Result.Name + " gave as images:"})
				}
				user = append(user, agent.Part{Image: &image})
			}
		}
	}
	flush()
	return messages
}

func resultText(r agent.Result) string {
	switch {
	case link.Blank(r.Text) && len(r.Images) > 0:
		return "(images, below)"
	case link.Blank(r.Text):
		return "(nothing)"
	case r.Failed:
		return "failed: " + r.Text
	}
	return r.Text
}

// fromUser is text alone where that is possible, because not every server takes parts.
func fromUser(parts []agent.Part) (m sdk.ChatCompletionMessageParamUnion, ok bool) {
	var texts []string
	var pieces []sdk.ChatCompletionContentPartUnionParam
	images := false
	for _, p := range parts {
		switch {
		case p.Image != nil:
			images = true
			pieces = append(pieces, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: dataURL(*p.Image)}))
		case !link.Blank(p.Text):
			texts = append(texts, p.Text)
			pieces = append(pieces, sdk.TextContentPart(p.Text))
		}
	}
	switch {
	case images:
		return sdk.UserMessage(pieces), true
	case len(texts) > 0:
		return sdk.UserMessage(strings.Join(texts, "\n\n")), true
	}
	return m, false
}

func (p *Provider) fromAssistant(parts []agent.Part, model string) (sdk.ChatCompletionMessageParamUnion, bool) {
	var m sdk.ChatCompletionAssistantMessageParam
	var texts []string
	for _, part := range parts {
		switch {
		case part.Call != nil:
			m.ToolCalls = append(m.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       part.Call.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: part.Call.Name, Arguments: string(part.Call.Args)},
			}})
		case !link.Blank(part.Text):
			texts = append(texts, part.Text)
		}
		if mine := p.link.Mine(part, model); mine != nil {
			var fields map[string]json.RawMessage
			if json.Unmarshal(mine, &fields) == nil {
				m.SetExtraFields(anyOf(fields))
			}
		}
	}
	if len(texts) > 0 {
		m.Content.OfString = sdk.String(strings.Join(texts, "\n\n"))
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &m}, len(texts)+len(m.ToolCalls) > 0
}

// anyOf keeps to the fields in which servers give their reasoning.
func anyOf(fields map[string]json.RawMessage) map[string]any {
	kept := map[string]any{}
	for _, k := range []string{"reasoning_content", "reasoning", "reasoning_details"} {
		if v, ok := fields[k]; ok {
			kept[k] = v
		}
	}
	return kept
}
