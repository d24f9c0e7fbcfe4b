package operator

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// A server may run several times. Its entry, image, token and network are one; each replica has a container, a state, a way and a
// health of its own, by its unit. An MCP session lives in one of them, so who begins to use the server gets one and stays with it.

// MaxReplicas is how often a server may run.
const MaxReplicas = 8

const turnFile = "turn"

// replicas of a server, each as that server.
func (s Server) replicas() []Server {
	all := make([]Server, max(1, s.Replicas))
	for i := range all {
		all[i] = s
		all[i].nth = i
	}
	return all
}

// unit is the name of one replica; the first has the server's own.
func (s Server) unit() string { return unit(s.Name, s.nth) }

func unit(name string, nth int) string {
	if nth == 0 {
		return name
	}
	return name + "_" + strconv.Itoa(nth+1)
}

// unitOf a server's container.
func unitOf(c container.Summary) string {
	n, _ := strconv.Atoi(c.Labels[labelReplica]) // the first has none
	return unit(c.Labels[labelServer], max(n-1, 0))
}

// clash names an entry and a replica of another one that would have the same name, "" if there are none.
func (f File) clash(s Server) string {
	for _, other := range f.Servers {
		if other.Name == s.Name {
			continue
		}
		for i := range MaxReplicas {
			if i < other.Replicas && unit(other.Name, i) == s.Name || i < s.Replicas && unit(s.Name, i) == other.Name {
				return other.Name
			}
		}
	}
	return ""
}

func clashing(name, other string) string {
	return name + " and " + other + " would have replicas of the same name"
}

// containers of one replica.
func (o *Operator) containers(ctx context.Context, s Server) ([]container.Summary, error) {
	all, err := o.found(ctx, labelServer+"="+s.Name)
	return s.own(all), err
}

// own gives one replica's of a server's containers.
func (s Server) own(all []container.Summary) (own []container.Summary) {
	for _, c := range all {
		if unitOf(c) == s.unit() {
			own = append(own, c)
		}
	}
	return own
}

// shed stops the replicas that a server has no more. Sessions that used one are given another when they join again.
func (o *Operator) shed(ctx context.Context, s Server, prefix names) error {
	all, err := o.found(ctx, labelServer+"="+s.Name)
	if err != nil {
		return err
	}
	for _, c := range all {
		if slices.ContainsFunc(s.replicas(), func(r Server) bool { return r.unit() == unitOf(c) }) {
			continue
		}
		if err := o.discard(ctx, c.ID); err != nil {
			return err
		}
		o.forget(unitOf(c))
		if err := o.servers.RemoveAll(unitOf(c)); err != nil {
			return failed("what is kept of "+unitOf(c)+" cannot be removed", err)
		}
		if err := o.unlink(ctx, s, prefix.server(unitOf(c)), prefix); err != nil {
			return err
		}
	}
	return nil
}

// link leads a session to one replica: the server's name means that one there, whatever it means to others on the network.
func (s Server) link(n int, prefix names) *network.EndpointSettings {
	all := s.replicas()
	if len(all) < 2 {
		return &network.EndpointSettings{}
	}
	return &network.EndpointSettings{Links: []string{prefix.server(all[n%len(all)].unit()) + ":" + s.Name}}
}

// unlink takes the sessions that were led to a container off the server's network.
func (o *Operator) unlink(ctx context.Context, s Server, name string, prefix names) error {
	engine, err := o.docker(ctx)
	if err != nil {
		return err
	}
	sessions, err := o.found(ctx, labelRole+"="+roleSession)
	if err != nil {
		return err
	}
	for _, c := range sessions {
		c, ok, err := o.inspect(ctx, c.ID)
		if err != nil || !ok || c.NetworkSettings == nil {
			continue // it has ended
		}
		if at := c.NetworkSettings.Networks[prefix.network(s.Name)]; at != nil && slices.Contains(at.Links, name+":"+s.Name) {
			if _, err := engine.NetworkDisconnect(ctx, at.NetworkID, client.NetworkDisconnectOptions{Container: c.ID, Force: true}); err != nil {
				return failed("the session "+c.Name+" cannot be led to another replica", err)
			}
		}
	}
	return nil
}

// seat of a connection: the replica that it uses all its life.
type seat struct {
	mu   sync.Mutex
	unit string
}

// of gives the replica; at first that is the next in turn that answers.
func (t *seat) of(ctx context.Context, o *Operator, s Server) string {
	if s.Replicas < 2 {
		return s.Name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := s.replicas()
	if slices.ContainsFunc(all, func(r Server) bool { return r.unit() == t.unit }) {
		return t.unit
	}
	first := o.turn(ctx, s)
	t.unit = all[first%len(all)].unit() // if none answers, all are started for that one
	for i := range all {
		r := all[(first+i)%len(all)].unit()
		if w, err := o.way(r); err == nil && w.ping(ctx, pingTime) == nil {
			t.unit = r
			break
		}
	}
	return t.unit
}

// turn counts who begins to use a server of several replicas, at whatever bobbin of this data folder.
func (o *Operator) turn(ctx context.Context, s Server) (n int) {
	if s.Replicas < 2 {
		return 0
	}
	unlock, err := o.state.Lock(ctx, "turns")
	if err != nil {
		return 0
	}
	defer unlock()
	dir, err := o.servers.Sub(s.Name)
	if err != nil {
		return 0
	}
	defer dir.Close()
	if text, err := dir.Read(turnFile, 32); err == nil {
		n, _ = strconv.Atoi(string(text))
	}
	n = max(n, 0) % s.Replicas
	if err := dir.Write(turnFile, strconv.AppendInt(nil, int64(n+1), 10)); err != nil {
		o.opt.Log.Warn("who uses which replica next is not written down", "server", s.Name, "err", err)
	}
	return n
}
