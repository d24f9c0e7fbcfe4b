package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"bobbin/internal/jsonscan"

	"github.com/mark3labs/mcp-go/mcp"
	"go.opentelemetry.io/otel/trace"
)

const (
	maxRounds = 10 // times that one request may ask for more input
	maxEmpty  = 3  // of them in a row that ask nothing, which means "later"
)

// Call runs a tool and returns its CallToolResult object, valid JSON, not
// decoded: an "isError" result is a result. args is a JSON object or empty.
// progress may be nil; it gets the params of progress notifications on the
// caller's goroutine. The error says by [OutcomeOf] whether the tool ran.
//
// A 2026-07-28 server may ask for input in between (SEP-2322); ctx goes on
// while a person thinks.
func (s *Session) Call(ctx context.Context, name string, args json.RawMessage, progress func(json.RawMessage)) (json.RawMessage, error) {
	object, err := compactObject(args)
	if err != nil {
		return nil, notSent(fmt.Errorf("arguments: %w", errNotObject))
	}
	params := make([]byte, 0, len(object)+len(name)+32)
	params = append(params, `{"name":`...)
	params = append(params, quote(name)...)
	params = append(params, `,"arguments":`...)
	params = append(params, object...)
	params = append(params, '}')
	r := &request{method: string(mcp.MethodToolsCall), params: params, name: name, progress: progress, trace: traceparent(ctx)}
	if tool, ok := s.shown.Load(name); ok {
		r.headers = mcp.GenerateParamHeaders(tool.(*mcp.Tool), params)
	}
	return s.rounds(ctx, r)
}

// traceparent is the span that a call belongs to, by W3C Trace Context, level 1; "" without one.
func traceparent(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
	}
	return ""
}

var errNotObject = errors.New("not a JSON object")

// ReadResource returns the ReadResourceResult object.
func (s *Session) ReadResource(ctx context.Context, uri string) (json.RawMessage, error) {
	return s.rounds(ctx, &request{
		method: string(mcp.MethodResourcesRead), params: fmt.Appendf(nil, `{"uri":%s}`, quote(uri)), name: uri,
	})
}

// GetPrompt returns the GetPromptResult object. args is a JSON object or empty.
func (s *Session) GetPrompt(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	object, err := compactObject(args)
	if err != nil {
		return nil, notSent(fmt.Errorf("arguments: %w", errNotObject))
	}
	return s.rounds(ctx, &request{
		method: string(mcp.MethodPromptsGet), params: fmt.Appendf(nil, `{"name":%s,"arguments":%s}`, quote(name), object), name: name,
	})
}

// Complete returns the CompleteResult object for a CompleteRequest's params.
func (s *Session) Complete(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	object, err := compactObject(params)
	if err != nil {
		return nil, notSent(fmt.Errorf("parameters: %w", errNotObject))
	}
	return s.link.roundTrip(ctx, &request{method: string(mcp.MethodCompletionComplete), params: object})
}

// Subscribe has the server announce updates of a resource, or no longer; see [Info.Subscribe].
func (s *Session) Subscribe(ctx context.Context, uri string, on bool) error {
	method := mcp.MethodResourcesSubscribe
	if !on {
		method = mcp.MethodResourcesUnsubscribe
	}
	_, err := s.link.roundTrip(ctx, &request{method: string(method), params: fmt.Appendf(nil, `{"uri":%s}`, quote(uri))})
	return err
}

// Ping asks for a sign of life: ping, or server/discover since 2026-07-28.
func (s *Session) Ping(ctx context.Context) error {
	method := string(mcp.MethodPing)
	if s.modern() {
		method = string(mcp.MethodServerDiscover)
	}
	_, err := s.link.roundTrip(ctx, &request{method: method})
	return err
}

// inputRequired is the part of a 2026-07-28 result that decides whether it is final.
type inputRequired struct {
	kind, requests, state []byte
}

func scanResult(result []byte) (inputRequired, error) {
	var kind, requests, state jsonscan.Span
	err := jsonscan.Pick(result, jsonscan.All(result), jsonscan.Want{Name: "resultType", At: &kind},
		jsonscan.Want{Name: "inputRequests", At: &requests}, jsonscan.Want{Name: "requestState", At: &state})
	return inputRequired{kind.Of(result), requests.Of(result), state.Of(result)}, err
}

