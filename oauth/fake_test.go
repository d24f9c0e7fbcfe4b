package oauth_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/internal/safehttp"
	"bobbin/oauth"
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

// diary is a journal in memory.
type diary struct {
	mu   sync.Mutex
	recs []schemas.Record
	fail error
}

func (d *diary) Append(_ context.Context, r schemas.Record) (schemas.Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail == nil {
		d.recs = append(d.recs, r)
	}
	return r, d.fail
}

func (d *diary) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, _ := json.Marshal(d.recs)
	return string(b)
}

// safe is a vault in memory.
type safe struct {
	mu     sync.Mutex
	values map[schemas.SecretKey]string
	before func(schemas.SecretKey) // called before a value is put, without the lock
	fail   error                   // of Put
}

func (s *safe) Put(_ context.Context, k schemas.SecretKey, v schemas.Secret) error {
	if s.before != nil {
		s.before(k)
	}
	if s.fail != nil {
		return s.fail
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !k.Member.Valid() || !k.Thread.Valid() || !schemas.ValidName(k.Server) || !schemas.ValidInput(k.Name) || k.Origin == "" || len(k.Origin) > 512 {
		return fmt.Errorf("the vault takes no such key: %+v", k)
	}
	s.values[k] = v.Reveal()
	return nil
}

func (s *safe) Reveal(_ context.Context, k schemas.SecretKey) (schemas.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[k]
	if !ok {
		return schemas.Secret{}, &schemas.Error{Code: schemas.CodeNeeds, Text: "no value"}
	}
	return schemas.NewSecret(v), nil
}

func (s *safe) Delete(_ context.Context, k schemas.SecretKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, k)
	return nil
}

func (s *safe) list(which func(schemas.SecretKey) bool) (keys []schemas.SecretKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.values {
		if which(k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func (s *safe) Names(_ context.Context, m schemas.MemberID, t schemas.ThreadID) ([]schemas.SecretKey, error) {
	return s.list(func(k schemas.SecretKey) bool { return k.Member == m && k.Thread == t }), nil
}

func (s *safe) Holders(_ context.Context, t schemas.ThreadID, server string) ([]schemas.SecretKey, error) {
	return s.list(func(k schemas.SecretKey) bool { return k.Thread == t && (server == "" || k.Server == server) }), nil
}

// world is everything that a sign-in needs.
type world struct {
	t       testing.TB
	a       *authority
	r       *resource
	s       *oauth.SignIns
	pages   *httptest.Server
	dir     string
	diary   *diary
	safe    *safe // shared, as the folder of a vault is by processes
	log     *lockedBuffer
	done    chan string
	skew    time.Duration
	skewMu  sync.Mutex
	options func(*oauth.Options)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const (
	discordThread = schemas.ThreadID("1234567890123456789")
	localThread   = schemas.ThreadID("web-default")
)

// newWorld opens a world; change adjusts the options. Public pages are served over TLS, others on loopback.
func newWorld(t testing.TB, change func(*oauth.Options)) *world {
	t.Helper()
	w := &world{t: t, a: newAuthority(t), dir: t.TempDir(), diary: &diary{}, safe: &safe{values: map[schemas.SecretKey]string{}}, log: &lockedBuffer{}, done: make(chan string, 8), options: change}
	w.r = newResource(t, w.a)
	var h http.Handler
	serve := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { h.ServeHTTP(rw, r) })
	w.pages = httptest.NewTLSServer(serve)
	t.Cleanup(w.pages.Close)
	local := httptest.NewServer(serve)
	t.Cleanup(local.Close)
	w.s = w.open(local.URL)
	h = w.s.Handler()
	return w
}

// open makes another SignIns on the same data folder, as another process would.
func (w *world) open(local string) *oauth.SignIns {
	w.t.Helper()
	data, err := durable.Open(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	locks, err := data.Sub("locks")
	if err != nil {
		w.t.Fatal(err)
	}
	client := safehttp.New(safehttp.Options{AllowLoopback: true})
	o := oauth.Options{
		Vault: w.safe, Names: w.safe, Journal: w.diary, Locks: locks,
		HTTP:   func(schemas.ThreadID) *http.Client { return client },
		Check:  func(_ schemas.ThreadID, raw string) (*url.URL, error) { return safehttp.CheckURL(raw, true) },
		Public: w.pages.URL, Local: func() (string, error) { return local, nil },
		Done: func(_ context.Context, _ schemas.ThreadID, _ schemas.MemberID, id string) { w.done <- id },
		Now: func() time.Time {
			w.skewMu.Lock()
			defer w.skewMu.Unlock()
			return time.Now().Add(w.skew)
		},
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if w.options != nil {
		w.options(&o)
	}
	s, err := oauth.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) pass(d time.Duration) {
	w.skewMu.Lock()
	defer w.skewMu.Unlock()
	w.skew += d
}

func (w *world) server() schemas.Server {
	return schemas.Server{Name: "notes", Type: schemas.HTTP, URL: w.r.srv.URL + "/mcp", Auth: &schemas.Auth{Type: "oauth", Identity: "requester"}}
}

func discord(name string) schemas.Caller {
	id := map[string]schemas.MemberID{"alice": "111111111111111111", "bob": "222222222222222222"}[name]
	return schemas.Caller{Thread: discordThread, Member: id, Name: name, Door: schemas.DoorDiscord, Role: schemas.Member}
}

func local() schemas.Caller {
	return schemas.Caller{Thread: localThread, Member: "operator", Name: "operator", Door: schemas.DoorWeb, Role: schemas.Owner, Operator: true}
}

func (w *world) link(c schemas.Caller) schemas.Link {
	w.t.Helper()
	l, err := w.s.Link(w.t.Context(), schemas.SignIn{Caller: c, Server: w.server(), Shared: "only you"})
	if err != nil {
		w.t.Fatalf("Link: %v", err)
	}
	return l
}

// call makes one request as a member and gives what came of it.
func (w *world) call(c schemas.Caller) (string, error) { return call(w.t, w.s, c, w.server()) }

func call(t testing.TB, s *oauth.SignIns, c schemas.Caller, server schemas.Server) (string, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client(c.Thread, c.Member, server).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, b), nil
}

// browser is somebody's browser: it keeps cookies and goes where it is sent one step at a time.
type browser struct {
	t testing.TB
	c *http.Client
}

func (w *world) browser() *browser {
	jar, _ := cookiejar.New(nil)
	c := w.pages.Client()
	own := *c
	own.Jar, own.CheckRedirect = jar, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{w.t, &own}
}

// answer is a page or a redirect.
type answer struct {
	status int
	to     string
	body   string
	head   http.Header
}

func (b *browser) do(req *http.Request) answer {
	b.t.Helper()
	resp, err := b.c.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Location"), string(body), resp.Header}
}

func (b *browser) get(address string) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.do(req)
}

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]*)"`)
	formCSRF   = regexp.MustCompile(`name="csrf" value="([^"]*)"`)
	pageCode   = regexp.MustCompile(`<output[^>]*>([^<]*)</output>`)
)

