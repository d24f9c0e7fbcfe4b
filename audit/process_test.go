//go:build unix

package audit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"bobbin/audit"
	"bobbin/internal/durable"
	"bobbin/schemas"
)

// TestMain lets the test binary be a writer in another process.
func TestMain(m *testing.M) {
	root := os.Getenv("AUDIT_TEST_ROOT")
	if root == "" {
		os.Exit(m.Run())
	}
	users, err := durable.Open(root)
	if err != nil {
		panic(err)
	}
	log, err := audit.Open(users, audit.Options{Interval: 5 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	switch do := os.Getenv("AUDIT_TEST_DO"); do {
	case "write":
		write(log)
	case "full":
		full(log)
	case "full group":
		fullGroup(log, root)
	case "share":
		share(log)
	default:
		panic(do)
	}
}

// child is this binary as another process that writes to root.
func child(t *testing.T, root, do string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "AUDIT_TEST_ROOT="+root, "AUDIT_TEST_DO="+do)
	return cmd
}

// write appends from several goroutines and tells each record that is in, until it is killed.
func write(log *audit.Log) {
	ctx := context.Background()
	var wg sync.WaitGroup
	wg.Go(func() { _ = log.Run(ctx) })
	var mu sync.Mutex
	for range 8 {
		wg.Go(func() {
			for {
				rec, err := log.Append(ctx, sample("a"))
				if err != nil {
					panic(err)
				}
				mu.Lock()
				fmt.Println(rec.Seq, rec.Hash)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestKill_NothingIsLostOrForked(t *testing.T) {
	root := t.TempDir()
	told := map[int64]string{}
	var mu sync.Mutex
	deadline := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	kills := 0
	for range 3 {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				cmd := child(t, root, "write")
				out, err := cmd.StdoutPipe()
				if err != nil || cmd.Start() != nil {
					t.Error("no writer")
					return
				}
				time.AfterFunc(150*time.Millisecond, func() { _ = cmd.Process.Kill() })
				in := bufio.NewReader(out)
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						break
					}
					var seq int64
					var hash string
					if _, err := fmt.Sscan(line, &seq, &hash); err != nil {
						t.Errorf("%q: %v", line, err)
					}
					mu.Lock()
					if _, twice := told[seq]; twice {
						t.Errorf("record %d was given twice", seq)
					}
					told[seq] = hash
					mu.Unlock()
				}
				_ = cmd.Wait()
				mu.Lock()
				kills++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	log := open(t, root, audit.Options{})
	v := verify(t, log, "a")
	if !v.OK || v.Records < int64(len(told)) {
		t.Errorf("%+v, but %d records were told", v, len(told))
	}
	f, err := os.Open(logFile(root, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewReader(f); ; {
		line, readErr := lines.ReadBytes('\n')
		var rec schemas.Record
		if err := json.Unmarshal(line, &rec); err != nil && len(line) > 0 {
			t.Log("torn line in the file:", err) // Verify has judged it
		}
		if hash, ok := told[rec.Seq]; ok && hash != rec.Hash {
			t.Fatalf("record %d was told with another hash", rec.Seq)
		}
		delete(told, rec.Seq)
		if readErr != nil {
			break
		}
	}
	if len(told) > 0 {
		t.Errorf("%d records were told and are lost", len(told))
	}
	t.Logf("%d kills, %d records, verdict %q", kills, v.Records, v.Why)
}

// limit lets no file of this process grow beyond size.
func limit(size uint64) {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: 1 << 30}); err != nil {
		panic(err)
	}
}

// full appends until the file may not grow any more, then frees some room.
func full(log *audit.Log) {
	ctx := context.Background()
	limit(10000)
	n := 0
	for {
		rec, err := log.Append(ctx, sample("a"))
		if err != nil {
			fmt.Println(n, schemas.CodeOf(err), errors.Is(err, syscall.EFBIG))
			break
		}
		n, _ = int(rec.Seq), rec
	}
	if _, err := log.Append(ctx, sample("a")); err == nil {
		panic("still full, but it was taken")
	}
	limit(1 << 30)
	rec, err := log.Append(ctx, sample("a"))
	fmt.Println(rec.Seq, err)
}

func TestAppend_DiskFull(t *testing.T) {
	root := t.TempDir()
	out, err := child(t, root, "full").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var n, next int
	var code, full, after string
	if _, err := fmt.Sscan(string(out), &n, &code, &full, &next, &after); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code != string(schemas.CodeMissing) || full != "true" || next != n+1 || after != "<nil>" {
		t.Errorf("%s", out)
	}
	if v := verify(t, open(t, root, audit.Options{}), "a"); !v.OK || v.Records != int64(next) || v.Why != "" {
		t.Errorf("%+v", v)
	}
}

// lockAs takes the lock of thread a's log as another process would.
func lockAs(root string) (release func(), err error) {
	f, err := os.Open(logFile(root, "a"))
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
}

func hold(t testing.TB, root string) (release func()) {
	t.Helper()
	release, err := lockAs(root)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func TestAppend_OtherProcessHangs(t *testing.T) {
	root := t.TempDir()
	log := open(t, root, audit.Options{})
	add(t, log, sample("a"))
	defer hold(t, root)()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := log.Append(ctx, sample("a"))
	var e *schemas.Error
	if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || e.Hint == "" {
		t.Error(err)
	}
	add(t, log, sample("b"))
}
