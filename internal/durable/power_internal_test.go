//go:build unix

package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDir_PowerCut stands in for a power cut: what no fsync covered may be lost, in any order. So the whole new content must be
// synced before a name leads to it, and the name after that; and a sync that fails is never taken for one that did its work.
func TestDir_PowerCut(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const before, after = "old content", "new content, and longer"
	if err := d.Write("f", []byte(before)); err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		b, err := os.ReadFile(filepath.Join(d.path, "f"))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	var steps []string
	watch := func(fail string) {
		steps = nil
		d.flush = func(f *os.File) error {
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			step := "folder: " + shown()
			if !info.IsDir() {
				b, err := os.ReadFile(f.Name())
				if err != nil {
					t.Fatal(err)
				}
				step = "file of " + string(b) + ": " + shown()
			}
			steps = append(steps, step)
			if fail != "" && strings.HasPrefix(step, fail) {
				return syscall.EIO
			}
			return f.Sync()
		}
	}
	watch("file")
	if err := d.Write("f", []byte(after)); err == nil || errors.Is(err, ErrUnsynced) || shown() != before {
		t.Errorf("the content is not on the disk: %v, %s", err, shown())
	}
	watch("")
	if err := d.Write("f", []byte(after)); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(steps, " | "), "file of "+after+": "+before+" | folder: "+after; got != want {
		t.Errorf("synced: %s\nwant:   %s", got, want)
	}
	watch("folder")
	if err := d.Write("f", []byte(before)); !errors.Is(err, ErrUnsynced) {
		t.Errorf("the name is not on the disk: %v", err)
	}
	if err := d.Remove("f"); !errors.Is(err, ErrUnsynced) {
		t.Errorf("removal: %v", err)
	}
	if _, err := d.Sub("new"); !errors.Is(err, ErrUnsynced) {
		t.Errorf("new folder: %v", err)
	}
	watch("")
	sub, err := d.Sub("another")
	if err != nil || len(steps) != 1 {
		t.Fatal(err, steps)
	}
	defer sub.Close()
	steps = nil
	if err := sub.Write("f", []byte(after)); err != nil || len(steps) != 2 {
		t.Errorf("in a folder of it: %v %v", err, steps)
	}
}
