//go:build unix

package registry_test

import (
	"os/exec"
	"syscall"
)

func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func alive(cmd *exec.Cmd) bool { return syscall.Kill(cmd.Process.Pid, 0) == nil }
