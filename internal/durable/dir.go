// Package durable keeps small files that survive a killed process and a power
// cut: a reader sees the old content or the new, never a mixture. It knows
// nothing about what the files mean.
//
// A [Dir] is safe for concurrent use by goroutines and, through [Dir.Lock], by
// processes on one machine. The locks do not work over NFS.
package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Dir is a folder whose files are read and written without ever leaving it.
// Folders that it makes have mode 0700, files 0600.
//
// Names are single path elements; see [NameError]. Names that start with a dot
// belong to the package (temporary and lock files).
type Dir struct {
	root  *os.Root
	path  string
	locks *lockTable
	flush func(*os.File) error // fsync(2); tests look at the disk when it is called
}

// Open opens the folder at path and creates it, and its missing parents, with
// mode 0700. An existing folder keeps its mode: it is the operator's.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	if err := mkdirAll(abs); err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	return &Dir{root: root, path: abs, locks: newLockTable(), flush: (*os.File).Sync}, nil
}

// Close gives the folder's handle back. Sub-folders, appenders and locks that
// came from d stay usable.
func (d *Dir) Close() error { return d.root.Close() }

// Path is the absolute path of the folder, for a file watcher only: opening
// files by it gives up every protection of this package.
func (d *Dir) Path() string { return d.path }

// Sub opens the folder called name inside d and creates it when it is missing.
// A folder that others may enter is closed to them (0700). A symbolic link or
// a file of that name is an [*IrregularError], a folder whose name differs in
// upper and lower case only a [*CaseError].
//
// The Dir follows the folder itself: when someone deletes the folder, writes
// fail with [fs.ErrNotExist] until Sub is called again.
func (d *Dir) Sub(name string) (*Dir, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	switch err := d.root.Mkdir(name, 0o700); {
	case err == nil:
		if err := d.syncDir(); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("durable: %w", err)
	default:
		if err := d.checkCase(name); err != nil {
			return nil, err
		}
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	if !info.IsDir() {
		return nil, &IrregularError{Name: name, Mode: info.Mode().Type()}
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	sub := &Dir{root: root, path: filepath.Join(d.path, name), locks: d.locks, flush: d.flush}
	// OpenRoot follows a link that took the folder's place after Lstat.
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(&IrregularError{Name: name}, err, root.Close())
	}
	if looseMode(info.Mode()) {
		if err := root.Chmod(".", 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("durable: %w", err), root.Close())
		}
	}
	return sub, nil
}

// checkCase refuses a folder that was made under another spelling, where the
// file system takes both for the same (Windows, macOS): two owners would share it.
func (d *Dir) checkCase(name string) error {
	other := swapCase(name)
	if other == name {
		return nil
	}
	a, errA := d.root.Lstat(name)
	b, errB := d.root.Lstat(other)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return nil // two folders, or one: the file system tells case apart
	}
	entries, err := d.entries()
	if err != nil {
		return err
	}
	return spelling(entries, name)
}

func spelling(entries []fs.DirEntry, name string) error {
	for _, e := range entries {
		if e.Name() == name {
			return nil
		}
	}
	return &CaseError{Name: name}
}

func swapCase(name string) string {
	return strings.Map(func(r rune) rune {
		if lower := unicode.ToLower(r); lower != r {
			return lower
		}
		return unicode.ToUpper(r)
	}, name)
}

// Has reports whether something called name exists, of whatever kind. A name
// that is not allowed does not exist.
func (d *Dir) Has(name string) bool {
	if checkName(name) != nil {
		return false
	}
	_, err := d.root.Lstat(name)
	return err == nil
}

// List returns the folder's entries sorted by name, without the package's own
// temporary and lock files and every other name that starts with a dot.
func (d *Dir) List() ([]fs.DirEntry, error) {
	entries, err := d.entries()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasPrefix(e.Name(), ".")
	}), nil
}

// Remove deletes the file called name. A missing file is no error; a folder is
// an [*IrregularError]. After a nil error the file stays gone.
func (d *Dir) Remove(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	if info.IsDir() {
		return &IrregularError{Name: name, Mode: info.Mode().Type()}
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("durable: %w", err)
	}
	return d.syncDir()
}

// RemoveAll deletes the file or folder called name with everything in it. A
// missing one is no error. Links are deleted, not followed. It is not atomic:
// a crash may leave a part behind.
func (d *Dir) RemoveAll(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := d.root.RemoveAll(name); err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	return d.syncDir()
}

// Sweep deletes temporary files that killed writers left in this folder (not
// in its sub-folders) more than olderThan ago, and returns how many. The age
// must be longer than any write takes: a minute is plenty.
func (d *Dir) Sweep(olderThan time.Duration) (int, error) {
	entries, err := d.entries()
	if err != nil {
		return 0, err
	}
	cutoff := time.Now().Add(-olderThan)
	var removed int
	var errs []error
	for _, e := range entries {
		if !isTemp(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil || info.ModTime().After(cutoff) {
			continue // gone meanwhile, or perhaps still in use
		}
		switch err := d.root.Remove(e.Name()); {
		case err == nil:
			removed++
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("durable: %w", err))
		}
	}
	return removed, errors.Join(errs...)
}

// Sum is the SHA-256 of data in lower-case hex: the revision of a file.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (d *Dir) entries() ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	return entries, nil
}

// syncDir makes the folder's names durable; without it a rename or a removal
// may be undone by a power cut.
func (d *Dir) syncDir() error {
	f, err := d.root.Open(".")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnsynced, err)
	}
	if err := errors.Join(syncFolder(f, d.flush), f.Close()); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsynced, err)
	}
	return nil
}

func mkdirAll(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := mkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			return nil // another process was faster
		}
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(syncFolder(f, (*os.File).Sync), f.Close())
}
