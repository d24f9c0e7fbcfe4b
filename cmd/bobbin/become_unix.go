//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// become replaces this program by another one, with more variables. It returns only if it fails.
func become(args, env []string) error {
	path := args[0]
	if !strings.Contains(path, "/") {
		path = ""
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			at := filepath.Join(dir, args[0])
			if info, err := os.Stat(at); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				path = at
				break
			}
		}
		if path == "" {
			return fs.ErrNotExist
		}
	}
	return syscall.Exec(path, args, append(theirs(os.Environ()), env...)) //nolint:gosec // the operator's own command, in its container
}
