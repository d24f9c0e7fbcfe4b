package registry_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bobbin/internal/safehttp"
	"bobbin/registry"
	"bobbin/schemas"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func probing(t *testing.T) *house {
	client := safehttp.New(safehttp.Options{AllowLoopback: true})
	return newHouse(t, nil, func(o *registry.Options) {
		o.HTTP = func(schemas.ThreadID, schemas.Server) *http.Client { return client }
	})
}

func TestProbe(t *testing.T) {
	var key atomic.Value
	mcp := webServer(script{Tools: tools(echoTool(), toolJSON("delete_all"))})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key.Store(r.Header.Get("X-Api-Key"))
		mcp.ServeHTTP(w, r)
	}))
	defer srv.Close()
	h := probing(t)
	s := schemas.Server{Name: "new", Type: schemas.HTTP, URL: srv.URL + "/mcp", Headers: map[string]string{"X-Api-Key": "${input:KEY}"}}
	p, err := h.Probe(t.Context(), ann(one), s, map[string]schemas.Secret{"KEY": schemas.NewSecret("k-1")})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Tools) != 2 || p.Tokens == 0 || p.Writing == 0 || p.Transport != schemas.HTTP || p.Protocol == "" || key.Load() != "k-1" {
		t.Errorf("%+v, key %v", p, key.Load())
	}
	if ss, err := h.Status(t.Context(), one); err != nil || len(ss) != 0 {
		t.Errorf("something stayed: %v %v", ss, err)
	}
	if rec := h.journal.last(); rec.Event != schemas.EventServer || rec.Server != "new" {
		t.Errorf("%+v", rec)
	}
	h.stop()
}

func TestProbe_Refusals(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		code   schemas.Code
		words  string
	}{
		"wants a sign-in": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, schemas.CodeNeeds, "wants a sign-in or a key"},
		"refuses":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, schemas.CodeFailed, "HTTP 403"},
		"nothing there":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, schemas.CodeFailed, "no MCP server at this address"},
		"out of order":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, schemas.CodeFailed, "out of order"},
		"a web page":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello")) }, schemas.CodeFailed, "not in MCP"},
		"sends us on": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, schemas.CodeFailed, "sends me on"},
		"says far too much": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 10 << 10 {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1024))); err != nil {
					return
				}
			}
		}, schemas.CodeFailed, "more than I read"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(c.answer))
			defer srv.Close()
			h := probing(t)
			_, err := h.Probe(t.Context(), ann(one), schemas.Server{Name: "new", Type: schemas.HTTP, URL: srv.URL + "/mcp"}, nil)
			wantCode(t, err, c.code, c.words)
			h.stop()
		})
	}
	h := probing(t)
	_, err := h.Probe(t.Context(), ann(one), schemas.Server{Name: "new", Type: schemas.HTTP, URL: "https://169.254.169.254/mcp"}, nil)
	wantCode(t, err, schemas.CodeFailed, "private network")
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	_, err = h.Probe(t.Context(), ann(one), schemas.Server{Name: "new", Type: schemas.HTTP, URL: dead.URL}, nil)
	wantCode(t, err, schemas.CodeNotReady, "cannot be reached")
	guest := ann(one)
	guest.Role = schemas.Guest
	_, err = h.Probe(t.Context(), guest, schemas.Server{Name: "new", Type: schemas.HTTP, URL: other.URL}, nil)
	wantCode(t, err, schemas.CodeDenied)
	if elsewhere.Load() != 0 {
		t.Error("somebody else was contacted")
	}
}

// TestProbe_SSE is asked for streamable HTTP and says that the server speaks the older transport.
func TestProbe_SSE(t *testing.T) {
	site := httptest.NewUnstartedServer(nil)
	old := server.NewMCPServer("old", "1.0", server.WithToolCapabilities(true))
	old.AddTool(mcp.NewTool("echo"), nil)
	site.Config.Handler = server.NewSSEServer(old, server.WithBaseURL("http://"+site.Listener.Addr().String()))
	site.Start()
	t.Cleanup(func() { site.CloseClientConnections(); site.Close() })
	h := probing(t)
	p, err := h.Probe(t.Context(), ann(one), schemas.Server{Name: "new", Type: schemas.HTTP, URL: site.URL + "/sse"}, nil)
	if err != nil || p.Transport != schemas.SSE || p.Name != "old" || len(p.Tools) != 1 || p.Tools[0].Kind != schemas.Connector {
		t.Errorf("%+v %v", p, err)
	}
	h.stop()
}

