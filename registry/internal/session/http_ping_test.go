package session_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"bobbin/registry/internal/session"
)

// TestHTTP_PingsDoNotExtendACall: comments keep a stream open, but not a call.
func TestHTTP_PingsDoNotExtendACall(t *testing.T) {
	st := &site{fake: &fake{t: t}}
	o := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Header.Get("Mcp-Protocol-Version") == "x" || r.Header.Get("Mcp-Session-Id") == "x" {
			t.Error("a header of the file speaks for the protocol")
		}
		if !bytes.Contains(body, []byte("tools/call")) {
			st.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, ": ping\n\nid: 1\n\nevent: tick\n\n"); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
	}))
	for _, name := range []string{"mcp-protocol-version", "Mcp-Session-Id", "last-event-id"} {
		o.Headers[name] = "x"
	}
	s := open(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.Call(ctx, "x", nil, nil)
	if !errors.Is(err, session.ErrLost) || time.Since(began) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
