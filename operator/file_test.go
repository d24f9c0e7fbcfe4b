package operator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"bobbin/internal/durable"
	"bobbin/operator"
	"bobbin/schemas"
)

// document is the example of the documents, as it stands there.
const document = `mcps:
  # Proxy-based MCP server (default type)
  - name: github
    type: proxy
    base_image: mcp/github
    command: "github-mcp"  # Optional command to run in the base image
    proxy_image: ghcr.io/sparfenyuk/mcp-proxy:latest  # Optional, defaults to standard proxy image
    proxy_options:
      sse_port: 8080
      sse_host: "0.0.0.0"
      allow_origin: "*"
    env:
      GITHUB_TOKEN: "your-token-here"

  # Remote MCP server
  - name: remote-mcp
    type: remote
    url: "http://mcp-server.example.com/sse"
    headers:
      Authorization: "Bearer your-token-here"
`

// safe is a vault in memory.
type safe struct {
	mu     sync.Mutex
	values map[schemas.SecretKey]string
}

func (s *safe) Put(_ context.Context, k schemas.SecretKey, v schemas.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[schemas.SecretKey]string{}
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

type desk struct {
	*operator.Operator
	t    *testing.T
	dir  string
	safe *safe
}

func open(t *testing.T, text string) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), safe: &safe{}}
	if text != "" {
		d.write(text)
	}
	data, err := durable.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	d.Operator, err = operator.New(operator.Options{Data: data, Secrets: d.safe, Engine: engineOf(), Binary: binary, Getenv: environment})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// put writes an entry, whether there is one of that name or not.
func put(ctx context.Context, o *operator.Operator, s operator.Server) error {
	c, err := o.Propose(ctx, s)
	if err != nil {
		return err
	}
	return o.Commit(ctx, c)
}

func environment(name string) (string, bool) {
	v, ok := map[string]string{"LEVEL": "debugging", "THREE_TOKEN": "canary-3"}[name]
	return v, ok
}

func (d *desk) write(text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, operator.FileName), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) text() string {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.dir, operator.FileName))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

func (d *desk) load() operator.File {
	d.t.Helper()
	f, err := d.Load(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return f
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		if e, ok := errors.AsType[*schemas.Error](err); ok {
			d.t.Fatalf("%v\nhint: %s", e, e.Hint)
		}
		d.t.Fatal(err)
	}
}

func TestLoad_Document(t *testing.T) { // D07, D08, D13
	d := open(t, document)
	f := d.load()
	want := []operator.Server{
		{Name: "github", Type: "proxy", BaseImage: "mcp/github", Command: "github-mcp", ProxyImage: "ghcr.io/sparfenyuk/mcp-proxy:latest",
			ProxyOptions: &operator.ProxyOptions{Port: 8080, Host: "0.0.0.0", Origin: "*"}, Env: map[string]string{"GITHUB_TOKEN": "your-token-here"}},
		{Name: "remote-mcp", Type: "remote", URL: "http://mcp-server.example.com/sse", Headers: map[string]string{"Authorization": "Bearer your-token-here"}},
	}
	if diff := cmp.Diff(want, f.Servers, cmpopts.IgnoreUnexported(operator.Server{})); diff != "" {
		t.Error(diff)
	}
	if len(f.Problems) > 0 || f.Prefix != "bobbin" {
		t.Errorf("prefix %q, problems %v", f.Prefix, f.Problems)
	}
	if d.text() != document {
		t.Error("reading changed the file")
	}
}

func TestSeal_Document(t *testing.T) { // D07: round trip, references, nothing else changed
	d := open(t, document)
	d.must(d.Seal(t.Context()))
	want := strings.NewReplacer(`"your-token-here"`, `"${input:GITHUB_TOKEN}"`, `"Bearer your-token-here"`, `"Bearer ${input:Authorization}"`).Replace(document)
	if diff := cmp.Diff(want, d.text()); diff != "" {
		t.Error(diff)
	}
	if len(d.safe.values) != 2 {
		t.Errorf("sealed %d values", len(d.safe.values))
	}
	for k, v := range d.safe.values {
		if v != "your-token-here" || k.Member != "operator" || k.Thread != "operator" {
			t.Errorf("%+v holds another value", k)
		}
	}
	before := d.text()
	d.must(d.Seal(t.Context()))
	if d.text() != before {
		t.Error("sealing again changed the file")
	}
}

