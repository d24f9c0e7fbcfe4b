package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bobbin/gateway"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

// BenchmarkCall is what the gateway itself costs of a call: no connection, and a registry that has the answer at hand.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{43, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { callHandler(b, size) })
	}
}

func callHandler(b *testing.B, size int) {
	d, err := durable.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	th := newThread()
	g := gateway.New(gateway.Options{Tools: ready{th, text(strings.Repeat("x", size))}, Resources: th, Prompts: th, States: th, Tokens: d, Origin: func() string { return "http://127.0.0.1:8080" }})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = g.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := g.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	_, secret, err := g.Make(ctx, ann, "", 0)
	if err != nil {
		b.Fatal(err)
	}
	local := context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	request := func(body string) *http.Request {
		r := httptest.NewRequestWithContext(local, "POST", "/gateway/t1/mcp", strings.NewReader(body))
		r.Host = "127.0.0.1:8080"
		for k, v := range map[string]string{"Authorization": "Bearer " + secret, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(k, v)
		}
		return r
	}
	h := g.Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`))
	id := w.Header().Get("Mcp-Session-Id")
	if id == "" {
		b.Fatal(w.Code, w.Body)
	}
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ext_s_echo","arguments":{"message":"the quick brown fox jumps over the lazy dog"}}}`)
	r, in, out := request(""), bytes.NewReader(nil), &writer{header: http.Header{}}
	r.Header.Set("Mcp-Session-Id", id)
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	r.Body, r.ContentLength = io.NopCloser(in), int64(len(body))
	b.ReportAllocs()
	for b.Loop() {
		in.Reset(body)
		clear(out.header)
		h.ServeHTTP(out, r)
		if out.n < size {
			b.Fatal(out.n)
		}
	}
}

// ready is a registry whose calls are done.
type ready struct {
	*thread
	raw json.RawMessage
}

func (r ready) Call(context.Context, schemas.Call) (schemas.Result, error) {
	return schemas.Result{Raw: r.raw}, nil
}

// writer takes an answer as net/http's does.
type writer struct {
	header http.Header
	n      int
}

func (w *writer) Header() http.Header              { return w.header }
func (w *writer) WriteHeader(int)                  {}
func (w *writer) SetReadDeadline(time.Time) error  { return nil }
func (w *writer) SetWriteDeadline(time.Time) error { return nil }
func (w *writer) Write(b []byte) (int, error) {
	w.n = len(b)
	return len(b), nil
}
