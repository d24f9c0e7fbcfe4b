package main

import (
	"bufio"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"bobbin/host"
	"bobbin/schemas"
)

// tokenLife is short, so that a test can wait for its end.
const tokenLife = "4"

// authorizationServer starts oidc-provider behind a proxy that counts what it is asked.
type authorizationServer struct {
	url  string
	mu   sync.Mutex
	hits map[string]int
}

func (a *authorizationServer) count(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits[path]
}

func startAuthorizationServer(t *testing.T, at, resource string) *authorizationServer {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "testdata", "oidc"))
	if err != nil {
		t.Fatal(err)
	}
	node := suiteNode(t)
	if !exists(node) || !exists(filepath.Join(dir, "node_modules", "oidc-provider")) {
		missing(t, "the authorization server is not installed; scripts/tools installs it")
	}
	port := freePort(t)
	behind, _ := url.Parse("http://127.0.0.1:" + port)
	a := &authorizationServer{hits: map[string]int{}}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind); r.Out.Host = r.In.Host }}
	a.url = serveAt(t, at, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.hits[r.URL.Path]++
		a.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	cmd := exec.Command(node, filepath.Join(dir, "server.mjs"))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PORT=" + port, "ISSUER=" + a.url, "RESOURCE=" + resource, "TTL=" + tokenLife}
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	up := make(chan string, 1)
	go func() { line, _ := bufio.NewReader(out).ReadString('\n'); up <- line }()
	select {
	case line := <-up:
		if strings.TrimSpace(line) != a.url {
			t.Fatalf("the authorization server says %q", line)
		}
	case <-time.After(patience):
		t.Fatal("the authorization server does not start")
	}
	return a
}

// suiteNode is the Node that the suite and the authorization server need.
func suiteNode(t testing.TB) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	node, err := filepath.Abs(filepath.Join("..", "..", "testdata", "conformance", "node_modules", "node-linux-"+arch, "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	return node
}

type claims struct {
	Sub, Scope, Iss string
	Aud             any
	Exp             int64
}

// resourceServer is an MCP server that takes the authorization server's signed tokens for itself alone.
type resourceServer struct {
	url    string
	issuer func() string
	keys   sync.Map
}

type subject struct{}

func startResourceServer(t *testing.T, at string) *resourceServer {
	t.Helper()
	r := &resourceServer{}
	m := mcpserver.NewMCPServer("notes", "1", mcpserver.WithToolCapabilities(false))
	who := func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(req.Params.Name + " as " + ctx.Value(subject{}).(string)), nil
	}
	m.AddTool(mcp.NewTool("whoami", mcp.WithReadOnlyHintAnnotation(true)), who)
	m.AddTool(mcp.NewTool("add_note", mcp.WithDestructiveHintAnnotation(false)), who)
	inner := mcpserver.NewStreamableHTTPServer(m, mcpserver.WithEndpointPath("/mcp"), mcpserver.WithHTTPContextFunc(func(ctx context.Context, req *http.Request) context.Context {
		return context.WithValue(ctx, subject{}, req.Header.Get("X-Subject"))
	}))
	r.url = serveAt(t, at, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		prm := r.url + "/.well-known/oauth-protected-resource/mcp"
		if req.URL.Path == "/.well-known/oauth-protected-resource/mcp" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"resource": r.url + "/mcp", "authorization_servers": []string{r.issuer()}, "scopes_supported": []string{"notes:read"}})
			return
		}
		c, err := r.verify(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "))
		if err != nil {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+prm+`"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(req.Body)
		if strings.Contains(string(body), `"name":"add_note"`) && !slices.Contains(strings.Fields(c.Scope), "notes:write") {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="notes:write", resource_metadata="`+prm+`"`)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		req.Header.Set("X-Subject", c.Sub)
		inner.ServeHTTP(w, req)
	}))
	return r
}

// serveAt serves at an address of this machine and gives the origin.
func serveAt(t *testing.T, at string, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// verify checks a token's signature, issuer, audience and end (RFC 9068, section 4).
func (r *resourceServer) verify(token string) (claims, error) {
	var c claims
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, errors.New("no token")
	}
	key, err := r.key()
	if err != nil {
		return c, err
	}
	sig, _ := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig); err != nil {
		return c, err
	}
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, err
	}
	if c.Iss != r.issuer() || c.Aud != r.url+"/mcp" || time.Now().Unix() >= c.Exp {
		return c, errors.New("not for this server, or over")
	}
	return c, nil
}

func (r *resourceServer) key() (*rsa.PublicKey, error) {
	if k, ok := r.keys.Load("k"); ok {
		return k.(*rsa.PublicKey), nil
	}
	resp, err := http.Get(r.issuer() + "/jwks")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var set struct{ Keys []struct{ N, E string } }
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		return nil, err
	}
	n, _ := base64.RawURLEncoding.DecodeString(set.Keys[0].N)
	e, _ := base64.RawURLEncoding.DecodeString(set.Keys[0].E)
	k := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	r.keys.Store("k", k)
	return k, nil
}

