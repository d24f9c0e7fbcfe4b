package operator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bobbin/schemas"
)

// golden compares with a file of testdata/golden; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", name, diff)
	}
}

func pretty(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func example() Server {
	s := Server{Name: "github", Type: Proxied, BaseImage: "mcp/github", Command: "github-mcp --log 'a b'", Env: map[string]string{"GITHUB_TOKEN": "${input:GITHUB_TOKEN}", "LEVEL": "it's"}}
	s.fill()
	return s
}

func TestSpecs(t *testing.T) { // D09, D30 to D34, D41, D42, D46, and the locks
	p := plan{server: example(), prefix: "cubbi", instance: "INSTANCE", image: "sha256:IMAGE", binary: "/data/operator/shared/bobbin", folder: "/data/operator/servers/github/run", engine: "/run/engine.sock"}
	golden(t, "server.json", pretty(t, serverSpec(p)))
	p.server.Writable, p.server.ProxyOptions = true, &ProxyOptions{Port: 9000, Host: "127.0.0.1", Origin: "https://app.example.com"}
	golden(t, "server-other.json", pretty(t, serverSpec(p)))
	p.server = example()
	p.server.ProxyImage = "ghcr.io/sparfenyuk/mcp-proxy:latest"
	if text := pretty(t, foreignSpec(p)); strings.Contains(text, "sock") {
		t.Error("the engine's socket without an opt-in")
	}
	p.server.AllowDockerSocket = true
	golden(t, "foreign.json", pretty(t, foreignSpec(p)))
	golden(t, "session.json", pretty(t, sessionSpec(sessionPlan{want: Wanted{Name: "s1", Image: "goose", TTY: true}, prefix: "mc", instance: "INSTANCE", image: "sha256:IMAGE",
		binary: "/data/operator/shared/bobbin", folder: "/data/operator/sessions/s1/run", command: []string{"goose", "session"}, use: []attached{{server: example(), token: "canary"}}})))
	golden(t, "inspector.json", pretty(t, inspectorSpec("bobbin", "INSTANCE", "sha256:IMAGE", "mcp/inspector", Inspector{Client: 5173, Server: 3000, Token: "canary"})))
}

func TestDockerfile(t *testing.T) { // D44, D45
	s := example()
	s.ProxyImage = "ghcr.io/sparfenyuk/mcp-proxy:latest"
	golden(t, "Dockerfile", Dockerfile(s))
	script, err := Entrypoint(s)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "entrypoint.sh", script)
}

func TestFingerprint(t *testing.T) { // it knows every change, and tells nothing of a value
	o := &Operator{salt: []byte("salt")}
	p := plan{server: example(), prefix: "bobbin", image: "i", binary: "b", folder: "f"}
	values := map[string]schemas.Secret{"K": schemas.NewSecret("canary")}
	base := o.fingerprint(serverSpec(p), nil, values)
	if again := o.fingerprint(serverSpec(p), nil, map[string]schemas.Secret{"K": schemas.NewSecret("canary")}); again != base {
		t.Error("the same is another")
	}
	seen := map[string]string{base: "base"}
	try := func(what, mark string) {
		if was, twice := seen[mark]; twice {
			t.Errorf("%s is the same as %s", what, was)
		}
		seen[mark] = what
	}
	try("value", o.fingerprint(serverSpec(p), nil, map[string]schemas.Secret{"K": schemas.NewSecret("other")}))
	try("name of a value", o.fingerprint(serverSpec(p), nil, map[string]schemas.Secret{"L": schemas.NewSecret("canary")}))
	try("command", o.fingerprint(serverSpec(p), []any{"x"}, values))
	q := p
	q.image = "j"
	try("image", o.fingerprint(serverSpec(q), nil, values))
	q = p
	q.server.ProxyOptions = &ProxyOptions{Port: 8081, Host: defaultHost, Origin: defaultOrigin}
	try("port", o.fingerprint(serverSpec(q), nil, values))
	q.server.ProxyOptions = &ProxyOptions{Port: 8080, Host: defaultHost, Origin: "https://a.example"}
	try("origin", o.fingerprint(serverSpec(q), nil, values))
	try("salt", (&Operator{salt: []byte("other")}).fingerprint(serverSpec(p), nil, values))
}

func TestComments(t *testing.T) { // the YAML library loses what stands below some comments when it is told to keep these
	f, err := decode([]byte("mcps: # none\n  # c\n  - name: a # d\n    # e\n    base_image: x # f\n    env: # g\n      # h\n      A: b # i\n# j\n"))
	if s, ok := f.Find("a"); err != nil || !ok || s.Env["A"] != "b" {
		t.Errorf("%+v %v", f, err)
	}
}
