package sandbox

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

const maxFiles = 4096 // open files of a program

// leash is the hold on a program and its group.
type leash struct {
	pid   int
	pidfd *os.File // in the runtime's poller, so that waiting costs no thread; nil on kernels before 5.10
}

func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func tie(p *os.Process) leash {
	l := leash{pid: p.Pid}
	if fd, err := unix.PidfdOpen(p.Pid, unix.PIDFD_NONBLOCK); err == nil {
		l.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	lower(p.Pid, unix.RLIMIT_NOFILE, maxFiles)
	lower(p.Pid, unix.RLIMIT_CORE, 0)
	return l
}

func lower(pid, resource int, limit uint64) {
	var now unix.Rlimit
	if unix.Prlimit(pid, resource, nil, &now) == nil {
		limit = min(limit, now.Max)
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil)
	}
}

// wait returns when the program has ended, and leaves it to be reaped.
func (l leash) wait() (held bool) {
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

func (l leash) release() {
	if l.pidfd != nil {
		_ = l.pidfd.Close()
	}
}

// unread counts the bytes in a pipe that nobody has read yet.
func unread(f *os.File) (n int) {
	control(f, func(fd int) { n, _ = unix.IoctlGetInt(fd, unix.TIOCINQ) })
	return n
}
