package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Read returns the whole content of the regular file called name. It does not
// wait for a writer: a pipe, device, folder or symbolic link is an
// [*IrregularError] at once. A file of more than limit bytes is a
// [*TooLargeError], a missing one wraps [fs.ErrNotExist]. A file that others
// may read or write is closed to them (0600) first; when that is not
// permitted, because someone else owns it, the read fails.
func (d *Dir) Read(name string, limit int64) ([]byte, error) {
	f, err := d.openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, &TooLargeError{Name: name, Limit: limit}
	}
	return data, nil
}

// Write replaces the file called name with data, or creates it, mode 0600.
// Readers and a crash at any moment see the old content or the new. A link of
// that name is replaced, not followed.
//
// After an error the old file is intact and the temporary file is gone, with
// one exception: an error that wraps [ErrUnsynced] means that the new content
// is in place but perhaps not durable.
//
// Write does not protect a read-change-write sequence; use [Dir.Lock] for it.
func (d *Dir) Write(name string, data []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	temp := tempName(name, rand.Text())
	if err := d.writeTemp(temp, data); err != nil {
		return err
	}
	if err := d.root.Rename(temp, name); err != nil {
		return d.discard(temp, err)
	}
	return d.syncDir()
}

func (d *Dir) writeTemp(temp string, data []byte) error {
	f, err := d.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = d.flush(f)
	}
	// Some file systems report a full disk or quota only at close.
	if err = errors.Join(err, f.Close()); err != nil {
		return d.discard(temp, err)
	}
	return nil
}

func (d *Dir) discard(temp string, cause error) error {
	return errors.Join(fmt.Errorf("durable: %w", cause), d.root.Remove(temp))
}

// openRegular opens an existing regular file. Lstat comes first because os.Root
// follows links inside the root and opening a device can have effects; the
// second look at the opened handle catches what was swapped in between.
func (d *Dir) openRegular(name string, flag int) (*os.File, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, &IrregularError{Name: name, Mode: info.Mode().Type()}
	}
	f, err := d.root.OpenFile(name, flag|flagNoWait, 0o600)
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	if err := checkOpened(f, name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkOpened(f *os.File, name string) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	if !info.Mode().IsRegular() {
		return &IrregularError{Name: name, Mode: info.Mode().Type()}
	}
	if looseMode(info.Mode()) {
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("durable: %w", err)
		}
	}
	return nil
}

// Appender adds records to the end of one file. Several goroutines and
// processes may append to one file at the same time.
type Appender struct {
	file *os.File
}

// Append opens the file called name for adding to its end and creates it when
// it is missing. The caller closes the Appender.
func (d *Dir) Append(name string) (*Appender, error) {
	const flags = os.O_RDWR | os.O_APPEND
	f, err := d.openRegular(name, flags)
	if err == nil {
		return &Appender{file: f}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err = d.root.OpenFile(name, flags|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		if f, err = d.openRegular(name, flags); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	if err := d.syncDir(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Appender{file: f}, nil
}

// Write adds record in one system call, so records of several writers do not
// mix. A full disk or a kill in the middle can leave the beginning of a record:
// readers must recognise a torn one, and [Appender.Truncate] cuts it off.
// Nothing is durable before [Appender.Sync].
func (a *Appender) Write(record []byte) (int, error) { return a.file.Write(record) }

// Sync makes every record written so far survive a power cut. After an error
// nothing is known about them, and another Sync would not tell: open anew.
func (a *Appender) Sync() error { return a.file.Sync() }

// Size is the current length of the file in bytes, other writers' included.
func (a *Appender) Size() (int64, error) {
	info, err := a.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Reader reads what the file holds now, from offset (bytes) to the end of this
// moment. Records that are added later need a new Reader.
func (a *Appender) Reader(offset int64) (*io.SectionReader, error) {
	size, err := a.Size()
	if err != nil {
		return nil, err
	}
	if offset < 0 || offset > size {
		return nil, fmt.Errorf("durable: offset %d is outside of a file of %d bytes", offset, size)
	}
	return io.NewSectionReader(a.file, offset, size-offset), nil
}

// Truncate shortens the file to size bytes, to cut off a torn record. Every
// writer must hold the file's [Dir.Lock] meanwhile: a record that someone else
// is adding would be lost.
func (a *Appender) Truncate(size int64) error {
	current, err := a.Size()
	if err != nil {
		return err
	}
	if size < 0 || size > current {
		return fmt.Errorf("durable: cannot cut a file of %d bytes to %d", current, size)
	}
	return errors.Join(a.file.Truncate(size), a.file.Sync())
}

// Close closes the file without a Sync.
func (a *Appender) Close() error { return a.file.Close() }
