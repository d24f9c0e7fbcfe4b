//go:build unix

package proxy_test

import (
	"os/exec"
	"syscall"
)

func escape(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
