package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	maxTunnels = 256
	maxFailed  = 600 // accepts in a row: a minute
	dialWait   = 5 * time.Second
)

// closeWriter is a connection whose sending half can be closed alone.
type closeWriter interface{ CloseWrite() error }

// Egress takes what programs send to their HTTP proxy at l, and passes it as it is to the unix socket, where somebody
// outside decides. It returns when ctx ended or l failed, and all connections are closed.
func Egress(ctx context.Context, l net.Listener, socket string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var tunnels sync.WaitGroup
	defer tunnels.Wait()
	defer cancel()
	slots := make(chan struct{}, maxTunnels)
	for failed := 0; ; {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			// The system may be short of something for a moment.
			if failed++; failed > maxFailed || errors.Is(err, net.ErrClosed) {
				return err
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		failed = 0
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			return nil
		}
		tunnels.Go(func() {
			defer func() { <-slots }()
			tunnel(ctx, conn, socket)
		})
	}
}

func tunnel(ctx context.Context, conn net.Conn, socket string) {
	defer conn.Close()
	d := net.Dialer{Timeout: dialWait}
	out, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		_ = conn.SetDeadline(time.Now().Add(dialWait))
		_, _ = io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nthe way out of the sandbox is closed\n")
		return
	}
	defer out.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(); _ = out.Close() })
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { pass(conn, out) })
	pass(out, conn)
	back.Wait()
}

// pass copies one direction; its end is passed on as such.
func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(closeWriter); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}
