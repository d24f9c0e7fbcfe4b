//go:build unix

package main

import "syscall"

// apart lets a program go on when this one's terminal is closed.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
