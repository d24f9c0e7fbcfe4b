package safehttp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"bobbin/internal/safehttp"
)

// TestNetwork_NothingIsSent gives the special addresses to this machine, in a network of its own, and listens on all of them: what
// is refused gets no connection, what is listed gets its request.
func TestNetwork_NothingIsSent(t *testing.T) {
	addrs := []string{"10.99.0.1", "10.98.0.1", "172.16.0.1", "192.168.7.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "168.63.129.16", "192.0.0.192", "192.0.0.1", "1.1.1.1",
		"fd12::1", "fd00:ec2::254", "2606:4700::1111", "64:ff9b::a63:1", "64:ff9b:1::1", "2002:a63:1::1", "2001:0:a63::1"}
	if os.Getenv("SAFEHTTP_NETWORK") == "" {
		script := "set -e; ip link set lo up; "
		for _, a := range addrs {
			script += "ip addr add " + a + " dev lo" + map[bool]string{true: " nodad"}[strings.Contains(a, ":")] + "; "
		}
		inOwnNetwork(t, script)
		return
	}
	reached := &visits{}
	l, err := net.Listen("tcp", ":8080") //nolint:gosec // in a network without a way out
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }),
		ConnState: func(c net.Conn, s http.ConnState) {
			if host, _, _ := net.SplitHostPort(c.LocalAddr().String()); s == http.StateNew {
				reached.add(host)
			}
		},
	}}
	s.Start()
	defer s.Close()
	// The control: every one of them answers.
	for _, a := range addrs {
		plain := &http.Transport{}
		if err := dialOnly(t.Context(), &http.Client{Transport: plain}, "http://"+net.JoinHostPort(a, "8080")); err != nil {
			t.Fatal(a, err)
		}
		plain.CloseIdleConnections()
	}
	reached.take()

	opened := map[string]bool{"10.99.0.1": true, "10.98.0.1": true, "172.16.0.1": true, "192.168.7.1": true, "100.64.0.1": true, "fd12::1": true, "1.1.1.1": true, "2606:4700::1111": true}
	const url = "http://mcp.corp.example:8080"
	for _, a := range append(addrs, "127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::7f00:1") {
		for _, loopback := range []bool{false, true} {
			reached.take()
			dns := &answers{sets: [][]string{{a}}}
			listed := client(t, safehttp.Options{AllowLoopback: loopback, Allow: allow(t, url), Resolver: dns})
			if got, err := secretly(t.Context(), listed, http.MethodPost, url); (err == nil) != opened[a] || err == nil && got != "hello" {
				t.Errorf("%s: %q, %v", a, got, err)
			}
			if at := reached.take(); len(at) != 0 != opened[a] {
				t.Errorf("%s: reached %v", a, at)
			}
			for _, raw := range []string{"https://mcp.corp.example:8080", "http://other.corp.example:8080", "https://" + net.JoinHostPort(a, "8080")} {
				reached.take()
				_, err := secretly(t.Context(), client(t, safehttp.Options{Resolver: dns}), http.MethodPost, raw)
				at, public := reached.take(), a == "1.1.1.1" || a == "2606:4700::1111"
				if err == nil || len(at) != 0 && !public {
					t.Errorf("%s at %s: %v; reached %v", raw, a, err, at)
				}
			}
		}
	}
	rebound(t, url, reached)
}

// visits counts connections by the address that they came to.
type visits struct {
	mu sync.Mutex
	at map[string]int
}

func (v *visits) add(host string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at == nil {
		v.at = map[string]int{}
	}
	v.at[host]++
}

// take begins anew.
func (v *visits) take() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.at
	v.at = nil
	return at
}

// rebound changes the answer between the check of an address, its first use and its second.
func rebound(t *testing.T, url string, reached *visits) {
	for _, sets := range [][][]string{
		{{"10.99.0.1"}, {"169.254.169.254"}}, {{"10.99.0.1"}, {"127.0.0.1"}}, {{"1.1.1.1"}, {"100.100.100.200"}}, {{"10.99.0.1"}, {"10.99.0.1", "168.63.129.16"}}, {{"fd12::1"}, {"fd00:ec2::254", "fd12::1"}},
	} {
		reached.take()
		c := client(t, safehttp.Options{AllowLoopback: true, Allow: allow(t, url), Resolver: &answers{sets: sets}})
		if got, err := secretly(t.Context(), c, http.MethodGet, url); err != nil || got != "hello" {
			t.Errorf("%v: %q, %v", sets, got, err)
		}
		c.CloseIdleConnections()
		var blocked *safehttp.BlockedError
		if _, err := secretly(t.Context(), c, http.MethodGet, url); !errors.As(err, &blocked) {
			t.Errorf("%v: %v", sets, err)
		}
		if at := reached.take(); at[sets[0][0]] != 1 || len(at) != 1 {
			t.Errorf("%v: reached %v", sets, at)
		}
	}
}

// inOwnNetwork runs the test once more in a network namespace that a script set up.
func inOwnNetwork(t *testing.T, script string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has networks of a process's own")
	}
	ctx := context.WithoutCancel(t.Context())
	if out, err := exec.CommandContext(ctx, "unshare", "-rn", "sh", "-c", script).CombinedOutput(); err != nil {
		t.Skipf("no network of its own for the test: %v %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "unshare", "-rn", "sh", "-c", script+" exec '"+self+"' -test.v -test.timeout 2m -test.run '^"+t.Name()+"$'")
	cmd.Env = append(os.Environ(), "SAFEHTTP_NETWORK=own")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}
