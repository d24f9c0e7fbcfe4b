// Package socket reaches unix sockets in folders that containers share, where what runs inside may have laid links.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects to a unix socket in a folder that a container shares. A link is not followed: it would lead to a socket of
// ours. By way of a handle the length of the path does not matter either (unix(7): 108 bytes).
func Dial(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil || info.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, &os.PathError{Op: "dial", Path: path, Err: unix.ENOTSOCK}
	}
	var d net.Dialer
	for tries := 0; ; tries++ {
		c, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
		if !errors.Is(err, unix.EAGAIN) || tries == 40 {
			return c, err
		}
		// Others stand in line already, as many as fit (connect(2)).
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// Listen makes a unix socket to which every user may connect who can reach its folder.
func Listen(path string) (net.Listener, error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it would go by the handle, which is closed
	if err := unix.Fchmodat(dir, filepath.Base(path), 0o666, 0); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
