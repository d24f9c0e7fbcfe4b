package sandbox

import (
	"cmp"
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
	for folders := []string{"."}; len(folders) > 0 && size < most; {
		name := folders[len(folders)-1]
		folders = folders[:len(folders)-1]
		// It may have become a pipe meanwhile, whose opening would wait for a writer.
		folder, err := root.OpenFile(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // it went meanwhile
		}
		for more := true; more && size < most; {
			var entries []fs.DirEntry
			entries, err = folder.ReadDir(1000) // a folder may have any number
			more = err == nil
			if files += len(entries); files > mostFiles || ctx.Err() != nil {
				_ = folder.Close()
				return size, cmp.Or(ctx.Err(), errTooManyFiles)
			}
			for _, e := range entries {
				if e.IsDir() {
					folders = append(folders, name+"/"+e.Name())
				}
				if info, err := e.Info(); err == nil {
					size += taken(info)
				}
			}
		}
		_ = folder.Close()
	}
	return size, ctx.Err()
}

// taken is what a file takes, in parts if it has several names. A folder has few, and takes little itself.
func taken(info fs.FileInfo) int64 {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return s.Blocks * 512 / max(int64(s.Nlink), 1)
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
