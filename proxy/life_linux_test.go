//go:build linux

package proxy_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bobbin/proxy"
)

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestProxy_KilledServerComesBack(t *testing.T) {
	w := open(t)
	w.put("a", me(), 201)
	c := w.connect("a")
	first := c.call("pid", nil)
	for range 2 {
		if again := c.call("pid", nil); again != first {
			t.Fatalf("pid %s, before %s", again, first)
		}
	}
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "it is started again", func() bool { st := w.status("a"); return st.State == proxy.Running && st.PID != pid })
	if st := w.status("a"); st.Restarts != 1 || st.Exit != "killed by signal 9" {
		t.Errorf("%+v", st)
	}
	// The session outlives the program: the new one hears the same handshake first.
	if again := c.call("pid", nil); again == first || strings.HasPrefix(again, "error") {
		t.Errorf("after the kill: pid %s, before %s", again, first)
	}
	until(t, "it hears that the handshake is over", func() bool { return strings.Contains(w.status("a").Stderr, "initialized") })
}

func TestProxy_CallOfADyingServer(t *testing.T) {
	w := open(t)
	w.put("a", me("die"), 201)
	c := w.connect("a")
	if got := c.call("pid", nil); got != "error: the server ended before it answered; whether the call ran is not known" {
		t.Errorf("%q", got)
	}
}

func TestProxy_PauseGrowsUntilTheBreaker(t *testing.T) {
	w := open(t)
	w.put("a", me("exit"), 201)
	began := time.Now()
	until(t, "it is given up", func() bool { return w.status("a").State == proxy.Failed })
	// 0.2 + 0.4 + 0.8 + 1.6 s between five starts.
	if took := time.Since(began); took < 2500*time.Millisecond || took > 10*time.Second {
		t.Errorf("five starts took %s", took)
	}
	st := w.status("a")
	if st.Restarts != 4 || st.Exit != "exited with 3" {
		t.Errorf("%+v", st)
	}
	if a := w.do("POST", "/servers/a/mcp", hello, "Accept", both); a.status != 503 {
		t.Errorf("a call: %d %s", a.status, a.body)
	}
	w.put("a", me("exit"), 200)
	until(t, "it was tried again because it was put again", func() bool { return w.status("a").Restarts > 4 })
}

func TestProxy_StubbornServerIsKilled(t *testing.T) {
	w := open(t)
	st := w.put("a", me("stubborn"), 201)
	w.connect("a") // it ignores signals from here on
	began := time.Now()
	if a := w.do("DELETE", "/servers/a", ""); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if took := time.Since(began); took < 3*time.Second || took > 8*time.Second || alive(st.PID) {
		t.Errorf("the end took %s, alive %t", took, alive(st.PID))
	}
}

func TestProxy_Stderr(t *testing.T) {
	w := open(t)
	w.put("a", with(me("exit"), map[string]string{"SECRET": "canary-canary"}), 201)
	until(t, "its words are there", func() bool { return strings.Contains(w.status("a").Stderr, "I cannot go on: ***") })
	// A flood neither stops the program nor is kept.
	w.put("b", me("chatty"), 201)
	if got := w.connect("b").call("echo", map[string]any{"text": "still here"}); got != "still here" {
		t.Errorf("%q", got)
	}
	if n := len(w.status("b").Stderr); n == 0 || n > 64<<10 {
		t.Errorf("%d bytes of stderr", n)
	}
	for _, st := range w.p.List() {
		if len(st.Stderr) > 4<<10 {
			t.Errorf("the list has %d bytes of stderr", len(st.Stderr))
		}
	}
}

func TestProxy_EnvironmentAndFolder(t *testing.T) {
	t.Setenv("CANARY", "must not be handed on")
	root := t.TempDir()
	outside := t.TempDir()
	for _, err := range []error{os.Mkdir(filepath.Join(root, "sub"), 0o700), os.Symlink(outside, filepath.Join(root, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := open(t, func(o *proxy.Options) { o.Root = root })
	d := with(me(), map[string]string{"MINE": "yes"})
	d.Cwd = "sub"
	w.put("a", d, 201)
	c := w.connect("a")
	if env := c.call("env", nil); strings.Contains(env, "CANARY") || !strings.Contains(env, "MINE=yes") {
		t.Errorf("environment: %s", env)
	}
	if dir := c.call("cwd", nil); dir != filepath.Join(root, "sub") {
		t.Errorf("folder: %s", dir)
	}
	for _, cwd := range []string{"..", "link", outside, "/", "none"} {
		d.Cwd = cwd
		if a := w.do("PUT", "/servers/b", `{"command":"`+d.Command+`","cwd":"`+cwd+`"}`); a.status != 422 || !strings.Contains(a.body, "outside of the workspace") {
			t.Errorf("cwd %s: %d %s", cwd, a.status, a.body)
		}
	}
}

// TestProxy_Adopt leaves no zombies of programs that were left behind by their parents.
func TestProxy_Adopt(t *testing.T) {
	w := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- w.p.Adopt(ctx) }()
	defer func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	exe := me().Command
	for range 3 {
		a := w.do("POST", "/exec", `{"args":["`+exe+`","command","orphan"]}`)
		if !strings.Contains(a.body, `"code":0`) {
			t.Fatalf("%s", a.body)
		}
	}
	until(t, "no child is left", func() bool { return len(offspring(t)) == 0 })
	// Programs that somebody waits for are left to them.
	for range 20 {
		if a := w.do("POST", "/exec", `{"args":["`+exe+`","command","say","","","7"]}`); !strings.Contains(a.body, `"code":7`) {
			t.Fatalf("%s", a.body)
		}
	}
}

// offspring gives our children, zombies among them.
func offspring(t *testing.T) []string {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []string
	for _, f := range stats {
		stat, err := os.ReadFile(f)
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			found = append(found, f+" "+fields[0])
		}
	}
	return found
}
