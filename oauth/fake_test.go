package oauth_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"bobbin/schemas"
)

// authority is a strict authorization server: it refuses what RFC 6749, 7636, 7591 and 8707 let it refuse.
type authority struct {
	t   testing.TB
	srv *httptest.Server

	mu       sync.Mutex
	clients  map[string]map[string]any
	codes    map[string]url.Values // code → the authorization request
	access   map[string]string     // token → its scopes
	refresh  map[string]string
	spent    map[string]bool
	hits     map[string]int
	forms    map[string][]url.Values // what came to an endpoint
	resource string
	life     int // seconds of a token; 0 = says nothing

	// Faults; each changes what is served.
	meta    func(map[string]any)
	token   func(w http.ResponseWriter, r *http.Request) bool // true: answered
	answer  func(url.Values)                                  // of the authorization response
	scopes  string                                            // granted in place of what was asked for
	methods []string
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, clients: map[string]map[string]any{}, codes: map[string]url.Values{}, access: map[string]string{}, refresh: map[string]string{},
		spent: map[string]bool{}, hits: map[string]int{}, forms: map[string][]url.Values{}, methods: []string{"none"}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, a.metadata()) })
	mux.HandleFunc("POST /register", a.register)
	mux.HandleFunc("GET /authorize", a.authorize)
	mux.HandleFunc("POST /token", a.exchange)
	mux.HandleFunc("POST /revoke", a.revoke)
	mux.HandleFunc("POST /device", a.deviceCode)
	a.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.hits[r.URL.Path]++
		if r.Method == http.MethodPost && r.URL.Path != "/register" {
			_ = r.ParseForm()
			a.forms[r.URL.Path] = append(a.forms[r.URL.Path], r.PostForm)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(a.srv.Close)
	return a
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (a *authority) metadata() map[string]any {
	m := map[string]any{
		"issuer": a.srv.URL, "authorization_endpoint": a.srv.URL + "/authorize?kind=x", "token_endpoint": a.srv.URL + "/token", "registration_endpoint": a.srv.URL + "/register",
		"revocation_endpoint": a.srv.URL + "/revoke", "device_authorization_endpoint": a.srv.URL + "/device", "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": a.methods, "authorization_response_iss_parameter_supported": true, "scopes_supported": []string{"read", "write", "offline_access"},
	}
	if a.meta != nil {
		a.meta(m)
	}
	return m
}

func (a *authority) no(w http.ResponseWriter, code, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": why + " <script>secret-from-server</script>"})
}

func (a *authority) register(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in["application_type"] == nil || in["redirect_uris"] == nil {
		a.no(w, "invalid_client_metadata", "incomplete")
		return
	}
	in["client_id"] = "client-" + rand.Text()
	if in["token_endpoint_auth_method"] != "none" {
		in["client_secret"] = "client-secret-" + rand.Text()
	}
	a.clients[in["client_id"].(string)] = in
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(in)
}

func (a *authority) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c := a.clients[q.Get("client_id")]
	switch {
	case c == nil || !slices.Contains(c["redirect_uris"].([]any), any(q.Get("redirect_uri"))):
		http.Error(w, "unknown client or redirect", http.StatusBadRequest)
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("kind") != "x" || len(q.Get("state")) < 20:
		http.Error(w, "bad request", http.StatusBadRequest)
	case q.Get("resource") != a.resource:
		http.Error(w, "invalid_target "+q.Get("resource"), http.StatusBadRequest)
	default:
		code := "code-" + rand.Text()
		a.codes[code] = q
		back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {a.srv.URL}}
		if a.answer != nil {
			a.answer(back)
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	}
}

func (a *authority) client(r *http.Request) bool {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	c := a.clients[id]
	return c != nil && (c["client_secret"] == nil && secret == "" || c["client_secret"] == secret)
}

