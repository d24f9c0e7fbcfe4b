package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// vices are the ways in which the fake server misbehaves, and what /mcp list has to say about it; "" is nothing.
var vices = []struct{ name, why string }{
	{"crash", `failed.*Cannot find module`},
	{"mute", `failed.*(did not answer|no answer|within)`},
	{"flood-stderr", ``},
	{"flood-stdout", `failed`},
	{"endless-line", `failed`},
	{"grandchild", ``},
	{"stubborn", ``},
	{"die-in-call", ``},
}

// wicked is a config with every vice and one good server; pids gets every process, those of grandchildren included.
func wicked(t testing.TB, pids string) string {
	t.Helper()
	servers := map[string]any{"good": fake(pids)}
	for _, v := range vices {
		servers[v.name] = fake(pids, v.name, pids)
	}
	return config(t, servers)
}

// TestVices: a server that crashes, hangs, floods or refuses to die disturbs no other server, no other thread, and leaves
// nothing behind.
func TestVices(t *testing.T) {
	long(t)
	t.Parallel()
	linuxOnly(t)
	pids := filepath.Join(t.TempDir(), "pids")
	p := serve(t, t.TempDir())
	bad, calm := p.open(t, "bad"), p.open(t, "calm")
	calm.say("/mcp add-json " + config(t, map[string]any{"good": fake(pids)}))
	if got := calm.choose("Confirm"); !matches(`good is ready`, got) {
		t.Fatal(got)
	}
	home := calm.board()["good"].PID

	stop := undisturbed(t, calm)
	bad.say("/mcp add-json " + wicked(t, pids))
	report := bad.choose("Confirm")
	if !matches(`good is ready`, report) {
		t.Errorf("the good server beside the bad ones: %s", report)
	}
	if got := bad.say(`/mcp call good.echo {"message":"hi"}`); !matches(`Echo: hi`, got) {
		t.Errorf("the good server beside the bad ones: %s", got)
	}
	if got := bad.say(`/mcp call die-in-call.echo {"message":"hi"}`); matches(`Echo`, got) || !matches(`unknown|ended|exited`, got) {
		t.Errorf("a server that died in a call: %s", got)
	}
	eventually(45*time.Second, func() bool { return bad.board()["mute"].State != "starting" }) // connect timeout: 30 s
	list := bad.say("/mcp list")
	for _, v := range vices {
		line := lineOf(list, v.name)
		if v.why != "" && !matches(v.why, line) {
			t.Errorf("%s: %q, want %s", v.name, line, v.why)
		}
		if matches(`goroutine|0x[0-9a-f]{6}|EOF\b|broken pipe|context deadline`, line) {
			t.Errorf("%s: raw words: %q", v.name, line)
		}
	}
	for _, v := range vices {
		bad.say("/mcp remove " + v.name)
		if got := bad.choose("Confirm"); !matches(v.name+` is removed`, got) {
			t.Errorf("remove %s: %s", v.name, got)
		}
	}
	good := bad.board()["good"].PID
	if worst := stop(); worst > 2*time.Second {
		t.Errorf("a call in another thread took %s", worst)
	} else {
		t.Logf("slowest call in the other thread: %s", worst.Round(time.Millisecond))
	}
	left := without(started(t, pids), home, good)
	gone(t, "after every remove", 10*time.Second, left...)
	if now := children(t, p.cmd.Process.Pid); len(now) != 2 {
		t.Errorf("%d children, want the two good servers", len(now))
	}
	if mib := peak(t, p.cmd.Process.Pid); mib > 300 {
		t.Errorf("bobbin used %d MiB", mib)
	} else {
		t.Logf("peak memory of bobbin: %d MiB", mib)
	}
	p.signal(os.Interrupt)
	p.wait()
	if p.err != nil {
		t.Errorf("exit: %v", p.err)
	}
	gone(t, "after Ctrl-C", time.Second, started(t, pids)...)
}

