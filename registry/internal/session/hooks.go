package session

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

const logMethod = `"notifications/message"`

// answering gives the inputResponses object for an inputRequests object, and whether anything was asked.
type answering func(ctx context.Context, requests []byte) ([]byte, bool, error)

// Hooks are what the caller of one request wants to hear of it, and can answer, on its own account. All of them end before the request
// returns.
type Hooks struct {
	// Progress gets the params of progress notifications, Log those of log messages that came with the request: over stdio and HTTP+SSE
	// while it is the only one. Both run on the caller's goroutine and may be nil.
	Progress, Log func(json.RawMessage)
	// Input, if set, answers what a 2026-07-28 server asks in the request's result, in place of the session's own ways; all questions of one
	// result at once. key is the server's. An error answers an elicitation with "cancel" and ends the request otherwise.
	Input func(ctx context.Context, key, method string, params json.RawMessage) (json.RawMessage, error)
	// Sampling and Roots are declared to a 2026-07-28 server for this request, when Input is set.
	Sampling, Roots bool
}

// CallWith is Call with hooks.
func (s *Session) CallWith(ctx context.Context, name string, args json.RawMessage, h Hooks) (json.RawMessage, error) {
	object, err := compactObject(args)
	if err != nil {
		return nil, notSent(fmt.Errorf("arguments: %w", errNotObject))
	}
	r := &request{method: string(mcp.MethodToolsCall), params: named("name", name, object), name: name, progress: h.Progress, log: h.Log}
	if tool, ok := s.shown.Load(name); ok {
		r.headers = mcp.GenerateParamHeaders(tool.(*mcp.Tool), r.params)
	}
	return s.hooked(ctx, r, h)
}

// GetPromptWith is GetPrompt with hooks.
func (s *Session) GetPromptWith(ctx context.Context, name string, args json.RawMessage, h Hooks) (json.RawMessage, error) {
	object, err := compactObject(args)
	if err != nil {
		return nil, notSent(fmt.Errorf("arguments: %w", errNotObject))
	}
	return s.hooked(ctx, &request{method: string(mcp.MethodPromptsGet), params: named("name", name, object), name: name, progress: h.Progress, log: h.Log}, h)
}

func named(key, name string, args []byte) []byte {
	b := make([]byte, 0, len(args)+len(name)+32)
	b = append(append(b, `{"`...), key...)
	b = append(append(b, `":`...), quote(name)...)
	b = append(append(b, `,"arguments":`...), args...)
	return append(b, '}')
}

func (s *Session) hooked(ctx context.Context, r *request, h Hooks) (json.RawMessage, error) {
	r.trace = traceparent(ctx)
	if h.Input == nil || !s.modern() {
		return s.rounds(ctx, r)
	}
	r.caps = s.metas[h.kind()]
	return s.roundsBy(ctx, r, func(ctx context.Context, requests []byte) ([]byte, bool, error) { return s.inputs(ctx, requests, h) })
}

// kind is the index of what is declared with these hooks.
func (h Hooks) kind() (n int) {
	if h.Sampling {
		n |= 1
	}
	if h.Roots {
		n |= 2
	}
	return n
}

// openMetas writes the _meta of requests with hooks, by their kind.
func (s *Session) openMetas() (metas [4]string) {
	for n := range metas {
		caps := s.clientCapabilities()
		caps.Sampling, caps.Roots = nil, nil
		if n&1 != 0 {
			caps.Sampling = &mcp.SamplingCapability{}
		}
		if n&2 != 0 {
			caps.Roots = &struct {
				ListChanged bool `json:"listChanged,omitempty"`
			}{}
		}
		metas[n] = openMeta(s.info.Protocol, s.clientInfo(), caps)
	}
	return metas
}

// inputs asks all questions of a result at once.
func (s *Session) inputs(ctx context.Context, requests []byte, h Hooks) ([]byte, bool, error) {
	questions, err := listed(requests)
	if err != nil || len(questions) == 0 {
		return nil, false, err
	}
	asking, _, cancel := s.within(ctx)
	defer cancel()
	answers, failures := make([][]byte, len(questions)), make([]error, len(questions))
	var wg sync.WaitGroup
	for n, q := range questions {
		e, err := scanEnvelope(q.request)
		var method, key string
		if err != nil || json.Unmarshal(e.method, &method) != nil || json.Unmarshal(append(append([]byte{'"'}, q.id...), '"'), &key) != nil {
			cancel()
			wg.Wait()
			return nil, false, lost(ErrGarbage)
		}
		wg.Go(func() {
			raw, err := h.Input(asking, key, method, e.params)
			if err == nil {
				raw, err = compactObject(raw)
			}
			switch {
			case err == nil:
				answers[n] = raw
			case method == "elicitation/create":
				answers[n] = []byte(`{"action":"cancel"}`)
			default:
				failures[n] = fmt.Errorf("%w: %s: %w", ErrInputUnavailable, method, err)
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, false, err
		}
	}
	if cause := context.Cause(asking); cause != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrInputUnavailable, cause)
	}
	b := []byte{'{'}
	for n, q := range questions {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), q.id...), `":`...)
		b = append(b, answers[n]...)
	}
	return append(b, '}'), true, nil
}
