package host

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/operator"
	"bobbin/schemas"
	"bobbin/vault"
)

func TestAdmins(t *testing.T) { // D13, D50, D56: who is allowed reaches the server with the operator's headers, and nobody else does
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Get("Authorization")) }))
	defer srv.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write := func(allow string) {
		t.Helper()
		must(os.WriteFile(filepath.Join(dir, operator.FileName), []byte("mcps:\n  - name: far\n    type: remote\n    url: "+srv.URL+"/mcp\n    headers: {Authorization: Bearer abc}\n"+allow), 0o600))
	}
	write("    allow: [T1]\n")
	data, err := durable.Open(dir)
	must(err)
	users, err := data.Sub("users")
	must(err)
	sealed, err := data.Sub("vault")
	must(err)
	secrets, err := vault.Open(sealed)
	must(err)
	a := &admins{}
	a.store, err = mcpstore.Open(users, mcpstore.Options{Admin: a.definition})
	must(err)
	must(a.open(data, secrets, Options{}))
	defer a.Close() //nolint:errcheck // nothing is open
	d := desk{a}
	c1 := schemas.Caller{Thread: "T1", Member: "U1", Role: schemas.Member}
	c2 := schemas.Caller{Thread: "T2", Member: "U1", Role: schemas.Owner, Operator: true}
	if err := d.Attach(t.Context(), c2, "far"); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Errorf("T2: %v", err)
	}
	if all, err := d.List(t.Context(), c2); err != nil || len(all) != 0 {
		t.Errorf("T2 sees %v %v", all, err)
	}
	must(d.Attach(t.Context(), c1, "far"))
	got = nil // what it was asked to find out how it speaks
	must(a.Seal(t.Context()))
	others := 0
	clients := a.credentials(func(schemas.ThreadID, schemas.MemberID, schemas.Server) *http.Client { others++; return srv.Client() })
	cfg, err := a.store.Load(t.Context(), "T1")
	must(err)
	e, ok := cfg.Find("far")
	if !ok || e.Kind != schemas.Admin {
		t.Fatalf("%+v", cfg.Entries)
	}
	get := func(thread schemas.ThreadID) error {
		r, err := clients(thread, "operator", e.Server).Get(srv.URL + "/mcp")
		if err == nil {
			_ = r.Body.Close()
		}
		return err
	}
	must(get("T1"))
	if len(got) != 1 || got[0] != "Bearer abc" {
		t.Errorf("sent %v", got)
	}
	if err := get("T2"); err == nil || !strings.Contains(err.Error(), "is not for this thread") {
		t.Errorf("T2 reaches it: %v", err)
	}
	write("    allow: [T9]\n")
	if err := get("T1"); err == nil {
		t.Error("no longer allowed, and still reached")
	}
	if cfg, err := a.store.Load(t.Context(), "T1"); err != nil || len(cfg.Entries) != 0 {
		t.Errorf("no longer allowed, and still there: %+v %v", cfg.Entries, err)
	}
	if clients("T1", "U1", schemas.Server{Name: "far", Type: schemas.HTTP, URL: srv.URL}); others != 1 {
		t.Error("a connector of the thread got the operator's client")
	}
	if len(got) != 1 {
		t.Errorf("sent %v", got)
	}
	if err := d.Detach(t.Context(), schemas.Caller{Thread: "T1", Member: "U2", Role: schemas.Member}, "far"); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Errorf("another member detaches: %v", err)
	}
	must(d.Detach(t.Context(), c1, "far"))
}
