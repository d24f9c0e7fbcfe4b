package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName leaves room for the package's own prefixes and suffixes below the
// 255 bytes that file systems allow.
const maxName = 200

// ErrUnsynced means that the change is visible, but the system could not
// confirm that it will survive a power cut: treat the outcome as unknown, read
// the file again and decide. Repeating the fsync proves nothing.
var ErrUnsynced = errors.New("the change may not survive a power cut")

// NameError refuses a name before the file system is asked. Allowed is a
// single path element of 1 to 200 bytes of UTF-8 that is an ordinary file name
// on every platform, without control characters, a colon, or a dot in front or
// a dot or space at the end.
type NameError struct{ Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("%.40q is not a usable file name", e.Name)
}

// IrregularError refuses something that is not what was asked for: a pipe, a
// device, a symbolic link, a folder instead of a file or the reverse.
type IrregularError struct {
	Name string
	Mode fs.FileMode // type bits of what was found
}

func (e *IrregularError) Error() string {
	kind := "not of the expected kind"
	switch {
	case e.Mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case e.Mode.IsDir():
		kind = "a folder"
	case e.Mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case e.Mode&fs.ModeSocket != 0:
		kind = "a socket"
	case e.Mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fmt.Sprintf("%q is %s, not a regular file", e.Name, kind)
}

// CaseError refuses a folder whose name is there in another spelling, on a file
// system that does not tell upper from lower case.
type CaseError struct{ Name string }

func (e *CaseError) Error() string {
	return fmt.Sprintf("%q is here in another spelling of upper and lower case", e.Name)
}

// TooLargeError refuses a file with more than Limit bytes.
type TooLargeError struct {
	Name  string
	Limit int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%q is larger than %d bytes", e.Name, e.Limit)
}

func checkName(name string) error {
	ok := name != "" && len(name) <= maxName &&
		utf8.ValidString(name) && filepath.IsLocal(name) &&
		!strings.ContainsAny(name, `/\:`) && !strings.ContainsFunc(name, unicode.IsControl) &&
		name[0] != '.' && !strings.HasSuffix(name, ".") && !strings.HasSuffix(name, " ")
	if !ok {
		return &NameError{Name: name}
	}
	return nil
}

func lockName(name string) string { return "." + name + ".lock" }

func tempName(name, random string) string { return "." + name + tempMark + random }

const tempMark = ".tmp-"

func isTemp(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, tempMark)
}
