package registry_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/registry"
	"bobbin/schemas"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

const benchEra = "2025-11-25"

// BenchmarkCall compares Registry.Call, with policy, schema and audit, with mcp-go's bare CallTool on the same kind of
// server, in turns, and reports the ratio of the medians: below 1 is faster.
func BenchmarkCall(b *testing.B) {
	for _, wire := range []string{"stdio", "http"} {
		for name, size := range map[string]int{"43B": 43, "16KiB": 16 << 10} {
			b.Run(wire+"/"+name, func(b *testing.B) {
				h, theirs := pair(b, wire, size)
				compare(b, h, theirs)
			})
		}
	}
}

func compare(b *testing.B, h *house, theirs *client.Client) {
	ctx := background()
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = "echo", map[string]any{"text": "hi"}
	c := by(one, "s.echo", `{"text":"hi"}`)
	mine, other := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
	for b.Loop() {
		begin := time.Now()
		if _, err := h.Call(ctx, c); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if _, err := theirs.CallTool(ctx, request); err != nil {
			b.Fatal(err)
		}
		mine, other = append(mine, middle.Sub(begin)), append(other, time.Since(middle))
	}
	slices.Sort(mine)
	slices.Sort(other)
	m, o := mine[len(mine)/2], other[len(other)/2]
	b.ReportMetric(float64(m.Nanoseconds()), "ns/registry")
	b.ReportMetric(float64(o.Nanoseconds()), "ns/mcp-go")
	b.ReportMetric(float64(m)/float64(o), "ratio")
}

// pair connects both to servers of one kind.
func pair(b *testing.B, wire string, size int) (*house, *client.Client) {
	sc := script{Tools: tools(echoTool()), Lean: size}
	var h *house
	var way transport.Interface
	if wire == "stdio" {
		var p *processes
		h, p = newProcesses(b, map[string]script{"a": sc}, quietJournal)
		h.set(one, entry("s", "a"))
		child, err := p.Launch(background(), schemas.Launch{Command: "a"})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { child.Close() })
		way = transport.NewIO(child, child, io.NopCloser(strings.NewReader("")))
	} else {
		server := httptest.NewServer(webServer(sc))
		b.Cleanup(server.Close)
		h = newHouse(b, nil, quietJournal, func(o *registry.Options) {
			o.HTTP = func(schemas.ThreadID, schemas.Server) *http.Client { return server.Client() }
		})
		h.set(one, approved(schemas.Entry{Server: schemas.Server{Name: "s", Type: schemas.HTTP, URL: server.URL}, Kind: schemas.Connector, Owner: "ann", Enabled: true}))
		t, err := transport.NewStreamableHTTP(server.URL, transport.WithHTTPBasicClient(server.Client()))
		if err != nil {
			b.Fatal(err)
		}
		way = t
	}
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Ready {
		b.Fatalf("%+v", st)
	}
	theirs := client.NewClient(way, client.WithProtocolVersion(benchEra))
	if err := theirs.Start(background()); err != nil {
		b.Fatal(err)
	}
	if _, err := theirs.Initialize(background(), mcp.InitializeRequest{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = theirs.Close() })
	return h, theirs
}

// quietJournal counts nothing and keeps nothing: the audit log has benchmarks of its own.
func quietJournal(o *registry.Options) { o.Journal = noJournal{} }

type noJournal struct{}

func (noJournal) Append(_ context.Context, r schemas.Record) (schemas.Record, error) { return r, nil }

// webServer answers streamable HTTP (2025-11-25) with plain JSON.
func webServer(sc script) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || err != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if sc.Lean > 0 && bytes.Contains(body, []byte(`"tools/call"`)) {
			_, _ = io.WriteString(w, lean(body, sc.Lean))
			return
		}
		var m message
		if json.Unmarshal(body, &m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		s := &speaker{script: sc, w: w}
		s.serve(strings.NewReader(string(body) + "\n"))
		s.calls.Wait()
	})
}

// BenchmarkStart measures from Apply until 20 servers that take 200 ms each are ready, and what starting the same
// children and waiting for their first answer takes without a registry.
func BenchmarkStart(b *testing.B) {
	scripts := map[string]script{"a": {Tools: tools(echoTool()), Slow: 200 * time.Millisecond}}
	var entries []schemas.Entry
	for i := range 20 {
		entries = append(entries, entry(fmt.Sprintf("s%d", i), "a"))
	}
	measure := func(b *testing.B, h *house) float64 {
		h.set(one, entries...)
		began := time.Now()
		h.apply(one)
		took := time.Since(began)
		if n := len(h.tools(one)); n != 20 {
			b.Fatalf("%d tools", n)
		}
		h.stop()
		return float64(took.Microseconds()) / 1000
	}
	b.Run("in process", func(b *testing.B) {
		var all []float64
		for b.Loop() {
			all = append(all, measure(b, newHouse(b, scripts, quietJournal)))
		}
		b.ReportMetric(median(all), "ms/20-ready")
	})
	b.Run("children", func(b *testing.B) {
		var all, raw []float64
		for b.Loop() {
			h, p := newProcesses(b, scripts, quietJournal)
			all = append(all, measure(b, h))
			raw = append(raw, bareStart(b, p))
		}
		b.ReportMetric(median(all), "ms/20-ready")
		b.ReportMetric(median(raw), "ms/20-bare")
	})
}

// bareStart starts 20 children at once and waits for each to answer initialize.
func bareStart(b *testing.B, p *processes) float64 {
	began := time.Now()
	var wg sync.WaitGroup
	children := make([]io.ReadWriteCloser, 20)
	for n := range children {
		wg.Go(func() {
			c, err := p.Launch(background(), schemas.Launch{Command: "a"})
			if err != nil {
				b.Error(err)
				return
			}
			children[n] = c
			_, _ = io.WriteString(c, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`+"\n")
			_, _ = bufio.NewReader(c).ReadString('\n')
		})
	}
	wg.Wait()
	took := time.Since(began)
	for _, c := range children {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
	return float64(took.Microseconds()) / 1000
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkTools lists what is known.
func BenchmarkTools(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var many []json.RawMessage
			for i := range n / 2 {
				many = append(many, toolJSON(fmt.Sprintf("t%d", i), readOnly))
			}
			h := newHouse(b, map[string]script{"a": {Tools: many}}, quietJournal)
			h.set(one, entry("s", "a"), entry("t", "a"))
			h.apply(one)
			for b.Loop() {
				if list, err := h.Tools(background(), ann(one)); err != nil || len(list) != n {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}

// BenchmarkCallParallel shows what eight callers of eight servers do to each other.
func BenchmarkCallParallel(b *testing.B) {
	h := newHouse(b, map[string]script{"a": {Tools: tools(echoTool()), Lean: 43}}, quietJournal)
	var entries []schemas.Entry
	for i := range 8 {
		entries = append(entries, entry(fmt.Sprintf("s%d", i), "a"))
	}
	h.set(one, entries...)
	h.apply(one)
	b.SetParallelism(4)
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			if _, err := h.Call(background(), by(one, fmt.Sprintf("s%d.echo", i%8), `{"text":"hi"}`)); err != nil {
				b.Error(err)
			}
		}
	})
}
