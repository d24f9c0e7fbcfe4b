package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
)

// state is how far an answer is.
type state struct {
	link   *link.Link
	model  string
	answer *link.Answer
	end    link.End
	blocks []*block
	given  int // of blocks, as parts
	calls  bool
}

// block is a piece of the answer. Blocks may come interleaved; their parts are given in order.
type block struct {
	kind      string
	raw       json.RawMessage // as it began
	id, name  string
	text      strings.Builder
	signature strings.Builder
	args      link.Args
	done      bool
}

// take reads one event, and reports whether it was the last.
func (s *state) take(e sdk.MessageStreamEventUnion) (over bool, err error) {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		s.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)
	case "content_block_start":
		return false, s.begin(e)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= int64(len(s.blocks)) {
			return false, link.ErrGarbled
		}
		return false, s.more(s.blocks[e.Index], e.Delta)
	case "content_block_stop":
		if e.Index < 0 || e.Index >= int64(len(s.blocks)) {
			return false, link.ErrGarbled
		}
		s.blocks[e.Index].done = true
		return false, s.give(false)
	case "message_delta":
		s.stop(e.Delta.StopReason)
		if u := e.Usage; u.JSON.InputTokens.Valid() {
			s.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)
		} else {
			s.end.Tokens.Out = int(u.OutputTokens)
		}
	case "message_stop":
		if s.end.Stop == "" || s.calls && s.end.Stop == agent.StopDone {
			s.stop("")
		}
		return true, s.give(true)
	}
	return false, nil
}

func (s *state) count(in, read, written, out int64) {
	s.end.Tokens.In = int(in + read + written)
	s.end.Tokens.Cached = int(read)
	s.end.Tokens.Out = int(out)
}

func (s *state) stop(r sdk.StopReason) {
	switch r {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		s.end.Stop = agent.StopLength
	case sdk.StopReasonRefusal:
		s.end.Stop = agent.StopRefused
	case sdk.StopReasonToolUse:
		s.end.Stop = agent.StopCalls
	default:
		s.end.Stop = agent.StopDone
		if s.calls {
			s.end.Stop = agent.StopCalls
		}
	}
}

func (s *state) begin(e sdk.MessageStreamEventUnion) error {
	if e.Index != int64(len(s.blocks)) || e.Index > 4*link.MaxCalls {
		return link.ErrGarbled
	}
	c := e.ContentBlock
	b := &block{kind: c.Type, raw: json.RawMessage(c.RawJSON())}
	s.blocks = append(s.blocks, b)
	switch c.Type {
	case "text":
		b.text.WriteString(c.Text)
		return s.answer.Text(c.Text)
	case "thinking":
		b.text.WriteString(c.Thinking)
		b.signature.WriteString(c.Signature)
		return s.answer.Reasoning(c.Thinking)
	case "tool_use":
		s.calls = true
		if b.id, b.name = c.ID, c.Name; b.id == "" {
			b.id = link.NewID()
		}
		if input, _ := json.Marshal(c.Input); len(input) > len("{}") && string(input) != "null" {
			if err := b.args.Add(string(input)); err != nil {
				return err
			}
		}
		return s.answer.Call(b.id, b.name)
	}
	return nil
}

func (s *state) more(b *block, d sdk.MessageStreamEventUnionDelta) error {
	switch d.Type {
	case "text_delta":
		b.text.WriteString(d.Text)
		return s.answer.Text(d.Text)
	case "thinking_delta":
		b.text.WriteString(d.Thinking)
		return s.answer.Reasoning(d.Thinking)
	case "signature_delta":
		b.signature.WriteString(d.Signature)
	case "input_json_delta":
		return b.args.Add(d.PartialJSON)
	}
	return nil
}

// give gives the parts that are whole and whose turn it is.
func (s *state) give(all bool) error {
	for ; s.given < len(s.blocks) && (all || s.blocks[s.given].done); s.given++ {
		part, ok := s.part(s.blocks[s.given])
		if !ok {
			continue
		}
		if err := s.answer.Part(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) part(b *block) (agent.Part, bool) {
	switch b.kind {
	case "text":
		return agent.Part{Text: b.text.String()}, b.text.Len() > 0
	case "tool_use":
		return agent.Part{Call: b.args.Call(b.id, b.name)}, true
	case "thinking":
		p := agent.Part{Reasoning: b.text.String()}
		if b.signature.Len() > 0 { // without one it was cut off, and would be refused
			p.Opaque = s.opaque(map[string]string{"type": "thinking", "thinking": b.text.String(), "signature": b.signature.String()})
		}
		return p, p.Reasoning != "" || p.Opaque != nil
	case "redacted_thinking":
		return agent.Part{Opaque: s.opaque(b.raw)}, true
	}
	return agent.Part{}, false
}

func (s *state) opaque(v any) *agent.Opaque {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return &agent.Opaque{Model: s.link.Model(s.model), Data: data}
}
