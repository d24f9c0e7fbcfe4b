package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestObserve: what an operator's Prometheus and OpenTelemetry get of a call, and what they do not.
func TestObserve(t *testing.T) {
	long(t)
	linuxOnly(t)
	var mu sync.Mutex
	var sent []byte
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, body...)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	at := "127.0.0.1:" + freePort(t)
	page := serveWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}, t.TempDir(), "--metrics", at)
	room := page.open(t, "web-observed")
	room.say("/mcp add-json " + config(t, map[string]any{"demo": fake(filepath.Join(t.TempDir(), "pids"))}))
	room.choose("Confirm")
	shows(t, "a call", room.say(`/mcp call demo.echo {"message":"canary-text"}`), "Echo: canary-text")
	res, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	shows(t, "the counts", string(body), `mcp_tool_calls_total\{origin="person",outcome="ok"\} 1`, `bobbin_requests_total\{command="mcp call",door="web",outcome="ok"\} 1`, "process_resident_memory_bytes", "mcp_tool_call_duration_seconds_bucket")
	if !eventually(patience, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(string(sent), "tools/call") && strings.Contains(string(sent), "mcp call")
	}) {
		t.Error("no span came")
	}
	mu.Lock()
	defer mu.Unlock()
	for _, word := range []string{"canary-text", "web-observed", "operator"} {
		if strings.Contains(string(sent), word) || strings.Contains(string(body), word) {
			t.Errorf("%q is told", word)
		}
	}
}
