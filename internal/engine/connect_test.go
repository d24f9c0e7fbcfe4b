//go:build linux

package engine_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bobbin/internal/engine"
	"bobbin/schemas"
)

func TestConnect_Hints(t *testing.T) { // the next step where no engine answers
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	hint := func(host string) string {
		t.Helper()
		_, err := engine.Connect(t.Context(), host, "without it: nothing")
		e, ok := errors.AsType[*schemas.Error](err)
		if !ok || e.Code != schemas.CodeMissing {
			t.Fatal(err)
		}
		return e.Hint
	}
	absent := "unix://" + filepath.Join(dir, "docker.sock")
	if os.Getuid() != 0 { // who may use any socket
		closed := filepath.Join(dir, "closed.sock")
		l, err := net.Listen("unix", closed)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
		if got := hint("unix://" + closed); !strings.Contains(got, "group docker") {
			t.Error("no right to use it:", got)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "podman"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "podman", "podman.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := hint(absent); got != "Podman is here: DOCKER_HOST=unix://"+l.Addr().String()+"; without it: nothing" {
		t.Error("Podman is:", got)
	}
}
