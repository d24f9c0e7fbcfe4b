package operator

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"bobbin/internal/engine"
	"bobbin/schemas"
)

const (
	pingTime   = 3 * time.Second
	engineTime = 30 * time.Second // one call of the engine
	stopTime   = 10               // seconds until what does not want to stop is killed
)

// docker gives the engine, which is looked for when it is first needed.
func (o *Operator) docker(ctx context.Context) (*client.Client, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.engine != nil {
		return o.engine, nil
	}
	found, err := engine.Connect(ctx, o.opt.Engine, "servers of type remote need none")
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if o.podman, err = engine.Podman(asking, found); err != nil {
		return nil, errors.Join(err, found.Close())
	}
	o.engine = found
	return found, nil
}

// socket is where the engine's own is on its machine.
func (o *Operator) socket() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.engine != nil {
		if path, ok := strings.CutPrefix(o.engine.DaemonHost(), "unix://"); ok && path != "" {
			return path
		}
	}
	return engineSocket
}

// failed gives an error of the engine words for the operator, who may see what it says.
func failed(what string, err error) error {
	if _, ok := asError(err); ok || err == nil {
		return err
	}
	if e := engine.Explain(err); e != nil {
		return e
	}
	e := &schemas.Error{Code: schemas.CodeFailed, Text: what + ": " + says(err), Hint: "the engine's log tells more", Err: err}
	switch {
	case client.IsErrConnectionFailed(err):
		e.Code, e.Text, e.Hint = schemas.CodeMissing, what+": the container engine does not answer", "start it again"
	case errors.Is(err, context.DeadlineExceeded):
		e.Text, e.Hint = what+": the container engine did not answer in time", "look at its log"
	}
	return e
}

// says is an error of the engine in one line.
func says(err error) string {
	return short(engine.Unreached(schemas.Clean(strings.TrimPrefix(err.Error(), "Error response from daemon: "), true)))
}

func short(text string) string {
	if r := []rune(text); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return text
}

// found lists what this data folder made: containers with all of the labels.
func (o *Operator) found(ctx context.Context, labels ...string) ([]container.Summary, error) {
	engine, err := o.docker(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	filter := make(client.Filters).Add("label", labelInstance+"="+o.instance)
	for _, l := range labels {
		filter.Add("label", l)
	}
	r, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, failed("the containers cannot be listed", err)
	}
	return r.Items, nil
}

// inspect gives a container by id or name; ok is false when there is none.
func (o *Operator) inspect(ctx context.Context, id string) (c container.InspectResponse, ok bool, err error) {
	engine, err := o.docker(ctx)
	if err != nil {
		return c, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	r, err := engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return c, false, nil
	case err != nil:
		return c, false, failed("the container cannot be looked at", err)
	}
	return r.Container, r.Container.State != nil, nil
}

// create makes a container. A name that something else has is said so; one of before, which an engine under load was still making when
// its bobbin was killed or gave up, goes, if it is a server's or an inspector's: a session is for the person who made it to end.
func (o *Operator) create(ctx context.Context, s client.ContainerCreateOptions) (id string, err error) {
	docker, err := o.docker(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	if o.podman { // for any, also for "NONE", it has systemd start a program every half a minute
		s.Config.Healthcheck = nil
	}
	for tries := 0; ; tries++ {
		r, err := docker.ContainerCreate(ctx, s)
		switch {
		case err == nil:
			return r.ID, nil
		case !engine.Taken(err):
			return "", failed("the container "+s.Name+" cannot be made", err)
		}
		c, there, e := o.inspect(ctx, s.Name)
		ours := there && c.Config != nil && c.Config.Labels[labelInstance] == o.instance
		left := ours && (c.Config.Labels[labelRole] == roleServer || c.Config.Labels[labelRole] == roleInspector && !c.State.Running)
		switch {
		case ours && !left:
			return "", &schemas.Error{Code: schemas.CodeConflict, Text: "another bobbin has just made the container " + s.Name, Hint: "try again in a moment", Err: err}
		case e != nil || there && !ours || tries == 20:
			return "", &schemas.Error{Code: schemas.CodeConflict, Text: "the engine has a container " + s.Name + " that is not of this data folder",
				Hint: "look at it with docker inspect, then docker rm it, or set another prefix: in " + FileName, Err: errors.Join(err, e)}
		case left:
			if err := o.discard(ctx, c.ID); err != nil {
				return "", err
			}
		}
		select {
		case <-ctx.Done():
			return "", failed("the container "+s.Name+" cannot be made", ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// startContainer starts a container once more when a network of its has got a twin in the meantime: an engine starts by names.
func (o *Operator) startContainer(ctx context.Context, id string) error {
	engine, err := o.docker(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	if _, err = engine.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil && o.untwin(ctx, id) {
		_, err = engine.ContainerStart(ctx, id, client.ContainerStartOptions{})
	}
	return failed("the container cannot be started", err)
}

// discard stops a container and removes it; one that is gone is no error.
func (o *Operator) discard(ctx context.Context, id string) error {
	engine, err := o.docker(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	patience := stopTime
	if _, err = engine.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &patience}); err == nil || errdefs.IsNotModified(err) {
		_, err = engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return failed("the container cannot be stopped", err)
}
