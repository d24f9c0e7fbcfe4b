package gateway_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// connect is mcp-go's client, as somebody else's.
func connect(t *testing.T, h *house, path, version string, opts ...client.ClientOption) *client.Client {
	t.Helper()
	headers := map[string]string{"Authorization": "Bearer " + h.token(ann)}
	tr := transport.Interface(nil)
	var err error
	if strings.HasSuffix(path, "/sse") {
		tr, err = transport.NewSSE(h.url+path, transport.WithHeaders(headers))
	} else {
		o := []transport.StreamableHTTPCOption{transport.WithHTTPHeaders(headers), transport.WithHTTPBasicClient(&http.Client{})}
		if version != modern {
			o = append(o, transport.WithContinuousListening()) //lint:ignore SA1019 older clients have this stream
		}
		tr, err = transport.NewStreamableHTTP(h.url+path, o...)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(tr, opts...)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	in := mcp.InitializeRequest{}
	in.Params.ProtocolVersion, in.Params.ClientInfo = version, mcp.Implementation{Name: "test", Version: "1"}
	res, err := c.Initialize(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if version != "" && res.ProtocolVersion != version {
		t.Fatalf("it speaks %s, not %s", res.ProtocolVersion, version)
	}
	return c
}

const modern = "2026-07-28"

func said(t *testing.T, c *client.Client, name string, args any) string {
	t.Helper()
	in := mcp.CallToolRequest{}
	in.Params.Name, in.Params.Arguments = name, args
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := c.CallTool(ctx, in)
	if err != nil {
		return "error: " + err.Error()
	}
	if res.IsError {
		return "refused: " + res.Content[0].(mcp.TextContent).Text
	}
	return res.Content[0].(mcp.TextContent).Text
}

func TestClient(t *testing.T) {
	for _, c := range []struct{ name, path, version string }{
		{"2025-03-26", "/gateway/t1/mcp", "2025-03-26"},
		{"2025-06-18", "/gateway/t1/mcp", "2025-06-18"},
		{"2025-11-25", "/gateway/t1/mcp", "2025-11-25"},
		{"2026-07-28", "/gateway/t1/mcp", modern},
		{"sse", "/gateway/t1/sse", "2024-11-05"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := start(t, nil)
			cl := connect(t, h, c.path, c.version)
			list, err := cl.ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil || len(list.Tools) != 6 || list.Tools[0].Name != "ext_s_echo" || list.Tools[0].Title != "ECHO" {
				t.Fatalf("%v %+v", err, list)
			}
			if a := list.Tools[0].Annotations; a.Title != "" || a.ReadOnlyHint == nil || !*a.ReadOnlyHint {
				t.Errorf("annotations %+v", a)
			}
			if got := said(t, cl, "ext_s_echo", map[string]any{"a": 1}); got != `{"a":1}` {
				t.Errorf("echo gave %q", got)
			}
			if got := said(t, cl, "ext_s_big", nil); len(got) != big+1 {
				t.Errorf("%d of %d bytes", len(got), big+1)
			}
			if got := said(t, cl, "ext_s_deny", nil); got != "refused: denied: s.deny · ask a manager" {
				t.Errorf("deny gave %q", got)
			}
			if got := said(t, cl, "ext_s_args", nil); !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "a: must be a number") {
				t.Errorf("args gave %q", got)
			}
			if got := said(t, cl, "nothing", nil); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "no tool is called that") {
				t.Errorf("an unknown tool gave %q", got)
			}
			if got := said(t, cl, "ext_s_crash", nil); !strings.Contains(got, "7f3c") {
				t.Errorf("crash gave %q", got)
			}
			last := h.thread.calls[0]
			if last.Caller.Member != "ann" || last.Caller.Thread != "t1" || last.Caller.Door != "gateway" || last.Origin != "gateway" || last.Caller.Operator || last.Caller.Role != 1 {
				t.Errorf("called as %+v, %s", last.Caller, last.Origin)
			}
			read := mcp.ReadResourceRequest{}
			for uri, want := range map[string]string{"test://a": "of s", "bobbin:s:test://a": "of s", "bobbin:z:test://a": "of z", "test://t/7/data": "of z", "bobbin:z:test://t/7/data": "of z"} {
				read.Params.URI = uri
				res, err := cl.ReadResource(t.Context(), read)
				if err != nil || res.Contents[0].(mcp.TextResourceContents).Text != want {
					t.Errorf("%s: %v %+v", uri, err, res)
				}
			}
			var places []string
			if all, err := cl.ListResources(t.Context(), mcp.ListResourcesRequest{}); err != nil {
				t.Error(err)
			} else {
				for _, r := range all.Resources {
					places = append(places, r.URI)
				}
			}
			if !slices.Equal(places, []string{"test://a", "bobbin:z:test://a"}) {
				t.Errorf("resources at %q", places)
			}
			get := mcp.GetPromptRequest{}
			for name, want := range map[string]string{"hello": "s.hello bob", "z.both": "z.both bob"} {
				get.Params.Name, get.Params.Arguments = name, map[string]string{"who": "bob"}
				res, err := cl.GetPrompt(t.Context(), get)
				if err != nil || res.Messages[0].Content.(mcp.TextContent).Text != want {
					t.Errorf("%s: %v %+v", name, err, res)
				}
			}
		})
	}
}
