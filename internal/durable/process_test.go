//go:build unix

package durable_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bobbin/internal/durable"
)

// The test binary doubles as the other processes.
func TestMain(m *testing.M) {
	role, path := os.Getenv("DURABLE_ROLE"), os.Getenv("DURABLE_PATH")
	if role == "" {
		os.Exit(m.Run())
	}
	d, err := durable.Open(path)
	if err == nil {
		err = map[string]func(*durable.Dir) error{
			"count": countForEver, "increment": increment, "append": appendRecords, "full": writeTooMuch,
		}[role](d)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func process(t *testing.T, role string, d *durable.Dir) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "DURABLE_ROLE="+role, "DURABLE_PATH="+d.Path())
	cmd.Stderr = os.Stderr
	return cmd
}

type counter struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

func bump(d *durable.Dir) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	unlock, err := d.Lock(ctx, "counter")
	if err != nil {
		return 0, err
	}
	defer unlock()
	c, err := readCounter(d)
	if err != nil {
		return 0, err
	}
	c.N++
	c.Pad = strings.Repeat("x", rand.IntN(20_000))
	data, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	return c.N, d.Write("counter", data)
}

func readCounter(d *durable.Dir) (counter, error) {
	var c counter
	data, err := d.Read("counter", 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(data, &c)
}

func countForEver(d *durable.Dir) error {
	for range 1_000_000 {
		n, err := bump(d)
		if err != nil {
			return err
		}
		fmt.Println(n) // one write(2): the parent counts what was acknowledged
	}
	return nil
}

func TestDir_Kill9(t *testing.T) {
	d := open(t)
	runFor := 4 * time.Second
	if testing.Short() {
		runFor = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), runFor)
	defer cancel()
	var mu sync.Mutex
	acknowledged := map[int]bool{}
	kills := 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				seen, ok := killedWriter(t, d)
				mu.Lock()
				kills++
				for _, n := range seen {
					if acknowledged[n] {
						t.Errorf("%d was given out twice: a lost update", n)
					}
					acknowledged[n] = true
				}
				mu.Unlock()
				if !ok {
					return
				}
			}
		})
	}
	reads := 0
	for ; ctx.Err() == nil; reads++ {
		if _, err := readCounter(d); err != nil {
			t.Errorf("torn read: %v", err)
			break
		}
	}
	wg.Wait()
	last, err := readCounter(d)
	if err != nil {
		t.Fatal(err)
	}
	for n := range acknowledged {
		if n > last.N {
			t.Errorf("acknowledged %d, but the file says %d", n, last.N)
		}
	}
	// A writer may die between the rename and its message: at most one each.
	if lost := last.N - len(acknowledged); lost < 0 || lost > kills {
		t.Errorf("counter %d, acknowledged %d, kills %d", last.N, len(acknowledged), kills)
	}
	if len(acknowledged) == 0 {
		t.Error("nothing was written")
	}
	swept, err := d.Sweep(0)
	if err != nil {
		t.Fatal(err)
	}
	if left := names(t, d.Path()); len(left) != 2 {
		t.Errorf("left after the sweep: %v", left)
	}
	t.Logf("%d kills, %d commits, %d reads, %d temporary files swept", kills, last.N, reads, swept)
}

// killedWriter runs one writer, kills it at a random moment and returns the
// numbers that it acknowledged.
func killedWriter(t *testing.T, d *durable.Dir) (seen []int, ok bool) {
	cmd := process(t, "count", d)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil, false
	}
	timer := time.AfterFunc(time.Duration(5+rand.IntN(120))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Errorf("writer: %s", lines.Text())
			return seen, false
		}
		seen = append(seen, n)
	}
	_ = cmd.Wait()
	return seen, true
}

const increments = 40

func increment(d *durable.Dir) error {
	for range increments {
		if _, err := bump(d); err != nil {
			return err
		}
	}
	return nil
}

