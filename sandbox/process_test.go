//go:build unix

package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/internal/durable"
	"bobbin/sandbox"
	"bobbin/schemas"
)

type house struct {
	*sandbox.Process
	t    testing.TB
	work string
	tag  string
}

// open gives a launcher; at the end of the test nothing of it is left.
func open(t testing.TB) house {
	t.Helper()
	if tt, ok := t.(*testing.T); ok {
		t.Cleanup(func() { goleak.VerifyNone(tt) })
	}
	root := t.TempDir()
	work, err := durable.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sandbox.NewProcess(sandbox.Options{Work: work})
	if err != nil {
		t.Fatal(err)
	}
	h := house{p, t, root, rand.Text()}
	t.Cleanup(func() {
		_ = p.Close()
		_ = work.Close()
		h.nobody()
	})
	return h
}

func (h house) start(mode string) sandbox.Child {
	h.t.Helper()
	c, err := h.Launch(h.t.Context(), launch(mode, h.tag))
	if err != nil {
		h.t.Fatal(err)
	}
	return c.(sandbox.Child)
}

// nobody fails if a process of this test is left, and kills it.
func (h house) nobody() {
	h.t.Helper()
	for _, pid := range marked(h.tag) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		h.t.Errorf("process %d is left: %q", pid, cmdline)
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

func marked(tag string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, _ := os.ReadFile(name)
		if bytes.Contains(env, []byte(tagName+"="+tag)) {
			var pid int
			_, _ = fmt.Sscanf(name, "/proc/%d/", &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

func line(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

func within(t testing.TB, limit time.Duration, what string, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took > limit {
		t.Errorf("%s took %v", what, took)
	}
}

func gone(t testing.TB, c sandbox.Child) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(8 * time.Second):
		t.Fatal("it runs on")
	}
}

func TestLaunch_Echo(t *testing.T) {
	h := open(t)
	c := h.start("echo")
	in := bufio.NewReader(c)
	for _, want := range []string{"hello", strings.Repeat("x", 200<<10)} {
		go func() { _, _ = io.WriteString(c, want+"\n") }()
		if got, err := in.ReadString('\n'); err != nil || got != want+"\n" {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if c.PID() == 0 || c.Diagnose() != "" {
		t.Error(c.PID(), c.Diagnose())
	}
	within(t, time.Second, "Close", func() { _ = c.Close() })
	if got := c.Diagnose(); got != "stopped by bobbin" {
		t.Error(got)
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	if _, err := c.Write([]byte("x")); err != io.ErrClosedPipe {
		t.Error(err)
	}
}

func TestChild_Ends(t *testing.T) {
	for mode, want := range map[string]string{
		"crash":         "exited with 1: Error: Cannot find module 'undici'",
		"die":           "exited with 3",
		"die by signal": "killed by signal 9",
		"cwd":           "exited with 0",
	} {
		t.Run(mode, func(t *testing.T) {
			h := open(t)
			c := h.start(mode)
			_, _ = io.WriteString(c, "x\n")
			within(t, time.Second, "the end", func() { gone(t, c) })
			if got := c.Diagnose(); got != want {
				t.Errorf("%q", got)
			}
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
			if got := c.Diagnose(); got != want {
				t.Errorf("after Close: %q", got)
			}
		})
	}
}

// TestDiagnose_AtOnce: callers ask when the output ends, or close first.
func TestDiagnose_AtOnce(t *testing.T) {
	const want = "exited with 1: Error: Cannot find module 'undici'"
	for name, after := range map[string]func(sandbox.Child){
		"end of output": func(c sandbox.Child) { _, _ = io.Copy(io.Discard, c) },
		"and closed":    func(c sandbox.Child) { _, _ = io.Copy(io.Discard, c); _ = c.Close() },
		"end of input": func(c sandbox.Child) {
			for err := error(nil); err == nil; _, err = c.Write([]byte("x")) {
			}
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			for range 10 {
				c := h.start("crash")
				after(c)
				if got := c.Diagnose(); got != want {
					t.Errorf("%q", got)
				}
			}
		})
	}
}

func TestChild_LastWordsAreRead(t *testing.T) {
	h := open(t)
	c := h.start("last words")
	gone(t, c)
	time.Sleep(700 * time.Millisecond) // longer than any limit for pipes that do not end
	all, err := io.ReadAll(c)
	if len(all) != 60000 || err != nil {
		t.Errorf("%d bytes, %v", len(all), err)
	}
}

func TestClose_LetsFinish(t *testing.T) {
	h := open(t)
	c := h.start("cleanup")
	within(t, time.Second, "Close", func() { _ = c.Close() })
	if _, err := os.Stat(filepath.Join(h.work, "alice", "cleaned")); err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	for mode, c := range map[string]struct {
		limit time.Duration
		why   string
	}{
		"mute":         {time.Second, "stopped by bobbin"},
		"deaf":         {2500 * time.Millisecond, "stopped by bobbin"},
		"flood stdout": {2500 * time.Millisecond, "stopped by bobbin"},
		"grandchild":   {time.Second, "stopped by bobbin"},
		"setsid":       {time.Second, "stopped by bobbin"},
		"stubborn":     {8 * time.Second, "killed after ignoring SIGTERM"},
	} {
		t.Run(mode, func(t *testing.T) {
			if mode == "setsid" || mode == "stubborn" {
				linuxOnly(t)
			}
			h := open(t)
			child := h.start(mode)
			if mode == "grandchild" || mode == "setsid" || mode == "stubborn" {
				line(t, child)
			}
			read := make(chan error, 1)
			if mode != "flood stdout" {
				go func() { _, err := child.Read(make([]byte, 1)); read <- err }()
			} else {
				read <- io.EOF
			}
			var all sync.WaitGroup
			within(t, c.limit, "Close", func() {
				for range 3 {
					all.Go(func() { _ = child.Close() })
				}
				select {
				case err := <-read:
					if err != io.EOF {
						t.Error(err)
					}
				case <-time.After(500 * time.Millisecond):
					t.Error("Read is blocked")
				}
				all.Wait()
			})
			h.nobody()
			if got := child.Diagnose(); got != c.why {
				t.Errorf("%q", got)
			}
			_ = child.Close()
		})
	}
}

func linuxOnly(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux finds what left the group")
	}
}

func TestChild_OrphanDoesNotHoldThePipes(t *testing.T) {
	h := open(t)
	c := h.start("orphan")
	within(t, 2*time.Second, "the end", func() {
		all, err := io.ReadAll(c)
		if string(all) != "ready\n" || err != nil {
			t.Errorf("%q %v", all, err)
		}
		gone(t, c)
	})
	h.nobody() // without Close
}

func TestChild_NeverReads(t *testing.T) {
	h := open(t)
	c := h.start("deaf")
	if err := c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Write(make([]byte, 10<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n > 1<<20 {
		t.Errorf("%d %v", n, err)
	}
	_ = c.SetWriteDeadline(time.Time{})
	blocked := make(chan error, 1)
	go func() { _, err := c.Write(make([]byte, 10<<20)); blocked <- err }()
	within(t, 1500*time.Millisecond, "Close", func() { _ = c.Close() })
	if err := <-blocked; err != io.ErrClosedPipe {
		t.Error(err)
	}
}

func TestChild_StderrFlood(t *testing.T) {
	h := open(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begin := time.Now()
	c := h.start("flood stderr")
	if got := line(t, c); got != "done" {
		t.Error(got)
	}
	took := time.Since(begin)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if rise := int64(after.HeapAlloc) - int64(before.HeapAlloc); rise > 200<<10 {
		t.Errorf("holds %d KiB", rise>>10)
	}
	_ = c.Close()
	lines := strings.Split(c.Stderr(), "\n")
	if len(lines) != 40 || lines[39] != "the last word" || lines[0] != "all work and no play" {
		t.Errorf("%d lines: %q … %q", len(lines), lines[0], lines[len(lines)-1])
	}
	t.Logf("256 MiB in %v", took)
}

func TestChild_StderrHidesItsSecrets(t *testing.T) {
	h := open(t)
	l := launch("secret", h.tag)
	l.Env["TOKEN"], l.Env["FOLDER"] = schemas.NewSecret("ghp_canary_0123456789"), schemas.NewSecret(h.work)
	c, err := h.Launch(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	child := c.(sandbox.Child)
	gone(t, child)
	if want := "401 for token *** in " + h.work; child.Stderr() != want {
		t.Errorf("%q", child.Stderr())
	}
	if strings.Contains(child.Diagnose(), "canary") {
		t.Error(child.Diagnose())
	}
}

func TestLaunch_ContextBoundsOnlyTheStart(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := h.Launch(ctx, launch("echo", h.tag))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_, _ = io.WriteString(c, "still here\n")
	if got := line(t, c); got != "still here" {
		t.Error(got)
	}
}

func TestProcess_Close(t *testing.T) {
	h := open(t)
	for range 5 {
		for _, mode := range []string{"deaf", "grandchild", "stubborn", "mute"} {
			h.start(mode)
		}
	}
	within(t, 8*time.Second, "Close", func() {
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _ = h.Close() })
		}
		all.Wait()
	})
	if runtime.GOOS == "linux" {
		h.nobody()
	}
	if _, err := h.Launch(t.Context(), launch("echo", h.tag)); schemas.CodeOf(err) != schemas.CodeNotReady {
		t.Error(err)
	}
}

func TestKilledBot(t *testing.T) {
	linuxOnly(t)
	h := open(t)
	bot := exec.Command(os.Args[0])
	bot.Env = append(os.Environ(), modeName+"=bot", tagName+"="+h.tag, "SANDBOX_TEST_WORK="+h.work)
	out, err := bot.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bot.Start(); err != nil {
		t.Fatal(err)
	}
	line(t, out)
	if n := h.Sweep(t.Context()); n != 0 {
		t.Errorf("%d processes of a living bobbin were ended", n)
	}
	running := len(marked(h.tag))
	_ = bot.Process.Kill()
	_ = bot.Wait()
	time.Sleep(100 * time.Millisecond)
	left := len(marked(h.tag))
	// What a dead bobbin left is ended by any other that starts on this machine, such as one of another package's tests.
	if n := h.Sweep(t.Context()); n > left || left > running-4 {
		t.Errorf("of %d processes %d were left, %d swept", running, left, n)
	}
	h.nobody()
}

func TestOff(t *testing.T) {
	off := sandbox.NewOff("local servers are switched off here", "start bobbin with --sandbox auto")
	_, err := off.Launch(t.Context(), schemas.Launch{})
	if e, ok := errors.AsType[*schemas.Error](err); !ok || e.Text != "local servers are switched off here" || e.Hint == "" {
		t.Error(err)
	}
	if p := off.Place(); p.Available || p.Why == "" || p.Hint == "" {
		t.Errorf("%+v", p)
	}
}

func BenchmarkLaunch(b *testing.B) {
	h := open(b)
	for b.Loop() {
		c := h.start("mute")
		_ = c.Close()
	}
}

func BenchmarkEcho(b *testing.B) {
	h := open(b)
	c := h.start("echo")
	in := bufio.NewReader(c)
	for b.Loop() {
		_, _ = io.WriteString(c, "hello\n")
		_, _ = in.ReadString('\n')
	}
}

func BenchmarkMemory(b *testing.B) {
	h := open(b)
	var before, after runtime.MemStats
	const n = 50
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		var children []sandbox.Child
		for range n {
			children = append(children, h.start("mute"))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/n, "B/child")
		var all sync.WaitGroup
		for _, c := range children {
			all.Go(func() { _ = c.Close() })
		}
		all.Wait()
	}
}
