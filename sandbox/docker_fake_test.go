//go:build linux

package sandbox_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// inner is a strict stand-in for the program inside a sandbox.
type inner struct {
	token string
	mu    sync.Mutex
	defs  map[string]map[string]any
	busy  map[string]bool
	gone  []string
	conns []io.Closer
	stop  func()
	loose []string
}

func (f *inner) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /loose", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(f.loose) })
	mux.HandleFunc("PUT /servers/{name}", f.put)
	mux.HandleFunc("GET /servers/{name}", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": r.PathValue("name"), "state": "running", "pid": 7, "stderr": "warming up\n"})
	})
	mux.HandleFunc("DELETE /servers/{name}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.defs[r.PathValue("name")] == nil {
			http.Error(w, `{"error":"no such server"}`, http.StatusNotFound)
			return
		}
		delete(f.defs, r.PathValue("name"))
		f.gone = append(f.gone, r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /servers/{name}/stdio", f.stdio)
	mux.HandleFunc("POST /exec", f.exec)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+f.token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (f *inner) put(w http.ResponseWriter, r *http.Request) {
	var def struct {
		Command, Cwd string
		Args         []string
		Env          map[string]string
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&def); err != nil {
		http.Error(w, `{"error":"not a definition"}`, http.StatusBadRequest)
		return
	}
	if def.Command == "absent" {
		http.Error(w, `{"error":"\"absent\" was not found"}`, http.StatusUnprocessableEntity)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.defs[r.PathValue("name")] = map[string]any{"command": def.Command, "args": def.Args, "env": def.Env, "cwd": def.Cwd}
}

func (f *inner) stdio(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	name := r.PathValue("name")
	known, busy := f.defs[name] != nil, f.busy[name]
	f.busy[name] = true
	f.mu.Unlock()
	if r.Header.Get("Upgrade") != "mcp-stdio" || r.Header.Get("Connection") != "Upgrade" || !known || busy {
		http.Error(w, "not so", http.StatusConflict)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	f.mu.Lock()
	f.conns = append(f.conns, conn)
	f.mu.Unlock()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mcp-stdio\r\n\r\n{\"early\":true}\n")
	_, _ = io.Copy(conn, rw)
}

func (f *inner) exec(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Args      []string
		Dir       string
		Env       map[string]string
		TimeoutMs int64
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil || len(c.Args) == 0 || !strings.HasPrefix(c.Dir, "/workspace") || c.TimeoutMs <= 0 {
		http.Error(w, "not a command", http.StatusBadRequest)
		return
	}
	say := func(v any) {
		_ = json.NewEncoder(w).Encode(v)
		_ = http.NewResponseController(w).Flush()
	}
	switch c.Args[0] {
	case "torn":
		say(map[string]any{"out": "half"})
		panic(http.ErrAbortHandler)
	case "flood":
		for range 40 {
			say(map[string]any{"out": strings.Repeat("y", 64<<10)})
		}
	default:
		say(map[string]any{"out": "one\ntw"})
		say(map[string]any{"err": "\x1b[31mred\x1b[0m\n"})
		say(map[string]any{"out": "o " + c.Env["KEY"] + "\n"})
	}
	say(map[string]any{"code": 3, "timedOut": false, "cut": false})
}

func serveInner(t *testing.T, path, token string) *inner {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f := &inner{token: token, defs: map[string]map[string]any{}, busy: map[string]bool{}}
	s := &http.Server{Handler: f.handler()}
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(l) })
	f.stop = func() {
		_ = s.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range f.conns {
			_ = c.Close()
		}
		done.Wait()
	}
	t.Cleanup(f.stop)
	return f
}

// run is for tests that look at the engine from outside.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// only gives the one definition that there is.
func (f *inner) only(t *testing.T) map[string]any {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.defs) != 1 {
		t.Fatalf("%d definitions", len(f.defs))
	}
	for _, d := range f.defs {
		return d
	}
	return nil
}
