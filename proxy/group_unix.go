//go:build unix

package proxy

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The group's id is the pid of the program, which leads it.
func termGroup(p *os.Process) { _ = unix.Kill(-p.Pid, unix.SIGTERM) }
func killGroup(p *os.Process) { _ = unix.Kill(-p.Pid, unix.SIGKILL) }

func signalOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int(status.Signal())
	}
	return 0
}
