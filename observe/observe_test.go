package observe_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"bobbin/agent"
	"bobbin/observe"
	"bobbin/schemas"
)

type caller func(schemas.Call) (schemas.Result, error)

func (f caller) Call(_ context.Context, in schemas.Call) (schemas.Result, error) { return f(in) }

type model func(func(agent.Event, error) bool)

func (f model) Stream(context.Context, agent.Request) iter.Seq2[agent.Event, error] {
	return iter.Seq2[agent.Event, error](f)
}

func TestObserver(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	reg := prometheus.NewRegistry()
	o, err := observe.New(trace.NewTracerProvider(trace.WithSyncer(spans)), reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := o.Request(t.Context(), schemas.DoorWeb, "mcp call")
	for _, err := range []error{nil, &schemas.Error{Code: schemas.CodeDenied, Text: "no"}, errors.New("raw")} {
		_, _ = o.Call(ctx, caller(func(schemas.Call) (schemas.Result, error) {
			return schemas.Result{Tool: "echo", Size: 7, IsError: false}, err
		}), schemas.Call{Origin: schemas.ByPerson, Tool: "demo.echo", Args: []byte(`{"key":"canary"}`), Caller: schemas.Caller{Member: "canary", Name: "canary", Thread: "canary"}})
	}
	c := o.Model(agent.Choice{Name: "p/m", Model: "m", Provider: model(func(yield func(agent.Event, error) bool) {
		_ = yield(agent.Event{Kind: agent.EventText, Text: "canary"}, nil) && yield(agent.Event{Kind: agent.EventEnd, Tokens: schemas.Tokens{In: 3, Out: 4}}, nil)
	})})
	for range c.Provider.Stream(ctx, agent.Request{Model: "m", System: "canary"}) {
	}
	end("")
	all := spans.GetSpans()
	for _, s := range all {
		if s.Name != "mcp call" && s.Parent.SpanID() != all[len(all)-1].SpanContext.SpanID() {
			t.Errorf("%s is not in the request's span", s.Name)
		}
		for _, a := range s.Attributes {
			if strings.Contains(a.Value.String(), "canary") {
				t.Errorf("%s tells %s", s.Name, a.Key)
			}
		}
	}
	if len(all) != 5 {
		t.Errorf("%d spans", len(all))
	}
	const want = `
# HELP mcp_tool_calls_total Tool calls, by who wished them and how they ended.
# TYPE mcp_tool_calls_total counter
mcp_tool_calls_total{origin="person",outcome="denied"} 1
mcp_tool_calls_total{origin="person",outcome="internal"} 1
mcp_tool_calls_total{origin="person",outcome="ok"} 1
# HELP gen_ai_client_token_usage_total Tokens that models counted.
# TYPE gen_ai_client_token_usage_total counter
gen_ai_client_token_usage_total{model="p/m",type="input"} 3
gen_ai_client_token_usage_total{model="p/m",type="output"} 4
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "mcp_tool_calls_total", "gen_ai_client_token_usage_total"); err != nil {
		t.Error(err)
	}
}

func TestObserver_Nil(t *testing.T) {
	var o *observe.Observer
	ctx, end := o.Request(t.Context(), schemas.DoorWeb, "mcp call")
	if _, err := o.Call(ctx, caller(func(schemas.Call) (schemas.Result, error) { return schemas.Result{}, nil }), schemas.Call{}); err != nil {
		t.Error(err)
	}
	end(schemas.CodeDenied)
	o.Model(agent.Choice{})
}
