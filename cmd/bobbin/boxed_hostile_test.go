//go:build linux

package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSandbox_Links: what a member lays in the way of bobbin leads nowhere but within the member's own sandbox.
func TestSandbox_Links(t *testing.T) {
	b := newBoxed(t)
	ann := someone("ann")
	p := b.chat(ann)
	p.do("/mcp sandbox grant " + ann)
	// Files of this machine that links from inside would lead to, if anybody outside followed them.
	mine := filepath.Join(b.data, "boxes", "mine")
	if err := os.WriteFile(mine, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	p.do(fmt.Sprintf("/mcp sandbox exec ln -s %s /workspace/mine; ln -s %s /workspace/external-mcp; ln -s /proc/1/root /workspace/root; ln -s /run/bobbin/proxy.sock /workspace/s; mkfifo /workspace/pipe", mine, filepath.Dir(mine)))
	p.do("/mcp sandbox exec echo theirs >/workspace/mine; echo theirs >/run/bobbin/x; ln -sf /etc/passwd /run/bobbin/token; rm -f /run/bobbin/proxy.sock; mv /run/bobbin/proxy.sock /tmp/; chmod 777 /run/bobbin")
	if now, err := os.ReadFile(mine); string(now) != "mine" {
		t.Errorf("%q %v", now, err)
	}
	shows(t, "the way in is where it was", p.do("/mcp sandbox exec ls -A /run/bobbin"), `exit 0.*egress\.sock proxy\.sock`)
	p.say("/mcp install npm nothing-of-this-name")
	p.within(time.Minute, `seen by you alone`)
	shows(t, "it goes on", p.do("/mcp sandbox exec echo still"), "still")
	p.end()
	if left, _ := filepath.Glob(filepath.Join(b.data, "boxes", "*", "*", "token")); len(left) > 0 {
		t.Errorf("a token lies where the sandbox sees it: %v", left)
	}
}

// ask is a program that sends its argument to the way out and prints what comes.
const ask = `import base64, socket, sys
s = socket.create_connection(("127.0.0.1", 3128), 5)
s.settimeout(5)
d = b""
try:
    s.sendall(base64.b64decode(sys.argv[1]).replace(b"MANY", b"a" * 50000))
    while m := s.recv(4000): d += m
except OSError as e: d += str(e).encode()
print(d.decode(errors="replace"))
`

// TestSandbox_HostileEgress: odd requests to the way out are refused in words, and it goes on.
func TestSandbox_HostileEgress(t *testing.T) {
	b := newBoxed(t)
	ann := someone("ann")
	p := b.chat(ann)
	p.do("/mcp sandbox grant " + ann)
	encoded := base64.StdEncoding.EncodeToString
	p.do("/mcp sandbox exec echo " + encoded([]byte(ask)) + " | base64 -d >ask.py")
	const end = "\r\nHost: example.com\r\n"
	for request, want := range map[string]string{
		"CONNECT 127.0.0.1:22 HTTP/1.1" + end:                                                                   "403.*egress: 127\\.0\\.0\\.1",
		"CONNECT localhost:25 HTTP/1.1" + end:                                                                   "400.*the port belongs to mail servers",
		"CONNECT [::ffff:169.254.169.254]:80 HTTP/1.1" + end:                                                    "40[03].*egress:",
		"CONNECT [fe80::1%25lo]:80 HTTP/1.1" + end:                                                              "40[03]",
		"CONNECT 0x7f000001:80 HTTP/1.1" + end:                                                                  "(400|403|502).*egress:",
		"CONNECT example.com:0 HTTP/1.1" + end:                                                                  "400.*egress:",
		"CONNECT example.com:443 HTTP/1.1" + end + "X: " + "MANY\r\n":                                           "431",
		"GET / HTTP/1.1" + end + "Upgrade: websocket\r\nConnection: Upgrade\r\n":                                "400.*egress: this is a proxy",
		"GET http://127.0.0.1/ HTTP/1.1" + end + "Upgrade: websocket\r\nConnection: Upgrade\r\n":                "403.*egress:",
		"GET http://a@127.0.0.1/ HTTP/1.1" + end:                                                                "400.*egress:",
		"GET http://127.0.0.1/ HTTP/1.1" + end + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n": "40[03]",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n":                                                                          "(400|505)",
	} {
		out := p.do("/mcp sandbox exec python3 ask.py " + encoded([]byte(request+"\r\n")))
		if strings.Contains(out, "timed out") {
			t.Errorf("%q: the connection stays open", request)
		}
		shows(t, clip(request), out, `exit 0.*HTTP/1\.[01] `+want)
	}
	p.end()
}

// TestSandbox_ServerIsolation: with a container for each server, one does not see the other, and both are the member's.
func TestSandbox_ServerIsolation(t *testing.T) {
	b := newBoxed(t, "BOBBIN_SANDBOX_ISOLATION=server")
	ann := someone("ann")
	p := b.chat(ann)
	p.do("/mcp sandbox grant " + ann)
	p.do("/mcp sandbox exec " + writeEcho)
	p.say(`/mcp add-json {"mcpServers":{"one":{"command":"python3","args":["/workspace/echo.py"],"env":{"MARK":"mark-of-one"}},"two":{"command":"python3","args":["/workspace/echo.py"]}}}`, "1")
	p.within(time.Minute, `one is ready`)
	shows(t, "one", p.do(`/mcp call one.say {"text":"x"}`), "said x")
	shows(t, "two", p.do(`/mcp call two.say {"text":"y"}`), "said y")
	if n := len(b.list("ps", b.instance())); n != 3 {
		t.Errorf("%d containers, not those of two servers and of the commands", n)
	}
	if seen := p.do("/mcp sandbox exec cat /proc/[0-9]*/environ | tr '\\0' ' '"); strings.Contains(seen, "mark-of-one") {
		t.Errorf("a command sees a server's environment: %s", seen)
	}
	p.end()
}

// TestSandbox_Replaced: a newer program and a newer image take the place of what runs, and the workspace stays.
func TestSandbox_Replaced(t *testing.T) {
	var b *boxed
	image := ""
	t.Cleanup(func() { // when its containers are gone
		if image != "" {
			b.docker("rmi", "-f", image)
		}
	})
	b = newBoxed(t)
	ann := someone("ann")
	p := b.chat(ann)
	p.do("/mcp sandbox grant " + ann)
	p.do("/mcp sandbox exec " + writeEcho)
	p.say(`/mcp add-json {"mcpServers":{"echo":{"command":"python3","args":["/workspace/echo.py"]}}}`, "1")
	p.within(time.Minute, `echo is ready`)
	works := func() {
		t.Helper()
		if !eventually(time.Minute, func() bool { return strings.Contains(p.do(`/mcp call echo.say {"text":"x"}`), "said x") }) {
			t.Fatal("it does not work")
		}
	}
	works()
	first := b.list("ps", b.instance())
	p.signal(os.Kill) // containers run on
	p.wait()
	binary, _ := static()
	newer := filepath.Join(t.TempDir(), "bobbin")
	data, err := os.ReadFile(binary)
	if err == nil {
		err = os.WriteFile(newer, append(data, "a newer one"...), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "BOBBIN_SANDBOX_BINARY="+newer)
	p = b.chat(ann)
	works()
	second := b.list("ps", b.instance())
	if len(second) != 1 || second[0] == first[0] {
		t.Errorf("after an upgrade: %v, before %v", second, first)
	}
	p.signal(os.Kill)
	p.wait()
	name := "bobbin-sandbox-test-" + strings.ToLower(ann)
	made := b.docker("create", boxImage, "true")
	image = b.docker("commit", "-m", "another", made, name)
	b.docker("rm", made)
	b.env = append(b.env, "BOBBIN_SANDBOX_IMAGE="+name)
	p = b.chat(ann)
	works()
	if third := b.list("ps", b.instance()); len(third) != 1 || third[0] == second[0] {
		t.Errorf("after another image: %v, before %v", third, second)
	}
	// The image goes while containers of it run.
	b.docker("rmi", "-f", name)
	works()
	shows(t, "the workspace", p.do("/mcp sandbox exec ls /workspace"), `echo\.py`)
	p.end()
}
