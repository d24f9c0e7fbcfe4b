//go:build linux

package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bobbin/sandbox"
	"bobbin/schemas"
)

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	far := filepath.Join(t.TempDir(), "far")
	for _, name := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "sub", "b"), far} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": filepath.Dir(far), "file": far, "loop": "."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "sub", "same")); err != nil {
		t.Fatal(err)
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sparse.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	_ = sparse.Close()
	size, err := sandbox.Measure(t.Context(), dir, 1<<30)
	if err != nil || size < 2<<20 || size > 2<<20+64<<10 {
		t.Errorf("%d, %v", size, err)
	}
	if size, err := sandbox.Measure(t.Context(), dir, 1<<19); err != nil || size < 1<<19 {
		t.Errorf("%d, %v", size, err)
	}
	if _, err := sandbox.Measure(t.Context(), filepath.Join(dir, "absent"), 1); err == nil {
		t.Error("nothing has a size")
	}
}

// TestDocker_FakeDisk: where bobbin may not look at the volume, the engine is asked; one that is limited by the engine is let be.
func TestDocker_FakeDisk(t *testing.T) {
	t.Parallel()
	e, d, _ := openFake(t, nil)
	c, err := d.Launch(t.Context(), schemas.Launch{Owner: "alice", Command: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	await(t, func() bool { e.mu.Lock(); defer e.mu.Unlock(); return slices.Contains(e.calls, "GET /system/df") })
	e.mu.Lock()
	running := e.running
	e.size = 2<<30 + 1
	e.mu.Unlock()
	if !running {
		t.Fatal("it was stopped below its limit")
	}
	await(t, func() bool { e.mu.Lock(); defer e.mu.Unlock(); return slices.Contains(e.calls, "stop after 0") })
	_, _ = c.Read(make([]byte, 1<<10))
	_, _ = c.Read(make([]byte, 1))
	if why := c.(interface{ Diagnose() string }).Diagnose(); why != "its sandbox was stopped: its files take more than 2 GiB" {
		t.Error(why)
	}
	// Somebody who is over the limit may go on, to make room; not beyond four times.
	if _, err := d.Exec(t.Context(), schemas.Exec{Member: "alice", Args: []string{"rm"}}); err != nil {
		t.Error(err)
	}
	e.mu.Lock()
	e.size = 8 << 30
	e.mu.Unlock()
	await(t, func() bool { e.mu.Lock(); defer e.mu.Unlock(); return !e.running })
	if _, err := d.Exec(t.Context(), schemas.Exec{Member: "alice", Args: []string{"rm"}}); schemas.CodeOf(err) != schemas.CodeDenied {
		t.Error(err)
	}

	e, d, _ = openFake(t, func(o *sandbox.DockerOptions) { o.Disk = 1 << 20 })
	e.quota = true
	if _, err := d.Exec(t.Context(), schemas.Exec{Member: "alice", Args: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	if len(e.volumes) != 1 || !strings.Contains(e.volumes[0], `"DriverOpts":{"size":"1048576"}`) {
		t.Error(e.volumes)
	}
	time.Sleep(3 * time.Second) // one look
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.calls, "GET /system/df") {
		t.Error("a limited volume is watched")
	}
}

func await(t testing.TB, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// TestDocker_Disk: a sandbox that fills its disk is stopped, its member told, and may make room.
func TestDocker_Disk(t *testing.T) {
	t.Parallel()
	w := openDocker(t, func(o *sandbox.DockerOptions) { o.Disk = 64 << 20 })
	filler, other := w.someone(), w.someone()
	w.sh(other, "sleep 300 </dev/null >/dev/null 2>&1 &")
	before := w.state(other)
	x, err := w.Exec(t.Context(), schemas.Exec{Member: filler, Args: []string{"sh", "-c", "i=0; while :; do i=$((i+1)); head -c 4000000 /dev/zero >/workspace/f$i || exit; sleep 0.1; done"}, Timeout: time.Minute})
	if schemas.CodeOf(err) != schemas.CodeUnknown || !strings.Contains(fmt.Sprint(err), "its files take more than 64 MiB") {
		t.Fatalf("%+v, %v", x, err)
	}
	await(t, func() bool { return strings.HasPrefix(w.state(filler), "stopped") })
	if s, err := w.Status(t.Context(), filler); err != nil || !slices.ContainsFunc(s.Missing, func(m string) bool { return strings.Contains(m, "above 64 MiB") }) {
		t.Errorf("%+v, %v", s, err)
	}
	t.Log(w.sh(filler, "du -sm /workspace; rm /workspace/f*; sleep 5; du -sm /workspace"))
	if after := w.state(other); after != before {
		t.Errorf("the other's: %s, %s", before, after)
	}
	w.Reserve(1 << 60)
	if _, err := w.Exec(t.Context(), schemas.Exec{Member: filler, Args: []string{"sleep", "30"}}); !strings.Contains(fmt.Sprint(err), "nearly full") {
		t.Error(err)
	}
}

func (w *world) state(m schemas.MemberID) string {
	w.t.Helper()
	s, err := w.Status(w.t.Context(), m)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.State + s.ID + s.Since.String()
}
