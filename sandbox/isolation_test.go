//go:build linux

package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"bobbin/sandbox"
	"bobbin/schemas"
)

// id gives the container of a member's sandbox.
func (w *world) id(m schemas.MemberID) string {
	w.t.Helper()
	s, err := w.Status(w.t.Context(), m)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.ID
}

// TestDocker_Locks: what holds a sandbox in, seen from inside and by the engine.
func TestDocker_Locks(t *testing.T) {
	t.Parallel()
	w := openDocker(t, nil)
	m := w.someone()
	state := w.sh(m, "cat /proc/self/status")
	for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Uid:\t10001\t10001\t10001\t10001"} {
		if !strings.Contains(state, want) {
			t.Errorf("no %q in\n%s", want, state)
		}
	}
	for script, why := range map[string]string{
		"touch /x":                      "Read-only",
		"touch /etc/x":                  "Read-only",
		"touch /run/bobbin/x":           "Permission denied",
		"rm /run/bobbin/proxy.sock":     "Permission denied",
		"ls /run/bobbin/token":          "No such file",
		"echo x >/bobbin":               "Read-only",
		"unshare -Ur true":              "not permitted",
		"mount -t tmpfs none /tmp":      "must be superuser",
		"kill -9 1 && sleep 1 && ls /x": "No such file", // an init cannot be killed from inside
		"dmesg":                         "not permitted",
		"mknod /workspace/d b 8 0":      "not permitted",
		"chown 0 /workspace":            "not permitted",
		"head -c 600000000 /dev/zero >/workspace/big; stat -c 'size %s' /workspace/big": "size 536870912",
	} {
		if got := w.sh(m, script+" 2>&1"); !strings.Contains(got, why) {
			t.Errorf("%s: %q, not %q", script, got, why)
		}
	}
	w.sh(m, "rm -f /workspace/big")
	var found []struct {
		HostConfig struct {
			Privileged     bool
			CapDrop        []string
			SecurityOpt    []string
			Memory         int64
			NanoCpus       int64
			PidsLimit      int64
			NetworkMode    string
			AutoRemove     bool
			ReadonlyRootfs bool
		}
	}
	if err := json.Unmarshal([]byte(w.docker("inspect", w.id(m))), &found); err != nil {
		t.Fatal(err)
	}
	h := found[0].HostConfig
	if h.Privileged || len(h.CapDrop) == 0 || !slices.Contains(h.SecurityOpt, "no-new-privileges") || h.Memory != 1<<30 || h.NanoCpus != 1e9 ||
		h.PidsLimit != 256 || h.NetworkMode != "none" || h.AutoRemove || !h.ReadonlyRootfs {
		t.Errorf("%+v", h)
	}
	s, err := w.Status(t.Context(), m)
	if err != nil || s.State != "running" || s.Image != testImage || s.Since.IsZero() || len(s.Locks) < 10 {
		t.Errorf("%+v, %v", s, err)
	}
	t.Logf("locks %q, missing %q", s.Locks, s.Missing)
}

// TestDocker_Apart: a member sees nothing of another.
func TestDocker_Apart(t *testing.T) {
	t.Parallel()
	w := openDocker(t, nil)
	a, b := w.someone(), w.someone()
	const mark = "mark-of-a-4242"
	w.sh(a, "echo "+mark+" >/workspace/secret; echo "+mark+" >/tmp/secret; chmod 777 /workspace /workspace/secret; mkdir -p /dev/shm/x; echo "+mark+" >/dev/shm/x/y")
	w.sh(a, "MARK="+mark+" setsid sleep 4242 </dev/null >/dev/null 2>&1 & setsid python3 -m http.server 8099 --bind 0.0.0.0 </dev/null >/dev/null 2>&1 & sleep 1")
	own := w.sh(a, `python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8099), 2); print("open")'; grep -al `+mark+` /proc/[0-9]*/environ 2>/dev/null | wc -l; cat /proc/[0-9]*/cmdline | tr '\0' ' '`)
	if !strings.Contains(own, "open\n1\n") || !strings.Contains(own, "sleep 4242") {
		t.Fatalf("the test does not see what it looks for: %s", own)
	}
	seen := w.sh(b, `find / -xdev -type f -newer /proc/1 2>/dev/null; grep -rl `+mark+` /workspace /tmp /dev/shm /run 2>/dev/null; grep -al `+mark+` /proc/[0-9]*/environ 2>/dev/null; ls -A /workspace /tmp /dev/shm`)
	if strings.Contains(seen, "mark") || strings.Contains(seen, "secret") {
		t.Errorf("b sees %s", seen)
	}
	if n := strings.Count(w.sh(b, `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done`), "sleep 4242"); n > 0 {
		t.Errorf("b sees %d processes of a", n)
	}
	if got := w.sh(b, `python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8099), 2)'`); !strings.Contains(got, "refused") {
		t.Errorf("b reaches a: %s", got)
	}
	if w.sh(a, "hostname") == w.sh(b, "hostname") || w.id(a) == w.id(b) {
		t.Error("they share a container")
	}
	if got := w.sh(b, "ls -A /run/bobbin"); got != "proxy.sock" {
		t.Error(got)
	}
}