// rounds sends r and, since 2026-07-28, answers what the server asks until a
// final result comes. Every round is a request of its own.
func (s *Session) rounds(ctx context.Context, r *request) (json.RawMessage, error) {
	return s.roundsBy(ctx, r, func(ctx context.Context, requests []byte) ([]byte, bool, error) { return s.answers(ctx, requests) })
}

// roundsBy is rounds with another way to answer.
func (s *Session) roundsBy(ctx context.Context, r *request, answers answering) (json.RawMessage, error) {
	base, empty := r.params, 0
	for range maxRounds {
		result, err := s.link.roundTrip(ctx, r)
		if err != nil || !s.modern() {
			return result, err
		}
		in, err := scanResult(result)
		if err != nil {
			return nil, lost(ErrGarbage)
		}
		switch string(in.kind) {
		case "", `"complete"`:
			return result, nil
		case `"input_required"`:
		default:
			return nil, lost(fmt.Errorf("%w: unknown result type %s", ErrGarbage, excerpt(in.kind)))
		}
		given, asked, err := answers(ctx, in.requests)
		if err != nil {
			return nil, err
		}
		if empty++; asked {
			empty = 0
		}
		if empty >= maxEmpty {
			return nil, fmt.Errorf("%w: the server asks to retry without a question", ErrInputUnavailable)
		}
		if !asked {
			if err := sleep(ctx, firstPause); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrInputUnavailable, err)
			}
		}
		next := *r
		next.params = again(base, given, in.state)
		r = &next
	}
	return nil, fmt.Errorf("%w: more than %d rounds", ErrInputUnavailable, maxRounds)
}

// again repeats the request's params with the answers and the server's state,
// the latter byte for byte.
func again(params, answers, state []byte) []byte {
	b := make([]byte, 0, len(params)+len(answers)+len(state)+64)
	b = append(b, params[:len(params)-1]...)
	if answers != nil {
		b = append(append(b, `,"inputResponses":`...), answers...)
	}
	if state != nil {
		b = append(append(b, `,"requestState":`...), state...)
	}
	return append(b, '}')
}

// answers asks a person each question of the server, in order, and returns the
// inputResponses object.
func (s *Session) answers(ctx context.Context, requests []byte) ([]byte, bool, error) {
	questions, err := listed(requests)
	if err != nil || len(questions) == 0 {
		return nil, false, err
	}
	b := []byte{'{'}
	for i, q := range questions {
		e, err := scanEnvelope(q.request)
		if err != nil {
			return nil, false, lost(ErrGarbage)
		}
		var method string
		if json.Unmarshal(e.method, &method) != nil || s.answerer(method) == nil {
			return nil, false, fmt.Errorf("%w: it sent %s", ErrInputUnavailable, excerpt(e.method))
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(append(b, q.id...), `":`...)
		asking, _, cancel := s.within(ctx)
		answer := s.ask(asking, method, e.params)
		b = append(b, answer...)
		cause := context.Cause(asking)
		cancel()
		if cause != nil {
			return nil, false, fmt.Errorf("%w: %w", ErrInputUnavailable, cause)
		}
		if answer == nil {
			return nil, false, fmt.Errorf("%w: %s was refused", ErrInputUnavailable, method)
		}
	}
	return append(b, '}'), true, nil
}

// question is one of those that a server asks in a result.
type question struct{ id, request []byte }

// listed reads the inputRequests object.
func listed(requests []byte) ([]question, error) {
	var questions []question
	if requests != nil && requests[0] != '{' || jsonscan.Members(requests, jsonscan.All(requests), func(key []byte, value jsonscan.Span) {
		questions = append(questions, question{key, value.Of(requests)})
	}) != nil {
		return nil, lost(ErrGarbage)
	}
	if len(questions) > maxAsked {
		return nil, fmt.Errorf("%w: %d questions at once", ErrInputUnavailable, len(questions))
	}
	return questions, nil
}
