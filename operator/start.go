package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"bobbin/schemas"
)

const (
	pullTime  = 30 * time.Minute
	readyTime = 20 * time.Second // from the start of a container until its proxy answers
)

// The states of a server.
const (
	stateNone     = "not_found" // there is no container
	stateStopped  = "stopped"   // its container does not run
	statePulling  = "pulling"
	stateBuilding = "building"
	stateStarting = "starting"
	stateRunning  = "running"
	stateFailed   = "failed"
	stateRemote   = "remote" // somebody else runs it
)

// Start runs a server's container, and makes it if there is none or its definition has changed; one that runs as it is written is
// left alone. It returns when the server has answered, with its state. tell hears of the steps, and may be nil. A remote server is
// somebody else's to start.
func (o *Operator) Start(ctx context.Context, name string, tell func(step string)) (Status, error) {
	return o.begin(ctx, name, tell, false)
}

// Restart is Stop and Start; the definition is read again.
func (o *Operator) Restart(ctx context.Context, name string, tell func(step string)) (Status, error) {
	return o.begin(ctx, name, tell, true)
}

func (o *Operator) begin(ctx context.Context, name string, tell func(step string), anew bool) (Status, error) {
	if tell == nil {
		tell = func(string) {}
	}
	if err := o.Seal(ctx); err != nil {
		return Status{}, err
	}
	s, f, err := o.usable(ctx, name)
	if err != nil {
		return Status{}, err
	}
	if s.Type == Remote {
		return o.Status(ctx, name)
	}
	unlock, err := o.hold(ctx, name)
	if err != nil {
		return Status{}, err
	}
	defer unlock()
	if err := o.shed(ctx, s, names(f.Prefix)); err != nil {
		return Status{}, explained(name, err)
	}
	all := s.replicas()
	for i, s := range all {
		o.forget(s.unit())
		r := &run{o: o, server: s, prefix: names(f.Prefix), tell: tell}
		if len(all) > 1 {
			r.tell = func(step string) {
				if step != stateRunning {
					tell(fmt.Sprintf("%s %d of %d", step, i+1, len(all)))
				}
			}
		}
		if err := r.start(ctx, anew); err != nil {
			return Status{}, r.failed(err)
		}
	}
	return o.Status(ctx, name)
}

// failed writes down why a start failed, unless what ran before it runs on.
func (r *run) failed(err error) error {
	e := explained(r.server.Name, err)
	if r.server.nth > 0 {
		e = ending(e, " (replica "+r.server.unit()+")")
	}
	switch {
	case r.unseen:
		return e
	case r.serving:
		return ending(e, "; what ran before runs on")
	}
	return errors.Join(e, r.o.remember(r.server.unit(), memory{State: stateFailed, Why: e.Text, Hint: e.Hint}))
}

func explained(name string, err error) *schemas.Error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &schemas.Error{Code: schemas.CodeNotReady, Text: name + " was not up in time", Hint: "bobbin mcp start " + name + " waits as long as it takes", Err: err}
	}
	if e, ok := asError(err); ok {
		return e
	}
	return &schemas.Error{Code: schemas.CodeFailed, Text: name + " could not be started: " + says(err), Hint: "bobbin mcp logs " + name, Err: err}
}

// ending is an error with more at the end of its words.
func ending(e *schemas.Error, more string) *schemas.Error {
	longer := *e
	longer.Text += more
	return &longer
}

// usable finds an entry that can be used.
func (o *Operator) usable(ctx context.Context, name string) (Server, File, error) {
	f, err := o.Load(ctx)
	if err != nil {
		return Server{}, f, err
	}
	s, ok := f.Find(name)
	switch {
	case !ok:
		return s, f, notFound(name)
	case s.Wrong != "":
		return s, f, &schemas.Error{Code: schemas.CodeInvalid, Text: name + ": " + s.Wrong, Hint: "correct it in " + FileName}
	}
	return s, f, nil
}

