package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for something that has to come.
const patience = 20 * time.Second

// process is a running bobbin: the real binary, as another program would start it.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
	err   error // of Wait; set before ended is closed

	patience time.Duration // of the next hear; 0 = the usual

	mu   sync.Mutex
	out  bytes.Buffer
	read int // bytes of out that hear has passed
}

// bobbin starts the binary with a data folder; it is killed at the end of the test if it still runs.
func bobbin(t testing.TB, data string, args ...string) *process {
	t.Helper()
	return bobbinWith(t, nil, data, args...)
}

// bobbinWith is bobbin with more in its environment.
func bobbinWith(t testing.TB, env []string, data string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command("bobbin", append([]string{"--data", data, "--sandbox", "process"}, args...)...), ended: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "BOBBIN_") && !strings.HasPrefix(e, "DISCORD_") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Env = append(append(p.cmd.Env, "CANARY=must-not-reach-a-child", "GORACE=atexit_sleep_ms=0", "DOCKER_HOST=unix:///no/engine"), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("bobbin %s said:\n%s", strings.Join(args, " "), clip(p.all()))
		}
	})
	return p
}

// chat starts a conversation on a pipe in thread t1.
func chat(t testing.TB, data string) *process {
	t.Helper()
	p := bobbin(t, data, "chat", "--thread", "t1")
	p.hear(`thread t1`)
	return p
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *process) say(lines ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Fatalf("saying %q: %v", lines, err)
	}
}

// hear waits for a match in what was said since the last one, and gives the match and its groups.
func (p *process) hear(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(`(?s)` + pattern)
	for deadline := time.Now().Add(max(patience, p.patience)); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		fresh := p.out.Bytes()[p.read:]
		if at := re.FindSubmatchIndex(fresh); at != nil {
			var groups []string
			for i := 0; i < len(at); i += 2 {
				groups = append(groups, string(fresh[max(at[i], 0):max(at[i+1], 0)]))
			}
			p.read += at[1]
			p.mu.Unlock()
			return groups
		}
		rest := string(fresh)
		p.mu.Unlock()
		if time.Now().After(deadline) {
			p.t.Fatalf("no %q in\n%s", pattern, clip(rest))
		}
	}
}

// do says a line and gives all that is answered to it, by means of a question whose answer is known.
func (p *process) do(line string) string {
	p.t.Helper()
	p.say(line, "/mcp help the-end-of-this")
	return p.hear(`(.*?)there is no help about the-end-of-this[^\n]*\n`)[1]
}

// end closes the input, waits for a good exit and tells how long it took.
func (p *process) end() time.Duration {
	p.t.Helper()
	begin := time.Now()
	_ = p.in.Close()
	p.wait()
	if p.err != nil {
		p.t.Errorf("exit: %v", p.err)
	}
	return time.Since(begin)
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) wait() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("bobbin does not end")
	}
}

func clip(s string) string {
	if len(s) > 6000 {
		return s[:2000] + "\n…\n" + s[len(s)-4000:]
	}
	return s
}

// config writes a pasted config on one line.
func config(t testing.TB, servers map[string]any) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fake is a definition of the fake server; every process of it writes its pid to pids.
func fake(pids string, args ...string) map[string]any {
	return map[string]any{"command": "fakemcp", "args": append([]string{}, args...), "env": map[string]string{"FAKEMCP_STARTS": pids, "GORACE": "atexit_sleep_ms=0"}}
}

// started lists the processes that a file of pids names.
func started(t testing.TB, file string) []int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var pids []int
	for _, f := range strings.Fields(string(data)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, n)
	}
	return pids
}

// gone waits until none of the processes lives.
func gone(t testing.TB, what string, within time.Duration, pids ...int) {
	t.Helper()
	var left []int
	if !eventually(within, func() bool {
		left = left[:0]
		for _, pid := range pids {
			if alive(pid) {
				left = append(left, pid)
			}
		}
		return len(left) == 0
	}) {
		t.Errorf("%s: processes %v still live after %s", what, left, within)
	}
}

// alive reports whether a process runs; one that has ended and waits for its parent does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// children lists the living direct children of a process.
func children(t testing.TB, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, f := range stats {
		stat, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		var pid, ppid int
		var state string
		head, rest, _ := strings.Cut(string(stat), ") ")
		if _, err := fmt.Sscanf(head, "%d", &pid); err != nil {
			continue
		}
		if _, err := fmt.Sscan(rest, &state, &ppid); err == nil && ppid == parent && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// peak is the largest resident memory that a process ever had, in MiB.
func peak(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

func eventually(within time.Duration, is func() bool) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if is() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func linuxOnly(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
}

func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
}

// rename puts a file into place as editors do.
func rename(t testing.TB, file, content string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(file), ".tmp-"+filepath.Base(file))
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		t.Fatal(err)
	}
}

// matches reports whether a text has the pattern, across lines.
func matches(pattern, text string) bool {
	return regexp.MustCompile(`(?s)` + pattern).MatchString(text)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
