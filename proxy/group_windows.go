package proxy

import (
	"os"
	"os/exec"
	"syscall"
)

func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true} }

// termGroup does nothing: a program without a window gets no wish to end on Windows, other than the end of its input.
func termGroup(*os.Process) {}

// killGroup ends the program alone: what it started itself is not ended here.
func killGroup(p *os.Process) { _ = p.Kill() }

func signalOf(*os.ProcessState) int { return 0 }

// awaitExit does nothing here: the system cannot wait without reaping.
func awaitExit(int) (held bool) { return false }
