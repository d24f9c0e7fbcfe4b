package proxy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"bobbin/internal/leash"
)

// The steps of an end.
const (
	graceInput = 2 * time.Second // after the end of input
	graceTerm  = 2 * time.Second // after SIGTERM
	graceWords = 500 * time.Millisecond
)

// family knows the programs that were started here and are not reaped yet, so that the reaper of orphans leaves them to
// the one goroutine that waits for each.
type family struct {
	mu   sync.Mutex
	pids map[int]bool
}

func (f *family) start(cmd *exec.Cmd) (leash.Leash, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	leash.Prepare(cmd)
	if err := cmd.Start(); err != nil {
		return leash.Leash{}, err
	}
	f.pids[cmd.Process.Pid] = true
	return leash.Tie(cmd.Process), nil
}

// wait waits for a program, and kills what is left of its group while the pid cannot be someone else's.
func (f *family) wait(cmd *exec.Cmd, g leash.Leash) error {
	held := g.Wait()
	if held {
		g.Kill()
	}
	err := cmd.Wait()
	if !held {
		g.Kill()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pids, cmd.Process.Pid)
	return err
}

// process is a running program with its pipes.
type process struct {
	cmd           *exec.Cmd
	group         leash.Leash
	stdin, stdout *os.File
	words         tail
	done          chan struct{} // closed when it is gone
	exit          string        // how it ended; set before done is closed
	quit          chan struct{} // closed by stop
	stopping      sync.Once
	ending        sync.Once
	goroutines    sync.WaitGroup
}

// startProcess starts cmd in a group of its own. heard gets what it writes to its standard error, and may be nil.
func startProcess(f *family, cmd *exec.Cmd, heard func([]byte)) (*process, error) {
	var files [6]*os.File
	for i := 0; i < len(files); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeFiles(files[:])
			return nil, err
		}
		files[i], files[i+1] = r, w
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	g, err := f.start(cmd)
	if err != nil {
		closeFiles(files[:])
		return nil, err
	}
	closeFiles([]*os.File{files[0], files[3], files[5]})
	p := &process{cmd: cmd, group: g, stdin: files[1], stdout: files[2], done: make(chan struct{}), quit: make(chan struct{})}
	said := make(chan struct{})
	p.goroutines.Go(func() {
		defer close(said)
		p.words.drain(files[4], heard)
		_ = files[4].Close()
	})
	p.goroutines.Go(func() {
		err := f.wait(cmd, g)
		// What escaped from the group may hold the pipes open.
		_ = files[4].SetReadDeadline(time.Now().Add(graceWords))
		_ = p.stdout.SetReadDeadline(time.Now().Add(graceWords))
		<-said // who hears how it ended hears its last words, too
		p.exit = ending(cmd, err)
		close(p.done)
	})
	return p, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

func ending(cmd *exec.Cmd, err error) string {
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return "exited with 0"
	case !failed:
		return "lost: the system does not say how it ended"
	}
	if n := leash.Signal(cmd.ProcessState); n > 0 {
		return fmt.Sprintf("killed by signal %d", n)
	}
	return fmt.Sprintf("exited with %d", exit.ExitCode())
}

// stop asks the owner to end the program. It does not wait.
func (p *process) stop() { p.stopping.Do(func() { close(p.quit) }) }

// end stops the program and its group: end of input, SIGTERM, SIGKILL. It returns when the program is gone. It may be
// called more than once and by several goroutines.
func (p *process) end() {
	p.ending.Do(func() {
		_ = p.stdin.Close()
		if !p.waitFor(graceInput) {
			p.group.Term()
			if !p.waitFor(graceTerm) {
				p.group.Kill()
			}
		}
	})
	<-p.done
}

// free closes what is left of it, after its end and after its readers.
func (p *process) free() {
	p.goroutines.Wait()
	_ = p.stdout.Close()
	p.group.Release()
}

func (p *process) waitFor(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// gone reports an error that says only that the far end of a pipe or connection is closed.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}
