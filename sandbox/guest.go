package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const (
	statusTime   = time.Second // for a word about a server
	stateRunning = "running"   // as the program inside says it
)

// guest is a server in a sandbox.
type guest struct {
	box  *box
	in   *inside
	name string
	hide []string
	conn net.Conn
	out  io.Reader
	done func()

	ended   atomic.Bool // its stream ended by itself
	closing atomic.Bool
	fate    string // of the sandbox of one that ended with it; set before closing
	once    sync.Once

	mu   sync.Mutex
	last running // what was heard of it last
}

// Launch starts a server in its owner's sandbox. What it returns reads the program's standard output and writes its standard input;
// it has PID (inside), Stderr, Diagnose and SetWriteDeadline as [Child] has them. ctx bounds only the start. The caller must Close
// it. Errors are *schemas.Error and name no value of the environment.
func (d *Docker) Launch(ctx context.Context, l schemas.Launch) (io.ReadWriteCloser, error) {
	def, err := contained(l)
	if err != nil {
		return nil, err
	}
	server := ""
	if d.opt.PerServer {
		server = l.Server
	}
	g := &guest{hide: maskable(l.Env), name: hash(string(l.Thread), l.Server)[:12] + "-" + strings.ToLower(rand.Text()[:12])}
	def.Env = labelled(def.Env, g.name)
	b, in, done, err := d.use(ctx, server, g.name, schemas.Contact{Thread: l.Thread, Member: l.Owner, Server: l.Server})
	if err != nil {
		return nil, err
	}
	g.box, g.in, g.done = b, in, done
	if err = in.put(ctx, g.name, def); err == nil {
		g.conn, g.out, err = in.stdio(ctx, g.name)
	}
	if err != nil {
		g.drop()
		done()
		return nil, unstarted(l.Command, err)
	}
	g.look()
	return g, nil
}

// contained checks a launch and gives it the form that the program inside takes.
func contained(l schemas.Launch) (definition, error) {
	if err := checkSize(l); err != nil {
		return definition{}, err
	}
	cwd, err := inWorkspace(l.Cwd)
	if err != nil {
		return definition{}, err
	}
	return definition{Command: l.Command, Args: l.Args, Env: reveal(l.Env), Cwd: cwd}, nil
}

func reveal(env map[string]schemas.Secret) map[string]string {
	values := make(map[string]string, len(env))
	for name, v := range env {
		values[name] = v.Reveal()
	}
	return values
}

// labelled tells the way out which program asks, by the user name of the proxy. Programs that know better keep their own proxy.
// Node's takes the name only beside a password.
func labelled(env map[string]string, label string) map[string]string {
	own := strings.Replace(localProxy, "://", "://"+label+":x@", 1)
	for _, v := range variables() {
		name, value, _ := strings.Cut(v, "=")
		if _, set := env[name]; value == localProxy && !set {
			env[name] = own
		}
	}
	return env
}

// inWorkspace gives a working folder its full path.
func inWorkspace(dir string) (string, error) {
	full := path.Join(workspace, dir)
	if path.IsAbs(dir) {
		full = path.Clean(dir)
	}
	if full != workspace && !strings.HasPrefix(full, workspace+"/") {
		return "", refusal(schemas.CodeInvalid, fmt.Sprintf("the working folder %q is not in the sandbox's %s", dir, workspace), "leave cwd out, or name a folder of "+workspace)
	}
	return full, nil
}

// unstarted gives a failed start words.
func unstarted(command string, err error) error {
	e := &schemas.Error{Code: schemas.CodeNotReady, Text: fmt.Sprintf("%q could not be started in the sandbox", command), Hint: "try again", Err: err}
	if r, ok := errors.AsType[*refused](err); ok && r.words != "" {
		e.Code, e.Text, e.Hint = schemas.CodeMissing, fmt.Sprintf("%q could not be started in the sandbox: %s", command, r.words), "install it in the sandbox, or give the full path there"
		if r.status == http.StatusTooManyRequests || r.status >= http.StatusInternalServerError {
			e.Code, e.Hint = schemas.CodeNotReady, "stop some servers, then try again"
		}
	}
	return e
}

