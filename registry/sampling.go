package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"bobbin/schemas"
)

// Bounds of a server's requests for words of the model (MCP 2025-11-25, Sampling).
const (
	maxSamples       = 3      // in one call
	maxSampleWords   = 20     // messages
	maxSampleText    = 20_000 // characters of a request in all
	maxSampleTokens  = 1000   // of an answer
	maxSampleRequest = 256 << 10
	sampleTime       = 2 * time.Minute // for the model
	sampleMethod     = "sampling/createMessage"
)

// sampled answers a server that asks for words of the model: never but in a call of the one member whose calls are on their way, where
// the policy still allows it, and after that member's yes to exactly these words.
func (i *instance) sampled(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	who, calls, why := i.asking.whose()
	var in schemas.Sampling
	if why == "" {
		in, why = i.sampling(params)
	}
	if s := i.t.snap.Load(); why == "" && (s == nil || !s.policy.Samples(i.name)) {
		why = "no rule of this thread allows it"
	}
	resume, ok := pause(calls)
	defer resume()
	if why == "" && (!ok || !calls[0].mayAsk()) {
		why = "it asked too often in one call"
	}
	if why != "" {
		return nil, i.unsampled(ctx, who, why)
	}
	ctx, stop := during(ctx, calls)
	defer stop()
	in.Caller, in.Server = who, i.name
	asked, err := json.Marshal(in)
	if err != nil {
		return nil, i.unsampled(ctx, who, "its request cannot be shown")
	}
	answer, err := i.t.r.opt.Gate.Ask(ctx, schemas.Ask{
		Caller: who, Tool: schemas.Tool{Server: i.name, Name: sampleMethod, Writes: true}, Args: asked, Why: "it asks the thread's model for words, which cost tokens", Each: true,
	})
	switch {
	case err != nil:
		return nil, i.unsampled(ctx, who, "nobody said yes")
	case answer != schemas.AnswerOnce && answer != schemas.AnswerHour && answer != schemas.AnswerAlways:
		return nil, i.unsampled(ctx, who, "a person refused")
	}
	if err := i.journalSample(ctx, who, "allowed"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	out, err := i.t.r.opt.Sample.Sample(ctx, in)
	if err != nil {
		return nil, i.unsampled(ctx, who, "the model gave no answer")
	}
	reason := "endTurn"
	if out.Cut {
		reason = "maxTokens"
	}
	return json.Marshal(map[string]any{"role": "assistant", "content": map[string]string{"type": "text", "text": out.Text}, "model": out.Model, "stopReason": reason})
}

// mayAsk counts a request of a call.
func (p *patience) mayAsk() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples++
	return p.samples <= maxSamples
}

// sampling reads a request; why says why it cannot be put to anybody. What it says of models, temperature and context is not obeyed.
func (i *instance) sampling(params json.RawMessage) (out schemas.Sampling, why string) {
	type words struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var in struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		System    string            `json:"systemPrompt"`
		MaxTokens int               `json:"maxTokens"`
		Tools     []json.RawMessage `json:"tools"`
	}
	if len(params) > maxSampleRequest || json.Unmarshal(params, &in) != nil {
		return out, "its request cannot be read"
	}
	if len(in.Tools) > 0 {
		return out, "it wants to give the model tools"
	}
	if len(in.Messages) == 0 || len(in.Messages) > maxSampleWords {
		return out, fmt.Sprintf("its request has %d messages; 1 to %d are possible", len(in.Messages), maxSampleWords)
	}
	clean := func(text string) string { return strings.TrimSpace(schemas.Clean(i.veil(text), false)) }
	out.System = clean(in.System)
	size := utf8.RuneCountInString(out.System)
	for n, m := range in.Messages {
		var one words
		var several []words
		if json.Unmarshal(m.Content, &one) == nil {
			several = []words{one}
		} else if json.Unmarshal(m.Content, &several) != nil {
			return out, "its request cannot be read"
		}
		role := "user"
		if (len(in.Messages)-n)%2 == 0 { // the last one is the user's
			role = "assistant"
		}
		var texts []string
		for _, w := range several {
			if w.Type != "text" {
				return out, "its request holds more than text"
			}
			texts = append(texts, clean(w.Text))
		}
		text := strings.Join(texts, "\n")
		if m.Role != role || text == "" {
			return out, "the roles of its messages do not take turns, or one is empty"
		}
		size += utf8.RuneCountInString(text)
		out.Messages = append(out.Messages, schemas.SamplingWords{Role: role, Text: text})
	}
	if size > maxSampleText {
		return out, "its request is too long"
	}
	if out.Messages[0].Role != "user" {
		return out, "the roles of its messages do not take turns, or one is empty"
	}
	out.MaxTokens = min(max(in.MaxTokens, 1), maxSampleTokens)
	return out, ""
}

// errUnsampled refuses a request; the server learns no more than that.
var errUnsampled = errors.New("the request for words of the model was refused")

// unsampled writes down why a request is refused; the same reason once for a start of the server.
func (i *instance) unsampled(ctx context.Context, who schemas.Caller, why string) error {
	if i.asking.first("sampling: " + why) {
		_ = i.journalSample(ctx, who, "refused: "+why) // which logs what went wrong
	}
	return errUnsampled
}

func (i *instance) journalSample(ctx context.Context, who schemas.Caller, detail string) error {
	rec := schemas.Record{At: i.t.r.opt.Now(), Thread: i.t.id, Member: who.Member, Name: who.Name, Door: who.Door, Event: schemas.EventSampling, Server: i.name, Detail: detail}
	_, err := i.t.r.opt.Journal.Append(context.WithoutCancel(ctx), rec)
	if err != nil {
		i.t.r.opt.Log.Error("cannot write the audit record of a request for words of the model", "thread", i.t.id, "server", i.name, "err", err)
	}
	return err
}
