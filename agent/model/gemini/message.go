package gemini

import (
	"encoding/json"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
)

// content is the API's Content, with what this package sends. Numbers in arguments and signatures stay as they came.
type content struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Text      string    `json:"text,omitempty"`
	Thought   bool      `json:"thought,omitempty"`
	Image     *blob     `json:"inlineData,omitempty"`
	Call      *call     `json:"functionCall,omitempty"`
	Result    *response `json:"functionResponse,omitempty"`
	Signature string    `json:"thoughtSignature,omitempty"`
}

type blob struct {
	MIME string `json:"mimeType"`
	Data []byte `json:"data"`
}

type call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type response struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"`
	Response said   `json:"response"`
}

type said struct {
	Output *string `json:"output,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// signature is what a part's Opaque holds.
type signature struct {
	Signature string `json:"thoughtSignature"`
}

// unsigned is Google's own word for calls that its model did not make: in a conversation that another model began, there is
// no signature. See https://ai.google.dev/gemini-api/docs/thought-signatures.
const unsigned = "skip_thought_signature_validator"

func anyID(id string) bool { return id != "" }

func (p *Provider) contents(r agent.Request) []content {
	var list []content
	for _, t := range link.Turns(r.Messages, anyID) {
		c := content{Role: "user"}
		if t.Role == agent.Assistant {
			c.Role = "model"
		}
		var images []part // of results, which must be together
		first := true
		for _, from := range t.Parts {
			to, ok := p.part(from, r.Model)
			if !ok {
				continue
			}
			if to.Call != nil {
				if first && to.Signature == "" && signs.MatchString(r.Model) {
					to.Signature = unsigned
				}
				first = false
			}
			if to.Result == nil {
				c.Parts, images = append(c.Parts, images...), nil
			} else {
				for _, i := range from.Result.Images {
					images = append(images, part{Image: &blob{i.MIME, i.Data}})
				}
			}
			c.Parts = append(c.Parts, to)
		}
		c.Parts = append(c.Parts, images...)
		switch last := len(list) - 1; {
		case len(c.Parts) == 0:
		case last >= 0 && list[last].Role == c.Role:
			list[last].Parts = append(list[last].Parts, c.Parts...)
		default:
			list = append(list, c)
		}
	}
	return list
}

func (p *Provider) part(from agent.Part, model string) (to part, ok bool) {
	var mine signature
	if data := p.link.Mine(from, model); data != nil {
		_ = json.Unmarshal(data, &mine)
	}
	to.Signature = mine.Signature
	switch {
	case from.Text != "":
		to.Text = from.Text
		return to, mine.Signature != "" || !link.Blank(from.Text)
	case from.Image != nil:
		to.Image = &blob{from.Image.MIME, from.Image.Data}
	case from.Call != nil:
		to.Call = &call{from.Call.ID, from.Call.Name, from.Call.Args}
	case from.Result != nil:
		to.Result = &response{ID: from.Result.ID, Name: from.Result.Name}
		if from.Result.Failed {
			to.Result.Response.Error = from.Result.Text
		} else {
			to.Result.Response.Output = &from.Result.Text
		}
	case from.Reasoning != "":
		to.Text, to.Thought = from.Reasoning, true
		return to, mine.Signature != ""
	default:
		return to, mine.Signature != ""
	}
	return to, true
}
