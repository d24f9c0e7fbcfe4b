//go:build unix

package audit

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow: no link is followed, and a pipe of that name does not make open(2) wait.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// tryLock takes flock(2) of the log itself, which is never replaced by us. The lock is the handle's: it ends with it.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
