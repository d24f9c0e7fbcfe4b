package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bobbin/internal/durable"
)

func open(t *testing.T) *durable.Dir {
	t.Helper()
	d, err := durable.Open(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func write(t *testing.T, d *durable.Dir, name, data string) {
	t.Helper()
	if err := d.Write(name, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func names(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestDir_WriteReadRemove(t *testing.T) {
	d := open(t)
	if _, err := d.Read("x", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("missing file: %v", err)
	}
	write(t, d, "x", "one")
	write(t, d, "x", "two")
	got, err := d.Read("x", 3)
	if err != nil || string(got) != "two" {
		t.Fatalf("Read = %q, %v", got, err)
	}
	var large *durable.TooLargeError
	if _, err := d.Read("x", 2); !errors.As(err, &large) || large.Limit != 2 {
		t.Fatalf("over the limit: %v", err)
	}
	if runtime.GOOS != "windows" {
		if m := mode(t, filepath.Join(d.Path(), "x")); m != 0o600 {
			t.Errorf("file mode %o", m)
		}
		if m := mode(t, d.Path()); m != 0o700 {
			t.Errorf("folder mode %o", m)
		}
	}
	if !d.Has("x") || d.Has("y") || d.Has("../b") {
		t.Error("Has is wrong")
	}
	if err := errors.Join(d.Remove("x"), d.Remove("x"), d.RemoveAll("x")); err != nil {
		t.Fatal(err)
	}
	if left := names(t, d.Path()); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestDir_Sub(t *testing.T) {
	d := open(t)
	sub, err := d.Sub("123")
	if err != nil {
		t.Fatal(err)
	}
	write(t, sub, "f", "x")
	again, err := d.Sub("123")
	if err != nil || !again.Has("f") {
		t.Fatalf("second Sub: %v", err)
	}
	if sub.Path() != filepath.Join(d.Path(), "123") {
		t.Errorf("Path %q", sub.Path())
	}
	var irregular *durable.IrregularError
	if err := d.Remove("123"); !errors.As(err, &irregular) {
		t.Errorf("Remove of a folder: %v", err)
	}
	if _, err := d.Read("123", 10); !errors.As(err, &irregular) {
		t.Errorf("Read of a folder: %v", err)
	}
	if err := d.RemoveAll("123"); err != nil {
		t.Fatal(err)
	}
	if err := sub.Write("f", nil); err == nil {
		t.Error("wrote into a deleted folder")
	}
	write(t, d, "file", "x")
	if _, err := d.Sub("file"); !errors.As(err, &irregular) {
		t.Errorf("Sub of a file: %v", err)
	}
}

func TestDir_NamesRefusedBeforeAnyCall(t *testing.T) {
	d := open(t)
	// A closed root answers fs.ErrClosed to every call, so an answer of
	// NameError proves that the file system was not asked.
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	bad := []string{"", ".", "..", "../1", "a/b", `a\b`, "/etc/passwd", "a\x00b", "a\nb", ".hidden", ".x.lock",
		"x.", "x ", "C:", "f:stream", "\xff", strings.Repeat("a", 201), "1/../../x"}
	for _, name := range bad {
		_, errRead := d.Read(name, 1)
		_, errSub := d.Sub(name)
		_, errAppend := d.Append(name)
		_, errLock := d.Lock(t.Context(), name)
		for i, err := range []error{errRead, errSub, errAppend, errLock, d.Write(name, nil), d.Remove(name), d.RemoveAll(name)} {
			var refused *durable.NameError
			if !errors.As(err, &refused) {
				t.Errorf("call %d with %q: %v", i, name, err)
			}
		}
	}
}

func TestDir_ListHidesOwnFiles(t *testing.T) {
	d := open(t)
	write(t, d, "b", "")
	write(t, d, "a", "")
	unlock, err := d.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	entries, err := d.List()
	if err != nil || len(entries) != 2 || entries[0].Name() != "a" || entries[1].Name() != "b" {
		t.Fatalf("List = %v, %v", entries, err)
	}
}

func TestDir_Sweep(t *testing.T) {
	d := open(t)
	write(t, d, "x.tmp-y", "kept")
	orphan := filepath.Join(d.Path(), ".x.tmp-ABC")
	fresh := filepath.Join(d.Path(), ".x.tmp-DEF")
	for _, p := range []string{orphan, fresh} {
		if err := os.WriteFile(p, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(orphan, old, old); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Sweep(time.Minute); n != 1 || err != nil {
		t.Fatalf("Sweep = %d, %v", n, err)
	}
	if left := names(t, d.Path()); len(left) != 2 || left[0] != ".x.tmp-DEF" || left[1] != "x.tmp-y" {
		t.Fatalf("left: %v", left)
	}
}

func TestSum(t *testing.T) {
	if got := durable.Sum([]byte("abc")); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error(got)
	}
}

func TestDir_WriteFailureKeepsOld(t *testing.T) {
	d := open(t)
	sub, err := d.Sub("dir") // rename onto a folder fails on every platform
	if err != nil {
		t.Fatal(err)
	}
	write(t, sub, "f", "old")
	if err := d.Write("dir", []byte("new")); err == nil {
		t.Fatal("replaced a folder")
	}
	if left := names(t, d.Path()); len(left) != 1 {
		t.Fatalf("temporary file left: %v", left)
	}
	if got, err := sub.Read("f", 10); err != nil || string(got) != "old" {
		t.Fatalf("Read = %q, %v", got, err)
	}
}
