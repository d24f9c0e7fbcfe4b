package audit

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// look gives the size of the file at path and whether it is the one that info describes. It does not ask for its times:
// after a question for them the next write(2) has to note a finer one, which costs as much as the write (multigrain
// timestamps, Linux 6.13).
func look(path string, info fs.FileInfo) (size int64, same bool) {
	var now unix.Statx_t
	was, ok := info.Sys().(*syscall.Stat_t)
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_SIZE, &now)
	if !ok || err != nil { // statx(2) may be missing or forbidden
		return lstat(path, info)
	}
	return int64(now.Size), now.Ino == was.Ino && unix.Mkdev(now.Dev_major, now.Dev_minor) == uint64(was.Dev)
}
