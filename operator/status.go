package operator

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"bobbin/schemas"
)

const (
	lookTime  = 2 * time.Second
	lookers   = 8 // servers that are looked at side by side
	maxLine   = 16 << 10
	tailLines = 100
)

// Status is how a server is, for people and programs. It holds no secret.
type Status struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	State       string            `json:"state"` // not_found, stopped, pulling, building, starting, running, failed or remote
	Why         string            `json:"why,omitempty"`
	Hint        string            `json:"hint,omitempty"`
	Image       string            `json:"image,omitempty"`
	Digest      string            `json:"digest,omitempty"` // what of the image was taken
	Proxy       string            `json:"proxy,omitempty"`  // "bobbin", or an image
	ID          string            `json:"id,omitempty"`
	PID         int               `json:"pid,omitempty"` // of the container's first process, on the engine's machine
	Container   string            `json:"container,omitempty"`
	Network     string            `json:"network,omitempty"`
	Ports       []string          `json:"ports,omitempty"`
	Created     time.Time         `json:"created,omitzero"`
	Started     time.Time         `json:"started,omitzero"`
	Command     string            `json:"command,omitempty"`
	Configured  string            `json:"configured,omitempty"` // address inside the container, as mcps.yaml says
	Effective   string            `json:"effective,omitempty"`  // where it is reached from this machine
	AllowOrigin string            `json:"allow_origin,omitempty"`
	URL         string            `json:"url,omitempty"`     // for sessions on its network, or of a remote one
	Env         map[string]string `json:"env,omitempty"`     // values masked
	Headers     map[string]string `json:"headers,omitempty"` // values masked
	Allow       []string          `json:"allow,omitempty"`
	Socket      bool              `json:"docker_socket,omitempty"` // it has the engine's, and is root here by that
	Stale       bool              `json:"stale,omitempty"`         // its definition has changed since it was started
	Tools       int               `json:"tools"`
	Restarts    int               `json:"restarts"`
	Sessions    []string          `json:"sessions,omitempty"`
	Problems    []string          `json:"problems,omitempty"`
	Replicas    []Replica         `json:"replicas,omitempty"` // of a server that has several; what stands above is one's that runs
}

// Replica is how one of several is.
type Replica struct {
	Container string `json:"container"`
	ID        string `json:"id,omitempty"`
	PID       int    `json:"pid,omitempty"`
	State     string `json:"state"`
	Why       string `json:"why,omitempty"`
	Effective string `json:"effective,omitempty"`
	Restarts  int    `json:"restarts"`
}

// List gives how all servers are, in the order of the file. Without an engine those in containers are not known.
func (o *Operator) List(ctx context.Context) ([]Status, error) {
	f, err := o.Load(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Status, len(f.Servers))
	var g errgroup.Group
	g.SetLimit(lookers)
	for i, s := range f.Servers {
		g.Go(func() error {
			st, err := o.status(ctx, s, f)
			if err != nil {
				e := explained(s.Name, err)
				st = o.written(s, f)
				st.State, st.Why, st.Hint = "unknown", e.Text, e.Hint
			}
			all[i] = st
			return nil
		})
	}
	return all, g.Wait()
}

// Status tells about one server; CodeNotFound when there is none.
func (o *Operator) Status(ctx context.Context, name string) (Status, error) {
	f, err := o.Load(ctx)
	if err != nil {
		return Status{}, err
	}
	s, ok := f.Find(name)
	if !ok {
		return Status{}, notFound(name)
	}
	return o.status(ctx, s, f)
}

// written is what the file alone says.
func (o *Operator) written(s Server, f File) Status {
	st := Status{Name: s.Name, Type: s.Type, State: stateNone, Image: s.BaseImage, Command: s.Command, URL: s.URL, Env: starred(s.Env), Headers: starred(s.Headers), Allow: s.Allow}
	for _, p := range f.Problems {
		if p.Server == s.Name {
			st.Problems = append(st.Problems, p.String())
		}
	}
	if s.Type == Remote {
		st.State = stateRemote
		return st
	}
	if s.Wrong != "" || s.ProxyOptions == nil {
		st.State, st.Why = stateFailed, s.Wrong
		return st
	}
	opt := s.ProxyOptions
	st.Proxy, st.AllowOrigin, st.Socket = cmp.Or(s.ProxyImage, "bobbin"), opt.Origin, s.ProxyImage != "" && s.AllowDockerSocket
	st.Configured = net.JoinHostPort(opt.Host, strconv.Itoa(opt.Port))
	st.Container, st.Network = names(f.Prefix).server(s.unit()), names(f.Prefix).network(s.Name)
	st.URL = insideURL(s, "/sse")
	return st
}

