package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"bobbin/internal/durable"
	"bobbin/internal/engine"
	"bobbin/schemas"
)

const (
	pingTime   = 3 * time.Second
	claimTime  = time.Second      // for the lock of a bobbin that just ends
	engineTime = 30 * time.Second // one call of the engine
	stopTime   = 20 * time.Second // of one container: the engine kills it after 10
	useProcess = "use --sandbox process"
	idleTime   = 15 * time.Minute
	maxBoxes   = 10_000

	defaultImage = "bobbin-sandbox"
)

// egress lets what runs in a sandbox reach the outside. Serve answers the connections of one sandbox until ctx ends, then returns;
// it is called once for every start of a sandbox, concurrently for several. who says for whom a request is, by the user name in its
// Proxy-Authorization, which each program is given with the proxy's address. One that is not known here is the member's, in the
// thread that used the sandbox last, and never an installation.
type egress interface {
	Serve(ctx context.Context, l net.Listener, who func(label string) schemas.Contact) error
}

// DockerOptions of a Docker.
type DockerOptions struct {
	Boxes     *durable.Dir  // one folder a sandbox, with its sockets; required
	Engine    string        // unix://…; "" = DOCKER_HOST, else the usual socket
	Image     string        // "" = bobbin-sandbox; it is never pulled
	Binary    string        // a static bobbin for this machine; "" = a copy of this program
	PerServer bool          // one container a server, not one a member
	Runtime   string        // such as runsc; "" = the engine's default
	CA        string        // file of certificate authorities (PEM, 4 MiB), in place of those that the image brings; "" = none
	Idle      time.Duration // without a server or a command, a container is stopped; 0 = 15 min
	Disk      int64         // bytes of a member's workspace; 0 = 2 GiB
	Egress    egress        // nil: no way out
	Log       *slog.Logger  // discarded
}

// Docker launches servers and commands in containers of a Docker engine: one a member, which lives on and is found again after a
// restart of bobbin. It is safe for concurrent use.
type Docker struct {
	opt      DockerOptions
	engine   *client.Client
	instance string
	image    string // id
	build    string // of the program that is mounted
	folder   string // of the sandboxes, absolute
	root     string // of the engine's own files
	podman   bool
	reserve  atomic.Int64 // bytes that stay free there
	opened   time.Time

	release func() // the lock

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	boxes  map[string]*box
	full   map[string]bool // volumes that are too large to be used
}

// NewDocker looks whether an engine answers and has the image. Errors are *schemas.Error and say in words what is missing;
// CodeConflict: another bobbin has these sandboxes.
// Close ends it; ctx ends only what it does between calls.
func NewDocker(ctx context.Context, opt DockerOptions) (*Docker, error) {
	if opt.Boxes == nil {
		return nil, errors.New("sandbox: no folder for sandboxes")
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Image == "" {
		opt.Image = defaultImage
	}
	if opt.Idle <= 0 {
		opt.Idle = idleTime
	}
	if runtime.GOOS != "linux" {
		return nil, refusal(schemas.CodeMissing, "containers need bobbin on Linux, beside the engine: on "+runtime.GOOS+" the engine is in a machine of its own, which shares no sockets",
			"run bobbin on Linux (WSL counts), or use --sandbox process")
	}
	if opt.Disk <= 0 {
		opt.Disk = diskLimit
	}
	d := &Docker{opt: opt, opened: time.Now(), boxes: map[string]*box{}, full: map[string]bool{}}
	d.reserve.Store(diskReserve)
	if err := d.look(ctx); err != nil {
		return nil, err
	}
	err := d.claim(ctx)
	if err == nil {
		err = d.prepare()
	}
	if err != nil {
		d.release()
		_ = d.engine.Close()
		return nil, err
	}
	d.life, d.end = context.WithCancel(ctx)
	d.work.Go(d.rest)
	d.work.Go(d.watch)
	return d, nil
}

// claim keeps other bobbins from these sandboxes: each would take the other's sockets away.
func (d *Docker) claim(ctx context.Context) (err error) {
	d.release = func() {}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	free, err := d.opt.Boxes.Lock(ctx, "engine")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &schemas.Error{Code: schemas.CodeConflict, Text: "another bobbin runs the sandboxes of this data folder", Hint: "talk to that one, or stop it", Err: err}
	case err != nil:
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "the folder of the sandboxes cannot be locked", Hint: "check who owns the data folder", Err: err}
	}
	d.release = free
	return nil
}

// prepare looks at what is mounted.
func (d *Docker) prepare() (err error) {
	named := d.opt.Binary != ""
	if d.opt.Binary, err = engine.Program(d.opt.Binary, useProcess); err != nil {
		return err
	}
	if !named {
		if d.opt.Binary, err = d.share(d.opt.Binary, "bobbin", 0o755); err != nil {
			return err
		}
	}
	if d.opt.CA != "" {
		if err := trusted(d.opt.CA); err != nil {
			return err
		}
		if d.opt.CA, err = d.share(d.opt.CA, "ca.pem", 0o644); err != nil {
			return err
		}
	}
	if d.build, err = stateOf(d.opt.Binary, d.opt.CA); err != nil {
		return err
	}
	if d.instance, err = instance(d.opt.Boxes); err != nil {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "the folder of the sandboxes cannot be used", Hint: "check who owns the data folder", Err: err}
	}
	d.folder, err = filepath.Abs(d.opt.Boxes.Path())
	return err
}

