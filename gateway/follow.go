package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"

	"bobbin/schemas"
)

// subscribe has the client told when a resource is updated (MCP specification before 2026-07-28, Resources, Subscriptions).
func (x *exchange) subscribe(ctx context.Context) outcome {
	uri := x.m.params.URI
	if uri == "" {
		return wrong(codeParams, "uri is missing")
	}
	server, at, err := x.whose(ctx, uri)
	if err != nil {
		return x.failed(ctx, err)
	}
	if server == "" {
		return outcome{fault: &fault{code: codeNoResource, text: "no such resource here", data: encode(map[string]string{"uri": uri})}}
	}
	updates, stop, err := x.g.opt.Resources.Follow(ctx, x.caller, server, at)
	if e, ok := errors.AsType[*schemas.Error](err); ok && e.Code == schemas.CodeMissing {
		return wrong(codeParams, words(e))
	}
	if f := refused(err); f != nil && ctx.Err() == nil {
		return outcome{fault: f}
	}
	if err != nil {
		return x.failed(ctx, err)
	}
	if !x.n.follow(uri, updates, stop) {
		return wrong(codeServer, "too many resources are followed, or the session has ended")
	}
	return outcome{result: []byte("{}")}
}

// follow passes updates of a resource on until unfollow or the end of the session.
func (n *session) follow(uri string, updates <-chan struct{}, stop func()) bool {
	ended := make(chan struct{})
	n.mu.Lock()
	ok := !n.ended && len(n.subs) < maxUnder
	twice := n.subs[uri] != nil
	if ok && !twice {
		if n.subs == nil {
			n.subs = map[string]func(){}
		}
		n.subs[uri] = func() { close(ended) }
	}
	n.mu.Unlock()
	started := ok && !twice && n.g.tail(n.token, func() {
		defer stop()
		for {
			select {
			case <-ended:
				return
			case <-updates:
			}
			n.mu.Lock()
			send := n.send
			n.mu.Unlock()
			if send != nil {
				send(updated(uri))
			}
		}
	})
	if !started {
		stop()
		if !twice {
			n.unfollow(uri)
		}
		return ok && twice
	}
	return true
}

// tail runs fn, which follows a resource, beside everything else; false when a token, or all, follow too many.
func (g *Gateway) tail(token string, fn func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.claim("follow", token, g.follows, g.opt.Streams) {
		return false
	}
	g.follows++
	go func() {
		defer g.wg.Done()
		fn()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.follows--
		g.unclaim("follow", token)
	}()
	return true
}

func (n *session) unfollow(uri string) {
	n.mu.Lock()
	end := n.subs[uri]
	delete(n.subs, uri)
	n.mu.Unlock()
	if end != nil {
		end()
	}
}

// see notes what the client of a session was told of last, so that it hears of the difference when it comes back.
func (n *session) see(p *print) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = p
}

func (n *session) sight() *print {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// alarm says that everything may have changed.
func (n *session) alarm(t *trail) {
	n.mu.Lock()
	uris := slices.Sorted(maps.Keys(n.subs))
	n.mu.Unlock()
	for _, list := range []string{"tools", "resources", "prompts"} {
		t.say(notification("notifications/"+list+"/list_changed", nil))
	}
	for _, uri := range uris {
		t.say(updated(uri))
	}
}

func updated(uri string) []byte {
	return notification("notifications/resources/updated", encode(map[string]string{"uri": uri}))
}
