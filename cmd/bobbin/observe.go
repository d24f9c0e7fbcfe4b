package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"bobbin/observe"
	"bobbin/schemas"
)

// telemetry is where measurements go.
type telemetry struct {
	*observe.Observer
	traces *trace.TracerProvider // nil: none
	pages  http.Handler
	listen net.Listener // of the pages; nil: none
}

// openTelemetry opens what the flag and OpenTelemetry's own variables name; nothing is measured when they name nothing.
func openTelemetry(ctx context.Context, metrics string) (*telemetry, error) {
	t := &telemetry{}
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	if metrics == "" && !endpoint {
		return t, nil
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var err error
	if !endpoint {
		t.Observer, err = observe.New(noop.NewTracerProvider(), reg)
	} else {
		exporter, e := otlptracehttp.New(ctx)
		if e != nil {
			return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "traces cannot be sent to where OTEL_EXPORTER_OTLP_ENDPOINT says", Hint: "an address such as http://127.0.0.1:4318", Err: e}
		}
		t.traces = trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "bobbin"), attribute.String("service.version", version))))
		t.Observer, err = observe.New(t.traces, reg)
	}
	if err != nil || metrics == "" {
		return t, err
	}
	if t.listen, err = net.Listen("tcp", metrics); err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Text: "--metrics cannot listen on " + metrics, Hint: "an address such as 127.0.0.1:9464", Err: err}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	t.pages = mux
	return t, nil
}

// run serves the counts until ctx ends, then sends the last traces.
func (t *telemetry) run(ctx context.Context) error {
	var err error
	if t.listen != nil {
		err = serveUntil(ctx, &http.Server{Handler: t.pages, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}, t.listen)
	} else {
		<-ctx.Done()
	}
	if t.traces != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, t.traces.Shutdown(last))
	}
	return err
}
