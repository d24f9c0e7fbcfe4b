package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bobbin/proxy"
)

// TestConfine runs in a process of its own, which stays confined.
func TestConfine(t *testing.T) {
	if os.Getenv("PROXY_CONFINE") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestConfine$", "-test.v")
		c.Env = append(os.Environ(), "PROXY_CONFINE=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	inNamespace := func(flags uintptr) error {
		c := exec.Command("/bin/true")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		return c.Run()
	}
	if err := inNamespace(unix.CLONE_NEWUSER); err != nil {
		t.Skip("this machine lets nobody make user namespaces:", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p, err := proxy.New(ctx, proxy.Options{Confine: true, Token: "t", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 8 { // whatever thread it is
		if err := inNamespace(unix.CLONE_NEWUSER); !errors.Is(err, unix.EPERM) {
			t.Error("clone:", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWUSER); !errors.Is(err, unix.EPERM) {
		t.Error("unshare:", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0); errno != unix.ENOSYS {
		t.Error("clone3:", errno)
	}
	if err := inNamespace(0); err != nil {
		t.Error("a plain program:", err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.Serve(ctx, l) }()
	web := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", l.Addr().String()) }}}
	r, err := http.NewRequest(http.MethodGet, "http://s/loose", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer t")
	resp, err := web.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var loose []string
	if err := json.NewDecoder(resp.Body).Decode(&loose); err != nil || !slices.Contains(loose, "the system can be written to") || slices.Contains(loose, "programs may gain privileges") {
		t.Errorf("%q, %v", loose, err)
	}
}
