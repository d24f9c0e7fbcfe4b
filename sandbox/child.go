package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"bobbin/internal/leash"
)

// The steps of an end, together below 8 s.
const (
	graceInput = 2 * time.Second        // after the end of input
	graceDeaf  = 300 * time.Millisecond // the same, for a child that does not read its input
	graceTerm  = 2 * time.Second        // after SIGTERM
	graceKill  = 2 * time.Second        // after SIGKILL
	graceWords = 500 * time.Millisecond // for the rest of stderr
)

var errClosing = errors.New("the launcher is closed")

// Child is what Launch returns, for callers that want more than a pipe; they declare the part of it that they use. All
// methods may be called from several goroutines.
//
// Read gives io.EOF when the program ended or Close was called. Write fails with io.ErrClosedPipe then; it blocks while the
// program does not read, until Close or the deadline. Close ends the program and everything it started: end of input, then
// SIGTERM, then SIGKILL, 8 s at most; blocked Reads and Writes return at once (on Windows, when the program is gone).
type Child interface {
	io.ReadWriteCloser
	// SetWriteDeadline bounds Writes, as of os.File; os.ErrNoDeadline on Windows.
	SetWriteDeadline(time.Time) error
	// PID of the program itself.
	PID() int
	// Done is closed when the program is gone, whoever ended it.
	Done() <-chan struct{}
	// Stderr gives the last 40 lines that it wrote there, without control characters and without the values of its own
	// environment.
	Stderr() string
	// Diagnose says in one line why it ended; "" while it runs. After an end of its output it waits for the end of the
	// program, for half a second.
	Diagnose() string
}

type child struct {
	owner  *Process
	cmd    *exec.Cmd
	id     string
	hide   []string
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	words  tail
	done   chan struct{} // closed by watch
	why    string        // set before done is closed

	reading sync.Mutex  // held during a Read; Close takes it to drain
	spoke   atomic.Bool // its output ended by itself
	closing atomic.Bool
	killed  atomic.Bool // Close had to use SIGKILL
	once    sync.Once

	signals sync.Mutex
	leash   leash.Leash
	reaped  bool // the pid may be someone else's now

	goroutines sync.WaitGroup
}

// startChild runs on the starter's thread.
func startChild(ctx context.Context, cmd *exec.Cmd, id string, hide []string, owner *Process) (*child, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var files [6]*os.File
	closeAll := func() {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	for i := 0; i < len(files); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, err
		}
		files[i], files[i+1] = r, w
	}
	c := &child{owner: owner, cmd: cmd, id: id, hide: hide, stdin: files[1], stdout: files[2], stderr: files[4], done: make(chan struct{})}
	c.words.ended = make(chan struct{})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	leash.Prepare(cmd)
	if err := cmd.Start(); err != nil {
		closeAll()
		return nil, err
	}
	for _, i := range []int{0, 3, 5} {
		_ = files[i].Close()
	}
	c.leash = leash.Tie(cmd.Process)
	limit(cmd.Process.Pid)
	c.goroutines.Go(func() { c.words.drain(c.stderr) })
	adopted := owner.adopt(c)
	c.goroutines.Go(c.watch)
	if !adopted {
		_ = c.Close()
		return nil, errClosing
	}
	return c, nil
}

// watch is the only one that waits for the process.
func (c *child) watch() {
	err := c.reap()
	c.owner.marks.end(c.id)
	// Nothing of it runs any more, so the pipes end by themselves, unless something escaped with a clean environment.
	limit := time.Now().Add(graceWords)
	_ = c.stderr.SetReadDeadline(limit)
	if hasWriter(c.stdout) {
		_ = c.stdout.SetReadDeadline(limit)
	}
	c.words.wait(graceWords)
	c.why = c.diagnosis(err)
	close(c.done)
}

