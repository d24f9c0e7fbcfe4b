//go:build unix

package registry_test

import (
	"os/exec"
	"syscall"
	"time"
)

func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func alive(cmd *exec.Cmd) bool { return syscall.Kill(cmd.Process.Pid, 0) == nil }

// spent is the processor time of this process so far.
func spent() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of itself it always can be asked
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
