package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// gateway is a way to a server over HTTP.
type gateway struct {
	name, addr, session string
	data                string
	path, prefix, more  string // of the endpoint, of tools' names, and further headers
	pid                 int

	conns  []*caller
	rounds []float64 // of each, the median time of a call with one caller, and calls a second with several
	calls  int
}

// BenchmarkProxy is a call through bobbin proxy to a server over stdio, beside the same by others. "bytes" exchanges ids
// and decodes nothing: the limit. "direct" is the server itself over HTTP.
func BenchmarkProxy(b *testing.B) {
	linuxOnly(b)
	bobbin := startBobbin(b)
	others := append([]*gateway{startFloor(b, "direct"), startFloor(b, "bytes")}, startRivals(b)...)
	compareAll(b, "", bobbin, others)
}

// compareAll compares small and large answers, with one caller and with eight.
func compareAll(b *testing.B, prefix string, bobbin *gateway, others []*gateway) {
	idle := resident(b, bobbin.pid)
	for _, tool := range []string{"echo", "big"} {
		for _, callers := range []int{1, 8} {
			name := fmt.Sprintf("%s%s-%d", prefix, tool, callers)
			b.Run(name, func(b *testing.B) {
				begin, before := bobbin.calls, cpu(b, bobbin.pid)
				ratios := compare(b, bobbin, others, tool, callers)
				used := float64((cpu(b, bobbin.pid) - before).Microseconds()) / float64(bobbin.calls-begin)
				b.ReportMetric(used, "µs-cpu/call")
				b.ReportMetric(idle, "MiB-idle")
				b.ReportMetric(0, "ns/op")
				for _, g := range goals() {
					if g.at == name {
						b.Log(g.verdict(ratios[g.beside], used))
					}
				}
			})
		}
	}
}

// compare has all of them called in turns, 50 ms each, in another order in each round, since what one still does at the end of its turn
// is in the way of the next; the first round warms up. A ratio is of bobbin's
// number to the other's in the same round, and the median of them counts: what slows the machine for a while slows both. With one caller
// it is of times, and below 1 bobbin is faster; with several of calls a second, and above 1 bobbin is faster.
func compare(b *testing.B, bobbin *gateway, others []*gateway, tool string, callers int) map[string]float64 {
	all := append([]*gateway{bobbin}, others...)
	for _, g := range all {
		g.conns, g.rounds = nil, nil
		for i := range callers {
			g.conns = append(g.conns, g.caller(b, tool, i+10)) // some take an id for one call at a time
		}
		g.burst(b)
	}
	order := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		for range 20 {
			for _, i := range order.Perm(len(all)) {
				g := all[i]
				g.rounds = append(g.rounds, g.burst(b))
			}
		}
	}
	ratios := map[string]float64{}
	for _, g := range others {
		var each []float64
		for i := range g.rounds {
			each = append(each, bobbin.rounds[i]/g.rounds[i])
		}
		ratios[g.name] = median(each)
		b.ReportMetric(ratios[g.name], "x-"+g.name)
	}
	unit := "calls/s-bobbin"
	if callers == 1 {
		unit = "µs-bobbin"
	}
	b.ReportMetric(median(bobbin.rounds), unit)
	for _, g := range all {
		for _, c := range g.conns {
			_ = c.conn.Close()
		}
	}
	return ratios
}

// burst lets all callers call for 50 ms.
func (g *gateway) burst(b *testing.B) float64 {
	begin := time.Now()
	took := make([][]float64, len(g.conns))
	var all sync.WaitGroup
	for i, c := range g.conns {
		all.Go(func() {
			for at := begin; at.Sub(begin) < 50*time.Millisecond; {
				c.call(b)
				now := time.Now()
				took[i] = append(took[i], float64(now.Sub(at).Nanoseconds())/1000)
				at = now
			}
		})
	}
	all.Wait()
	calls := slices.Concat(took...)
	g.calls += len(calls)
	if len(g.conns) == 1 {
		return median(calls)
	}
	return float64(len(calls)) / time.Since(begin).Seconds()
}

