//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// enforced says that permissions of files mean what they say here.
const enforced = true

func ownedByMe(info fs.FileInfo) (who string, mine bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", true
	}
	return named(strconv.Itoa(int(st.Uid))), int(st.Uid) == os.Geteuid()
}

func me() string { return named(strconv.Itoa(os.Geteuid())) }

func named(uid string) string {
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}
