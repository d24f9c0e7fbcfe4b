package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// measure adds up what the files under path take on the disk, up to most. Links lead nowhere else. Files that are open, but have no
// name any more, are not seen: for them there is [freeSpace].
func measure(ctx context.Context, path string, most int64) (int64, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	var size int64
	files := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			if name == "." {
				return err
			}
			return nil // it went meanwhile
		}
		if files++; files > mostFiles {
			return errTooManyFiles
		}
		if info, err := e.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				size += s.Blocks * 512 / int64(max(s.Nlink, 1)) // a folder's links are few, and its blocks too
			}
		}
		if size >= most {
			return fs.SkipAll
		}
		return ctx.Err()
	})
	return size, err
}

// freeSpace gives what is left of the file system that holds the first of the folders that can be asked about.
func freeSpace(folders ...string) (int64, error) {
	err := errors.New("sandbox: no folder is known")
	for _, path := range folders {
		var s unix.Statfs_t
		if err = unix.Statfs(path, &s); err == nil {
			return int64(s.Bavail) * s.Bsize, nil
		}
	}
	return 0, err
}