// undisturbed calls a tool of another thread again and again until stop is called, which gives the longest time that one took.
func undisturbed(t *testing.T, calm *room) (stop func() time.Duration) {
	end, slowest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var worst time.Duration
		defer func() { slowest <- worst }()
		for {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			begin := time.Now()
			if got := calm.say(`/mcp call good.echo {"message":"calm"}`); !matches(`Echo: calm`, got) {
				t.Errorf("the other thread: %s", got)
				return
			}
			worst = max(worst, time.Since(begin))
		}
	}()
	return func() time.Duration {
		close(end)
		return <-slowest
	}
}

// TestCtrlC and a killed bobbin leave no server behind, not even one that ignores its signals or has children of its own.
func TestCtrlC(t *testing.T) {
	long(t)
	t.Parallel()
	linuxOnly(t)
	data, pids := t.TempDir(), filepath.Join(t.TempDir(), "pids")
	lasting := config(t, map[string]any{"good": fake(pids), "stubborn": fake(pids, "stubborn"), "grandchild": fake(pids, "grandchild", pids)})

	c := chat(t, data)
	c.say("/mcp add-json "+lasting, "Confirm")
	c.hear(`grandchild is ready.*stubborn is ready`)
	if n := len(started(t, pids)); n != 4 {
		t.Errorf("%d processes, want 4", n)
	}
	c.signal(os.Interrupt) // while it waits for a line
	c.wait()
	if c.err != nil {
		t.Errorf("exit after Ctrl-C: %v", c.err)
	}
	gone(t, "after Ctrl-C", time.Second, started(t, pids)...)

	c = chat(t, data)
	c.say("/mcp call good.pid {}", "/mcp call stubborn.pid {}", "/mcp call grandchild.pid {}")
	c.hear(`receipt.*receipt.*receipt`)
	c.signal(syscall.SIGKILL)
	c.wait()
	direct := started(t, pids)
	if len(direct) != 8 {
		t.Errorf("%d processes, want 8", len(direct))
	}
	// The kernel ends the servers; what they started themselves is ended by the next bobbin.
	next := chat(t, t.TempDir())
	gone(t, "after kill -9", 5*time.Second, direct...)
	next.end()
}

func lineOf(text, name string) string {
	for l := range strings.Lines(text) {
		if f := strings.Fields(l); len(f) > 0 && f[0] == name {
			return strings.TrimSpace(l)
		}
	}
	return fmt.Sprintf("(no line about %s)", name)
}

func without(pids []int, not ...int) []int {
	var left []int
next:
	for _, pid := range pids {
		for _, n := range not {
			if pid == n {
				continue next
			}
		}
		left = append(left, pid)
	}
	return left
}

// TestPromptEnd: a script's conversation ends at once when its input does, and nothing stays.
func TestPromptEnd(t *testing.T) {
	linuxOnly(t)
	pids := filepath.Join(t.TempDir(), "pids")
	c := chat(t, t.TempDir())
	c.say("/mcp add-json "+config(t, map[string]any{"good": fake(pids)}), "Confirm")
	c.hear(`good is ready`)
	if took := c.end(); took > time.Second {
		t.Errorf("the end took %s", took)
	}
	gone(t, "after the end of input", 0, started(t, pids)...)
}

// TestNothingStays runs a whole conversation inside this process: no goroutine and no child is left of it.
func TestNothingStays(t *testing.T) {
	linuxOnly(t)
	before := goleak.IgnoreCurrent()
	lines := "/mcp add-json " + config(t, map[string]any{"good": fake(filepath.Join(t.TempDir(), "pids")), "crash": fake("", "crash")}) +
		"\nConfirm\n/mcp call good.echo {\"message\":\"hi\"}\n/mcp disable good\n/mcp enable good\n/mcp reload\n"
	var out, errs bytes.Buffer
	code := NewMain(strings.NewReader(lines), &out, &errs).Run(t.Context(), []string{"--data", t.TempDir(), "--sandbox", "process", "chat", "--thread", "t1"})
	if code != 0 || !matches(`Echo: hi`, out.String()) || errs.Len() > 0 {
		t.Errorf("exit %d\n%s\n%s", code, clip(out.String()), errs.String())
	}
	goleak.VerifyNone(t, before)
	if left := children(t, os.Getpid()); len(left) > 0 {
		t.Errorf("children %v are left", left)
	}
}