// reap waits for the program and kills what is left of its group: while the dead program still holds the pid, where the
// system can wait without reaping.
func (c *child) reap() error {
	held := c.leash.Wait()
	var err error
	if !held {
		err = c.cmd.Wait()
	}
	c.signals.Lock()
	defer c.signals.Unlock()
	c.leash.Kill()
	if held {
		err = c.cmd.Wait()
	}
	c.reaped = true
	c.leash.Release()
	return err
}

func (c *child) diagnosis(err error) string {
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case c.killed.Load():
		return "killed after ignoring SIGTERM"
	case c.closing.Load():
		return "stopped by bobbin"
	case err != nil && !failed:
		return "lost: the system does not say how it ended"
	}
	how := "exited with 0"
	if failed {
		how = fmt.Sprintf("exited with %d", exit.ExitCode())
		if n := leash.Signal(exit.ProcessState); n > 0 {
			how = fmt.Sprintf("killed by signal %d", n)
		}
	}
	if line := telling(c.lines()); line != "" {
		how += ": " + line
	}
	return how
}

func (c *child) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.closing.Load() {
		return 0, io.EOF
	}
	n, err := c.stdout.Read(p)
	if errors.Is(err, io.EOF) {
		c.spoke.Store(true)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		if c.closing.Load() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
			err = io.EOF
		}
	}
	return n, err
}

func (c *child) Write(p []byte) (int, error) {
	n, err := c.stdin.Write(p)
	if err != nil && (errors.Is(err, os.ErrClosed) || isBrokenPipe(err)) {
		c.spoke.Store(c.spoke.Load() || isBrokenPipe(err))
		err = io.ErrClosedPipe
	}
	return n, err
}

func (c *child) SetWriteDeadline(t time.Time) error { return c.stdin.SetWriteDeadline(t) }
func (c *child) PID() int                           { return c.cmd.Process.Pid }
func (c *child) Done() <-chan struct{}              { return c.done }

func (c *child) Diagnose() string {
	if !c.settled() {
		return ""
	}
	return c.why
}

// settled reports whether the program is gone. Its pipes end a moment earlier than watch knows how it ended.
func (c *child) settled() bool {
	if !c.spoke.Load() {
		return c.isDone()
	}
	timer := time.NewTimer(graceWords)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

func (c *child) Close() error {
	c.once.Do(c.end)
	return nil
}

func (c *child) end() {
	grace := graceInput
	if unread(c.stdin) > 0 {
		grace = graceDeaf
	}
	gone := c.settled() // who ended by itself is not said to be stopped
	if !gone {
		c.closing.Store(true)
	}
	_ = c.stdin.Close() // also ends a blocked Write
	if !gone {
		c.takeOutput()
		if !c.waitFor(grace) {
			c.signal(leash.Leash.Term)
			if !c.waitFor(graceTerm) {
				c.killed.Store(true)
				c.signal(leash.Leash.Kill)
				if !c.waitFor(graceKill) {
					c.owner.log.Error("a server cannot be killed", "pid", c.PID())
				}
			}
		}
	}
	c.closing.Store(true)
	_ = c.stdout.Close()
	_ = c.stderr.Close()
	if c.isDone() {
		c.goroutines.Wait()
	}
	c.owner.forget(c)
}

// takeOutput makes the Reads of the caller return, so that waitFor can read on: a program that finishes its work may have
// more to say, and must not block on it.
func (c *child) takeOutput() {
	if c.stdout.SetReadDeadline(time.Unix(1, 0)) == nil {
		c.reading.Lock() // after a Read that was under way
		defer c.reading.Unlock()
	}
}

// waitFor drains the output until the program is gone or the time is over.
func (c *child) waitFor(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	if !c.isDone() && c.stdout.SetReadDeadline(time.Now().Add(limit)) == nil {
		_, _ = io.Copy(io.Discard, c.stdout)
	}
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return c.isDone()
	}
}

func (c *child) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *child) signal(send func(leash.Leash)) {
	c.signals.Lock()
	defer c.signals.Unlock()
	if !c.reaped {
		send(c.leash)
	}
}
