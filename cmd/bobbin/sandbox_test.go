//go:build linux

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bobbin/bot/discord/discordtest"
)

// TestSandbox_Install: one command, a yes, and a real server of npm's answers from the member's container; another member's sees
// nothing of it; what is removed leaves nothing.
func TestSandbox_Install(t *testing.T) {
	b := newBoxed(t)
	b.registry()
	ann, bob := someone("ann"), someone("bob")
	p := b.chat(ann)
	p.say("/mcp install npm @modelcontextprotocol/server-everything")
	card := p.within(time.Minute, `1 added: everything.*3\) Show everything`)
	shows(t, "the card", card, `version +20\d\d\.`, `integrity +sha512-`, `folder +/workspace/external-mcp/everything`, "your sandbox")
	if len(b.list("ps", b.instance())) != 1 {
		t.Error("the look at the package was not in the sandbox")
	}
	p.say("1")
	p.within(3*time.Minute, `everything is ready in [^\n]*15 tools`)
	shows(t, "a call", p.do(`/mcp call everything.echo {"message":"hi"}`), "Echo: hi")
	shows(t, "the status", p.do("/mcp sandbox status"), "your sandbox runs", "all capabilities are dropped", "no network of its own", "256 processes", "1 program")
	p.do("/mcp sandbox grant " + ann + " 1h")
	p.do("/mcp sandbox grant " + bob + " 1h")
	shows(t, "a file", p.do("/mcp sandbox exec echo secret > /workspace/mine && hostname"), "exit 0")
	p.end()

	// Another member, at another time: the workspace of the first is not theirs.
	other := b.chat(bob)
	seen := other.do("/mcp sandbox exec ls -A /workspace; ls -A /workspace/external-mcp; cat /workspace/mine; ps ax 2>/dev/null; cat /proc/*/cmdline | tr '\\0' ' '; env")
	for _, theirs := range []string{"secret", "server-everything", ann} {
		if strings.Contains(strings.ReplaceAll(seen, "cat /workspace/mine", ""), theirs) {
			t.Errorf("bob sees %q:\n%s", theirs, seen)
		}
	}
	// The server is still ann's: what it runs in is her sandbox, whoever calls it.
	shows(t, "bob's call", other.do(`/mcp call everything.echo {"message":"from bob"}`), "Echo: from bob")
	other.end()

	p = b.chat(ann)
	shows(t, "what was kept", p.do("/mcp sandbox exec cat /workspace/mine"), "secret")
	p.say("/mcp remove everything")
	p.hear(`1\) Confirm`)
	p.say("1")
	p.within(time.Minute, `/workspace/external-mcp/everything is deleted from the sandbox`)
	if left := p.do("/mcp sandbox exec ls -A /workspace/external-mcp"); strings.Contains(left, "everything") {
		t.Errorf("left of it:\n%s", left)
	}
	p.say("/mcp sandbox stop remove")
	p.hear(`1\) Confirm`)
	p.say("1")
	p.within(time.Minute, "your sandbox is removed")
	p.end()
	other = b.chat(bob)
	other.say("/mcp sandbox stop remove", "1")
	other.within(time.Minute, "your sandbox is removed")
	other.end()
	for _, what := range []string{"ps", "volume"} {
		if left := b.list(what, b.instance()); len(left) > 0 {
			t.Errorf("docker %s: left %v", what, left)
		}
	}
}

// TestSandbox_Walls: from inside, nothing of the machine, the network or bobbin answers.
func TestSandbox_Walls(t *testing.T) {
	b := newBoxed(t)
	ann := someone("ann")
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	touched := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
			close(touched)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := b.chat(ann)
	p.do("/mcp sandbox grant " + ann)
	hosts := []string{"127.0.0.1:" + port, "localhost:" + port, "169.254.169.254:80", "[::1]:" + port, "0.0.0.0:" + port, "2130706433:" + port}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			hosts = append(hosts, n.IP.String()+":"+port)
		}
	}
	for _, h := range hosts {
		out := p.do(`/mcp sandbox exec python3 -c "import urllib.request as u; u.install_opener(u.build_opener(u.ProxyHandler({'http':'http://127.0.0.1:3128'}))); print('reached', u.urlopen('http://` + h + `/', timeout=5).status)"`)
		if strings.Contains(out, "reached") || !strings.Contains(out, "exit 1") {
			t.Errorf("%s by the proxy: %s", h, out)
		}
	}
	out := p.do(`/mcp sandbox exec python3 -c "import socket; s=socket.create_connection(('169.254.169.254',80),3)"; ls -la /var/run/docker.sock; cat /sys/class/net/*/address; mount | grep -c ' rw,.* /workspace' `)
	shows(t, "directly", out, "Network is unreachable", "No such file or directory")
	select {
	case <-touched:
		t.Error("a port of this machine was reached")
	default:
	}
	p.end()
}

