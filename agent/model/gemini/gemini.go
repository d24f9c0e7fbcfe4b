// Package gemini streams answers of Gemini models by the Gemini API.
package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"regexp"
	"strings"

	"google.golang.org/genai"

	"bobbin/agent"
	"bobbin/agent/model/internal/link"
	"bobbin/schemas"
)

// Options say how to reach the API.
type Options struct {
	Key     schemas.Secret
	KeyName string       // "" = GEMINI_API_KEY; what the operator has to check
	BaseURL string       // without the version; "" = https://generativelanguage.googleapis.com
	HTTP    *http.Client // required; its Timeout and redirects are not used
	Name    string       // "" = "gemini"; what stands before the slash in a model's name
}

// Provider is an agent.Provider.
type Provider struct{ link *link.Link }

var _ agent.Provider = (*Provider)(nil)

// New fails without a key or an HTTP client.
func New(o Options) (*Provider, error) {
	if o.BaseURL == "" {
		o.BaseURL = "https://generativelanguage.googleapis.com"
	}
	if o.Name == "" {
		o.Name = "gemini"
	}
	if o.KeyName == "" {
		o.KeyName = "GEMINI_API_KEY"
	}
	l, err := link.New(link.Options{Name: o.Name, Key: o.Key, KeyName: o.KeyName, BaseURL: o.BaseURL, HTTP: o.HTTP})
	if err != nil {
		return nil, err
	}
	return &Provider{l}, nil
}

// BaseURL is where its API is, with a slash at the end.
func (p *Provider) BaseURL() string { return p.link.BaseURL() }

// Stream implements agent.Provider.
func (p *Provider) Stream(ctx context.Context, r agent.Request) iter.Seq2[agent.Event, error] {
	contents := p.contents(r)
	return p.link.Run(ctx, r.Model, func(ctx context.Context, t *link.Try, a *link.Answer) (link.End, error) {
		return p.once(ctx, r, contents, t, a)
	})
}

func (p *Provider) once(ctx context.Context, r agent.Request, contents []content, t *link.Try, a *link.Answer) (link.End, error) {
	// Everything that the SDK would else read from the environment is given.
	client, err := genai.NewClient(ctx, &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: p.link.Key(), HTTPClient: t.Client(),
		HTTPOptions: genai.HTTPOptions{BaseURL: p.link.BaseURL(), APIVersion: "v1beta"},
	})
	if err != nil {
		return link.End{}, link.ErrGarbled
	}
	s := state{link: p.link, model: r.Model, answer: a}
	t.Line = s.line
	for response, err := range client.Models.GenerateContentStream(ctx, r.Model, nil, config(r, contents)) {
		var said genai.APIError
		switch {
		case errors.As(err, &said):
			return s.end, &link.Refusal{Body: asBody(said)}
		case err != nil && t.Broken():
			return s.end, link.ErrCut
		case err != nil:
			return s.end, link.ErrGarbled
		}
		if err := s.take(response); err != nil {
			return s.end, err
		}
	}
	return s.end, s.finish()
}

func asBody(said genai.APIError) []byte {
	body, err := json.Marshal(map[string]any{"error": said})
	if err != nil {
		return nil
	}
	return body
}

var (
	thinks = regexp.MustCompile(`\A(models/)?gemini-(2\.5|[3-9]|\d\d)`)
	signs  = regexp.MustCompile(`\A(models/)?gemini-([3-9]|\d\d)`) // and refuses calls without a signature
)

func config(r agent.Request, contents []content) *genai.GenerateContentConfig {
	no := false
	c := &genai.GenerateContentConfig{
		MaxOutputTokens:       int32(min(max(r.MaxTokens, 0), 1<<30)),
		AutomaticContinuation: &no, // it would ask again behind our back
		HTTPOptions: &genai.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
			// The SDK's own contents pass every number through a float64, and every signature through base64.
			body["contents"] = contents
			return body
		}},
	}
	if !link.Blank(r.System) {
		c.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: r.System}}}
	}
	if thinks.MatchString(r.Model) {
		c.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true}
	}
	if len(r.Tools) > 0 {
		tool := &genai.Tool{}
		for _, t := range r.Tools {
			tool.FunctionDeclarations = append(tool.FunctionDeclarations, &genai.FunctionDeclaration{
				Name: t.Name, Description: strings.TrimSpace(t.Description), ParametersJsonSchema: schema(t.Input),
			})
		}
		c.Tools = []*genai.Tool{tool}
	}
	return c
}

// schema is a tool's whole schema, which must say that it is an object.
func schema(input json.RawMessage) any {
	var all map[string]json.RawMessage
	if json.Unmarshal(input, &all) != nil || all == nil {
		all = map[string]json.RawMessage{}
	}
	all["type"] = json.RawMessage(`"object"`)
	return all
}