func TestDir_LockProcessesAndGoroutines(t *testing.T) {
	d := open(t)
	other, err := durable.Open(d.Path()) // its own lock table: only flock between the two
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		cmd := process(t, "increment", d)
		wg.Go(func() {
			if out, err := cmd.Output(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for _, dir := range []*durable.Dir{d, d, other} {
		wg.Go(func() {
			if err := increment(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if c, err := readCounter(d); err != nil || c.N != 5*increments {
		t.Fatalf("counter %d, want %d (%v)", c.N, 5*increments, err)
	}
}

func TestDir_LockDeadlineAndUnlockTwice(t *testing.T) {
	d := open(t)
	other, err := durable.Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := d.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []*durable.Dir{d, other} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := dir.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("held lock: %v", err)
		}
		cancel()
	}
	if free, err := d.Lock(t.Context(), "y"); err != nil {
		t.Errorf("another name waits: %v", err)
	} else {
		free()
	}
	unlock()
	unlock()
	again, err := other.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	unlock() // must not free the new holder's lock
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := d.Lock(ctx, "x"); err == nil {
		t.Error("two holders")
	}
	again()
}

func TestDir_LockFileIsLink(t *testing.T) {
	d := open(t)
	target := filepath.Join(t.TempDir(), "outside")
	if err := os.Symlink(target, filepath.Join(d.Path(), ".x.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(t.Context(), "x"); err == nil {
		t.Error("locked through a link")
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Error("created a file outside of the folder")
	}
	if err := syscall.Mkfifo(filepath.Join(d.Path(), ".y.lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(t.Context(), "y"); err == nil {
		t.Error("locked a pipe")
	}
}

func TestDir_LockFolderReplaced(t *testing.T) {
	d := open(t)
	sub, err := d.Sub("s")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveAll("s"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sub("s"); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Lock(t.Context(), "x"); err == nil {
		t.Error("locked a file of another folder")
	}
}

func TestDir_SpecialFiles(t *testing.T) {
	d := open(t)
	at := func(name string) string { return filepath.Join(d.Path(), name) }
	outside := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.WriteFile(at("real"), []byte("{}"), 0o600),
		syscall.Mkfifo(at("fifo"), 0o600),
		os.Symlink(outside, at("escape")),
		os.Symlink("real", at("inside")),
		os.Symlink(".", at("loop")),
	); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for _, name := range []string{"fifo", "escape", "inside", "loop"} {
		_, errRead := d.Read(name, 100)
		_, errAppend := d.Append(name)
		_, errSub := d.Sub(name)
		for i, err := range []error{errRead, errAppend, errSub} {
			var irregular *durable.IrregularError
			if !errors.As(err, &irregular) {
				t.Errorf("call %d on %s: %v", i, name, err)
			}
		}
		if err := d.Write(name, []byte("new")); err != nil {
			t.Errorf("Write over %s: %v", name, err)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	for path, want := range map[string]string{outside: "secret", at("real"): "{}", at("fifo"): "new", at("escape"): "new"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
}

func TestDir_LooseModesAreFixed(t *testing.T) {
	d := open(t)
	file, folder := filepath.Join(d.Path(), "f"), filepath.Join(d.Path(), "s")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o644), os.Mkdir(folder, 0o700), os.Chmod(folder, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read("f", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sub("s"); err != nil {
		t.Fatal(err)
	}
	if mode(t, file) != 0o600 || mode(t, folder) != 0o700 {
		t.Errorf("modes %o %o", mode(t, file), mode(t, folder))
	}
}

// writeTooMuch meets the failure of a full disk in the middle of write(2).
func writeTooMuch(d *durable.Dir) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := d.Write("f", make([]byte, 10_000)); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("write over the limit: %w", err)
	}
	return nil
}

func TestDir_DiskFull(t *testing.T) {
	d := open(t)
	write(t, d, "f", "old")
	if out, err := process(t, "full", d).Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := d.Read("f", 10); err != nil || string(got) != "old" {
		t.Errorf("Read = %q, %v", got, err)
	}
	if left := names(t, d.Path()); len(left) != 1 {
		t.Errorf("temporary file left: %v", left)
	}
}

const records = 200

func appendRecords(d *durable.Dir) error {
	a, err := d.Append("log")
	if err != nil {
		return err
	}
	for i := range records {
		size := 1 + i*37%9000
		line := fmt.Sprintf("%d %s\n", size, bytes.Repeat([]byte{'r'}, size))
		if _, err := a.Write([]byte(line)); err != nil {
			return err
		}
	}
	return errors.Join(a.Sync(), a.Close())
}

func TestAppender_WholeRecords(t *testing.T) {
	d := open(t)
	var wg sync.WaitGroup
	for range 2 {
		cmd := process(t, "append", d)
		wg.Go(func() {
			if out, err := cmd.Output(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			if err := appendRecords(d); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	a, err := d.Append("log")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, err := a.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	count := 0
	for ; lines.Scan(); count++ {
		size, body, _ := strings.Cut(lines.Text(), " ")
		if strconv.Itoa(len(body)) != size {
			t.Fatalf("record %d: %s but %d bytes", count, size, len(body))
		}
	}
	if count != 4*records || lines.Err() != nil {
		t.Errorf("%d records, %v", count, lines.Err())
	}
}

func TestAppender_ReaderAndTruncate(t *testing.T) {
	d := open(t)
	a, err := d.Append("log")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, record := range []string{"one\n", "two\n", "to"} {
		if _, err := a.Write([]byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Reader(11); err == nil {
		t.Error("offset past the end")
	}
	if a.Truncate(99) == nil || a.Truncate(-1) == nil {
		t.Error("Truncate made the file longer")
	}
	if err := a.Truncate(8); err != nil {
		t.Fatal(err)
	}
	r, err := a.Reader(4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("three\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "two\n" {
		t.Errorf("Reader = %q, %v", got, err)
	}
	if size, err := a.Size(); err != nil || size != 14 {
		t.Errorf("Size = %d, %v", size, err)
	}
}
