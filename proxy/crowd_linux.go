package proxy

import (
	"net"

	"golang.org/x/sys/unix"
)

// beside asks the kernel for the other end of a unix socket (unix(7), SO_PEERCRED): a process outside of our PID namespace, as the
// bot is to a sandbox, has no id here.
func beside(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return true
	}
	seen := true
	err = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			seen = peer.Pid > 0
		}
	})
	return seen || err != nil
}

// unreadable keeps other programs of our own user from our memory, which holds the token (prctl(2), PR_SET_DUMPABLE; the programs
// that we start are as they were).
func unreadable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
