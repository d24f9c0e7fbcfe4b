//go:build unix

package sandbox

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// hasWriter reports whether some process still holds the other end of a pipe.
func hasWriter(f *os.File) bool {
	held := false
	control(f, func(fd int) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Poll(poll, 0)
		held = err == nil && poll[0].Revents&unix.POLLHUP == 0
	})
	return held
}

// control gives the descriptor without taking the file from the runtime's poller, as Fd would.
func control(f *os.File, use func(fd int)) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { use(int(fd)) })
	}
}
