package main

import "golang.org/x/sys/unix"

// disk gives the free bytes at path, -1 if they are not known, and the kind of a network file system (statfs(2)).
func disk(path string) (free int64, network string) {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return -1, ""
	}
	network = map[int64]string{
		unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS", unix.SMB2_SUPER_MAGIC: "SMB", unix.V9FS_MAGIC: "9P",
		unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda",
	}[int64(s.Type)] //nolint:unconvert // of another width on other machines
	return int64(s.Bavail) * int64(s.Bsize), network //nolint:unconvert,gosec // as above
}
