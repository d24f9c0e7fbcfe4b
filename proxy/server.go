package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The states of a server.
const (
	Starting   = "starting"
	Running    = "running"
	Restarting = "restarting" // it ended by itself and is started again after a pause
	Stopped    = "stopped"    // whoever held its stdio left; the next user starts it
	Failed     = "failed"     // it cannot be started, or ended too often; tried again after a minute, or when it is put again
)

const (
	maxFails  = 5 // ends in a row before the breaker opens
	firstWait = 200 * time.Millisecond
	stable    = time.Minute // a run this long clears the count
	cooldown  = time.Minute // of the breaker
	forever   = time.Duration(1<<63 - 1)
	startWait = 10 * time.Second
	tailShown = 4 << 10
)

// Definition is a server to run. Values of Env go to the process alone: they are never logged and are masked in its stderr.
type Definition struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Cwd     string            `json:"cwd"` // "" is the root
}

func (d Definition) equal(o Definition) bool {
	return d.Command == o.Command && d.Cwd == o.Cwd && slices.Equal(d.Args, o.Args) && maps.Equal(d.Env, o.Env)
}

// Status is what GET /servers tells about one server.
type Status struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	PID      int    `json:"pid,omitempty"`
	Exit     string `json:"exit,omitempty"` // how it ended last: "exited with 1", "killed by signal 9"
	Restarts int    `json:"restarts"`       // since it was put
	Stderr   string `json:"stderr"`         // the end of it, values of its environment masked
}

// server keeps one program running. Its stdio has either one raw user or the clients of a link.
type server struct {
	name   string
	def    Definition
	opts   *Options
	family *family
	over   context.Context // of this server
	stop   context.CancelFunc
	ended  chan struct{} // closed when Run's part of it is over
	kick   chan struct{} // skips a wait; holds one
	hand   chan struct{} // a lock for the handshake, held by one

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change of what follows
	state    string
	exit     string
	restarts int
	proc     *process // nil while none runs
	words    *process // the last one, for its stderr
	link     *link    // nil until a client came
	raw      bool     // the stdio has its one user
	leaving  bool     // who is gone already, and the program is about to end
	unborn   bool     // Failed because it cannot be started at all
	fresh    bool     // it is being ended to give the next user a clean start
	sessions map[string]*session

	hello  atomic.Pointer[hello] // the handshake that all sessions share
	before *server               // what had the name until now, and ends first
}

func newServer(ctx context.Context, name string, def Definition, opts *Options, f *family) *server {
	s := &server{
		name: name, def: def, opts: opts, family: f, state: Starting, sessions: map[string]*session{},
		ended: make(chan struct{}), kick: make(chan struct{}, 1), hand: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	s.over, s.stop = context.WithCancel(ctx)
	return s
}

// change runs fn under the lock and wakes who waits for a state.
func (s *server) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	close(s.changed)
	s.changed = make(chan struct{})
}

// after says what is to happen when a program has ended.
type after int

const (
	crashed  after = iota // start again, after a pause that grows
	broken                // it could not be started
	left                  // its raw user is gone: wait for the next
	replaced              // the next user wants it fresh
)

// run keeps the program alive until the server is over.
func (s *server) run() {
	defer close(s.ended)
	if s.before != nil {
		s.before.close()
		s.before = nil
	}
	for fails := 0; s.over.Err() == nil; {
		began := time.Now()
		switch what := s.once(); {
		case s.over.Err() != nil:
		case what == replaced:
		case what == left:
			s.sleep(forever)
			fails = 0
		case what == broken:
			s.sleep(cooldown)
		default:
			if fails++; time.Since(began) > stable {
				fails = 1
			}
			if !s.sleep(s.pause(fails)) {
				fails = 0
			}
			s.change(func() { s.restarts++ })
		}
		s.change(func() { s.state = Starting })
	}
	s.change(func() { s.state = Stopped })
	s.closeSessions()
}

// once runs the program to its end.
func (s *server) once() after {
	cmd, err := s.opts.program(s.def.Command, s.def.Args, s.def.Env, s.def.Cwd)
	if err == nil {
		var p *process
		if p, err = startProcess(s.family, cmd, echo(s.opts.Echo, s.def.Env)); err == nil {
			return s.live(p)
		}
	}
	s.opts.Log.Warn("a server cannot be started", "server", s.name)
	s.change(func() { s.state, s.exit, s.unborn = Failed, startFailure(err), true })
	return broken
}

