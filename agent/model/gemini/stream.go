package gemini

import (
	"encoding/json"
	"strings"

	"google.golang.org/genai"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
)

// state is how far an answer is.
type state struct {
	link   *link.Link
	model  string
	answer *link.Answer
	end    link.End
	raw    []part // parts as they came, which the SDK did not give yet
	over   string // why it ended
	calls  int
	ids    map[string]bool

	open    strings.Builder // text that goes on
	thought bool            // open is reasoning
}

// line reads parts exactly, before the SDK turns long numbers into float64 and signatures into bytes.
func (s *state) line(line []byte) {
	var r struct {
		Candidates []struct {
			Index   int
			Content struct{ Parts []json.RawMessage }
		}
	}
	data := link.Data(line)
	if data == "" || json.Unmarshal([]byte(data), &r) != nil || len(r.Candidates) == 0 {
		return
	}
	for _, raw := range r.Candidates[0].Content.Parts {
		var p part
		// A part of an unknown form still has its place.
		_ = json.Unmarshal(raw, &p)
		s.raw = append(s.raw, p)
	}
}

func (s *state) take(r *genai.GenerateContentResponse) error {
	if r == nil {
		return link.ErrGarbled
	}
	if u := r.UsageMetadata; u != nil {
		s.end.Tokens.In = int(u.PromptTokenCount + u.ToolUsePromptTokenCount)
		s.end.Tokens.Cached = int(u.CachedContentTokenCount)
		s.end.Tokens.Out = int(u.CandidatesTokenCount + u.ThoughtsTokenCount)
	}
	if f := r.PromptFeedback; f != nil && f.BlockReason != "" && len(r.Candidates) == 0 {
		s.over, s.end.Stop = string(f.BlockReason), agent.StopRefused
	}
	if len(r.Candidates) == 0 || r.Candidates[0] == nil {
		return nil
	}
	c := r.Candidates[0]
	if c.Content != nil {
		for _, p := range c.Content.Parts {
			if p == nil || len(s.raw) == 0 {
				return link.ErrGarbled
			}
			raw := s.raw[0]
			s.raw = s.raw[1:]
			if err := s.part(p, raw); err != nil {
				return err
			}
		}
	}
	if c.FinishReason != "" && c.FinishReason != genai.FinishReasonUnspecified {
		s.over = string(c.FinishReason)
		return s.stop(c.FinishReason)
	}
	return nil
}

func (s *state) part(p *genai.Part, raw part) error {
	if p.FunctionCall != nil && p.FunctionCall.Name != "" {
		return s.call(p.FunctionCall, raw)
	}
	if s.open.Len() > 0 && s.thought != p.Thought {
		if err := s.close(""); err != nil {
			return err
		}
	}
	if raw.Signature != "" && s.open.Len() > 0 && p.Text != "" {
		// A part with a signature is never joined with one without.
		if err := s.close(""); err != nil {
			return err
		}
	}
	s.thought = p.Thought
	s.open.WriteString(p.Text)
	show := s.answer.Text
	if p.Thought {
		show = s.answer.Reasoning
	}
	if err := show(p.Text); err != nil {
		return err
	}
	if raw.Signature == "" {
		return nil
	}
	if p.Text == "" && s.open.Len() > 0 {
		if err := s.close(""); err != nil {
			return err
		}
	}
	return s.close(raw.Signature)
}

// close gives the open part, or with a signature even an empty one.
func (s *state) close(sign string) error {
	p := agent.Part{Opaque: s.opaque(sign)}
	if s.thought {
		p.Reasoning = s.open.String()
	} else {
		p.Text = s.open.String()
	}
	s.open.Reset()
	if p.Text == "" && p.Reasoning == "" && p.Opaque == nil {
		return nil
	}
	return s.answer.Part(p)
}

func (s *state) call(f *genai.FunctionCall, raw part) error {
	if err := s.close(""); err != nil {
		return err
	}
	var args link.Args
	if raw.Call == nil {
		return link.ErrGarbled
	}
	if err := args.Add(string(raw.Call.Args)); err != nil {
		return err
	}
	id := f.ID
	if id == "" || s.ids[id] {
		id = link.NewID()
	}
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[id] = true
	s.calls++
	if err := s.answer.Call(id, f.Name); err != nil {
		return err
	}
	return s.answer.Part(agent.Part{Call: args.Call(id, f.Name), Opaque: s.opaque(raw.Signature)})
}

func (s *state) opaque(sign string) *agent.Opaque {
	if sign == "" {
		return nil
	}
	data, err := json.Marshal(signature{sign})
	if err != nil {
		return nil
	}
	return &agent.Opaque{Model: s.link.Model(s.model), Data: data}
}

func (s *state) stop(r genai.FinishReason) error {
	switch r {
	case genai.FinishReasonMaxTokens:
		s.end.Stop = agent.StopLength
	case genai.FinishReasonStop, genai.FinishReasonContinuation:
		s.end.Stop = agent.StopDone
	case genai.FinishReasonMalformedFunctionCall, genai.FinishReasonUnexpectedToolCall, genai.FinishReasonTooManyToolCalls,
		"MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE", genai.FinishReasonOther:
		return link.ErrMisshapen
	default:
		s.end.Stop = agent.StopRefused
	}
	return nil
}

func (s *state) finish() error {
	if s.over == "" {
		return link.ErrCut
	}
	if s.end.Stop == agent.StopDone && s.calls > 0 {
		s.end.Stop = agent.StopCalls
	}
	return s.close("")
}