// run is one start of a replica of a server.
type run struct {
	o      *Operator
	server Server
	prefix names
	tell   func(string)
	values map[string]schemas.Secret

	serving bool // a container of before is up, and stays so until clear
	unseen  bool // it ran when the engine was last seen
}

func (r *run) step(state string) error {
	r.tell(state)
	if r.serving {
		return nil
	}
	return r.o.remember(r.server.unit(), memory{State: state})
}

func (r *run) start(ctx context.Context, anew bool) (err error) {
	o, s := r.o, r.server
	if s.ProxyImage != "" && !s.AllowDockerSocket {
		return &schemas.Error{Code: schemas.CodeDenied, Text: s.Name + " has a proxy_image, which starts the server through the engine's socket, and whoever has that is root here",
			Hint: "take proxy_image out, and bobbin's own proxy serves it; or write allow_docker_socket: true"}
	}
	if m, err := o.recall(s.unit()); err == nil && m.State == stateRunning {
		all, err := o.containers(ctx, s)
		if r.unseen = err != nil; r.unseen {
			return err
		}
		r.serving = slices.ContainsFunc(all, func(c container.Summary) bool { return c.State == container.StateRunning })
	}
	if r.values, err = o.resolve(ctx, s, s.Env); err != nil {
		return err
	}
	p := plan{server: s, prefix: r.prefix, instance: o.instance, folder: o.folder(s.unit())}
	var base image.InspectResponse
	if base, err = r.base(ctx); err != nil {
		return err
	}
	p.podman = o.podman
	var c client.ContainerCreateOptions
	var line commandLine
	if s.ProxyImage != "" {
		if p.image, err = r.build(ctx); err != nil {
			return err
		}
		p.engine = o.socket()
		c = foreignSpec(p)
	} else {
		p.image = base.ID
		if p.binary, err = o.binary(); err != nil {
			return err
		}
		if line, err = r.command(base); err != nil {
			return err
		}
		c = serverSpec(p)
	}
	mark := o.fingerprint(c, []any{line.Command, line.Args}, r.values)
	c.Config.Labels[labelPrint] = mark
	running, err := r.clear(ctx, mark, anew)
	if err != nil {
		return err
	}
	if running == "" {
		if err := r.step(stateStarting); err != nil {
			return err
		}
	}
	if _, err := o.network(ctx, r.prefix.common(), roleServer, true); err != nil {
		return err
	}
	if running != "" {
		return r.resume(ctx, running, line)
	}
	if _, err := o.network(ctx, r.prefix.network(s.Name), roleServer, false); err != nil {
		return err
	}
	return r.bring(ctx, c, line)
}

// image finds an image, and pulls one that is not here.
func (r *run) image(ctx context.Context, name string) (image.InspectResponse, error) {
	return r.fetch(ctx, name, func() error { return r.step(statePulling) })
}

func (r *run) fetch(ctx context.Context, name string, pulling func() error) (image.InspectResponse, error) {
	engine, err := r.o.docker(ctx)
	if err != nil {
		return image.InspectResponse{}, err
	}
	found, err := engine.ImageInspect(ctx, name)
	if err == nil {
		return found.InspectResponse, nil
	}
	if !errdefs.IsNotFound(err) {
		return image.InspectResponse{}, failed("the image "+name+" cannot be looked at", err)
	}
	if err := pulling(); err != nil {
		return image.InspectResponse{}, err
	}
	long, cancel := context.WithTimeout(ctx, pullTime)
	defer cancel()
	pull, err := engine.ImagePull(long, name, client.ImagePullOptions{})
	if err == nil {
		err = pull.Wait(long)
		_ = pull.Close()
	}
	if err == nil {
		found, err = engine.ImageInspect(ctx, name)
	}
	if err != nil {
		return image.InspectResponse{}, &schemas.Error{Code: schemas.CodeMissing, Text: "the image " + name + " is not here and cannot be pulled: " + says(err),
			Hint: "check its name, or bring it here: docker pull, docker load or docker build", Err: err}
	}
	return found.InspectResponse, nil
}

