//go:build unix

package proxy

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is a program with what it started; its id is the pid of the program, which leads it.
type group struct{ pid int }

func tie(p *os.Process) group { return group{p.Pid} }

func (g group) term()  { _ = unix.Kill(-g.pid, unix.SIGTERM) }
func (g group) kill()  { _ = unix.Kill(-g.pid, unix.SIGKILL) }
func (group) release() {}

func signalOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int(status.Signal())
	}
	return 0
}