// press sends the form of a page.
func (b *browser) press(page string, a answer) answer {
	b.t.Helper()
	action, csrf := formAction.FindStringSubmatch(a.body), formCSRF.FindStringSubmatch(a.body)
	if action == nil || csrf == nil {
		b.t.Fatalf("no form on the page (%d): %s", a.status, a.body)
	}
	base, _ := url.Parse(page)
	to, _ := base.Parse(action[1])
	req, _ := http.NewRequestWithContext(b.t.Context(), http.MethodPost, to.String(), strings.NewReader(url.Values{"csrf": {csrf[1]}}.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", base.Scheme+"://"+base.Host)
	return b.do(req)
}

// walk goes the whole way: page, button, authorization server, back.
func (b *browser) walk(link string) answer {
	b.t.Helper()
	there := b.press(link, b.get(link))
	if there.to == "" {
		b.t.Fatalf("the button leads nowhere: %d %s", there.status, there.body)
	}
	back := b.get(there.to)
	if back.to == "" {
		b.t.Fatalf("the authorization server refuses: %d %s", back.status, back.body)
	}
	return b.get(back.to)
}

// signIn takes a member through everything.
func (w *world) signIn(c schemas.Caller) {
	w.t.Helper()
	l := w.link(c)
	end := w.browser().walk(l.URL)
	code := ""
	if m := pageCode.FindStringSubmatch(end.body); m != nil {
		code = m[1]
	}
	if err := w.s.Finish(w.t.Context(), c, l.ID, code); err != nil {
		w.t.Fatalf("Finish: %v, the page said %s", err, end.body)
	}
}

func code(err error) schemas.Code { return schemas.CodeOf(err) }
