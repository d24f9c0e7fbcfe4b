//go:build unix

package durable

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	// flagNoWait keeps open(2) of a pipe from waiting for its other end.
	flagNoWait   = syscall.O_NONBLOCK
	flagNoFollow = syscall.O_NOFOLLOW
)

func looseMode(mode fs.FileMode) bool { return mode.Perm()&0o077 != 0 }

func syncFolder(dir *os.File, flush func(*os.File) error) error { return flush(dir) }
