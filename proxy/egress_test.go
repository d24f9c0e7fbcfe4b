package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bobbin/proxy"
)

// egress gives the address at which programs find their HTTP proxy.
func egress(t *testing.T, socket string) string {
	t.Helper()
	before := goleak.IgnoreCurrent()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- proxy.Egress(ctx, l, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, before)
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

func TestEgress(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); served.Wait() })
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				b, _ := io.ReadAll(conn) // the end of a direction is passed on
				_, _ = fmt.Fprintf(conn, "heard %s", b)
			})
		}
	})
	at := egress(t, socket)
	var all sync.WaitGroup
	for i := range 300 { // more than there are tunnels
		conn := dial(t, at)
		all.Go(func() {
			_, _ = fmt.Fprintf(conn, "CONNECT %d", i)
			_ = conn.(*net.TCPConn).CloseWrite()
			if b, err := io.ReadAll(conn); err != nil || string(b) != fmt.Sprintf("heard CONNECT %d", i) {
				t.Errorf("%d: %q %v", i, b, err)
			}
		})
	}
	all.Wait()
	dial(t, at) // one that says nothing does not hold up the end
}

func TestEgress_Closed(t *testing.T) {
	at := egress(t, filepath.Join(t.TempDir(), "none"))
	conn := dial(t, at)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusBadGateway {
		t.Fatalf("%v %v", resp, err)
	}
	if b, _ := io.ReadAll(resp.Body); string(b) != "the way out of the sandbox is closed\n" {
		t.Errorf("%q", b)
	}
}