// look asks the engine whether it is there, what it can do, and whether it has the image.
func (d *Docker) look(ctx context.Context) (err error) {
	host := cmp.Or(d.opt.Engine, os.Getenv(client.EnvOverrideHost), "unix://")
	if !strings.HasPrefix(host, "unix://") {
		return refusal(schemas.CodeInvalid, "the container engine at "+host+" is on another machine: sandboxes share a folder with bobbin", "name one of this machine: DOCKER_HOST=unix:///var/run/docker.sock")
	}
	if d.engine, err = engine.Connect(ctx, d.opt.Engine, "without it: "+useProcess); err != nil {
		return err
	}
	if err = d.ask(ctx); err != nil {
		_ = d.engine.Close()
	}
	return err
}

// ask is what is asked of an engine that answers.
func (d *Docker) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if err := d.lookInfo(ctx); err != nil {
		return err
	}
	image, err := d.engine.ImageInspect(ctx, d.opt.Image)
	switch {
	case errdefs.IsNotFound(err):
		return refusal(schemas.CodeMissing, "the container engine has no image "+d.opt.Image, "build it: bobbin sandbox build, or name another with --sandbox-image")
	case err != nil:
		return &schemas.Error{Code: schemas.CodeMissing, Text: "the container engine does not say whether it has the image " + d.opt.Image, Hint: "see its log", Err: err}
	}
	d.image = image.ID
	return nil
}

// instance tells the sandboxes of this data folder from those of another bobbin at the same engine.
func instance(boxes *durable.Dir) (string, error) {
	const name = "instance"
	if !boxes.Has(name) {
		if err := boxes.Write(name, []byte(hash(rand.Text()))); err != nil {
			return "", err
		}
	}
	id, err := boxes.Read(name, 64)
	if err == nil && len(id) != 32 {
		err = errors.New("sandbox: the instance's id is damaged")
	}
	return string(id), err
}

// Place says where servers run.
func (d *Docker) Place() schemas.Place {
	p := schemas.Place{Available: true, Isolated: true, Where: "your sandbox (container, no access to this machine)", Reach: "nothing: the sandbox has no network"}
	if d.opt.Egress != nil {
		p.Reach = "the public internet, by way of the egress proxy"
	}
	return p
}

// use gives a way into a sandbox, started if it does not run; label names the use to the way out. server is "" for the member's own.
// The caller calls done once.
func (d *Docker) use(ctx context.Context, server, label string, c schemas.Contact) (b *box, in *inside, done func(), err error) {
	for range tries {
		if b, err = d.box(c.Member, c.Thread, server); err != nil {
			return nil, nil, nil, err
		}
		if in, done, err = b.use(ctx, label, c); !errors.Is(err, errForgotten) {
			break
		}
	}
	return b, in, done, err
}

func (d *Docker) forget(b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.boxes, b.box)
}

// box finds or makes what is known of one sandbox.
func (d *Docker) box(m schemas.MemberID, thread schemas.ThreadID, server string) (*box, error) {
	if !m.Valid() {
		return nil, refusal(schemas.CodeInvalid, "the server has no owner", "")
	}
	p := plan{
		instance: d.instance, member: hash(d.instance, string(m)), volume: volumeOf(m),
		image: d.image, binary: d.opt.Binary, runtime: d.opt.Runtime, ca: d.opt.CA, perServer: server != "", podman: d.podman,
	}
	if p.box = p.member; server != "" {
		p.box = hash(d.instance, string(m), string(thread), server)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, closing()
	}
	b := d.boxes[p.box]
	if b == nil {
		if len(d.boxes) >= maxBoxes {
			return nil, refusal(schemas.CodeNotReady, "there are too many sandboxes", "ask the operator")
		}
		p.folder = filepath.Join(d.folder, p.box, "run")
		b = &box{d: d, plan: p, owner: m, server: server, labels: map[string]schemas.Contact{}, idle: time.Now(), turn: make(chan struct{}, 1)}
		b.thread.Store(&thread)
		d.boxes[p.box] = b
	}
	return b, nil
}

func (d *Docker) all() []*box {
	d.mu.Lock()
	defer d.mu.Unlock()
	boxes := make([]*box, 0, len(d.boxes))
	for _, b := range d.boxes {
		boxes = append(boxes, b)
	}
	return boxes
}

// rest stops sandboxes that nobody uses, also those that an earlier bobbin left running.
func (d *Docker) rest() {
	tick := time.NewTicker(max(min(d.opt.Idle/4, time.Minute), 50*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-d.life.Done():
			return
		case <-tick.C:
		}
		for _, b := range d.all() {
			b.stopIdle(d.life, d.opt.Idle)
		}
		if time.Since(d.opened) > d.opt.Idle {
			d.stopUnknown(d.life)
		}
	}
}

func (d *Docker) stopUnknown(ctx context.Context) {
	found, err := d.find(ctx, labelInstance, d.instance, false)
	if err != nil {
		return
	}
	for _, c := range found {
		d.mu.Lock()
		known := d.boxes[c.Labels[labelBox]] != nil // before a container starts
		d.mu.Unlock()
		if !known {
			_ = d.stop(ctx, c.ID)
		}
	}
}

// Close ends every server and command and stops every sandbox, all at once; it waits for them, 20 s at most. Containers and
// workspaces stay. Launch and Exec refuse from then on.
func (d *Docker) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.life), stopTime)
	defer cancel()
	var all sync.WaitGroup
	for _, b := range d.all() {
		all.Go(func() { _ = b.halt(ctx) })
	}
	all.Wait()
	d.end()
	d.work.Wait()
	d.release()
	return d.engine.Close()
}
