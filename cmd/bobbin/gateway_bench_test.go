package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bobbin/host"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

// BenchmarkGateway is a call through bobbin serve's gateway, with token, policy and two audit records on disk, to a server over stdio and one
// over HTTP, beside the server itself ("direct"), a relay that decodes nothing ("bytes", "pass") and other proxies, which know neither members
// nor rules, in turns. Ratios as in
// BenchmarkProxy: with one caller of the median time, below 1 is faster; with eight of calls a second, above 1 is faster.
func BenchmarkGateway(b *testing.B) {
	linuxOnly(b)
	direct := startFloor(b, "direct")
	for kind, floors := range map[string][]*gateway{
		"stdio": {direct, startFloor(b, "bytes")},
		"http":  {direct, startFloor(b, "pass", "http://"+direct.addr+"/mcp")},
	} {
		bobbin := startServe(b, kind, "http://"+direct.addr+"/mcp")
		idle := resident(b, bobbin.pid)
		all := append(floors, bobbin)
		for _, name := range []string{"supergateway", "mcp-proxy"} {
			if kind == "stdio" {
				if g := startRival(b, name); g != nil {
					all = append(all, g)
				}
			}
		}
		for _, tool := range []string{"echo", "big"} {
			for _, callers := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s-%s-%d", kind, tool, callers), func(b *testing.B) {
					begin, before := bobbin.calls, cpu(b, bobbin.pid)
					for _, g := range all {
						g.took, g.rate = nil, nil
					}
					compareGateways(b, all, tool, callers)
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
}

// startServe starts bobbin serve with a thread that has one server: swiftmcp over stdio, the one at url over http, or a command's.
func startServe(b testing.TB, kind, url string) *gateway {
	b.Helper()
	def := `{"command":"` + kind + `"}`
	switch kind {
	case "stdio":
		def = `{"command":"swiftmcp"}`
	case "http":
		def = `{"type":"http","url":"` + url + `"}`
	}
	data := b.TempDir()
	m := NewMain(strings.NewReader(""), os.Stdout, os.Stderr)
	m.command() // which sets what flags are by default
	m.Data, m.Sandbox = data, "process"
	h, err := m.open(b.Context(), slog.New(slog.DiscardHandler), host.Connect{})
	if err != nil {
		b.Fatal(err)
	}
	who := schemas.Caller{Thread: "t1", Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	in := mcpstore.Import("", []byte(def), "demo")
	p, err := h.Store.Propose(b.Context(), who, schemas.Edit{Put: in.Servers, Source: "connect"})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := h.Store.Commit(b.Context(), who, p); err != nil {
		b.Fatal(err)
	}
	_, token, err := h.Gateway.Make(b.Context(), who, "bench", 0)
	if err != nil {
		b.Fatal(err)
	}
	addr := "127.0.0.1:" + freePort(b)
	cmd := exec.Command("bobbin", "--data", data, "--sandbox", "process", "serve", "--listen", addr)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix:///no/engine")
	g := &gateway{name: "bobbin", data: data, addr: addr, path: "/gateway/t1/mcp", prefix: "ext_demo_", more: "Authorization: Bearer " + token + "\r\n", pid: begin(b, cmd)}
	if !eventually(20*time.Second, func() bool { return answers(addr) }) {
		b.Fatal("bobbin serve does not answer")
	}
	g.shake(b)
	return g
}

// answers reports whether somebody listens.
func answers(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
