package egress

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// listener bounds the connections of one sandbox, counts their bytes and can close them all, hijacked ones included.
type listener struct {
	net.Listener
	out, in atomic.Int64 // from and to the sandbox

	mu    sync.Mutex
	open  map[*conn]struct{}
	ended bool

	second time.Time // when came began to count; Accept's own
	came   int
}

// pace lets a sandbox have maxNew connections a second, and waits with the next: whoever only opens and closes them would keep us
// busy with that.
func (l *listener) pace() {
	if past := time.Since(l.second); past >= time.Second {
		l.second, l.came = time.Now(), 0
	} else if l.came >= maxNew {
		time.Sleep(time.Second - past)
		l.second, l.came = time.Now(), 0
	}
	l.came++
}

const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"egress: too many connections at once from this sandbox\n"

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.pace()
		if mine := l.keep(c); mine != nil {
			return mine, nil
		}
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.Write([]byte(tooMany))
		_ = c.Close()
	}
}

// keep gives nil for a connection too many.
func (l *listener) keep(c net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.open) >= maxConns {
		return nil
	}
	mine := &conn{Conn: c, from: l}
	mine.moved.Store(time.Now().UnixNano())
	mine.timer = time.AfterFunc(idleTimeout, mine.look)
	l.open[mine] = struct{}{}
	return mine
}

// end closes what is open; nothing is kept any more.
func (l *listener) end() {
	l.mu.Lock()
	l.ended = true
	open := l.open
	l.open = map[*conn]struct{}{}
	l.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
}

// conn closes itself when no byte moves for idleTimeout, whatever deadlines are set on it.
type conn struct {
	net.Conn
	from  *listener
	timer *time.Timer
	moved atomic.Int64 // when a byte did last, in Unix nanoseconds
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.count(&c.from.out, n)
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.count(&c.from.in, n)
	return n, err
}

func (c *conn) count(sum *atomic.Int64, n int) {
	if n > 0 {
		sum.Add(int64(n))
		c.moved.Store(time.Now().UnixNano())
	}
}

// look is called by the timer.
func (c *conn) look() {
	left := idleTimeout - time.Since(time.Unix(0, c.moved.Load()))
	c.from.mu.Lock()
	_, open := c.from.open[c]
	if open && left > 0 {
		c.timer.Reset(left)
	}
	c.from.mu.Unlock()
	if left <= 0 {
		_ = c.Close()
	}
}

func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c)
	c.timer.Stop()
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite tells the other side that nothing follows.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}