// TestSandbox_Kill: kill -9 of bobbin, of the proxy inside and of the container: each heals by itself.
func TestSandbox_Kill(t *testing.T) {
	b := newBoxed(t)
	ann := someone("ann")
	p := b.chat(ann)
	p.do("/mcp sandbox grant " + ann)
	p.do("/mcp sandbox exec " + writeEcho)
	p.say(`/mcp add-json {"mcpServers":{"echo":{"command":"python3","args":["/workspace/echo.py"]}}}`, "1")
	p.within(time.Minute, `echo is ready`)
	works := func(after string) {
		t.Helper()
		end := time.Now().Add(time.Minute)
		for {
			out := p.do(`/mcp call echo.say {"text":"x"}`)
			if strings.Contains(out, "said x") {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("after %s: %s", after, out)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	works("the start")
	box := b.list("ps", b.instance())[0]

	p.signal(os.Kill)
	p.wait()
	p = b.chat(ann)
	works("kill -9 of bobbin")
	if now := b.list("ps", b.instance()); len(now) != 1 || now[0] != box {
		t.Errorf("the container was not found again: %v, was %s", now, box)
	}
	p.do("/mcp sandbox exec pkill -9 -f /workspace/echo.py; kill -9 -1")
	works("kill -9 of everything inside that a member may kill")
	b.docker("kill", "-s", "KILL", box)
	works("kill -9 of the container")
	b.docker("rm", "-f", box)
	works("a container that somebody removed")
	p.end()
	if left := b.docker("ps", "-q", "--filter", "label=bobbin.instance="+b.instance()); left != "" {
		t.Errorf("runs after the end: %s", left)
	}
}

// writeEcho writes a server that needs nothing but Python.
const writeEcho = `printf '%s\n' 'import sys, json' 'for l in sys.stdin:' ' m = json.loads(l)' ' if "id" not in m: continue' ' k = m["method"]' ` +
	`' r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}} if k == "initialize" else {"tools": [{"name": "say", "description": "Says it.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]} if k == "tools/list" else {"content": [{"type": "text", "text": "said " + str(m["params"].get("arguments", {}).get("text"))}]} if k == "tools/call" else {}' ` +
	`' print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)' > /workspace/echo.py`

// TestSandbox_Discord: members of a Discord thread have sandboxes of their own, and install in them.
func TestSandbox_Discord(t *testing.T) {
	b := newBoxed(t)
	b.registry()
	w := newTown(t, discordtest.Options{})
	b.env = append(b.env, "DISCORD_TOKEN= Bot "+w.f.Token+"\n", "BOBBIN_LISTEN=127.0.0.1:0")
	p := bobbinWith(t, b.env, b.data, "serve", "--sandbox", "docker", "--discord-api-base", w.f.URL)
	p.hear("bobbin is ready")
	if !eventually(patience, func() bool { return registered(w.f) }) {
		t.Fatal("no commands were registered")
	}
	w.ann.Slash("mcp install npm", map[string]any{"package": "@modelcontextprotocol/server-everything"})
	if !eventually(time.Minute, func() bool { return strings.Contains(plain(w.ann.Transcript()), "Confirm only if") }) {
		t.Fatal(w.ann.Transcript())
	}
	shows(t, "the card", plain(w.ann.Transcript()), "1 added: everything", "integrity")
	w.ann.Press("Confirm")
	if !eventually(3*time.Minute, func() bool { return strings.Contains(plain(w.ann.Transcript()), "15 tools") }) {
		t.Fatal(w.ann.Transcript())
	}
	shows(t, "a call", w.ann.say(`/mcp call everything.echo {"message":"hi"}`), "Echo: hi")
	shows(t, "bob's", w.bob.say(`/mcp call everything.echo {"message":"bob"}`), "Echo: bob")
	shows(t, "the shell", w.ann.say("/mcp sandbox exec id"), "SHELL_PERMISSION_DENIED")
	p.signal(os.Interrupt)
	p.wait()
}

func (b *boxed) instance() string {
	b.t.Helper()
	id, err := os.ReadFile(filepath.Join(b.data, "boxes", "instance"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(id)
}
