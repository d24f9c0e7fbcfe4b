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
// over HTTP, beside the server itself ("direct"), a relay that decodes nothing ("bytes", "pass") and other proxies.
func BenchmarkGateway(b *testing.B) {
	linuxOnly(b)
	direct := startFloor(b, "direct")
	at := "http://" + direct.addr + "/mcp"
	b.Run("stdio", func(b *testing.B) {
		compareAll(b, "stdio-", startServe(b, "stdio", at), append([]*gateway{direct, startFloor(b, "bytes")}, startRivals(b)...))
	})
	b.Run("http", func(b *testing.B) {
		compareAll(b, "http-", startServe(b, "http", at), []*gateway{direct, startFloor(b, "pass", at)})
	})
}

// goal is a ratio that BenchmarkGateway should reach.
type goal struct {
	name, at, beside string
	ratio            float64
	least            bool    // ratio is the least, not the most
	cpu              float64 // the most, in µs a call; 0: any
}

func goals() []goal {
	return []goal{
		{name: "G1", at: "stdio-echo-8", beside: "bytes", ratio: 0.75, least: true, cpu: 45},
		{name: "G2", at: "stdio-echo-1", beside: "direct", ratio: 2.5},
		{name: "G3", at: "http-echo-8", beside: "pass", ratio: 0.7, least: true},
		{name: "G4", at: "stdio-big-1", beside: "bytes", ratio: 1.35},
		{name: "G5", at: "stdio-big-8", beside: "bytes", ratio: 0.7, least: true},
	}
}

// verdict says whether a goal holds.
func (g goal) verdict(ratio, cpu float64) string {
	holds, sign := ratio <= g.ratio, "≤"
	if g.least {
		holds, sign = ratio >= g.ratio, "≥"
	}
	text := fmt.Sprintf("%s: %.2f × %s, goal %s %.2f", g.name, ratio, g.beside, sign, g.ratio)
	if g.cpu > 0 {
		holds = holds && cpu <= g.cpu
		text += fmt.Sprintf("; %.0f µs of processor a call, goal ≤ %.0f", cpu, g.cpu)
	}
	if holds {
		return text + ": holds"
	}
	return text + ": MISSED"
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
	token := lent(b, data, "t1", def, "demo")
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

// lent makes a thread with servers in a data folder, and gives a client's token for it. name is that of a definition that has none.
func lent(b testing.TB, data string, thread schemas.ThreadID, def, name string) (token string) {
	b.Helper()
	m := NewMain(strings.NewReader(""), os.Stdout, os.Stderr)
	m.command() // which sets what flags are by default
	m.Data, m.Sandbox = data, "process"
	h, err := m.open(b.Context(), slog.New(slog.DiscardHandler), host.Connect{})
	if err != nil {
		b.Fatal(err)
	}
	who := schemas.Caller{Thread: thread, Member: "operator", Name: "operator", Door: schemas.DoorTerminal, Role: schemas.Owner, Operator: true}
	in := mcpstore.Import("", []byte(def), name)
	p, err := h.Store.Propose(b.Context(), who, schemas.Edit{Put: in.Servers, Source: "connect"})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := h.Store.Commit(b.Context(), who, p); err != nil {
		b.Fatal(err)
	}
	_, token, err = h.Gateway.Make(b.Context(), who, "bench", 0)
	if err != nil {
		b.Fatal(err)
	}
	return token
}

// answers reports whether somebody listens.
func answers(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
