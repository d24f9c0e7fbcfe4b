package proxy

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the program has ended, and leaves it to be reaped: the pid is held.
func awaitExit(pid int) (held bool) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
