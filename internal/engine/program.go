package engine

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// Program finds the program to mount in containers: binary, or where that is empty the one that runs. It must run in an image that
// has no C library of ours, and a binary that is mounted as it stands must be readable to the users of containers. The error is a
// *schemas.Error; without says what one can do where there is none.
func Program(binary, without string) (path string, err error) {
	refuse := func(text, hint string, err error) error {
		return &schemas.Error{Code: schemas.CodeMissing, Text: text, Hint: hint, Err: err}
	}
	if path = binary; path == "" {
		if path, err = os.Executable(); err != nil {
			return "", refuse("the system does not say where bobbin's program is", without, err)
		}
	}
	if path, err = filepath.Abs(path); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	var file *elf.File
	if err == nil {
		file, err = elf.Open(path)
	}
	if err != nil {
		return "", refuse("bobbin's own program cannot be read, and containers need it", "check "+path, err)
	}
	defer file.Close()
	if binary != "" && info.Mode().Perm()&0o005 != 0o005 {
		return "", refuse("containers run as another user, who may not run "+path, "chmod o+rx "+path, nil)
	}
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return "", refuse("bobbin was built with cgo, so its program does not run in a container", "build it with CGO_ENABLED=0: make build", nil)
	}
	return path, nil
}

// Share copies a file to where the engine finds it, the folder "shared" in dir, which has the same path for both: bobbin's program may
// be replaced while it runs, and be nowhere on the engine's machine when bobbin runs in a container itself. What runs or is mounted
// from there keeps its old content. The file is copied again when its place, size or time of change are others.
func Share(dir *durable.Dir, from, name string, mode fs.FileMode) (path string, err error) {
	shared, err := dir.Sub("shared")
	if err != nil {
		return "", err
	}
	defer shared.Close()
	if path, err = filepath.Abs(filepath.Join(shared.Path(), name)); err != nil {
		return "", err
	}
	info, err := os.Stat(from)
	if err != nil {
		return "", err
	}
	mark, now := name+".from", fmt.Sprintln(from, info.Size(), info.ModTime().UnixNano())
	if was, err := shared.Read(mark, 8<<10); err == nil && string(was) == now && shared.Has(name) {
		return path, nil
	}
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := replace(shared.Path(), name, in, mode); err != nil {
		return "", err
	}
	return path, shared.Write(mark, []byte(now))
}

func replace(dir, name string, in io.Reader, mode fs.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	part := name + ".part"
	out, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return root.Rename(part, name)
}
