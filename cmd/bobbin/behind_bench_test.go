package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/schemas"
)

const (
	perThread = 25                         // below what a thread may hold
	settled   = 2*restLook + 2*time.Second // after which what work left behind is given back
)

// fleet is a bobbin serve, built as it is released, with many servers over stdio.
type fleet struct {
	n       int
	data    string
	program string
	metrics string     // host:port
	threads []*gateway // each to one thread
	cmd     *exec.Cmd

	calls, lists []time.Duration
}

// within reports a number and says whether the goal for it holds.
func within(b *testing.B, goal string, got, limit float64, unit string) {
	b.Helper()
	b.ReportMetric(got, unit)
	word := "holds"
	if got > limit {
		word = "MISSED"
	}
	b.Logf("%s: %.2f %s, goal ≤ %g: %s", goal, got, unit, limit, word)
}

// built builds a program as make build does.
func built(b *testing.B, name, source string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return path
}

func newFleet(b *testing.B, program, server string, n int, args ...string) *fleet {
	b.Helper()
	f := &fleet{n: n, program: program, data: b.TempDir()}
	for from := 0; from < n; from += perThread {
		servers := map[string]any{}
		for i := range min(n-from, perThread) {
			servers[fmt.Sprintf("s%d", i)] = map[string]any{"command": server, "args": args}
		}
		thread := fmt.Sprintf("t%d", from/perThread)
		token := lent(b, f.data, schemas.ThreadID(thread), config(b, servers), "")
		f.threads = append(f.threads, &gateway{path: "/gateway/" + thread + "/mcp", prefix: "ext_s0_", more: "Authorization: Bearer " + token + "\r\n"})
	}
	return f
}

// start starts bobbin, which has never seen the servers' tools, and gives the time until it listens.
func (f *fleet) start(b *testing.B) time.Duration {
	b.Helper()
	cached, _ := filepath.Glob(filepath.Join(f.data, "cache", "*"))
	for _, c := range cached {
		_ = os.RemoveAll(c)
	}
	addr := "127.0.0.1:" + freePort(b)
	f.metrics = "127.0.0.1:" + freePort(b)
	f.cmd = exec.Command(f.program, "--data", f.data, "--sandbox", "process", "serve", "--listen", addr, "--metrics", f.metrics)
	f.cmd.Env = append(os.Environ(), "DOCKER_HOST=unix:///no/engine")
	began := time.Now()
	pid := begin(b, f.cmd)
	for !answers(addr) {
		if time.Since(began) > patience {
			b.Fatal("bobbin serve does not answer")
		}
		time.Sleep(time.Millisecond)
	}
	took := time.Since(began)
	for _, t := range f.threads {
		t.addr, t.pid, t.session = addr, pid, ""
		t.shake(b)
	}
	return took
}

func (f *fleet) memory(b *testing.B, field string) float64 {
	return status(b, f.cmd.Process.Pid, field)
}

func (f *fleet) stop() {
	_ = f.cmd.Process.Signal(os.Interrupt)
	_ = f.cmd.Wait()
}

