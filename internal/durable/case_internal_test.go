package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestSpelling: on Windows and macOS two threads whose ids differ in case only must not share a folder.
func TestSpelling(t *testing.T) {
	root := t.TempDir()
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 {
		sub, err := d.Sub("Alice")
		if err != nil {
			t.Fatal(err)
		}
		sub.Close()
	}
	_, merged := os.Stat(filepath.Join(root, "aLICE"))
	sub, err := d.Sub("aLICE")
	var wrong *CaseError
	switch {
	case merged == nil && !errors.As(err, &wrong):
		t.Errorf("the same folder under another spelling: %v", err)
	case merged != nil && err != nil:
		t.Error(err)
	case err == nil:
		sub.Close()
	}
	entries := []fs.DirEntry{entry("Alice"), entry("bob")}
	if err := spelling(entries, "Alice"); err != nil {
		t.Error(err)
	}
	if err := spelling(entries, "alice"); !errors.As(err, &wrong) {
		t.Error("a file system that merges both is not noticed")
	}
	for in, want := range map[string]string{"aB-1_": "Ab-1_", "123": "123"} {
		if got := swapCase(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

type entry string

func (e entry) Name() string             { return string(e) }
func (entry) IsDir() bool                { return true }
func (entry) Type() fs.FileMode          { return fs.ModeDir }
func (entry) Info() (fs.FileInfo, error) { return nil, fs.ErrInvalid }
