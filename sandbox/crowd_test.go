//go:build linux

package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"bobbin/sandbox"
	"bobbin/schemas"
)

// TestDocker_Crowd: a program that opens all the connections that it can keeps nobody outside from its sandbox, and can read
// nothing of the program that serves it.
func TestDocker_Crowd(t *testing.T) {
	t.Parallel()
	w := openDocker(t, func(o *sandbox.DockerOptions) { o.Egress = &way{} })
	m := w.someone()
	const hold = `import socket, time, os
held = []
def open_(family, at):
    n = 0
    while n < 450:
        try:
            s = socket.socket(family); s.settimeout(1); s.connect(at); held.append(s); n += 1
        except OSError: break
for at in (socket.AF_UNIX, "/run/bobbin/proxy.sock"), (socket.AF_INET, ("127.0.0.1", 3128)), (socket.AF_UNIX, "/run/bobbin/egress.sock"):
    for _ in range(2):
        if os.fork() == 0: open_(*at); open("/workspace/held-%d" % os.getpid(), "w").write(str(len(held))); time.sleep(120)
time.sleep(120)`
	for range 2 {
		go func() {
			_, _ = w.Exec(t.Context(), schemas.Exec{Thread: "t1", Member: m, Args: []string{"python3", "-c", hold}, Timeout: 2 * time.Minute})
		}()
	}
	await(t, func() bool { return strings.TrimSpace(w.sh(m, "ls /workspace | grep -c held")) == "12" })
	box := w.id(m)
	for range 20 {
		began := time.Now()
		if got := w.sh(m, "echo here"); got != "here" || time.Since(began) > 3*time.Second {
			t.Fatalf("%q after %s", got, time.Since(began))
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Log(w.sh(m, "head -c 9 /workspace/held-*"))
	if w.id(m) != box {
		t.Error("the sandbox was started anew")
	}
	got := w.sh(m, `for p in /proc/[0-9]*; do case $(tr '\0' ' ' <$p/cmdline) in /bobbin*) echo found; head -c 1 $p/environ; ls $p/fd; python3 -c "open('$p/mem','rb')";; esac; done; true`)
	if !strings.Contains(got, "found") || strings.Count(got, "ermission denied") < 3 {
		t.Errorf("the memory of the program that serves it: %s", got)
	}
}
