package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"bobbin/registry/internal/session"
	"bobbin/schemas"
)

const (
	maxFollows  = 64 // resources of one server that somebody follows
	maxAudience = 256
)

// Follow gives a tick, never more than one waiting, when a server says that a resource was updated; stop ends it. It outlives a restart
// of the server, but a server that is stopped until it is needed says nothing. CodeMissing: it never says so.
func (r *Registry) Follow(ctx context.Context, c schemas.Caller, server, uri string) (updates <-chan struct{}, stop func(), err error) {
	if uri == "" || len(uri) > maxURI {
		return nil, nil, &schemas.Error{Code: schemas.CodeInvalid, Text: fmt.Sprintf("the address of a resource has 1 to %d bytes", maxURI)}
	}
	var m *meter
	var t *thread
	in := schemas.Call{Caller: c, Origin: originOf(c)}
	_, err = r.ask(ctx, in, server, "resources/read", func(ctx context.Context, c *call, s *session.Session) (json.RawMessage, error) {
		m, t = c.inst.meter, c.t
		if !s.Info().Subscribe {
			return nil, fmt.Errorf("%w: %w", session.ErrNotSent, &schemas.Error{Code: schemas.CodeMissing, Text: server + " does not say when its resources change"})
		}
		return json.RawMessage("{}"), s.Subscribe(ctx, uri, true)
	})
	if err != nil {
		return nil, nil, err
	}
	ch := make(chan struct{}, 1)
	if !m.follow(uri, ch) {
		return nil, nil, &schemas.Error{Code: schemas.CodeTooLarge, Text: "too many resources of " + server + " are followed"}
	}
	return ch, func() {
		if !m.unfollow(uri, ch) {
			return
		}
		if v := t.snap.Load().byName[server]; v != nil && v.inst != nil && v.inst.acquire() {
			defer v.inst.release(time.Time{})
			ctx, cancel := context.WithTimeout(v.inst.life, listTime)
			defer cancel()
			_ = v.inst.sess.Subscribe(ctx, uri, false) // it says too much at worst
		}
	}, nil
}

func (m *meter) follow(uri string, ch chan struct{}) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.follows == nil {
		m.follows = map[string]map[chan struct{}]struct{}{}
	}
	if m.follows[uri] == nil {
		if len(m.follows) >= maxFollows {
			return false
		}
		m.follows[uri] = map[chan struct{}]struct{}{}
	}
	if len(m.follows[uri]) >= maxAudience {
		return false
	}
	m.follows[uri][ch] = struct{}{}
	return true
}

// unfollow reports whether nobody follows the resource any more.
func (m *meter) unfollow(uri string, ch chan struct{}) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.follows[uri][ch]; !ok {
		return false
	}
	delete(m.follows[uri], ch)
	if len(m.follows[uri]) > 0 {
		return false
	}
	delete(m.follows, uri)
	return true
}

// updated hears that a resource changed.
func (m *meter) updated(params json.RawMessage) {
	var in struct{ URI string }
	if json.Unmarshal(params, &in) != nil {
		return
	}
	m.ring(in.URI)
}

func (m *meter) ring(uri string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ch := range m.follows[uri] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// followAgain tells a server that started anew what is followed, and those who follow that they may have missed something.
func (i *instance) followAgain() {
	if !i.info.Subscribe {
		return
	}
	i.meter.mu.Lock()
	all := slices.Collect(maps.Keys(i.meter.follows))
	i.meter.mu.Unlock()
	ctx, cancel := context.WithTimeout(i.life, listTime)
	defer cancel()
	for _, uri := range all {
		if i.sess.Subscribe(ctx, uri, true) == nil {
			i.meter.ring(uri)
		}
	}
}
