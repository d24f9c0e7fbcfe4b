//go:build linux

package sandbox_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"bobbin/internal/durable"
	"bobbin/sandbox"
)

// fakeEngine knows the few calls of the Engine API (1.41) that are needed, and nothing else. A started container is an inner.
type fakeEngine struct {
	t       *testing.T
	mu      sync.Mutex
	host    string
	created []string // bodies
	volumes []string
	running bool
	labels  map[string]string
	folder  string
	in      *inner
	calls   []string
	quota   bool // volumes can be limited
	podman  bool
	bare    bool     // Podman without root, on control groups of version 1
	loose   []string // what does not hold the program inside
	size    int64
}

func newEngine(t *testing.T) *fakeEngine {
	t.Helper()
	e := &fakeEngine{t: t, host: "unix://" + filepath.Join(t.TempDir(), "d.sock")}
	mux := http.NewServeMux()
	e.answerStill(mux)
	e.answerChanges(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the engine was asked %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusInternalServerError)
	})
	l, err := net.Listen("unix", strings.TrimPrefix(e.host, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.calls = append(e.calls, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/v1.41"))
		mux.ServeHTTP(w, r)
	})}
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { _ = s.Close(); done.Wait() })
	return e
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// answerStill answers what changes nothing.
func (e *fakeEngine) answerStill(mux *http.ServeMux) {
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") })
	mux.HandleFunc("GET /v1.41/version", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"Components": []any{map[string]any{"Name": map[bool]string{true: "Podman Engine", false: "Engine"}[e.podman]}}})
	})
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) { // as Podman alone is asked
		reply(w, map[string]any{"Rootless": e.bare, "CgroupVersion": "1"})
	})
	mux.HandleFunc("GET /v1.41/info", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"Runtimes": map[string]any{"runc": map[string]any{"path": "runc"}, "crun": map[string]any{"path": "crun"}}})
	})
	mux.HandleFunc("GET /v1.41/images/{name}/json", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("name") != "bobbin-sandbox" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		reply(w, map[string]any{"Id": "sha256:" + strings.Repeat("ab", 32)})
	})
	mux.HandleFunc("GET /v1.41/containers/json", func(w http.ResponseWriter, r *http.Request) {
		list := []any{}
		if e.labels != nil && strings.Contains(r.FormValue("filters"), "bobbin.") {
			list = append(list, map[string]any{"Id": "c0ffee", "State": map[bool]string{true: "running", false: "exited"}[e.running], "Labels": e.labels})
		}
		reply(w, list)
	})
	mux.HandleFunc("GET /v1.41/system/df", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"Volumes": []any{map[string]any{"Name": "bobbin-sandbox-vol-alice", "UsageData": map[string]any{"Size": e.size}}}})
	})
	mux.HandleFunc("GET /v1.41/containers/{name}/json", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"Id": "c0ffee", "State": map[string]any{"Running": e.running}})
	})
}

// answerChanges answers what makes, starts and ends.
func (e *fakeEngine) answerChanges(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1.41/volumes/create", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"size"`) && !e.quota {
			w.WriteHeader(http.StatusBadRequest) // as Docker 20.10 does
			reply(w, map[string]any{"message": `invalid option key: "size"`})
			return
		}
		e.volumes = append(e.volumes, string(body))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(bytes.Replace(body, []byte(`"DriverOpts"`), []byte(`"Options"`), 1))
	})
	mux.HandleFunc("POST /v1.41/containers/create", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.created = append(e.created, string(body))
		var c struct {
			Labels     map[string]string
			HostConfig struct {
				Mounts []struct{ Source, Target string }
			}
		}
		_ = json.Unmarshal(body, &c)
		e.labels = c.Labels
		e.folder = c.HostConfig.Mounts[slices.IndexFunc(c.HostConfig.Mounts, func(m struct{ Source, Target string }) bool { return m.Target == "/run/bobbin" })].Source
		w.WriteHeader(http.StatusCreated)
		reply(w, map[string]any{"Id": "c0ffee"})
	})
	mux.HandleFunc("POST /v1.41/containers/c0ffee/start", func(w http.ResponseWriter, _ *http.Request) {
		token, err := os.ReadFile(filepath.Join(e.folder, "token"))
		if err != nil {
			e.t.Error(err)
		}
		e.in, e.running = serveInner(e.t, filepath.Join(e.folder, "proxy.sock"), string(token)), true
		e.in.loose = e.loose
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /v1.41/containers/c0ffee/stop", func(w http.ResponseWriter, r *http.Request) {
		if t := r.FormValue("t"); t != "" {
			e.calls = append(e.calls, "stop after "+t)
		}
		e.running = false
		e.in.stop()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /v1.41/containers/c0ffee", func(w http.ResponseWriter, _ *http.Request) {
		e.running, e.labels = false, nil
		if e.in != nil {
			e.in.stop()
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// plainBinary is some program without a C library: what is mounted does not run at a fake engine.
func plainBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "bobbin"), filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "bobbin")
}

func openFake(t *testing.T, change func(*sandbox.DockerOptions)) (*fakeEngine, *sandbox.Docker, sandbox.DockerOptions) {
	t.Helper()
	e := newEngine(t)
	boxes, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	opt := sandbox.DockerOptions{Boxes: boxes, Engine: e.host, Binary: plainBinary(t)}
	if change != nil {
		change(&opt)
	}
	d, err := sandbox.NewDocker(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return e, d, opt
}
