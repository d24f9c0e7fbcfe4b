//go:build linux

package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bobbin/sandbox"
	"bobbin/schemas"
)

// median of n calls to an echo server.
func median(t *testing.T, c io.Writer, in *bufio.Reader, n int) time.Duration {
	t.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		if err := ping(c, in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello, this is about 100 bytes"}}}`); err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(began)
		time.Sleep(time.Millisecond)
	}
	slices.Sort(took)
	return took[n/2]
}

// TestDocker_Abuse: what one sandbox does leaves calls in another one within twice their normal time.
func TestDocker_Abuse(t *testing.T) {
	w := openDocker(t, func(o *sandbox.DockerOptions) { o.Disk = 1 << 30 })
	bad, good := w.someone(), w.someone()
	server, in := w.echo(good, "echo")
	defer server.Close()
	const flood = `import os
b = b"x" * 65535 + b"\n"
while True:
    os.write(1, b); os.write(2, b)`
	for name, args := range map[string][]string{
		"fork bomb":   {"sh", "-c", "f() { f | f & }; f; sleep 60"},
		"forks apart": {"python3", "-c", "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass"},
		"memory hog":  {"python3", "-c", "b = []\nwhile True: b.append(bytearray(1 << 24))"},
		"disk filler": {"sh", "-c", "i=0; while :; do i=$((i+1)); head -c 100000000 /dev/zero >/workspace/f$i; done"},
		"many files":  {"python3", "-c", "i = 0\nwhile True:\n    i += 1\n    open('/workspace/e%d' % i, 'w').close()"},
		"log flood":   {"python3", "-c", flood},
		"processor":   {"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"},
	} {
		t.Run(name, func(t *testing.T) {
			// The machine may have other things to do, too: what holds is seen in one of three rounds.
			for round := 1; ; round++ {
				before := median(t, server, in, 200)
				over := make(chan string, 1)
				go func() {
					x, err := w.Exec(t.Context(), schemas.Exec{Member: bad, Args: args, Timeout: 3 * time.Second})
					over <- fmt.Sprintf("code %d, timed out %v, cut %v, %v", x.Code, x.TimedOut, x.Cut, err)
				}()
				time.Sleep(time.Second) // it is under way
				abused := median(t, server, in, 500)
				how := <-over
				w.cleanUp(t, bad)
				normal := max(before, median(t, server, in, 200))
				t.Logf("a call takes %v, beside it %v (×%.2f); it ended with %s", normal, abused, float64(abused)/float64(normal), how)
				if abused <= 2*normal {
					return
				}
				if round == 3 {
					t.Fatalf("a call takes %v beside it, %v without", abused, normal)
				}
			}
		})
	}
}

// cleanUp shows that a member gets on after whatever was done.
func (w *world) cleanUp(t *testing.T, m schemas.MemberID) {
	t.Helper()
	began := time.Now()
	if err := w.Stop(t.Context(), m); err != nil {
		t.Error(err)
	}
	x, err := w.Exec(t.Context(), schemas.Exec{Member: m, Args: []string{"sh", "-c", "find /workspace -mindepth 1 -delete; ls -A /workspace; ls -d /proc/[0-9]* | wc -l"}})
	if n, _ := strconv.Atoi(strings.TrimSpace(x.Stdout)); err != nil || n < 3 || n > 8 {
		t.Errorf("left: %.200s, %v", x.Stdout, err)
	}
	t.Logf("clean again after %v", time.Since(began))
}

const toolServer = `
let rest = '';
process.stdin.on('data', d => {
  rest += d;
  for (let i; (i = rest.indexOf('\n')) >= 0; rest = rest.slice(i + 1)) {
    const m = JSON.parse(rest.slice(0, i));
    const result = m.method === 'initialize' ? {protocolVersion: '2025-11-25', capabilities: {tools: {}}, serverInfo: {name: 'x', version: '1'}} : {content: [{type: 'text', text: 'hello'}]};
    process.stdout.write(JSON.stringify({jsonrpc: '2.0', id: m.id, result}) + '\n');
  }
});`

// BenchmarkDocker_FirstTool is a server's start until its first tool has answered: with a member's first container, one that was
// stopped, and one that runs. Node's own start is in it.
func BenchmarkDocker_FirstTool(b *testing.B) {
	w := openDocker(b, nil)
	first := func(b *testing.B, m schemas.MemberID) {
		c, err := w.Launch(b.Context(), schemas.Launch{Thread: "t1", Owner: m, Server: "s", Command: "node", Args: []string{"-e", toolServer}})
		if err != nil {
			b.Fatal(err)
		}
		in := bufio.NewReader(c)
		for i, method := range []string{"initialize", "tools/call"} {
			if _, err := fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%d,"method":%q}`+"\n", i, method); err != nil {
				b.Fatal(err)
			}
			if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "result") {
				b.Fatal(line, err)
			}
		}
		b.StopTimer()
		_ = c.Close()
	}
	m := w.someone()
	for _, c := range []struct {
		name   string
		before func()
	}{
		{"first", func() {
			if err := w.Remove(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}},
		{"stopped", func() {
			if err := w.Stop(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}},
		{"running", func() {}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w.sh(m, "true")
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				c.before()
				b.StartTimer()
				first(b, m)
			}
		})
	}
}

// BenchmarkDocker_Idle is the memory that an idle sandbox holds on this machine: its processes and its shim.
func BenchmarkDocker_Idle(b *testing.B) {
	const n = 5
	w := openDocker(b, nil)
	inside, shims := 0.0, 0.0
	for range n {
		m := w.someone()
		w.sh(m, "true")
		id := w.docker("ps", "-q", "--no-trunc", "--filter", "volume=bobbin-sandbox-vol-"+string(m))
		for _, pid := range strings.Fields(w.docker("top", id, "-o", "pid"))[1:] {
			inside += ownMemory(b, pid)
		}
		found := false
		processes, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range processes {
			if line, err := os.ReadFile(p + "/cmdline"); err == nil && strings.Contains(string(line), "containerd-shim") && strings.Contains(string(line), id) {
				shims += ownMemory(b, filepath.Base(p))
				found = true
			}
		}
		if !found {
			b.Skip("the shims are out of sight")
		}
	}
	b.ReportMetric(inside/n, "MB-inside/sandbox")
	b.ReportMetric(shims/n, "MB-shim/sandbox")
	b.ReportMetric(0, "ns/op")
}

// ownMemory is what a process alone holds, in MB: its anonymous memory (proc_pid_status(5)).
func ownMemory(b *testing.B, pid string) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "RssAnon:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb / 1000
		}
	}
	return 0
}