// command is what docker run would start: the image's entrypoint, and the words of command in the place of the image's own.
func (r *run) command(base image.InspectResponse) (commandLine, error) {
	var all []string
	if base.Config != nil {
		all = slices.Clone(base.Config.Entrypoint)
	}
	more, err := words(r.server.Command)
	if err != nil {
		return commandLine{}, err
	}
	if len(more) == 0 && base.Config != nil {
		more = base.Config.Cmd
	}
	if all = append(all, more...); len(all) == 0 {
		return commandLine{}, &schemas.Error{Code: schemas.CodeInvalid, Text: "the image " + r.server.BaseImage + " does not say what to run", Hint: "write command: in " + FileName}
	}
	env := make(map[string]string, len(r.values))
	for k, v := range r.values {
		env[k] = v.Reveal()
	}
	return commandLine{Command: all[0], Args: all[1:], Env: env}, nil
}

// clear removes containers of another definition; running is one of this definition that runs.
func (r *run) clear(ctx context.Context, mark string, anew bool) (running string, err error) {
	all, err := r.o.containers(ctx, r.server)
	if err != nil {
		return "", err
	}
	for _, c := range all {
		if !anew && c.Labels[labelPrint] == mark && c.State == container.StateRunning {
			running = c.ID
			continue
		}
		r.serving = running != ""
		if err := r.o.discard(ctx, c.ID); err != nil {
			return "", err
		}
	}
	return running, nil
}

// bring makes and starts the container, and waits until the server answers. A container that does not come up is removed.
func (r *run) bring(ctx context.Context, c client.ContainerCreateOptions, line commandLine) (err error) {
	o, name := r.o, r.server.unit()
	m := memory{State: stateStarting, Print: o.print(r.server)}
	if r.server.ProxyImage == "" {
		if m.Token, err = o.token(r.server.Name); err != nil {
			return failed("the token of "+name+" cannot be kept", err)
		}
		if err := lend(o.folder(name), m.Token); err != nil {
			return err
		}
	}
	id, err := o.create(ctx, c)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = o.discard(context.WithoutCancel(ctx), id)
		}
	}()
	if r.server.ProxyImage != "" {
		err = r.feed(ctx, id)
	} else {
		err = o.startContainer(ctx, id)
	}
	if err != nil {
		return err
	}
	made, _, err := o.inspect(ctx, id)
	if err != nil {
		return err
	}
	m.Port = portOf(made, r.server.ProxyOptions.Port)
	if r.server.ProxyImage != "" {
		if err := o.awaitForeign(ctx, id, m.Port); err != nil {
			return err
		}
	}
	if err := o.remember(name, m); err != nil {
		return err
	}
	if r.server.ProxyImage == "" {
		w := newWay(name, m.Token, filepath.Join(o.folder(name), proxySocket), m.Port)
		defer w.http.CloseIdleConnections()
		if err := o.await(ctx, id, w); err != nil {
			return err
		}
		if err := closeFolder(o.folder(name)); err != nil {
			return err
		}
		if m.Tools, err = r.register(ctx, w, line); err != nil {
			return err
		}
	}
	m.State = stateRunning
	if err := o.rejoin(ctx, r.server, r.prefix); err != nil {
		return err
	}
	r.tell(stateRunning)
	return o.remember(name, m)
}

// resume is for a container that runs already, perhaps since before this bobbin. Its proxy may have been started again by a hand
// and know of nothing, its network may have been taken away, and the bobbin that began it may have been killed.
func (r *run) resume(ctx context.Context, id string, line commandLine) error {
	name := r.server.unit()
	if err := r.o.join(ctx, r.prefix.network(r.server.Name), id, &network.EndpointSettings{Aliases: []string{name}}); err != nil {
		return err
	}
	m, err := r.o.recall(name)
	if err == nil && r.server.ProxyImage == "" {
		w := newWay(name, m.Token, filepath.Join(r.o.folder(name), proxySocket), m.Port)
		defer w.http.CloseIdleConnections()
		if err = w.ping(ctx, pingTime); err == nil {
			if err := closeFolder(r.o.folder(name)); err != nil {
				return err
			}
			r.serving = false // if it does not work now, nothing does
			if m.Tools, err = r.register(ctx, w, line); err != nil {
				return err
			}
		}
	}
	if err != nil { // it cannot be spoken to: another one takes its place
		return r.start(ctx, true)
	}
	if err := r.o.rejoin(ctx, r.server, r.prefix); err != nil {
		return err
	}
	m.State, m.Why, m.Hint, m.Print = stateRunning, "", "", r.o.print(r.server)
	r.tell(stateRunning)
	return r.o.remember(name, m)
}