func (s *server) live(p *process) after {
	s.change(func() {
		s.state, s.proc, s.words, s.unborn = Running, p, p, false
		select {
		case <-s.kick: // it was for this start
		default:
		}
	})
	select {
	case <-p.done:
	case <-p.quit:
	case <-s.over.Done():
	}
	p.end()
	what := crashed
	var l *link
	s.change(func() {
		s.state = Restarting
		switch {
		case s.raw:
			s.state, what = Stopped, left
		case s.fresh:
			what = replaced
		}
		l, s.exit = s.link, p.exit
		s.proc, s.link, s.raw, s.leaving, s.fresh = nil, nil, false, false, false
	})
	if l != nil {
		<-l.done // it reads what the program still said
	}
	p.free()
	return what
}

// pause grows with the failures in a row, up to the breaker.
func (s *server) pause(fails int) time.Duration {
	if fails < maxFails {
		return firstWait << (fails - 1)
	}
	s.opts.Log.Warn("a server ended too often, tries again in a minute; --echo shows what it writes", "server", s.name, "exit", s.status(0).Exit)
	s.change(func() { s.state = Failed })
	return cooldown
}

// sleep reports whether the whole time passed; a kick and the end cut it short.
func (s *server) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.kick:
	case <-s.over.Done():
	}
	return false
}

// wake ends a wait of the supervisor, if there is one.
func (s *server) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// revive is for a definition that is put again: what does not run is started.
func (s *server) revive() {
	s.change(func() {
		if s.state == Failed || s.state == Stopped || s.state == Restarting {
			s.state = Starting
			s.wake()
		}
	})
}

// close ends the server and returns when its program is gone.
func (s *server) close() {
	s.stop()
	<-s.ended
}

// stillborn reports that the program cannot be started at all, and why.
func (s *server) stillborn() (why string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exit, s.state == Failed && s.unborn
}

func (s *server) status(most int) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Name: s.name, State: s.state, Exit: s.exit, Restarts: s.restarts}
	if s.proc != nil {
		st.PID = s.proc.cmd.Process.Pid
	}
	if s.words != nil {
		st.Stderr = s.words.words.text(s.def.Env, most)
	}
	return st
}

// shared gives the link that all clients use, and waits for a program that is on its way.
func (s *server) shared(ctx context.Context) (*link, error) {
	s.mu.Lock()
	if l := s.link; l != nil {
		s.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	return claim(ctx, s, func() (*link, error) {
		switch {
		case s.raw && !s.leaving:
			return nil, errTaken
		case !s.raw && s.link == nil && s.proc != nil:
			s.link = newLink(s, s.proc)
		}
		return s.link, nil
	})
}

// take gives the program to one raw user: a fresh one, when clients had it before and are gone. The caller counts among the
// program's goroutines, and is done when it reads no more.
func (s *server) take(ctx context.Context) (*process, error) {
	return claim(ctx, s, func() (*process, error) {
		switch {
		case s.raw && !s.leaving, s.link != nil && !s.fresh && (len(s.sessions) > 0 || s.link.busy()):
			return nil, errTaken
		case s.proc == nil, s.raw, s.fresh:
			return nil, nil
		case s.link != nil:
			s.fresh = true
			s.proc.stop()
			return nil, nil
		}
		s.raw = true
		s.proc.goroutines.Add(1)
		return s.proc, nil
	})
}

// leave ends the program after its raw user.
func (s *server) leave(p *process) {
	s.mu.Lock()
	if s.proc == p {
		s.leaving = true
	}
	s.mu.Unlock()
	p.stop()
}

// claim asks for something that exists only while the program runs, and has a stopped one started. ask is called under
// the lock; nil means not yet.
func claim[T any](ctx context.Context, s *server, ask func() (*T, error)) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		s.mu.Lock()
		if s.state == Stopped {
			s.wake()
		}
		got, err := ask()
		state, changed, unborn, exit := s.state, s.changed, s.unborn, s.exit
		s.mu.Unlock()
		switch {
		case got != nil || err != nil:
			return got, err
		case state == Failed && unborn:
			return nil, fmt.Errorf("%w: %s", errUnborn, exit)
		case state == Failed:
			return nil, errDown
		}
		select {
		case <-changed:
		case <-s.over.Done():
			return nil, errDown
		case <-ctx.Done():
			return nil, errDown
		}
	}
}