// TestDocker_NoWayOut: from inside, nothing of this machine or beyond can be reached, whatever it listens on.
func TestDocker_NoWayOut(t *testing.T) {
	w := openDocker(t, nil)
	m := w.someone()
	l, err := net.Listen("tcp", ":0") // stands for the bot's port at its worst
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	abstract, err := net.Listen("unix", "@bobbin-sandbox-test")
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	targets := []string{"169.254.169.254:80", "8.8.8.8:53", "10.0.0.1:80", "127.0.0.1:" + port, "172.17.0.1:" + port, "[::1]:" + port}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && !ip.IsLinkLocalUnicast() {
			targets = append(targets, net.JoinHostPort(ip.String(), port))
		}
	}
	script := `
import socket, sys
for t in sys.argv[1:]:
    host, port = t.rsplit(":", 1)
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            s = socket.socket(socket.AF_INET6 if "[" in host else socket.AF_INET, kind)
            s.settimeout(2)
            s.connect((host.strip("[]"), int(port)))
            s.send(b"x")
            if kind == socket.SOCK_DGRAM: s.recv(1)
            print("REACHED", t, kind)
        except OSError: pass
for name in ("host.docker.internal", "example.com", "metadata.google.internal"):
    try: print("RESOLVED", name, socket.gethostbyname(name))
    except OSError: pass
try:
    s = socket.socket(socket.AF_UNIX); s.connect("\0bobbin-sandbox-test"); print("REACHED abstract")
except OSError: pass
for family in (socket.AF_PACKET, 38):
    try: socket.socket(family, socket.SOCK_RAW if family != 38 else socket.SOCK_SEQPACKET, 0); print("RAW", family)
    except OSError: pass
print("done")`
	x := w.exec(m, append([]string{"python3", "-c", script}, targets...)...)
	if strings.TrimSpace(x.Stdout) != "done" {
		t.Errorf("%+v", x)
	}
	if got := w.sh(m, `find / -name '*docker*.sock' -o -name 'containerd*' -type s 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; find / -xdev -type s 2>/dev/null`); strings.TrimSpace(got) != "lo" {
		t.Error(got)
	}
	if got := w.sh(m, "find / -type s 2>/dev/null"); got != "/run/bobbin/proxy.sock" {
		t.Error(got)
	}
}

