//go:build !unix

package durable

import (
	"io/fs"
	"os"
)

// Windows opens pipes under other names than files.
const (
	flagNoWait   = 0
	flagNoFollow = 0
)

// looseMode is always false: Windows keeps access rights in lists, which the
// folder's own inherits, and Go invents the mode bits.
func looseMode(fs.FileMode) bool { return false }

// syncFolder does nothing: Windows cannot flush a folder, NTFS journals names.
func syncFolder(*os.File, func(*os.File) error) error { return nil }
