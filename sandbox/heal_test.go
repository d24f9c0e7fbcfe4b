//go:build linux

package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"bobbin/sandbox"
	"bobbin/schemas"
)

// echo starts a server that gives back its lines.
func (w *world) echo(m schemas.MemberID, server string) (io.ReadWriteCloser, *bufio.Reader) {
	w.t.Helper()
	c, err := w.Launch(w.t.Context(), schemas.Launch{Thread: "t1", Owner: m, Server: server, Command: "cat"})
	if err != nil {
		w.t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if err := ping(c, in, "hello"); err != nil {
		w.t.Fatal(err)
	}
	return c, in
}

func ping(c io.Writer, in *bufio.Reader, text string) error {
	if _, err := io.WriteString(c, text+"\n"); err != nil {
		return err
	}
	line, err := in.ReadString('\n')
	if err == nil && line != text+"\n" {
		err = fmt.Errorf("%q", line)
	}
	return err
}

// ends waits for the end of a server, and gives the reason.
func ends(t *testing.T, c io.ReadWriteCloser, in *bufio.Reader) string {
	t.Helper()
	over := make(chan error, 1)
	go func() { _, err := in.ReadByte(); over <- err }()
	select {
	case err := <-over:
		if err != io.EOF {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	why := c.(interface{ Diagnose() string }).Diagnose()
	_ = c.Close()
	return why
}

const killProxy = `for p in /proc/[0-9]*; do case "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" in "/bobbin proxy"*) kill -9 ${p#/proc/};; esac; done`

// TestDocker_Heals: whatever ends, from inside or outside, is there again at the next use, with its files.
func TestDocker_Heals(t *testing.T) {
	w := openDocker(t, nil)
	m := w.someone()
	w.sh(m, "echo kept >/workspace/file")
	first := w.id(m)
	for name, c := range map[string]struct {
		end  func()
		same bool
		why  string
	}{
		"the proxy inside is killed": {func() {
			if _, err := w.Exec(t.Context(), schemas.Exec{Member: m, Args: []string{"sh", "-c", killProxy + "; sleep 60"}}); schemas.CodeOf(err) != schemas.CodeUnknown {
				t.Error(err)
			}
		}, true, "its sandbox was stopped"},
		"the container is killed":  {func() { w.docker("kill", w.id(m)) }, true, "its sandbox was stopped"},
		"the container is removed": {func() { w.docker("rm", "-f", w.id(m)) }, false, "its sandbox is gone"},
		"it is stopped": {func() {
			if err := w.Stop(t.Context(), m); err != nil {
				t.Error(err)
			}
		}, true, "its sandbox was stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			server, in := w.echo(m, "s")
			before := w.id(m)
			c.end()
			if why := ends(t, server, in); why != c.why {
				t.Errorf("%q, not %q", why, c.why)
			}
			began := time.Now()
			again, in := w.echo(m, "s")
			t.Logf("again after %v", time.Since(began))
			if err := ping(again, in, "x"); err != nil {
				t.Error(err)
			}
			_ = again.Close()
			if got := w.sh(m, "cat /workspace/file"); got != "kept" {
				t.Error(got)
			}
			if (w.id(m) == before) != c.same {
				t.Errorf("the container was %s, is %s", before, w.id(m))
			}
		})
	}
	if first == "" {
		t.Error("it has no id")
	}
}

// TestDocker_Adopts: a bobbin that is started again goes on with what the killed one left; the servers that had their input from that
// one are gone, other programs run on.
func TestDocker_Adopts(t *testing.T) {
	w := openDocker(t, nil)
	m := w.someone()
	w.sh(m, "setsid sleep 4343 </dev/null >/dev/null 2>&1 & sleep 0.2")
	w.echo(m, "s")
	before := w.id(m)
	w.reopen()
	if s, err := w.Status(t.Context(), m); err != nil || s.State != "running" || s.ID != before {
		t.Errorf("%+v, %v", s, err)
	}
	programs := w.sh(m, `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done`)
	if w.id(m) != before || !strings.Contains(programs, "sleep 4343") || strings.Contains(programs, "\ncat \n") {
		t.Errorf("%s, not %s:\n%s", w.id(m), before, programs)
	}
	server, in := w.echo(m, "s")
	if err := ping(server, in, "x"); err != nil {
		t.Error(err)
	}
	_ = server.Close()

	// What the killed one left behind is damaged: a sandbox that cannot be adopted starts again.
	for name, damage := range map[string]func(folder string) error{
		"the token is lost":    func(f string) error { return os.Remove(f + "/token") },
		"the token is wrong":   func(f string) error { return os.WriteFile(f+"/token", []byte("wrong"), 0o600) },
		"the sockets are lost": func(f string) error { return os.RemoveAll(f + "/run") },
		"the whole folder is":  os.RemoveAll,
	} {
		entries, err := w.boxes.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				if err := damage(w.boxes.Path() + "/" + e.Name()); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.reopen()
		if got := w.sh(m, "echo fine"); got != "fine" {
			t.Errorf("%s: %s", name, got)
		}
	}

	// Another bobbin program: the container is made anew, the workspace stays.
	w.sh(m, "echo kept >/workspace/file")
	before = w.id(m)
	copied := t.TempDir() + "/bobbin"
	run(t, "cp", w.opt.Binary, copied)
	w.opt.Binary = copied
	w.reopen()
	if got := w.sh(m, "cat /workspace/file"); got != "kept" || w.id(m) == before {
		t.Errorf("%s in %s", got, w.id(m))
	}

	// Without the sandbox's own program nothing answers, and that is said.
	w.docker("stop", w.id(m))
	if err := os.Remove(copied); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Exec(t.Context(), schemas.Exec{Member: m, Args: []string{"true"}}); schemas.CodeOf(err) != schemas.CodeNotReady {
		t.Error(err)
	}
}

func TestDocker_Idle(t *testing.T) {
	t.Parallel()
	w := openDocker(t, func(o *sandbox.DockerOptions) { o.Idle = time.Second })
	m, busy := w.someone(), w.someone()
	w.sh(m, "echo kept >/workspace/file")
	server, in := w.echo(busy, "s")
	defer server.Close()
	state := func(m schemas.MemberID) string {
		s, err := w.Status(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return s.State
	}
	await(t, func() bool { return state(m) == "stopped" })
	if got := w.sh(m, "cat /workspace/file"); got != "kept" {
		t.Error(got)
	}
	if err := ping(server, in, "x"); err != nil || state(busy) != "running" {
		t.Errorf("one that is used was stopped: %v", err)
	}
	w.reopen() // nobody asks for what was left running
	await(t, func() bool { return state(m) == "stopped" && state(busy) == "stopped" })
}

// TestDocker_PerServer: each server has a container of its own, and its member's workspace.
func TestDocker_PerServer(t *testing.T) {
	t.Parallel()
	w := openDocker(t, func(o *sandbox.DockerOptions) { o.PerServer = true })
	m := w.someone()
	w.sh(m, "echo kept >/workspace/file")
	var ids []string
	for _, server := range []string{"a", "b"} {
		c, err := w.Launch(t.Context(), schemas.Launch{Thread: "t1", Owner: m, Server: server, Command: "sh", Args: []string{"-c", "hostname; cat /workspace/file; sleep 60"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		in := bufio.NewReader(c)
		host, _ := in.ReadString('\n')
		file, _ := in.ReadString('\n')
		ids = append(ids, host)
		if file != "kept\n" {
			t.Error(file)
		}
	}
	if ids[0] == ids[1] || ids[0] == "" {
		t.Error(ids)
	}
	if s, err := w.Status(t.Context(), m); err != nil || s.Servers != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if n := len(strings.Fields(w.docker("ps", "-q", "--filter", "volume=bobbin-sandbox-vol-"+string(m)))); n != 3 {
		t.Errorf("%d containers", n)
	}
}

// TestDocker_Many: uses of one sandbox at once start it once; after Close nothing starts.
func TestDocker_Many(t *testing.T) {
	w := openDocker(t, nil)
	m := w.someone()
	errs := make(chan error)
	for i := range 12 {
		go func() {
			x, err := w.Exec(t.Context(), schemas.Exec{Member: m, Args: []string{"echo", fmt.Sprint(i)}})
			if err == nil && x.Stdout != fmt.Sprintln(i) {
				err = fmt.Errorf("%+v", x)
			}
			errs <- err
		}()
	}
	for range 12 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := len(strings.Fields(w.docker("ps", "-aq", "--filter", "volume=bobbin-sandbox-vol-"+string(m)))); n != 1 {
		t.Errorf("%d containers", n)
	}
	if err := w.Remove(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Status(t.Context(), m); err != nil || s.State != "none" {
		t.Errorf("%+v, %v", s, err)
	}
	if got := w.sh(m, "ls -A /workspace"); got != "" {
		t.Errorf("left: %s", got)
	}
	if err := w.Remove(t.Context(), w.someone()); err != nil {
		t.Error("one that never was: ", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Exec(t.Context(), schemas.Exec{Member: m, Args: []string{"true"}}); err == nil {
		t.Error("it runs after the end")
	}
	if got := w.docker("ps", "-q", "--filter", "volume=bobbin-sandbox-vol-"+string(m)); got != "" {
		t.Errorf("running: %s", got)
	}
	w.Docker = nil
	w.reopen()
}
