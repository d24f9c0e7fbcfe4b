package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"bobbin/registry/internal/session"
)

// realServer is mcp-go's server with a few tools.
func realServer() *server.MCPServer {
	srv := server.NewMCPServer("real", "9", server.WithToolCapabilities(true), server.WithElicitation())
	srv.AddTool(mcp.NewTool("echo", mcp.WithString("text")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	srv.AddTool(mcp.NewTool("big"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("lorem ipsum ", 16<<10/12)), nil
	})
	srv.AddTool(mcp.NewTool("grow"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		srv.AddTool(mcp.NewTool("grown"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("!"), nil
		})
		return mcp.NewToolResultText("grown"), nil
	})
	srv.AddTool(mcp.NewTool("ask"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.RequestState != "" {
			answer := r.Params.InputResponses["q"]
			err := answer.DecodeFor(mcp.MethodElicitationCreate)
			return mcp.NewToolResultText(fmt.Sprint(answer.Elicitation.Action, answer.Elicitation.Content)), err
		}
		got, err := srv.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: "name?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}})
		if err != nil && strings.Contains(err.Error(), "InputRequests") { // 2026-07-28
			more := mcp.NewInputRequiredResult(mcp.InputRequests{"q": mcp.NewElicitationInputRequest(mcp.ElicitationParams{
				Message: "name?", RequestedSchema: map[string]any{"type": "object"},
			})}, "<state>")
			return &mcp.CallToolResult{Result: more.Result, MultiRoundTripResult: more.MultiRoundTripResult}, nil
		}
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprint(got.Action, got.Content)), nil
	})
	return srv
}

// realStdio runs the server on the far end of a pipe.
func realStdio(t testing.TB) *child {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.NewStdioServer(realServer()).Listen(ctx, far, far)
	}()
	t.Cleanup(func() { near.Close(); far.Close(); cancel(); <-ended })
	return &child{Conn: near}
}

func TestRealPeer(t *testing.T) {
	for _, kind := range []string{"stdio", "stdio modern", "http", "http legacy", "sse"} {
		t.Run(kind, func(t *testing.T) {
			var o session.Options
			switch kind {
			case "stdio", "stdio modern":
				o = session.Options{Stdio: realStdio(t)}
			case "sse":
				site := httptest.NewUnstartedServer(nil)
				real := server.NewSSEServer(realServer(), server.WithBaseURL("http://"+site.Listener.Addr().String()))
				site.Config.Handler = real
				site.Start()
				t.Cleanup(func() { site.CloseClientConnections(); site.Close() })
				o = session.Options{URL: site.URL + "/sse", Client: site.Client()}
			default:
				o = serve(t, server.NewStreamableHTTPServer(realServer(), server.WithStateful(true)))
			}
			switch kind {
			case "stdio modern":
				o.Era = modernEra
			case "http legacy":
				o.Era = legacyEra
			}
			changed := make(chan string, 64)
			o.OnNotify = func(method string, _ json.RawMessage) {
				if strings.HasSuffix(method, "list_changed") {
					changed <- method
				}
			}
			o.OnElicit = func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`), nil
			}
			s := open(t, o)
			want := map[string]string{"stdio": legacyEra, "stdio modern": modernEra, "http": modernEra, "http legacy": legacyEra, "sse": legacyEra}[kind]
			if i := s.Info(); i.Protocol != want || i.Name != "real" || !i.ToolsChange {
				t.Errorf("info %+v", i)
			}
			l, err := s.ListTools(t.Context())
			if err != nil || len(l.Items) != 4 {
				t.Fatalf("tools %s, %v", l.Items, err)
			}
			got, err := s.Call(t.Context(), "echo", json.RawMessage(`{"text":"hëllo"}`), nil)
			if err != nil || !strings.Contains(string(got), `"text":"hëllo"`) {
				t.Fatalf("echo %s, %v", got, err)
			}
			if got, err := s.Call(t.Context(), "nope", nil, nil); err == nil && !strings.Contains(string(got), "isError") {
				t.Errorf("unknown tool: %s", got)
			}
			if kind != "sse" { // mcp-go's SSE server asks only by another way
				got, err = s.Call(t.Context(), "ask", nil, nil)
				if err != nil || !strings.Contains(string(got), "acceptmap[name:Ada]") {
					t.Errorf("ask: %s, %v", got, err)
				}
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
			eventually(t, "a list change", func() bool {
				if _, err := s.Call(t.Context(), "grow", nil, nil); err != nil {
					t.Fatalf("grow: %v", err)
				}
				return len(changed) > 0
			})
		})
	}
}
