package registry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"bobbin/internal/safehttp"
	"bobbin/registry"
	"bobbin/schemas"
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
