package proxy

import (
	"net"
	"sync"
)

// maxBeside bounds the connections from programs that live beside us, in the same sandbox. They, the tunnels (maxTunnels, six files
// each while the kernel copies: splice(2) needs pipes) and the servers (maxServers, seven each) stay within the 4096 files that a
// sandbox lets us open, so that they cannot crowd out who talks to us from outside.
const maxBeside = 128

// crowd is a listener that closes at once what comes from beside us when there is too much of it.
type crowd struct {
	net.Listener
	beside func(net.Conn) bool // whether the other end is a process that we can see

	mu   sync.Mutex
	open int
}

func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil || !c.beside(conn) {
			return conn, err
		}
		c.mu.Lock()
		room := c.open < maxBeside
		if room {
			c.open++
		}
		c.mu.Unlock()
		if room {
			return &neighbour{Conn: conn, leave: sync.OnceFunc(c.left)}, nil
		}
		_ = conn.Close()
	}
}

func (c *crowd) left() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

type neighbour struct {
	net.Conn
	leave func()
}

func (n *neighbour) Close() error {
	n.leave()
	return n.Conn.Close()
}
