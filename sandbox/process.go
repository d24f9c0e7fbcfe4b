package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

// Options of a Process.
type Options struct {
	Work *durable.Dir // data/work: one workspace a member; required
	Log  *slog.Logger // discarded
}

// Process launches servers as processes of the user who runs bobbin. It is safe for concurrent use.
type Process struct {
	work  *durable.Dir
	log   *slog.Logger
	owner string // the part of a mark that names this bobbin
	marks marks

	starter sync.Once
	starts  chan func()
	quit    chan struct{}
	ended   sync.WaitGroup // the starter

	mu       sync.Mutex
	closed   bool
	children map[*child]struct{}
}

// NewProcess gives a launcher. Close ends it.
func NewProcess(opt Options) (*Process, error) {
	if opt.Work == nil {
		return nil, errors.New("sandbox: no folder for workspaces")
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Process{
		work: opt.Work, log: opt.Log, owner: ownMark(),
		starts: make(chan func()), quit: make(chan struct{}), children: map[*child]struct{}{},
	}, nil
}

// Place says where servers run.
func (p *Process) Place() schemas.Place {
	return schemas.Place{Available: true, Where: "this machine, as you. NOT isolated", Reach: "whatever this machine and its network can reach"}
}

// Launch starts a program. What it returns reads the program's standard output and writes its standard input; see [Child]
// for what else it can do. ctx bounds only the start. The caller must Close the child, also when it ended by itself.
// Errors are *schemas.Error and name no value of the environment.
func (p *Process) Launch(ctx context.Context, l schemas.Launch) (io.ReadWriteCloser, error) {
	if err := check(l); err != nil {
		return nil, err
	}
	dir, err := p.folder(l)
	if err != nil {
		return nil, err
	}
	id := p.owner + "." + rand.Text()
	env := environment(os.Environ(), l.Env, id)
	program, err := lookup(l.Command, env, dir)
	if err != nil {
		return nil, err
	}
	if err := checkScript(program, l.Args); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: program, Args: append([]string{l.Command}, l.Args...), Env: env, Dir: dir}
	c, err := p.start(ctx, cmd, id, maskable(l.Env))
	if err != nil {
		return nil, err // a nil *child must not become an interface
	}
	return c, nil
}

func (p *Process) start(ctx context.Context, cmd *exec.Cmd, id string, hide []string) (*child, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, closing()
	}
	p.starter.Do(func() { p.ended.Go(p.startOnThread) })
	p.mu.Unlock()

	type outcome struct {
		c   *child
		err error
	}
	done := make(chan outcome, 1)
	request := func() {
		c, err := startChild(ctx, cmd, id, hide, p)
		done <- outcome{c, err}
	}
	select {
	case p.starts <- request:
	case <-ctx.Done():
		return nil, notStarted(cmd, ctx.Err())
	case <-p.quit:
		return nil, closing()
	}
	o := <-done
	if o.err != nil {
		return nil, notStarted(cmd, o.err)
	}
	return o.c, nil
}

// startOnThread makes all children on one OS thread that lives as long as p: on Linux a child is killed when the thread
// that made it ends (prctl(2), PR_SET_PDEATHSIG), and Go ends threads of goroutines that are locked to them.
func (p *Process) startOnThread() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case start := <-p.starts:
			start()
		case <-p.quit:
			return
		}
	}
}

// adopt enters a child; false if p is closing.
func (p *Process) adopt(c *child) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.children[c] = struct{}{}
	return true
}

func (p *Process) forget(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.children, c)
}

// Close ends every child, all at once, and waits for it: 8 s at most. Launch refuses from then on.
func (p *Process) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	children := make([]*child, 0, len(p.children))
	for c := range p.children {
		children = append(children, c)
	}
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range children {
		all.Go(func() { _ = c.Close() })
	}
	all.Wait()
	if first {
		close(p.quit)
	}
	p.ended.Wait()
	return nil
}
