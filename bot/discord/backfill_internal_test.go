package discord

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"bobbin/bot/discord/internal/link"
	"bobbin/bot/discord/internal/wire"
)

// history is a Discord that knows one channel's messages, and tells when it is asked for them.
type history struct {
	asked  chan string
	answer chan string
}

func (h history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked <- r.URL.Query().Get("after")
	select {
	case body := <-h.answer:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	case <-r.Context().Done():
	}
}

func (h history) expect(t *testing.T, after string) {
	t.Helper()
	select {
	case got := <-h.asked:
		if got != after {
			t.Errorf("read from %s", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is read")
	}
}

func directly(id string) string {
	return `{"id":"` + id + `","channel_id":"100000000000000001","type":0,"author":{"id":"7"},"content":"hi"}`
}

// TestRefill_TheSecondGapIsReadToo cuts the connection again after the messages of the first gap were read.
func TestRefill_TheSecondGapIsReadToo(t *testing.T) {
	h := history{make(chan string), make(chan string)}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	rest, _, err := link.New(link.Options{Token: "x", Base: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	d := &Door{opt: Options{Log: slog.New(slog.DiscardHandler)}, rest: rest}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.catchUp(ctx) }()
	defer func() { cancel(); <-ended }()

	const channel = "100000000000000001"
	d.heard.visit(0, "", channel, "500")
	d.heard.gap(0, time.Now(), time.Now())
	h.expect(t, "500")
	d.heard.gap(0, time.Now(), time.Now())
	d.message(0, wire.Message{ID: "503", ChannelID: channel, Author: wire.User{ID: "7"}}) // while nothing older is answered yet
	h.answer <- "[" + directly("501") + "]"
	h.expect(t, "500")
	h.answer <- "[" + directly("503") + "," + directly("502") + "," + directly("501") + "]"
	want := []string{"501", "502", "503"}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		d.heard.mu.Lock()
		got := slices.Clone(d.heard.order)
		d.heard.mu.Unlock()
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("taken up: %v", got)
		}
	}
}
