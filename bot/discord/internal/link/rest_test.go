package link_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/bot/discord/internal/link"
	"bobbin/bot/discord/internal/wire"
)

const token = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GfAkE0.secret-of-the-bot"

// peer answers requests; it is what stands in Discord's place.
func peer(t *testing.T, h http.HandlerFunc) (*link.Rest, *bytes.Buffer) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	var log bytes.Buffer
	r, _, err := link.New(link.Options{Token: token, Base: srv.URL + "/api/v10/", Version: "test", Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	return r, &log
}

func ix(n int) wire.Interaction {
	return wire.Interaction{ID: fmt.Sprintf("10%d", n), ApplicationID: "77", Token: fmt.Sprintf("interaction-secret-%d", n)}
}

func TestRest_NoTokenInErrorsOrLog(t *testing.T) {
	r, log := peer(t, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case strings.Contains(req.URL.Path, "callback"):
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"code":50035,"message":"bad %s","errors":{"x":"%s"}}`, token, req.URL.Path)
		default:
			panic(http.ErrAbortHandler)
		}
	})
	i := ix(1)
	var all []error
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	all = append(all, r.Callback(ctx, i, wire.Callback{Type: 5}))
	_, err := r.EditOriginal(ctx, i, wire.Outgoing{Content: "x"})
	all = append(all, err, r.Typing(ctx, "5"))
	for _, err := range all {
		if err == nil {
			t.Error("no error")
			continue
		}
		if text := err.Error() + log.String(); strings.Contains(text, "secret") {
			t.Errorf("a token shows: %s", text)
		}
	}
	if link.CodeOf(all[0]) != 50035 {
		t.Errorf("the code is lost: %v", all[0])
	}
}

// One member who is rate limited holds nobody else up (discordgo #1384).
func TestRest_InteractionsDoNotWaitForEachOther(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	r, _ := peer(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		seen[req.URL.Path]++
		first := seen[req.URL.Path] == 1
		mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		if first && strings.Contains(req.URL.Path, "secret-0") {
			w.Header().Set("X-RateLimit-Reset-After", "1.0")
			w.WriteHeader(429)
			fmt.Fprint(w, `{"message":"slow","retry_after":1.0,"global":false}`)
			return
		}
		fmt.Fprint(w, `{"id":"1"}`)
	})
	began := time.Now()
	took := make([]time.Duration, 30)
	var all sync.WaitGroup
	for n := range took {
		all.Go(func() {
			if _, err := r.EditOriginal(t.Context(), ix(n), wire.Outgoing{Content: "x"}); err != nil {
				t.Error(err)
			}
			took[n] = time.Since(began)
		})
	}
	all.Wait()
	if took[0] < time.Second {
		t.Errorf("a 429 was not obeyed: %s", took[0])
	}
	for n, d := range took[1:] {
		if d > 900*time.Millisecond {
			t.Errorf("interaction %d waited %s", n+1, d)
		}
	}
}

func TestRest_SendsOnceThoughItRetries(t *testing.T) {
	var nonces []string
	var mu sync.Mutex
	r, _ := peer(t, func(w http.ResponseWriter, req *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(req.Body)
		mu.Lock()
		defer mu.Unlock()
		_, nonce, _ := strings.Cut(b.String(), `"nonce":`)
		nonces = append(nonces, nonce[:min(len(nonce), 10)])
		if len(nonces) < 3 {
			w.WriteHeader(503)
			return
		}
		if req.Header.Get("Authorization") != "Bot "+token || !strings.Contains(b.String(), `"enforce_nonce":true`) || !strings.Contains(b.String(), `"allowed_mentions":{"parse":[]`) {
			t.Errorf("sent %s", b.String())
		}
		fmt.Fprint(w, `{"id":"9"}`)
	})
	s, err := r.Send(t.Context(), "5", wire.Outgoing{Content: "x"})
	if err != nil || s.ID != "9" {
		t.Fatal(s, err)
	}
	if len(nonces) != 3 || nonces[0] == "" || nonces[0] != nonces[1] || nonces[1] != nonces[2] {
		t.Errorf("nonces %q", nonces)
	}
	nonces = nil
	if _, err := r.Followup(t.Context(), ix(1), wire.Outgoing{Content: "x"}); err == nil || len(nonces) != 1 {
		t.Errorf("a follow-up, which has no nonce, was sent %d times, %v", len(nonces), err)
	}
}

func TestDownload_OnlyFromDiscord(t *testing.T) {
	r, _ := peer(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/attachments/1/2/mcp.json":
			fmt.Fprint(w, strings.Repeat("x", 100))
		case "/attachments/redirect":
			http.Redirect(w, req, "/attachments/1/2/mcp.json", http.StatusFound)
		}
	})
	if data, err := r.Download(t.Context(), "https://cdn.discordapp.com/attachments/1/2/mcp.json?ex=1", 10); err != nil || len(data) != 11 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for _, bad := range []string{"https://evil.example/x", "http://cdn.discordapp.com/attachments/1/2/mcp.json", "https://cdn.discordapp.com@evil.example/x", "https://cdn.discordapp.com:8080/x",
		"https://cdn.discordapp.com/attachments/redirect", "file:///etc/passwd", "https://cdn.discordapp.com.evil.example/x"} {
		if data, err := r.Download(t.Context(), bad, 10); err == nil {
			t.Errorf("%s gave %d bytes", bad, len(data))
		}
	}
}

func TestNew_ToldInWords(t *testing.T) {
	for _, o := range []link.Options{{}, {Token: token, Base: "discord"}, {Token: token, Base: "ftp://x"}, {Token: token, Base: "http://user:pw@x"}, {Token: token, Base: "http://x/else"}} {
		if _, _, err := link.New(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
