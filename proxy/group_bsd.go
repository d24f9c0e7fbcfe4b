//go:build unix && !linux

package proxy

import (
	"os/exec"
	"syscall"
)

func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit does nothing here: the system cannot wait without reaping.
func awaitExit(int) (held bool) { return false }
