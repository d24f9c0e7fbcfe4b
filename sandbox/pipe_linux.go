package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

const maxFiles = 4096 // open files of a program

// limit lowers what a program may take.
func limit(pid int) {
	lower(pid, unix.RLIMIT_NOFILE, maxFiles)
	lower(pid, unix.RLIMIT_CORE, 0)
}

func lower(pid, resource int, limit uint64) {
	var now unix.Rlimit
	if unix.Prlimit(pid, resource, nil, &now) == nil {
		limit = min(limit, now.Max)
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil)
	}
}

// unread counts the bytes in a pipe that nobody has read yet.
func unread(f *os.File) (n int) {
	control(f, func(fd int) { n, _ = unix.IoctlGetInt(fd, unix.TIOCINQ) })
	return n
}
