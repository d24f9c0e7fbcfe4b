//go:build unix

package audit

import (
	"errors"
	"syscall"
)

// isFull reports whether there is no room: the disk's, the user's or the process's.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
