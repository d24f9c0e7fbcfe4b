package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxServers  = 64
	callTimeout = time.Hour
)

// Options of a Proxy.
type Options struct {
	// Token is what every request must bear (RFC 6750); "" asks for none, which only a loopback address may do.
	Token string
	// Root is the folder in which programs start, and which their cwd cannot leave; "" is the current folder, and no bound.
	Root string
	// Env is the base of every program's environment, as NAME=VALUE; nothing else of our own environment is handed on.
	Env []string
	// UseOnly keeps what starts servers and runs commands to unix sockets: at TCP addresses the token is for using [Main].
	UseOnly bool
	// Origin is whose web pages may come in, beside those of this machine: "*" for all, an origin, or "" for none.
	Origin string
	// Confine keeps this process, and with it all programs, from user namespaces, for good; only Linux can.
	Confine bool
	// Echo gets what programs write to their standard error, values of their environment masked; nil: nobody.
	Echo io.Writer
	// CallTimeout ends a call without an answer; 0 is an hour.
	CallTimeout time.Duration
	// Log gets what an operator needs; never nil.
	Log *slog.Logger
}

// Proxy runs stdio servers and serves them over HTTP. Its methods may be called from several goroutines.
type Proxy struct {
	opts   Options
	family *family
	over   context.Context
	stop   context.CancelFunc
	execs  chan struct{} // one for each command that runs

	filtered bool // the engine has our system calls looked at

	mu         sync.Mutex
	servers    map[string]*server
	goroutines sync.WaitGroup
}

// New returns a proxy without servers. It ends with ctx, and must be closed.
func New(ctx context.Context, o Options) (*Proxy, error) {
	if o.Log == nil {
		return nil, errors.New("proxy: no log")
	}
	if o.Token != "" {
		if err := unreadable(); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}
	engines := filtered()
	if o.Confine {
		if err := confine(); err != nil {
			return nil, fmt.Errorf("proxy: programs cannot be confined: %w", err)
		}
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = callTimeout
	}
	if o.Root != "" {
		root, err := filepath.EvalSymlinks(o.Root)
		if err != nil {
			return nil, fmt.Errorf("proxy: the root: %w", err)
		}
		o.Root = root
	}
	p := &Proxy{opts: o, family: &family{pids: map[int]bool{}}, servers: map[string]*server{}, execs: make(chan struct{}, maxExecs), filtered: engines}
	p.over, p.stop = context.WithCancel(ctx)
	return p, nil
}

// Close ends all programs and returns when they are gone, 5 s at most for those that do not want to.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.goroutines.Wait()
}

// Serve answers on l until ctx ends or l fails. A TCP listener gets the checks that keep web pages out.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	if err := p.checkListener(l); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handlers := &tally{}
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(p.opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Handler:           handlers.count(p.opts.share(p.guard(p.routes(p.opts.Token != "" && !(p.opts.UseOnly && l.Addr().Network() == "tcp")), l.Addr()))),
	}
	defer handlers.wait()
	ended := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer ended()
	err := srv.Serve(&crowd{Listener: l, beside: beside})
	if ctx.Err() != nil || p.over.Err() != nil {
		return nil
	}
	cancel()
	return err
}

// tally knows the requests under way, which the end of an http.Server does not wait for.
type tally struct {
	mu     sync.Mutex
	closed bool
	under  sync.WaitGroup
}

func (t *tally) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			return
		}
		t.under.Add(1)
		t.mu.Unlock()
		defer t.under.Done()
		next.ServeHTTP(w, r)
	})
}

func (t *tally) wait() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.under.Wait()
}

// Put registers a server and starts it. The same definition again leaves a running one alone; another one ends it first.
// created is false when the name was taken.
func (p *Proxy) Put(name string, d Definition) (created bool, err error) {
	if err := d.check(name); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.servers[name]
	switch {
	case p.over.Err() != nil:
		return false, errDown
	case old != nil && old.def.equal(d):
		old.revive()
		return false, nil
	case old == nil && len(p.servers) >= maxServers:
		return false, errTooMany
	}
	s := newServer(p.over, name, d, &p.opts, p.family)
	s.before = old
	p.servers[name] = s
	p.goroutines.Go(s.run)
	return old == nil, nil
}

