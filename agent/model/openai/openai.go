// Package openai streams answers of OpenAI's models by the Responses API, and those of nearly every server of open models by
// the Chat Completions API, which each speaks in its own dialect.
package openai

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"regexp"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
	"bobbin/schemas"
)

// Options say how to reach the API.
type Options struct {
	Key     schemas.Secret // "" = none is sent, if KeyName is "", too
	KeyName string         // what the operator has to check; "" = OPENAI_API_KEY for OpenAI itself, and no key for others
	BaseURL string         // with the version, such as http://127.0.0.1:11434/v1; "" = https://api.openai.com/v1
	HTTP    *http.Client   // required; its Timeout and redirects are not used
	Name    string         // what stands before the slash in a model's name; "" = OpenAI itself, "openai"
	// Responses asks by the Responses API: OpenAI's current models use tools in a chat completion only if they do not think.
	Responses bool
	Start     string // how the server is started, if it is one on this machine: "ollama serve"
}

// Provider is an agent.Provider.
type Provider struct {
	link  *link.Link
	self  bool // OpenAI itself
	newer bool // by the Responses API
}

var _ agent.Provider = (*Provider)(nil)

// New fails without an HTTP client, and for OpenAI itself without a key.
func New(o Options) (*Provider, error) {
	self := o.Name == ""
	if self {
		o.Name, o.KeyName = "openai", "OPENAI_API_KEY"
		if o.BaseURL == "" {
			o.BaseURL = "https://api.openai.com/v1"
		}
	}
	l, err := link.New(link.Options{Name: o.Name, Key: o.Key, KeyName: o.KeyName, BaseURL: o.BaseURL, HTTP: o.HTTP, Start: o.Start})
	if err != nil {
		return nil, err
	}
	return &Provider{l, self, o.Responses}, nil
}

// BaseURL is where its API is, with a slash at the end.
func (p *Provider) BaseURL() string { return p.link.BaseURL() }

// Stream implements agent.Provider.
func (p *Provider) Stream(ctx context.Context, r agent.Request) iter.Seq2[agent.Event, error] {
	if p.newer {
		params := p.responses(r)
		return p.link.Run(ctx, r.Model, func(ctx context.Context, t *link.Try, a *link.Answer) (link.End, error) {
			return p.respond(ctx, params, t, a)
		})
	}
	params := p.params(r)
	return p.link.Run(ctx, r.Model, func(ctx context.Context, t *link.Try, a *link.Answer) (link.End, error) {
		return p.once(ctx, params, t, a)
	})
}

func (p *Provider) once(ctx context.Context, params sdk.ChatCompletionNewParams, t *link.Try, a *link.Answer) (link.End, error) {
	s := state{link: p.link, model: params.Model, answer: a}
	t.Line = func(line []byte) {
		if link.Data(line) == "[DONE]" {
			s.done = true
		}
	}
	completions := sdk.NewChatCompletionService(p.options(t)...)
	stream := completions.NewStreaming(ctx, params)
	defer stream.Close()
	for stream.Next() {
		if err := s.take(stream.Current()); err != nil {
			return s.end, err
		}
	}
	var said *ssestream.StreamError
	switch err := stream.Err(); {
	case errors.As(err, &said):
		return s.end, &link.Refusal{Body: said.Event.Data}
	case err != nil:
		return s.end, link.ErrGarbled
	case t.Broken():
		return s.end, link.ErrCut
	}
	return s.end, s.finish()
}

// options are for a service alone, which reads nothing from the environment, unlike sdk.NewClient.
func (p *Provider) options(t *link.Try) []option.RequestOption {
	options := []option.RequestOption{option.WithBaseURL(p.link.BaseURL()), option.WithHTTPClient(t.Client()), option.WithMaxRetries(0)}
	if key := p.link.Key(); key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	return options
}

// withoutThinking are OpenAI's models that take tools in a chat completion only if they do not think.
var withoutThinking = regexp.MustCompile(`\Agpt-(5\.[4-9]|[6-9]|\d\d)`)

func (p *Provider) params(r agent.Request) sdk.ChatCompletionNewParams {
	params := sdk.ChatCompletionNewParams{Model: r.Model, Messages: p.messages(r)}
	params.StreamOptions.IncludeUsage = sdk.Bool(true)
	switch {
	case r.MaxTokens <= 0:
	case p.self:
		params.MaxCompletionTokens = sdk.Int(int64(r.MaxTokens))
	default: // the older name is the one that all servers know
		params.MaxTokens = sdk.Int(int64(r.MaxTokens))
	}
	if p.self && len(r.Tools) > 0 && withoutThinking.MatchString(r.Model) {
		params.ReasoningEffort = shared.ReasoningEffortNone
	}
	for _, t := range r.Tools {
		schema, words := link.Schema(t.Input)
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: schema}
		if d := strings.TrimSpace(t.Description + "\n" + words); d != "" {
			f.Description = sdk.String(d)
		}
		params.Tools = append(params.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	return params
}
