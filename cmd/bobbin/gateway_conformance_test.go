package main

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"bobbin/host"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

// missed is what fails against the gateway, by revision, with the reason. docs/ROUGH_EDGES.md lists the same names.
var missed = map[string]map[string]string{
	"2025-11-25": {},
	"2026-07-28": {},
}

// TestGatewayConformance runs the official suite's server scenarios against the gateway, in front of a thread with one server that has the
// suite's tools. The suite bears no token, so what stands before the gateway here adds one.
func TestGatewayConformance(t *testing.T) {
	long(t)
	modules, err := filepath.Abs(filepath.Join("..", "..", "testdata", "conformance", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	pkg := filepath.Join(modules, "conformance-0.2")
	for _, need := range []string{suiteNode(t), pkg} {
		if !exists(need) {
			missing(t, "the conformance suite is not installed; scripts/tools installs it")
		}
	}
	for _, c := range []struct {
		revision string
		args     []string
		scored   int
	}{{"2025-11-25", nil, 30}, {"2026-07-28", []string{"modern"}, 37}} {
		t.Run(c.revision, func(t *testing.T) {
			at := lend(t, "suitemcp", c.args...) + "/servers/suite/mcp"
			out := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, suiteNode(t), filepath.Join(pkg, "dist", "index.js"), "server", "--url", at, "-o", out, "--requirements", c.revision)
			cmd.WaitDelay = 5 * time.Second
			said, err := cmd.CombinedOutput()
			passed, failed := outcomes(string(said))
			if len(passed)+len(failed) == 0 {
				t.Fatalf("the suite said nothing: %v\n%s", err, said)
			}
			var list struct{ Server []string }
			raw, err := os.ReadFile(filepath.Join(pkg, "requirements", c.revision+".yaml"))
			if err != nil || yaml.Unmarshal(raw, &list) != nil || len(list.Server) != c.scored {
				t.Fatalf("the suite's requirements: %v, %d", err, len(list.Server))
			}
			good := 0
			for _, name := range slices.Sorted(slices.Values(list.Server)) {
				checks, ok := passed[name]
				switch {
				case ok && checks > 0 && missed[c.revision][name] == "":
					good++
				case ok && missed[c.revision][name] != "":
					t.Errorf("%s is listed as failing and does not fail", name)
				case missed[c.revision][name] == "":
					t.Errorf("%s: %d checks, %s\n%s", name, checks, failed[name], why(out, "server-"+name))
				}
			}
			t.Logf("gateway %s: %d of %d", c.revision, good, c.scored)
			if name := "http-custom-header-server-validation"; c.args != nil && passed[name] < 6 { // not scored, and held to all the same
				t.Errorf("%s: %d checks, %s\n%s", name, passed[name], failed[name], why(out, "server-"+name))
			}
			for _, name := range slices.Sorted(maps.Keys(failed)) {
				if !slices.Contains(list.Server, name) {
					t.Logf("not scored: %s %s\n%s", name, failed[name], why(out, "server-"+name))
				}
			}
		})
	}
}

// lend opens a bobbin with a thread that has one server, called suite, and gives where the gateway serves that thread. Requests
// that bear no token get one.
func lend(t testing.TB, command string, args ...string) string {
	t.Helper()
	h, at, token := lender(t, command, args...)
	clients := h.Gateway.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		clients.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	at.Store(srv.URL)
	return srv.URL + "/gateway/t1"
}

// lender opens a bobbin as lend does, before anything serves it: at says where.
func lender(t testing.TB, command string, args ...string) (h *host.Host, at *atomic.Value, token string) {
	t.Helper()
	at = new(atomic.Value)
	at.Store("")
	m := NewMain(strings.NewReader(""), os.Stdout, os.Stderr)
	m.command() // which sets what flags are by default
	m.Data, m.Sandbox, m.origin = t.TempDir(), "process", func() string { return at.Load().(string) }
	h, err := m.open(t.Context(), slog.New(slog.DiscardHandler), host.Connect{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, h)
	who := schemas.Caller{Thread: "t1", Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	if err := h.Store.Rule(t.Context(), "t1", func(p *schemas.Policy) error { p.Sampling = []string{"suite"}; return nil }); err != nil {
		t.Fatal(err)
	}
	give(t, h, who, "suite", command, args...)
	if err := h.Registry.Apply(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if err := h.Gateway.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, token, err = h.Gateway.Make(t.Context(), who, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	return h, at, token
}

// give adds a server to the thread, approved.
func give(t testing.TB, h *host.Host, who schemas.Caller, name, command string, args ...string) {
	t.Helper()
	def := `{"command":` + strconv.Quote(command) + `,"args":[`
	for i, a := range args {
		if i > 0 {
			def += ","
		}
		def += strconv.Quote(a)
	}
	in := mcpstore.Import("", []byte(def+"]}"), name)
	p, err := h.Store.Propose(t.Context(), who, schemas.Edit{Put: in.Servers, Source: "add"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store.Commit(t.Context(), who, p); err != nil {
		t.Fatal(err)
	}
}
