package session_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"bobbin/registry/internal/session"
)

// TestServer is no test: it is the stdio server that the benchmark starts.
func TestServer(t *testing.T) {
	if os.Getenv("SESSION_TEST_SERVER") == "" {
		t.Skip("only for the benchmark")
	}
	_ = server.NewStdioServer(realServer()).Listen(context.Background(), os.Stdin, os.Stdout)
	os.Exit(0)
}

type process struct {
	io.Reader
	io.WriteCloser
}

func spawn(b *testing.B) *process {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServer$")
	cmd.Env = append(os.Environ(), "SESSION_TEST_SERVER=1")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmd.Start(); err1 != nil || err2 != nil || err != nil {
		b.Fatal(err1, err2, err)
	}
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return &process{out, in}
}

// BenchmarkCall compares Session.Call with mcp-go's CallTool on the same kind
// of server, in turns, and reports the ratio of the medians: below 1 is faster.
func BenchmarkCall(b *testing.B) {
	for _, wire := range []string{"stdio", "http", "lean http"} {
		for _, tool := range []string{"echo", "big"} {
			b.Run(wire+"/"+map[string]string{"echo": "43B", "big": "16KiB"}[tool], func(b *testing.B) { compare(b, wire, tool) })
		}
	}
}

func compare(b *testing.B, wire, tool string) {
	ctx := context.Background()
	s, c := pair(b, wire)
	args := json.RawMessage(`{"text":"hi"}`)
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, map[string]any{"text": "hi"}
	ours, theirs := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
	for range b.N {
		begin := time.Now()
		if _, err := s.Call(ctx, tool, args, nil); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if _, err := c.CallTool(ctx, request); err != nil {
			b.Fatal(err)
		}
		ours, theirs = append(ours, middle.Sub(begin)), append(theirs, time.Since(middle))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	mine, other := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(float64(mine.Nanoseconds()), "ns/ours")
	b.ReportMetric(float64(other.Nanoseconds()), "ns/mcp-go")
	b.ReportMetric(float64(mine)/float64(other), "ratio")
}

// pair connects both clients in the same protocol version.
func pair(b *testing.B, wire string) (*session.Session, *client.Client) {
	b.Helper()
	o := session.Options{Name: "bench", Era: legacyEra}
	var theirs transport.Interface
	if wire == "stdio" {
		o.Stdio = spawn(b)
		p := spawn(b)
		theirs = transport.NewIO(p.Reader, p.WriteCloser, io.NopCloser(&emptyReader{}))
	} else {
		var handler http.Handler = server.NewStreamableHTTPServer(realServer(), server.WithStateful(true))
		if wire == "lean http" {
			handler = lean(b)
		}
		so := serve(b, handler)
		o.URL, o.Client = so.URL, so.Client
		t, err := transport.NewStreamableHTTP(so.URL, transport.WithHTTPBasicClient(so.Client))
		if err != nil {
			b.Fatal(err)
		}
		theirs = t
	}
	s, err := session.Open(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	c := client.NewClient(theirs, client.WithProtocolVersion(legacyEra))
	if err := c.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Initialize(context.Background(), mcp.InitializeRequest{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(context.Background()); _ = c.Close() })
	return s, c
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, io.EOF }

// lean answers from memory, so that the clients are what is measured.
func lean(b *testing.B) http.Handler {
	small := `{"content":[{"type":"text","text":"hi there"}]}`
	big := `{"content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum ", 16<<10/12) + `"}]}`
	f := &fake{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if err := json.Unmarshal(body, &m); err != nil && r.Method == http.MethodPost {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		result := ""
		switch {
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "tools/call" && m.Params.Name == "big":
			result = big
		case m.Method == "tools/call":
			result = small
		default:
			result = f.preset(message{ID: m.ID, Method: m.Method})
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
	})
}