func TestLoad_Defaults(t *testing.T) { // D02, D09, D10, D11, D12
	d := open(t, "mcps:\n  - name: a\n    base_image: mcp/a\n")
	s, _ := d.load().Find("a")
	if diff := cmp.Diff(operator.Server{Name: "a", Type: "proxy", BaseImage: "mcp/a", ProxyOptions: &operator.ProxyOptions{Port: 8080, Host: "0.0.0.0", Origin: "*"}}, s, cmpopts.IgnoreUnexported(operator.Server{})); diff != "" {
		t.Error(diff)
	}
}

func TestLoad_Problems(t *testing.T) {
	for text, want := range map[string]string{
		"mcps:\n  - name: a\n    base_image: b\n    comand: x\n":                        `mcps.yaml:4:5: a: unknown key "comand" (did you mean "command"?)`,
		"mcps:\n  - name: a\n    base_image: b\n    proxy_options: {sse_prt: 1}\n":      `mcps.yaml:4:21: a: unknown key "proxy_options.sse_prt" (did you mean "proxy_options.sse_port"?)`,
		"mcps:\n  - name: a\n    base_image: b\n    proxy_options: {sse_port: 0}\n":     `sse_port must be a number from 1 to 65535`,
		"mcps:\n  - name: a\n    base_image: b\n    proxy_options: {sse_port: 70000}\n": `sse_port must be a number from 1 to 65535`,
		"mcps:\n  - name: a\n":                                                    `a: base_image must name an image`,
		"mcps:\n  - base_image: b\n":                                              `a server needs a name`,
		"mcps:\n  - name: a\n    type: x\n":                                       `a: type must be proxy or remote, not "x"`,
		"mcps:\n  - name: a\n    type: remote\n":                                  `a: url must be an http or https address`,
		"mcps:\n  - name: a\n    type: remote\n    url: file:///x\n":              `a: url must be`,
		"mcps:\n  - name: a\n    base_image: b\n  - name: a\n    base_image: b\n": `mcps.yaml:4:5: a: the name stands there twice`,
		"mcps:\n  - name: a\n    base_image: b\n    allow: [\"x:y\"]\n":           `allow has "x:y"`,
		"mcps:\n  - name: a\n    base_image: b\n    env: [1]\n":                   `mcps.yaml:4:10: a: env must be a mapping of texts`,
		"mcps:\n  - name: a\n    base_image: b\n    env:\n    - K=v\n":            `mcps.yaml:5:5: a: env must be a mapping of texts (write NAME: value on each line, without the dash)`,
	} {
		f := open(t, text).load()
		if got := f.Problems.Error(); !strings.Contains(got, want) {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestLoad_BrokenKeepsTheLast(t *testing.T) {
	d := open(t, document)
	d.load()
	d.write("mcps:\n  - name: [\n    secret: canary-1234\n")
	f, err := d.Load(t.Context())
	if schemas.CodeOf(err) != schemas.CodeUnreadable || len(f.Servers) != 2 {
		t.Fatalf("%d servers, %v", len(f.Servers), err)
	}
	if strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "mcps.yaml:") {
		t.Errorf("error %q", err)
	}
	if err := put(t.Context(), d.Operator, operator.Server{Name: "x", BaseImage: "y"}); schemas.CodeOf(err) != schemas.CodeUnreadable {
		t.Errorf("a broken file was changed: %v", err)
	}
}

func TestAdd_KeepsTheRest(t *testing.T) { // D26, D27
	d := open(t, document)
	d.must(put(t.Context(), d.Operator, operator.Server{Name: "more", BaseImage: "mcp/more", Command: "run --x=1 'two words'",
		ProxyOptions: &operator.ProxyOptions{Port: 9000, Host: "127.0.0.1", Origin: "https://app.example.com"},
		Env:          map[string]string{"A_TOKEN": "a=b=c", "LEVEL": "debug", "ODD": "- x: 'y' # z"}}))
	d.must(put(t.Context(), d.Operator, operator.Server{Name: "far", Type: "remote", URL: "https://mcp.example.com/mcp", Headers: map[string]string{"X-Api-Key": "canary"}}))
	got := d.text()
	if !strings.HasPrefix(got, strings.NewReplacer(`"your-token-here"`, `"${input:GITHUB_TOKEN}"`, `"Bearer your-token-here"`, `"Bearer ${input:Authorization}"`).Replace(document)) {
		t.Errorf("the old text changed:\n%s", got)
	}
	if strings.Contains(got, "canary") || strings.Contains(got, "a=b=c") {
		t.Errorf("a secret stands in the file:\n%s", got)
	}
	f := d.load()
	s, _ := f.Find("more")
	want := map[string]string{"A_TOKEN": "${input:A_TOKEN}", "LEVEL": "debug", "ODD": "- x: 'y' # z"}
	if diff := cmp.Diff(want, s.Env); diff != "" || s.ProxyOptions.Port != 9000 || s.Command != "run --x=1 'two words'" {
		t.Errorf("%+v %s", s, diff)
	}
	s.Command = "other"
	d.must(put(t.Context(), d.Operator, s))
	if s, _ := d.load().Find("more"); s.Command != "other" {
		t.Errorf("not replaced: %+v", s)
	}
}

func TestAdd_FirstOne(t *testing.T) {
	for _, text := range []string{"", "# mine\nprefix: cubbi\n", "mcps:\n", "mcps: [] # none\n", "mcps: null\nprefix: cubbi\n", "mcps:\n- name: z\n  base_image: q\n# the end\nother: 1\n"} {
		d := open(t, text)
		d.must(put(t.Context(), d.Operator, operator.Server{Name: "a", BaseImage: "mcp/a"}))
		if _, ok := d.load().Find("a"); !ok {
			t.Errorf("%q became\n%s", text, d.text())
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") && !strings.Contains(d.text(), line) {
				t.Errorf("lost %q", line)
			}
		}
	}
}

func TestRemove_KeepsTheRest(t *testing.T) { // D28
	d := open(t, document)
	d.must(d.Remove(t.Context(), "remote-mcp"))
	got := d.text()
	if strings.Contains(got, "remote-mcp") || strings.Contains(got, "# Remote MCP server") || !strings.Contains(got, "# Proxy-based MCP server (default type)") {
		t.Error(got)
	}
	if err := d.Remove(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "MCP server 'x' not found") {
		t.Error(err)
	}
	if len(d.safe.values) != 1 {
		t.Errorf("%d values stay", len(d.safe.values))
	}
}

func TestChange_ManyAtOnce(t *testing.T) { // nothing is lost between two bobbins at one file
	d := open(t, document)
	data, err := durable.Open(d.dir)
	d.must(err)
	other, err := operator.New(operator.Options{Data: data, Secrets: d.safe})
	d.must(err)
	var all sync.WaitGroup
	for i, o := range []*operator.Operator{d.Operator, other} {
		all.Go(func() {
			for n := range 20 {
				if err := put(t.Context(), o, operator.Server{Name: fmt.Sprintf("s%d-%d", i, n), BaseImage: "b"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(d.load().Servers); n != 42 {
		t.Errorf("%d servers", n)
	}
}

func TestAllows(t *testing.T) { // D56
	for _, c := range []struct {
		allow  []string
		caller schemas.Caller
		want   bool
	}{
		{nil, schemas.Caller{Thread: "T1", Role: schemas.Owner}, false},
		{nil, schemas.Caller{Thread: "T1", Operator: true}, true},
		{[]string{"T1"}, schemas.Caller{Thread: "T1"}, true},
		{[]string{"T1"}, schemas.Caller{Thread: "T2", Operator: true}, false},
		{[]string{"thread:T1"}, schemas.Caller{Thread: "T1"}, true},
		{[]string{"member:U1"}, schemas.Caller{Thread: "T2", Member: "U1"}, true},
		{[]string{"member:U1"}, schemas.Caller{Thread: "U1", Member: "U2"}, false},
		{[]string{"role:manager"}, schemas.Caller{Thread: "T1", Role: schemas.Member}, false},
		{[]string{"role:manager"}, schemas.Caller{Thread: "T1", Role: schemas.Owner}, true},
		{[]string{"*"}, schemas.Caller{Thread: "T1"}, true},
		{[]string{"session:s"}, schemas.Caller{Thread: "s"}, false},
	} {
		if got := (operator.Server{Allow: c.allow}).Allows(c.caller); got != c.want {
			t.Errorf("%v %+v: %v", c.allow, c.caller, got)
		}
	}
}

func TestHidden(t *testing.T) { // D54: what nobody is to see in an answer, and nothing else
	d := open(t, `mcps:
  - name: far
    type: remote
    url: https://mcp.example.com/mcp
    headers: {Authorization: Bearer canary-1, X-Two: "id=${input:TWO};level=${env:LEVEL}", X-Three: "${env:THREE_TOKEN}"}
  - name: near
    base_image: b
    env: {DATABASE_URL: "postgres://u:canary-4@db/x", LEVEL: words, FIVE_KEY: canary-5}
`)
	d.must(d.safe.Put(t.Context(), schemas.SecretKey{Member: "operator", Thread: "operator", Server: "far", Name: "TWO", Origin: "https://mcp.example.com:443"}, schemas.NewSecret("canary-2")))
	d.must(d.Seal(t.Context()))
	for name, want := range map[string]string{"far": "canary-1 canary-2 canary-3", "near": "canary-4 canary-5 postgres://u:canary-4@db/x", "nobody": ""} {
		var got []string
		for _, v := range d.Hidden(t.Context(), name) {
			got = append(got, v.Reveal())
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestPropose(t *testing.T) { // K20: what an entry of the same name changes is shown, and no secret is
	const text = `mcps:
  # about a
  - name: a
    base_image: mcp/a   # the image
    # about the port
    proxy_options:
      sse_port: 9000 # mine
    env:
      A_TOKEN: canary-old
      LEVEL: info
    comand: x
    writable: true
    allow: [T1]
  # about b
  - {name: b, base_image: mcp/b, env: {B_TOKEN: "canary-\"b"}}
`
	d := open(t, strings.ReplaceAll(text, "  - {name: b, base_image: mcp/b, env: {B_TOKEN: \"canary-\\\"b\"}}\n", "  - name: b\n    base_image: mcp/b\n"))
	a := operator.Server{Name: "a", BaseImage: "mcp/a:2", Command: "run", ProxyOptions: &operator.ProxyOptions{Port: 9000}, Env: map[string]string{"A_TOKEN": "canary-new"}}
	before := d.text()
	c, err := d.Propose(t.Context(), a)
	d.must(err)
	if d.text() != before || len(d.safe.values) > 0 {
		t.Error("a proposal changed something")
	}
	want := `@@ -1,16 +1,16 @@
 mcps:
   # about a
   - name: a
-    base_image: mcp/a   # the image
+    base_image: mcp/a:2
     # about the port
     proxy_options:
       sse_port: 9000 # mine
     env:
-      A_TOKEN: "${input:A_TOKEN}"
-      LEVEL: info
+      A_TOKEN: ${input:A_TOKEN}
     comand: x
     writable: true
     allow: [T1]
+    command: run
   # about b
   - name: b
     base_image: mcp/b
`
	if diff := cmp.Diff(want, c.Diff); diff != "" || c.Kind != operator.Changed || !slices.Equal(c.Sealed, []string{"A_TOKEN"}) {
		t.Errorf("%+v\n%s", c, diff)
	}
	d.must(d.Commit(t.Context(), c))
	if s, _ := d.load().Find("a"); s.BaseImage != "mcp/a:2" || !s.Writable || !slices.Equal(s.Allow, []string{"T1"}) || s.Env["A_TOKEN"] != "${input:A_TOKEN}" || len(s.Env) != 1 {
		t.Errorf("%+v\n%s", s, d.text())
	}
	if err := d.Commit(t.Context(), c); schemas.CodeOf(err) != schemas.CodeConflict {
		t.Errorf("the same proposal twice: %v", err)
	}
	if c, err = d.Propose(t.Context(), a); err != nil || c.Kind != operator.Same || c.Diff != "" {
		t.Errorf("nothing to change: %+v %v", c, err)
	}
	a.Env["A_TOKEN"] = "canary-third"
	if c, err = d.Propose(t.Context(), a); err != nil || c.Kind != operator.Changed || c.Diff != "" || !slices.Equal(c.Sealed, []string{"A_TOKEN"}) {
		t.Errorf("another value alone: %+v %v", c, err)
	}
	d.must(d.Commit(t.Context(), c))
	if len(d.safe.values) != 1 {
		t.Errorf("%d values", len(d.safe.values))
	}
	a.Env = nil
	d.must(put(t.Context(), d.Operator, a))
	if len(d.safe.values) != 0 {
		t.Error("a value that nothing refers to stays in the vault")
	}
	c, err = d.Propose(t.Context(), operator.Server{Name: "new", BaseImage: "x", Env: map[string]string{"K_TOKEN": "canary"}})
	if err != nil || c.Kind != operator.Added || strings.Contains(c.Diff, "canary") || !strings.Contains(c.Diff, "+  - name: new\n") {
		t.Errorf("%+v %v", c, err)
	}
	odd := open(t, text)
	if c, err = odd.Propose(t.Context(), operator.Server{Name: "c", BaseImage: "x"}); err != nil || strings.Contains(c.Diff, "canary") || !strings.Contains(c.Diff, "B_TOKEN") {
		t.Errorf("a secret in flow style: %+v %v", c, err)
	}
}
