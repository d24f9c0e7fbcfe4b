package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// writer changes one server of the thread again and again, through a bobbin that is killed at random.
type writer struct {
	name      string
	tried     int // the newest value that was sent
	acked     int // the newest value that bobbin confirmed
	kills     int
	conflicts int
}

// life runs one bobbin until it is killed.
func (w *writer) life(data string, until time.Time) error {
	c := exec.Command("bobbin", "--data", data, "--sandbox", "process", "chat", "--thread", "t1", "--user", w.name)
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	defer func() { _ = c.Wait() }()
	left := min(time.Duration(20+rand.IntN(400))*time.Millisecond+60*time.Millisecond, time.Until(until))
	kill := time.AfterFunc(left, func() { _ = c.Process.Kill() })
	defer kill.Stop()
	ask := func() {
		w.tried++
		_, _ = fmt.Fprintf(in, "/mcp add-json %s {\"command\":\"true\",\"args\":[\"%d\"],\"disabled\":true}\nConfirm\n", w.name, w.tried)
	}
	ask()
	for s := bufio.NewScanner(out); s.Scan(); {
		switch line := s.Text(); {
		case strings.HasPrefix(line, w.name+" is saved"):
			w.acked = w.tried
			ask()
		case strings.HasPrefix(line, "the config changed meanwhile"):
			w.conflicts++
			_, _ = io.WriteString(in, "Confirm\n")
		case strings.Contains(line, "something went wrong"), strings.Contains(line, "mistake"), strings.Contains(line, "cannot be read"):
			_ = c.Process.Kill()
			return fmt.Errorf("%s: %s", w.name, line)
		}
	}
	w.kills++
	return nil
}

// TestKilledWhileWriting: two bobbins write the same thread and are killed at random. What was confirmed is there, no file is
// torn, and the audit chain is whole.
func TestKilledWhileWriting(t *testing.T) {
	long(t)
	t.Parallel()
	data := t.TempDir()
	writers := []*writer{{name: "w1"}, {name: "w2"}}
	until := time.Now().Add(20 * time.Second)
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for _, w := range writers {
		wg.Go(func() {
			for time.Now().Before(until) && w.acked < 500 {
				if err := w.life(data, until); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	go func() { wg.Wait(); close(enough) }()
	var file struct {
		Servers map[string]struct {
			Args []string `json:"args"`
		} `json:"mcpServers"`
	}
	path := filepath.Join(data, "users", "t1", "mcp.json")
	for looked := 0; ; looked++ { // somebody else reads along
		select {
		case <-enough:
			t.Logf("read along %d times", looked)
		case <-time.After(5 * time.Millisecond):
			if exists(path) {
				readJSON(t, path, &file)
			}
			continue
		}
		break
	}
	readJSON(t, path, &file)
	var total int
	for _, w := range writers {
		t.Logf("%s: %d commits, %d kills, %d conflicts", w.name, w.acked, w.kills, w.conflicts)
		total += w.acked
		args := file.Servers[w.name].Args
		if len(args) != 1 {
			t.Errorf("%s: args are %q", w.name, args)
			continue
		}
		if n, err := strconv.Atoi(args[0]); err != nil || n < w.acked || n > w.tried {
			t.Errorf("%s: the file says %q; %d was confirmed, %d sent", w.name, args[0], w.acked, w.tried)
		}
	}
	if total < 50 {
		t.Errorf("only %d commits", total)
	}
	c := bobbin(t, data, "audit", "verify", "t1")
	c.end()
	if !strings.Contains(c.all(), "the chain is whole") {
		t.Error(c.all())
	}
	c = chat(t, data)
	c.say("/mcp list")
	c.hear(`(w1 +off.*w2 +off)|(w2 +off.*w1 +off)`)
	c.end()
}