func (a *authority) exchange(w http.ResponseWriter, r *http.Request) {
	if a.token != nil && a.token(w, r) {
		return
	}
	f := r.PostForm
	if !a.client(r) {
		a.no(w, "invalid_client", "who are you")
		return
	}
	if f.Get("resource") != a.resource {
		a.no(w, "invalid_target", "wrong resource")
		return
	}
	scope := ""
	switch f.Get("grant_type") {
	case "authorization_code":
		q := a.codes[f.Get("code")]
		delete(a.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if q == nil || q.Get("redirect_uri") != f.Get("redirect_uri") || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			a.no(w, "invalid_grant", "no such code")
			return
		}
		scope = q.Get("scope")
	case "refresh_token":
		had, ok := a.refresh[f.Get("refresh_token")]
		if a.spent[f.Get("refresh_token")] {
			clear(a.refresh) // reuse: the family ends
		}
		if !ok || a.spent[f.Get("refresh_token")] {
			a.no(w, "invalid_grant", "reused")
			return
		}
		a.spent[f.Get("refresh_token")] = true
		scope = had
	case "urn:ietf:params:oauth:grant-type:device_code":
		if f.Get("device_code") != "device-1" {
			a.no(w, "authorization_pending", "")
			return
		}
		scope = "read"
	default:
		a.no(w, "unsupported_grant_type", "")
		return
	}
	if a.scopes != "" {
		scope = a.scopes
	}
	at, rt := "at-"+rand.Text(), "rt-"+rand.Text()
	a.access[at], a.refresh[rt] = scope, scope
	out := map[string]any{"access_token": at, "token_type": "bearer", "refresh_token": rt, "scope": scope}
	if a.life != 0 {
		out["expires_in"] = a.life
	}
	writeJSON(w, out)
}

func (a *authority) revoke(w http.ResponseWriter, r *http.Request) {
	if !a.client(r) {
		a.no(w, "invalid_client", "")
		return
	}
	delete(a.access, r.PostForm.Get("token"))
	delete(a.refresh, r.PostForm.Get("token"))
}

func (a *authority) deviceCode(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, map[string]any{"device_code": "device-" + map[bool]string{true: "1", false: "0"}[r.PostForm.Get("scope") != "slow"], "user_code": "WDJB-MJHT", "verification_uri": a.srv.URL + "/activate", "expires_in": 600, "interval": 5})
}

func (a *authority) count(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits[path]
}

// set changes the server under its lock.
func (a *authority) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// resource is a server that wants tokens of the authority.
type resource struct {
	srv       *httptest.Server
	a         *authority
	mu        sync.Mutex
	seen      []http.Header
	needScope string
	prm       map[string]any
	challenge string // in place of the right one
	hits      map[string]int
	handle    func(w http.ResponseWriter, r *http.Request) bool
}

func newResource(t testing.TB, a *authority) *resource {
	r := &resource{a: a, hits: map[string]int{}}
	r.srv = httptest.NewServer(r)
	t.Cleanup(r.srv.Close)
	r.prm = map[string]any{"resource": r.srv.URL + "/mcp", "authorization_servers": []string{a.srv.URL}, "scopes_supported": []string{"read"}}
	a.resource = r.srv.URL + "/mcp"
	return r
}

func (s *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[r.URL.Path]++
	if r.URL.Path == "/.well-known/oauth-protected-resource/mcp" {
		writeJSON(w, s.prm)
		return
	}
	if r.URL.Path != "/mcp" {
		http.NotFound(w, r)
		return
	}
	s.seen = append(s.seen, r.Header.Clone())
	if s.handle != nil && s.handle(w, r) {
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.a.mu.Lock()
	scope, ok := s.a.access[token]
	s.a.mu.Unlock()
	ch := s.challenge
	if ch == "" {
		ch = `Bearer resource_metadata="` + s.srv.URL + `/.well-known/oauth-protected-resource/mcp"`
	}
	switch {
	case !ok:
		w.Header().Set("WWW-Authenticate", ch)
		w.WriteHeader(http.StatusUnauthorized)
	case s.needScope != "" && !slices.Contains(strings.Fields(scope), s.needScope):
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+s.needScope+`"`)
		w.WriteHeader(http.StatusForbidden)
	default:
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "hello %s", body)
	}
}

func (s *resource) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// sent counts requests to the server that carried a token.
func (s *resource) sent() (with int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.seen {
		if h.Get("Authorization") != "" {
			with++
		}
	}
	return with
}

const (
	discordThread = schemas.ThreadID("1234567890123456789")
	localThread   = schemas.ThreadID("web-default")
)

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]*)"`)
	formCSRF   = regexp.MustCompile(`name="csrf" value="([^"]*)"`)
	pageCode   = regexp.MustCompile(`<output[^>]*>([^<]*)</output>`)
)
