package registry_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bobbin/registry"
	"bobbin/schemas"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func connector(name, url string, more ...func(*schemas.Entry)) schemas.Entry {
	return entry(name, "", append(more, func(e *schemas.Entry) {
		e.Type, e.URL, e.Command, e.Kind = schemas.HTTP, url, "", schemas.Connector
	})...)
}

func TestConnector_CallAndSecretHeader(t *testing.T) {
	var key atomic.Value
	mcp := webServer(script{Tools: tools(echoTool())})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key.Store(r.Header.Get("X-Api-Key"))
		mcp.ServeHTTP(w, r)
	}))
	defer server.Close()
	h := newHouse(t, nil, func(o *registry.Options) {
		o.HTTP = func(schemas.ThreadID, schemas.Server) *http.Client { return server.Client() }
	})
	e := connector("web", server.URL+"/mcp", func(e *schemas.Entry) { e.Headers = map[string]string{"X-Api-Key": "${input:KEY}"} })
	h.set(one, e)
	h.vault.values[schemas.SecretKey{Member: "ann", Thread: one, Server: "web", Name: "KEY", Origin: e.Origin()}] = "k-123456"
	h.apply(one)
	if st := h.status(one, "web"); st.State != schemas.Ready || st.Transport != schemas.HTTP || st.PID != 0 {
		t.Fatalf("%+v", st)
	}
	res, err := h.call(by(one, "web.echo", `{"text":"x"}`))
	if err != nil || text(t, res) != `{"text":"x"}` || key.Load() != "k-123456" {
		t.Fatalf("%s %v, key %v", res.Raw, err, key.Load())
	}
	h.stop()
}

func TestConnector_NeedsConnectUntilSignedIn(t *testing.T) {
	server := httptest.NewServer(webServer(script{Tools: tools(echoTool())}))
	defer server.Close()
	var signedIn atomic.Bool
	var asked atomic.Value
	h := newHouse(t, nil, func(o *registry.Options) {
		o.Credentials = func(id schemas.ThreadID, m schemas.MemberID, s schemas.Server) *http.Client {
			asked.Store(fmt.Sprint(id, m, s.Name))
			return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if !signedIn.Load() {
					return nil, &schemas.Error{Code: schemas.CodeNeeds, Text: "sign in first"}
				}
				return server.Client().Transport.RoundTrip(r)
			})}
		}
	})
	h.set(one, connector("web", server.URL, func(e *schemas.Entry) { e.Auth = &schemas.Auth{Type: "oauth", Identity: "requester"} }))
	h.apply(one)
	if st := h.status(one, "web"); st.State != schemas.NeedsConnect || st.RunsAs != "the one who asks" || asked.Load() != "T1annweb" {
		t.Fatalf("%+v %v", st, asked.Load())
	}
	_, err := h.call(by(one, "web.echo", `{}`))
	wantCode(t, err, schemas.CodeNeeds, "/mcp connect web")
	signedIn.Store(true)
	h.apply(one)
	if st := h.status(one, "web"); st.State != schemas.Ready {
		t.Fatalf("%+v", st)
	}
	if _, err := h.call(by(one, "web.echo", `{}`)); err != nil {
		t.Fatal(err)
	}
	h.stop()
}

func TestConnector_EachMemberSignsIn(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{} // member → tools/call with that member's credentials
	signedIn := map[schemas.MemberID]bool{"ann": true}
	mcp := webServer(script{Tools: tools(echoTool())})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), `"tools/call"`) {
			mu.Lock()
			seen[r.Header.Get("Authorization")]++
			mu.Unlock()
		}
		mcp.ServeHTTP(w, r)
	}))
	defer server.Close()
	h := newHouse(t, nil, func(o *registry.Options) {
		o.Credentials = func(id schemas.ThreadID, m schemas.MemberID, s schemas.Server) *http.Client {
			return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				ok := signedIn[m]
				mu.Unlock()
				if !ok {
					return nil, &schemas.Error{Code: schemas.CodeNeeds, Text: "sign in first"}
				}
				r.Header.Set("Authorization", string(m))
				return server.Client().Transport.RoundTrip(r)
			})}
		}
	})
	e := connector("web", server.URL, func(e *schemas.Entry) { e.Auth = &schemas.Auth{Type: "oauth", Identity: "requester"} })
	h.set(one, e)
	h.apply(one)
	bob := by(one, "web.echo", `{}`)
	bob.Caller.Member = "bob"
	_, err := h.call(bob)
	wantCode(t, err, schemas.CodeNeeds, "/mcp connect web")
	mu.Lock()
	signedIn["bob"] = true
	mu.Unlock()
	var wg sync.WaitGroup
	for range 5 {
		for _, c := range []schemas.Call{bob, by(one, "web.echo", `{}`)} {
			wg.Go(func() {
				if res, err := h.call(c); err != nil || res.RunsAs != c.Caller.Member {
					t.Errorf("%s: %+v %v", c.Caller.Member, res, err)
				}
			})
		}
	}
	wg.Wait()
	if seen["ann"] != 5 || seen["bob"] != 5 || len(seen) != 2 {
		t.Errorf("calls by credentials: %v", seen)
	}
	if st := h.status(one, "web"); st.State != schemas.Ready {
		t.Errorf("%+v", st)
	}
	h.set(one)
	h.apply(one)
	_, err = h.call(bob)
	wantCode(t, err, schemas.CodeNotFound)
	h.stop()
}

func TestConnector_WithoutOwnSignInNobodyBorrowsTheOwners(t *testing.T) {
	server := httptest.NewServer(webServer(script{Tools: tools(echoTool())}))
	defer server.Close()
	h := newHouse(t, nil, func(o *registry.Options) {
		o.HTTP = func(schemas.ThreadID, schemas.Server) *http.Client { return server.Client() }
	})
	h.set(one, connector("web", server.URL, func(e *schemas.Entry) { e.Auth = &schemas.Auth{Type: "oauth", Identity: "requester"} }))
	h.apply(one)
	bob := by(one, "web.echo", `{}`)
	bob.Caller.Member = "bob"
	_, err := h.call(bob)
	wantCode(t, err, schemas.CodeMissing, "runs as the one who asks")
	h.stop()
}

func TestConnector_InputMustNotChangeTheHost(t *testing.T) {
	h := newHouse(t, nil, func(o *registry.Options) {
		o.HTTP = func(schemas.ThreadID, schemas.Server) *http.Client {
			t.Error("somebody was contacted")
			return http.DefaultClient
		}
	})
	e := connector("web", "https://${input:HOST}/mcp")
	h.set(one, e)
	h.vault.values[schemas.SecretKey{Member: "ann", Thread: one, Server: "web", Name: "HOST", Origin: e.Origin()}] = "evil.example"
	h.apply(one)
	if st := h.status(one, "web"); st.State != schemas.Failed || !strings.Contains(st.Why, "must not change the host") {
		t.Fatalf("%+v", st)
	}
}
