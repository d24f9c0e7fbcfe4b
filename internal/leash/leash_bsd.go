//go:build unix && !linux

package leash

import (
	"os"
	"os/exec"
	"syscall"
)

// Leash is the hold on a program and its group.
type Leash struct{ pid int }

// Prepare has cmd lead a group of its own. Call it before Start.
func Prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Tie takes hold of a program that was started just now.
func Tie(p *os.Process) Leash { return Leash{pid: p.Pid} }

// Wait returns false at once: the system cannot wait without reaping.
func (Leash) Wait() (held bool) { return false }

// Release gives the hold up.
func (Leash) Release() {}