// Settled waits until a start that is on its way has come out, 10 s at most, and tells how the server is; ok is false when
// there is none of this name.
func (p *Proxy) Settled(ctx context.Context, name string) (st Status, ok bool) {
	s := p.server(name)
	if s == nil {
		return Status{}, false
	}
	s.settle(ctx)
	return s.status(tailShown), true
}

func (p *Proxy) server(name string) *server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[name]
}

// remove ends a server; it returns when its program is gone.
func (p *Proxy) remove(name string) bool {
	p.mu.Lock()
	s := p.servers[name]
	delete(p.servers, name)
	p.mu.Unlock()
	if s != nil {
		s.close()
	}
	return s != nil
}

// List tells about all servers, by name.
func (p *Proxy) List() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Status, 0, len(p.servers))
	for _, s := range p.servers {
		list = append(list, s.status(tailShown))
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list
}

var (
	errTooMany = errors.New("64 servers are registered; delete one first")
	errNoFile  = errors.New("no such program")
	errOutside = errors.New("the folder is outside of the workspace, or does not exist")
	errInvalid = errors.New("invalid definition")
)

func (d Definition) check(name string) error {
	switch {
	case !goodName(name):
		return fmt.Errorf("%w: a name has letters, digits, and - _ . inside, at most 64", errInvalid)
	case d.Command == "":
		return fmt.Errorf(`%w: "command" is missing`, errInvalid)
	case len(d.Args) > 1024 || len(d.Env) > 1024:
		return fmt.Errorf(`%w: at most 1024 "args" and "env"`, errInvalid)
	}
	return checkWords(append([]string{d.Command, d.Cwd}, d.Args...), d.Env)
}

func checkWords(words []string, env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf(`%w: "env" has a name or value that no program can get`, errInvalid)
		}
	}
	for _, w := range words {
		if strings.Contains(w, "\x00") {
			return fmt.Errorf("%w: a word has a zero byte", errInvalid)
		}
	}
	return nil
}

func goodName(name string) bool {
	ok := len(name) > 0 && len(name) <= 64
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = ok && (letter || i > 0 && (c == '-' || c == '_' || c == '.'))
	}
	return ok
}

// program prepares a command with the base environment and what is named beside.
func (o *Options) program(command string, args []string, env map[string]string, dir string) (*exec.Cmd, error) {
	full := slices.Clone(o.Env)
	for name, value := range env {
		full = append(full, name+"="+value)
	}
	dir, err := o.folder(dir)
	if err != nil {
		return nil, err
	}
	path, err := lookPath(command, dir, full)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: append([]string{command}, args...), Env: full, Dir: dir}, nil
}

// folder gives the folder to start in. Programs may go where they like afterwards: what they reach is up to the sandbox.
func (o *Options) folder(dir string) (string, error) {
	if o.Root == "" {
		return dir, nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(o.Root, dir)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", errOutside
	}
	rel, err := filepath.Rel(o.Root, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", errOutside
	}
	return dir, nil
}

// lookPath finds a program on the PATH that it will get itself, which need not be ours.
func lookPath(command, dir string, env []string) (string, error) {
	if runtime.GOOS == "windows" {
		path, err := exec.LookPath(command)
		if err != nil {
			return "", errNoFile
		}
		return path, nil
	}
	if strings.Contains(command, "/") {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if !executable(path) {
			return "", errNoFile
		}
		return path, nil
	}
	list := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			list = v
		}
	}
	for _, folder := range filepath.SplitList(list) {
		if path := filepath.Join(folder, command); filepath.IsAbs(folder) && executable(path) {
			return path, nil
		}
	}
	return "", errNoFile
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// startFailure says why a program did not start, without its arguments.
func startFailure(err error) string {
	switch {
	case errors.Is(err, errNoFile), errors.Is(err, errOutside):
		return err.Error()
	case errors.Is(err, os.ErrPermission):
		return "the system does not allow to start it"
	}
	return "the system could not start it"
}