// insideURL is where sessions on the server's network find it.
func insideURL(s Server, path string) string {
	return "http://" + net.JoinHostPort(s.Name, strconv.Itoa(s.ProxyOptions.Port)) + path
}

func starred(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := maps.Clone(in)
	for k, v := range out {
		if secretive(k, v) || reference().MatchString(v) {
			out[k] = "****"
		}
	}
	return out
}

func (o *Operator) status(ctx context.Context, s Server, f File) (Status, error) {
	st := o.written(s, f)
	if s.Type == Remote || s.Wrong != "" {
		return st, nil
	}
	all, err := o.found(ctx, labelServer+"="+s.Name)
	if err != nil {
		return st, err
	}
	var list []Status
	for _, r := range s.replicas() {
		one, err := o.replica(ctx, r, f, r.own(all))
		if err != nil {
			return st, err
		}
		list = append(list, one)
	}
	return together(list), nil
}

// together is how several replicas are: the server runs while one of them does.
func together(list []Status) Status {
	if len(list) == 1 {
		return list[0]
	}
	st := list[max(0, slices.IndexFunc(list, func(one Status) bool { return one.State == stateRunning }))]
	st.Ports, st.Restarts = nil, 0
	running := 0
	for _, one := range list {
		st.Ports, st.Restarts, st.Stale = append(st.Ports, one.Ports...), st.Restarts+one.Restarts, st.Stale || one.Stale
		st.Replicas = append(st.Replicas, Replica{one.Container, one.ID, one.PID, one.State, one.Why, one.Effective, one.Restarts})
		if one.State == stateRunning {
			running++
		}
	}
	if running > 0 && running < len(list) {
		st.Why, st.Hint = fmt.Sprintf("%d of %d replicas run", running, len(list)), "bobbin mcp start "+st.Name
	}
	return st
}

// replica looks at one of a server's, which has these containers.
func (o *Operator) replica(ctx context.Context, s Server, f File, all []container.Summary) (Status, error) {
	st := o.written(s, f)
	m, known := o.recall(s.unit())
	if len(all) == 0 {
		switch {
		case known != nil:
		case m.State == stateFailed:
			st.State, st.Why, st.Hint = stateFailed, m.Why, m.Hint
		case slices.Contains([]string{statePulling, stateBuilding, stateStarting}, m.State) && o.busy(ctx, s.Name):
			st.State = m.State
		}
		return st, nil
	}
	c, ok, err := o.inspect(ctx, all[0].ID)
	if err != nil || !ok {
		return st, err
	}
	o.fill(ctx, &st, s, c, m)
	return st, nil
}

// busy reports whether some bobbin is at work on a server.
func (o *Operator) busy(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	unlock, err := o.servers.Lock(ctx, name)
	if err == nil {
		unlock()
	}
	return err != nil
}

func (o *Operator) fill(ctx context.Context, st *Status, s Server, c container.InspectResponse, m memory) {
	st.ID, st.PID, st.Digest, st.Tools = c.ID[:min(12, len(c.ID))], c.State.Pid, c.Image, m.Tools
	st.Created, _ = time.Parse(time.RFC3339Nano, c.Created)
	st.Started, _ = time.Parse(time.RFC3339Nano, c.State.StartedAt)
	port := s.ProxyOptions.Port
	if c.Config != nil {
		for p := range c.Config.ExposedPorts {
			if c.Config.Labels[labelServer] == s.Name {
				port = int(p.Num())
			}
		}
	}
	if at := portOf(c, port); at != "" {
		st.Ports = []string{fmt.Sprintf("%s->%d", at, port)}
		st.Effective = at
	}
	p := o.pinned(s.Name)
	other := s.ProxyImage == "" && p.Name == s.BaseImage && p.ID != "" && p.ID != c.Image // an upgrade was killed
	if st.Stale = other || m.Print != "" && m.Print != o.print(s); st.Stale {
		st.Problems = append(st.Problems, "its definition has changed since it was started: bobbin mcp start "+s.Name)
	}
	sessions, err := o.found(ctx, labelRole+"="+roleSession)
	if err == nil {
		st.Sessions = using(sessions, s.Name)
	}
	switch {
	case !c.State.Running:
		st.State, st.Why = stateStopped, fmt.Sprintf("its container ended with %d", c.State.ExitCode)
		if c.State.OOMKilled {
			st.Why = "it ran out of memory"
		}
		if m.State == stateFailed {
			st.State, st.Why, st.Hint = stateFailed, m.Why, m.Hint
		}
		return
	case m.State == stateStarting && o.busy(ctx, s.Name):
		st.State = stateStarting
		return
	}
	st.State = stateRunning
	if s.ProxyImage != "" {
		return
	}
	o.ask(ctx, st, s)
}