// list lists the tools of all threads at once, and fails unless they are those of all servers.
func (f *fleet) list(b *testing.B) {
	b.Helper()
	var all sync.WaitGroup
	found := make([]int, len(f.threads))
	for i, t := range f.threads {
		all.Go(func() {
			var got struct {
				Result struct{ Tools []json.RawMessage }
			}
			if err := json.Unmarshal(t.ask(b, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`), &got); err != nil {
				b.Error(err)
			}
			found[i] = len(got.Result.Tools)
		})
	}
	all.Wait()
	n := 0
	for _, found := range found {
		n += found
	}
	if n != f.n {
		b.Fatalf("%d tools of %d servers", n, f.n)
	}
}

func (g *gateway) ask(b *testing.B, body string) []byte {
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = conn.Write(g.post(body))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.Error(err)
		return nil
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Error(err)
	}
	return text
}

// goroutines asks /metrics.
func (f *fleet) goroutines(b *testing.B) float64 {
	b.Helper()
	conn, err := http.Get("http://" + f.metrics + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Body.Close() }()
	text, _ := io.ReadAll(conn.Body)
	_, rest, _ := strings.Cut(string(text), "\ngo_goroutines ")
	n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkBehindStart is the time in which all tools of new servers can be listed through the gateway, from the first request on, beside
// the time in which the same programs, started at once by nobody in particular, have answered initialize and tools/list.
// Goals: 100 that start at once about as fast as without bobbin, 20 that need 200 ms each in 300 ms.
func BenchmarkBehindStart(b *testing.B) {
	linuxOnly(b)
	program, server := built(b, "bobbin", "."), built(b, "quick", "./testdata/quick")
	for _, c := range []struct{ n, ms int }{{1, 0}, {10, 0}, {100, 0}, {20, 200}} {
		b.Run(fmt.Sprintf("%dx%dms", c.n, c.ms), func(b *testing.B) {
			f := newFleet(b, program, server, c.n, strconv.Itoa(c.ms))
			var ready, listed, bare []time.Duration
			for b.Loop() {
				bare = append(bare, bareStart(b, server, c.n, strconv.Itoa(c.ms)))
				ready = append(ready, f.start(b))
				began := time.Now()
				f.list(b)
				listed = append(listed, time.Since(began))
				f.stop()
			}
			report(b, "p50-ms-to-listen", ready)
			report(b, "p50-ms-bare", bare)
			took, ratio := median(listed), float64(median(listed))/float64(median(bare))
			b.ReportMetric(float64(took.Microseconds())/1000, "p50-ms-listed")
			b.ReportMetric(ratio, "x-bare")
			if c.n == 100 {
				within(b, "G7", ratio, 1.1, "x-bare")
			}
			if c.ms > 0 {
				within(b, "G8", float64(took.Microseconds())/1000, 300, "p50-ms-listed")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bareStart starts servers at once and gives the time until all have listed their tools.
func bareStart(b *testing.B, server string, n int, args ...string) time.Duration {
	b.Helper()
	began := time.Now()
	var all sync.WaitGroup
	cmds := make([]*bareServer, n)
	for i := range n {
		all.Go(func() {
			cmds[i] = startBare(b, server, args...)
			cmds[i].ask(b, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		})
	}
	all.Wait()
	took := time.Since(began)
	for _, c := range cmds {
		c.stop()
	}
	return took
}

// bareServer is a server over stdio without bobbin.
type bareServer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startBare(b *testing.B, server string, args ...string) *bareServer {
	cmd := exec.Command(server, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Error(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Error(err)
	}
	if err := cmd.Start(); err != nil {
		b.Error(err)
	}
	s := &bareServer{cmd, in, bufio.NewReader(out)}
	s.ask(b, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`)
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return s
}

func (s *bareServer) ask(b *testing.B, line string) {
	_, _ = io.WriteString(s.in, line+"\n")
	if _, err := s.out.ReadSlice('\n'); err != nil {
		b.Error(err)
	}
}

func (s *bareServer) stop() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}

// BenchmarkBehind is what a bobbin with 1, 10 and 100 servers takes and how fast it answers, in turns, beside the server itself. Resident
// memory counts the pages of the program's own file, which the system shares and takes back when it needs them, as ps and the numbers of other
// gateways do; anon is what bobbin made.
// Goals: 25 MiB at rest, 32 with 100 servers; 15 KiB and a goroutine for a server over stdio.
func BenchmarkBehind(b *testing.B) {
	linuxOnly(b)
	program, server := built(b, "bobbin", "."), built(b, "quick", "./testdata/quick")
	direct := startBare(b, server)
	b.Cleanup(direct.stop)
	var fleets []*fleet
	var idle, idleAnon float64
	rss, anon, routines := map[int]float64{}, map[int]float64{}, map[int]float64{}
	for _, n := range []int{1, 10, 100} {
		f := newFleet(b, program, server, n)
		f.start(b)
		fleets = append(fleets, f)
		time.Sleep(settled)
		idle, idleAnon = f.memory(b, "VmRSS"), f.memory(b, "RssAnon")
		f.list(b)
		time.Sleep(settled)
		rss[n], anon[n], routines[n] = f.memory(b, "VmRSS"), f.memory(b, "RssAnon"), f.goroutines(b)
	}
	alone := inTurns(b, fleets, direct)
	within(b, "G9", idle, 25, "MiB-idle")
	within(b, "G9", rss[100], 32, "MiB-100")
	within(b, "G9", (anon[100]-anon[10])/90*1024, 15, "KiB/server")
	within(b, "G9", (routines[100]-routines[10])/90, 1, "goroutines/server")
	b.ReportMetric(idleAnon, "MiB-idle-anon")
	b.ReportMetric(float64(median(alone).Microseconds()), "µs-call-direct")
	for _, f := range fleets {
		b.ReportMetric(rss[f.n], fmt.Sprintf("MiB-%d", f.n))
		b.ReportMetric(anon[f.n], fmt.Sprintf("MiB-%d-anon", f.n))
		b.ReportMetric(float64(median(f.calls).Microseconds()), fmt.Sprintf("µs-call-%d", f.n))
		b.ReportMetric(float64(median(f.lists).Microseconds()), fmt.Sprintf("µs-list-%d", f.n))
		b.ReportMetric(float64(median(f.calls))/float64(median(fleets[0].calls)), fmt.Sprintf("x-call-%d", f.n))
	}
	b.ReportMetric(0, "ns/op")
}

// inTurns calls and lists through each, and calls the server itself, whose times it gives.
func inTurns(b *testing.B, fleets []*fleet, direct *bareServer) (alone []time.Duration) {
	var calls, lists []*caller
	for _, f := range fleets {
		c := f.threads[0].caller(b, "echo", 10)
		calls = append(calls, c)
		lists = append(lists, &caller{c.conn, c.in, f.threads[0].post(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`), 20})
	}
	timed := func(call func()) time.Duration {
		began := time.Now()
		call()
		return time.Since(began)
	}
	for b.Loop() {
		for range 10 {
			alone = append(alone, timed(func() {
				direct.ask(b, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{}}}`)
			}))
			for i, f := range fleets {
				f.calls = append(f.calls, timed(func() { calls[i].call(b) }))
				f.lists = append(f.lists, timed(func() { lists[i].call(b) }))
			}
		}
	}
	return alone
}

// BenchmarkSessions is what a client of the gateway takes with its session, one connection for requests and one on which it hears.
// Goal: 45 KiB.
func BenchmarkSessions(b *testing.B) {
	linuxOnly(b)
	const clients = 200
	f := newFleet(b, built(b, "bobbin", "."), built(b, "quick", "./testdata/quick"), 1)
	f.start(b)
	f.list(b)
	g := f.threads[0]
	for i := 0; b.Loop(); i++ {
		if i > 0 { // memory that was taken once is used again
			continue
		}
		routines := f.goroutines(b) // whose question takes memory of its own, the first time
		time.Sleep(settled)
		before := f.memory(b, "RssAnon")
		var conns []net.Conn
		for range clients {
			g.session = ""
			g.shake(b)
			for _, request := range [][]byte{
				g.post(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`),
				[]byte("GET " + g.path + " HTTP/1.1\r\n" + g.more + "Host: " + g.addr + "\r\nAccept: text/event-stream\r\nMcp-Session-Id: " + g.session + "\r\nMcp-Protocol-Version: 2025-11-25\r\n\r\n"),
			} {
				conn, err := net.Dial("tcp", g.addr)
				if err != nil {
					b.Fatal(err)
				}
				conns = append(conns, conn)
				_, _ = conn.Write(request)
				if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp, err)
				}
			}
		}
		time.Sleep(settled)
		within(b, "G9", (f.memory(b, "RssAnon")-before)*1024/clients, 45, "KiB/session")
		b.ReportMetric((f.goroutines(b)-routines)/clients, "goroutines/session")
		for _, c := range conns {
			_ = c.Close()
		}
	}
	b.ReportMetric(0, "ns/op")
}
