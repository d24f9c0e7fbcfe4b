//go:build unix

package mcpstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/mcpstore"
	"bobbin/schemas"
)

// The test binary doubles as the other processes.
func TestMain(m *testing.M) {
	if path := os.Getenv("MCPSTORE_FULL"); path != "" {
		fmt.Println(fill(path))
		os.Exit(0)
	}
	if path := os.Getenv("MCPSTORE_LEND"); path != "" {
		fmt.Fprintln(os.Stderr, lend(path))
		os.Exit(1)
	}
	if path := os.Getenv("MCPSTORE_WRITE"); path != "" {
		if err := count(path, os.Getenv("MCPSTORE_SERVER")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// count raises the number in the args of one server for ever, and prints each number that is committed.
func count(path, server string) error {
	users, err := durable.Open(path)
	if err != nil {
		return err
	}
	s, err := mcpstore.Open(users, mcpstore.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	by := schemas.Caller{Thread: tid, Member: schemas.MemberID("m-" + server), Role: schemas.Member}
	for {
		cfg, err := s.Load(ctx, tid)
		if err != nil {
			return err
		}
		n := 0
		if e, ok := cfg.Find(server); ok {
			n, _ = strconv.Atoi(e.Args[0])
		}
		p, err := s.Propose(ctx, by, put(draft(server, "echo", strconv.Itoa(n+1))))
		if err != nil {
			return err
		}
		switch _, err = s.Commit(ctx, by, p); schemas.CodeOf(err) {
		case "":
			fmt.Println(n + 1)
		case schemas.CodeConflict:
		default:
			return err
		}
	}
}

// Writers are killed at random for some seconds. No file is ever torn, no acknowledged commit is lost, nothing becomes more
// permissive, and the remains are swept.
func TestCommit_Kill9(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for seconds")
	}
	r := open(t, mcpstore.Options{})
	r.commit(chief, put(draft("witness", "echo", "stays")))
	end := time.Now().Add(5 * time.Second)
	acked := make([]int, 4)
	var kills, commits int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range acked {
		wg.Go(func() {
			for time.Now().Before(end) {
				last, n := writer(t, r.path, fmt.Sprintf("w%d", i), time.Duration(20+rand.IntN(300))*time.Millisecond)
				mu.Lock()
				acked[i] = max(acked[i], last)
				kills++
				commits += n
				mu.Unlock()
			}
		})
	}
	for time.Now().Before(end) {
		cfg := r.load()
		if len(cfg.Problems) > 0 {
			t.Errorf("seen while they write: %v", cfg.Problems)
			break
		}
		if e, _ := cfg.Find("witness"); running(t, e) != "echo stays" {
			t.Errorf("%+v", e)
			break
		}
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	cfg := openAt(t, r.path, mcpstore.Options{}).load()
	for i, want := range acked {
		e, ok := cfg.Find(fmt.Sprintf("w%d", i))
		got := 0
		if ok {
			got, _ = strconv.Atoi(e.Args[0])
		}
		// More may have been committed without a writer living to say so, one for each kill.
		if got < want || got > want+kills || ok && (e.Pending() || e.Owner != schemas.MemberID(fmt.Sprintf("m-w%d", i))) {
			t.Errorf("w%d holds %d, %d acknowledged: %+v", i, got, want, e)
		}
	}
	files, _ := filepath.Glob(r.file("*.json"))
	revs, _ := filepath.Glob(r.file("history/*.json"))
	for _, f := range append(files, revs...) {
		if data, err := os.ReadFile(f); err != nil || !json.Valid(data) {
			t.Errorf("torn: %s %v", f, err)
		}
	}
	orphans, _ := filepath.Glob(r.file(".*.tmp-*"))
	more, _ := filepath.Glob(r.file("history/.*.tmp-*"))
	old := time.Now().Add(-time.Hour)
	for _, f := range append(orphans, more...) {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	openAt(t, r.path, mcpstore.Options{})
	left, _ := filepath.Glob(r.file(".*.tmp-*"))
	t.Logf("%d kills, %d commits, %d orphans, %d left, %d revisions", kills, commits, len(orphans)+len(more), len(left), len(revs))
	if len(left) > 0 || commits == 0 || kills == 0 || len(revs) > 51 {
		t.Error(left, len(revs))
	}
}

// lend renews and withdraws alice's loan for ever, each with a number, and prints each number that was written: odd ones lend.
func lend(path string) error {
	users, err := durable.Open(path)
	if err != nil {
		return err
	}
	s, err := mcpstore.Open(users, mcpstore.Options{})
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		loan := &schemas.Loan{Member: alice.Member, Name: strconv.Itoa(n)}
		if n%2 == 0 {
			loan = nil
		}
		if err := s.Lend(context.Background(), alice, "notes", loan); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// A lender is killed at random. What it acknowledged holds, a withdrawal above all; at most the next one has come about as well.
func TestLend_Kill9(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for seconds")
	}
	r := open(t, mcpstore.Options{})
	r.commit(alice, signed("https://notes.example/mcp"))
	kills, acked := 0, 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); kills++ {
		if err := r.Lend(t.Context(), alice, "notes", nil); err != nil {
			t.Fatal(err)
		}
		last, _ := process(t, time.Duration(20+rand.IntN(150))*time.Millisecond, "MCPSTORE_LEND="+r.path)
		acked += last
		cfg := openAt(t, r.path, mcpstore.Options{}).load()
		e, ok := cfg.Find("notes")
		if !ok || e.Pending() || len(cfg.Problems) > 0 || !json.Valid([]byte(r.text("state.json"))) {
			t.Fatalf("%+v %v", e, cfg.Problems)
		}
		name := func(n int) string {
			if n%2 == 0 {
				return "none"
			}
			return strconv.Itoa(n)
		}
		got := "none"
		if e.Loan != nil {
			got = e.Loan.Name
		}
		if got != name(last) && got != name(last+1) {
			t.Fatalf("lent by number %s, %d was acknowledged", got, last)
		}
	}
	t.Logf("%d kills, %d loans and withdrawals", kills, acked)
	if acked == 0 {
		t.Error("nothing was ever lent")
	}
}

// writer runs one process until it is killed and gives the last number that it acknowledged.
func writer(t *testing.T, path, server string, life time.Duration) (last, n int) {
	return process(t, life, "MCPSTORE_WRITE="+path, "MCPSTORE_SERVER="+server)
}

func process(t *testing.T, life time.Duration, env ...string) (last, n int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return 0, 0
	}
	kill := time.AfterFunc(life, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	defer kill.Stop()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF || err != nil {
			break // a line without its end was not acknowledged
		}
		last, _ = strconv.Atoi(strings.TrimSpace(line))
		n++
	}
	_ = cmd.Wait()
	if errs.Len() > 0 {
		t.Errorf("%v: %s", env, errs.String())
	}
	return last, n
}

// fill commits a change to the server a, with a limit on the size of files standing in for the full disk: the write fails in
// the same place. Go ignores SIGXFSZ.
func fill(path string) schemas.Code {
	users, err := durable.Open(path)
	if err != nil {
		return "open"
	}
	s, err := mcpstore.Open(users, mcpstore.Options{})
	if err != nil {
		return "open"
	}
	p, err := s.Propose(context.Background(), alice, put(draft("a", "echo", "2")))
	if err != nil {
		return "propose"
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 10, Max: 10}); err != nil {
		return "limit"
	}
	_, err = s.Commit(context.Background(), alice, p)
	return schemas.CodeOf(err)
}

// A full disk leaves everything as it was.
func TestCommit_DiskFull(t *testing.T) {
	r := open(t, mcpstore.Options{})
	r.commit(alice, put(draft("a", "echo", "1")))
	before := r.text("mcp.json") + r.text("state.json")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MCPSTORE_FULL="+r.path)
	out, err := cmd.Output()
	if code := schemas.Code(strings.TrimSpace(string(out))); err != nil || code != schemas.CodeFailed {
		t.Fatalf("%v %q", err, out)
	}
	if r.text("mcp.json")+r.text("state.json") != before {
		t.Error("something was written")
	}
	if left, _ := filepath.Glob(r.file(".*.tmp-*")); len(left) != 0 {
		t.Error(left)
	}
	r.commit(alice, put(draft("a", "echo", "2")))
}
