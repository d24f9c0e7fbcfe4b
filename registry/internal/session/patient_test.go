package session_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/internal/safehttp"
	"bobbin/registry/internal/session"
)

// A person may take longer to answer than any time-out of HTTP clients and servers in between; mcp-go's own client loses an answer
// that comes after 30 s. The guarded client of production is on the way, with all its limits.
func TestLegacy_AnswerAfter33Seconds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 33 s")
	}
	t.Parallel()
	const thinking = 33 * time.Second
	for _, transport := range []string{"http", "sse"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			answers := make(chan json.RawMessage, 1)
			f := &fake{t: t}
			ask := func(m message, send func(string)) string {
				send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"form","message":"name?","requestedSchema":{"type":"object"}}}`)
				return `{"content":[{"type":"text","text":` + string(quoted(string(<-answers))) + `}]}`
			}
			f.on = map[string]func(message, func(string)) string{"tools/call": ask, "": func(m message, _ func(string)) string {
				answers <- m.Result
				return ""
			}}
			var late sync.WaitGroup
			var o session.Options
			if transport == "http" {
				o = serve(t, &site{fake: f, sse: true})
			} else {
				f.on["tools/call"] = func(m message, send func(string)) string { // its POST is answered at once
					late.Go(func() { send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + ask(m, send) + `}`) })
					return ""
				}
				o = serve(t, &oldSite{fake: f, endpoint: "/messages", stream: make(chan string, 64), hangUp: make(chan struct{})})
				o.SSE = true
			}
			defer late.Wait()
			o.Client = safehttp.New(safehttp.Options{AllowLoopback: true, HeaderTimeout: 10 * time.Minute})
			o.OnElicit = func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				select {
				case <-time.After(thinking):
					return json.RawMessage(`{"action":"accept","content":{"name":"Ann"}}`), nil
				case <-ctx.Done():
					t.Error("the question ended early")
					return nil, ctx.Err()
				}
			}
			s := open(t, o)
			if i := s.Info(); i.Transport != transport || i.Protocol != legacyEra {
				t.Fatalf("info %+v", i)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*thinking)
			defer cancel()
			began := time.Now()
			got, err := s.Call(ctx, "x", nil, nil)
			if err != nil || !strings.Contains(string(got), `\"name\":\"Ann\"`) || time.Since(began) < thinking {
				t.Errorf("after %s: %s, %v", time.Since(began), got, err)
			}
		})
	}
}

func quoted(s string) []byte { b, _ := json.Marshal(s); return b }
