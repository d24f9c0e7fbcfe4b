package leash

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Leash is the hold on a program and its group.
type Leash struct {
	pid   int
	pidfd *os.File // in the runtime's poller, so that waiting costs no thread; nil on kernels before 5.10
}

// Prepare has cmd lead a group of its own, and die with the thread that starts it. Call it before Start.
func Prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Tie takes hold of a program that was started just now.
func Tie(p *os.Process) Leash {
	l := Leash{pid: p.Pid}
	if fd, err := unix.PidfdOpen(p.Pid, unix.PIDFD_NONBLOCK); err == nil {
		l.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	return l
}

// Wait returns when the program has ended, and leaves it to be reaped: its pid is held. Where it cannot wait, held is false.
func (l Leash) Wait() (held bool) {
	if l.pidfd != nil {
		if conn, err := l.pidfd.SyscallConn(); err == nil {
			err = conn.Read(func(uintptr) bool { return ended(l.pid, unix.WNOHANG) })
			if err == nil {
				return true
			}
		}
	}
	return ended(l.pid, 0)
}

func ended(pid, options int) bool {
	for {
		// The kernel leaves info alone when WNOHANG finds nothing.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if err != unix.EINTR {
			return err == nil && info.Signo != 0
		}
	}
}

// Release gives the hold up.
func (l Leash) Release() {
	if l.pidfd != nil {
		_ = l.pidfd.Close()
	}
}