// ask adds what the proxy says.
func (o *Operator) ask(ctx context.Context, st *Status, s Server) {
	w, err := o.way(s.unit())
	if err != nil {
		st.State, st.Why, st.Hint = stateFailed, "its container runs, but not by a start of this data folder", "bobbin mcp restart "+s.Name
		return
	}
	in, ok, err := w.look(ctx, lookTime)
	switch {
	case err != nil:
		st.State, st.Why, st.Hint = stateFailed, "its proxy does not answer", "bobbin mcp restart "+s.Name
	case !ok:
		st.State, st.Why, st.Hint = stateFailed, "its container was started by another hand, and its proxy does not know what to run", "bobbin mcp start "+s.Name
	case in.State == "failed":
		st.State, st.Why, st.Hint = stateFailed, in.Exit, "bobbin mcp logs "+s.Name
		if last := lastLine(in.Stderr); last != "" {
			st.Why += ": " + short(masked(schemas.Clean(last, true), o.masks(ctx, s)))
		}
	case in.State == "restarting", in.State == "starting":
		st.State, st.Why = stateStarting, in.Exit
	}
	st.Restarts = in.Restarts
}

// LogOptions of Logs.
type LogOptions struct {
	Follow  bool // until ctx ends
	Tail    int  // lines; 0 = 100, -1 = all that is kept
	Replica int  // of a server that has several, from 1; 0 = the first
}

// Logs writes what a server printed, a line each, with times in front and secrets masked.
func (o *Operator) Logs(ctx context.Context, name string, opt LogOptions, w io.Writer) error {
	f, err := o.Load(ctx)
	if err != nil {
		return err
	}
	s, ok := f.Find(name)
	switch {
	case !ok:
		return notFound(name)
	case s.Type == Remote:
		return &schemas.Error{Code: schemas.CodeInvalid, Text: "Remote MCPs don't have local logs", Hint: "who runs " + s.URL + " has them"}
	}
	n := len(s.replicas())
	if s.nth = max(0, opt.Replica-1); s.nth >= n || opt.Replica < 0 {
		return &schemas.Error{Code: schemas.CodeInvalid, Text: fmt.Sprintf("MCP server '%s' has no replica %d: the last is %d", name, opt.Replica, n)}
	}
	all, err := o.containers(ctx, s)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return &schemas.Error{Code: schemas.CodeNotReady, Text: "MCP server '" + s.unit() + "' has no container, so there are no logs", Hint: "bobbin mcp start " + name}
	}
	return o.copyLogs(ctx, all[0].ID, opt, o.masks(ctx, s), w)
}

func (o *Operator) copyLogs(ctx context.Context, id string, opt LogOptions, masks []string, w io.Writer) error {
	engine, err := o.docker(ctx)
	if err != nil {
		return err
	}
	tail := strconv.Itoa(cmp.Or(opt.Tail, tailLines))
	if opt.Tail < 0 {
		tail = "all"
	}
	logs, err := engine.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: opt.Follow, Tail: tail})
	if err != nil {
		return failed("the logs cannot be read", err)
	}
	defer logs.Close()
	plain := false
	if c, ok, err := o.inspect(ctx, id); err == nil && ok && c.Config != nil {
		plain = c.Config.Tty
	}
	r, pipe := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if plain {
			_, err = io.Copy(pipe, logs)
		} else {
			_, err = stdcopy.StdCopy(pipe, pipe, logs)
		}
		_ = pipe.CloseWithError(err)
	}()
	err = clean(r, masks, w)
	_ = r.Close()
	_ = logs.Close()
	<-done
	if errors.Is(err, context.Canceled) || ctx.Err() != nil && opt.Follow {
		return nil
	}
	return failed("the logs cannot be read", err)
}

// clean copies lines, without what a terminal would obey and without secrets.
func clean(r io.Reader, masks []string, w io.Writer) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, cut, err := in.ReadLine()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		text := masked(schemas.Clean(string(line), true), masks)
		if cut {
			text += "…"
			for cut && err == nil {
				_, cut, err = in.ReadLine()
			}
		}
		if _, err := io.WriteString(w, strings.TrimRight(text, " ")+"\n"); err != nil {
			return err
		}
	}
}
