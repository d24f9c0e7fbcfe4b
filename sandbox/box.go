package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"bobbin/internal/durable"
	"bobbin/internal/engine"
	"bobbin/internal/socket"
	"bobbin/schemas"
)

const (
	readyTime = 20 * time.Second // for the program inside to answer after a start
	aliveTime = 3 * time.Second  // for one that ran a moment ago
	tries     = 3                // to start a sandbox that ends again
)

// box is one sandbox: a container that may run or not, its folder, and who uses it.
type box struct {
	d *Docker
	plan
	owner  schemas.MemberID
	server string // that has it alone; "" = the member's

	thread atomic.Pointer[schemas.ThreadID] // that used it last
	why    atomic.Pointer[string]           // bobbin stopped it; nil: it did not
	disk   atomic.Pointer[disk]             // nil: nothing to watch

	mu     sync.Mutex
	labels map[string]schemas.Contact // who uses it now: servers and commands
	idle   time.Time                  // since when nobody does

	turn      chan struct{} // a lock that can be waited for with a deadline; guards the rest
	id        string
	in        *inside // nil: does not run, as far as we know
	endEgress context.CancelFunc
	limited   bool   // its volume, by the engine
	path      string // of its volume
	forgotten bool   // another box has taken its place, or will
}

var errForgotten = errors.New("sandbox: it was forgotten meanwhile")

func (b *box) lock(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return refusal(schemas.CodeNotReady, "the sandbox was not ready in time", "try again")
	}
}

func (b *box) unlock() { <-b.turn }

func (b *box) use(ctx context.Context, label string, c schemas.Contact) (in *inside, done func(), err error) {
	if err := b.lock(ctx); err != nil {
		return nil, nil, err
	}
	defer b.unlock()
	if b.forgotten {
		return nil, nil, errForgotten
	}
	b.thread.Store(&c.Thread)
	if b.in == nil || b.in.ping(ctx, aliveTime) != nil {
		if err := b.begin(ctx); err != nil {
			return nil, nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.labels[label] = c
	return b.in, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.labels, label)
		b.idle = time.Now()
	}, nil
}

// who says for whom a request to the outside is.
func (b *box) who(label string) schemas.Contact {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.labels[label]; ok {
		return c
	}
	return schemas.Contact{Thread: *b.thread.Load(), Member: b.owner, Server: b.server}
}

// programs counts the servers that run in it.
func (b *box) programs() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.labels {
		if c.Server != "" {
			n++
		}
	}
	return n
}

func (b *box) idleFor(limit time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.labels) == 0 && time.Since(b.idle) >= limit
}

// begin finds or makes the container and starts it.
func (b *box) begin(ctx context.Context) error {
	first := b.in == nil
	b.leave()
	var err error
	for range tries {
		b.d.mu.Lock()
		closed := b.d.closed
		b.d.mu.Unlock()
		if closed {
			return closing()
		}
		var running bool
		if b.id, running, err = b.ensure(ctx); err != nil {
			break
		}
		if running && first {
			if err = b.adopt(ctx); err == nil {
				return nil
			}
		}
		first = false
		if running {
			_ = b.d.stop(ctx, b.id)
		}
		if err = b.start(ctx); err == nil {
			return nil
		}
		b.leave()
		if !errors.Is(err, errEnded) {
			break
		}
	}
	b.d.opt.Log.Warn("a sandbox does not start", "box", b.box, "err", err)
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return err
	}
	if e := engine.Explain(err); e != nil {
		return e
	}
	e := &schemas.Error{Code: schemas.CodeNotReady, Text: "the sandbox could not be started", Hint: "try again; the operator finds the reason in bobbin's log", Err: err}
	if client.IsErrConnectionFailed(err) {
		e.Text, e.Hint = "the container engine does not answer", "the operator must start it again"
	}
	return e
}

// ensure gives the container of the present spec, made if there is none, and whether it runs. One of another spec is removed; the
// workspace is not in it.
func (b *box) ensure(ctx context.Context) (id string, running bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	s := spec(b.plan)
	mark := fingerprint(s, b.d.build)
	s.Config.Labels[labelPrint] = mark
	found, err := b.d.find(ctx, labelBox, b.box, true)
	if err != nil {
		return "", false, err
	}
	for _, c := range found {
		if id == "" && c.Labels[labelPrint] == mark && c.State != container.StateDead && c.State != container.StateRemoving {
			id, running = c.ID, c.State == container.StateRunning
			continue
		}
		if err := b.d.remove(ctx, c.ID); err != nil {
			return "", false, err
		}
	}
	if err := b.ensureVolume(ctx); err != nil || id != "" {
		return id, running, err
	}
	if err := b.empty(); err != nil { // the folder must be there to be mounted
		return "", false, err
	}
	made, err := b.d.engine.ContainerCreate(ctx, s)
	if errdefs.IsNotFound(err) {
		return "", false, refusal(schemas.CodeMissing, "the container engine has lost the image "+b.d.opt.Image, "the operator builds it again and restarts bobbin")
	}
	return made.ID, false, err
}

func (b *box) dir() (*durable.Dir, error) { return b.d.opt.Boxes.Sub(b.box) }

