package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/egress"
	"bobbin/internal/safehttp"
	"bobbin/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a sandbox's socket, and an outside where every name leads to one server that counts its hits.
type world struct {
	t    *testing.T
	addr string
	hits atomic.Int64
	last atomic.Pointer[http.Request]
	web  *httptest.Server

	mu      sync.Mutex
	dialed  []string
	records []schemas.Record
	rules   schemas.EgressRules
	contact schemas.Contact
	fail    error // of Record
	end     func()
}

func open(t *testing.T, change ...func(*egress.Options)) *world {
	t.Helper()
	w := &world{t: t, contact: schemas.Contact{Thread: "T1", Member: "alice", Server: "weather"}}
	w.web = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.hits.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.last.Store(r)
		_, _ = fmt.Fprintf(rw, "hello %s %s %d", r.Host, r.URL, len(body))
	}))
	t.Cleanup(w.web.Close)
	opt := egress.Options{Rules: w.lists, Record: w.record, Dial: w.dial}
	for _, c := range change {
		c(&opt)
	}
	p, err := egress.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, l, w.who) }()
	w.end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("serve does not end")
		}
	})
	t.Cleanup(w.end)
	return w
}

func (w *world) lists(_ context.Context, id schemas.ThreadID) (*schemas.EgressRules, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id == "broken" {
		return nil, errors.New("disk")
	}
	r := w.rules
	return &r, nil
}

func (w *world) record(_ context.Context, r schemas.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail == nil {
		w.records = append(w.records, r)
	}
	return w.fail
}

func (w *world) who(label string) schemas.Contact {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.contact
	if label != "" {
		c.Server = label
	}
	return c
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	w.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, network, w.web.Listener.Addr().String())
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) details() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		out = append(out, string(r.Outcome)+" "+r.Server+" "+r.Detail)
	}
	return out
}

// conn is a connection from inside.
func (w *world) conn() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// raw sends bytes and gives the status and body of the first answer.
func (w *world) raw(text string) (int, string) {
	w.t.Helper()
	c := w.conn()
	if _, err := io.WriteString(c, text); err != nil {
		w.t.Fatal(err)
	}
	return answer(w.t, bufio.NewReader(c))
}

func answer(t *testing.T, r *bufio.Reader) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK && strings.Contains(resp.Status, "Established") {
		return resp.StatusCode, ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (w *world) connect(target string) (int, string) {
	w.t.Helper()
	return w.raw("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
}

func wantStatus(t *testing.T, want, got int, body, part string) {
	t.Helper()
	if got != want || !strings.Contains(body, part) {
		t.Errorf("status %d, want %d with %q: %s", got, want, part, body)
	}
}

// names is a resolver; each name gives its lists in turn, the last one for ever.
type names struct {
	mu    sync.Mutex
	addrs map[string][]string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.addrs[host]
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(list) > 1 {
		n.addrs[host] = list[1:]
	}
	var out []netip.Addr
	for _, a := range strings.Fields(list[0]) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// guarded makes the proxy use its own dialer with a resolver.
func guarded(addrs map[string][]string) func(*egress.Options) {
	return func(o *egress.Options) {
		o.Dial, o.Guard = nil, safehttp.Options{Resolver: &names{addrs: addrs}, DialTimeout: time.Second}
	}
}
