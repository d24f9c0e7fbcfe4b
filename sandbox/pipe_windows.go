package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func isBrokenPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}

func hasWriter(*os.File) bool { return false }