func (g *guest) Read(p []byte) (int, error) {
	n, err := g.out.Read(p)
	if err != nil {
		// Whatever broke the stream, there is no more of it.
		if !g.closing.Load() {
			g.ended.Store(true)
		}
		err = io.EOF
	}
	return n, err
}

func (g *guest) Write(p []byte) (int, error) {
	n, err := g.conn.Write(p)
	if err != nil && (g.closing.Load() || isBrokenPipe(err) || errors.Is(err, net.ErrClosed)) {
		err = io.ErrClosedPipe
	}
	return n, err
}

func (g *guest) SetWriteDeadline(t time.Time) error { return g.conn.SetWriteDeadline(t) }

// PID of the program as the sandbox counts; 0 when it is not known.
func (g *guest) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last.PID
}

func (g *guest) Stderr() string { return strings.Join(g.lines(), "\n") }

func (g *guest) lines() []string {
	if !g.closing.Load() {
		g.look()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return clean(g.last.Stderr, g.hide)
}

// look asks how the server is, and keeps what was known when nobody answers.
func (g *guest) look() running {
	r, err := g.in.server(g.box.d.life, statusTime, g.name)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		if r.PID == 0 {
			r.PID = g.last.PID
		}
		g.last = r
	}
	return g.last
}

// Diagnose says in one line why the server ended; "" while it runs.
func (g *guest) Diagnose() string {
	if !g.ended.Load() {
		if g.closing.Load() {
			return "stopped by bobbin"
		}
		return ""
	}
	r := g.farewell()
	if r.Exit == "" {
		if g.closing.Load() {
			return g.fate
		}
		return g.lost()
	}
	why := schemas.Clean(r.Exit, true)
	if line := telling(g.lines()); line != "" {
		why += ": " + line
	}
	return why
}

// farewell waits a moment for how an ended server ended, and gives what is known of it; after Close, what was known then. What it
// knew before may be of an earlier start.
func (g *guest) farewell() running {
	g.mu.Lock()
	r := g.last
	g.mu.Unlock()
	for wait := time.Now().Add(graceWords); !g.closing.Load() && time.Now().Before(wait); time.Sleep(20 * time.Millisecond) {
		if r = g.look(); r.Exit != "" && r.State != stateRunning || r.Exit == "" && g.lost() != "" {
			break
		}
	}
	return r
}

// lost says what became of the sandbox, if it does not run.
func (g *guest) lost() string {
	if g.in.ping(g.box.d.life, statusTime) == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(g.box.d.life, statusTime)
	defer cancel()
	c, err := g.box.d.engine.ContainerInspect(ctx, g.box.name(), client.ContainerInspectOptions{})
	switch {
	case err != nil || c.Container.State == nil:
		return "its sandbox is gone"
	case c.Container.State.OOMKilled:
		return "its sandbox ran out of memory"
	}
	return "its sandbox " + g.box.ended()
}

// Close ends the program and everything it started: end of input, then SIGTERM, then SIGKILL.
func (g *guest) Close() error {
	g.once.Do(func() {
		if g.ended.Load() {
			if g.farewell().Exit == "" {
				g.fate = g.lost()
			}
		} else {
			g.look() // the last words
		}
		g.closing.Store(true)
		_ = g.conn.Close()
		g.drop()
		g.done()
	})
	return nil
}

func (g *guest) drop() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.box.d.life), insideTime)
	defer cancel()
	if err := g.in.drop(ctx, g.name); err != nil {
		g.box.d.opt.Log.Debug("a server of a sandbox was not ended by name", "box", g.box.box, "err", err)
	}
}

func (b *box) name() string { return boxName + b.box }
