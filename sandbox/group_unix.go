//go:build unix

package sandbox

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// term and kill signal the whole group. The group's id is the pid of the program, which leads it.
func (l leash) term() { _ = unix.Kill(-l.pid, unix.SIGTERM) }
func (l leash) kill() { _ = unix.Kill(-l.pid, unix.SIGKILL) }

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

func signalOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int(status.Signal())
	}
	return 0
}

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
