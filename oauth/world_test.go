package oauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/internal/safehttp"
	"bobbin/oauth"
	"bobbin/schemas"
)

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