// empty makes the folder of the sockets anew.
func (b *box) empty() error {
	dir, err := b.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := os.RemoveAll(b.folder); err != nil {
		return err
	}
	return os.Mkdir(b.folder, 0o700)
}

// start runs the container and waits until the program inside answers. Until then only that program runs in it, so only then may
// the folder be written to from inside, and hold the token.
func (b *box) start(ctx context.Context) error {
	if err := b.empty(); err != nil {
		return err
	}
	token := rand.Text() + rand.Text()
	if err := b.lend(token); err != nil {
		return err
	}
	if err := b.openWay(); err != nil {
		return err
	}
	b.guard()
	starting, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	if _, err := b.d.engine.ContainerStart(starting, b.id, client.ContainerStartOptions{}); err != nil {
		return err
	}
	b.in = newInside(filepath.Join(b.folder, proxySocket), token)
	if err := b.await(ctx); err != nil {
		return err
	}
	if b.podman {
		if err := b.in.held(ctx); err != nil {
			return errors.Join(err, b.d.kill(ctx, b.id))
		}
	}
	if err := os.Remove(filepath.Join(b.folder, tokenFile)); err != nil {
		return err
	}
	// From here on nothing in the sandbox can make files or links beside our sockets.
	return os.Chmod(b.folder, 0o755)
}

// lend writes the token for the program inside, and for a bobbin after this one.
func (b *box) lend(token string) error {
	dir, err := b.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Write(tokenFile, []byte(token)); err != nil {
		return err
	}
	run, err := os.OpenRoot(b.folder)
	if err != nil {
		return err
	}
	defer run.Close()
	// The user inside is another one; the folder above keeps out everybody here.
	if err := errors.Join(run.WriteFile(tokenFile, []byte(token), 0o644), run.Chmod(tokenFile, 0o644)); err != nil {
		return err
	}
	return os.Chmod(b.folder, 0o777)
}

// await waits for the program inside.
func (b *box) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	pause := 5 * time.Millisecond
	for looked := time.Now(); ; {
		err := b.in.ping(ctx, time.Second)
		if err == nil {
			return nil
		}
		if time.Since(looked) > 300*time.Millisecond {
			looked = time.Now()
			c, e := b.d.engine.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
			if e == nil && c.Container.State != nil && !c.Container.State.Running {
				return fmt.Errorf("%w with %d %s", errEnded, c.Container.State.ExitCode, c.Container.State.Error)
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

var errEnded = errors.New("the sandbox ended at its start")

// adopt goes on with a container that an earlier bobbin left running. Servers that are still in it had their input from that one.
func (b *box) adopt(ctx context.Context) error {
	dir, err := b.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	token, err := dir.Read(tokenFile, 256)
	if err != nil {
		return err
	}
	b.in = newInside(filepath.Join(b.folder, proxySocket), string(token))
	b.guard()
	if err = b.in.ping(ctx, aliveTime); err == nil {
		err = b.openWay()
	}
	if err == nil {
		err = b.in.clear(ctx)
	}
	if err != nil {
		b.leave()
	}
	return err
}

// openWay serves the way out, for as long as the sandbox is ours.
func (b *box) openWay() error {
	if b.d.opt.Egress == nil {
		return nil
	}
	path := filepath.Join(b.folder, wayOut)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := socket.Listen(path)
	if err != nil {
		return err
	}
	var ctx context.Context
	ctx, b.endEgress = context.WithCancel(b.d.life)
	b.d.work.Go(func() { b.serve(ctx, l) })
	return nil
}

func (b *box) serve(ctx context.Context, l net.Listener) {
	defer l.Close()
	if err := b.d.opt.Egress.Serve(ctx, l, b.who); err != nil && ctx.Err() == nil {
		b.d.opt.Log.Error("the way out of a sandbox is closed", "box", b.box, "err", err)
	}
}

// leave lets go of the sandbox, which may run on.
func (b *box) leave() {
	b.disk.Store(nil)
	if b.endEgress != nil {
		b.endEgress()
		b.endEgress = nil
	}
	if b.in != nil {
		b.in.close()
		b.in = nil
	}
}

// stopIdle stops a sandbox that nobody has used for a while, and forgets what does not run.
func (b *box) stopIdle(ctx context.Context, idle time.Duration) {
	select {
	case b.turn <- struct{}{}:
	default:
		return
	}
	defer b.unlock()
	if !b.idleFor(idle) {
		return
	}
	if b.in != nil {
		b.leave()
		if err := b.d.stop(ctx, b.id); err != nil {
			b.d.opt.Log.Warn("an idle sandbox could not be stopped", "box", b.box, "err", err)
			return
		}
		b.d.opt.Log.Info("a sandbox is idle and was stopped", "box", b.box)
	}
	b.forget()
}

// forget is for one that does not run; the next use makes another.
func (b *box) forget() {
	b.forgotten = true
	b.d.forget(b)
}

// halt stops the container, whoever uses it.
func (b *box) halt(ctx context.Context) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	if b.in == nil {
		return nil
	}
	b.leave()
	return b.d.stop(ctx, b.id)
}