// caller is one connection with a call that is ready to be sent.
type caller struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	least   int
}

func (g *gateway) caller(b *testing.B, tool string, id int) *caller {
	b.Helper()
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		b.Fatal(err)
	}
	least := len(swiftEcho)
	if tool == "big" {
		least = len(swiftBig())
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"message":%q}}}`, id, g.prefix+tool, swiftEcho)
	return &caller{conn, bufio.NewReaderSize(conn, 32<<10), g.post(body), least}
}

func (g *gateway) post(body string) []byte {
	head := "POST " + cmp.Or(g.path, "/mcp") + " HTTP/1.1\r\n" + g.more + "Host: " + g.addr + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	if g.session != "" {
		head += "Mcp-Session-Id: " + g.session + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"
	}
	return []byte(head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

func (c *caller) call(b *testing.B) {
	_ = c.conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.conn.Write(c.request); err != nil {
		b.Error(err)
		return
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		b.Error(err)
		return
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || n < int64(c.least) || resp.StatusCode != http.StatusOK {
		b.Errorf("%s: %d bytes (%v)", resp.Status, n, err)
	}
}

// shake shakes hands, where there are sessions.
func (g *gateway) shake(b testing.TB) {
	b.Helper()
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		conn, err := net.Dial("tcp", g.addr)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = conn.Write(g.post(body))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode/100 != 2 {
			b.Fatalf("%s: %v %v", g.name, resp, err)
		}
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			g.session = id
		}
		_ = conn.Close()
	}
}

func startFloor(b *testing.B, name string, args ...string) *gateway {
	b.Helper()
	cmd := exec.Command("floor", append([]string{name}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	g := &gateway{name: name, pid: begin(b, cmd)}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	g.addr = strings.TrimPrefix(strings.TrimSpace(line), "http://")
	return g
}

func begin(b testing.TB, cmd *exec.Cmd) (pid int) {
	b.Helper()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func startBobbin(b *testing.B) *gateway {
	b.Helper()
	at, cmd := startProxy(b, "--", "swiftmcp")
	g := &gateway{name: "bobbin", addr: strings.TrimPrefix(at, "http://"), pid: cmd.Process.Pid}
	g.shake(b)
	return g
}

// startRivals gives other programs that serve swiftmcp over HTTP, as far as they are installed. They know neither members nor rules.
func startRivals(b *testing.B) (rivals []*gateway) {
	b.Helper()
	modules, err := filepath.Abs(filepath.Join("..", "..", "testdata", "gateways", "node_modules"))
	if err != nil || !exists(modules) {
		b.Log("no other proxies are installed: scripts/bench installs them")
		return nil
	}
	server, err := exec.LookPath("swiftmcp")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"supergateway", "mcp-proxy"} {
		port := freePort(b)
		args := []string{filepath.Join(modules, "mcp-proxy", "dist", "bin", "mcp-proxy.mjs"), "--host", "127.0.0.1", "--port", port, "--", server}
		if name == "supergateway" {
			args = []string{filepath.Join(modules, "supergateway", "dist", "index.js"), "--stdio", server, "--outputTransport", "streamableHttp", "--stateful", "--port", port, "--logLevel", "none"}
		}
		g := &gateway{name: name, addr: "127.0.0.1:" + port, pid: begin(b, exec.Command("node", args...))}
		if !eventually(20*time.Second, func() bool { return answers(g.addr) }) {
			b.Fatalf("%s does not answer", name)
		}
		g.shake(b)
		rivals = append(rivals, g)
	}
	return rivals
}

// cpu is what a process has used of the processors.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		b.Fatalf("%v: no tasks", err)
	}
	sum := time.Duration(0)
	for _, f := range tasks {
		text, _ := os.ReadFile(f)
		first, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}

// resident is the memory of a process in MiB.
func resident(b *testing.B, pid int) float64 { return status(b, pid, "VmRSS") }

// status is a size in a process's status (proc_pid_status(5)) in MiB.
func status(b *testing.B, pid int, field string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

func median[T time.Duration | float64](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}