// TestRealAuthorizationServer signs in at oidc-provider: two members at once, a third who refuses, step-up, refresh with rotation by ten
// callers at once, and sign-out.
func TestRealAuthorizationServer(t *testing.T) {
	long(t)
	linuxOnly(t)
	notes := startResourceServer(t, "127.0.0.1")
	as := &authorizationServer{}
	notes.issuer = func() string { return as.url }
	as = startAuthorizationServer(t, "127.0.0.1", notes.url+"/mcp")

	var h *host.Host
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.SignIns.Handler().ServeHTTP(w, r) }))
	defer pages.Close()
	h, err := host.Open(t.Context(), host.Options{Data: t.TempDir(), Sandbox: "off", Version: "test", Log: slog.New(slog.DiscardHandler), Loopback: true,
		Connect: host.Connect{Local: func() (string, error) { return pages.URL, nil }}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- h.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
	defer func() { cancel(); <-over }()

	member := func(name string) schemas.Caller {
		return schemas.Caller{Thread: "web-notes", Member: schemas.MemberID(name), Name: name, Door: schemas.DoorWeb, Role: schemas.Manager, Operator: true}
	}
	alice, bob, carol := member("alice"), member("bob"), member("carol")
	s := schemas.Server{Name: "notes", Type: schemas.HTTP, URL: notes.url + "/mcp", Auth: &schemas.Auth{Type: "oauth", Identity: "requester"}}
	p, err := h.Store.Propose(ctx, alice, schemas.Edit{Put: []schemas.Draft{{Server: s}}, Source: "connect"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store.Commit(ctx, alice, p); err != nil {
		t.Fatal(err)
	}
	call := func(c schemas.Caller, tool string) (string, error) {
		res, err := h.Registry.Call(ctx, schemas.Call{Caller: c, Origin: schemas.ByPerson, Tool: "notes." + tool})
		return string(res.Raw), err
	}
	signIn := func(c schemas.Caller, fields map[string]string) error {
		link, err := h.SignIns.Link(ctx, schemas.SignIn{Caller: c, Server: s, Shared: "only you"})
		if err != nil {
			return err
		}
		if page, err := newBrowser(nil).walk(ctx, link.URL, fields); err != nil {
			t.Logf("%s: %s", c.Name, page)
			return err
		}
		return h.SignIns.Finish(ctx, c, link.ID, "")
	}
	login := func(c schemas.Caller) map[string]string { return map[string]string{"login": c.Name, "password": "any"} }

	if err := h.Registry.Apply(ctx, alice.Thread); err != nil {
		t.Fatal(err)
	}
	if ss, _ := h.Registry.Status(ctx, alice.Thread); ss[0].State != schemas.NeedsConnect {
		t.Fatalf("before anybody signed in: %+v", ss[0])
	}
	var wg sync.WaitGroup
	for _, c := range []schemas.Caller{alice, bob} {
		wg.Go(func() {
			if err := signIn(c, login(c)); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		})
	}
	wg.Wait()
	if err := signIn(carol, map[string]string{"login": "carol", "password": "any", "refuse": "yes"}); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Errorf("carol, who refuses: %v", err)
	}
	if n := as.count("/reg"); n != 1 {
		t.Errorf("registered %d times", n)
	}
	if err := h.Registry.Apply(ctx, alice.Thread); err != nil {
		t.Fatal(err)
	}
	for _, c := range []schemas.Caller{alice, bob} {
		if got, err := call(c, "whoami"); err != nil || !strings.Contains(got, "whoami as "+c.Name) {
			t.Errorf("%s: %s %v", c.Name, got, err)
		}
	}
	if _, err := call(carol, "whoami"); schemas.CodeOf(err) != schemas.CodeNeeds {
		t.Errorf("carol: %v", err)
	}
	if _, err := call(alice, "add_note"); schemas.CodeOf(err) != schemas.CodeNeeds || !strings.Contains(err.Error(), "more rights") {
		t.Errorf("without the scope: %v", err)
	}
	if err := signIn(alice, login(alice)); err != nil {
		t.Fatalf("the step-up: %v", err)
	}
	for _, tool := range []string{"add_note", "whoami"} {
		if got, err := call(alice, tool); err != nil || !strings.Contains(got, tool+" as alice") {
			t.Errorf("after the step-up: %s %v", got, err)
		}
	}
	for round := range 2 { // the second round refreshes with the rotated token
		time.Sleep(4500 * time.Millisecond)
		before := as.count("/token")
		for range 10 {
			wg.Go(func() {
				if got, err := call(alice, "whoami"); err != nil || !strings.Contains(got, "as alice") {
					t.Errorf("after the token's end: %s %v", got, err)
				}
			})
		}
		wg.Wait()
		if n := as.count("/token") - before; n != 1 {
			t.Errorf("round %d: refreshed %d times", round, n)
		}
	}
	if err := h.SignIns.SignOut(ctx, bob.Thread, bob.Member, s); err != nil {
		t.Fatal(err)
	}
	if n := as.count("/token/revocation"); n != 2 {
		t.Errorf("%d tokens were revoked", n)
	}
	if _, err := call(bob, "whoami"); schemas.CodeOf(err) != schemas.CodeNeeds {
		t.Errorf("bob after the sign-out: %v", err)
	}
	if _, err := call(alice, "whoami"); err != nil {
		t.Errorf("alice after bob's sign-out: %v", err)
	}
}
