//go:build unix

package leash

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Term asks the whole group to end. The group's id is the pid of the program, which leads it.
func (l Leash) Term() { _ = unix.Kill(-l.pid, unix.SIGTERM) }

// Kill ends the whole group. Once the program is reaped, its pid may be somebody else's.
func (l Leash) Kill() { _ = unix.Kill(-l.pid, unix.SIGKILL) }

// Signal gives the number of the signal that ended a program, or 0.
func Signal(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int(status.Signal())
	}
	return 0
}
