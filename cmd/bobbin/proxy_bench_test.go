package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
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

	took  []time.Duration // of calls, with one caller
	rate  []float64       // calls a second, with several
	calls int
}

// BenchmarkProxy is a call through bobbin proxy to a server over stdio, beside the same by others, in turns. "bytes" exchanges ids
// and decodes nothing: the limit. "direct" is the server itself over HTTP. Ratios with one caller are of the median time, below 1 is
// faster; with eight of calls a second, above 1 is faster.
func BenchmarkProxy(b *testing.B) {
	linuxOnly(b)
	gateways := []*gateway{startFloor(b, "direct"), startFloor(b, "bytes"), startBobbin(b)}
	for _, name := range []string{"supergateway", "mcp-proxy"} {
		if g := startRival(b, name); g != nil {
			gateways = append(gateways, g)
		}
	}
	bobbin := gateways[2]
	idle := resident(b, bobbin.pid)
	for _, tool := range []string{"echo", "big"} {
		for _, callers := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s-%d", tool, callers), func(b *testing.B) {
				begin, before := bobbin.calls, cpu(b, bobbin.pid)
				for _, g := range gateways {
					g.took, g.rate = nil, nil
				}
				compareGateways(b, gateways, tool, callers)
				if callers == 1 {
					b.ReportMetric(float64(median(bobbin.took).Microseconds()), "µs-bobbin")
				} else {
					b.ReportMetric(median(bobbin.rate), "calls/s-bobbin")
				}
				b.ReportMetric(float64((cpu(b, bobbin.pid)-before).Microseconds())/float64(bobbin.calls-begin), "µs-cpu/call")
				b.ReportMetric(idle, "MiB-idle")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func compareGateways(b *testing.B, gateways []*gateway, tool string, callers int) {
	conns := map[*gateway][]*caller{}
	for _, g := range gateways {
		for i := range callers {
			conns[g] = append(conns[g], g.caller(b, tool, i+10)) // some take an id for one call at a time
		}
		conns[g][0].call(b)
	}
	for b.Loop() {
		for range 10 {
			for _, g := range gateways {
				if callers == 1 {
					begin := time.Now()
					conns[g][0].call(b)
					g.took = append(g.took, time.Since(begin))
					g.calls++
					continue
				}
				g.burst(b, conns[g])
			}
		}
	}
	for _, g := range gateways {
		for _, c := range conns[g] {
			_ = c.conn.Close()
		}
		if callers == 1 {
			b.ReportMetric(float64(median(gateways[2].took))/float64(median(g.took)), "x-"+g.name)
		} else {
			b.ReportMetric(median(gateways[2].rate)/median(g.rate), "x-"+g.name)
		}
	}
}

// burst lets all callers call for 50 ms.
func (g *gateway) burst(b *testing.B, callers []*caller) {
	begin := time.Now()
	counts := make([]int, len(callers))
	var all sync.WaitGroup
	for i, c := range callers {
		all.Go(func() {
			for time.Since(begin) < 50*time.Millisecond {
				c.call(b)
				counts[i]++
			}
		})
	}
	all.Wait()
	n := 0
	for _, c := range counts {
		n += c
	}
	g.calls += n
	g.rate = append(g.rate, float64(n)/time.Since(begin).Seconds())
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

// startRival gives nil when it is not installed.
func startRival(b *testing.B, name string) *gateway {
	b.Helper()
	modules, err := filepath.Abs(filepath.Join("..", "..", "testdata", "gateways", "node_modules"))
	if err != nil || !exists(modules) {
		b.Logf("%s is not installed: scripts/bench installs it", name)
		return nil
	}
	server, err := exec.LookPath("swiftmcp")
	if err != nil {
		b.Fatal(err)
	}
	port := freePort(b)
	args := []string{filepath.Join(modules, "mcp-proxy", "dist", "bin", "mcp-proxy.mjs"), "--host", "127.0.0.1", "--port", port, "--", server}
	if name == "supergateway" {
		args = []string{filepath.Join(modules, "supergateway", "dist", "index.js"), "--stdio", server, "--outputTransport", "streamableHttp", "--stateful", "--port", port, "--logLevel", "none"}
	}
	g := &gateway{name: name, addr: "127.0.0.1:" + port, pid: begin(b, exec.Command("node", args...))}
	if !eventually(20*time.Second, func() bool {
		conn, err := net.Dial("tcp", g.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}) {
		b.Fatalf("%s does not answer", name)
	}
	g.shake(b)
	return g
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
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
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
