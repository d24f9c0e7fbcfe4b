package operator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"bobbin/schemas"
)

// binary gives the program that is mounted in containers. This one is copied beside the servers, whose folder has the same path for
// the engine: it may be replaced while it runs, and be nowhere on the engine's machine when bobbin runs in a container itself. A
// container that runs keeps the old content.
func (o *Operator) binary() (string, error) {
	path, err := static(o.opt.Binary)
	if err != nil || o.opt.Binary != "" {
		return path, err
	}
	shared, err := o.share(path)
	if err != nil {
		return "", &schemas.Error{Code: schemas.CodeInvalid, Text: "bobbin's program cannot be copied to the data folder", Hint: "check who owns it, and whether there is room", Err: err}
	}
	return shared, nil
}

func (o *Operator) share(from string) (string, error) {
	const name, mark = "bobbin", "bobbin.from"
	dir, err := o.state.Sub("shared")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	path := filepath.Join(dir.Path(), name)
	info, err := os.Stat(from)
	if err != nil {
		return "", err
	}
	now := fmt.Sprintln(from, info.Size(), info.ModTime().UnixNano())
	if was, err := dir.Read(mark, 8<<10); err == nil && string(was) == now && dir.Has(name) {
		return path, nil
	}
	root, err := os.OpenRoot(dir.Path())
	if err != nil {
		return "", err
	}
	defer root.Close()
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	const part = name + ".part"
	out, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close()); err != nil {
		return "", errors.Join(err, root.Remove(part))
	}
	if err := root.Rename(part, name); err != nil {
		return "", err
	}
	return path, dir.Write(mark, []byte(now))
}
