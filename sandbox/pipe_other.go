//go:build !linux

package sandbox

import "os"

func limit(int) {}

func unread(*os.File) int { return 0 }
