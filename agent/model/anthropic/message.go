package anthropic

import (
	"encoding/base64"
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
)

// messages are the conversation's, with the cache's marks at the last two of the user: the last is written, and the one
// before was written by the step before.
func (p *Provider) messages(r agent.Request) []sdk.MessageParam {
	var messages []sdk.MessageParam
	for _, t := range link.Turns(r.Messages, link.PlainID) {
		var blocks []sdk.ContentBlockParamUnion
		for _, part := range t.Parts {
			if b, ok := p.block(part, r.Model); ok {
				blocks = append(blocks, b)
			}
		}
		role := sdk.MessageParamRole(t.Role)
		switch last := len(messages) - 1; {
		case len(blocks) == 0:
		case last >= 0 && messages[last].Role == role: // what stood between them had nothing to send
			messages[last].Content = append(messages[last].Content, blocks...)
		default:
			messages = append(messages, sdk.MessageParam{Role: role, Content: blocks})
		}
	}
	marks := 2
	for i := len(messages) - 1; i >= 0 && marks > 0; i-- {
		if messages[i].Role == sdk.MessageParamRoleUser {
			mark(&messages[i].Content[len(messages[i].Content)-1])
			marks--
		}
	}
	return messages
}

func mark(b *sdk.ContentBlockParamUnion) {
	if c := b.GetCacheControl(); c != nil {
		*c = sdk.NewCacheControlEphemeralParam()
	}
}

func (p *Provider) block(part agent.Part, model string) (sdk.ContentBlockParamUnion, bool) {
	if mine := p.link.Mine(part, model); mine != nil {
		return param.Override[sdk.ContentBlockParamUnion](json.RawMessage(mine)), true
	}
	switch {
	case part.Text != "":
		return sdk.NewTextBlock(part.Text), !link.Blank(part.Text)
	case part.Image != nil:
		return image(*part.Image), true
	case part.Call != nil:
		return sdk.NewToolUseBlock(part.Call.ID, part.Call.Args, part.Call.Name), true
	case part.Result != nil:
		return result(*part.Result), true
	}
	return sdk.ContentBlockParamUnion{}, false
}

func image(i agent.Image) sdk.ContentBlockParamUnion {
	return sdk.NewImageBlockBase64(i.MIME, base64.StdEncoding.EncodeToString(i.Data))
}

func result(r agent.Result) sdk.ContentBlockParamUnion {
	b := &sdk.ToolResultBlockParam{ToolUseID: r.ID}
	if r.Failed {
		b.IsError = sdk.Bool(true)
	}
	if !link.Blank(r.Text) {
		b.Content = append(b.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: r.Text}})
	}
	for _, i := range r.Images {
		b.Content = append(b.Content, sdk.ToolResultBlockParamContentUnion{OfImage: image(i).OfImage})
	}
	if len(b.Content) == 0 {
		b.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: "(nothing)"}}}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: b}
}
