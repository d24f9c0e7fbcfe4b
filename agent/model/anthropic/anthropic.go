// Package anthropic streams answers of Claude models by the Messages API.
package anthropic

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
	"bobbin/schemas"
)

// Options say how to reach the API.
type Options struct {
	Key     schemas.Secret
	BaseURL string       // "" = https://api.anthropic.com
	HTTP    *http.Client // required; its Timeout and redirects are not used
	Name    string       // "" = "anthropic"; what stands before the slash in a model's name
}

// Provider is an agent.Provider.
type Provider struct{ link *link.Link }

var _ agent.Provider = (*Provider)(nil)

// New fails without a key or an HTTP client.
func New(o Options) (*Provider, error) {
	if o.BaseURL == "" {
		o.BaseURL = "https://api.anthropic.com"
	}
	if o.Name == "" {
		o.Name = "anthropic"
	}
	l, err := link.New(link.Options{Name: o.Name, Key: o.Key, KeyName: "ANTHROPIC_API_KEY", BaseURL: o.BaseURL, HTTP: o.HTTP})
	if err != nil {
		return nil, err
	}
	return &Provider{l}, nil
}

// BaseURL is where its API is, with a slash at the end.
func (p *Provider) BaseURL() string { return p.link.BaseURL() }

// Stream implements agent.Provider.
func (p *Provider) Stream(ctx context.Context, r agent.Request) iter.Seq2[agent.Event, error] {
	params := p.params(r)
	return p.link.Run(ctx, r.Model, func(ctx context.Context, t *link.Try, a *link.Answer) (link.End, error) {
		return p.once(ctx, params, t, a)
	})
}

func (p *Provider) once(ctx context.Context, params sdk.MessageNewParams, t *link.Try, a *link.Answer) (link.End, error) {
	// The service alone reads nothing from the environment, unlike sdk.NewClient.
	messages := sdk.NewMessageService(
		option.WithEnvironmentProduction(), option.WithBaseURL(p.link.BaseURL()), option.WithAPIKey(p.link.Key()),
		option.WithHTTPClient(t.Client()), option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
	)
	stream := messages.NewStreaming(ctx, params)
	defer stream.Close()
	s := state{link: p.link, model: string(params.Model), answer: a}
	for stream.Next() {
		over, err := s.take(stream.Current())
		if err != nil || over {
			return s.end, err
		}
	}
	var said *sdk.Error
	switch err := stream.Err(); {
	case errors.As(err, &said):
		return s.end, &link.Refusal{Body: []byte(said.RawJSON())}
	case err != nil:
		return s.end, link.ErrGarbled
	}
	return s.end, link.ErrCut
}

// usualMax is what an answer may have where the request names no limit; thinking counts, too.
const usualMax = 32000

func (p *Provider) params(r agent.Request) sdk.MessageNewParams {
	params := sdk.MessageNewParams{Model: sdk.Model(r.Model), MaxTokens: int64(r.MaxTokens), Messages: p.messages(r)}
	if r.MaxTokens <= 0 {
		params.MaxTokens = usualMax
	}
	if adaptive(r.Model) {
		params.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
	}
	if !link.Blank(r.System) {
		params.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	tools := r.Tools
	if len(tools) == 0 {
		// A conversation in which tools were used is refused without them.
		if tools = used(r.Messages); len(tools) > 0 {
			params.ToolChoice.OfNone = &sdk.ToolChoiceNoneParam{}
		}
	}
	for i, t := range tools {
		schema, words := link.Schema(t.Input)
		tool := sdk.ToolParam{Name: t.Name, InputSchema: sdk.ToolInputSchemaParam{ExtraFields: schema}}
		if d := strings.TrimSpace(t.Description + "\n" + words); d != "" {
			tool.Description = sdk.String(d)
		}
		if i == len(tools)-1 {
			tool.CacheControl = sdk.NewCacheControlEphemeralParam()
		}
		params.Tools = append(params.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	return params
}

// used are the tools that a conversation names, without their descriptions.
func used(messages []agent.Message) (tools []agent.Tool) {
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Call != nil && !slices.ContainsFunc(tools, func(t agent.Tool) bool { return t.Name == p.Call.Name }) {
				tools = append(tools, agent.Tool{Name: p.Call.Name})
			}
		}
	}
	return tools
}

var version = regexp.MustCompile(`\Aclaude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:-|\z)`)

// adaptive reports whether a model decides by itself how much it thinks, which came with 4.6. Older ones want a budget, and
// then refuse histories whose thinking another model did; they are left without.
func adaptive(model string) bool {
	m := version.FindStringSubmatch(model)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > 4 || major == 4 && minor >= 6
}
