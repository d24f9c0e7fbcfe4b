package main

import (
	"slices"

	"golang.org/x/sys/unix"
)

// disk gives the free bytes at path, -1 if they are not known, and the kind of a network file system (statfs(2)).
func disk(path string) (free int64, network string) {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return -1, ""
	}
	kind := unix.ByteSliceToString(s.Fstypename[:])
	if !slices.Contains([]string{"nfs", "smbfs", "afpfs", "webdav"}, kind) {
		kind = ""
	}
	return int64(s.Bavail) * int64(s.Bsize), kind //nolint:gosec // a disk
}