// TestDocker_Secrets: values go to the process alone.
func TestDocker_Secrets(t *testing.T) {
	t.Parallel()
	w := openDocker(t, nil)
	m := w.someone()
	const secret = "hunter2-hunter2-hunter2"
	env := map[string]schemas.Secret{"KEY": schemas.NewSecret(secret)}
	c, err := w.Launch(t.Context(), schemas.Launch{Thread: "t1", Owner: m, Server: "s", Command: "sh", Args: []string{"-c", `echo "${#KEY}"; echo "words $KEY" >&2; cat`}, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make([]byte, 3)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "23\n" {
		t.Fatalf("%q, %v", got, err)
	}
	x, err := w.Exec(t.Context(), schemas.Exec{Member: m, Args: []string{"sh", "-c", "echo is $KEY"}, Env: env})
	if err != nil || x.Stdout != "is ***\n" {
		t.Errorf("%+v, %v", x, err)
	}
	await(t, func() bool { return c.(interface{ Stderr() string }).Stderr() == "words ***" })
	shown := w.docker("inspect", w.id(m)) + w.docker("volume", "inspect", "bobbin-sandbox-vol-"+string(m)) + w.docker("container", "diff", w.id(m)) + w.docker("top", w.id(m))
	if strings.Contains(shown, secret) {
		t.Error("the engine knows it")
	}
	if left := run(t, "sh", "-c", `grep -rls -- "$1" "$2" || true`, "sh", secret, w.boxes.Path()); left != "" {
		t.Errorf("it is in %s", left)
	}
}

// way is an egress that says no, and keeps for whom it was.
type way struct {
	mu   sync.Mutex
	seen []string
}

func (e *way) Serve(ctx context.Context, l net.Listener, who func(string) schemas.Contact) error {
	s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		label := ""
		if r.Header.Get("Proxy-Authorization") != "" {
			r.Header.Set("Authorization", r.Header.Get("Proxy-Authorization"))
			label, _, _ = r.BasicAuth()
		}
		c := who(label)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.seen = append(e.seen, fmt.Sprintf("%s %s thread=%s member=%s server=%s install=%v", r.Method, r.Host, c.Thread, c.Member, c.Server, c.Install))
		rw.WriteHeader(http.StatusForbidden)
	})}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	_ = s.Serve(l)
	return ctx.Err()
}

// TestDocker_Egress: the way out is there for all, and knows who asks.
func TestDocker_Egress(t *testing.T) {
	e := &way{}
	w := openDocker(t, func(o *sandbox.DockerOptions) { o.Egress = e })
	m := w.someone()
	said := func(want string) {
		t.Helper()
		await(t, func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return slices.Contains(e.seen, want)
		})
		e.mu.Lock()
		defer e.mu.Unlock()
		e.seen = nil
	}
	const fetch = `fetch(process.argv[1]).then(r=>console.log(r.status),e=>console.log("no"))`
	w.exec(m, "node", "-e", fetch, "https://a.example.com/")
	said(fmt.Sprintf("CONNECT a.example.com:443 thread=t1 member=%s server= install=false", m))
	if x, err := w.Exec(t.Context(), schemas.Exec{Thread: "t2", Member: m, Install: true, Args: []string{"python3", "-c", `import urllib.request as u
try: u.urlopen("http://b.example.com/")
except Exception as e: print(e)`}}); err != nil || !strings.Contains(x.Stdout, "403") {
		t.Errorf("%+v, %v", x, err)
	}
	said(fmt.Sprintf("GET b.example.com thread=t2 member=%s server= install=true", m))
	c, err := w.Launch(t.Context(), schemas.Launch{Thread: "t3", Owner: m, Server: "weather", Command: "node", Args: []string{"-e", fetch, "https://c.example.com/"}})
	if err != nil {
		t.Fatal(err)
	}
	said(fmt.Sprintf("CONNECT c.example.com:443 thread=t3 member=%s server=weather install=false", m))
	_ = c.Close()
	// One who names nobody, or somebody who is gone, is the member's, and never an installation.
	w.exec(m, "sh", "-c", `HTTPS_PROXY=http://127.0.0.1:3128 https_proxy= node -e '`+fetch+`' https://d.example.com/`)
	said(fmt.Sprintf("CONNECT d.example.com:443 thread=t1 member=%s server= install=false", m))
	// It goes on after a restart of bobbin, and after one of the sandbox.
	w.reopen()
	w.exec(m, "node", "-e", fetch, "https://e.example.com/")
	said(fmt.Sprintf("CONNECT e.example.com:443 thread=t1 member=%s server= install=false", m))
	if err := w.Stop(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.exec(m, "node", "-e", fetch, "https://f.example.com/")
	said(fmt.Sprintf("CONNECT f.example.com:443 thread=t1 member=%s server= install=false", m))
}
