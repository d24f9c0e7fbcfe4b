//go:build linux

package sandbox_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/sandbox"
	"bobbin/schemas"
)

const testImage = "bobbin-sandbox-test"

// engine finds the engine of the tests. In CI it must be there.
func engine(t testing.TB) string {
	t.Helper()
	own, _ := filepath.Abs("../.tools/engine/docker.sock")
	for _, host := range []string{os.Getenv("BOBBIN_TEST_ENGINE"), os.Getenv("DOCKER_HOST"), "unix://" + own, "unix:///var/run/docker.sock"} {
		if host == "" {
			continue
		}
		if exec.Command("docker", "-H", host, "image", "inspect", testImage).Run() == nil {
			return host
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no container engine with the image " + testImage + ": run scripts/engine and scripts/sandbox-image")
	}
	t.Skip("no container engine with the image " + testImage + " answers: run scripts/engine and scripts/sandbox-image")
	return ""
}

var built = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../.tools/bobbin-static")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", path, "bobbin/cmd/bobbin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), err
	}
	return path, nil
})

type world struct {
	*sandbox.Docker
	t      testing.TB
	host   string
	boxes  *durable.Dir
	opt    sandbox.DockerOptions
	member []schemas.MemberID
}

// openDocker gives a Docker on the real engine, and looks at the end that nothing of it is left.
func openDocker(t testing.TB, change func(*sandbox.DockerOptions)) *world {
	t.Helper()
	host := engine(t)
	binary, err := built()
	if err != nil {
		t.Fatalf("%v\n%s", err, binary)
	}
	boxes, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, host: host, boxes: boxes, opt: sandbox.DockerOptions{Boxes: boxes, Engine: host, Image: testImage, Binary: binary}}
	if change != nil {
		change(&w.opt)
	}
	w.reopen()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, m := range w.member {
			if err := w.Remove(ctx, m); err != nil {
				t.Error(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		id, _ := boxes.Read("instance", 64)
		for _, what := range []string{"ps -aq", "volume ls -q"} {
			if left := w.docker(append(strings.Fields(what), "--filter", "label=bobbin.instance="+string(id))...); left != "" {
				t.Errorf("docker %s: left %s", what, left)
			}
		}
		if left, _ := boxes.List(); len(left) != 1 {
			t.Errorf("left in the folder: %v", left)
		}
	})
	return w
}

func (w *world) reopen() {
	w.t.Helper()
	if w.Docker != nil {
		w.Abandon()
	}
	d, err := sandbox.NewDocker(w.t.Context(), w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Docker = d
}

func (w *world) docker(args ...string) string {
	w.t.Helper()
	return strings.TrimSpace(run(w.t, "docker", append([]string{"-H", w.host}, args...)...))
}

func (w *world) someone() schemas.MemberID {
	m := schemas.MemberID("test-" + strings.ToLower(rand.Text()[:10]))
	w.member = append(w.member, m)
	return m
}

func (w *world) exec(m schemas.MemberID, args ...string) schemas.Executed {
	w.t.Helper()
	x, err := w.Exec(w.t.Context(), schemas.Exec{Thread: "t1", Member: m, Args: args})
	if err != nil {
		w.t.Fatalf("%v: %v", args, err)
	}
	return x
}

func (w *world) sh(m schemas.MemberID, script string) string {
	w.t.Helper()
	x := w.exec(m, "sh", "-c", script)
	return strings.TrimSpace(x.Stdout + x.Stderr)
}

func TestDocker_Exec(t *testing.T) {
	w := openDocker(t, nil)
	m := w.someone()
	began := time.Now()
	x := w.exec(m, "sh", "-c", "id -u; getent hosts localhost; touch /workspace/x && ls -ld /workspace/x; exit 3")
	t.Logf("first command after %v: %+v", time.Since(began), x)
	if x.Code != 3 || !strings.HasPrefix(x.Stdout, "10001\n") || !strings.Contains(x.Stdout, "localhost") {
		t.Errorf("%+v", x)
	}
	began = time.Now()
	w.exec(m, "true")
	t.Log("second", time.Since(began))
}

func TestDocker_Put(t *testing.T) {
	w := openDocker(t, nil)
	m := w.someone()
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	for name, data := range map[string][]byte{"a.json": []byte("{}\n"), "deep/er/empty": {}, "b c'$(id)\n": big} {
		for range 2 { // the second replaces the first
			if err := w.Put(t.Context(), m, "/workspace/external-mcp/x", name, data); err != nil {
				t.Fatal(err)
			}
		}
		x := w.exec(m, "sh", "-c", `stat -c '%a %u %s' -- "$1"; sha256sum <"$1"`, "x", "/workspace/external-mcp/x/"+name)
		if want := fmt.Sprintf("644 10001 %d\n%x  -\n", len(data), sha256.Sum256(data)); x.Stdout != want {
			t.Errorf("%q: %+v, want %s", name, x, want)
		}
	}
	if left := w.sh(m, "find /workspace -name '*.part-*'"); left != "" {
		t.Error(left)
	}
	for _, bad := range []string{"", ".", "..", "../x", "/x", "a/../../b", "a//b"} {
		if err := w.Put(t.Context(), m, "/workspace", bad, nil); schemas.CodeOf(err) != schemas.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := w.Put(t.Context(), m, "/etc", "x", nil); schemas.CodeOf(err) != schemas.CodeInvalid {
		t.Error(err)
	}
	// A folder is in the way; the system is read-only also by way of a link.
	w.sh(m, "mkdir -p /workspace/dir; ln -s /etc /workspace/link")
	for _, bad := range []string{"dir", "link/passwd", "link/new"} {
		if err := w.Put(t.Context(), m, "/workspace", bad, []byte("x")); schemas.CodeOf(err) != schemas.CodeFailed {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := w.Put(t.Context(), m, "/workspace", "x", make([]byte, 64<<20+1)); schemas.CodeOf(err) != schemas.CodeTooLarge {
		t.Error(err)
	}
}

// TestDocker_Diagnose: callers ask when the output ends, or close first.
func TestDocker_Diagnose(t *testing.T) {
	w := openDocker(t, nil)
	m := w.someone()
	for _, closed := range []bool{false, true} {
		c, err := w.Launch(t.Context(), schemas.Launch{Thread: "t1", Owner: m, Server: "x", Command: "sh", Args: []string{"-c", "echo no such module >&2; exit 3"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
		if closed {
			_ = c.Close()
		}
		if why := c.(interface{ Diagnose() string }).Diagnose(); why != "exited with 3: no such module" {
			t.Errorf("closed %v: %q", closed, why)
		}
		_ = c.Close()
	}
}

// TestDocker_OneBobbin: two on one data folder would take each other's sockets away.
func TestDocker_OneBobbin(t *testing.T) {
	w := openDocker(t, nil)
	_, err := sandbox.NewDocker(t.Context(), w.opt)
	if schemas.CodeOf(err) != schemas.CodeConflict || !strings.Contains(err.Error(), "another bobbin") {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.reopen()
}
