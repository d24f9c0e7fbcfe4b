package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"bobbin/host"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

// BenchmarkCall is a call through the whole of bobbin (lookup, schema, policy, two audit records on disk, the server's process in
// its sandbox) beside mcp-go's bare CallTool to the same program, in turns. A ratio below 1 is faster.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct{ name, tool, args string }{
		{"echo", "echo", `{"message":"hi"}`},
		{"16KiB", "big", `{"size":16384}`},
	} {
		b.Run(c.name, func(b *testing.B) { compareCalls(b, c.tool, c.args) })
	}
}

func compareCalls(b *testing.B, tool, args string) {
	m := NewMain(strings.NewReader(""), os.Stdout, os.Stderr)
	m.Data, m.Sandbox = b.TempDir(), "process"
	ctx := b.Context()
	h, err := m.open(ctx, slog.New(slog.DiscardHandler), host.Connect{})
	if err != nil {
		b.Fatal(err)
	}
	run(b, h)
	caller := schemas.Caller{Thread: "t1", Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	in := mcpstore.Import("", []byte(`{"command":"fakemcp"}`), "demo")
	p, err := h.Store.Propose(ctx, caller, schemas.Edit{Put: in.Servers, Source: "add"})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := h.Store.Commit(ctx, caller, p); err != nil {
		b.Fatal(err)
	}
	if err := h.Registry.Apply(ctx, "t1"); err != nil {
		b.Fatal(err)
	}
	theirs, err := client.NewStdioMCPClient("fakemcp", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = theirs.Close() })
	if _, err := theirs.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		b.Fatal(err)
	}
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, json.RawMessage(args)
	call := schemas.Call{Caller: caller, Origin: schemas.ByPerson, Tool: "demo." + tool, Args: json.RawMessage(args)}
	var mine, other []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := h.Registry.Call(ctx, call); err != nil {
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
	ours, floor := mine[len(mine)/2], other[len(other)/2]
	b.ReportMetric(float64(ours.Microseconds()), "µs-bobbin")
	b.ReportMetric(float64(floor.Microseconds()), "µs-mcp-go")
	b.ReportMetric(float64(ours)/float64(floor), "ratio")
}
