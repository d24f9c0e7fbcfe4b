package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
)

// state is how far an answer is.
type state struct {
	link   *link.Link
	model  string
	answer *link.Answer
	end    link.End
	done   bool // [DONE] came

	text      strings.Builder
	reasoning strings.Builder
	field     string // in which the reasoning came
	details   []map[string]any
	calls     []*call
	refused   bool
}

type call struct {
	index    int64
	id, name string
	own      bool // the id is the server's
	shown    bool
	args     link.Args
}

func (s *state) take(c sdk.ChatCompletionChunk) error {
	if u := c.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		s.end.Tokens.In, s.end.Tokens.Out = int(u.PromptTokens), int(u.CompletionTokens)
		s.end.Tokens.Cached = int(u.PromptTokensDetails.CachedTokens)
		if hit, ok := u.JSON.ExtraFields["prompt_cache_hit_tokens"]; ok && s.end.Tokens.Cached == 0 {
			_ = json.Unmarshal([]byte(hit.Raw()), &s.end.Tokens.Cached)
		}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := s.delta(choice.Delta); err != nil {
			return err
		}
		if choice.FinishReason != "" {
			s.stop(choice.FinishReason)
		}
	}
	return nil
}

func (s *state) delta(d sdk.ChatCompletionChunkChoiceDelta) error {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		var more string
		if f, ok := d.JSON.ExtraFields[field]; ok && (s.field == "" || s.field == field) && json.Unmarshal([]byte(f.Raw()), &more) == nil && more != "" {
			s.field = field
			s.reasoning.WriteString(more)
			if err := s.answer.Reasoning(more); err != nil {
				return err
			}
		}
	}
	if f, ok := d.JSON.ExtraFields["reasoning_details"]; ok {
		if err := s.detail(f.Raw()); err != nil {
			return err
		}
	}
	if d.Refusal != "" {
		s.refused = true
	}
	text := d.Content + d.Refusal
	s.text.WriteString(text)
	if err := s.answer.Text(text); err != nil {
		return err
	}
	for _, t := range d.ToolCalls {
		if err := s.call(t); err != nil {
			return err
		}
	}
	return nil
}

// detail gathers OpenRouter's form of reasoning, whose pieces are told apart by kind and index.
func (s *state) detail(raw string) error {
	var pieces []map[string]any
	if json.Unmarshal([]byte(raw), &pieces) != nil {
		return nil
	}
	for _, p := range pieces {
		last := len(s.details) - 1
		if last < 0 || s.details[last]["type"] != p["type"] || s.details[last]["index"] != p["index"] || p["type"] == "reasoning.encrypted" {
			if last >= 4*link.MaxCalls {
				return link.ErrGarbled
			}
			s.details = append(s.details, p)
			continue
		}
		for k, v := range p {
			more, isText := v.(string)
			before, _ := s.details[last][k].(string)
			if isText && (k == "text" || k == "summary") {
				v = before + more
			}
			if v != nil {
				s.details[last][k] = v
			}
		}
	}
	return nil
}

func (s *state) call(t sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	c := s.find(t)
	if t.ID != "" && c.id == "" {
		c.id, c.own = t.ID, true
	}
	if name := t.Function.Name; name != "" && name != c.name && c.args.Len() == 0 && len(c.name)+len(name) <= 256 {
		c.name += name
	}
	args := t.Function.Arguments
	if raw := t.Function.JSON.Arguments.Raw(); strings.HasPrefix(raw, "{") { // some servers send the object itself
		args = raw
	}
	if err := c.args.Add(args); err != nil {
		return err
	}
	if c.shown || c.name == "" {
		return nil
	}
	if c.id == "" {
		c.id = link.NewID()
	}
	c.shown = true
	return s.answer.Call(c.id, c.name)
}

// find is the call that a piece belongs to. Servers leave the index out, or send 0 for every call.
func (s *state) find(t sdk.ChatCompletionChunkChoiceDeltaToolCall) *call {
	var c *call
	if t.JSON.Index.Valid() {
		for _, known := range s.calls {
			if known.index == t.Index {
				c = known // the latest of this index
			}
		}
	} else if len(s.calls) > 0 {
		c = s.calls[len(s.calls)-1]
	}
	switch {
	case c == nil:
	case t.ID != "" && c.own && t.ID != c.id:
		c = nil
	case t.ID == "" && t.Function.Name != "" && c.args.Whole():
		c = nil
	}
	if c == nil {
		c = &call{index: t.Index}
		s.calls = append(s.calls, c)
	}
	return c
}

func (s *state) stop(reason string) {
	switch reason {
	case "length", "max_tokens", "model_length":
		s.end.Stop = agent.StopLength
	case "content_filter", "refusal", "safety":
		s.end.Stop = agent.StopRefused
	default:
		s.end.Stop = agent.StopDone
	}
}

// finish gives the parts of an answer whose stream is over.
func (s *state) finish() error {
	switch {
	case s.end.Stop == "" && !s.done:
		return link.ErrCut
	case s.refused:
		s.end.Stop = agent.StopRefused
	case s.end.Stop == "" || s.end.Stop == agent.StopDone:
		s.end.Stop = agent.StopDone
		if len(s.calls) > 0 {
			s.end.Stop = agent.StopCalls
		}
	}
	if p := (agent.Part{Reasoning: s.reasoning.String(), Opaque: s.opaque()}); p.Reasoning != "" || p.Opaque != nil {
		if err := s.answer.Part(p); err != nil {
			return err
		}
	}
	if s.text.Len() > 0 {
		if err := s.answer.Part(agent.Part{Text: s.text.String()}); err != nil {
			return err
		}
	}
	ids := map[string]bool{}
	for _, c := range s.calls {
		if !c.shown {
			return link.ErrGarbled // a call without a name
		}
		if ids[c.id] {
			c.id = link.NewID()
		}
		ids[c.id] = true
		if err := s.answer.Part(agent.Part{Call: c.args.Call(c.id, c.name)}); err != nil {
			return err
		}
	}
	return nil
}

// opaque is the reasoning in the field in which it came. It is worth something only to a model that goes on after calls.
func (s *state) opaque() *agent.Opaque {
	fields := map[string]any{}
	if s.reasoning.Len() > 0 {
		fields[s.field] = s.reasoning.String()
	}
	if len(s.details) > 0 {
		fields["reasoning_details"] = s.details
	}
	data, err := json.Marshal(fields)
	if len(fields) == 0 || len(s.calls) == 0 || err != nil {
		return nil
	}
	return &agent.Opaque{Model: s.link.Model(s.model), Data: data}
}