// TestProbe_Slow waits for nobody longer than it is allowed to: neither for an answer nor for a goodbye.
func TestProbe_Slow(t *testing.T) {
	mcp := webServer(script{Tools: tools(echoTool())})
	for name, c := range map[string]struct {
		hangs func(method, body string) bool
		code  schemas.Code
		limit time.Duration
	}{
		"says nothing":  {func(string, string) bool { return true }, schemas.CodeFailed, time.Second},
		"lists nothing": {func(_, body string) bool { return strings.Contains(body, `"tools/list"`) }, schemas.CodeFailed, 4 * time.Second},
		"no goodbye":    {func(method, _ string) bool { return method == http.MethodDelete }, "", 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if c.hangs(r.Method, string(body)) {
					<-r.Context().Done()
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				w.Header().Set("Mcp-Session-Id", "s1")
				mcp.ServeHTTP(w, r)
			}))
			t.Cleanup(srv.Close)
			h := probing(t)
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := h.Probe(ctx, ann(one), schemas.Server{Name: "new", Type: schemas.HTTP, URL: srv.URL}, nil)
			if took := time.Since(began); took > c.limit {
				t.Errorf("took %v", took)
			}
			if schemas.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), "did not answer in time") {
				t.Errorf("%v", err)
			}
			h.stop()
		})
	}
}

// TestProbe_SecretsStayAtHome shows a key to the host that it was given for and to nobody else, and never before a valid certificate.
func TestProbe_SecretsStayAtHome(t *testing.T) {
	var others, keys atomic.Int32
	spy := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		others.Add(1)
		if r.Header.Get("X-Api-Key") != "" {
			keys.Add(1)
		}
	})
	other, tls := httptest.NewServer(spy), httptest.NewUnstartedServer(spy)
	tls.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused handshake is what is wanted
	tls.StartTLS()
	moved := httptest.NewServer(http.RedirectHandler(other.URL+"/mcp", http.StatusPermanentRedirect))
	t.Cleanup(func() { other.Close(); tls.Close(); moved.Close() })
	h := probing(t)
	key := map[string]schemas.Secret{"KEY": schemas.NewSecret("k-1"), "HOST": schemas.NewSecret(strings.TrimPrefix(other.URL, "http://"))}
	for words, url := range map[string]string{"sends me on": moved.URL, "no valid certificate": tls.URL, "must not change the host": "http://${input:HOST}/mcp"} {
		_, err := h.Probe(t.Context(), ann(one), schemas.Server{Name: "new", Type: schemas.HTTP, URL: url, Headers: map[string]string{"X-Api-Key": "${input:KEY}"}}, key)
		if schemas.CodeOf(err) == "" || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "k-1") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if others.Load() != 0 || keys.Load() != 0 {
		t.Errorf("%d requests elsewhere, %d with the key", others.Load(), keys.Load())
	}
	h.stop()
}

// TestProbe_AsTheCaller uses the sign-in of whoever asks, in that thread, and leaves no request behind.
func TestProbe_AsTheCaller(t *testing.T) {
	a, h := newAccounts(t, "bob")
	s := a.entry(nil).Server
	bob := as("bob").Caller
	if p, err := h.Probe(t.Context(), bob, s, nil); err != nil || len(p.Tools) != 1 {
		t.Fatalf("%+v %v", p, err)
	}
	_, err := h.Probe(t.Context(), ann(one), s, nil)
	wantCode(t, err, schemas.CodeNeeds, "needs you to sign in")
	if a.starts("bob") == 0 || a.starts("ann") != 0 || a.starts("") != 0 {
		t.Errorf("begun %v", a.begun)
	}
	before := a.tries.Load()
	h.stop()
	if a.tries.Load() != before {
		t.Error("a session was left")
	}
}
