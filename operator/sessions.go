package operator

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"bobbin/schemas"
)

// Sessions lists all sessions, by name.
func (o *Operator) Sessions(ctx context.Context) ([]Session, error) {
	found, err := o.found(ctx, labelRole+"="+roleSession)
	if err != nil {
		return nil, err
	}
	all := make([]Session, 0, len(found))
	for _, c := range found {
		all = append(all, described(c))
	}
	slices.SortFunc(all, func(a, b Session) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func described(c container.Summary) Session {
	s := Session{Name: c.Labels[labelSession], State: "ended", ID: c.ID[:min(12, len(c.ID))], Image: c.Labels[labelImage], Servers: serversOf(c), Created: time.Unix(c.Created, 0).UTC()}
	if c.State == container.StateRunning {
		s.State = stateRunning
	}
	if len(c.Names) > 0 {
		s.Container = strings.TrimPrefix(c.Names[0], "/")
	}
	if c.NetworkSettings != nil {
		for name := range c.NetworkSettings.Networks {
			s.Networks = append(s.Networks, name)
		}
		slices.Sort(s.Networks)
	}
	return s
}

func serversOf(c container.Summary) []string {
	list := []string{}
	_ = json.Unmarshal([]byte(c.Labels[labelServers]), &list) // our own label; a damaged one names none
	return list
}

// using names the sessions that use a server.
func using(sessions []container.Summary, server string) []string {
	var all []string
	for _, c := range sessions {
		if c.State == container.StateRunning && slices.Contains(serversOf(c), server) {
			all = append(all, c.Labels[labelSession])
		}
	}
	slices.Sort(all)
	return all
}

func (o *Operator) session(ctx context.Context, name string) (Session, error) {
	all, err := o.Sessions(ctx)
	if err != nil {
		return Session{}, err
	}
	i := slices.IndexFunc(all, func(s Session) bool { return s.Name == name })
	if i < 0 {
		return Session{}, &schemas.Error{Code: schemas.CodeNotFound, Text: "session '" + schemas.Clean(name, true) + "' not found", Hint: "bobbin session list shows all"}
	}
	s := all[i]
	if c, ok, err := o.inspect(ctx, s.ID); err == nil && ok {
		s.Exit = c.State.ExitCode
	}
	return s, nil
}

// StopSession ends a session and removes its container and network. Its servers run on.
func (o *Operator) StopSession(ctx context.Context, name string) error {
	s, err := o.session(ctx, name)
	if err != nil {
		return err
	}
	if err := o.discard(ctx, s.ID); err != nil {
		return err
	}
	for _, n := range s.Networks { // its own, and those of servers that were removed meanwhile
		o.forsake(ctx, n)
	}
	all, err := o.state.Sub("sessions")
	if err != nil {
		return failed("the session's folder stays", err)
	}
	defer all.Close()
	return all.RemoveAll(name)
}

// SessionLogs writes what a session's driver printed, as [Operator.Logs] does.
func (o *Operator) SessionLogs(ctx context.Context, name string, opt LogOptions, w io.Writer) error {
	s, err := o.session(ctx, name)
	if err != nil {
		return err
	}
	f, err := o.Load(ctx)
	if err != nil {
		return err
	}
	var masks []string
	for _, server := range s.Servers {
		if e, ok := f.Find(server); ok {
			masks = append(masks, o.masks(ctx, e)...)
		}
		if m, err := o.recall(server); err == nil && m.Token != "" {
			masks = append(masks, m.Token)
		}
	}
	return o.copyLogs(ctx, s.ID, opt, masks, w)
}

// SessionEnv gives the variables of a session as they would be given now.
func (o *Operator) SessionEnv(ctx context.Context, name string) ([]Variable, error) {
	s, err := o.session(ctx, name)
	if err != nil {
		return nil, err
	}
	f, err := o.Load(ctx)
	if err != nil {
		return nil, err
	}
	var use []attached
	for _, server := range s.Servers {
		e, ok := f.Find(server)
		if !ok {
			continue // removed since
		}
		a := attached{server: e}
		if m, err := o.recall(server); err == nil {
			a.token = m.Token
		}
		use = append(use, a)
	}
	return o.variables(ctx, use)
}

// rejoin puts the sessions that use a server on its network, which may be a new one.
func (o *Operator) rejoin(ctx context.Context, s Server, prefix names) error {
	sessions, err := o.found(ctx, labelRole+"="+roleSession)
	if err != nil {
		return err
	}
	for i, c := range sessions {
		if c.State == container.StateRunning && slices.Contains(serversOf(c), s.Name) {
			if err := o.join(ctx, prefix.network(s.Name), c.ID, s.link(i, prefix)); err != nil {
				return err
			}
		}
	}
	return nil
}
