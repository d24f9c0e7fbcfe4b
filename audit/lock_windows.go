package audit

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

const noFollow = 0

// region is a byte far behind the end of any log: LockFileEx is mandatory and would keep readers out.
func region() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: math.MaxInt32} }

func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, region())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) { _ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, region()) }
