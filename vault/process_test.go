//go:build unix

package vault_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
	"bobbin/vault"
)

// TestMain lets the test binary be another process that seals values until it is killed.
func TestMain(m *testing.M) {
	root := os.Getenv("VAULT_TEST_ROOT")
	if root == "" {
		os.Exit(m.Run())
	}
	dir, err := durable.Open(root)
	if err != nil {
		panic(err)
	}
	v, err := vault.Open(dir)
	if err != nil {
		panic(err)
	}
	from, _ := strconv.Atoi(os.Getenv("VAULT_TEST_FROM"))
	for i := from; ; i++ {
		if err := v.Put(context.Background(), key("alice", os.Getenv("VAULT_TEST_NAME")), schemas.NewSecret(fmt.Sprint(i))); err != nil {
			panic(err)
		}
		fmt.Println(i)
	}
}

func TestKill_OldOrNew(t *testing.T) {
	root := t.TempDir()
	var all sync.WaitGroup
	for w := range 3 { // together, from the very first start: one key
		name := fmt.Sprint("W", w)
		all.Go(func() {
			last := 0
			for round := range 8 {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "VAULT_TEST_ROOT="+root, "VAULT_TEST_NAME="+name, "VAULT_TEST_FROM="+fmt.Sprint(last+1))
				cmd.Stderr = os.Stderr
				out, err := cmd.StdoutPipe()
				if err != nil || cmd.Start() != nil {
					t.Error("no process")
					return
				}
				time.AfterFunc(time.Duration(60+17*round+5*w)*time.Millisecond, func() { _ = cmd.Process.Kill() })
				in := bufio.NewReader(out)
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						break
					}
					last, _ = strconv.Atoi(strings.TrimSpace(line))
				}
				_ = cmd.Wait()
				if last == 0 {
					continue
				}
				got, err := open(t, root).Reveal(t.Context(), key("alice", name))
				n, _ := strconv.Atoi(got.Reveal())
				if err != nil || n != last && n != last+1 {
					t.Errorf("%s: told %d, found %d, %v", name, last, n, err)
				}
				last = max(last, n)
			}
			t.Logf("%s: %d values", name, last)
		})
	}
	all.Wait()
}
