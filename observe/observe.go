// Package observe tells what happens in bobbin to those who run it: traces by OpenTelemetry and counts for Prometheus. It wraps
// what the rooms already call, so that they know nothing of it. All names that others define stand in this file; the conventions
// for MCP and GenAI are still in development.
//
// No text of a message, an argument or a result is in a span or a count, and nobody's name.
package observe

import (
	"context"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"bobbin/agent"
	"bobbin/schemas"
)

// Observer measures. A nil Observer is usable and measures nothing.
type Observer struct {
	tracer trace.Tracer

	calls, tokens, requests *prometheus.CounterVec
	took, answered          *prometheus.HistogramVec
}

// New registers the counts at reg, once. Traces go to tp.
func New(tp trace.TracerProvider, reg prometheus.Registerer) (*Observer, error) {
	buckets := []float64{.001, .005, .02, .1, .5, 2, 10, 60, 300}
	o := &Observer{
		tracer:   tp.Tracer("bobbin"),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bobbin_requests_total", Help: "What members asked for, by command and how it ended."}, []string{"door", "command", "outcome"}),
		calls:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mcp_tool_calls_total", Help: "Tool calls, by who wished them and how they ended."}, []string{"origin", "outcome"}),
		took:     prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mcp_tool_call_duration_seconds", Help: "Time of tool calls, waiting for people included.", Buckets: buckets}, []string{"origin"}),
		tokens:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gen_ai_client_token_usage_total", Help: "Tokens that models counted."}, []string{"model", "type"}),
		answered: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gen_ai_client_operation_duration_seconds", Help: "Time of one step of a model.", Buckets: buckets}, []string{"model", "outcome"}),
	}
	for _, c := range []prometheus.Collector{o.requests, o.calls, o.took, o.tokens, o.answered} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Request begins the span of what a member asked for at a door; end closes it.
func (o *Observer) Request(ctx context.Context, door schemas.Door, command string) (_ context.Context, end func(schemas.Code)) {
	if o == nil {
		return ctx, func(schemas.Code) {}
	}
	ctx, span := o.tracer.Start(ctx, command, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("bobbin.door", string(door))))
	return ctx, func(code schemas.Code) {
		o.requests.WithLabelValues(string(door), command, word(code)).Inc()
		finish(span, code)
	}
}

// word is a code as a label.
func word(code schemas.Code) string {
	if code == "" {
		return "ok"
	}
	return string(code)
}

func finish(span trace.Span, code schemas.Code) {
	if code != "" {
		span.SetStatus(codes.Error, string(code))
		span.SetAttributes(attribute.String("error.type", string(code)))
	}
	span.End()
}

// Caller calls tools.
type Caller interface {
	Call(context.Context, schemas.Call) (schemas.Result, error)
}

// Call makes one call and measures it.
func (o *Observer) Call(ctx context.Context, to Caller, in schemas.Call) (schemas.Result, error) {
	if o == nil {
		return to.Call(ctx, in)
	}
	ctx, span := o.tracer.Start(ctx, "tools/call", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("mcp.method.name", "tools/call"), attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("bobbin.origin", string(in.Origin))))
	began := time.Now()
	res, err := to.Call(ctx, in)
	code := schemas.CodeOf(err)
	if err == nil {
		code = ""
		span.SetAttributes(attribute.String("gen_ai.tool.name", res.Tool), attribute.Int("bobbin.result.size", res.Size))
		if res.IsError {
			code = schemas.CodeFailed
		}
	}
	o.calls.WithLabelValues(string(in.Origin), word(code)).Inc()
	o.took.WithLabelValues(string(in.Origin)).Observe(time.Since(began).Seconds())
	finish(span, code)
	return res, err
}

// Model measures the steps of a provider's model.
func (o *Observer) Model(c agent.Choice) agent.Choice {
	if o != nil {
		c.Provider = &provider{o, c}
	}
	return c
}

type provider struct {
	o *Observer
	agent.Choice
}

func (p *provider) Stream(ctx context.Context, r agent.Request) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		ctx, span := p.o.tracer.Start(ctx, "chat "+p.Name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", r.Model)))
		began, code := time.Now(), schemas.Code("")
		defer func() {
			p.o.answered.WithLabelValues(p.Name, word(code)).Observe(time.Since(began).Seconds())
			finish(span, code)
		}()
		for e, err := range p.Provider.Stream(ctx, r) {
			switch {
			case err != nil:
				code = schemas.CodeFailed
			case e.Kind == agent.EventEnd:
				p.o.tokens.WithLabelValues(p.Name, "input").Add(float64(e.Tokens.In))
				p.o.tokens.WithLabelValues(p.Name, "output").Add(float64(e.Tokens.Out))
				span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", e.Tokens.In), attribute.Int("gen_ai.usage.output_tokens", e.Tokens.Out))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