func (r *run) register(ctx context.Context, w *way, line commandLine) (tools int, err error) {
	in, err := w.register(ctx, line)
	switch {
	case err != nil:
		return 0, failed(r.server.Name+"'s proxy does not answer", err)
	case in.Error == "":
		return len(in.Tools), nil
	}
	masks := r.o.masks(ctx, r.server)
	why := cmp.Or(in.Exit, in.Error)
	if in.State == "running" || in.State == "starting" {
		why = in.Error
	}
	why = strings.TrimSuffix(why, "; the call did not run") // none was made
	if last := lastLine(in.Stderr); last != "" {
		why += ": " + last
	}
	return 0, &schemas.Error{Code: schemas.CodeFailed, Text: r.server.Name + " does not work: " + short(masked(schemas.Clean(why, true), masks)), Hint: r.advice(in)}
}

func (r *run) advice(in inside) string {
	if strings.Contains(in.Stderr, "ead-only file system") || strings.Contains(in.Stderr, "EROFS") {
		return "its file system is read-only but for /tmp; writable: true in " + FileName + " changes that"
	}
	return "check command and env in " + FileName
}

// lastLine is the last one that says something.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// lend makes the folder of the socket anew, with the token for the proxy inside. Until the proxy is up only that runs in the
// container, so only until then may the folder be written to from inside.
func lend(folder, token string) error {
	err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700))
	if err != nil {
		return err
	}
	in, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer in.Close()
	// The user inside is another one; the folder above keeps out everybody here.
	if err := errors.Join(in.WriteFile(tokenFile, []byte(token), 0o644), in.Chmod(tokenFile, 0o644)); err != nil {
		return err
	}
	return os.Chmod(folder, 0o777)
}

// closeFolder takes the token out and lets nobody inside write any more.
func closeFolder(folder string) error {
	err := os.Remove(filepath.Join(folder, tokenFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.Chmod(folder, 0o755))
}

// await waits until a container's proxy answers.
func (o *Operator) await(ctx context.Context, id string, w *way) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	pause := 5 * time.Millisecond
	for looked := time.Now(); ; {
		err := w.ping(ctx, time.Second)
		if err == nil {
			return nil
		}
		if time.Since(looked) > 300*time.Millisecond {
			looked = time.Now()
			if c, ok, e := o.inspect(ctx, id); e == nil && (!ok || !c.State.Running) {
				return o.ended(ctx, id, c)
			}
		}
		select {
		case <-ctx.Done():
			return &schemas.Error{Code: schemas.CodeFailed, Text: "the proxy in the container does not answer", Hint: "docker logs " + id[:12], Err: err}
		case <-time.After(pause):
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// ended says why a container is over.
func (o *Operator) ended(ctx context.Context, id string, c container.InspectResponse) error {
	e := &schemas.Error{Code: schemas.CodeFailed, Text: "the container ended at its start"}
	if c.State != nil {
		e.Text = fmt.Sprintf("the container ended with %d", c.State.ExitCode)
		if c.State.Error != "" {
			e.Text += ": " + short(schemas.Clean(c.State.Error, true))
		}
	}
	var b strings.Builder
	if err := o.copyLogs(ctx, id, LogOptions{Tail: 5}, nil, &b); err == nil && strings.TrimSpace(b.String()) != "" {
		e.Text += ": " + short(schemas.Clean(lastLine(b.String()), true))
	}
	return e
}
